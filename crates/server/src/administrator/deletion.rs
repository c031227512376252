//! Deleting an aggregate.
//!
//! ```text
//! ready ─▶ recorded as deleting ─▶ stopped ─▶ devices cleared ─▶ forgotten
//!   │ refused: it has volumes,    └─ power cut, or a device that cannot be written:
//!   │ which are not to be lost       the next start clears the rest
//!   ▼
//! nothing changed
//! ```
//!
//! 1. Nothing on a device is touched before the record says *deleting*; from then on the aggregate
//!    is never opened again, so that a half-cleared aggregate is never mounted.
//! 2. Only devices that carry the aggregate's UUID are cleared. A device that has got another use
//!    keeps its contents, and so do other aggregates.
//! 3. The last aggregate cannot be deleted, because without aggregates the next start would create
//!    the default one.

use std::time::Duration;

use everglade_api::{Code, Problem, counted};
use everglade_engine::State;

use super::administrator::{Administrator, LOOK_EVERY, host};
use super::creation;
use crate::DataDir;
use crate::datadir::{DataDirError, Phase};

/// Longest wait for the last requests of a device that is closed. Only those of a device that hangs
/// take so long.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// The result of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// The reason why some devices are not cleared yet. The next start tries again.
    pub leftover: Option<String>,
}

impl Administrator {
    /// Deletes an aggregate and clears its devices.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn delete_aggregate(&self, name: &str, discard_volumes: bool) -> Result<Cleared, Problem> {
        let mut directory = self.directory();
        let recorded = directory.state().aggregate(name).cloned();
        let recorded = recorded.ok_or_else(|| Problem::not_found("aggregate", name))?;
        if recorded.phase == Phase::Deleting {
            let text = format!("aggregate {name} is deleted; the next start clears what is left");
            return Err(Problem::new(Code::Unavailable, text));
        }
        if recorded.read_only {
            let text = format!(
                "aggregate {name} was imported to be read only, so its devices are not cleared; \
                 export it to close it"
            );
            return Err(Problem::new(Code::ReadOnly, text));
        }
        self.close_for_volumes(name, &directory, discard_volumes)?;
        if let Err(error) = record_deleting(&mut directory, name) {
            self.ready().insert(name.to_owned());
            return Err(host(&error));
        }
        tracing::info!("deleting aggregate {name}");
        let number = self.find_aggregate(name).map(|known| known.id);
        self.end_serving(name);
        if let Some(number) = number {
            self.schedule().leave(number);
        }
        self.unavailable().retain(|known| known.name != name);
        let cleared = creation::undo(&self.plane.world, &mut directory, &recorded);
        match &cleared {
            Ok(()) => tracing::info!("deleted aggregate {name}"),
            Err(problem) => tracing::warn!(
                "aggregate {name} is deleted, and its devices cannot be cleared now: {problem}"
            ),
        }
        Ok(Cleared {
            leftover: cleared.err(),
        })
    }

    /// Refuses to lose volumes without consent, and stops the creation of volumes.
    fn close_for_volumes(
        &self,
        name: &str,
        directory: &DataDir,
        discard_volumes: bool,
    ) -> Result<(), Problem> {
        let _closed = self.populating.write();
        let others = directory.state().aggregates.iter();
        if !others
            .into_iter()
            .any(|known| known.name != name && known.phase == Phase::Ready)
        {
            let text = format!(
                "{name} is the only aggregate, and a daemon has at least one; make another first"
            );
            return Err(Problem::new(Code::StillNeeded, text));
        }
        if !discard_volumes {
            let would_lose = |what: String| {
                let text = format!("{what}, which would be lost");
                Err(Problem::of_field(
                    Code::WouldLoseData,
                    "discard_volumes",
                    text,
                ))
            };
            if self.unavailable().iter().any(|known| known.name == name) {
                return would_lose(format!(
                    "aggregate {name} cannot be opened, so it may have volumes"
                ));
            }
            let trash = self.trash().trash;
            let kept = trash.iter().filter(|it| it.aggregate == name).count();
            let volumes = self.volumes().volumes;
            let count = volumes.iter().filter(|known| known.aggregate == name);
            match count.count() {
                0 if kept == 0 => {}
                0 => {
                    let text = counted(kept as u64, "object");
                    return would_lose(format!("aggregate {name} has {text} in its trash"));
                }
                1 => return would_lose(format!("aggregate {name} has a volume")),
                count => return would_lose(format!("aggregate {name} has {count} volumes")),
            }
        }
        self.ready().remove(name);
        Ok(())
    }

    /// Ends its sessions and consistency points, and closes its devices.
    pub(super) fn end_serving(&self, name: &str) {
        if let Some(info) = self.find_aggregate(name) {
            self.end_serving_number(info.id);
        }
    }

    /// Ends the sessions and consistency points of the aggregate of this number, and closes its
    /// devices.
    pub(super) fn end_serving_number(&self, id: u32) {
        let aggregates = self.engine.aggregates();
        let Some(info) = aggregates.into_iter().find(|known| known.id == id) else {
            return;
        };
        self.engine.request_stop_of(info.id);
        self.plane.wake_all();
        let is_at_rest = |state| {
            matches!(
                state,
                State::Stopped | State::Failed(_) | State::ReadOnly(_)
            )
        };
        while !is_at_rest(self.state_of(info.id)) {
            std::thread::sleep(LOOK_EVERY);
        }
        self.engine.forget(info.id);
        self.plane.wake_all();
        for device in info.devices {
            let path = self.plane.world.info(device).map(|info| info.path);
            if !self.plane.world.close_and_wait(device, CLOSE_PATIENCE) {
                let path = path.unwrap_or_default();
                tracing::warn!("{} is in use until its last request ends", path.display());
            }
        }
    }
}

fn record_deleting(directory: &mut DataDir, name: &str) -> Result<(), DataDirError> {
    let mut state = directory.state().clone();
    let known = state.aggregates.iter_mut().find(|known| known.name == name);
    known.expect("looked up by the caller").phase = Phase::Deleting;
    directory.record(state)
}
