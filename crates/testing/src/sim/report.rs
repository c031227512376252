//! The work of simulations: the proof that they were not idle.

use std::fmt;

use super::{PerBackground, PerGrowth, PerMirrored};
use crate::Digest;
use crate::world::{Fault, PerFault, SimWorld};

/// The work of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Digest of all events.
    pub digest: Digest,
    /// Operations carried out, administrators' included.
    pub actions: u64,
    /// Operations refused for lack of space.
    pub refused: u64,
    /// Operations that failed with an input/output error.
    pub errors: u64,
    /// Times a system became read-only, and everything it had was read out and judged.
    pub read_out: u64,
    /// Device writes.
    pub writes: u64,
    /// Consistency points committed.
    pub cps: u64,
    /// Times the power failed.
    pub cuts: u64,
    /// Times the power failed during recovery.
    pub cuts_in_recovery: u64,
    /// Times a system was started from what a power cut left, and judged.
    pub recoveries: u64,
    /// Recoveries among them that an earlier footprint covered.
    pub recoveries_known: u64,
    /// Virtual time, in nanoseconds.
    pub nanos: u64,
    /// Times each fault happened.
    pub fired: PerFault,
    /// Times the code under test was given its consequence.
    pub met: PerFault,
    /// Errors that were the answer: to a client, from a mount, or by the offline check.
    pub answered: PerFault,
    /// Power cuts that met each thing in the background, of those that end lives with snapshots and
    /// do not end a server that was stopped.
    pub interrupted: PerBackground,
    /// What became of the growths of pools.
    pub growths: PerGrowth,
    /// What became of mirrors.
    pub mirrors: PerMirrored,
}

impl Report {
    /// Adds what another run did; the digest stays.
    pub fn add(&mut self, other: &Report) {
        self.actions += other.actions;
        self.refused += other.refused;
        self.errors += other.errors;
        self.read_out += other.read_out;
        self.writes += other.writes;
        self.cps += other.cps;
        self.cuts += other.cuts;
        self.cuts_in_recovery += other.cuts_in_recovery;
        self.recoveries += other.recoveries;
        self.recoveries_known += other.recoveries_known;
        self.nanos += other.nanos;
        self.fired.add(&other.fired);
        self.met.add(&other.met);
        self.answered.add(&other.answered);
        self.interrupted.add(&other.interrupted);
        self.growths.add(&other.growths);
        self.mirrors.add(&other.mirrors);
    }

    /// Adds the faults of a world that has come to its end.
    pub fn add_faults(&mut self, world: &SimWorld) {
        for device in world.devices() {
            let counts = world.fault_counts(device);
            self.fired.add(&counts.fired);
            self.met.add(&counts.met);
        }
        self.fired[Fault::Reordered] += world.reordered();
        self.met[Fault::Reordered] += world.reordered();
    }

    /// Adds what a cut took.
    pub fn add_losses(&mut self, losses: crate::world::Losses) {
        self.fired[Fault::CutDropped] += losses.dropped as u64;
        self.fired[Fault::CutTorn] += losses.torn as u64;
    }

    /// Faults that were met, and power cuts. What is merely slow or out of order is weather.
    #[must_use]
    pub fn effective(&self) -> u64 {
        let weather = self.met[Fault::Reordered] + self.met[Fault::Slow];
        self.met.total() - weather + self.cuts
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "actions {} refused {} errors {} read-out {} writes {} cps {} cuts {} recoveries {} \
            effective-faults {} virtual-seconds {} digest {}",
            self.actions,
            self.refused,
            self.errors,
            self.read_out,
            self.writes,
            self.cps,
            self.cuts,
            self.recoveries,
            self.effective(),
            self.nanos / 1_000_000_000,
            self.digest
        )
    }
}
