//! Order: the blocks of a region of a LUN come to lie in the order of the LUN (H-10, H-11).
//!
//! A region (the leaves below a level-1 block) is worth it if reading it in order takes too many
//! runs. Its blocks are moved ([`mover`]) to consecutive numbers. The pointers of the active image
//! are corrected at once, because they are expected to be read soon (H-12). So the level-1 block is
//! written again, with a vvbn of its own if a snapshot has it, too. Pointers of snapshots and of
//! clones are not corrected; their readers ask the container.
//!
//! A region that lies in order may still have pointers to former places, because its blocks were
//! moved by somebody else. Then only the pointers are *corrected* (B-11), which writes its level-1
//! block again and saves each reader of its blocks the way through the container.
//!
//! 1. Blocks that a clone has from its parent are in the parent's container. They stay where they
//!    are: the parent's layout is the parent's affair.
//! 2. What cannot be read stays where it is.
//!
//! For comparison, a region can also be put in order as other systems do it (H-14): its blocks are
//! written anew with vvbns of their own. Then every pointer of the LUN is right, and snapshots and
//! clones keep the former blocks, so each block that they shared takes space twice.

use everglade_env::PageRef;
use everglade_format::{FileId, Indirect, Layer, Pointer, Pvbn, SPAN, Vvbn};

use crate::alloc::blocks::Purpose;
use crate::background::mover::{self, Moving, cost, unless_damaged};
use crate::background::shrink::pointers_in;
use crate::home::aggregate::Home;
use crate::pool::scattered::Region;
use crate::read::load::{Gather, LoadCx, Stop};
use crate::tree::{Content, File};

/// A region with longer runs than so many blocks, on the average, is good as it is.
const GOOD_CHAIN: u64 = 16;

/// True if blocks in so many runs are worth moving.
pub(crate) fn is_worth_it(blocks: u64, runs: u64) -> bool {
    runs > 1 && runs * GOOD_CHAIN > blocks
}

/// True while the volume's active image is about to change as a whole.
pub(super) fn is_changing(home: &Home, volume: FileId) -> bool {
    let snapshots = &home.volumes[&volume].fs.snapshots;
    snapshots.restoring.is_some() || snapshots.lun.is_some() || snapshots.cloning.is_some()
}

/// True if a LUN is there.
pub(super) fn has_lun(home: &Home, volume: FileId, lun: FileId) -> bool {
    let fs = &home.volumes[&volume].fs;
    fs.files.contains_key(&lun) && !fs.hidden.contains(lun)
}

/// How a region lies.
pub(super) struct Lie {
    places: Vec<Place>,
    pub(super) runs: u64,
    /// The pointer to the level-1 block names a former place.
    is_stale_above: bool,
}

impl Lie {
    /// Returns how a region lies; as empty if it cannot be read.
    pub(super) fn of(home: &Home, cx: &mut LoadCx<'_>, region: &Region) -> Result<Lie, Stop> {
        let found = unless_damaged(places(home, cx, region))?;
        let (places, is_stale_above) = found.unwrap_or_default();
        let runs = runs(places.iter().map(|place| place.pvbn));
        Ok(Lie {
            places,
            runs,
            is_stale_above,
        })
    }

    pub(super) fn blocks(&self) -> u64 {
        self.places.len() as u64
    }

    /// Pointers to former places: to the leaves, and to the level-1 block.
    pub(super) fn stale(&self) -> u64 {
        let leaves = self.places.iter().filter(|place| place.is_stale());
        leaves.count() as u64 + u64::from(self.is_stale_above)
    }

    /// Where the first block is.
    pub(super) fn first(&self) -> Option<Pvbn> {
        self.places.first().map(|place| place.pvbn)
    }
}

/// Where a leaf is.
struct Place {
    leaf: u64,
    /// The pointer in the LUN's tree.
    pointer: Pointer,
    /// The place that the container says.
    pvbn: Pvbn,
}

impl Place {
    /// True if the pointer names a former place.
    fn is_stale(&self) -> bool {
        self.pointer.pvbn != self.pvbn
    }

    /// Gives the leaf another pointer.
    fn set(&self, file: &mut File, pointer: Pointer) {
        let old = file.set_leaf(self.leaf, pointer);
        assert_eq!(
            old.expect("it was read").vvbn,
            self.pointer.vvbn,
            "leaf {} has changed meanwhile",
            self.leaf
        );
    }
}

/// Returns the places of the leaves of a region that the volume's own container has, and whether
/// the pointer to its level-1 block names a former place.
fn places(home: &Home, cx: &mut LoadCx<'_>, region: &Region) -> Result<(Vec<Place>, bool), Stop> {
    let file = &home.volumes[&region.volume].fs.files[&region.lun];
    let container = &home.fs.files[&region.volume];
    let mut is_stale_above = false;
    let pointers = match file.peek(1, region.index) {
        Some(page) => pointers_in(Indirect(page), Layer::Volume)?,
        None => {
            let above = file.pointer(cx, 1, region.index)?;
            match above.has_block() {
                true => {
                    let own = container.pointer(cx, 0, above.vvbn.0)?;
                    is_stale_above = own.has_block() && own.pvbn != above.pvbn;
                    let page = cx.page(above)?;
                    pointers_in(Indirect(&page), Layer::Volume)?
                }
                false => Vec::new(),
            }
        }
    };
    let (mut gather, mut places) = (Gather::default(), Vec::new());
    for (slot, pointer) in pointers.into_iter().filter(|(_, it)| it.has_block()) {
        let vvbn = pointer.vvbn.0;
        let own = gather.add(container.pointer(cx, 0, vvbn));
        places.extend(own.filter(Pointer::has_block).map(|own| Place {
            leaf: region.index * SPAN + slot,
            pointer,
            pvbn: own.pvbn,
        }));
    }
    gather.finish()?;
    Ok((places, is_stale_above))
}

