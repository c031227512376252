//! How long a server that was killed with a full half of the journal takes to serve again (goal: 10
//! s for 256 MiB of 4 KiB operations).
//!
//! Consistency points begin when three quarters of a half are used, so the half is made larger; and
//! when half of what may be dirty is, which the memory and the reserve of the pool bound, so these
//! are large too. The kill comes when the journal says that enough of it is used.

use std::time::{Duration, Instant};

use super::Pattern;
use crate::Failure;
use crate::rig::Installation;

const LUN_BYTES: u64 = 4 << 30;
const LUN: &str = "vol0/lun0";
/// Bytes of the half that must be used when the kill comes.
const USED: u64 = 256 << 20;

/// What happened.
#[derive(Debug)]
pub struct RecoveryResult {
    /// Of the journal, when the server was killed.
    pub used_bytes: u64,
    /// From its start to its ready line.
    pub ready_after: Duration,
    /// Operations that were done again, as the server counts them.
    pub operations: u64,
    /// Bytes of the journal that it read.
    pub bytes: u64,
    /// From the first of these reads until all of it was committed.
    pub recovered_in: Duration,
}

/// Fills, kills, and starts again.
///
/// # Errors
/// If the server fails.
pub fn run(installation: &Installation) -> Result<RecoveryResult, Failure> {
    let size = LUN_BYTES.to_string();
    let words = [
        "--lun-size",
        &size,
        "--cp-interval",
        "1h",
        "--memory",
        "4GiB",
        "--journal-half-size",
        "400MiB",
        "--aggregate-size",
        "512GiB",
    ];
    let daemon = installation.serve(&words)?;
    let since = Instant::now();
    let mut used_bytes = 0;
    let mut seed = 0;
    while used_bytes < USED {
        if since.elapsed() > Duration::from_secs(180) {
            let text = format!("{used_bytes} bytes of the journal are used after three minutes");
            return Err(Failure::Rig(text));
        }
        seed += 1;
        Pattern::Deep
            .run(
                &daemon.unix,
                LUN,
                LUN_BYTES,
                Duration::from_millis(500),
                seed,
            )
            .map_err(|error| Failure::rig("fill the journal", &error))?;
        used_bytes = used(installation)?;
    }
    daemon.kill();
    let daemon = installation.serve(&words[2..6])?;
    let recovery = &shown(installation)?["recovery"];
    let number = |name: &str| recovery[name].as_u64().unwrap_or(0);
    Ok(RecoveryResult {
        used_bytes,
        ready_after: daemon.ready_after,
        operations: number("operation_count"),
        bytes: number("bytes"),
        recovered_in: Duration::from_millis(number("duration_ms")),
    })
}

/// Bytes of the journal in use, as the server counts them.
fn used(installation: &Installation) -> Result<u64, Failure> {
    let shown = shown(installation)?;
    let used = shown["journal"]["used_bytes"].as_u64();
    used.ok_or_else(|| Failure::Rig(format!("no journal in: {shown}")))
}

/// The aggregate, as the server describes it.
fn shown(installation: &Installation) -> Result<serde_json::Value, Failure> {
    let output = installation.run(&["aggregate", "show", "aggr0", "--json"])?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::rig("understand 'aggregate show --json'", &error))
}
