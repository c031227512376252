//! All sequences of up to three operations over an alphabet with clones of volumes and their
//! splits, cut at each device write.
//!
//! As in [`super::histories`], one request is made at a time from one of four start states (a
//! volume with two snapshots; a clone of the older one with changes; the same clone during its
//! split; a clone of a clone, during the split of the first), and afterwards the world rests, so
//! that splits and deletions are cut too. A split continues during later requests: the state
//! records its begin, and the system shows its end (`Life::resolve`). Case n is sequence n / 4 from
//! start state n mod 4, the short sequences first.
//!
//! 1. Objects that a clone needs exist: while the volume is a clone, neither its base, its parent
//!    nor its parent's snapshot can be deleted; afterwards they can.
//! 2. Every volume and every snapshot reads as it did when it was made, whatever became of those it
//!    shares with.
//! 3. A clone exists whole or not at all, and the same applies to the end of a split and all other
//!    changes.

use std::collections::BTreeMap;

use everglade_engine::SplitState;
use everglade_engine::admin::{self, Change};
use everglade_env::BLOCK_SIZE;
use everglade_target::Op;

use crate::SimWorld;
use crate::engine::{EngineMaker, EngineSystem};
use crate::sim::Failure;
use crate::sim::asker::{Asker, Ended, Lun};
use crate::sim::changes::Side;
use crate::sim::story::{self, Beginning, Life as _, Story};
use crate::sim::words::{Cases, Words};
use crate::system::System;

const BLOCK: u64 = BLOCK_SIZE as u64;
/// Name of the first volume.
const FIRST: &str = "v";
/// Names of clones; the later ones are for clones of clones.
const CLONES: [&str; 2] = ["c", "d"];
const LUN: &str = "l";
/// A level-1 block and a bit.
const LUN_BLOCKS: u64 = 300;
/// Rest in nanoseconds: the timer makes consistency points until all scans and splits are done.
const REST: u64 = 1_500_000_000;

/// A letter of the alphabet. The *clone* is the youngest there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letter {
    WriteFirst,
    WriteClone,
    SnapFirst,
    SnapClone,
    /// Clones the newest snapshot of the youngest volume.
    Clone,
    /// Begins a split, or stops the one under way.
    Split,
    /// The base of the clone is to go, in its parent.
    DeleteBase,
    /// Deletes the base in the clone.
    DeleteOwnBase,
    DeleteClone,
    DeleteFirst,
    RestoreClone,
    RestoreFirst,
    /// The clone, or without one the first volume, gets another name.
    Rename,
    ConsistencyPoint,
}

const ALPHABET: [Letter; 14] = [
    Letter::WriteFirst,
    Letter::WriteClone,
    Letter::SnapFirst,
    Letter::SnapClone,
    Letter::Clone,
    Letter::Split,
    Letter::DeleteBase,
    Letter::DeleteOwnBase,
    Letter::DeleteClone,
    Letter::DeleteFirst,
    Letter::RestoreClone,
    Letter::RestoreFirst,
    Letter::Rename,
    Letter::ConsistencyPoint,
];

/// A volume, with one LUN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Volume {
    lun: Lun,
    /// Snapshots in order of creation.
    snapshots: Vec<(String, Lun)>,
    base: Option<Base>,
}

/// The base of a clone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Base {
    parent: String,
    snapshot: String,
    split: Split,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    Never,
    /// Or it is over.
    GoesOn,
    Stopped,
}

/// All volumes by name.
type State = BTreeMap<String, Volume>;

impl Volume {
    fn snapshot(&self, name: &str) -> &Lun {
        let mut all = self.snapshots.iter();
        &all.find(|(known, _)| known == name).expect("known").1
    }

    fn is_splitting(&self) -> bool {
        let base = self.base.as_ref();
        base.is_some_and(|base| base.split == Split::GoesOn)
    }
}

/// Returns the youngest clone.
fn youngest(state: &State) -> Option<&str> {
    // A clone of a clone is called a later name, also when it was renamed.
    let clones = state.keys().rev().filter(|name| **name != FIRST);
    let mut clones = clones.filter(|name| !name.starts_with('w'));
    clones.next().map(String::as_str)
}

/// Returns the first volume's name.
fn first(state: &State) -> Option<&str> {
    let mut names = state.keys();
    let found = names.find(|name| name.starts_with('v') || name.starts_with('w'));
    found.map(String::as_str)
}

