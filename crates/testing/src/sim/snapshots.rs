//! Snapshots: one volume lives through writes, snapshots, deletions, restores, new names, restarts
//! and power cuts.
//!
//! Requests are made one at a time, so the model is simple: the list of the volume's states, each
//! of them whole (LUNs and, for every snapshot, its LUNs). The promises are:
//!
//! 1. The state found is one of the list, not older than the last durable one: administrative
//!    changes, and all changes before them, are durable when they are answered.
//! 2. Scans rest or run, as the last request demands.
//! 3. Every snapshot reads as the volume's content when it was taken, to the byte, and there are no
//!    other snapshots.
//! 4. The reported changes between two images are their differences (`diff`): some are compared at
//!    once, the rest after each start.
//! 5. A LUN or a snapshot in the trash comes back as it was, and leaves the trash by itself only
//!    when space is short.
//!
//! A clone of a LUN is an exception: it continues during later requests, and appears, whole, at
//! some moment (`Cloning`).
//!
//! The offline check verifies properties that only media show (holders of blocks, counters, leaks).

mod diff;
mod draw;
mod trash;

use std::collections::BTreeMap;

use everglade_engine::admin::{self, Change};
use everglade_env::BLOCK_SIZE;
use everglade_target::{Error, Op};

use super::asker::{Asker, Ended, Lun};
use super::{Background, Failure, Growth, Report, growth};
use crate::engine::BUSY;
use crate::engine::{EngineMaker, EngineSystem, Opening};
use crate::system::{Geometry, Maker, PoolGrowth, System};
use crate::world::{Cut, Images, Keep};
use crate::{Rng, Seed, SimWorld};
pub(super) use draw::{draw, notes, restorable};
use trash::{Binned, Item};

/// The first name of the volume.
const VOLUME: &str = "v";
const BLOCK: u64 = BLOCK_SIZE as u64;
/// Blocks that a LUN may have at most.
const LUN_BLOCKS_MAX: u64 = 3_000;
/// Snapshots at which no more are taken.
const SNAPSHOTS_MAX: usize = 12;
/// LUNs at which none is cloned any more.
const LUNS_MAX: usize = 5;
/// Rests in which a clone must be complete, and how long they are.
const CLONE_POINTS_MAX: usize = 500;
const CLONE_REST: u64 = 300_000_000;

pub(super) type Image = BTreeMap<String, Lun>;

/// The visible state of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) active: Image,
    pub(super) snapshots: BTreeMap<String, Image>,
    /// LUNs in the trash, no two of one name.
    trash: Image,
    /// Those that were there when each snapshot was taken.
    trashes: BTreeMap<String, Image>,
    /// Names of the snapshots, the oldest first, each with its place among all that were taken.
    order: Vec<(u64, String)>,
    /// Snapshots that were taken so far.
    taken: u64,
    /// Snapshots in the trash, no two of one name.
    bin: BTreeMap<String, Binned>,
    holds: BTreeMap<String, Vec<String>>,
    /// Percent of their pace that scans are held back by.
    held_back: u8,
    /// LUNs that were made so far.
    luns_made: u64,
    cloning: Option<Cloning>,
    /// Names of the volume and the aggregate, if they were changed.
    volume: Option<String>,
    aggregate: Option<String>,
    /// Notes in the aggregate.
    notes: Vec<u8>,
    /// What the pool consists of, once it has grown.
    geometry: Option<Geometry>,
}

/// A LUN clone under way: the time of its appearance is unknown, but its presence is visible.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cloning {
    name: String,
    lun: Lun,
    /// True if the volume was restored meanwhile: only snapshots may have the clone, if it existed
    /// before.
    is_ended: bool,
}

/// The visible state of a clone.
struct Sight {
    is_there: bool,
    /// The reason why the clone job failed.
    failed: Option<String>,
    /// True while the clone is under way.
    is_made: bool,
    /// Snapshots that have it.
    snapshots: Vec<String>,
}

