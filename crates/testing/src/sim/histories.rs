//! All sequences of up to three operations over an alphabet with snapshot verbs, cut at each device write.
//!
//! Each sequence runs from one of four start states (no snapshot; two with diverged data; a branch, whose fork is a
//! ghost; scans about to begin), and afterwards rests, so that its scans are cut too. One thing is asked at a time,
//! as in [`super::snapshots`], but for clones of LUNs, which go on meanwhile: at each cut the states that may be there
//! are those from the last durable one to the
//! one that was being made. Case n is sequence n / 4 from start state n mod 4, the short sequences first.

use super::asker::Lun;
use super::recoveries::{Entry, Recoveries, Story, mount};
use super::sequences::Sequences;
use super::snapshots::{Image, Life, State, Step};
use super::{Failure, Report};
use crate::engine::{EngineMaker, EngineSystem};
use crate::system::Maker;
use crate::world::{Cut, Images, Keep};
use crate::{Seed, SimWorld};
use everglade_engine::admin::Change;
use everglade_env::BLOCK_SIZE;

/// Most operations in a sequence.
pub const LENGTH_MAX: u32 = 3;
const VOLUME: &str = "v";
const LUN: &str = "l";
/// One that comes and goes.
const OTHER: &str = "m";
/// Two level-1 blocks and a bit.
const LUN_BLOCKS: u64 = 512;
const POOL_BYTES: u64 = 16 << 20;
/// Long enough for the timer to make consistency points until all scans are done.
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
    /// The LUN is cloned: as it is at the beginning of the sequence, later as it was in the oldest snapshot. While a
    /// clone is made, that ends.
    CloneLun,
    /// Blocks that the other LUN may share are overwritten there.
    WriteOther,
}

const ALPHABET: [Letter; 15] = [
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
];

/// Where sequences start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    Plain,
    Diverged,
    Branch,
    Scanning,
}

const BEGINS: [Begin; 4] = [
    Begin::Plain,
    Begin::Diverged,
    Begin::Branch,
    Begin::Scanning,
];

/// Number of cases.
#[must_use]
pub fn count() -> u64 {
    sequences().count() * BEGINS.len() as u64
}

fn sequences() -> Sequences {
    Sequences {
        letters: ALPHABET.len() as u64,
        length_max: LENGTH_MAX,
    }
}

fn case(number: u64) -> (usize, Vec<Letter>) {
    let begins = BEGINS.len() as u64;
    let begin = usize::try_from(number % begins).expect("few");
    let letters = sequences().nth(number / begins);
    (begin, letters.into_iter().map(|it| ALPHABET[it]).collect())
}

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

/// What the LUN that is always there is called.
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

/// What a letter means now; nothing where it means nothing.
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
    })
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

impl Begin {
    /// What is done before anything is cut: durable, and then, once more in each run, what is under way.
    fn steps(self) -> (Vec<Step>, Vec<Step>) {
        let write = |first, count, fill| write(LUN, first, count, fill);
        let plain = [write(0, 2, 1), write(250, 10, 2)];
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
        let scans = vec![restore("a", "t"), delete("b"), write(0, 3, 8)];
        let all = |more: &[&[Step]]| {
            let more = more.iter().flat_map(|steps| steps.iter().cloned());
            plain.iter().cloned().chain(more).collect()
        };
        match self {
            Begin::Plain => (all(&[&[Step::ConsistencyPoint]]), Vec::new()),
            Begin::Diverged => (all(&[&diverged]), Vec::new()),
            Begin::Branch => (all(&[&diverged, &branch]), Vec::new()),
            Begin::Scanning => (all(&[&diverged]), scans),
        }
    }
}

/// A start state, prepared.
struct Start {
    images: Images,
    state: State,
    prelude: Vec<Step>,
}

/// All start states, prepared. See the module's documentation.
pub struct Histories {
    maker: EngineMaker,
    starts: Vec<Start>,
}

impl Histories {
    /// Prepares the start states.
    ///
    /// # Errors
    /// Not even that works.
    pub fn new() -> Result<Histories, Failure> {
        let maker = EngineMaker {
            journal_half_blocks: 300,
            ..EngineMaker::SMALL
        };
        let mut starts = Vec::new();
        for begin in BEGINS {
            let (steps, prelude) = begin.steps();
            let world = SimWorld::new(Seed(1), 1, &maker.devices(POOL_BYTES));
            maker
                .format(&world)
                .map_err(|error| Failure::new(error).within("format"))?;
            let mut life = Life::new(&world, mount(&maker, &world)?, vec![State::default()]);
            let volume = Change::CreateVolume {
                name: VOLUME.to_owned(),
                sync: maker.sync,
            };
            life.changed(Some(volume), State::default())?;
            let lun = Change::CreateLun {
                volume: VOLUME.to_owned(),
                name: LUN.to_owned(),
                size_bytes: LUN_BLOCKS * BLOCK_SIZE as u64,
            };
            let mut state = State::default();
            let empty = Lun {
                blocks: LUN_BLOCKS,
                ..Lun::default()
            };
            state.active = Image::from([(LUN.to_owned(), empty)]);
            life.changed(Some(lun), state)?;
            for step in steps {
                life.step(step)
                    .map_err(|failure| failure.within(format!("preparing {begin:?}")))?;
            }
            let state = life.now().clone();
            drop(life);
            starts.push(Start {
                images: world.after_cut(Cut::whole(Keep::Nothing)),
                state,
                prelude,
            });
        }
        Ok(Histories { maker, starts })
    }

