//! Silent faults: blocks that differ from their last write without an error.
//!
//! A branch of a long simulation: one life on a copy of the media, in which one kind of fault
//! strikes, and two restarts from the damaged media; then the copy is dropped, because no later
//! life could use it.
//!
//! *Wild* damage strikes anything behind the first label of each device: data, maps, trees, one of
//! the two copies of a superblock. Then everything may answer with an error: reads, mounts, a
//! consistency point, and with that every change. *Aimed* damage strikes blocks of clients' data
//! that the model knows: then those answer with an error until they are written again, and nothing
//! else does. In both:
//!
//! 1. Reads return data that the model allows. Wrong data is never a valid answer.
//! 2. No request gets stuck, and no assertion fails.
//! 3. Media that the offline check finds clean start, and read without an error.
//! 4. A system that becomes read-only, while it runs or when it starts, shows all that was
//!    acknowledged where it can be read, says of nothing in memory that it is durable, takes no
//!    change and writes nothing.
//!
//! *The journal* is damaged apart from the rest: operations durable by it alone may then be lost,
//! the last first, because no reader can distinguish the end of a log from damage in it; all other
//! rules are as above.
//!
//! The first label and the other blocks that [`damage_is_found`] excludes are spared: if a device
//! loses all copies of a superblock that it acknowledged, no reader can detect the loss.
//!
//! [`damage_is_found`]: crate::system::Promises::damage_is_found

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use everglade_env::{BLOCK_SIZE, PageRef};

use super::Failure;
use super::driver::{Driver, Errors};
use super::judge::{Shown, Tolerance, View, compare, judge, look};
use super::long::Life;
use crate::digest::fingerprint;
use crate::model::Model;
use crate::system::{Admin, Maker, NotMounted, System};
use crate::workload::Action;
use crate::world::{Fault, Faults, Images, SimWorld};

/// Faults that a branch may be about.
const WILD: [Fault; 10] = [
    Fault::Torn,
    Fault::Lost,
    Fault::Misdirected,
    Fault::MediaFlip,
    Fault::FlipWriting,
    Fault::FlipReading,
    Fault::StaleRead,
    Fault::LostFlush,
    Fault::StaleDevice,
    Fault::ReadError,
];

/// Wild damage strikes at least one in `1 << RATE_MAX` operations.
const RATE_MAX: u64 = 5;

/// Faults that may strike the log.
const OF_THE_LOG: [Fault; 6] = [
    Fault::Torn,
    Fault::Lost,
    Fault::MediaFlip,
    Fault::FlipWriting,
    Fault::FlipReading,
    Fault::ReadError,
];

/// Most blocks that aimed damage hits.
const AIMED_MAX: usize = 12;

/// One branch: a fault, and the allowed errors of its clients.
struct Branch {
    fault: Fault,
    tolerance: Tolerance,
    /// Switched on in every life: it is not on the media, but in the way to them.
    in_the_way: Option<Faults>,
}

impl Branch {
    /// The log is on the first device only.
    fn switch(&self, world: &SimWorld, faults: &Faults) {
        let all = world.devices();
        let count = match self.tolerance {
            Tolerance::WithoutLog => 1,
            _ => all.len(),
        };
        for device in &all[..count] {
            world.set_faults(*device, faults.clone());
        }
    }
}

