//! First start: the default aggregate, volume and LUN (docs/reference/conventions.md#first-start).
//!
//! The aggregate is recorded as *creating* before anything is written, and as *ready* only when its
//! volume, its LUN and the volume's entry in the snapshot schedule are durable. So an interrupted
//! first start is repeated from nothing, and no later start finds a pool without its LUN, or its
//! volume without a schedule.

use everglade_api::{CreateAggregate, Moment, Problem};
use everglade_engine::{Engine, admin};
use everglade_format::volume::Sync;

use super::candidates::{self, Shape, Wanted, WantedJournal};
use super::creation::{self, Contents, CreationError};
use super::room;
use crate::config::{BLOCK_BYTES, FirstDevices};
use crate::datadir::{Device, Phase};
use crate::plane::control::{Control, Plane};
use crate::schedule::Schedule;
use crate::{Config, DataDir, StartError};

/// Returns whether an aggregate is to be made: there never was one whose creation was finished,
/// because the last one is not deleted, and one is wanted.
pub(crate) fn is_needed(directory: &DataDir, config: &Config) -> bool {
    let mut aggregates = directory.state().aggregates.iter();
    let is_wanted = config.first_start.devices != FirstDevices::None;
    is_wanted && aggregates.all(|aggregate| aggregate.phase == Phase::Creating)
}

/// Refuses a first start that the file system of the data directory has no room for, before
/// anything is made there.
///
/// # Errors
/// One line that says how much is needed.
pub fn refuse_full_host(config: &Config) -> Result<(), StartError> {
    let first = &config.first_start;
    // Given devices are looked at when they are open.
    if !DataDir::is_blank(&config.data_dir) || first.devices != FirstDevices::Own {
        return Ok(());
    }
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
        shape: Shape::plain(journal),
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

/// Creates the aggregate and opens it.
pub(crate) fn create_aggregate(
    plane: &Plane,
    engine: &Engine,
    config: &Config,
    directory: &mut DataDir,
) -> Result<(), StartError> {
    let name = &config.first_start.aggregate;
    let wanted = wanted(config, directory)?;
    let made = creation::create(plane, engine, directory, name, wanted, Contents::Kept);
    made.map(drop).map_err(|error| match error {
        CreationError::HoldsData { path } => StartError::Engine(format!(
            "--devices: {path} holds data, which would be overwritten; choose another device, or \
             clear it with 'wipefs --all' or 'blkdiscard'; nothing was changed"
        )),
        error => StartError::engine(error),
    })
}

/// Returns what the aggregate is made of.
fn wanted(config: &Config, directory: &DataDir) -> Result<Wanted, StartError> {
    let first = &config.first_start;
    let half_blocks = half_blocks(config);
    let FirstDevices::Given {
        paths,
        raid,
        group_size,
    } = &first.devices
    else {
        let mut devices = vec![directory_device(config)];
        if let Some(path) = &first.journal.device {
            let device = candidates::journal_device(directory, path, half_blocks);
            devices.push(device.map_err(|problem| refused_journal(&problem))?);
        }
        return Ok(Wanted {
            shape: Shape::plain(WantedJournal {
                has_device: devices.len() > 1,
                half_blocks,
            }),
            devices,
        });
    };
    let request = CreateAggregate {
        name: first.aggregate.parse().expect("a name"),
        raid: *raid,
        group_size: *group_size,
        devices: paths.clone(),
        size_bytes: first.is_size_chosen.then_some(first.aggregate_size.bytes()),
        journal_device: first.journal.device.clone(),
        journal_half_bytes: half_blocks.map(|blocks| blocks * BLOCK_BYTES),
        area_bytes: None,
        discard_contents: false,
        dry_run: false,
    };
    let checked = request.check_raid();
    let chosen = checked.and_then(|()| candidates::chosen(directory, &request));
    chosen.map_err(|problem| {
        let option = match problem.field.as_deref() {
            Some("raid") => "--raid",
            Some("group_size") => "--group-size",
            Some("size_bytes") => "--aggregate-size",
            Some("journal_device") => "--journal-device",
            _ => "--devices",
        };
        let text = format!("{option}: {}; nothing was changed", problem.detail);
        StartError::Engine(text)
    })
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
