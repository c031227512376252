//! Rates and times over the last minutes, as charts.

use everglade_api::Size;
use maud::{Markup, PreEscaped, html};
use plotters::prelude::*;

/// One moment of a course: what happened in the seconds before it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Seconds before now.
    pub age: f64,
    /// Operations in a second: reads, writes.
    pub operations: [f64; 2],
    /// Bytes in a second: read, written.
    pub bytes: [f64; 2],
    /// Mean time of an operation, in milliseconds: reads, writes.
    pub latency: [f64; 2],
}

/// The last minutes of a server, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// Measured moments.
    pub points: Vec<Point>,
    /// The LUNs that were used in the last seconds, busiest first.
    pub luns: Vec<(String, Point)>,
}

impl Course {
    /// What a LUN had in the last seconds.
    #[must_use]
    pub fn of_lun(&self, name: &str) -> Option<&Point> {
        let mut luns = self.luns.iter();
        luns.find(|(known, _)| known == name).map(|(_, load)| load)
    }
}

/// Size of a chart in its own units. The style sheet scales it.
const EXTENT: (u32, u32) = (380, 180);
const READS: RGBColor = RGBColor(0x0b, 0x5d, 0x44);
const WRITES: RGBColor = RGBColor(0xb3, 0x5c, 0x00);

impl Course {
    /// The charts.
    pub(crate) fn charts(&self) -> Markup {
        let last = self.points.last().copied().unwrap_or_default();
        let all = [
            (
                "Operations in a second",
                picture(self, |it| it.operations, &rate),
                last.operations.map(rate),
            ),
            (
                "Throughput",
                picture(self, |it| it.bytes, &bytes),
                last.bytes.map(bytes),
            ),
            (
                "Mean latency",
                picture(self, |it| it.latency, &milliseconds),
                last.latency.map(milliseconds),
            ),
        ];
        html! {
            @if self.points.len() < 2 {
                p class="quiet" {
                    "The server measures while somebody looks. The charts begin in a few seconds."
                }
            } @else {
                div class="charts" {
                    @for (title, picture, [reads, writes]) in all {
                        @let now = format!("{title}, last: reads {reads}, writes {writes}");
                        figure {
                            figcaption {
                                strong { (title) } " "
                                span class="key" { (swatch(READS)) "reads " (reads) } " "
                                span class="key" { (swatch(WRITES)) "writes " (writes) }
                            }
                            div role="img" aria-label=(now) { (PreEscaped(picture)) }
                        }
                    }
                }
            }
        }
    }
}

/// A square in the colour of a line.
fn swatch(RGBColor(red, green, blue): RGBColor) -> Markup {
    html! {
        svg class="swatch" viewBox="0 0 1 1" aria-hidden="true" {
            rect width="1" height="1" fill=(format!("#{red:02x}{green:02x}{blue:02x}")) {}
        }
    }
}

/// Operations in a second.
pub(crate) fn rate(value: f64) -> String {
    format!("{value:.0}")
}

/// Bytes in a second.
pub(crate) fn bytes(value: f64) -> String {
    format!("{}/s", Size(whole(value)))
}

/// Milliseconds.
pub(crate) fn milliseconds(value: f64) -> String {
    format!("{value:.2} ms")
}

/// The nearest whole number that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floating-point numbers saturate"
)]
fn whole(value: f64) -> u64 {
    value.max(0.0).round() as u64
}

/// Draws two lines over time.
fn picture(
    course: &Course,
    of: impl Fn(&Point) -> [f64; 2],
    said: &dyn Fn(f64) -> String,
) -> String {
    let mut text = String::new();
    let points = &course.points;
    let oldest = points.first().map_or(1.0, |point| point.age).max(1.0);
    let values = points.iter().flat_map(&of);
    let highest = values.fold(0.0, f64::max).max(0.001) * 1.1;
    let drawn = || -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(&mut text, EXTENT).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(22)
            .y_label_area_size(76)
            .build_cartesian_2d(-oldest..0.0, 0.0..highest)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(RGBColor(0xcd, 0xd5, 0xd1))
            .light_line_style(TRANSPARENT)
            .y_labels(4)
            .x_labels(4)
            .x_label_formatter(&|age| format!("{age:.0} s"))
            .y_label_formatter(&|value| said(*value))
            .label_style(
                ("sans-serif", 13)
                    .into_font()
                    .color(&RGBColor(0x1b, 0x24, 0x20)),
            )
            .draw()?;
        for (index, colour) in [READS, WRITES].into_iter().enumerate() {
            let line = points.iter().map(|point| (-point.age, of(point)[index]));
            chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
        }
        area.present()?;
        Ok(())
    }();
    match drawn {
        Ok(()) => text,
        // The picture is beside the numbers, which are enough.
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_two_lines_and_no_style_that_the_policy_forbids() {
        let point = |age: f64| Point {
            age,
            operations: [10.0, 5.0],
            bytes: [40_960.0, 20_480.0],
            latency: [0.1, 0.2],
        };
        let course = Course {
            points: vec![point(4.0), point(2.0), point(0.0)],
            luns: Vec::new(),
        };
        let text = course.charts().into_string();
        assert!(text.matches("<polyline").count() >= 6, "{text}");
        assert!(!text.contains("style="), "the policy allows none");
        assert!(!text.contains("<?xml"), "it is inside of a document");
        assert!(
            text.contains("reads 40.0 KiB/s, writes 20.0 KiB/s"),
            "{text}"
        );
    }

    #[test]
    fn one_measurement_is_no_chart() {
        let text = Course::default().charts().into_string();
        assert!(text.contains("begin in a few seconds"));
    }
}
