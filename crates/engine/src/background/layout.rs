//! Layout: the blocks of a LUN come to lie in the order of the LUN, so that it is read in long runs
//! (H-10, H-11, H-15).
//!
//! A region (the leaves below a level-1 block) is put in order if reading it in order takes too
//! many runs: its blocks are moved ([`mover`]) to consecutive numbers. The pointers of the active
//! image are corrected at once, because they are expected to be read soon (H-12). So the level-1
//! block is written again, with a vvbn of its own if a snapshot has it, too. Pointers of snapshots
//! and of clones are not corrected; their readers ask the container.
//!
//! 1. Blocks that a clone has from its parent are in the parent's container. They stay where they
//!    are: the parent's layout is the parent's affair.
//! 2. A region that cannot be read is passed over.
//! 3. It is a job of its aggregate's gardener, in memory only. After a restart, the regions that
//!    were put in order are in order.

use everglade_format::{FileId, Indirect, Layer, Pointer, Pvbn, SPAN};

use crate::alloc::blocks::Purpose;
use crate::background::mover::{self, Moving, cost, unless_damaged};
use crate::background::pass::{Budget, Pass, Room};
use crate::background::shrink::pointers_in;
use crate::background::split::budget;
use crate::home::aggregate::Home;
use crate::home::gardener::LayoutJob;
use crate::home::ledger::{Target, Turn};
use crate::pool::garden::GardeningState;
use crate::pool::info::Progress;
use crate::read::load::{Gather, LoadCx, Stop};
use crate::tree::Content;

/// Regions that one step looks at, to find one that is worth it.
const STEP_REGIONS: usize = 32;
/// A region with longer runs than so many blocks, on the average, is good as it is.
const GOOD_CHAIN: u64 = 16;

/// See the module's documentation.
pub(crate) struct Layouts;

impl Pass<Home> for Layouts {
    fn name(&self) -> &'static str {
        "layout"
    }

    fn has_work(&self, home: &Home, target: Target) -> bool {
        let job = home.gardener.layout();
        job.is_some_and(|job| target == Target::Volume(job.volume))
    }

    fn has_space(&self, home: &Home) -> bool {
        mover::has_room(home)
    }

    fn wants(&self, home: &Home) -> Vec<Target> {
        if !mover::may_move(home) || !mover::is_in_share(home, self.name()) {
            return Vec::new();
        }
        home.planned()
            .filter(|target| self.has_work(home, *target))
            .collect()
    }

    fn step(
        &self,
        home: &mut Home,
        cx: &mut LoadCx<'_>,
        target: Target,
        _room: Room,
    ) -> Result<Turn, Stop> {
        let id = target.volume().expect("it wants volumes only");
        let turn = step(home, cx, id);
        home.tell_garden();
        turn
    }

    /// Returns the progress in regions.
    fn progress(&self, home: &Home, target: Target) -> Option<Progress> {
        self.has_work(home, target).then_some(())?;
        let info = &home.gardener.info().layout;
        Some(Progress {
            done: info.passed_regions,
            total: info.total_regions,
            since: Some((info.begun_seconds, 0)),
        })
    }

    fn budget(&self, regions: u64) -> Budget {
        let blocks = budget(regions);
        Budget::PurseUpTo { blocks }
    }

    fn frees(&self) -> bool {
        false
    }
}

fn step(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) -> Result<Turn, Stop> {
    let seconds = home.wall_seconds;
    for _ in 0..STEP_REGIONS {
        let Some(job) = home.gardener.layout().copied() else {
            return Ok(Turn::Moved(0));
        };
        let fs = &home.volumes[&id].fs;
        let is_changing = fs.snapshots.restoring.is_some() || fs.snapshots.lun.is_some();
        if is_changing || fs.snapshots.cloning.is_some() {
            return Ok(Turn::Waits);
        }
        let file = fs.files.get(&job.lun);
        let Some(file) = file.filter(|_| !fs.hidden.contains(job.lun)) else {
            home.gardener.end_layout(GardeningState::Stopped, seconds);
            return Ok(Turn::GaveUp);
        };
        if job.next >= file.inode.block_count().div_ceil(SPAN) {
            home.gardener.end_layout(GardeningState::Done, seconds);
            return Ok(Turn::Moved(0));
        }
        let places = unless_damaged(places(home, cx, &job))?.unwrap_or_default();
        let found = places.iter().map(|place| place.pvbn);
        let (blocks, runs) = (places.len() as u64, runs(found));
        let is_good = runs <= 1 || runs * GOOD_CHAIN <= blocks;
        if job.is_estimate || is_good {
            home.gardener.pass_region(blocks, (runs, runs), 0);
            continue;
        }
        return put_in_order(home, cx, &job, places, runs);
    }
    Ok(Turn::Moved(0))
}

