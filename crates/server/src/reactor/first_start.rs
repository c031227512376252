//! First start: the default aggregate, volume and LUN (CONVENTIONS, "first start").
//!
//! The aggregate is recorded as *creating* before anything is written, and as *ready* only when its volume and
//! LUN are durable. So a start that was cut short is made again from nothing, and nobody ever finds a pool
//! without its LUN.

use std::fs;
use std::io::Read;

use everglade_engine::{Engine, Expected, Plan, admin, create};
use everglade_env::World;
use everglade_format::volume::Sync;

use super::control::{Control, Plane};
use super::engine_error;
use crate::datadir::{AggregateState, Phase, State, Uuid};
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
    world: &World,
    engine: &Engine,
    config: &Config,
    directory: &mut DataDir,
) -> Result<(), StartError> {
    let name = &config.first_start.aggregate;
    let size = config.first_start.aggregate_size.bytes();
    let device = DataDir::directory_device(name, 0, size);
    let mut aggregate = AggregateState {
        name: name.clone(),
        phase: Phase::Creating,
        epoch: 0,
        uuid: None,
        devices: vec![device.clone()],
    };
    directory.record(State {
        aggregates: vec![aggregate.clone()],
    })?;
    let path = directory.make_directory(&device)?;
    let id = world
        .open_directory(&path, size, true)
        .map_err(engine_error)?;
    let mut plan = Plan::new(name, random()?, random()?, vec![random()?]);
    plan.created_seconds = world.wall_seconds();
    create(world, &[id], &plan).map_err(engine_error)?;
    let expected = Expected {
        uuid: plan.uuid,
        epoch: 1,
    };
    engine
        .open(world, &[id], Some(&expected))
        .map_err(engine_error)?;
    aggregate.uuid = Some(Uuid(plan.uuid));
    Ok(())
}

/// Adds the default volume and LUN, then records the aggregate as ready.
pub(super) fn fill(
    plane: &Plane,
    config: &Config,
    directory: &mut DataDir,
    engine: &Engine,
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
            .ask(0, Control::Change(0, change))
            .changed()
            .map_err(engine_error)?;
    }
    let mut state = directory.state().clone();
    for (aggregate, info) in state.aggregates.iter_mut().zip(engine.aggregates()) {
        aggregate.phase = Phase::Ready;
        aggregate.epoch = info.epoch;
        aggregate.uuid = Some(Uuid(info.uuid));
    }
    directory.record(state)?;
    tracing::info!(
        "created aggregate {} with volume {} and LUN {}/{}",
        first.aggregate,
        first.volume,
        first.volume,
        first.lun
    );
    Ok(())
}

/// Bytes nobody can guess.
fn random<const N: usize>() -> Result<[u8; N], StartError> {
    let mut bytes = [0; N];
    fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|source| StartError::System {
            action: "read random bytes",
            source,
        })?;
    Ok(bytes)
}
