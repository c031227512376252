//! Snapshots on a line of time: each is a circle, larger if its deletion frees more.

use everglade_api::{Size, Snapshot, counted};
use jiff::Timestamp;
use maud::{Markup, html};

/// Length of the line, in the picture's units.
const LENGTH: i64 = 960;
const MARGIN: i64 = 20;

/// The line. `now`: seconds since 1970.
pub(crate) fn line(snapshots: &[Snapshot], now: i64) -> Markup {
    let seconds = |it: &Snapshot| {
        it.created
            .parse::<Timestamp>()
            .map(Timestamp::as_second)
            .ok()
    };
    let timed: Vec<(i64, &Snapshot)> = snapshots
        .iter()
        .filter_map(|it| Some((seconds(it)?.min(now), it)))
        .collect();
    let Some(oldest) = timed.iter().map(|(at, _)| *at).min() else {
        return html! {};
    };
    let span = (now - oldest).max(1);
    let place = |at: i64| MARGIN + (at - oldest) * LENGTH / span;
    let age = crate::table::duration(u64::try_from(now - oldest).unwrap_or(0));
    let label = format!(
        "{} in the last {age}",
        counted(timed.len() as u64, "snapshot")
    );
    html! {
        figure {
            svg viewBox="0 0 1000 60" role="img" aria-label=(label) {
                line x1=(MARGIN) y1="24" x2=(MARGIN + LENGTH) y2="24" stroke="#6b7670"
                    stroke-width="2" {}
                @for (at, snapshot) in &timed {
                    circle cx=(place(*at)) cy="24" r=(radius(snapshot.exclusive_bytes))
                        fill="#7a4fa3" fill-opacity="0.75" stroke="#ffffff" {
                        title {
                            (snapshot.name) ", " (snapshot.created) ", "
                            (Size(snapshot.exclusive_bytes)) " alone"
                        }
                    }
                }
                text x=(MARGIN) y="56" font-size="14" fill="#1b2420" { (age) " ago" }
                text x=(MARGIN + LENGTH) y="56" font-size="14" fill="#1b2420" text-anchor="end" {
                    "now"
                }
            }
            figcaption { "A larger circle frees more when its snapshot is deleted." }
        }
    }
}

/// Radius by the size's number of digits in base 2, so that a MiB and a TiB are both seen.
fn radius(bytes: u64) -> u32 {
    5 + bytes
        .checked_ilog2()
        .unwrap_or(0)
        .saturating_sub(20)
        .min(20)
        / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_grow_with_what_they_hold() {
        let all = [0, 1 << 20, 1 << 30, 1 << 40, u64::MAX].map(radius);
        assert_eq!(all, [5, 5, 10, 15, 15]);
    }
}