impl State {
    /// Puts a clone where it can be seen.
    fn resolve(&mut self, sight: &Sight) {
        let Some(cloning) = &self.cloning else { return };
        for name in &sight.snapshots {
            if let Some(image) = self.snapshots.get_mut(name) {
                let lun = || cloning.lun.clone();
                image.entry(cloning.name.clone()).or_insert_with(lun);
            }
        }
        let is_there = sight.is_there && !cloning.is_ended;
        if is_there {
            let (name, lun) = (cloning.name.clone(), cloning.lun.clone());
            self.active.insert(name, lun);
        }
        if is_there || cloning.is_ended || sight.failed.is_some() {
            self.cloning = None;
        }
    }

    /// Returns the name of a LUN clone under way, as far as is known.
    pub(super) fn cloning(&self) -> Option<&str> {
        self.cloning.as_ref().map(|cloning| cloning.name.as_str())
    }

    /// True if a hold protects a snapshot from deletion.
    pub(super) fn is_held(&self, snapshot: &str) -> bool {
        self.holds
            .get(snapshot)
            .is_some_and(|tags| !tags.is_empty())
    }

    /// Scans rest.
    pub(super) fn is_paused(&self) -> bool {
        self.held_back == 100
    }

    /// True if a change would delete a held snapshot, so that it must be refused.
    fn keeps(&self, change: &Change) -> bool {
        match change {
            Change::DeleteSnapshot { name, .. } | Change::TrashSnapshot { name, .. } => {
                self.is_held(name)
            }
            Change::RollBackVolume { discards, .. } => {
                discards.iter().any(|name| self.is_held(name))
            }
            _ => false,
        }
    }

    /// Snapshots that were taken after one.
    pub(super) fn newer(&self, snapshot: &str) -> Vec<String> {
        let names = self.order.iter().map(|(_, name)| name);
        let mut newer = names.skip_while(|name| *name != snapshot);
        newer.next().expect("it is there");
        newer.cloned().collect()
    }

    /// Returns the volume's name.
    pub(super) fn volume(&self) -> &str {
        self.volume.as_deref().unwrap_or(VOLUME)
    }
}

/// One request.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Write(String, u64, u64, u64),
    Discard(String, u64, u64),
    Flush(String),
    ConsistencyPoint,
    Change(Change),
    Grow(PoolGrowth),
    Rest(u64),
    Look,
    /// Waits until the LUN clone under way is complete.
    AwaitClone,
    /// Takes something out of the trash, under another name.
    Undelete(Item, String),
    /// Removes something for good that is in the trash.
    Purge(Item),
}

pub(super) struct Life<'a> {
    pub(super) asker: Asker<'a>,
    /// States since the last one that is durable, which is the first.
    pub(super) states: Vec<State>,
    pub(super) trace: Vec<String>,
    /// A LUN was being cloned when the volume was opened.
    pub(super) was_cloning: bool,
}

