//! Every block of metadata of a pool is damaged, one at a time, in each of several ways, and then
//! the pool is worked on.
//!
//! The pool has snapshots, a snapshot deletion under way, shared blocks of cloned LUNs, a clone
//! with changes, and a LUN that is being deleted. Its device became larger, and it got another one.
//! A case is a block ([`anatomy`]), a way to damage
//! it, and an operation: blocks are written or trimmed, a LUN or a snapshot is deleted, a snapshot
//! is taken or restored. Then follow a consistency point, time for background work, a power cut, a
//! start, and a check of all data.
//!
//! 1. Damage to a derivable block costs nothing: the pool opens, all operations succeed and are
//!    durable, all reads are right, and the verifier finds the pool clean.
//! 2. Damage to any other block loses the blocks below it, and never yields wrong data.
//! 3. The power may fail at each write from the start to the end, and changes acknowledged before
//!    it survive.

mod anatomy;

use std::collections::BTreeMap;

use everglade_engine::RepairState;
use everglade_engine::admin::Change;
use everglade_env::BLOCK_SIZE;
use everglade_format::metafile::{
    ACTIVE_MAP, CONTEXT_MAP, INODE_FILE, OVERFLOW, REFCOUNTS, TOP_AREAS,
};
use everglade_target::{Error, Op, Reply};

use self::anatomy::{Part, PartKind};
use super::asker::{Asker, Ended, Lun};
use super::recoveries::mount;
use super::words::Cases;
use super::{Failure, Report};
use crate::engine::EngineMaker;
use crate::system::{Maker, PoolGrowth, System};
use crate::world::{Cut, Images, Keep};
use crate::{Rng, Seed, SimWorld};

const BLOCK: u64 = BLOCK_SIZE as u64;
const POOL_BYTES: u64 = 32 << 20;
/// Bytes of each growth.
const MORE_BYTES: u64 = 6 << 20;
const LUN_BLOCKS: u64 = 600;
/// Rest in nanoseconds: the timer makes consistency points until all scans are done.
const REST: u64 = 1_500_000_000;
const MAKER: EngineMaker = EngineMaker::SMALL_LOGGED;

/// The maker whose repairs need several consistency points.
const SLICED: EngineMaker = EngineMaker {
    reclaim_regions: 8,
    ..MAKER
};

/// Times that a repair is waited for.
const REPAIR_RESTS: u32 = 100;

/// LUNs that clients can read, by name.
type State = BTreeMap<String, Lun>;

/// A way to damage a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    /// One bit is flipped.
    Flip,
    /// The device cannot read it.
    Unreadable,
    /// The block has the content of another block of the pool.
    Misplaced,
}

const HARMS: [Harm; 3] = [Harm::Flip, Harm::Unreadable, Harm::Misplaced];

/// Something that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Write,
    Trim,
    DeleteLun,
    DeleteSnapshot,
    Snapshot,
    Restore,
    Clean,
    Layout,
}

const DEEDS: [Deed; 8] = [
    Deed::Write,
    Deed::Trim,
    Deed::DeleteLun,
    Deed::DeleteSnapshot,
    Deed::Snapshot,
    Deed::Restore,
    Deed::Clean,
    Deed::Layout,
];

/// A pool and its expected contents.
struct Pool {
    images: Images,
    state: State,
    parts: Vec<Part>,
}

/// True for what can be derived from the rest.
fn is_derivable(part: &Part) -> bool {
    let file = everglade_format::FileId(part.file);
    match (part.kind, part.volume, part.level) {
        (PartKind::Metafile, None, 0) => [ACTIVE_MAP, CONTEXT_MAP, TOP_AREAS].contains(&file),
        // Without it no file of the aggregate is found.
        (PartKind::Metafile, None, _) if file == INODE_FILE => false,
        // Whatever the context map knows the children of.
        (
            PartKind::Metafile
            | PartKind::Container
            | PartKind::Summary
            | PartKind::Table
            | PartKind::Release,
            None,
            1..,
        ) => true,
        (PartKind::Summary, None, 0) => true,
        (PartKind::Metafile, Some(_), 0) => {
            file == ACTIVE_MAP || file == REFCOUNTS && part.snapshot.is_none()
        }
        (PartKind::Metafile, Some(_), 1) => match file {
            OVERFLOW | REFCOUNTS => part.snapshot.is_none(),
            _ => file == ACTIVE_MAP,
        },
        _ => false,
    }
}

