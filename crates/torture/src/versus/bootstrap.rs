//! The confidence interval of a ratio of pairs: the median of the pairs' ratios, and where it lies
//! in 19 of 20 draws of as many pairs from those measured (percentile bootstrap, Efron 1979). It
//! assumes nothing of how the noise of a shared machine is distributed, only that pairs are
//! independent of each other.

use crate::Random;
use crate::bench::Summary;

const DRAWS: usize = 10_000;

/// A ratio and how sure it is.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// Of the pairs.
    pub median: f64,
    /// 95 % of the draws lie above this,
    pub low: f64,
    /// and below this.
    pub high: f64,
}

impl Ratio {
    /// Of pairs, ours first.
    #[must_use]
    pub fn of(ours: &[f64], theirs: &[f64]) -> Ratio {
        assert_eq!(ours.len(), theirs.len(), "measured in pairs");
        let ratios: Vec<f64> = ours
            .iter()
            .zip(theirs)
            .map(|(us, them)| us / them)
            .collect();
        // The same pairs give the same interval.
        let mut random = Random::new(1979);
        let mut medians: Vec<f64> = (0..DRAWS)
            .map(|_| {
                let draw: Vec<f64> = ratios
                    .iter()
                    .map(|_| {
                        let index = random.below(ratios.len() as u64);
                        ratios[usize::try_from(index).unwrap_or(0)]
                    })
                    .collect();
                Summary::of(&draw).median
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        Ratio {
            median: Summary::of(&ratios).median,
            low: medians[DRAWS / 40],
            high: medians[DRAWS - 1 - DRAWS / 40],
        }
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} [{:.2}–{:.2}]", self.median, self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_median_and_little_else() {
        let theirs = [1.0; 9];
        let ours = [1.9, 2.0, 2.1, 2.0, 1.95, 2.05, 2.0, 1.0, 5.0];
        let ratio = Ratio::of(&ours, &theirs);
        assert_eq!(ratio.median, 2.0);
        assert!(ratio.low >= 1.9 && ratio.high <= 2.1, "{ratio}");
    }
}