impl<'a> Life<'a> {
    pub(super) fn new(world: &'a SimWorld, system: EngineSystem, states: Vec<State>) -> Life<'a> {
        Life {
            asker: Asker::new(world, system),
            states,
            trace: Vec::new(),
            was_cloning: false,
        }
    }

    pub(super) fn now(&self) -> &State {
        self.states.last().expect("there is always one")
    }

    /// Returns the visible state of the clone under way.
    fn sight(&mut self, state: &State) -> Option<Sight> {
        let name = &state.cloning.as_ref()?.name;
        let volume = state.volume();
        let exports = self.asker.system.target(0).exports();
        let full = format!("{volume}/{name}");
        let is_there = exports.iter().any(|export| export.name == full);
        let info = self
            .asker
            .system
            .lun_clone(volume)
            .filter(|info| info.name == *name);
        let snapshots = self.asker.system.snapshots(volume).into_iter();
        Some(Sight {
            is_there,
            is_made: info.as_ref().is_some_and(|info| info.failed.is_none()),
            failed: info.and_then(|info| info.failed),
            snapshots: snapshots
                .filter(|info| info.luns.contains(name))
                .map(|info| info.name)
                .collect(),
        })
    }

    /// Records a clone that was completed, or ended: that is durable before clients can see it.
    fn resolve(&mut self) -> Result<(), Failure> {
        self.resolve_trash();
        let now = self.now().clone();
        let Some(sight) = self.sight(&now) else {
            return Ok(());
        };
        let is_known = |reason: &String| reason.contains("no space") || reason.contains("restored");
        if let Some(reason) = sight.failed.as_ref().filter(|reason| !is_known(reason)) {
            return Err(Failure::new(format!("a LUN was not cloned: {reason}")));
        }
        let wanted = now.cloning.map(|cloning| cloning.name);
        for state in &mut self.states {
            if state.cloning.as_ref().map(|cloning| cloning.name.clone()) == wanted {
                state.resolve(&sight);
            }
        }
        Ok(())
    }

    /// A state with the clone that it knows of where that can be seen.
    fn as_seen(&mut self, state: &State) -> State {
        let mut state = state.clone();
        if let Some(sight) = self.sight(&state) {
            state.resolve(&sight);
        }
        if self.has_purged() {
            state.keep_in_trash(&self.trashed());
        }
        state
    }

    /// Compares everything with a state.
    fn compare(&mut self, state: &State) -> Result<Ended<()>, Failure> {
        let state = &self.as_seen(state);
        let exports = self.asker.system.target(0).exports();
        let listed: BTreeMap<String, u64> = exports
            .into_iter()
            .map(|e| (e.name, e.size_bytes))
            .collect();
        let aggregate = state.aggregate.as_deref().unwrap_or(EngineMaker::AGGREGATE);
        if self.asker.system.name() != aggregate {
            return Err(Failure::new(format!(
                "Exports: the aggregate is {}, not {aggregate}",
                self.asker.system.name()
            )));
        }
        let geometry = self.asker.system.geometry();
        let is_told = geometry.is_some() && state.geometry.is_some();
        if is_told && state.geometry != geometry {
            return Err(Failure::new(format!(
                "Growth: {geometry:?}, not {:?}",
                state.geometry
            )));
        }
        // A volume without LUNs and snapshots shows itself by its name only.
        let volumes = self.asker.system.volumes();
        if volumes != Some(vec![state.volume().to_owned()]) {
            return Err(Failure::new(format!(
                "Exports: volumes {volumes:?}, not {}",
                state.volume()
            )));
        }
        let notes = self.asker.system.notes();
        if notes != state.notes {
            return Err(Failure::new(format!(
                "Exports: {} bytes of notes, not the {} that were set",
                notes.len(),
                state.notes.len()
            )));
        }
        let volume = state.volume();
        let named = |(name, lun): (&String, &Lun)| (format!("{volume}/{name}"), lun.blocks * BLOCK);
        let expected: BTreeMap<String, u64> = state.active.iter().map(named).collect();
        if listed != expected {
            return Err(Failure::new(format!(
                "Exports: {listed:?}, not {expected:?}"
            )));
        }
        self.compare_trash(state)?;
        // A cancelled clone and a clone under way look the same until the clone is complete.
        let info = self.asker.system.lun_clone(volume);
        let made = info.filter(|info| info.failed.is_none());
        if let Some(made) = made.filter(|info| state.cloning() != Some(info.name.as_str())) {
            return Err(Failure::new(format!(
                "Exports: LUN {} is being cloned, but that was cancelled, or not asked for",
                made.name
            )));
        }
        let infos = self.asker.system.snapshots(volume);
        let listed: BTreeMap<String, Vec<String>> = infos
            .into_iter()
            .map(|info| (info.name, info.holds))
            .collect();
        let holds = |name: &String| state.holds.get(name).cloned().unwrap_or_default();
        let expected: BTreeMap<String, Vec<String>> = state
            .snapshots
            .keys()
            .map(|name| (name.clone(), holds(name)))
            .collect();
        if listed != expected {
            return Err(Failure::new(format!(
                "Exports: snapshots {listed:?}, not {expected:?}"
            )));
        }
        let pace = self.asker.system.scan(state.volume()).pace_percent;
        if pace != 100 - state.held_back {
            return Err(Failure::new(format!(
                "Exports: scans have a pace of {pace} %, held back by {} %",
                state.held_back
            )));
        }
        for (name, lun) in &state.active {
            if let Ended::Cut = self.asker.read(&format!("{volume}/{name}"), lun)? {
                return Ok(Ended::Cut);
            }
        }
        for (snapshot, image) in &state.snapshots {
            for (name, lun) in image {
                if let Ended::Cut = self
                    .asker
                    .read(&format!("{volume}/{name}@{snapshot}"), lun)?
                {
                    return Ok(Ended::Cut);
                }
            }
        }
        Ok(Ended::With(()))
    }

    /// Makes one request. Returns false when the power failed; the request may or may not have been
    /// executed.
    pub(super) fn step(&mut self, step: Step) -> Result<bool, Failure> {
        self.trace.push(format!("{step:?}"));
        self.resolve()?;
        let mut next = self.now().clone();
        let volume = next.volume().to_owned();
        let full = |lun: &String| format!("{volume}/{lun}");
        let (ended, durable) = match &step {
            Step::Write(lun, first, count, fill) => {
                let image = next.active.get_mut(lun).expect("known");
                let data = image.write(*first, *count, *fill);
                (
                    self.asker.ask(
                        &full(lun),
                        Op::Write {
                            data,
                            durable: false,
                        },
                    )?,
                    false,
                )
            }
            Step::Discard(lun, first, count) => {
                let image = next.active.get_mut(lun).expect("known");
                image
                    .data
                    .retain(|block, _| !(*first..first + count).contains(block));
                let op = Op::Discard {
                    offset: first * BLOCK,
                    length: count * BLOCK,
                    durable: false,
                };
                (self.asker.ask(&full(lun), op)?, false)
            }
            Step::Flush(lun) => (self.asker.ask(&full(lun), Op::Flush)?, true),
            Step::ConsistencyPoint => return self.changed(None, next),
            Step::Change(change) => {
                let change = change.clone();
                apply(&mut next, &change);
                return self.changed(Some(change), next);
            }
            Step::Grow(growth) => return self.grown(growth, next),
            Step::Rest(nanos) => return Ok(self.asker.rest(*nanos)),
            Step::AwaitClone => return self.await_clone(),
            Step::Undelete(..) | Step::Purge(_) => return self.leave_trash(&step, next),
            Step::Look => {
                let state = self.now().clone();
                if let Ended::Cut = self.compare(&state)? {
                    return Ok(false);
                }
                let state = self.as_seen(&state);
                return Ok(matches!(self.diff_all(&state)?, Ended::With(())));
            }
        };
        match ended {
            Ended::Cut => {
                self.states.push(next);
                Ok(false)
            }
            Ended::With(Err(Error::NoSpace)) => Ok(true),
            Ended::With(Err(error)) => Err(Failure::new(format!(
                "a valid request failed: {step:?}: {error}"
            ))),
            Ended::With(Ok(_)) => {
                self.happened(next, durable)?;
                Ok(true)
            }
        }
    }

    /// The pool grows, however full it is, and nothing else changes.
    fn grown(&mut self, growth: &PoolGrowth, mut next: State) -> Result<bool, Failure> {
        let begun = self.asker.system.growths().len();
        let ended = self.asker.grow(growth.clone())?;
        let records = &self.asker.system.growths()[begun..];
        next.geometry = records.last().map_or(next.geometry, |it| Some(it.geometry));
        match ended {
            Ended::Cut => {
                self.states.push(next);
                Ok(false)
            }
            Ended::With(Ok(())) => {
                self.happened(next, true)?;
                Ok(true)
            }
            Ended::With(Err(Error::Invalid(BUSY))) => Ok(true),
            Ended::With(Err(error)) => Err(Failure::new(format!(
                "a valid request failed: {growth:?}: {error}"
            ))),
        }
    }

    pub(super) fn changed(&mut self, change: Option<Change>, next: State) -> Result<bool, Failure> {
        let text = format!("{change:?}");
        let is_cancel = matches!(change, Some(Change::CancelLunClone { .. }));
        let is_clone = matches!(change, Some(Change::CloneLun { .. }));
        self.was_cloning &= !is_clone;
        let is_kept = change
            .as_ref()
            .is_some_and(|change| self.now().keeps(change));
        match self.asker.administer(change)? {
            Ended::Cut if is_kept => Ok(false),
            Ended::With(Ok(())) if is_kept => Err(Failure::new(format!(
                "Exports: what is held was deleted: {text}"
            ))),
            Ended::With(Err(admin::Error::Busy(_))) if is_kept => Ok(true),
            Ended::Cut => {
                self.states.push(next);
                Ok(false)
            }
            Ended::With(Ok(())) => {
                self.happened(next, true)?;
                Ok(true)
            }
            Ended::With(Err(admin::Error::NoSpace)) => Ok(true),
            // The clone was complete, or had ended, before.
            Ended::With(Err(admin::Error::NotFound(_))) if is_cancel => {
                self.resolve()?;
                Ok(true)
            }
            // The active image may descend from too many.
            Ended::With(Err(admin::Error::Limit(_))) if is_clone => Ok(true),
            Ended::With(Err(error)) => Err(Failure::new(format!(
                "a valid request failed: {text}: {error}"
            ))),
        }
    }

    fn happened(&mut self, next: State, durable: bool) -> Result<(), Failure> {
        if durable {
            self.states.clear();
        }
        self.states.push(next);
        self.resolve()
    }

    /// Waits until the clone under way is complete, or has ended.
    fn await_clone(&mut self) -> Result<bool, Failure> {
        for _ in 0..CLONE_POINTS_MAX {
            self.resolve()?;
            let now = self.now().clone();
            let Some(sight) = self.sight(&now) else {
                return Ok(true);
            };
            // A consistency point is requested too; it may be answered at once if there are no
            // changes.
            if !self.changed(None, now)? || !self.asker.rest(CLONE_REST) {
                return Ok(false);
            }
            if !sight.is_made && self.was_cloning {
                // The clone may have ended for lack of space before the power failed.
                self.resolve()?;
                self.states
                    .iter_mut()
                    .for_each(|state| state.cloning = None);
                return Ok(true);
            }
        }
        let volume = self.now().volume().to_owned();
        Err(Failure::new(format!(
            "stuck: a LUN is being cloned for ever: {:?}; {:?}",
            self.asker.system.lun_clone(&volume),
            self.asker.system.usage()
        )))
    }
}

/// Applies an allowed change to the state.
fn apply(state: &mut State, change: &Change) {
    let State {
        active,
        snapshots,
        trash,
        trashes,
        order,
        taken,
        bin,
        holds,
        volume,
        aggregate,
        notes,
        luns_made,
        held_back,
        cloning,
        geometry: _,
    } = state;
    let mut take = |name: &String| {
        *taken += 1;
        order.push((*taken, name.clone()));
    };
    match change {
        Change::RenameAggregate { to } => *aggregate = Some(to.clone()),
        Change::SetNotes { text } => notes.clone_from(text),
        Change::RenameVolume { to, .. } => *volume = Some(to.clone()),
        Change::RenameLun { name, to, .. } => {
            let lun = active.remove(name).expect("known");
            active.insert(to.clone(), lun);
        }
        Change::CreateLun {
            name, size_bytes, ..
        } => {
            let blocks = size_bytes / BLOCK;
            *luns_made += 1;
            active.insert(
                name.clone(),
                Lun {
                    number: *luns_made,
                    blocks,
                    ..Lun::default()
                },
            );
        }
        Change::DeleteLun { name, .. } => {
            active.remove(name);
        }
        Change::TrashLun { name, .. } => {
            let lun = active.remove(name).expect("known");
            trash.insert(name.clone(), lun);
        }
        Change::GrowLun {
            name, size_bytes, ..
        } => {
            active.get_mut(name).expect("known").blocks = size_bytes / BLOCK;
        }
        Change::ShrinkLun {
            name, size_bytes, ..
        } => {
            let lun = active.get_mut(name).expect("known");
            lun.blocks = size_bytes / BLOCK;
            lun.data.retain(|block, _| *block < size_bytes / BLOCK);
        }
        Change::CreateSnapshot { name, .. } => {
            snapshots.insert(name.clone(), active.clone());
            trashes.insert(name.clone(), trash.clone());
            take(name);
        }
        Change::RenameSnapshot { name, to, .. } => {
            let image = snapshots.remove(name).expect("known");
            snapshots.insert(to.clone(), image);
            let image = trashes.remove(name).expect("known");
            trashes.insert(to.clone(), image);
            for (_, known) in order.iter_mut().filter(|(_, known)| known == name) {
                known.clone_from(to);
            }
            if let Some(tags) = holds.remove(name) {
                holds.insert(to.clone(), tags);
            }
        }
        Change::DeleteSnapshot { name, .. } => {
            snapshots.remove(name);
            trashes.remove(name);
            order.retain(|(_, known)| known != name);
        }
        Change::TrashSnapshot { name, .. } => {
            let place = order.iter().position(|(_, known)| known == name);
            let (taken, _) = order.remove(place.expect("known"));
            let binned = Binned {
                image: snapshots.remove(name).expect("known"),
                trash: trashes.remove(name).expect("known"),
                taken,
            };
            bin.insert(name.clone(), binned);
        }
        Change::HoldSnapshot { name, tag, .. } => {
            holds.entry(name.clone()).or_default().push(tag.clone())
        }
        Change::ReleaseSnapshot { name, tag, .. } => {
            holds
                .entry(name.clone())
                .or_default()
                .retain(|known| known != tag);
        }
        Change::RestoreLun {
            snapshot,
            lun,
            safety,
            ..
        } => {
            let then = snapshots[snapshot][lun].clone();
            snapshots.insert(safety.clone(), active.clone());
            trashes.insert(safety.clone(), trash.clone());
            take(safety);
            // It may be there that it comes back from.
            trash.retain(|_, lun| lun.number != then.number);
            active.insert(lun.clone(), then);
        }
        Change::RestoreVolume {
            snapshot, safety, ..
        } => {
            let target = snapshots[snapshot].clone();
            snapshots.insert(safety.clone(), std::mem::replace(active, target));
            let target = trashes[snapshot].clone();
            trashes.insert(safety.clone(), std::mem::replace(trash, target));
            take(safety);
            if let Some(cloning) = cloning {
                cloning.is_ended = true;
            }
        }
        Change::RollBackVolume {
            snapshot, discards, ..
        } => {
            active.clone_from(&snapshots[snapshot]);
            trash.clone_from(&trashes[snapshot]);
            snapshots.retain(|name, _| !discards.contains(name));
            trashes.retain(|name, _| !discards.contains(name));
            order.retain(|(_, name)| !discards.contains(name));
            // What is newer goes, also if it is in the trash.
            let target = order.iter().find(|(_, name)| name == snapshot);
            let (target, _) = target.expect("known");
            bin.retain(|_, binned| binned.taken < *target);
            if let Some(cloning) = cloning {
                cloning.is_ended = true;
            }
        }
        Change::CloneLun {
            lun, name, from, ..
        } => {
            let image = from.as_ref().map_or(&*active, |from| &snapshots[from]);
            *luns_made += 1;
            let lun = Lun {
                number: *luns_made,
                ..image[lun].clone()
            };
            *cloning = Some(Cloning {
                name: name.clone(),
                lun,
                is_ended: false,
            });
        }
        Change::CancelLunClone { .. } => *cloning = None,
        Change::SetScanPace { percent, .. } => *held_back = 100 - percent,
        // The first thing that is done.
        Change::CreateVolume { .. } => {}
        // No block is damaged.
        Change::StartRepair | Change::StopRepair => {}
        // Nothing that anybody can read changes.
        Change::StartCleaning { .. } | Change::StartLayout { .. } => {}
        Change::StartRebalance | Change::MapSpace | Change::StopGardening => {}
        Change::StartRemoval { .. } | Change::StopRemoval => {}
        Change::DeleteVolume { .. }
        | Change::CloneVolume { .. }
        | Change::StartSplit { .. }
        | Change::StopSplit { .. }
        | Change::TakeOut { .. }
        | Change::StartScrub { .. }
        | Change::PauseScrub
        | Change::SetSync { .. }
        | Change::UndeleteLun { .. }
        | Change::PurgeLun { .. }
        | Change::UndeleteSnapshot { .. }
        | Change::PurgeSnapshot { .. }
        | Change::TrashVolume { .. }
        | Change::UndeleteVolume { .. }
        | Change::PurgeVolume { .. }
        | Change::Grow { .. } => unreachable!("not drawn"),
    }
}

/// The length and the faults of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Lives, each ended by a power cut.
    pub lives: u64,
    /// Things asked in each.
    pub steps: u64,
    /// Bytes of the pool.
    pub bytes: u64,
    /// LUNs are cloned.
    pub clones: bool,
    /// The pool gets more drives.
    pub grows: bool,
}