/// One step of a case.
#[derive(Clone, Debug)]
enum Step {
    Write(String, u64, u64, u64),
    Change(Change),
    ConsistencyPoint,
    Rest,
    Look,
}

/// True if a clone needs the object that a change deletes.
fn is_needed(state: &State, change: &Change) -> bool {
    let (volume, snapshot) = match change {
        Change::DeleteSnapshot { volume, name } => (volume, Some(name)),
        Change::DeleteVolume { name } => (name, None),
        _ => return false,
    };
    let is_meant = |known: &String| snapshot.is_none_or(|wanted| wanted == known);
    state.iter().any(|(name, other)| {
        other.base.as_ref().is_some_and(|base| {
            let is_parent = base.parent == *volume && is_meant(&base.snapshot);
            let is_own = name == volume && snapshot.is_some() && is_meant(&other.snapshots[0].0);
            is_parent || is_own
        })
    })
}

/// Applies an allowed change to the state.
fn apply(state: &mut State, change: &Change) {
    match change {
        Change::CreateVolume { name, .. } => {
            state.insert(name.clone(), Volume::default());
        }
        Change::CreateLun { volume, .. } => {
            state.get_mut(volume).expect("known").lun.blocks = LUN_BLOCKS;
        }
        Change::CreateSnapshot { volume, name } => {
            let volume = state.get_mut(volume).expect("known");
            volume.snapshots.push((name.clone(), volume.lun.clone()));
        }
        Change::DeleteSnapshot { volume, name } => {
            let volume = state.get_mut(volume).expect("known");
            volume.snapshots.retain(|(known, _)| known != name);
        }
        Change::DeleteVolume { name } => {
            state.remove(name);
        }
        Change::RenameVolume { name, to } => {
            let volume = state.remove(name).expect("known");
            state.insert(to.clone(), volume);
            let bases = state.values_mut().filter_map(|other| other.base.as_mut());
            for base in bases.filter(|base| base.parent == *name) {
                base.parent.clone_from(to);
            }
        }
        Change::RestoreVolume {
            volume,
            snapshot,
            safety,
        } => {
            let volume = state.get_mut(volume).expect("known");
            let target = volume.snapshot(snapshot).clone();
            let before = std::mem::replace(&mut volume.lun, target);
            volume.snapshots.push((safety.clone(), before));
        }
        Change::CloneVolume {
            name,
            parent,
            snapshot,
        } => {
            let lun = state[parent].snapshot(snapshot).clone();
            let clone = Volume {
                snapshots: vec![(snapshot.clone(), lun.clone())],
                lun,
                base: Some(Base {
                    parent: parent.clone(),
                    snapshot: snapshot.clone(),
                    split: Split::Never,
                }),
            };
            state.insert(name.clone(), clone);
        }
        Change::StartSplit { volume } | Change::StopSplit { volume } => {
            let volume = state.get_mut(volume).expect("known");
            let base = volume.base.as_mut().expect("only of clones");
            base.split = match base.split {
                Split::GoesOn => Split::Stopped,
                Split::Never | Split::Stopped => Split::GoesOn,
            };
        }
        other => unreachable!("{other:?} is not drawn"),
    }
}

struct Life<'a> {
    asker: Asker<'a>,
    /// States since the last one that is durable, which is the first.
    states: Vec<State>,
}

