//! Removing devices from an aggregate, while clients go on (decision 0057).
//!
//! ```text
//! checked ─▶ evacuated, in the background ─▶ removed by a superblock ─▶ not recorded ─▶ cleared
//!    │ refused          └── stopped: they stay
//!    ▼
//! nothing changed
//! ```
//!
//! 1. The engine removes the devices by itself, now or after any number of starts. The clerk finds
//!    that out, and brings the record up to it.
//! 2. A device is cleared after the record has forgotten it. If power fails in between, it keeps a
//!    label that nobody needs any more.

use everglade_api::{CatchingUp, Moment, Problem, Removal, RemovalState, RemoveDevice};
use everglade_engine::{AggregateInfo, RemovalPlan, admin};
use everglade_env::DeviceId;

use super::administrator::{Administrator, not_changed};
use super::report::Notice;
use super::units::bytes;
use super::{candidates, creation, joining};
use crate::datadir::Uuid;

impl Administrator {
    /// Returns how far the removal is that is under way.
    ///
    /// # Errors
    /// The aggregate does not exist, or could not be opened.
    pub fn removal(&self, aggregate: &str) -> Result<Removal, Problem> {
        let info = self.opened_aggregate(aggregate)?;
        Ok(self.view_removal(&info))
    }

    /// Begins to remove a device with its whole group; with `dry_run`, only says how much space
    /// would be left.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn remove_device(&self, name: &str, request: &RemoveDevice) -> Result<Removal, Problem> {
        let mut directory = self.directory();
        let pool = self.pool_to_change(&mut directory, name)?;
        let recorded = candidates::named(&directory, &pool.recorded, &request.device)?;
        let id = joining::member(&self.plane.world, &directory, &pool.known, recorded);
        let mut members = (0..).zip(&pool.known.members);
        let found = members.find(|(_, member)| id.is_some() && member.device == id);
        let Some((member, _)) = found else {
            let text = format!(
                "{} is not there; name another drive of its group, or replace it first",
                request.device
            );
            return Err(Problem::invalid("device", text));
        };
        let plan = self.engine.examine_removal(pool.known.id, member);
        let plan = plan.map_err(|error| about(&request.device, not_changed(error)))?;
        if request.dry_run {
            return Ok(self.planned(&pool.known, &plan));
        }
        drop(directory);
        let change = admin::Change::StartRemoval { member };
        self.change(pool.known.id, change)?;
        let removal = self.removal(name).map_err(Problem::after_change)?;
        tracing::info!(
            "aggregate {name}: {} is being removed",
            removal.devices.join(", ")
        );
        Ok(removal)
    }

    /// Lets devices stay that are being removed.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn stop_removal(&self, aggregate: &str) -> Result<Removal, Problem> {
        self.removal(aggregate)?;
        let info = self.find_aggregate(aggregate);
        let info = info.ok_or_else(|| Problem::not_found("aggregate", aggregate))?;
        self.change(info.id, admin::Change::StopRemoval)?;
        tracing::info!("aggregate {aggregate}: devices that were being removed stay");
        self.removal(aggregate).map_err(Problem::after_change)
    }

    /// Forgets and clears the devices that were removed.
    pub(crate) fn settle_removed(&self) -> Vec<Notice> {
        let aggregates = self.engine.aggregates().into_iter();
        let with = aggregates.filter(|info| !info.former.is_empty());
        let mut notices = Vec::new();
        for info in with {
            for device in &info.former {
                notices.extend(self.settle_one(&info, *device));
            }
        }
        notices
    }

    fn settle_one(&self, info: &AggregateInfo, id: DeviceId) -> Option<Notice> {
        let mut directory = self.directory();
        let world = &self.plane.world;
        let path = world.info(id)?.path;
        let mut state = directory.state().clone();
        let uuid = Some(Uuid(info.uuid));
        let recorded = state.aggregates.iter_mut().find(|it| it.uuid == uuid)?;
        let is_it = |device: &_| directory.device_path(device) == path;
        let index = recorded.devices.iter().position(is_it);
        let device = index.map(|index| recorded.devices.remove(index));
        recorded.epoch = recorded.epoch.max(info.epoch);
        let object = format!("aggregate {}", info.name);
        if let Err(error) = directory.record(state) {
            tracing::warn!("{object}: {} was removed: {error}", path.display());
            return None;
        }
        self.engine.forget_former(info.id, id);
        world.close(id);
        let cleared = match &device {
            Some(device) => creation::clear(world, &directory, device, uuid),
            None => Ok(()),
        };
        let text = match &cleared {
            Ok(()) => format!("{} was removed, and is free", path.display()),
            Err(problem) => format!(
                "{} was removed, and cannot be cleared: {problem}",
                path.display()
            ),
        };
        Some(Notice {
            object,
            is_warning: cleared.is_err(),
            text,
        })
    }

    /// Paths of members.
    pub(super) fn paths_of(
        &self,
        info: &AggregateInfo,
        is_meant: impl Fn(usize) -> bool,
    ) -> Vec<String> {
        let members = info.members.iter().enumerate();
        let meant = members.filter(|(index, _)| is_meant(*index));
        let path = |id: DeviceId| Some(self.plane.world.info(id)?.path.display().to_string());
        let missing = || "(missing)".to_owned();
        meant
            .map(|(_, member)| member.device.and_then(path).unwrap_or_else(missing))
            .collect()
    }

    fn planned(&self, info: &AggregateInfo, plan: &RemovalPlan) -> Removal {
        let is_meant = |index: usize| plan.members.iter().any(|member| *member as usize == index);
        Removal {
            aggregate: info.name.clone(),
            state: RemovalState::Planned,
            devices: self.paths_of(info, is_meant),
            size_bytes: bytes(plan.total_blocks_after),
            ..Removal::default()
        }
    }

    pub(super) fn view_removal(&self, info: &AggregateInfo) -> Removal {
        let none = Removal {
            aggregate: info.name.clone(),
            size_bytes: bytes(info.usage.total_blocks),
            ..Removal::default()
        };
        let Some(removal) = &info.removal else {
            return none;
        };
        let is_known = removal.is_surveyed;
        let moved = removal.total_blocks.saturating_sub(removal.left_blocks);
        let seconds = self.now().0.saturating_sub(removal.begun_seconds);
        let pace = CatchingUp::of(bytes(moved), bytes(removal.total_blocks), seconds);
        let state = match removal {
            it if it.stuck_blocks > 0 => RemovalState::Stuck,
            it if it.waits_for_space => RemovalState::Waiting,
            it if it.is_paused => RemovalState::Paused,
            _ => RemovalState::Running,
        };
        Removal {
            state,
            devices: self.paths_of(info, |index| info.members[index].seat.is_evacuating()),
            total_bytes: is_known.then(|| bytes(removal.total_blocks)),
            left_bytes: is_known.then(|| bytes(removal.left_blocks)),
            percent: match is_known {
                true => pace.percent.min(99),
                false => 0,
            },
            stuck_block_count: removal.stuck_blocks,
            started: Some(Moment(removal.begun_seconds).to_string()),
            bytes_per_second: pace.bytes_per_second,
            eta_seconds: pace
                .eta_seconds
                .filter(|_| is_known && state == RemovalState::Running),
            ..none
        }
    }
}

/// Names the device that a refusal is about.
fn about(device: &str, problem: Problem) -> Problem {
    Problem {
        detail: format!("{device} cannot be removed: {}", problem.detail),
        ..problem
    }
}