impl Plan {
    /// Returns the plan of a seed.
    #[must_use]
    pub fn of_seed(seed: Seed) -> Plan {
        let mut rng = Rng::for_part(seed.0, "snapshots plan");
        Plan {
            lives: 2 + rng.below(6),
            steps: 20 + rng.below(150),
            bytes: [64, 128, 256][rng.index(3)] << 20,
            clones: Rng::for_part(seed.0, "lun clones").one_in(2),
            grows: Rng::for_part(seed.0, "growths of the pool").one_in(4),
        }
    }
}

/// Runs a seed.
///
/// # Errors
/// A promise was broken.
pub fn run(seed: Seed, plan: Plan, maker: &EngineMaker) -> Result<Report, Failure> {
    let reactors = 1 + Rng::for_part(seed.0, "reactors").index(2);
    // Otherwise a consistency point would do a whole scan, and none would ever be cut in the
    // middle.
    let regions = [1, 1, 2, 5, maker.reclaim_regions];
    let maker = &EngineMaker {
        reclaim_regions: regions[Rng::for_part(seed.0, "reclaim").index(5)],
        create_scan: Rng::for_part(seed.0, "create scan").one_in(8),
        ..*maker
    };
    let mut rng = Rng::for_part(seed.0, "snapshots");
    let mut repairs = Rng::for_part(seed.0, "repairs");
    let mut repairs = repairs.one_in(4).then_some(repairs);
    let mut growths = Rng::for_part(seed.0, "growths of the pool");
    // As the plan has drawn.
    let _ = growths.one_in(4);
    let mut growths = plan.grows.then_some(growths);
    let mut trash = Rng::for_part(seed.0, "trash");
    let mut trash = trash.one_in(3).then_some(trash);
    let mut readers = Rng::for_part(seed.0, "readers");
    let mut world = SimWorld::new(seed, reactors, &maker.devices(plan.bytes));
    maker
        .format(&world)
        .map_err(|error| Failure::new(error).within("format"))?;
    let mut states = vec![];
    let mut report = Report::default();
    for life in 0..plan.lives {
        let system = maker
            .mount(&world)
            .map_err(|error| Failure::new(error).within(format!("life {life}: mount")))?;
        let mut running = Life::new(&world, system, states);
        let rngs = (&mut rng, &mut repairs, &mut growths, &mut trash);
        let verdict = live(&mut running, rngs, plan, life, maker);
        let verdict = verdict.and_then(|()| nothing_is_mended(&running));
        let Life {
            asker,
            states: left,
            trace,
            ..
        } = running;
        report.actions += asker.token;
        report.interrupted.count(Background::of(&asker.system));
        let made = |answer: Option<(u64, bool)>| answer.is_some_and(|(_, made)| made);
        let made = asker.system.growths().iter().filter(|it| made(it.answered));
        report.growths[Growth::Committed] += made.count() as u64;
        report.writes = world.writes();
        drop(asker);
        verdict.map_err(|failure| Failure {
            trace: trace.iter().rev().take(40).rev().cloned().collect(),
            ..failure.within(format!("life {life}"))
        })?;
        states = left;
        let images = cut(&world, &mut rng);
        let offline = SimWorld::restart(images.clone(), seed, 1);
        maker
            .check(&offline)
            .map_err(|error| Failure::new(error).within(format!("check after life {life}")))?;
        if readers.one_in(6) {
            let world = SimWorld::restart(images.clone(), seed, reactors);
            read_only(&world, maker, states.clone())
                .map_err(|failure| failure.within(format!("reading after life {life}")))?;
        }
        world = SimWorld::restart(images, Seed(seed.0.wrapping_add(life + 1)), reactors);
        report.cuts += 1;
        report.recoveries += 1;
    }
    report.digest = world.digest();
    Ok(report)
}