impl Life<'_> {
    /// Returns the state with finished splits resolved; the end of a split is durable before
    /// clients can see it.
    fn resolve(&self, mut state: State) -> State {
        for (name, volume) in &mut state {
            let is_done = self.asker.system.split(name).state == SplitState::Done;
            if volume.is_splitting() && is_done {
                volume.base = None;
            }
        }
        state
    }

    fn resolve_all(&mut self) {
        let states = std::mem::take(&mut self.states).into_iter();
        self.states = states.map(|state| self.resolve(state)).collect();
    }

    fn change(&mut self, change: Option<&Change>, next: State) -> Result<(), Failure> {
        // A split, or the reason for it, may be over when a request is executed.
        let may_be_refused = change.is_some_and(|change| {
            matches!(change, Change::StopSplit { .. }) || is_needed(self.now(), change)
        });
        let ended = match self.asker.administer(change.cloned())? {
            Ended::With(ended) => ended,
            Ended::Cut => return Err(Failure::new("the power failed")),
        };
        // Splits that had to be over for the change are over now.
        let now = self.resolve(self.now().clone());
        match ended {
            Ok(()) if change.is_some_and(|change| is_needed(&now, change)) => {
                return Err(Failure::new(format!(
                    "Exports: {change:?} was done though a clone needs it"
                )));
            }
            Ok(()) => self.states = vec![next],
            Err(admin::Error::Busy(_)) if may_be_refused => {}
            Err(error) => {
                return Err(Failure::new(format!(
                    "a valid request failed: {change:?}: {error}"
                )));
            }
        }
        self.resolve_all();
        Ok(())
    }

    /// Compares everything with a state.
    fn compare(&mut self, state: &State) -> Result<(), Failure> {
        let state = self.resolve(state.clone());
        let exports = self.asker.system.target(0).exports();
        let listed: Vec<(String, u64)> = exports
            .into_iter()
            .map(|export| (export.name, export.size_bytes))
            .collect();
        let with_lun = state.iter().filter(|(_, volume)| volume.lun.blocks > 0);
        let expected: Vec<(String, u64)> = with_lun
            .map(|(name, volume)| (format!("{name}/{LUN}"), volume.lun.blocks * BLOCK))
            .collect();
        if listed != expected {
            return Err(Failure::new(format!(
                "Exports: {listed:?}, not {expected:?}"
            )));
        }
        let names = self.asker.system.volumes().unwrap_or_default();
        if !names.iter().eq(state.keys()) {
            return Err(Failure::new(format!("Exports: {names:?}, not {state:?}")));
        }
        for (name, volume) in &state {
            self.compare_kind(name, volume)?;
            let infos = self.asker.system.snapshots(name).into_iter();
            let listed: Vec<String> = infos.map(|info| info.name).collect();
            let known = volume.snapshots.iter().map(|(name, _)| name.clone());
            let expected: Vec<String> = known.collect();
            if listed != expected {
                return Err(Failure::new(format!(
                    "Exports: {name} has snapshots {listed:?}, not {expected:?}"
                )));
            }
            let snapshots = volume.snapshots.iter();
            let images = snapshots.map(|(snapshot, lun)| (format!("@{snapshot}"), lun));
            for (at, lun) in images.chain([(String::new(), &volume.lun)]) {
                if let Ended::Cut = self.asker.read(&format!("{name}/{LUN}{at}"), lun)? {
                    return Err(Failure::new("the power failed while looking"));
                }
            }
        }
        Ok(())
    }

    /// Asks what of each volume changed since each of its snapshots.
    fn diff_all(&mut self) -> Result<(), Failure> {
        let state = self.now().clone();
        for (name, volume) in &state {
            let export = format!("{name}/{LUN}");
            let now = Side {
                export,
                lun: &volume.lun,
            };
            for (snapshot, lun) in &volume.snapshots {
                let export = format!("{name}/{LUN}@{snapshot}");
                if let Ended::Cut = self.asker.diff(&now, &Side { export, lun })? {
                    return Err(Failure::new("the power failed while looking"));
                }
            }
        }
        Ok(())
    }

    /// Compares what a volume is a clone of, and how its split is.
    fn compare_kind(&self, name: &str, volume: &Volume) -> Result<(), Failure> {
        let told = self.asker.system.base(name);
        let expected = volume.base.as_ref();
        let expected = expected.map(|base| format!("{}@{}", base.parent, base.snapshot));
        if told != expected {
            return Err(Failure::new(format!(
                "Exports: {name} is a clone of {told:?}, not of {expected:?}"
            )));
        }
        let split = self.asker.system.split(name).state;
        let is_right = match volume.base.as_ref().map(|base| base.split) {
            None => matches!(split, SplitState::None | SplitState::Done),
            Some(Split::Never) => split == SplitState::None,
            Some(Split::Stopped) => split == SplitState::Stopped,
            Some(Split::GoesOn) => matches!(
                split,
                SplitState::Copying | SplitState::WaitingForOther | SplitState::WaitingForSpace
            ),
        };
        match is_right {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "Exports: the split of {name} is {split:?}; known is {:?}",
                volume.base
            ))),
        }
    }
}

/// Prepares all cases. See the module's documentation.
///
/// # Errors
/// The error if the preparation fails.
pub fn cases() -> Result<Cases, Failure> {
    Words::<Clones>::cases()
}

fn write(volume: &str, first: u64, count: u64, fill: u64) -> Step {
    Step::Write(volume.to_owned(), first, count, fill << 20)
}

fn snap(volume: &str, name: &str) -> Step {
    Step::Change(Change::CreateSnapshot {
        volume: volume.to_owned(),
        name: name.to_owned(),
    })
}

