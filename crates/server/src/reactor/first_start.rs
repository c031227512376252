//! First start: the default aggregate, volume and LUN (CONVENTIONS, "first start").
//!
//! The aggregate is recorded as *creating* before anything is written, and as *ready* only when its volume and
//! LUN are durable. So a start that was cut short is made again from nothing, and nobody ever finds a pool
//! without its LUN.

use everglade_engine::{Engine, admin};
use everglade_format::volume::Sync;

use super::control::{Control, Plane};
use super::creation::{self, Contents};
use super::engine_error;
use crate::datadir::Phase;
use crate::{Config, DataDir, StartError};

/// True if there is no aggregate whose creation was finished.
pub(super) fn is_needed(directory: &DataDir) -> bool {
    directory
        .state()
        .aggregates
        .iter()
        .all(|aggregate| aggregate.phase == Phase::Creating)
}

/// Makes the aggregate on a directory device and opens it.
pub(super) fn create_aggregate(
    plane: &Plane,
    engine: &Engine,
    config: &Config,
    directory: &mut DataDir,
) -> Result<(), StartError> {
    let first = &config.first_start;
    let device = DataDir::directory_device(&first.aggregate, 0, first.aggregate_size.bytes());
    creation::create(
        plane,
        engine,
        directory,
        &first.aggregate,
        vec![device],
        Contents::Kept,
    )
    .map(drop)
    .map_err(engine_error)
}

/// Adds the default volume and LUN, then records the aggregate as ready.
pub(super) fn fill(
    plane: &Plane,
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
        super::asked(plane, Control::Change(0, change))?
            .changed()
            .map_err(engine_error)?;
    }
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