impl<M: Maker> Life<'_, M> {
    /// Runs a life with a silent fault on a copy of `images`; `older` is an earlier copy of the
    /// media.
    pub(super) fn silent(&mut self, images: &Images, older: &Images) -> Result<(), Failure> {
        let Some(first) = self.maker.promises().damage_is_found else {
            return Ok(());
        };
        if self.rng.one_in(3) {
            return self
                .aimed(images, first)
                .map_err(|failure| failure.within("aimed damage"));
        }
        let log = self.maker.promises().journal_blocks;
        if !log.is_empty() && self.rng.one_in(4) {
            let fault = OF_THE_LOG[self.rng.index(OF_THE_LOG.len())];
            return self
                .wild(fault, images, images, log, Tolerance::WithoutLog)
                .map_err(|failure| failure.within(format!("{fault} in the journal")));
        }
        let fault = WILD[self.rng.index(WILD.len())];
        self.wild(fault, images, older, first..u64::MAX, Tolerance::Anything)
            .map_err(|failure| failure.within(fault))
    }

    fn wild(
        &mut self,
        fault: Fault,
        images: &Images,
        older: &Images,
        blocks: Range<u64>,
        tolerance: Tolerance,
    ) -> Result<(), Failure> {
        let rate = 1 << self.rng.between(0, RATE_MAX);
        let faults = Faults {
            blocks: Some(blocks),
            ..Faults::only(fault, rate)
        };
        let is_read = matches!(
            fault,
            Fault::FlipReading | Fault::StaleRead | Fault::ReadError | Fault::MediaFlip
        );
        let branch = Branch {
            fault,
            tolerance,
            in_the_way: (is_read && self.rng.one_in(2)).then(|| faults.clone()),
        };
        let world = self.start(images.clone());
        let at = world.writes().saturating_add(1);
        let (system, model) = self.started(&world, at)?;
        branch.switch(&world, &faults);
        let (mut images, model) = self.live_with(&branch, &world, system, model)?;
        if fault == Fault::StaleDevice && world.devices().len() > 1 {
            let device = 1 + self.rng.index(world.devices().len() - 1);
            let differs = images.return_stale(device, older);
            self.report.fired[fault] += u64::from(differs);
        }
        self.restart_twice(&branch, images, model)
    }

    /// Blocks of clients' data go bad while the power is off.
    fn aimed(&mut self, images: &Images, first: u64) -> Result<(), Failure> {
        let world = self.start(images.clone());
        let at = world.writes().saturating_add(1);
        let mounted = self.maker.mount(&world);
        let mut system = mounted.map_err(|error| Failure::new(error).within("mount"))?;
        let view = look(&world, &mut system, &self.model)?;
        let mut model = compare(&view, &self.model, at, Tolerance::Nothing)?;
        model.set_writes(world.writes());
        drop(system);
        world.cut_now();
        let mut images = self.cut(&world);
        let flips = self.rng.one_in(2);
        let branch = Branch {
            fault: if flips {
                Fault::MediaFlip
            } else {
                Fault::ReadError
            },
            tolerance: Tolerance::Marked,
            in_the_way: None,
        };
        let targets = targets(&view, &images, world.devices().len(), first);
        let mut victims: Vec<_> = targets.into_iter().collect();
        self.rng.shuffle(&mut victims);
        let count = 1 + self.rng.index(AIMED_MAX);
        for (target, places) in victims.into_iter().take(count) {
            let Some(lun) = model.lun(&target.lun) else {
                continue;
            };
            model.mark(lun, target.block);
            self.report.fired[branch.fault] += 1;
            for (device, block) in places {
                if flips {
                    images.flip_bit(device, block, self.rng.index(BLOCK_SIZE * 8));
                } else {
                    images.fail_block(device, block);
                }
            }
        }
        self.restart_twice(&branch, images, model)
    }

    /// Starts twice from the damaged media, judges the result, and continues for a while.
    fn restart_twice(
        &mut self,
        branch: &Branch,
        mut images: Images,
        mut model: Model,
    ) -> Result<(), Failure> {
        let mut was_read_only = false;
        for again in 0..2 {
            let is_clean = self.is_clean(branch, &images)?;
            let world = self.start(images);
            if let Some(faults) = &branch.in_the_way {
                branch.switch(&world, faults);
            }
            let at = world.writes().saturating_add(1);
            let mut system = match self.maker.mount(&world) {
                Ok(system) => system,
                Err(stuck @ NotMounted::Stuck(_)) => return Err(Failure::new(stuck)),
                Err(NotMounted::Refused(reason)) => {
                    if is_clean || branch.tolerance == Tolerance::Marked {
                        let what = format!("it does not start, without a reason: {reason}");
                        return Err(Failure::new(what));
                    }
                    self.report.answered[branch.fault] += 1;
                    self.report.add_faults(&world);
                    return Ok(());
                }
            };
            let mut view = look(&world, &mut system, &model)?;
            if was_read_only {
                // The start before made no consistency point, so the number that this one made may
                // be that of one that failed. It says nothing of what joined that.
                view.cp = None;
            }
            if is_clean && view.errors() > 0 {
                let (failed, read_only) = (&view.failed, &view.read_only);
                let what = format!(
                    "the check found nothing, but reads fail: {failed:?}, or changes: {read_only:?}"
                );
                return Err(Failure::new(what));
            }
            self.report.answered[branch.fault] += view.errors();
            self.report.recoveries += 1;
            let known = model.clone();
            model = compare(&view, &model, at, branch.tolerance)
                .map_err(|failure| failure.within(format!("restart {again}")))?;
            model.set_writes(world.writes());
            (images, model) = self.live_with(branch, &world, system, model)?;
            was_read_only = view.read_only.is_some();
            if was_read_only {
                // Nothing changed, and objects that were left out may exist again.
                model = known;
                model.set_writes(world.writes());
            }
        }
        Ok(())
    }

    /// True if the offline check finds nothing, and nothing is in the way of the media.
    fn is_clean(&mut self, branch: &Branch, images: &Images) -> Result<bool, Failure> {
        let offline = self.start(images.clone());
        let checked = self.maker.check(&offline);
        self.report.answered[branch.fault] += u64::from(checked.is_err());
        // A device that missed consistency points without a block on it is refused, and is not a
        // problem of the bytes that the check reads.
        let is_stale = branch.fault == Fault::StaleDevice;
        Ok(checked.is_ok() && branch.in_the_way.is_none() && !is_stale)
    }

    /// Works for a while with a system that is, or will be, damaged; ends with a power cut.
    fn live_with(
        &mut self,
        branch: &Branch,
        world: &SimWorld,
        system: M::System,
        mut model: Model,
    ) -> Result<(Images, Model), Failure> {
        let mut actions = self.rng.between(1, self.plan.actions.min(200));
        let mut manners = self.manners();
        manners.errors = match branch.tolerance {
            Tolerance::Marked => Errors::Marked,
            _ => Errors::Anywhere,
        };
        // An administrator's request that fails may or may not have happened.
        let mut workload = self.workload.clone();
        workload.set_population(model.volumes_now(), &model.luns_now());
        if self.rng.one_in(3) {
            world.cut_at_write(world.writes() + self.rng.between(1, 64));
        }
        let seed = self.rng.draw();
        let mut driver = Driver::new(world, system, &mut model, manners, seed);
        driver.run(&mut |_| {
            actions = actions.checked_sub(1)?;
            Some(match actions {
                // The last request on any damaged system makes everything durable.
                0 => Action::Admin(Admin::ConsistencyPoint),
                _ => workload.draw(),
            })
        })?;
        let failure = driver.system().failure().or(driver.system().read_only());
        driver.read_out(manners.errors)?;
        let report = driver.report;
        drop(driver);
        if let (Tolerance::Marked, Some(reason)) = (branch.tolerance, &failure) {
            let what = format!("damage of clients' blocks was its end: {reason}");
            return Err(Failure::new(what));
        }
        self.report.add(&report);
        self.report.answered[branch.fault] += report.errors + u64::from(failure.is_some());
        self.report.add_faults(world);
        world.cut_now();
        model.set_writes(world.writes());
        Ok((self.cut(world), model))
    }

    /// Mounts and judges on good media.
    fn started(&mut self, world: &SimWorld, at: u64) -> Result<(M::System, Model), Failure> {
        let mounted = self.maker.mount(world);
        let mut system = mounted.map_err(|error| Failure::new(error).within("mount"))?;
        let mut model = judge(world, &mut system, &self.model, at)?;
        model.set_writes(world.writes());
        Ok((system, model))
    }
}