/// Where a leaf is.
struct Place {
    leaf: u64,
    /// The pointer in the LUN's tree.
    pointer: Pointer,
    /// The place that the container says.
    pvbn: Pvbn,
}

/// Returns the places of the leaves of a region that the volume's own container has.
fn places(home: &Home, cx: &mut LoadCx<'_>, job: &LayoutJob) -> Result<Vec<Place>, Stop> {
    let file = &home.volumes[&job.volume].fs.files[&job.lun];
    let pointers = match file.peek(1, job.next) {
        Some(page) => pointers_in(Indirect(page), Layer::Volume)?,
        None => {
            let above = file.pointer(cx, 1, job.next)?;
            match above.has_block() {
                true => {
                    let page = cx.page(above)?;
                    pointers_in(Indirect(&page), Layer::Volume)?
                }
                false => Vec::new(),
            }
        }
    };
    let container = &home.fs.files[&job.volume];
    let (mut gather, mut places) = (Gather::default(), Vec::new());
    for (slot, pointer) in pointers.into_iter().filter(|(_, it)| it.has_block()) {
        let vvbn = pointer.vvbn.0;
        let own = gather.add(container.pointer(cx, 0, vvbn));
        places.extend(own.filter(Pointer::has_block).map(|own| Place {
            leaf: job.next * SPAN + slot,
            pointer,
            pvbn: own.pvbn,
        }));
    }
    gather.finish()?;
    Ok(places)
}

/// Counts the runs of consecutive numbers.
fn runs(places: impl Iterator<Item = Pvbn>) -> u64 {
    let mut last = None;
    let is_begin = |place: &Pvbn| last.replace(place.0).is_none_or(|last| last + 1 != place.0);
    let begins = places.filter(is_begin);
    begins.count() as u64
}

/// Moves the blocks of a region to consecutive numbers, and corrects the pointers to them.
fn put_in_order(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    job: &LayoutJob,
    places: Vec<Place>,
    runs_before: u64,
) -> Result<Turn, Stop> {
    let blocks = places.len() as u64;
    // Load.
    let mut gather = Gather::default();
    let mut moving: Vec<(Place, Moving)> = Vec::with_capacity(places.len());
    for place in places {
        let vvbn = (job.volume, place.pointer.vvbn.0);
        let found = unless_damaged(mover::prepare(&mut home.fs, cx, place.pvbn, vvbn));
        if let Some(block) = gather.add(found).flatten().flatten() {
            moving.push((place, block));
        }
    }
    let volume = home.volumes.get_mut(&job.volume).expect("it is planned");
    let file = volume.fs.file(job.lun);
    gather.add(file.modify(cx, 1, job.next, Content::Keep).map(|_| ()));
    gather.finish()?;
    home.fs
        .ensure(None, cx, &mut home.host, Purpose::Data, moving.len())?;

    // Modify.
    let run = home.run.as_mut().expect("under way");
    let space = &home.aggregate.space;
    space.charge_again(cost(moving.len()), run.number);
    let fs = &home.volumes[&job.volume].fs;
    let is_shared = fs.snapshots.any() || fs.has_counts;
    let mut numbers = Vec::with_capacity(moving.len());
    for (place, block) in moving {
        let (container, vvbn) = (block.container, block.vvbn);
        let pvbn = mover::move_block(home, block);
        if is_shared {
            home.aggregate.redirects.note_moved(container, vvbn);
        }
        numbers.push(pvbn);
        let pointer = Pointer {
            pvbn,
            ..place.pointer
        };
        let volume = home.volumes.get_mut(&job.volume).expect("as above");
        let old = volume.fs.file(job.lun).set_leaf(place.leaf, pointer);
        assert_eq!(
            old.expect("it was read").vvbn,
            pointer.vvbn,
            "leaf {} has changed meanwhile",
            place.leaf
        );
    }
    let moved = numbers.len() as u64;
    let runs_after = match moved == blocks {
        true => runs(numbers.into_iter()),
        false => runs_before,
    };
    home.gardener
        .pass_region(blocks, (runs_before, runs_after), moved);
    Ok(Turn::Moved(moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_where_the_next_number_is_not_the_next_block() {
        let of = |numbers: &[u64]| runs(numbers.iter().map(|number| Pvbn(*number)));
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[7]), 1);
        assert_eq!(of(&[7, 8, 9]), 1);
        assert_eq!(of(&[7, 9, 8]), 3);
        assert_eq!(of(&[0, 1, 5, 6]), 2);
    }
}
