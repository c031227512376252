//! Runs: rounds of load, a crash, `check`, a restart, and a look at every sector.

mod cuts;
mod kills;
mod lun;
mod table;

use std::time::Duration;

pub use cuts::{Cuts, DEVICE_BYTES, cuts};
pub use kills::{Kills, kills};
use lun::Lun;
pub use table::{HEADER, Row};

use crate::load::Counts;

/// What a whole run did.
#[derive(Debug, Default)]
pub struct Tally {
    /// Crashes survived.
    pub crashes: u64,
    /// Runs of `everglade check`, all clean.
    pub checks: u64,
    /// Time spent in them.
    pub check_time: Duration,
    /// Sectors read after restarts and found as they may be.
    pub sectors: u64,
    /// What the clients did.
    pub counts: Counts,
    /// Slowest restart.
    pub ready_max: Duration,
    /// Flushes that reached a device whose power was cut; 0 where none was.
    pub device_flushes: usize,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = &self.counts;
        writeln!(
            f,
            "{} crashes, {} clean checks ({:.1} s); slowest restart {:.2} s",
            self.crashes,
            self.checks,
            self.check_time.as_secs_f64(),
            self.ready_max.as_secs_f64()
        )?;
        writeln!(
            f,
            "answered: {} writes, {} trims, {} zeroes, {} reads, {} flushes; {} of them forced",
            counts.writes, counts.trims, counts.zeroes, counts.reads, counts.flushes, counts.forced
        )?;
        let [nbd, nvme, iscsi] = counts.protocols;
        writeln!(f, "by protocol: {nbd} NBD, {nvme} NVMe/TCP, {iscsi} iSCSI")?;
        write!(
            f,
            "{} unanswered at a crash, {} failed; {} sectors verified after restarts",
            counts.unanswered, counts.errors, self.sectors
        )?;
        if self.device_flushes > 0 {
            write!(f, "; {} flushes reached the device", self.device_flushes)?;
        }
        Ok(())
    }
}