fn clone(name: &str, parent: &str, snapshot: &str) -> Step {
    Step::Change(Change::CloneVolume {
        name: name.to_owned(),
        parent: parent.to_owned(),
        snapshot: snapshot.to_owned(),
    })
}

/// Volumes and clones of them.
enum Clones {}

impl Story for Clones {
    type State = State;
    type Step = Step;
    type Letter = Letter;
    type Life<'a> = Life<'a>;

    const ALPHABET: &'static [Letter] = &ALPHABET;
    const POOL_BYTES: u64 = 32 << 20;

    fn maker() -> EngineMaker {
        EngineMaker {
            journal_half_blocks: 300,
            // A split takes some consistency points.
            reclaim_regions: 1,
            ..EngineMaker::SMALL
        }
    }

    fn beginnings() -> Vec<Beginning<Clones>> {
        let plain = [
            Step::Change(Change::CreateVolume {
                name: FIRST.to_owned(),
                sync: Clones::maker().sync,
            }),
            Step::Change(Change::CreateLun {
                volume: FIRST.to_owned(),
                name: LUN.to_owned(),
                size_bytes: LUN_BLOCKS * BLOCK,
            }),
            write("v", 0, 20, 1),
            write("v", 250, 10, 2),
            snap("v", "a"),
            write("v", 3, 5, 3),
            snap("v", "b"),
            write("v", 5, 2, 4),
            Step::ConsistencyPoint,
        ];
        let cloned = [
            clone("c", "v", "a"),
            write("c", 2, 4, 5),
            snap("c", "t"),
            write("c", 252, 4, 6),
            Step::ConsistencyPoint,
        ];
        let line = [
            clone("d", "c", "t"),
            write("d", 4, 4, 7),
            Step::ConsistencyPoint,
        ];
        let volume = "c".to_owned();
        let split = vec![Step::Change(Change::StartSplit { volume })];
        let beginning = |name, steps: &[&[Step]], prelude: &Vec<Step>| Beginning {
            name,
            steps: steps.concat(),
            prelude: prelude.clone(),
        };
        let nothing = Vec::new();
        vec![
            beginning("plain", &[&plain], &nothing),
            beginning("cloned", &[&plain, &cloned], &nothing),
            beginning("splitting", &[&plain, &cloned], &split),
            beginning("a line", &[&plain, &cloned, &line], &split),
        ]
    }

    fn spell(letter: Letter, state: &State, position: u64) -> Option<Step> {
        let own = str::to_owned;
        let delete = |volume: &str, name: &str| {
            Some(Step::Change(Change::DeleteSnapshot {
                volume: own(volume),
                name: own(name),
            }))
        };
        let restore = |volume: &str| {
            let (snapshot, _) = state[volume].snapshots.first()?;
            Some(Step::Change(Change::RestoreVolume {
                volume: own(volume),
                snapshot: snapshot.clone(),
                safety: format!("z{position}"),
            }))
        };
        let snapped = |volume: &str| Some(snap(volume, &format!("y{position}")));
        let written = |volume: &str, blocks: [(u64, u64); 2], fill: u64| {
            let (at, count) = blocks[usize::try_from(position % 2).expect("0 or 1")];
            Some(write(volume, at, count, fill))
        };
        match letter {
            Letter::WriteFirst => written(first(state)?, [(0, 3), (253, 4)], 100 + position),
            Letter::WriteClone => written(youngest(state)?, [(1, 3), (254, 4)], 200 + position),
            Letter::SnapFirst => snapped(first(state)?),
            Letter::SnapClone => snapped(youngest(state)?),
            Letter::Clone => {
                let parent = youngest(state).or(first(state))?;
                let (snapshot, _) = state[parent].snapshots.last()?;
                let name = CLONES.get(state.len() - usize::from(first(state).is_some()))?;
                (!state.contains_key(*name)).then(|| clone(name, parent, snapshot))
            }
            Letter::Split => {
                let volume = youngest(state)?.to_owned();
                state[&volume].base.as_ref()?;
                Some(Step::Change(match state[&volume].is_splitting() {
                    true => Change::StopSplit { volume },
                    false => Change::StartSplit { volume },
                }))
            }
            Letter::DeleteBase => {
                let base = state[youngest(state)?].base.as_ref();
                match base {
                    Some(base) => delete(&base.parent, &base.snapshot),
                    None => delete(first(state)?, &state[first(state)?].snapshots.first()?.0),
                }
            }
            Letter::DeleteOwnBase => {
                let clone = youngest(state)?;
                delete(clone, &state[clone].snapshots.first()?.0)
            }
            Letter::DeleteClone => Some(Step::Change(Change::DeleteVolume {
                name: own(youngest(state)?),
            })),
            Letter::DeleteFirst => Some(Step::Change(Change::DeleteVolume {
                name: own(first(state)?),
            })),
            Letter::RestoreClone => restore(youngest(state)?),
            Letter::RestoreFirst => restore(first(state)?),
            Letter::Rename => {
                let name = youngest(state).or(first(state))?;
                let to = match name.starts_with(['v', 'w']) {
                    true => format!("w{position}"),
                    false => format!("{}{position}", &name[..1]),
                };
                Some(Step::Change(Change::RenameVolume {
                    name: own(name),
                    to,
                }))
            }
            Letter::ConsistencyPoint => Some(Step::ConsistencyPoint),
        }
    }

