//! Opening the recorded aggregates at the start.
//!
//! An aggregate that cannot be opened is shown with the reason, and the others serve. If no
//! aggregate can be opened, the start is refused. Nothing is written here. A device that was being
//! added and did not become a member is closed again (`joining` forgets it later). An aggregate is
//! also not opened if all its devices are older than the data directory has seen (decision 0031),
//! unless an option accepts exactly this state.

use everglade_api::Code;
use everglade_engine::{Engine, Expected, Refusal};
use everglade_env::{DeviceId, World};

use super::segments::{self, LostSegments};
use super::unavailable::Unavailable;
use crate::config::AcceptRollback;
use crate::datadir::{AggregateState, Phase};
use crate::{Config, DataDir, StartError, devices};

/// The result of opening the recorded aggregates.
#[derive(Default)]
pub(crate) struct Opened {
    /// Aggregates that cannot be opened.
    pub(crate) unavailable: Vec<Unavailable>,
    /// Aggregates that are older than the last state seen, and are served all the same.
    pub(crate) accepted: Vec<Accepted>,
    /// Segment files that are not as they were left.
    pub(crate) lost_segments: Vec<LostSegments>,
}

/// An older copy of an aggregate's devices that is served at an operator's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Name of the aggregate.
    pub aggregate: String,
    /// The consistency point that was seen before.
    pub seen: u64,
    /// The one that the devices have.
    pub found: u64,
}

/// Opens all.
pub(crate) fn open_all(
    world: &World,
    engine: &Engine,
    directory: &DataDir,
    config: &Config,
) -> Result<Opened, StartError> {
    let ready = |known: &&AggregateState| known.phase == Phase::Ready;
    let recorded = directory.state().aggregates.iter().filter(ready);
    let mut opened = Opened::default();
    for aggregate in recorded {
        match open(world, engine, directory, aggregate, &config.accept_rollback) {
            Ok((accepted, lost)) => {
                opened.accepted.extend(accepted);
                opened.lost_segments.extend(lost);
            }
            Err((code, reason)) => {
                let closed = Unavailable::new(directory, aggregate, reason, code);
                opened.unavailable.push(closed);
            }
        }
    }
    for wanted in &config.accept_rollback {
        let is_it = |it: &Accepted| it.aggregate == wanted.aggregate && it.found == wanted.cp;
        if !opened.accepted.iter().any(is_it) {
            tracing::warn!(
                "--accept-rollback {wanted} has no effect: no such aggregate was refused as older \
                at that consistency point; remove the option"
            );
        }
    }
    if engine.aggregates().is_empty()
        && let Some(first) = opened.unavailable.first()
    {
        return Err(StartError::Engine(first.reason.clone()));
    }
    for aggregate in &opened.unavailable {
        tracing::error!("{}; the others serve", aggregate.reason);
    }
    Ok(opened)
}

/// Opens one aggregate: reads and compares labels and superblock.
fn open(
    world: &World,
    engine: &Engine,
    directory: &DataDir,
    aggregate: &AggregateState,
    accept: &[AcceptRollback],
) -> Result<(Option<Accepted>, Option<LostSegments>), (Code, String)> {
    let name = &aggregate.name;
    let opened = devices::open_all(world, directory.path(), aggregate).map_err(|error| {
        (
            Code::AggregateUnavailable,
            StartError::engine(error).to_string(),
        )
    })?;
    let seen = aggregate.uuid.and_then(|uuid| directory.seen().of(uuid));
    let try_open = |cp: u64| -> Result<Option<LostSegments>, Refusal> {
        let expected = aggregate.uuid.map(|uuid| Expected {
            uuid: uuid.0,
            epoch: aggregate.epoch,
            cp,
        });
        let (members, joining) = (&opened.members, &opened.joining);
        let id = engine.open(world, members, joining, expected.as_ref())?;
        close_strangers(world, engine, id, joining);
        Ok(segments::find(engine, id))
    };
    let refuse = |code: Code, refusal: &Refusal, more: &str| {
        opened.all().for_each(|device| world.close(device));
        // One of them may be a member.
        let left_out = opened.left_out.iter().map(|error| format!("; {error}"));
        let more = left_out.chain([more.to_owned()]).collect::<String>();
        let error = StartError::Engine(format!(
            "aggregate {name} cannot be opened: {refusal}{more}"
        ));
        Err((code, error.to_string()))
    };
    let seen = seen.unwrap_or(0);
    let refusal = match try_open(seen) {
        Ok(lost) => return Ok((None, lost)),
        Err(refusal) => refusal,
    };
    let Some(found) = refusal.rolled_back_to else {
        return refuse(Code::AggregateUnavailable, &refusal, "");
    };
    let accepted = Accepted {
        aggregate: name.clone(),
        seen,
        found,
    };
    let is_accepted = accept
        .iter()
        .any(|it| it.aggregate == *name && it.cp == found);
    if !is_accepted {
        let more = format!(
            "; to serve the older state all the same, start once with --accept-rollback \
            {name}@{found}"
        );
        return refuse(Code::RolledBack, &refusal, &more);
    }
    match try_open(0) {
        Ok(lost) => {
            tracing::warn!(
                "aggregate {name} is served at consistency point {found} because of \
                --accept-rollback, although {seen} was seen before: what was written in between \
                is lost"
            );
            Ok((Some(accepted), lost))
        }
        Err(refusal) => refuse(Code::AggregateUnavailable, &refusal, ""),
    }
}

/// Closes devices that were being added and did not become members.
fn close_strangers(world: &World, engine: &Engine, id: u32, joining: &[DeviceId]) {
    let aggregates = engine.aggregates();
    let found = aggregates.iter().find(|known| known.id == id);
    let members = found.map_or(&[][..], |known| &known.devices);
    let is_stranger = |device: &&DeviceId| !members.contains(device);
    let strangers = joining.iter().filter(is_stranger);
    strangers.for_each(|device| world.close(*device));
}
