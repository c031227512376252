//! The knee of a latency curve by the half-latency rule (N-15; N. Patel, SIGMETRICS PER 2015).
//!
//! `w(x)` is the mean latency at rate `x`, and `r(x)` its mean over all rates up to `x`. The knee
//! is the lowest rate at which `w` is twice `r`. Beyond it latency grows faster than rate. For a
//! queue with random arrivals and one server (M/M/1) that is at 71.5 % of what it can do.

/// Mean latency at a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Requests per second.
    pub rate: f64,
    /// Mean latency in seconds.
    pub latency: f64,
}

/// Returns the knee of a curve, or nothing if it has none up to its last point. `points` have
/// growing rates. Between two points the curve is straight, and below the first one it is level.
#[must_use]
pub fn knee(points: &[Point]) -> Option<Point> {
    let first = points.first()?;
    let mut area = first.rate * first.latency;
    let mut before = (*first, first.latency);
    for point in &points[1..] {
        let (last, last_gap) = before;
        area += (point.rate - last.rate) * (point.latency + last.latency) / 2.0;
        let gap = 2.0 * area / point.rate - point.latency;
        if gap < 0.0 {
            let way = last_gap / (last_gap - gap);
            let between = |from: f64, to: f64| from + (to - from) * way;
            return Some(Point {
                rate: between(last.rate, point.rate),
                latency: between(last.latency, point.latency),
            });
        }
        before = (*point, gap);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(count: u32, latency: impl Fn(f64) -> f64) -> Vec<Point> {
        let rates = (1..count).map(|index| f64::from(index) / f64::from(count));
        rates
            .map(|rate| Point {
                rate,
                latency: latency(rate),
            })
            .collect()
    }

    #[test]
    fn the_knee_of_a_queue_with_one_server_is_known() {
        let found = knee(&curve(1000, |rate| 1.0 / (1.0 - rate))).expect("a knee");
        assert!((found.rate - 0.7153).abs() < 0.001, "{found:?}");
        let coarse = knee(&curve(10, |rate| 1.0 / (1.0 - rate))).expect("a knee");
        assert!((coarse.rate - 0.7153).abs() < 0.03, "{coarse:?}");
    }

    #[test]
    fn a_level_or_straight_curve_has_none() {
        assert_eq!(knee(&curve(100, |_| 1.0)), None);
        assert_eq!(knee(&curve(100, |rate| 1.0 + rate)), None);
        assert_eq!(knee(&[]), None);
    }

    #[test]
    fn a_cliff_is_a_knee() {
        let latency = |rate| if rate < 0.5 { 1.0 } else { 100.0 };
        let found = knee(&curve(100, latency)).expect("a knee");
        assert!((0.48..0.51).contains(&found.rate), "{found:?}");
    }
}
