//! Medians and ranges: on a shared machine a mean says little.

use std::fmt;

/// Median and range of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The least number.
    pub min: f64,
    /// The middle one of the sorted numbers.
    pub median: f64,
    /// The greatest number.
    pub max: f64,
}

impl Summary {
    /// Returns the summary of `numbers`, at least one.
    #[must_use]
    pub fn of(numbers: &[f64]) -> Summary {
        assert!(!numbers.is_empty(), "a summary of nothing");
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Summary {
            min: sorted[0],
            median,
            max: sorted[sorted.len() - 1],
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = f.precision().unwrap_or(0);
        let Summary { min, median, max } = self;
        write!(f, "{median:.places$} ({min:.places$}–{max:.places$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_in_the_middle() {
        let summary = Summary::of(&[3.0, 1.0, 2.0, 10.0]);
        assert_eq!(format!("{summary:.1}"), "2.5 (1.0–10.0)");
        assert_eq!(Summary::of(&[4.0]).median, 4.0);
    }
}