fn own(text: &str) -> String {
    text.to_owned()
}

/// A client of a pool that knows its expected contents.
struct Worker<'w> {
    asker: Asker<'w>,
    state: State,
}

/// How a deed ended.
enum DeedEnd {
    /// It is done, and durable.
    Done,
    /// The operation was refused, or failed.
    Refused(String),
    Cut,
}

impl Worker<'_> {
    fn change(&mut self, change: Change) -> Result<DeedEnd, Failure> {
        Ok(match self.asker.administer(Some(change))? {
            Ended::Cut => DeedEnd::Cut,
            Ended::With(Ok(())) => DeedEnd::Done,
            Ended::With(Err(error)) => DeedEnd::Refused(error.to_string()),
        })
    }

    fn grow(&mut self, growth: PoolGrowth) -> Result<DeedEnd, Failure> {
        Ok(match self.asker.grow(growth)? {
            Ended::Cut => DeedEnd::Cut,
            Ended::With(Ok(())) => DeedEnd::Done,
            Ended::With(Err(error)) => DeedEnd::Refused(error.to_string()),
        })
    }

    /// Reads all that can be derived, and waits for the end.
    fn repair(&mut self) -> Result<(), Failure> {
        must(self.change(Change::StartRepair))?;
        for _ in 0..REPAIR_RESTS {
            if self.asker.system.mended().repair.state == RepairState::Done {
                return Ok(());
            }
            self.asker.rest(REST);
        }
        Err(Failure::new("the repair does not end"))
    }

    /// Moves blocks until that is over, or the pool has given up.
    fn garden(&mut self, change: Change) -> Result<DeedEnd, Failure> {
        let outcome = self.change(change)?;
        for _ in 0..REPAIR_RESTS {
            let system = &self.asker.system;
            if !system.is_cleaning() && !system.is_ordering() || system.failure().is_some() {
                return Ok(outcome);
            }
            if system.read_only().is_some() || self.asker.world.is_cut() {
                return Ok(outcome);
            }
            self.asker.rest(REST);
        }
        Err(Failure::new("gardening does not end"))
    }

    fn commit(&mut self) -> Result<DeedEnd, Failure> {
        Ok(match self.asker.administer(None)? {
            Ended::Cut => DeedEnd::Cut,
            Ended::With(Ok(())) => DeedEnd::Done,
            Ended::With(Err(error)) => DeedEnd::Refused(error.to_string()),
        })
    }

    fn op(&mut self, lun: &str, op: Op) -> Result<DeedEnd, Failure> {
        Ok(match self.asker.ask(lun, op)? {
            Ended::Cut => DeedEnd::Cut,
            Ended::With(Ok(_)) => DeedEnd::Done,
            Ended::With(Err(error)) => DeedEnd::Refused(error.to_string()),
        })
    }

    fn write(&mut self, lun: &str, first: u64, count: u64, fill: u64) -> Result<DeedEnd, Failure> {
        let mut after = self.state[lun].clone();
        let data = after.write(first, count, fill);
        let outcome = self.op(
            lun,
            Op::Write {
                data,
                durable: true,
            },
        )?;
        if matches!(outcome, DeedEnd::Done) {
            self.state.insert(own(lun), after);
        }
        Ok(outcome)
    }

    fn trim(&mut self, lun: &str, first: u64, count: u64) -> Result<DeedEnd, Failure> {
        let mut after = self.state[lun].clone();
        after
            .data
            .retain(|block, _| !(first..first + count).contains(block));
        let op = Op::Discard {
            offset: first * BLOCK,
            length: count * BLOCK,
            durable: true,
        };
        let outcome = self.op(lun, op)?;
        if matches!(outcome, DeedEnd::Done) {
            self.state.insert(own(lun), after);
        }
        Ok(outcome)
    }

    /// The LUNs of a volume are in a snapshot of it.
    fn keep(&mut self, volume: &str, snapshot: &str) {
        let prefix = format!("{volume}/");
        let luns = self.state.iter();
        let luns = luns.filter(|(name, _)| name.starts_with(&prefix) && !name.contains('@'));
        let kept: Vec<_> = luns
            .map(|(name, lun)| (format!("{name}@{snapshot}"), lun.clone()))
            .collect();
        self.state.extend(kept);
    }

    fn snapshot(&mut self, volume: &str, name: &str) -> Result<DeedEnd, Failure> {
        let change = Change::CreateSnapshot {
            volume: own(volume),
            name: own(name),
        };
        let outcome = self.change(change)?;
        if matches!(outcome, DeedEnd::Done) {
            self.keep(volume, name);
        }
        Ok(outcome)
    }

    fn create_lun(&mut self, volume: &str, name: &str) -> Result<DeedEnd, Failure> {
        let change = Change::CreateLun {
            volume: own(volume),
            name: own(name),
            size_bytes: LUN_BLOCKS * BLOCK,
        };
        let lun = Lun {
            blocks: LUN_BLOCKS,
            ..Lun::default()
        };
        self.state.insert(format!("{volume}/{name}"), lun);
        self.change(change)
    }

    fn delete_snapshot(&mut self, volume: &str, name: &str) -> Result<DeedEnd, Failure> {
        let change = Change::DeleteSnapshot {
            volume: own(volume),
            name: own(name),
        };
        let outcome = self.change(change)?;
        if matches!(outcome, DeedEnd::Done) {
            let end = format!("@{name}");
            let start = format!("{volume}/");
            self.state
                .retain(|known, _| !(known.starts_with(&start) && known.ends_with(&end)));
        }
        Ok(outcome)
    }

    fn deed(&mut self, deed: Deed) -> Result<DeedEnd, Failure> {
        match deed {
            Deed::Write => self.write("v/l", 100, 60, 70_000),
            Deed::Trim => self.trim("v/l", 30, 80),
            Deed::DeleteLun => {
                let (volume, name) = (own("v"), own("n"));
                let outcome = self.change(Change::DeleteLun { volume, name })?;
                if matches!(outcome, DeedEnd::Done) {
                    self.state.remove("v/n");
                }
                Ok(outcome)
            }
            Deed::DeleteSnapshot => self.delete_snapshot("v", "one"),
            Deed::Snapshot => self.snapshot("v", "new"),
            Deed::Clean => self.garden(Change::StartCleaning {
                least_free_percent: 1,
            }),
            Deed::Layout => self.garden(Change::StartLayout {
                volume: own("v"),
                lun: own("l"),
                is_estimate: false,
            }),
            Deed::Restore => {
                let change = Change::RestoreVolume {
                    volume: own("v"),
                    snapshot: own("three"),
                    safety: own("safe"),
                };
                let outcome = self.change(change)?;
                if matches!(outcome, DeedEnd::Done) {
                    self.keep("v", "safe");
                    self.restored("three");
                }
                Ok(outcome)
            }
        }
    }

    fn restored(&mut self, snapshot: &str) {
        let is_active = |name: &str| name.starts_with("v/") && !name.contains('@');
        self.state.retain(|name, _| !is_active(name));
        let end = format!("@{snapshot}");
        let luns: Vec<_> = self
            .state
            .iter()
            .filter_map(|(name, lun)| {
                let name = name.strip_suffix(&end)?;
                name.starts_with("v/").then(|| (own(name), lun.clone()))
            })
            .collect();
        self.state.extend(luns);
    }

    /// Reads everything; nothing may be wrong. With `is_whole` everything must be there.
    fn verify_all(&mut self, is_whole: bool) -> Result<(), Failure> {
        for (name, lun) in self.state.clone() {
            if is_whole {
                match self.asker.read(&name, &lun)? {
                    Ended::With(()) => continue,
                    Ended::Cut => return Ok(()),
                }
            }
            for block in 0..lun.blocks {
                let op = Op::Read {
                    offset: block * BLOCK,
                    length: u32::try_from(BLOCK).expect("4,096"),
                };
                match self.asker.ask(&name, op)? {
                    Ended::With(Ok(Reply::Data(span))) => {
                        if span.pages[0][..] != lun.read(block)[..] {
                            return Err(Failure::new(format!(
                                "Foreign: {name} block {block} is not what it was"
                            )));
                        }
                    }
                    Ended::With(Err(Error::Io(_) | Error::NotFound(_) | Error::Gone)) => {}
                    Ended::With(other) => {
                        return Err(Failure::new(format!("{name} block {block}: {other:?}")));
                    }
                    Ended::Cut => return Ok(()),
                }
            }
        }
        Ok(())
    }
}

