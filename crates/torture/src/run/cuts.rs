//! Power cuts: what was not flushed to the device is gone (issue 3, item 5b).
//!
//! The aggregate is on a [`Power`] device. A cut is SIGKILL of the device's memory, then of the
//! server, because a server that goes on would only find that nothing works any more. Between the
//! two it has a moment to misbehave in: nothing it acknowledges as durable then can be. By turns
//! the device loses all unflushed writes, and an arbitrary part of them.
//!
//! If `cargo xtask planted` built the server, and `EVERGLADE_PLANTED` names one of its bugs, this
//! run must fail. [`Cuts::planted`] sets the variable for every server after the one that made the
//! aggregate.

use std::time::{Duration, Instant};

use super::lun::broken;
use super::{Lun, Row, Tally};
use crate::rig::{Daemon, Installation, Loss, Power};
use crate::{Failure, Random};

/// Size of the device; it is sparse.
pub const DEVICE_BYTES: u64 = 2 << 30;
const LUN_BYTES: u64 = 32 << 20;
const EXPORT: &str = "v/lun";

/// How long and with what.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// Cuts under load.
    pub rounds: u64,
    /// Of everything random.
    pub seed: u64,
    /// Longest load.
    pub load_max: Duration,
    /// The bug to switch on.
    pub planted: Option<String>,
}

/// Runs all rounds; `report` sees each.
///
/// # Errors
/// At the first thing that is not as it must be.
pub fn cuts(
    options: &Cuts,
    installation: &mut Installation,
    power: &mut Power,
    report: &mut dyn FnMut(&Row),
) -> Result<Tally, Failure> {
    let mut random = Random::new(options.seed);
    let mut tally = Tally::default();
    let lun = Lun::new(EXPORT, LUN_BYTES, false);
    power.on()?;
    prepare(installation, power)?;
    if let Some(planted) = &options.planted {
        installation.set("EVERGLADE_PLANTED", planted);
    }
    let mut daemon = start(installation, &mut random)?;
    for round in 1..=options.rounds {
        let bound = u64::try_from(options.load_max.as_millis()).expect("short");
        let time = Duration::from_millis(20 + random.below(bound.max(21) - 20));
        let since = Instant::now();
        let load = lun.load(&daemon, 5, &mut random)?;
        std::thread::sleep(time);
        if daemon.has_ended() {
            let log = daemon.log();
            return Err(Failure::Broken(format!(
                "the server ended by itself:\n{log}"
            )));
        }
        let loss = match round % 2 {
            0 => Loss::Some(16 + random.below(224)),
            _ => Loss::Everything,
        };
        let survived = power.cut(loss, &mut random)?;
        // It may notice, or be gone before it does.
        std::thread::sleep(Duration::from_millis(random.below(30)));
        power.give_up();
        daemon.kill();
        let time = since.elapsed();
        let counts = load.join();
        broken("reads under load", &counts.violations)?;
        let undecided = lun.undecided();
        power.unplug()?;
        tally.crashes += 1;
        power.on()?;
        installation.check(&mut tally)?;
        daemon = start(installation, &mut random)?;
        let sectors = lun.verify(&daemon.unix)?;
        tally.sectors += sectors;
        tally.ready_max = tally.ready_max.max(daemon.ready_after);
        let row = Row {
            round,
            load: time,
            counts,
            undecided,
            ready: daemon.ready_after,
            sectors,
            crash: format!("cut; {survived} blocks survived unflushed"),
        };
        report(&row);
        tally.counts.add(row.counts);
    }
    daemon.kill();
    installation.check(&mut tally)?;
    power.unplug()?;
    tally.device_flushes = power.flushes();
    Ok(tally)
}

/// Makes the aggregate, its volume and the LUN, and stops the server in an orderly way's stead by
/// a kill: what was made is durable when the answer came.
fn prepare(installation: &Installation, power: &Power) -> Result<(), Failure> {
    let daemon = installation.serve(&["--aggregate-size", "2GiB", "--lun-size", "16MiB"])?;
    let device = power.device();
    let device = device.to_string_lossy();
    installation.must(&["aggregate", "create", "pool", "--devices", &device, "--yes"])?;
    installation.must(&["volume", "create", "v", "--aggregate", "pool"])?;
    installation.must(&["lun", "create", EXPORT, "--size", &LUN_BYTES.to_string()])?;
    daemon.kill();
    if power.flushes() == 0 {
        let text = "no flush of the server reached the device".to_owned();
        return Err(Failure::Broken(text));
    }
    Ok(())
}

fn start(installation: &Installation, random: &mut Random) -> Result<Daemon, Failure> {
    let interval = ["150ms", "500ms", "10s"][usize::try_from(random.below(3)).expect("small")];
    let io = ["uring", "threads"][usize::from(random.one_in(2))];
    installation.serve(&[
        "--cp-interval",
        interval,
        "--io",
        io,
        "--nvme-tcp",
        ":0",
        "--iscsi-tcp",
        ":0",
    ])
}
