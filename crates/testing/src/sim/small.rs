//! Every short sequence over the small alphabet, cut everywhere.

use super::cuts::{self, Thoroughness};
use super::{Failure, Report};
use crate::Seed;
use crate::system::Maker;
use crate::workload::small::sequences;

/// The part of all sequences to run, so that the work can be spread or sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Actions in each sequence.
    pub length: u32,
    /// Every `stride`-th sequence …
    pub stride: usize,
    /// … starting with this one.
    pub first: usize,
}

/// Runs a share of all sequences on a pool of `pool_bytes`.
///
/// # Errors
/// A promise was broken; the message names the sequence.
pub fn run<M: Maker>(
    seed: Seed,
    pool_bytes: u64,
    maker: &M,
    share: Share,
    thoroughness: Thoroughness,
) -> Result<Report, Failure> {
    let mut report = Report::default();
    let devices = maker.devices(pool_bytes);
    for sequence in sequences(share.length)
        .skip(share.first)
        .step_by(share.stride)
    {
        let one = cuts::run(seed, 1, &devices, maker, &sequence, 1, thoroughness)
            .map_err(|failure| failure.within(format!("{sequence:?}")))?;
        report.add(&one);
        report.digest.bytes(one.digest.to_string().as_bytes());
    }
    Ok(report)
}