fn must(outcome: Result<DeedEnd, Failure>) -> Result<(), Failure> {
    match outcome? {
        DeedEnd::Done => Ok(()),
        DeedEnd::Refused(reason) => Err(Failure::new(format!("refused: {reason}"))),
        DeedEnd::Cut => Err(Failure::new("the power failed")),
    }
}

/// Makes the pool.
fn prepare() -> Result<Pool, Failure> {
    let world = SimWorld::new(Seed(1), 1, &MAKER.devices(POOL_BYTES));
    MAKER.format(&world).map_err(Failure::new)?;
    let system = mount(&MAKER, &world)?;
    let mut worker = Worker {
        asker: Asker::new(&world, system),
        state: State::new(),
    };
    let (name, sync) = (own("v"), Default::default());
    must(worker.change(Change::CreateVolume { name, sync }))?;
    for lun in ["l", "n", "gone"] {
        must(worker.create_lun("v", lun))?;
    }
    must(worker.write("v/l", 0, 250, 1_000))?;
    must(worker.write("v/n", 300, 200, 2_000))?;
    must(worker.write("v/gone", 0, 20, 2_500))?;
    must(worker.snapshot("v", "one"))?;
    must(worker.write("v/l", 50, 60, 3_000))?;
    must(worker.snapshot("v", "two"))?;
    must(worker.grow(PoolGrowth::New(vec![MORE_BYTES])))?;
    must(worker.trim("v/l", 80, 20))?;
    let clone = Change::CloneLun {
        volume: own("v"),
        lun: own("l"),
        name: own("twin"),
        from: None,
    };
    let twin = worker.state["v/l"].clone();
    must(worker.change(clone))?;
    worker.asker.rest(REST);
    worker.state.insert(own("v/twin"), twin);
    must(worker.grow(PoolGrowth::Larger(vec![(0, MORE_BYTES)])))?;
    must(worker.write("v/twin", 10, 5, 4_000))?;
    must(worker.snapshot("v", "three"))?;
    let (name, parent, snapshot) = (own("c"), own("v"), own("two"));
    must(worker.change(Change::CloneVolume {
        name,
        parent,
        snapshot,
    }))?;
    let cloned: Vec<_> = worker
        .state
        .iter()
        .filter_map(|(name, lun)| {
            let lun_name = name.strip_prefix("v/")?.strip_suffix("@two")?;
            Some((lun_name.to_owned(), lun.clone()))
        })
        .collect();
    for (name, lun) in cloned {
        worker.state.insert(format!("c/{name}"), lun.clone());
        worker.state.insert(format!("c/{name}@two"), lun);
    }
    must(worker.write("c/l", 200, 40, 5_000))?;
    must(worker.write("v/l", 0, 30, 6_000))?;
    must(worker.snapshot("v", "four"))?;
    must(worker.write("v/n", 310, 20, 7_000))?;
    must(worker.commit())?;
    worker.asker.rest(REST);
    // Background work rests from here on.
    let (volume, percent) = (own("v"), 0);
    must(worker.change(Change::SetScanPace { volume, percent }))?;
    must(worker.delete_snapshot("v", "four"))?;
    must(worker.write("v/l", 500, 10, 8_000))?;
    must(worker.write("c/n", 0, 10, 9_000))?;
    must(worker.commit())?;
    let (volume, percent) = (own("v"), 100);
    must(worker.change(Change::SetScanPace { volume, percent }))?;
    let (state, images) = (worker.state, world.after_cut(Cut::whole(Keep::Nothing)));
    let offline = SimWorld::restart(images.clone(), Seed(2), 1);
    MAKER.check(&offline).map_err(Failure::new)?;
    Ok(Pool {
        parts: anatomy::of(&offline),
        images,
        state,
    })
}

