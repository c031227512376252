//! Opening the recorded aggregates at the start.
//!
//! An aggregate that cannot be opened is shown with the reason, and the others serve. If no
//! aggregate can be opened, the start is refused. Nothing is written here. A device that was being
//! added and did not become a member is closed again (`joining` forgets it later).
//!
//! The engine decides whether an aggregate can be opened, also whether it can be opened without a
//! device that is missing. An option overrules each of two refusals:
//!
//! | the engine refuses | the option |
//! | --- | --- |
//! | devices that are all older than what was seen (decision 0031) | `--accept-rollback` |
//! | a mirror whose missing drives may have newer data (decision 0041) | `--degraded` |

use everglade_api::Code;
use everglade_engine::{AggregateInfo, Engine, Expected, Opening, Refusal};
use everglade_env::{DeviceId, Storage, World};

use super::drives::IdleDrives;
use super::segments::{self, LostSegments};
use super::unavailable::Unavailable;
use crate::datadir::{AggregateState, Phase};
use crate::devices::OpenDevices;
use crate::{Config, DataDir, StartError, devices};

/// The result of opening the recorded aggregates.
#[derive(Default)]
pub(crate) struct Opened {
    /// Aggregates that cannot be opened.
    pub(crate) unavailable: Vec<Unavailable>,
    /// Aggregates that are older than the last state seen, and are served all the same.
    pub(crate) accepted: Vec<Accepted>,
    /// Mirrors that are served without drives that may have newer data.
    pub(crate) degraded: Vec<Degraded>,
    /// Segment files that are not as they were left.
    pub(crate) lost_segments: Vec<LostSegments>,
    /// Drives that are missing or behind.
    pub(crate) idle_drives: IdleDrives,
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

/// A mirror that is served at an operator's request, although drives are missing that may have
/// newer data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degraded {
    /// Name of the aggregate.
    pub aggregate: String,
    /// Paths of the missing drives.
    pub missing: Vec<String>,
}

impl Degraded {
    /// Returns one line for people, without the aggregate.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "opened because of --degraded, although drives are missing that may have newer data: \
            {}; what only they have is lost",
            self.missing.join(", ")
        )
    }
}

/// An aggregate that could be opened, and how.
struct Outcome {
    id: u32,
    accepted: Option<Accepted>,
    is_degraded: bool,
}

/// A code, and a text for people.
type Reason = (Code, String);

/// What aggregates are opened with.
struct Opener<'a> {
    world: &'a World,
    engine: &'a Engine,
    directory: &'a DataDir,
    config: &'a Config,
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
    let opener = Opener {
        world,
        engine,
        directory,
        config,
    };
    let mut opened = Opened::default();
    for aggregate in recorded {
        if let Err((code, reason)) = opener.open(aggregate, &mut opened) {
            let closed = Unavailable::new(directory, aggregate, reason, code);
            opened.unavailable.push(closed);
        }
    }
    warn_of_options(config, &opened);
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

/// Says which options to accept something have no effect: they are meant for one start.
fn warn_of_options(config: &Config, opened: &Opened) {
    for wanted in &config.accept_rollback {
        let is_it = |it: &Accepted| it.aggregate == wanted.aggregate && it.found == wanted.cp;
        if !opened.accepted.iter().any(is_it) {
            tracing::warn!(
                "--accept-rollback {wanted} has no effect: no such aggregate was refused as older \
                at that consistency point; remove the option"
            );
        }
    }
    for wanted in &config.degraded {
        if !opened
            .degraded
            .iter()
            .any(|it| it.aggregate == wanted.as_str())
        {
            tracing::warn!(
                "--degraded {wanted} has no effect: no such aggregate was refused because of \
                missing drives and could be opened without them; remove the option"
            );
        }
    }
}

