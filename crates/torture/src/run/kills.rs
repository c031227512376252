//! SIGKILL under load, again and again (issue 3, item 5a).
//!
//! One LUN on a volume that acknowledges at memory speed, one on a volume where every
//! acknowledgement is durable; both with several connections, over all protocols. In some rounds
//! the first LUN grows and shrinks meanwhile. The moment of the kill, the depth of the queues and
//! the interval between consistency points differ from round to round. After each kill `everglade
//! check` must find nothing, a new server must start, and every sector of both LUNs must hold what
//! a crash may leave. Every fifth restarted server is killed once more before it has done anything,
//! and checked again: recovery must not depend on a second one being complete.

use std::time::{Duration, Instant};

use super::lun::broken;
use super::{Lun, Row, Tally};
use crate::load::Counts;
use crate::rig::{Daemon, Installation};
use crate::{Failure, Random};

const LUN_BYTES: u64 = 64 << 20;
const ALWAYS_BYTES: u64 = 16 << 20;

/// How long and with what.
#[derive(Clone, Copy, Debug)]
pub struct Kills {
    /// Kills under load.
    pub rounds: u64,
    /// Of everything random.
    pub seed: u64,
    /// Longest load.
    pub load_max: Duration,
}

/// Runs all rounds; `report` sees each.
///
/// # Errors
/// At the first thing that is not as it must be.
pub fn kills(
    options: Kills,
    installation: &Installation,
    report: &mut dyn FnMut(&Row),
) -> Result<Tally, Failure> {
    let mut random = Random::new(options.seed);
    let mut tally = Tally::default();
    let luns = [
        Lun::new("vol0/lun0", LUN_BYTES, false),
        Lun::new("always/lun0", ALWAYS_BYTES, true),
    ];
    let mut daemon = start(installation, &mut random)?;
    installation.must(&["volume", "create", "always", "--sync", "always"])?;
    installation.must(&[
        "lun",
        "create",
        "always/lun0",
        "--size",
        &ALWAYS_BYTES.to_string(),
    ])?;
    for round in 1..=options.rounds {
        let bound = u64::try_from(options.load_max.as_millis()).expect("short");
        let time = Duration::from_millis(20 + random.below(bound.max(21) - 20));
        let since = Instant::now();
        let loads = [
            luns[0].load(&daemon, 5, &mut random)?,
            luns[1].load(&daemon, 3, &mut random)?,
        ];
        std::thread::sleep(time / 2);
        if random.one_in(2) {
            resize_and_back(installation, LUN_BYTES)?;
        }
        std::thread::sleep(time / 2);
        if daemon.has_ended() {
            let log = daemon.log();
            return Err(Failure::Broken(format!(
                "the server ended by itself:\n{log}"
            )));
        }
        daemon.kill();
        let load = since.elapsed();
        let mut counts = Counts::default();
        loads.into_iter().for_each(|load| counts.add(load.join()));
        broken("reads under load", &counts.violations)?;
        if counts.errors > 0 {
            let text = format!("{} requests failed on a healthy device", counts.errors);
            return Err(Failure::Broken(text));
        }
        let undecided = luns.iter().map(Lun::undecided).sum();
        tally.crashes += 1;
        installation.check(&mut tally)?;
        let mut crash = "kill".to_owned();
        daemon = start(installation, &mut random)?;
        if round % 5 == 0 {
            daemon.kill();
            tally.crashes += 1;
            installation.check(&mut tally)?;
            daemon = start(installation, &mut random)?;
            crash.push_str(", kill after restart");
        }
        let mut sectors = 0;
        for lun in &luns {
            sectors += lun.verify(&daemon.unix)?;
        }
        tally.sectors += sectors;
        tally.ready_max = tally.ready_max.max(daemon.ready_after);
        let row = Row {
            round,
            load,
            counts,
            undecided,
            ready: daemon.ready_after,
            sectors,
            crash,
        };
        report(&row);
        tally.counts.add(row.counts);
    }
    daemon.kill();
    installation.check(&mut tally)?;
    Ok(tally)
}

fn start(installation: &Installation, random: &mut Random) -> Result<Daemon, Failure> {
    let interval = ["100ms", "400ms", "10s"][usize::try_from(random.below(3)).expect("small")];
    let size = LUN_BYTES.to_string();
    installation.serve(&[
        "--aggregate-size",
        "4GiB",
        "--lun-size",
        &size,
        "--cp-interval",
        interval,
        "--nvme-tcp",
        ":0",
        "--iscsi-tcp",
        ":0",
    ])
}

/// The LUN becomes larger and gets its old size again. Hosts are told about both sizes; what they
/// write stays.
fn resize_and_back(installation: &Installation, bytes: u64) -> Result<(), Failure> {
    for size in [bytes + (8 << 20), bytes] {
        let size = size.to_string();
        installation.must(&["lun", "resize", "vol0/lun0", "--size", &size, "--yes"])?;
    }
    Ok(())
}