impl Pool {
    fn count(&self) -> u64 {
        (self.parts.len() * HARMS.len() * DEEDS.len()) as u64
    }

    fn damaged(&self, part: &Part, harm: Harm, rng: &mut Rng) -> Images {
        let mut images = self.images.clone();
        let device = |part: &Part| usize::try_from(part.device).expect("few");
        match harm {
            Harm::Flip => {
                let bit = rng.index(BLOCK_SIZE * 8);
                images.flip_bit(device(part), part.block, bit);
            }
            Harm::Unreadable => images.fail_block(device(part), part.block),
            Harm::Misplaced => {
                let others = self.parts.iter().filter(|it| *it != part);
                let others: Vec<_> = others.collect();
                let other = others[rng.index(others.len())];
                let bytes = images.image(device(other)).read(other.block);
                let bytes = bytes[..].try_into().expect("a block");
                images.put(device(part), part.block, bytes);
            }
        }
        images
    }

    fn run(&self, number: u64) -> Result<Report, Failure> {
        let place = |length: usize, rest: &mut u64| {
            let place = *rest % length as u64;
            *rest /= length as u64;
            usize::try_from(place).expect("few")
        };
        let mut rest = number;
        let deed = DEEDS[place(DEEDS.len(), &mut rest)];
        let harm = HARMS[place(HARMS.len(), &mut rest)];
        let part = &self.parts[place(self.parts.len(), &mut rest)];
        let within = |failure: Failure| {
            failure.within(format!(
                "case {number}: {harm:?} of {part:?}, then {deed:?}"
            ))
        };
        self.run_case(part, harm, deed, number).map_err(within)
    }

