//! Aging of free space: random overwrites until nothing changes any more (N-09).
//!
//! A store that writes blocks to new places has large free areas at first. Overwrites leave holes
//! all over, and its rate falls until as many holes are made as are used. A measurement that is to
//! say something about an old store begins there.

use std::io;

use crate::versus::load::{Kind, Load, Order, Place};

/// A round overwrites this part of the space.
const PART: u64 = 8;
/// Rounds whose rates are compared.
const LAST: usize = 4;
/// They differ by less than this part.
const LEVEL: f64 = 0.05;
/// A store that never becomes level is old enough then: its space was overwritten eight times.
const ROUNDS_MAX: usize = 64;
const DEPTH: u32 = 32;
const BLOCK_BYTES: u32 = 4096;

/// Overwrites the first `bytes` bytes of an export in random order, in rounds, until the rates of
/// the last rounds are the same. `tell` sees the rate of each round. Returns true if they became
/// the same.
///
/// # Errors
/// Those of the socket, and error replies.
pub fn age(
    place: &Place,
    export: &str,
    bytes: u64,
    seed: u64,
    mut tell: impl FnMut(f64),
) -> io::Result<bool> {
    let load = Load {
        kind: Kind::Write,
        order: Order::Random,
        block: BLOCK_BYTES,
        depth: DEPTH,
        jobs: 1,
        bytes,
        pace: None,
    };
    let count = bytes / u64::from(BLOCK_BYTES) / PART;
    let mut rates = Vec::new();
    while rates.len() < ROUNDS_MAX {
        let round = rates.len() as u64;
        let sample = load.run_count(place.clone(), export, count, seed ^ round << 32)?;
        tell(sample.rate());
        rates.push(sample.rate());
        if is_level(&rates) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_level(rates: &[f64]) -> bool {
    let Some(from) = rates.len().checked_sub(LAST) else {
        return false;
    };
    let last = &rates[from..];
    let least = last.iter().copied().fold(f64::INFINITY, f64::min);
    let most = last.iter().copied().fold(0.0, f64::max);
    most - least < most * LEVEL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_still_fall_are_not_level() {
        assert!(!is_level(&[100.0, 100.0, 100.0]));
        assert!(!is_level(&[100.0, 90.0, 81.0, 73.0]));
        assert!(!is_level(&[100.0, 99.0, 98.0, 94.0]));
        assert!(is_level(&[100.0, 60.0, 59.0, 61.0, 60.0]));
    }
}