/// Whoever opens the aggregate for reading finds what everybody finds, and writes nothing.
fn read_only(world: &SimWorld, maker: &EngineMaker, states: Vec<State>) -> Result<(), Failure> {
    let opening = Opening {
        is_for_reading: true,
        ..Opening::default()
    };
    let before = world.writes();
    let system = match maker.mount_as(world, &opening) {
        // Parity can be made right by writing only.
        Err(refused) if refused.to_string().contains("parity of all stripes") => return Ok(()),
        mounted => mounted.map_err(|error| Failure::new(error.to_string()).within("mount"))?,
    };
    settle(&mut Life::new(world, system, states))?;
    match world.writes() - before {
        0 => Ok(()),
        writes => Err(Failure::new(format!(
            "Exports: {writes} writes of an aggregate that was opened for reading"
        ))),
    }
}

fn cut(world: &SimWorld, rng: &mut Rng) -> Images {
    let keep = [Keep::Nothing, Keep::Everything, Keep::Random(rng.draw())][rng.index(3)];
    world.after_cut(Cut::whole(keep))
}

/// A repair that runs beside everything else must find nothing, because nothing was damaged.
fn nothing_is_mended(life: &Life<'_>) -> Result<(), Failure> {
    let mended = life.asker.system.mended();
    let found = mended.total() + mended.repair.damaged_blocks;
    match found {
        0 => Ok(()),
        _ => Err(Failure::new(format!(
            "Mended: nothing was damaged: {mended:?}"
        ))),
    }
}