    fn run_case(
        &self,
        part: &Part,
        harm: Harm,
        deed: Deed,
        number: u64,
    ) -> Result<Report, Failure> {
        let mut rng = Rng::for_part(number, "corrupted");
        let is_whole = is_derivable(part);
        let images = self.damaged(part, harm, &mut rng);
        let world = SimWorld::restart(images, Seed(3), 1);
        let mut report = Report::default();
        let system = match mount(&MAKER, &world) {
            Ok(system) => system,
            Err(failure) if is_whole => return Err(failure),
            Err(_) => return Ok(report),
        };
        world.watch_cuts(1, usize::MAX);
        let mut worker = Worker {
            asker: Asker::new(&world, system),
            state: self.state.clone(),
        };
        let before = worker.state.clone();
        let asked = world.writes();
        let outcome = worker.deed(deed)?;
        let after = worker.state.clone();
        let answered = world.writes();
        let mut refused = match outcome {
            DeedEnd::Refused(reason) => Some(reason),
            _ => None,
        };
        if let DeedEnd::Refused(reason) = worker.commit()? {
            refused.get_or_insert(reason);
        }
        worker.asker.rest(REST);
        worker.verify_all(is_whole)?;
        if let (true, Some(reason)) = (is_whole, &refused) {
            return Err(Failure::new(format!("Durable: refused: {reason}")));
        }
        report.actions += 1;
        report.writes += world.writes();
        drop(worker);
        // The possible media after the operation.
        let points = world.take_cuts();
        let end = world.after_cut(Cut::whole(Keep::Nothing));
        let possible = match refused {
            None => vec![after.clone()],
            // The operation may have been done.
            Some(_) => vec![before.clone(), after.clone()],
        };
        // What an indirect block of a volume's map says of its leaves is not to be derived after
        // they have moved: its tag is of their former places.
        let has_moved = matches!(deed, Deed::Clean | Deed::Layout);
        let is_clean = is_whole && !(has_moved && part.volume.is_some() && part.level > 0);
        self.judge(end, &possible, is_whole, is_clean)
            .map_err(|failure| failure.within("after a restart"))?;
        report.recoveries += 1;
        for point in points {
            if !rng.one_in(8) {
                continue;
            }
            let keep = [Keep::Nothing, Keep::Random(rng.draw())][rng.index(2)];
            let at = point.writes;
            let possible = match (at <= asked, at > answered) {
                (true, _) => vec![before.clone()],
                (_, true) if refused.is_none() => vec![after.clone()],
                _ => vec![before.clone(), after.clone()],
            };
            let images = point.images(Cut::whole(keep));
            report.cuts += 1;
            report.recoveries += 1;
            self.judge(images, &possible, is_whole, false)
                .map_err(|failure| failure.within(format!("cut at write {at}, {keep:?}")))?;
        }
        Ok(report)
    }

