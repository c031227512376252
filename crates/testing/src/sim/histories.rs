//! All sequences of up to three operations over an alphabet with snapshot verbs, cut at each device
//! write.
//!
//! Each sequence runs from one of four start states (no snapshot; two with diverged data; a branch,
//! whose fork is a ghost; scans about to begin), and afterwards rests, so that its scans are cut
//! too. One request is made at a time, as in [`super::snapshots`], except for clones of LUNs, which
//! continue meanwhile. `words` describes the cuts and the judgement.

use everglade_engine::admin::Change;
use everglade_env::BLOCK_SIZE;

use crate::SimWorld;
use crate::engine::{EngineMaker, EngineSystem};
use crate::sim::Failure;
use crate::sim::snapshots::{Life, State, Step};
use crate::sim::story::{self, Beginning, Story};
use crate::sim::words::{Cases, Words};

const VOLUME: &str = "v";
const LUN: &str = "l";
/// Name of a LUN that is created and deleted.
const OTHER: &str = "m";
/// Two level-1 blocks and a bit.
const LUN_BLOCKS: u64 = 512;
/// Rest in nanoseconds: the timer makes consistency points until all scans are done.
const REST: u64 = 900_000_000;

/// A letter of the alphabet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letter {
    Write,
    WriteAcross,
    Discard,
    Flush,
    ConsistencyPoint,
    Create,
    DeleteOldest,
    DeleteNewest,
    RestoreOldest,
    RestoreNewest,
    /// The last of the oldest snapshot's LUNs, which may be gone now.
    RestoreLun,
    /// A LUN comes if there is just one, else goes.
    Lun,
    /// The LUN, the volume or the aggregate gets another name, by the place in the sequence.
    Rename,
    /// The LUN is cloned: as it is at the beginning of the sequence, later as it was in the oldest
    /// snapshot. While a clone is made, that ends.
    CloneLun,
    /// Blocks that the other LUN may share are overwritten there.
    WriteOther,
    /// The newest snapshot, or after the first letter the oldest, is held or, if it is, released.
    /// What is held cannot be deleted.
    Hold,
    /// The newest snapshot gets another name.
    RenameSnapshot,
    /// Scans rest or, if they do, go on.
    Pause,
}

const ALPHABET: [Letter; 18] = [
    Letter::Write,
    Letter::WriteAcross,
    Letter::Discard,
    Letter::Flush,
    Letter::ConsistencyPoint,
    Letter::Create,
    Letter::DeleteOldest,
    Letter::DeleteNewest,
    Letter::RestoreOldest,
    Letter::RestoreNewest,
    Letter::RestoreLun,
    Letter::Lun,
    Letter::Rename,
    Letter::CloneLun,
    Letter::WriteOther,
    Letter::Hold,
    Letter::RenameSnapshot,
    Letter::Pause,
];

fn create(name: &str) -> Step {
    Step::Change(Change::CreateSnapshot {
        volume: VOLUME.to_owned(),
        name: name.to_owned(),
    })
}

fn delete(name: &str) -> Step {
    Step::Change(Change::DeleteSnapshot {
        volume: VOLUME.to_owned(),
        name: name.to_owned(),
    })
}

fn restore(snapshot: &str, safety: &str) -> Step {
    Step::Change(Change::RestoreVolume {
        volume: VOLUME.to_owned(),
        snapshot: snapshot.to_owned(),
        safety: safety.to_owned(),
    })
}

fn write(lun: &str, first: u64, count: u64, fill: u64) -> Step {
    Step::Write(lun.to_owned(), first, count, fill << 20)
}

/// Returns the name of the LUN that always exists.
fn lun_of(state: &State) -> String {
    let mut names = state.active.keys();
    let found = names.find(|name| *name != OTHER);
    found.expect("it is always there").clone()
}

/// Another name for the LUN, the volume or the aggregate; at the end, other notes in it.
fn rename(state: &State, position: u64) -> Change {
    let to = format!("k{position}");
    match position {
        0 => Change::RenameLun {
            volume: state.volume().to_owned(),
            name: lun_of(state),
            to,
        },
        1 => Change::RenameVolume {
            name: state.volume().to_owned(),
            to,
        },
        2 => Change::RenameAggregate { to },
        _ => super::snapshots::notes(position),
    }
}

