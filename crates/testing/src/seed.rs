//! Seeds: how they print and parse, and where a fresh one comes from.
//!
//! A seed prints as `0x` and sixteen digits; decimal is accepted as well. What it prints it parses.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::str::FromStr;

/// The one number a simulated run follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seed(pub u64);

/// A string that is no seed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a seed: {0:?} (expected a decimal number or 0x and hexadecimal digits, 64 bits)")]
pub struct NotASeed(pub String);

impl Seed {
    /// Returns a random seed, from the randomness that the operating system gives every hash table.
    #[must_use]
    pub fn fresh() -> Seed {
        Seed(RandomState::new().build_hasher().finish())
    }

    /// The seed of run number `run` of a series, so that a series is a function of its first seed.
    #[must_use]
    pub fn nth(self, run: u64) -> Seed {
        match run {
            0 => self,
            _ => Seed(crate::rng::scramble(self.0 ^ crate::rng::scramble(run))),
        }
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl FromStr for Seed {
    type Err = NotASeed;

    fn from_str(text: &str) -> Result<Seed, NotASeed> {
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        number.map(Seed).map_err(|_| NotASeed(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_seed_prints_it_parses() {
        for seed in [Seed(0), Seed(1), Seed(u64::MAX), Seed(0xdead_beef)] {
            assert_eq!(seed.to_string().parse(), Ok(seed));
        }
        assert_eq!("42".parse(), Ok(Seed(42)));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "0x", "-1", "fish", "0x10000000000000000"] {
            assert!(text.parse::<Seed>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn a_series_starts_with_its_own_seed_and_does_not_repeat() {
        assert_eq!(Seed(7).nth(0), Seed(7));
        assert_ne!(Seed(7).nth(1), Seed(7).nth(2));
    }
}
