//! Simulations: a seed becomes a world, a workload and a verdict.
//!
//! - [`long`]: one world lives through many power cuts and restarts; what each leaves is judged and
//!   lived on with. Finds what takes time.
//! - [`cuts`]: one run is cut at every write in many ways; each is judged and thrown away. Finds what
//!   takes luck.
//! - [`creation`]: preparing the devices is cut at every write.
//! - [`small`]: [`cuts`] for every short sequence over a small alphabet. Finds what nobody thought of.
//!
//! [`driver`] carries actions to the system and replies to the model; [`judge`] looks at a system that
//! has just started.

pub mod creation;
pub mod cuts;
pub mod driver;
pub mod judge;
pub mod long;
pub mod small;

use std::fmt;

use crate::Digest;

/// A simulation that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Failure {
    /// What was promised and is not so.
    pub what: String,
    /// The last events of the world, oldest first.
    pub trace: Vec<String>,
}

impl Failure {
    pub(crate) fn new(what: impl fmt::Display) -> Failure {
        Failure {
            what: what.to_string(),
            trace: Vec::new(),
        }
    }

    /// The code under test stopped at one of its own assertions.
    #[must_use]
    pub fn panicked() -> Failure {
        Failure::new("panicked; see the message above")
    }

    pub(crate) fn within(mut self, where_: impl fmt::Display) -> Failure {
        self.what = format!("{where_}: {}", self.what);
        self
    }
}

/// What a simulation did: the proof that it was not idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Everything that happened, as one number.
    pub digest: Digest,
    /// Actions carried out.
    pub actions: u64,
    /// Actions refused for lack of space.
    pub refused: u64,
    /// Device writes.
    pub writes: u64,
    /// Times the power failed.
    pub cuts: u64,
    /// Changes that power cuts took away.
    pub dropped: u64,
    /// Changes that power cuts tore.
    pub torn: u64,
    /// Completions that overtook others.
    pub reordered: u64,
    /// Times a full host refused something.
    pub host_full: u64,
    /// Device errors reported.
    pub device_errors: u64,
    /// Virtual time, in nanoseconds.
    pub nanos: u64,
}

impl Report {
    /// Adds what another run did; the digest stays.
    pub fn add(&mut self, other: &Report) {
        self.actions += other.actions;
        self.refused += other.refused;
        self.writes += other.writes;
        self.cuts += other.cuts;
        self.dropped += other.dropped;
        self.torn += other.torn;
        self.reordered += other.reordered;
        self.host_full += other.host_full;
        self.device_errors += other.device_errors;
        self.nanos += other.nanos;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "actions {} refused {} writes {} cuts {} dropped {} torn {} reordered {} host-full {} \
             device-errors {} virtual-seconds {} digest {}",
            self.actions,
            self.refused,
            self.writes,
            self.cuts,
            self.dropped,
            self.torn,
            self.reordered,
            self.host_full,
            self.device_errors,
            self.nanos / 1_000_000_000,
            self.digest
        )
    }
}