/// A clone of the LUN, or the end of the one that is made; nothing if there is another LUN already.
fn clone(state: &State, position: u64) -> Option<Change> {
    let (volume, name) = (state.volume().to_owned(), OTHER.to_owned());
    if state.cloning().is_some() {
        return Some(Change::CancelLunClone { volume, name });
    }
    let lun = lun_of(state);
    let oldest = state.snapshots.iter().next();
    let from = oldest.filter(|(_, image)| position > 0 && image.contains_key(&lun));
    (!state.active.contains_key(OTHER)).then(|| Change::CloneLun {
        from: from.map(|(snapshot, _)| snapshot.clone()),
        volume,
        lun,
        name,
    })
}

/// Prepares all cases. See the module's documentation.
///
/// # Errors
/// The error if the preparation fails.
pub fn cases() -> Result<Cases, Failure> {
    Words::<Volume>::cases()
}

/// A volume with snapshots.
enum Volume {}

impl Story for Volume {
    type State = State;
    type Step = Step;
    type Letter = Letter;
    type Life<'a> = Life<'a>;

    const ALPHABET: &'static [Letter] = &ALPHABET;
    const POOL_BYTES: u64 = 16 << 20;

    fn maker() -> EngineMaker {
        EngineMaker {
            journal_half_blocks: 300,
            ..EngineMaker::SMALL
        }
    }

    fn beginnings() -> Vec<Beginning<Volume>> {
        let write = |first, count, fill| write(LUN, first, count, fill);
        let made = [
            Step::Change(Change::CreateVolume {
                name: VOLUME.to_owned(),
                sync: Volume::maker().sync,
            }),
            Step::Change(Change::CreateLun {
                volume: VOLUME.to_owned(),
                name: LUN.to_owned(),
                size_bytes: LUN_BLOCKS * BLOCK_SIZE as u64,
            }),
            write(0, 2, 1),
            write(250, 10, 2),
        ];
        let diverged = [
            create("a"),
            write(1, 3, 3),
            create("b"),
            write(2, 252, 4),
            Step::ConsistencyPoint,
        ];
        // b is the fork that joins c, the safety snapshot's line and the active image.
        let branch = [
            create("c"),
            write(0, 5, 5),
            restore("b", "r"),
            write(3, 2, 6),
            create("d"),
            write(0, 1, 7),
            restore("b", "s"),
            delete("b"),
            Step::Rest(REST),
            Step::ConsistencyPoint,
        ];
        let beginning = |name, more: &[&[Step]], prelude: &[Step]| Beginning {
            name,
            steps: [&made[..]]
                .iter()
                .chain(more)
                .copied()
                .flatten()
                .cloned()
                .collect(),
            prelude: prelude.to_vec(),
        };
        let scans = [restore("a", "t"), delete("b"), write(0, 3, 8)];
        vec![
            beginning("plain", &[&[Step::ConsistencyPoint]], &[]),
            beginning("diverged", &[&diverged], &[]),
            beginning("branch", &[&diverged, &branch], &[]),
            beginning("scanning", &[&diverged], &scans),
        ]
    }

