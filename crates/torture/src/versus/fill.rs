//! Rows as the pool fills: sequential writes, random overwrites and the tail of reads in a pool of
//! which 3, 50, 70 and 92 % are in use.
//!
//! The measured LUN has 1/32 of the pool, which is the first level. For each higher level more LUNs
//! with real data are added to the same pool, untimed: each is written once in order, and then one
//! block in eight of it is overwritten at random places, so that free space is not in one piece.
//! The level that was reached is read from the server and printed.
//!
//! `--memory` is half of the LUN, so that data is four times the cache, as in all other rows. The
//! pool has the default size if the disk has room for it, and otherwise half or a quarter of that.
//!
//! The peer's raw file has no pool and cannot fill; it has its turn in each round as the measure of
//! what the machine does at that time. The page says how full the host's own file system is.

use std::path::Path;

use super::load;
use super::row;
use super::server::Arm;
use super::stage::Stage;
use super::tail::{self, Tail};
use super::turns::{self, RowResult};
use crate::Failure;

/// Percent of the pool, and the key for `--only`.
pub const LEVELS: [(u64, &str); 4] = [
    (3, "fill-3"),
    (50, "fill-50"),
    (70, "fill-70"),
    (92, "fill-92"),
];
/// A pool of the default size, by the measured LUN.
pub(super) const PARTS: u64 = 32;
const POOL_BYTES: u64 = 64 << 30;
/// The server has at least [`MEMORY_MIN`], and data is to be four times the cache.
const POOL_BYTES_MIN: u64 = MEMORY_MIN * 2 * PARTS;
/// For work on the rig: its data fits the cache.
const POOL_BYTES_QUICK: u64 = 4 << 30;
/// Our server takes no less.
const MEMORY_MIN: u64 = 256 << 20;
/// Of the filler's blocks, one in so many is overwritten.
const SCATTERED: u64 = 8;

/// One level.
#[derive(Debug)]
pub struct Level {
    /// What it should be, percent.
    pub percent: u64,
    /// In use before the first row, percent, as the server says.
    pub reached: f64,
    /// Size of the pool.
    pub pool_bytes: u64,
    /// Rows of rates.
    pub outcomes: Vec<RowResult>,
    /// The tail of reads.
    pub tail: Tail,
}

/// A pool that fills.
pub struct Filling {
    stage: Stage,
    pool_bytes: u64,
    fillers: u64,
}

/// The size of the pool on a disk with so much free space.
///
/// # Errors
/// If the disk has too little.
pub fn pool_bytes(free: u64, is_quick: bool) -> Result<u64, Failure> {
    let (most, least) = match is_quick {
        true => (POOL_BYTES_QUICK, POOL_BYTES_QUICK),
        false => (POOL_BYTES, POOL_BYTES_MIN),
    };
    // Nearly all of the pool, a raw file, and room for others.
    let room = |pool: u64| pool + pool / 8;
    let sizes = std::iter::successors(Some(most), |size| Some(size / 2));
    let mut sizes = sizes.take_while(|size| *size >= least);
    sizes.find(|size| room(*size) < free).ok_or_else(|| {
        Failure::Rig(format!(
            "the disk has {} MiB free; a pool that fills needs {} MiB; free some or use --folder",
            free >> 20,
            room(least) >> 20
        ))
    })
}

impl Filling {
    /// A new pool, in a folder on the disk that is measured.
    ///
    /// # Errors
    /// If the disk has too little space, or a server fails.
    pub fn begin(folder: &Path, programs: &Path, is_quick: bool) -> Result<Filling, Failure> {
        std::fs::create_dir(folder).map_err(|error| Failure::at("make", folder, &error))?;
        let host =
            rustix::fs::statvfs(folder).map_err(|error| Failure::at("look at", folder, &error))?;
        let pool_bytes = pool_bytes(host.f_bavail * host.f_frsize, is_quick)?;
        let bytes = pool_bytes / PARTS;
        let stage =
            Stage::new(folder, programs, bytes, (bytes / 2).max(MEMORY_MIN)).with_pool(pool_bytes);
        Ok(Filling {
            stage,
            pool_bytes,
            fillers: 0,
        })
    }

    /// Fills to a level, and runs the rows.
    ///
    /// # Errors
    /// If a server fails.
    pub fn level(&mut self, percent: u64, rounds: u64, scale: f64) -> Result<Level, Failure> {
        let rows = row::filled();
        let arms: Vec<Arm> = rows[0].arms.clone();
        self.stage.prepare(Arm::Everglade, &rows[0])?;
        self.fill_to(percent)?;
        let (used, size) = self.used()?;
        let mut level = Level {
            percent,
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
            reached: used as f64 * 100.0 / size as f64,
            pool_bytes: self.pool_bytes,
            outcomes: Vec::new(),
            tail: Tail::default(),
        };
        for row in rows {
            let outcome = turns::run(&mut self.stage, &row, rounds, row.seconds * scale)?;
            level.outcomes.push(outcome);
        }
        let seconds = row::all()[0].seconds * scale;
        level.tail = tail::run(&mut self.stage, &arms, rounds, seconds)?;
        Ok(level)
    }

    fn fill_to(&mut self, percent: u64) -> Result<(), Failure> {
        let (used, size) = self.used()?;
        let missing = (size / 100 * percent).saturating_sub(used) >> 20 << 20;
        // The first level is the measured LUN itself.
        if missing < self.pool_bytes / 100 {
            return Ok(());
        }
        if self.fillers == 0 {
            self.stage
                .installation()
                .must(&["volume", "create", "filler"])?;
        }
        self.fillers += 1;
        let name = format!("filler/lun{}", self.fillers);
        let size = missing.to_string();
        self.stage
            .installation()
            .must(&["lun", "create", &name, "--size", &size])?;
        let server = self.stage.server(Arm::Everglade)?.beside(&name);
        let problem = |error| Failure::rig(&format!("fill the pool to {percent} %"), &error);
        load::fill(&server.socket, &name, missing).map_err(problem)?;
        let count = missing / 4096 / SCATTERED;
        load::scatter(&server.socket, &name, missing, count, percent).map_err(problem)?;
        self.stage.commit()
    }

    /// Bytes of the pool in use at the last consistency point, and all that it has for data.
    fn used(&mut self) -> Result<(u64, u64), Failure> {
        self.stage.commit()?;
        let output = self
            .stage
            .installation()
            .run(&["aggregate", "list", "--json"])?;
        let told: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::rig("understand aggregate list", &error))?;
        let number = |name| told["aggregates"][0][name].as_u64();
        let both = number("used_bytes").zip(number("size_bytes"));
        both.ok_or_else(|| Failure::Rig(format!("no used and size in: {told}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_fit_their_disk() {
        const GIB: u64 = 1 << 30;
        assert_eq!(pool_bytes(200 * GIB, false).unwrap(), 64 * GIB);
        assert_eq!(pool_bytes(70 * GIB, false).unwrap(), 32 * GIB);
        assert_eq!(pool_bytes(200 * GIB, true).unwrap(), 4 * GIB);
        let failure = pool_bytes(17 * GIB, false).unwrap_err();
        assert!(failure.to_string().contains("--folder"), "{failure}");
    }

    #[test]
    fn the_measured_lun_is_the_first_level() {
        assert_eq!(100 / PARTS, LEVELS[0].0);
    }
}