    /// Runs one case.
    ///
    /// # Errors
    /// A promise was broken.
    pub fn run(&self, number: u64) -> Result<Report, Failure> {
        let (begin, letters) = case(number);
        let start = &self.starts[begin];
        self.run_from(start, &letters, number).map_err(|failure| {
            failure.within(format!("case {number}, {:?}, {letters:?}", BEGINS[begin]))
        })
    }

    fn run_from(&self, start: &Start, letters: &[Letter], number: u64) -> Result<Report, Failure> {
        let world = SimWorld::restart(start.images.clone(), Seed(2), 1);
        let system = mount(&self.maker, &world)?;
        let mut life = Life::new(&world, system, vec![start.state.clone()]);
        for step in &start.prelude {
            life.step(step.clone())?;
        }
        world.watch_cuts(1, usize::MAX);
        let entry = |life: &Life<'_>, asked: u64| Entry {
            state: life.now().clone(),
            asked,
            answered: world.writes(),
            is_durable: life.states.len() == 1,
        };
        // What the prelude left volatile is followed by what is durable at its end: nothing is lost by asking.
        let mut entries: Vec<Entry<State>> = life
            .states
            .iter()
            .enumerate()
            .map(|(index, state)| Entry {
                state: state.clone(),
                asked: 0,
                answered: 0,
                is_durable: index == 0,
            })
            .collect();
        for (position, letter) in (0..).zip(letters) {
            let Some(step) = spell(*letter, life.now(), position) else {
                continue;
            };
            let asked = world.writes();
            life.step(step)?;
            entries.push(entry(&life, asked));
        }
        life.step(Step::Rest(REST))?;
        life.step(Step::Look)?;
        let mut report = Report {
            actions: life.asker.token,
            writes: world.writes(),
            ..Report::default()
        };
        drop(life);
        let mut recoveries = Recoveries::<Volume>::new(&self.maker, &entries, number);
        recoveries.judge_all(&world, number, &mut report)?;
        Ok(report)
    }
}

/// A volume with snapshots.
enum Volume {}

impl Story for Volume {
    type State = State;

    fn is_going_on(state: &State) -> bool {
        state.cloning().is_some()
    }

    fn settle(
        world: &SimWorld,
        system: EngineSystem,
        possible: Vec<State>,
    ) -> Result<State, Failure> {
        let mut life = Life::new(world, system, possible);
        super::snapshots::settle(&mut life)?;
        Ok(life.now().clone())
    }

    fn go_on(
        world: &SimWorld,
        system: EngineSystem,
        possible: Vec<State>,
    ) -> Result<(Vec<State>, u64), Failure> {
        let mut life = Life::new(world, system, possible);
        super::snapshots::settle(&mut life)?;
        let before = world.writes();
        let mut later = vec![life.now().clone()];
        // Enough to use again whatever was taken for free.
        for step in [
            write(&lun_of(life.now()), 100, 200, 900),
            Step::ConsistencyPoint,
            Step::Rest(REST),
            Step::Look,
        ] {
            if !life.step(step)? {
                return Err(Failure::new("the power failed while going on"));
            }
            if life.now() != &later[later.len() - 1] {
                later.push(life.now().clone());
            }
        }
        Ok((later, before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a cut between the two the clone goes on, and recovery must not take it for the cancelled one.
    #[test]
    fn a_clone_that_is_cancelled_is_not_one_that_goes_on() {
        let histories = Histories::new().unwrap_or_else(|failure| panic!("{failure}"));
        let report = histories.run(13_464);
        report.unwrap_or_else(|failure| panic!("{failure}"));
    }

    #[test]
    fn a_sequence_of_each_start_state_survives_its_cuts() {
        let histories = Histories::new().unwrap_or_else(|failure| panic!("{failure}"));
        for (start, letters) in histories.starts.iter().cycle().zip(
            [
                [Letter::WriteAcross, Letter::Create, Letter::Rename],
                [Letter::RestoreOldest, Letter::Rename, Letter::Write],
                [Letter::Rename, Letter::DeleteOldest, Letter::Write],
                [Letter::Rename, Letter::Rename, Letter::RestoreNewest],
            ]
            .into_iter()
            .chain([
                [Letter::CloneLun, Letter::WriteAcross, Letter::WriteOther],
                [Letter::Write, Letter::CloneLun, Letter::RestoreLun],
                [Letter::CloneLun, Letter::Create, Letter::WriteOther],
                [Letter::CloneLun, Letter::CloneLun, Letter::CloneLun],
            ]),
        ) {
            let report = histories.run_from(start, &letters, 1);
            let report = report.unwrap_or_else(|failure| panic!("{failure}"));
            assert!(report.cuts >= 20, "{report}");
        }
    }
}