    fn spell(letter: Letter, state: &State, position: u64) -> Option<Step> {
        let names: Vec<&String> = state.snapshots.keys().collect();
        let lun = || lun_of(state);
        let volume = || state.volume().to_owned();
        let create = |name: &str| {
            Step::Change(Change::CreateSnapshot {
                volume: volume(),
                name: name.to_owned(),
            })
        };
        let delete = |name: &String| {
            Step::Change(Change::DeleteSnapshot {
                volume: volume(),
                name: name.clone(),
            })
        };
        let restore = |snapshot: &String, safety: &str| {
            Step::Change(Change::RestoreVolume {
                volume: volume(),
                snapshot: snapshot.clone(),
                safety: safety.to_owned(),
            })
        };
        let safety = format!("z{position}");
        Some(match letter {
            Letter::Write => write(&lun(), 0, 3, 100 + position),
            Letter::WriteAcross => write(&lun(), 253, 4, 200 + position),
            Letter::Discard => Step::Discard(lun(), 1, 254),
            Letter::Flush => Step::Flush(lun()),
            Letter::ConsistencyPoint => Step::ConsistencyPoint,
            Letter::Create => create(&format!("y{position}")),
            Letter::DeleteOldest => delete(names.first()?),
            Letter::DeleteNewest => delete(names.last()?),
            Letter::RestoreOldest if position == 1 => {
                let snapshot = (*names.first()?).clone();
                Step::Change(Change::RollBackVolume {
                    volume: volume(),
                    discards: state.newer(&snapshot),
                    snapshot,
                })
            }
            Letter::RestoreOldest => restore(names.first()?, &safety),
            Letter::RestoreNewest => restore(names.last()?, &safety),
            Letter::RestoreLun => {
                let snapshot = (*names.first()?).clone();
                Step::Change(Change::RestoreLun {
                    volume: volume(),
                    lun: super::snapshots::restorable(state, &snapshot).pop()?,
                    snapshot,
                    safety,
                })
            }
            // Its name will be that of the clone.
            Letter::Lun if state.cloning().is_some() => return None,
            Letter::Lun if state.active.len() > 1 => Step::Change(Change::DeleteLun {
                volume: volume(),
                name: OTHER.to_owned(),
            }),
            Letter::Rename => Step::Change(rename(state, position)),
            Letter::Lun => Step::Change(Change::CreateLun {
                volume: volume(),
                name: OTHER.to_owned(),
                size_bytes: 8 * BLOCK_SIZE as u64,
            }),
            Letter::CloneLun => Step::Change(clone(state, position)?),
            Letter::WriteOther => {
                let there = state.active.get(OTHER)?;
                let first = if there.blocks > 256 {
                    250 + position
                } else {
                    0
                };
                write(OTHER, first, 4, 300 + position)
            }
            Letter::Hold => {
                let name = match position {
                    0 => names.last()?,
                    _ => names.first()?,
                };
                let (volume, name) = (volume(), (*name).clone());
                let tag = "k".to_owned();
                Step::Change(match state.is_held(&name) {
                    true => Change::ReleaseSnapshot { volume, name, tag },
                    false => Change::HoldSnapshot { volume, name, tag },
                })
            }
            Letter::RenameSnapshot => Step::Change(Change::RenameSnapshot {
                volume: volume(),
                name: (*names.last()?).clone(),
                to: format!("n{position}"),
            }),
            Letter::Pause => Step::Change(Change::SetScanPace {
                volume: volume(),
                percent: if state.is_paused() { 100 } else { 0 },
            }),
        })
    }

    fn ends() -> Vec<Step> {
        vec![Step::Rest(REST), Step::Look]
    }

    fn goes_on(state: &State) -> Vec<Step> {
        vec![write(&lun_of(state), 100, 200, 900), Step::ConsistencyPoint]
    }

    fn is_going_on(state: &State) -> bool {
        state.cloning().is_some()
    }
}

impl<'a> story::Life<'a, Volume> for Life<'a> {
    fn new(world: &'a SimWorld, system: EngineSystem, states: Vec<State>) -> Life<'a> {
        Life::new(world, system, states)
    }

    fn states(&self) -> &[State] {
        &self.states
    }

    fn asked(&self) -> u64 {
        self.asker.token
    }

    fn step(&mut self, step: Step) -> Result<(), Failure> {
        match self.step(step)? {
            true => Ok(()),
            false => Err(Failure::new("the power failed")),
        }
    }

    fn settle(&mut self) -> Result<(), Failure> {
        super::snapshots::settle(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::words::tests::{are_numbered, survive};

    #[test]
    fn cases_are_numbered_without_gaps() {
        are_numbered::<Volume>();
    }

    /// After a cut between the two the second clone continues, and recovery must not take it for
    /// the cancelled one.
    #[test]
    fn a_clone_that_is_cancelled_is_not_one_that_goes_on() {
        let all = cases().unwrap_or_else(|failure| panic!("{failure}"));
        let report = all.run(19_176);
        report.unwrap_or_else(|failure| panic!("{failure}"));
    }

    #[test]
    fn a_sequence_of_each_start_state_survives_its_cuts() {
        survive::<Volume>(&[
            &[Letter::WriteAcross, Letter::Create, Letter::Rename],
            &[Letter::RestoreOldest, Letter::Rename, Letter::Write],
            &[Letter::Rename, Letter::DeleteOldest, Letter::Write],
            &[Letter::Rename, Letter::Rename, Letter::RestoreNewest],
            &[Letter::CloneLun, Letter::WriteAcross, Letter::WriteOther],
            &[Letter::Write, Letter::CloneLun, Letter::RestoreLun],
            &[Letter::CloneLun, Letter::Create, Letter::WriteOther],
            &[Letter::CloneLun, Letter::CloneLun, Letter::CloneLun],
            &[Letter::Create, Letter::Hold, Letter::DeleteOldest],
            &[Letter::Hold, Letter::RestoreOldest, Letter::Hold],
            &[Letter::Pause, Letter::DeleteOldest, Letter::Pause],
            &[Letter::Pause, Letter::RenameSnapshot, Letter::Hold],
        ]);
    }
}
