//! The conformance suite: what every [`Target`] must do, checked from outside.
//!
//! [`run`] takes any target, the name of an empty LUN on it of at least 4 MiB, and a closure that
//! lets the target make progress (nothing for one that works when polled; a step of the reactor or
//! of simulated time otherwise). It panics at the first difference and names the seed.
//!
//! Operations are submitted in groups whose outcome does not depend on the order in which the
//! target carries them out; so the [`Model`](crate::model::Model), which does one at a time,
//! predicts it exactly. Order is left open in two places: readers race a writer in [`atomic`], and
//! operations that expect the same contents race each other in [`compare`].

pub mod action;
pub mod atomic;
pub mod bench;
pub mod compare;
pub mod dice;
pub mod edges;
pub mod random;
#[cfg(test)]
mod tests;

pub use action::Action;
pub use bench::Bench;
pub use dice::Dice;

use crate::Target;

/// Groups of random operations in one [`run`].
const GROUPS: u32 = 150;

/// Runs all checks on an empty LUN.
///
/// # Panics
/// When the target breaks the contract.
pub fn run<T: Target + ?Sized>(
    target: &mut T,
    export: &str,
    progress: &mut dyn FnMut(&mut T),
    seed: u64,
) {
    let mut bench = Bench::open(target, export, progress, seed);
    edges::run(&mut bench);
    atomic::run(&mut bench);
    compare::run(&mut bench);
    random::run(&mut bench, GROUPS);
    bench.close();
}
