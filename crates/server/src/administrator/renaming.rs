//! Renaming aggregates, volumes and LUNs.
//!
//! The pool has the names; `state.toml` and the book of policies follow it.
//!
//! 1. An aggregate: `state.toml` first, then the pool. If the daemon ends between the two, the next
//!    start finds that the names differ, and takes the name in the pool ([`follow`]).
//! 2. A volume: the book records the intention, then the pool changes the name, then the book
//!    ([`Schedule::rename`]).
//! 3. A rename gives no client new access: an export that an allow-list restricts can be renamed
//!    only to a name that allows the same clients. The same holds for clones, and for snapshots,
//!    because a snapshot's name is part of the names of its exports.
//! 4. The folder of an aggregate in the data directory keeps its first name, because its files are
//!    open.
//!
//! [`Schedule::rename`]: crate::schedule::Schedule::rename

use everglade_api::{Aggregate, CloneLun, Code, Lun, Problem, Rename, Volume};
use everglade_engine::{Engine, admin};

use super::administrator::{Administrator, host};
use crate::DataDir;
use crate::datadir::{Phase, State, Uuid};

impl Administrator {
    /// Gives an aggregate another name.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn rename_aggregate(&self, name: &str, request: &Rename) -> Result<Aggregate, Problem> {
        let to = request.name.as_str();
        self.refuse_unavailable(name)?;
        let mut directory = self.directory();
        let _settled = self.populating.write();
        let missing = || Problem::not_found("aggregate", name);
        let recorded = directory.state().aggregate(name).ok_or_else(missing)?;
        if recorded.phase != Phase::Ready {
            let text = format!("aggregate {name} is just being made or deleted");
            return Err(Problem::new(Code::Unavailable, text));
        }
        let known = self.find_aggregate(name).ok_or_else(missing)?;
        if to == name {
            drop(directory);
            return self.aggregate(name);
        }
        if directory.state().aggregate(to).is_some() || self.find_aggregate(to).is_some() {
            let text = format!("aggregate {to} exists already; choose another name");
            return Err(Problem::new(Code::Exists, text));
        }
        let before = directory.state().clone();
        let mut after = before.clone();
        set_name(&mut after, name, to);
        directory.record(after).map_err(|error| host(&error))?;
        let change = admin::Change::RenameAggregate { to: to.to_owned() };
        if let Err(problem) = self.change(known.id, change) {
            // If this fails, the next start takes the name of the pool.
            if let Err(error) = directory.record(before) {
                tracing::error!(
                    "aggregate {name} keeps its name, which the next start records: {error}"
                );
            }
            return Err(problem);
        }
        let mut ready = self.ready();
        ready.remove(name);
        ready.insert(to.to_owned());
        drop(ready);
        drop(directory);
        tracing::info!("renamed aggregate {name} to {to}");
        self.aggregate(to).map_err(Problem::after_change)
    }

    /// Gives a volume another name.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn rename_volume(&self, name: &str, request: &Rename) -> Result<Volume, Problem> {
        let to = request.name.as_str();
        let volume = self.volume(name)?;
        if to == name {
            return Ok(volume);
        }
        let luns = self.luns(name)?.luns.into_iter();
        let luns = luns.map(|lun| format!("{}/{}", lun.volume, lun.name));
        let snapshots = self.snapshots(name)?.snapshots.into_iter();
        for export in luns.chain(snapshots.flat_map(|snapshot| snapshot.nbd_exports)) {
            let (_, lun) = export.split_once('/').expect("exports are VOLUME/LUN");
            self.refuse_other_callers(&export, &format!("{to}/{lun}"))?;
        }
        let aggregate = self.aggregate_of(name)?;
        let change = admin::Change::RenameVolume {
            name: name.to_owned(),
            to: to.to_owned(),
        };
        self.schedule()
            .rename(name, to, || self.change(aggregate, change).map(drop))?;
        tracing::info!("renamed volume {name} to {to}");
        self.volume(to).map_err(Problem::after_change)
    }

    /// Gives a LUN another name.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn rename_lun(&self, volume: &str, name: &str, request: &Rename) -> Result<Lun, Problem> {
        let to = request.name.as_str();
        let lun = self.lun(volume, name)?;
        if to == name {
            return Ok(lun);
        }
        self.refuse_other_callers(&format!("{volume}/{name}"), &format!("{volume}/{to}"))?;
        let change = admin::Change::RenameLun {
            volume: volume.to_owned(),
            name: name.to_owned(),
            to: to.to_owned(),
        };
        self.change_in(volume, change)?;
        tracing::info!("renamed LUN {volume}/{name} to {volume}/{to}");
        self.lun(volume, to).map_err(Problem::after_change)
    }

    /// Says no if the clone of a LUN would be for others than the LUN.
    pub(super) fn refuse_clone_for_others(
        &self,
        volume: &str,
        lun: &str,
        request: &CloneLun,
    ) -> Result<(), Problem> {
        let at = request.snapshot.as_ref();
        let at = at.map_or(String::new(), |snapshot| format!("@{snapshot}"));
        let (source, clone) = (
            format!("{volume}/{lun}{at}"),
            format!("{volume}/{}", request.name),
        );
        self.refuse_other_callers(&source, &clone)
    }

    /// Refuses a new name, or the name of a copy, that would admit other clients to a restricted
    /// export.
    pub(super) fn refuse_other_callers(&self, export: &str, other: &str) -> Result<(), Problem> {
        let mut lists = self.allow.iter();
        let Some(opened) = lists.find(|it| it.rules.opens(export, other)) else {
            return Ok(());
        };
        let key = &opened.key;
        let text = format!(
            "{key} says who may use {export}, and {other} would be for others; add a line for \
            {other} with the same callers and restart the daemon first"
        );
        Err(Problem::new(Code::StillNeeded, text))
    }
}

fn set_name(state: &mut State, name: &str, to: &str) {
    let known = state.aggregates.iter_mut().find(|known| known.name == name);
    to.clone_into(&mut known.expect("looked up by the caller").name);
}

/// Records names that the pool has and the data directory has not. Devices are found by their
/// records, so a name that cannot be recorded is no error: the next start tries again.
pub(crate) fn follow(engine: &Engine, directory: &mut DataDir) {
    for known in engine.aggregates() {
        let state = directory.state();
        let recorded = state.aggregates.iter();
        let recorded = recorded
            .clone()
            .find(|recorded| recorded.uuid == Some(Uuid(known.uuid)));
        let Some(before) = recorded.map(|recorded| recorded.name.clone()) else {
            continue;
        };
        if before == known.name {
            continue;
        }
        if state.aggregate(&known.name).is_some() {
            tracing::warn!(
                "aggregate {before} calls itself {}, as another does; rename one of them",
                known.name
            );
            continue;
        }
        let mut state = state.clone();
        set_name(&mut state, &before, &known.name);
        match directory.record(state) {
            Ok(()) => tracing::info!("aggregate {before} is called {} now", known.name),
            Err(error) => tracing::error!(
                "aggregate {before} is called {} now, which the next start records: {error}",
                known.name
            ),
        }
    }
}