    /// Checks that the system has one of these states. With `is_clean` the verifier must find no
    /// problem.
    fn judge(
        &self,
        images: Images,
        possible: &[State],
        is_whole: bool,
        is_clean: bool,
    ) -> Result<(), Failure> {
        let world = SimWorld::restart(images, Seed(4), 1);
        let system = match mount(&SLICED, &world) {
            Ok(system) => system,
            Err(failure) if is_whole => return Err(failure),
            Err(_) => return Ok(()),
        };
        let mut worker = Worker {
            asker: Asker::new(&world, system),
            state: State::new(),
        };
        let mut verdict = Ok(());
        for state in possible {
            worker.state.clone_from(state);
            verdict = worker.verify_all(is_whole);
            if verdict.is_ok() {
                break;
            }
        }
        verdict?;
        if is_clean {
            worker.asker.rest(REST);
            // Blocks that no operation read are still damaged.
            worker.repair()?;
            // Another consistency point frees the former places of relocated blocks.
            must(worker.commit())?;
            drop(worker);
            let images = world.after_cut(Cut::whole(Keep::Nothing));
            let offline = SimWorld::restart(images, Seed(5), 1);
            let checked =
                everglade_check::check(&*offline.storage(), &offline.devices(), &mut |_| {});
            let checked = checked.map_err(|error| Failure::new(format!("check: {error}")))?;
            if let Some(wrong) = checked.problems.first() {
                return Err(Failure::new(format!("check: {wrong}")));
            }
        }
        Ok(())
    }
}

/// Returns all cases of the pool.
pub(super) fn cases() -> Result<Cases, Failure> {
    let pool = prepare().map_err(|failure| failure.within("preparing the pool"))?;
    Ok(Cases::new(pool.count(), move |number| pool.run(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each block that can be derived, each block that cannot, with some way to damage it and
    /// something that is done.
    #[test]
    fn every_block_of_metadata_may_be_damaged() {
        let pool = prepare().unwrap_or_else(|failure| panic!("{failure}"));
        let former_end = MAKER.devices(POOL_BYTES)[0].size_bytes / BLOCK;
        let is_in = |device, blocks: std::ops::Range<u64>| {
            let mut parts = pool.parts.iter();
            parts.any(|part| part.device == device && blocks.contains(&part.block))
        };
        assert!(
            is_in(0, 0..former_end) && is_in(1, 0..u64::MAX),
            "both devices"
        );
        assert!(is_in(0, former_end..u64::MAX), "what the first one got");
        let ways = (HARMS.len() * DEEDS.len()) as u64;
        let mut failed = Vec::new();
        let mut rng = Rng::for_part(7, "sample");
        let mut kinds = BTreeMap::new();
        for (place, part) in (0..).zip(&pool.parts) {
            let of_kind = (
                part.volume,
                part.snapshot.is_some(),
                part.file,
                part.kind,
                part.level,
            );
            let known: &mut u64 = kinds.entry(of_kind).or_default();
            *known += 1;
            // A few blocks of each kind are enough.
            let times = if *known <= 2 {
                2
            } else {
                u64::from(rng.one_in(6))
            };
            for _ in 0..times {
                let number = place * ways + rng.draw() % ways;
                if let Err(failure) = pool.run(number) {
                    failed.push(failure.to_string());
                }
            }
        }
        assert!(failed.is_empty(), "{} failed: {failed:#?}", failed.len());
    }
}