/// What to do, and what to do beside it.
type Rngs<'a> = (
    &'a mut Rng,
    &'a mut Option<Rng>,
    &'a mut Option<Rng>,
    &'a mut Option<Rng>,
);

/// Runs one life: check the state found, work until the power fails.
fn live(
    life: &mut Life<'_>,
    (rng, repairs, growths, trash): Rngs<'_>,
    plan: Plan,
    number: u64,
    maker: &EngineMaker,
) -> Result<(), Failure> {
    if number == 0 {
        life.states = vec![State::default()];
        let create = Change::CreateVolume {
            name: VOLUME.to_owned(),
            sync: maker.sync,
        };
        life.step(Step::Change(create))?;
    } else {
        settle(life)?;
    }
    let cut_at = rng
        .one_in(2)
        .then(|| life.asker.world.writes() + 1 + rng.below(4 * plan.steps));
    if let Some(write) = cut_at {
        life.asker.world.cut_at_write(write);
    }
    for step in 0..plan.steps {
        life.resolve()?;
        if let Some(rng) = repairs
            && rng.one_in(16)
        {
            let change = match rng.one_in(4) {
                true => Change::StopRepair,
                false => Change::StartRepair,
            };
            if !life.step(Step::Change(change))? {
                return Ok(());
            }
        }
        if let Some(rng) = growths
            && rng.one_in(32)
        {
            let growth = match maker.drives_together() {
                2.. if !maker.journal_device && rng.one_in(3) => PoolGrowth::Stronger,
                _ => growth::any(rng, life.asker.world, maker),
            };
            if !life.step(Step::Grow(growth))? {
                return Ok(());
            }
        }
        let step = number * 10_000 + step;
        if let Some(rng) = trash
            && rng.one_in(12)
            && let Some(next) = trash::draw(rng, life.now(), step)
            && !life.step(next)?
        {
            return Ok(());
        }
        let next = draw(rng, life.now(), step, plan.clones);
        if !life.step(next)? {
            return Ok(());
        }
    }
    life.step(Step::Look)?;
    life.asker.world.cut_now();
    Ok(())
}

/// Finds the state among the possible ones.
pub(super) fn settle(life: &mut Life<'_>) -> Result<(), Failure> {
    let mut states = std::mem::take(&mut life.states);
    // What was in the trash may have left it before the power failed.
    let trashed = life.trashed();
    states
        .iter_mut()
        .for_each(|state| state.keep_in_trash(&trashed));
    let mut last = None;
    // The newest first: most often it is.
    for state in states.iter().rev() {
        match life.compare(state) {
            Ok(Ended::With(())) => {
                life.states = vec![state.clone()];
                life.resolve()?;
                life.was_cloning = life.now().cloning.is_some();
                return Ok(());
            }
            Ok(Ended::Cut) => return Err(Failure::new("the power failed while looking")),
            Err(failure) => last = last.or(Some(failure)),
        }
    }
    let failure = last.expect("there was at least one");
    Err(failure.within(format!(
        "none of {} states is there; of the newest",
        states.len()
    )))
}
