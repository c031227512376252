//! First start: the default aggregate, volume and LUN (docs/reference/conventions.md#first-start).
//!
//! The aggregate is recorded as *creating* before anything is written, and as *ready* only when its
//! volume, its LUN and the volume's entry in the snapshot schedule are durable. So an interrupted
//! first start is repeated from nothing, and no later start finds a pool without its LUN, or its
//! volume without a schedule.

use everglade_api::{Moment, Problem};
use everglade_engine::{Engine, admin};
use everglade_format::volume::Sync;

use super::candidates::{self, Protection, Wanted, WantedJournal};
use super::creation::{self, Contents};
use super::room;
use crate::config::BLOCK_BYTES;
use crate::datadir::{Device, Phase};
use crate::plane::control::{Control, Plane};
use crate::schedule::Schedule;
use crate::{Config, DataDir, StartError};

/// Returns whether there never was an aggregate whose creation was finished: the last one is not
/// deleted.
pub(crate) fn is_needed(directory: &DataDir) -> bool {
    directory
        .state()
        .aggregates
        .iter()
        .all(|aggregate| aggregate.phase == Phase::Creating)
}

/// Refuses a first start that the file system of the data directory has no room for, before
/// anything is made there.
///
/// # Errors
/// One line that says how much is needed.
pub fn refuse_full_host(config: &Config) -> Result<(), StartError> {
    if !DataDir::is_blank(&config.data_dir) {
        return Ok(());
    }
    let first = &config.first_start;
    let journal = WantedJournal {
        has_device: false,
        // A journal on its own device gets its size when that device is checked.
        half_blocks: match first.journal.device {
            Some(_) => Some(0),
            None => half_blocks(config),
        },
    };
    let devices = vec![directory_device(config)];
    let wanted = Wanted {
        devices,
        journal,
        protection: Protection::NONE,
    };
    room::refuse_full_hosts(&config.data_dir, &wanted).map_err(StartError::engine)
}

fn directory_device(config: &Config) -> Device {
    let first = &config.first_start;
    DataDir::directory_device(&first.aggregate, 0, first.aggregate_size.bytes())
}

fn half_blocks(config: &Config) -> Option<u64> {
    let half = config.first_start.journal.half_size;
    half.map(|half| half.bytes() / BLOCK_BYTES)
}

/// Creates the aggregate on a directory device and opens it.
pub(crate) fn create_aggregate(
    plane: &Plane,
    engine: &Engine,
    config: &Config,
    directory: &mut DataDir,
) -> Result<(), StartError> {
    let first = &config.first_start;
    let mut devices = vec![directory_device(config)];
    let half_blocks = half_blocks(config);
    if let Some(path) = &first.journal.device {
        let device = candidates::journal_device(directory, path, half_blocks);
        devices.push(device.map_err(|problem| refused_journal(&problem))?);
    }
    let wanted = Wanted {
        journal: WantedJournal {
            has_device: devices.len() > 1,
            half_blocks,
        },
        devices,
        protection: Protection::NONE,
    };
    creation::create(
        plane,
        engine,
        directory,
        &first.aggregate,
        wanted,
        Contents::Kept,
    )
    .map(drop)
    .map_err(StartError::engine)
}

fn refused_journal(problem: &Problem) -> StartError {
    StartError::Engine(format!(
        "journal.device: {}; change it in the configuration, or leave it out",
        problem.detail
    ))
}

/// Adds the default volume with its snapshot policy, and its LUN, then records the aggregate as
/// ready.
pub(crate) fn fill(
    plane: &Plane,
    schedule: &Schedule,
    config: &Config,
    directory: &mut DataDir,
) -> Result<(), StartError> {
    let first = &config.first_start;
    let changes = [
        admin::Change::CreateVolume {
            name: first.volume.clone(),
            sync: Sync::Standard,
        },
        admin::Change::CreateLun {
            volume: first.volume.clone(),
            name: first.lun.clone(),
            size_bytes: first.lun_size.bytes(),
        },
    ];
    for change in changes {
        plane
            .ask_starting(Control::Change(0, change))?
            .changed()
            .map_err(StartError::engine)?;
    }
    let now = Moment(plane.world.wall_seconds());
    let assigned = schedule.assign(now, &first.volume, &config.snapshot_policy);
    assigned.map_err(|problem| {
        StartError::Engine(format!(
            "snapshot_policy of volume {}: {}; nothing is served, and the next start begins anew",
            first.volume, problem.detail
        ))
    })?;
    creation::finish(directory, &first.aggregate)?;
    tracing::info!(
        "created aggregate {} with volume {} and LUN {}/{}",
        first.aggregate,
        first.volume,
        first.volume,
        first.lun
    );
    Ok(())
}