/// Corrects the pointers of a region to where its blocks are.
pub(super) fn correct(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    region: &Region,
    lie: &Lie,
) -> Result<(), Stop> {
    let number = home.under_way().number;
    let volume = home.volumes.get_mut(&region.volume).expect("it is planned");
    let file = volume.fs.file(region.lun);
    file.modify(cx, 1, region.index, Content::Keep)?;
    home.aggregate.space.charge_again(cost(1), number);
    for place in lie.places.iter().filter(|place| place.is_stale()) {
        let pointer = Pointer {
            pvbn: place.pvbn,
            ..place.pointer
        };
        place.set(file, pointer);
    }
    Ok(())
}

/// Counts the runs of consecutive numbers.
pub(crate) fn runs(places: impl Iterator<Item = Pvbn>) -> u64 {
    let mut last = None;
    let is_begin = |place: &Pvbn| last.replace(place.0).is_none_or(|last| last + 1 != place.0);
    let begins = places.filter(is_begin);
    begins.count() as u64
}

/// Moves the blocks of a region to consecutive numbers, and corrects the pointers to them. Returns
/// how many were moved, and the runs in which the region lies then.
pub(super) fn put_in_order(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    region: &Region,
    lie: Lie,
) -> Result<(u64, u64), Stop> {
    if home.moves_unshare {
        return write_in_order(home, cx, region, lie);
    }
    let before = (lie.blocks(), lie.runs);
    // Load.
    let mut gather = Gather::default();
    let mut moving: Vec<(Place, Moving)> = Vec::with_capacity(lie.places.len());
    for place in lie.places {
        let vvbn = (region.volume, place.pointer.vvbn.0);
        let found = unless_damaged(mover::prepare(&mut home.fs, cx, place.pvbn, vvbn));
        if let Some(block) = gather.add(found).flatten().flatten() {
            moving.push((place, block));
        }
    }
    let volume = home.volumes.get_mut(&region.volume).expect("it is planned");
    let file = volume.fs.file(region.lun);
    gather.add(file.modify(cx, 1, region.index, Content::Keep).map(|_| ()));
    gather.finish()?;
    home.fs
        .ensure(None, cx, &mut home.host, Purpose::Data, moving.len())?;

    // Modify.
    let run = home.run.as_mut().expect("under way");
    let space = &home.aggregate.space;
    space.charge_again(cost(moving.len()), run.number);
    let fs = &home.volumes[&region.volume].fs;
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
        let volume = home.volumes.get_mut(&region.volume).expect("as above");
        place.set(volume.fs.file(region.lun), pointer);
    }
    Ok(moved(home, before, numbers))
}

/// Takes note of the numbers that a region got, which had so many blocks and runs before. Returns
/// how many blocks were moved, and the runs in which the region lies now.
fn moved(home: &mut Home, (blocks, runs_before): (u64, u64), numbers: Vec<Pvbn>) -> (u64, u64) {
    let moved = numbers.len() as u64;
    let runs_after = match moved == blocks {
        true => runs(numbers.into_iter()),
        false => runs_before,
    };
    home.begin_bite();
    home.gardener.count_moved(moved);
    (moved, runs_after)
}

/// Writes the blocks of a region anew, with vvbns of their own and in order. Returns the same as
/// [`put_in_order`].
fn write_in_order(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    region: &Region,
    lie: Lie,
) -> Result<(u64, u64), Stop> {
    let before = (lie.blocks(), lie.runs);
    // Load.
    let mut gather = Gather::default();
    let mut found: Vec<(Place, PageRef)> = Vec::with_capacity(lie.places.len());
    for place in lie.places {
        let pointer = Pointer {
            vvbn: Vvbn(0),
            pvbn: place.pvbn,
            tag: place.pointer.tag,
        };
        let page = gather.add(unless_damaged(cx.data(pointer)));
        found.extend(page.flatten().map(|page| (place, page)));
    }
    let (mut site, _) = home.site(region.volume);
    let file = site.file(region.lun);
    gather.add(file.modify(cx, 1, region.index, Content::Keep).map(|_| ()));
    gather.finish()?;
    site.ensure(cx, Purpose::Data, found.len())?;

    // Modify.
    let space = &site.aggregate.space;
    space.charge_again(cost(found.len()), site.cp);
    let mut numbers = Vec::with_capacity(found.len());
    for (place, page) in found {
        let pointer = Pointer {
            tag: place.pointer.tag,
            ..site.take(Purpose::Data)
        };
        numbers.push(pointer.pvbn);
        place.set(site.file(region.lun), pointer);
        site.enter(pointer, page);
        site.stage.let_go(place.pointer.vvbn);
    }
    let run = home.under_way();
    run.moved.extend(numbers.iter().map(|pvbn| pvbn.0));
    Ok(moved(home, before, numbers))
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