    fn ends() -> Vec<Step> {
        vec![Step::Rest, Step::Look]
    }

    fn goes_on(state: &State) -> Vec<Step> {
        let first = state.keys().next();
        let write = first.map(|name| write(name, 20, 200, 900));
        write.into_iter().chain([Step::ConsistencyPoint]).collect()
    }

    fn is_going_on(state: &State) -> bool {
        state.values().any(Volume::is_splitting)
    }
}

impl<'a> story::Life<'a, Clones> for Life<'a> {
    fn new(world: &'a SimWorld, system: EngineSystem, states: Vec<State>) -> Life<'a> {
        Life {
            asker: Asker::new(world, system),
            states,
        }
    }

    fn states(&self) -> &[State] {
        &self.states
    }

    fn asked(&self) -> u64 {
        self.asker.token
    }

    fn step(&mut self, step: Step) -> Result<(), Failure> {
        self.resolve_all();
        let mut next = self.now().clone();
        match &step {
            Step::Write(volume, first, count, fill) => {
                let lun = &mut next.get_mut(volume).expect("known").lun;
                let data = lun.write(*first, *count, *fill);
                let durable = false;
                let op = Op::Write { data, durable };
                match self.asker.ask(&format!("{volume}/{LUN}"), op)? {
                    Ended::With(Ok(_)) => self.states.push(next),
                    Ended::With(Err(error)) => {
                        let text = format!("a valid request failed: {step:?}: {error}");
                        return Err(Failure::new(text));
                    }
                    Ended::Cut => return Err(Failure::new("the power failed")),
                }
                self.resolve_all();
            }
            Step::ConsistencyPoint => self.change(None, next)?,
            Step::Change(change) => {
                apply(&mut next, change);
                self.change(Some(change), next)?;
            }
            Step::Rest => {
                if !self.asker.rest(REST) {
                    return Err(Failure::new("the power failed"));
                }
                self.resolve_all();
                if let Some((name, _)) = self.now().iter().find(|(_, it)| it.is_splitting()) {
                    let split = self.asker.system.split(name);
                    return Err(Failure::new(format!(
                        "stuck: {name} is split for ever: {split:?}"
                    )));
                }
            }
            Step::Look => {
                let state = self.now().clone();
                self.compare(&state)?;
                self.diff_all()?;
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Failure> {
        let states = std::mem::take(&mut self.states);
        let mut last = None;
        // The newest first: most often it is.
        for state in states.iter().rev() {
            match self.compare(state) {
                Ok(()) => {
                    self.states = vec![self.resolve(state.clone())];
                    return Ok(());
                }
                Err(failure) => last = last.or(Some(failure)),
            }
        }
        let failure = last.expect("there was at least one");
        Err(failure.within(format!(
            "none of {} states is there; of the newest",
            states.len()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::words::tests::{are_numbered, survive};

    #[test]
    fn cases_are_numbered_without_gaps() {
        are_numbered::<Clones>();
    }

    #[test]
    fn a_sequence_of_each_start_state_survives_its_cuts() {
        survive::<Clones>(&[
            &[Letter::Clone, Letter::WriteClone, Letter::DeleteBase],
            &[Letter::Split, Letter::WriteFirst, Letter::DeleteFirst],
            &[Letter::Split, Letter::Rename, Letter::Split],
            &[Letter::Split, Letter::RestoreClone, Letter::DeleteClone],
        ]);
    }
}
