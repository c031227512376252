//! Silent faults: blocks that are not what was written, and nobody said so.
//!
//! A branch of a long simulation: one life on a copy of the media, in which one kind of fault
//! strikes, and two restarts of what it leaves; then the copy is thrown away, because nobody could
//! live on with it.
//!
//! *Wild* damage strikes anything behind the first label of each device: data, maps, trees, one of
//! the two copies of a superblock. Then everything may answer with an error: reads, mounts, a
//! consistency point, and with that every change. *Aimed* damage strikes blocks of clients' data
//! that the model knows: then those answer with an error until they are written again, and nothing
//! else does. In both:
//!
//! 1. What is read is what the model allows. Wrong data is never an answer.
//! 2. Nothing gets stuck, and nothing stops at an assertion.
//! 3. What the offline check finds clean starts, and reads without an error.
//! 4. A system that becomes read-only, while it runs or when it starts, shows all that was
//!    acknowledged where it can be read, says of nothing in memory that it is durable, takes no
//!    change and writes nothing.
//!
//! *The journal* is damaged apart from the rest: what is durable by it alone may then be gone, the
//! last first, because no reader can tell the end of a log from damage in it; everything else is as
//! above.
//!
//! The first label and what else [`damage_is_found`] leaves out are spared: a superblock, lost in
//! all its places by a device that said it was written, was never written as far as anyone can
//! know.
//!
//! [`damage_is_found`]: crate::system::Promises::damage_is_found

use std::collections::BTreeMap;
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

/// One branch: a fault, and what its clients may be told.
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
    /// Lives through a silent fault on a copy of `images`; `older` is what they were some time ago.
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

    /// Starts twice from what is left, judges it, and goes on with it for a while.
    fn restart_twice(
        &mut self,
        branch: &Branch,
        mut images: Images,
        mut model: Model,
    ) -> Result<(), Failure> {
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
            let view = look(&world, &mut system, &model)?;
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
            if view.read_only.is_some() {
                // Nothing changed, and what was left out may be there again.
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
        // problem of the bytes that the check looks at.
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
        // What an administrator asks is not known to have happened when it fails.
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
                // Whatever is damaged, the last thing asked for is that it be written.
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

/// Blocks of LUNs whose contents nobody else has, and everywhere on the devices where those
/// contents are.
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
    for device in 0..devices {
        for (block, page) in images.image(device).blocks() {
            if block < first {
                continue;
            }
            if let Some([(target, known)]) = owners.get(&fingerprint(&page[..])).map(Vec::as_slice)
                && known[..] == page[..]
            {
                targets
                    .entry(target.clone())
                    .or_default()
                    .push((device, block));
            }
        }
    }
    targets
}