/// A block of a LUN.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    lun: String,
    block: u64,
}

/// Returns the blocks of LUNs with unique contents, and all places of those contents on the
/// devices.
fn targets(
    view: &View,
    images: &Images,
    devices: usize,
    first: u64,
) -> BTreeMap<Target, Vec<(usize, u64)>> {
    let mut owners: BTreeMap<u128, Vec<(Target, &PageRef)>> = BTreeMap::new();
    for (lun, blocks) in &view.blocks {
        for (&block, shown) in blocks {
            if let Shown::Bytes(page) = shown
                && page[..] != [0; BLOCK_SIZE]
            {
                let lun = lun.clone();
                let owner = (Target { lun, block }, page);
                owners
                    .entry(fingerprint(&page[..]))
                    .or_default()
                    .push(owner);
            }
        }
    }
    let mut targets: BTreeMap<Target, Vec<(usize, u64)>> = BTreeMap::new();
    // With a copy that stays whole, such as one that the block has moved away from, a damaged block
    // may be read for a while.
    let mut spared = BTreeSet::new();
    for device in 0..devices {
        for (block, page) in images.image(device).blocks() {
            if block < first && device == 0 {
                continue;
            }
            if let Some([(target, known)]) = owners.get(&fingerprint(&page[..])).map(Vec::as_slice)
                && known[..] == page[..]
            {
                if block < first {
                    spared.insert(target.clone());
                }
                targets
                    .entry(target.clone())
                    .or_default()
                    .push((device, block));
            }
        }
    }
    targets.retain(|target, _| !spared.contains(target));
    targets
}
