//! Plots as SVG: bars with the range of the rounds, and lines over seconds. One colour, labels on
//! the marks, no legend to match.

use std::fmt::Write as _;

const INK: &str = "#1a1a1a";
const FAINT: &str = "#8a8a8a";
const OURS: &str = "#1b6e53";
const THEIRS: &str = "#b9c4c0";

/// A bar.
pub struct Bar {
    /// Who.
    pub name: String,
    /// The median.
    pub value: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// Drawn in our colour.
    pub is_ours: bool,
}

/// Groups of bars below each other, each group with its own scale.
#[must_use]
pub fn bars(title: &str, groups: &[(String, Vec<Bar>)]) -> String {
    const ROW: f64 = 17.0;
    let rows: usize = groups.iter().map(|(_, bars)| bars.len() + 2).sum();
    #[expect(clippy::cast_precision_loss, reason = "some dozens")]
    let height = rows as f64 * ROW + 50.0;
    let mut svg = head(860.0, height, title);
    let mut y = 54.0;
    for (name, bars) in groups {
        text(&mut svg, 16.0, y, INK, "start", name);
        y += ROW;
        let most = bars
            .iter()
            .map(|bar| bar.max)
            .fold(f64::MIN_POSITIVE, f64::max);
        let scale = 480.0 / most;
        for bar in bars {
            let colour = if bar.is_ours { OURS } else { THEIRS };
            let width = bar.value * scale;
            text(&mut svg, 170.0, y + 10.0, INK, "end", &bar.name);
            let _ = writeln!(
                svg,
                "<rect x='176' y='{:.1}' width='{width:.1}' height='11' fill='{colour}'/>",
                y + 1.0
            );
            let (from, to) = (176.0 + bar.min * scale, 176.0 + bar.max * scale);
            line(&mut svg, (from, y + 6.5), (to, y + 6.5), INK);
            text(
                &mut svg,
                to + 6.0,
                y + 10.0,
                FAINT,
                "start",
                &short(bar.value),
            );
            y += ROW;
        }
        y += ROW;
    }
    svg.push_str("</svg>\n");
    svg
}

/// One panel below the other, a value for each second.
#[must_use]
pub fn lines(title: &str, panels: &[(String, Vec<f64>)]) -> String {
    const PANEL: f64 = 150.0;
    #[expect(clippy::cast_precision_loss, reason = "some panels")]
    let height = panels.len() as f64 * (PANEL + 40.0) + 50.0;
    let mut svg = head(860.0, height, title);
    let mut top = 64.0;
    for (name, values) in panels {
        text(&mut svg, 60.0, top - 8.0, INK, "start", name);
        let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let bottom = top + PANEL;
        line(&mut svg, (60.0, bottom), (840.0, bottom), FAINT);
        for (share, y) in [(1.0, top), (0.5, top + PANEL / 2.0)] {
            text(&mut svg, 54.0, y + 4.0, FAINT, "end", &short(most * share));
            line(&mut svg, (60.0, y), (840.0, y), "#e4e4e4");
        }
        #[expect(clippy::cast_precision_loss, reason = "some hundred seconds")]
        let step = 780.0 / (values.len().max(2) - 1) as f64;
        let mut points = String::new();
        let mut x = 60.0;
        for value in values {
            let _ = write!(points, "{x:.1},{:.1} ", bottom - value / most * PANEL);
            x += step;
        }
        let _ = writeln!(
            svg,
            "<polyline points='{points}' fill='none' stroke='{OURS}' stroke-width='1.2'/>"
        );
        text(
            &mut svg,
            840.0,
            bottom + 14.0,
            FAINT,
            "end",
            &format!("{} s", values.len()),
        );
        top = bottom + 40.0;
    }
    svg.push_str("</svg>\n");
    svg
}

fn head(width: f64, height: f64, title: &str) -> String {
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:.0} {height:.0}' \
         font-family='system-ui, sans-serif' font-size='11'>\n\
         <rect width='100%' height='100%' fill='white'/>\n"
    );
    let _ = writeln!(
        svg,
        "<text x='16' y='26' font-size='15' fill='{INK}'>{}</text>",
        escaped(title)
    );
    svg
}

fn text(svg: &mut String, x: f64, y: f64, colour: &str, anchor: &str, words: &str) {
    let _ = writeln!(
        svg,
        "<text x='{x:.1}' y='{y:.1}' fill='{colour}' text-anchor='{anchor}'>{}</text>",
        escaped(words)
    );
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let _ = writeln!(
        svg,
        "<line x1='{:.1}' y1='{:.1}' x2='{:.1}' y2='{:.1}' stroke='{colour}'/>",
        from.0, from.1, to.0, to.1
    );
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;")
}

/// Three digits are enough beside a mark.
fn short(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.0}k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_is_one_element_with_all_marks() {
        let bar = |name: &str, is_ours| Bar {
            name: name.to_owned(),
            value: 2.0,
            min: 1.0,
            max: 3.0,
            is_ours,
        };
        let svg = bars(
            "a & b",
            &[(
                "reads".to_owned(),
                vec![bar("us", true), bar("them", false)],
            )],
        );
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains("a &amp; b") && svg.ends_with("</svg>\n"));
        let svg = lines(
            "t",
            &[("x".to_owned(), vec![1.0, 2.0]), ("y".to_owned(), vec![])],
        );
        assert_eq!(svg.matches("<polyline").count(), 2);
    }
}