impl Opener<'_> {
    /// Opens one aggregate: reads and compares labels and superblock.
    fn open(&self, aggregate: &AggregateState, opened: &mut Opened) -> Result<(), Reason> {
        let name = &aggregate.name;
        let devices = devices::open_all(self.world, self.directory.path(), aggregate);
        let outcome = match devices.unusable.first() {
            // There is nothing to ask the engine about.
            Some(error) if devices.members.is_empty() => {
                Err((Code::AggregateUnavailable, error.to_string()))
            }
            _ => self.open_with(aggregate, &devices),
        };
        let outcome = outcome.inspect_err(|_| {
            let open = devices.all();
            open.for_each(|device| self.world.close(device));
        })?;
        let aggregates = self.engine.aggregates();
        let info = aggregates.iter().find(|known| known.id == outcome.id);
        let info = info.expect("it was opened");
        self.close_strangers(&devices, info);
        let lost = segments::find(self.engine, outcome.id);
        opened.lost_segments.extend(lost);
        for error in &devices.unusable {
            tracing::warn!("aggregate {name} is opened without a device: {error}");
        }
        let idle = &mut opened.idle_drives;
        let missing = idle.note(self.world, self.directory, aggregate, info);
        opened.accepted.extend(outcome.accepted);
        if outcome.is_degraded {
            let degraded = Degraded {
                aggregate: name.clone(),
                missing,
            };
            tracing::warn!("aggregate {name}: {}", degraded.text());
            opened.degraded.push(degraded);
        }
        Ok(())
    }

    /// Opens an aggregate from the devices that are there, as far as the options allow it.
    fn open_with(
        &self,
        aggregate: &AggregateState,
        devices: &OpenDevices,
    ) -> Result<Outcome, Reason> {
        let name = &aggregate.name;
        let seen = aggregate
            .uuid
            .and_then(|uuid| self.directory.seen().of(uuid));
        let seen = seen.unwrap_or(0);
        let mut is_degraded = false;
        let mut result = self.try_open(aggregate, devices, seen, is_degraded);
        let can_be_degraded = |refusal: &Refusal| refusal.can_be_degraded;
        let mut wanted = self.config.degraded.iter();
        if wanted.any(|wanted| wanted.as_str() == name)
            && result.as_ref().is_err_and(can_be_degraded)
        {
            is_degraded = true;
            result = self.try_open(aggregate, devices, seen, is_degraded);
        }
        let refusal = match result {
            Ok(id) => {
                return Ok(Outcome {
                    id,
                    accepted: None,
                    is_degraded,
                });
            }
            Err(refusal) => refusal,
        };
        let Some(found) = refusal.rolled_back_to else {
            let more = match refusal.can_be_degraded {
                true => {
                    format!("; if the missing devices are lost, start once with --degraded {name}")
                }
                false => String::new(),
            };
            let reason = explain(name, devices, &refusal, &more);
            return Err((Code::AggregateUnavailable, reason));
        };
        let mut accepted = self.config.accept_rollback.iter();
        if !accepted.any(|it| it.aggregate == *name && it.cp == found) {
            let more = format!(
                "; to serve the older state all the same, start once with --accept-rollback \
                {name}@{found}"
            );
            let reason = explain(name, devices, &refusal, &more);
            return Err((Code::RolledBack, reason));
        }
        let id = self
            .try_open(aggregate, devices, 0, is_degraded)
            .map_err(|refusal| {
                let reason = explain(name, devices, &refusal, "");
                (Code::AggregateUnavailable, reason)
            })?;
        tracing::warn!(
            "aggregate {name} is served at consistency point {found} because of \
            --accept-rollback, although {seen} was seen before: what was written in between is lost"
        );
        Ok(Outcome {
            id,
            accepted: Some(Accepted {
                aggregate: name.clone(),
                seen,
                found,
            }),
            is_degraded,
        })
    }

    fn try_open(
        &self,
        aggregate: &AggregateState,
        devices: &OpenDevices,
        cp: u64,
        is_degraded: bool,
    ) -> Result<u32, Refusal> {
        let expected = aggregate.uuid.map(|uuid| Expected {
            uuid: uuid.0,
            epoch: aggregate.epoch,
            cp,
        });
        let (world, engine, expected) = (self.world, self.engine, expected.as_ref());
        let devices = (devices.members.as_slice(), devices.joining.as_slice());
        // Its labels may have another name, which they keep.
        let name = aggregate.read_only.then_some(aggregate.name.as_str());
        let opening = Opening {
            name,
            is_degraded,
            is_for_reading: aggregate.read_only,
        };
        engine.open_with(world, devices, expected, opening)
    }

    /// Closes devices that are no members, and says which of them should be.
    fn close_strangers(&self, devices: &OpenDevices, info: &AggregateInfo) {
        // The clerk closes those that were removed.
        let is_known =
            |device: &DeviceId| info.devices.contains(device) || info.former.contains(device);
        let is_stranger = |device: &&DeviceId| !is_known(device);
        for device in devices.members.iter().filter(is_stranger) {
            tracing::warn!(
                "aggregate {} is opened without {}, which has no label that can be read, or has \
                been replaced",
                info.name,
                self.world.name(*device)
            );
            self.world.close(*device);
        }
        let strangers = devices.joining.iter().filter(is_stranger);
        strangers.for_each(|device| self.world.close(*device));
    }
}

/// Says why an aggregate cannot be opened: first which devices are not there.
fn explain(name: &str, devices: &OpenDevices, refusal: &Refusal, more: &str) -> String {
    let unusable = devices.unusable.iter().map(|error| format!("{error}; "));
    let unusable: String = unusable.collect();
    // One of those that were being added may be a member.
    let left_out = devices.left_out.iter().map(|error| format!("; {error}"));
    let left_out: String = left_out.collect();
    format!("{unusable}aggregate {name} cannot be opened: {refusal}{left_out}{more}")
}
