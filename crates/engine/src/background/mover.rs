//! The mover: a block of a volume gets another place (H-03, H-11, H-13, O-08).
//!
//! The block's content is written to a new pvbn, and the container's slot of its vvbn says so.
//! Nothing else changes. Vvbn and tag stay, so what snapshots and clones share stays shared. The
//! pvbns in their pointers are hints that are out of date now: readers ask the container
//! ([`crate::read::redirects`]).
//!
//! 1. A block is moved only if the slot names the place where it was found. Otherwise a client has
//!    overwritten it meanwhile, and it is left alone.
//! 2. The content is moved as it is, with the tag of the slot. What cannot be read, or is not what
//!    the tag says, is not moved.
//! 3. The new place is noted: until the block is written, there is something else. So nobody copies
//!    it in this consistency point ([`super::split`]).
//! 4. Slot, context and maps change in one consistency point. The old place is free from the next
//!    one on, like that of any block.

use everglade_env::PageRef;
use everglade_format::context::Context;
use everglade_format::{FileId, Owner, Pointer, Pvbn, SPAN, Vvbn};

use crate::alloc::blocks::Purpose;
use crate::alloc::filesystem::FileSystem;
use crate::background::pass::Pass;
use crate::background::split::step_blocks;
use crate::home::aggregate::Home;
use crate::home::ledger::Target;
use crate::media::pace::Bite;
use crate::pool::trigger::CpBlock;
use crate::read::load::{Gather, LoadCx, Stop};
use crate::tree::Content;

/// Blocks that a pass moves in a consistency point while clients are there: 4 MiB.
const SMALL_BITE_BLOCKS: u64 = 1024;

/// A block that is about to move.
pub(super) struct Moving {
    /// The container.
    pub(super) container: FileId,
    pub(super) vvbn: u64,
    /// The slot as it is.
    slot: Pointer,
    page: PageRef,
}

/// Load phase of [`move_block`]. Returns nothing if the block is not where it was found.
pub(super) fn prepare(
    fs: &mut FileSystem,
    cx: &mut LoadCx<'_>,
    found: Pvbn,
    (container, vvbn): (FileId, u64),
) -> Result<Option<Moving>, Stop> {
    let Some(file) = fs.files.get_mut(&container) else {
        return Ok(None);
    };
    if vvbn >= file.inode.block_count() {
        return Ok(None);
    }
    file.modify(cx, 1, vvbn / SPAN, Content::Keep)?;
    let slot = file.leaf_pointer(vvbn)?;
    if slot.pvbn != found || !slot.has_block() {
        return Ok(None);
    }
    let mut gather = Gather::default();
    let page = gather.add(cx.data(slot));
    gather.add(fs.prepare_free(cx, found.0));
    gather.finish()?;
    Ok(Some(Moving {
        container,
        vvbn,
        slot,
        page: page.expect("nothing stopped"),
    }))
}

/// Moves a block to the next number, which was ensured. Returns its new place.
pub(super) fn move_block(home: &mut Home, block: Moving) -> Pvbn {
    let Moving {
        container,
        vvbn,
        slot,
        page,
    } = block;
    let new = Pointer {
        vvbn: Vvbn(0),
        pvbn: Pvbn(home.fs.take(Purpose::Data)),
        tag: slot.tag,
    };
    let old = home.fs.file(container).set_leaf(vvbn, new);
    assert_eq!(
        old.expect("it was read").pvbn,
        slot.pvbn,
        "vvbn {vvbn} has moved meanwhile"
    );
    let owned = Context {
        file: container,
        owner: Owner::Container { vvbn },
        tag: slot.tag,
    };
    home.fs.set_context(new.pvbn, owned);
    let run = home.run.as_mut().expect("under way");
    home.aggregate.counts.count_blocks(CpBlock::Moved, 1);
    run.writer.push(&home.aggregate.media, new.pvbn, page);
    run.moved.insert(new.pvbn.0);
    home.fs.free(slot.pvbn.0);
    new.pvbn
}

/// What cannot be read says nothing, and is left to those who need it.
pub(super) fn unless_damaged<T>(found: Result<T, Stop>) -> Result<Option<T>, Stop> {
    match found.map_err(Stop::settled) {
        Err(Stop::Failed(_)) => Ok(None),
        found => found.map(Some),
    }
}

/// True if there is space for a step beside what clients may use, and gardening is not paused.
pub(super) fn has_room(home: &Home) -> bool {
    !home.aggregate.garden_is_paused() && fits(home)
}

/// The same, with what the consistency point under way has taken.
pub(super) fn may_move(home: &Home) -> bool {
    !home.aggregate.garden_is_paused() && fits_now(home)
}

/// True if there is space for a step beside what clients may use. A demand of clients is not
/// paused.
pub(super) fn fits(home: &Home) -> bool {
    let cost = cost(step_blocks(home.fs.area_blocks));
    home.aggregate.space.has_room_beside(cost)
}

/// The same, with what the consistency point under way has taken.
pub(super) fn fits_now(home: &Home) -> bool {
    let cost = cost(step_blocks(home.fs.area_blocks));
    home.aggregate.space.fits_beside_reserve(home.fs.used, cost) && fits(home)
}

/// True if a pass has moved less than its share in the consistency point under way, and gardening
/// does not rest.
pub(super) fn is_in_share(home: &Home, pass: &'static str) -> bool {
    if home.now < home.gardener.rests_until() {
        return false;
    }
    match home.aggregate.media.pace.bite(home.now) {
        Bite::Large => true,
        Bite::Small => home.ledger.spent(pass).blocks < SMALL_BITE_BLOCKS,
    }
}

/// Returns the volumes for which a pass may move blocks now.
pub(super) fn targets(home: &Home, pass: &impl Pass<Home>) -> Vec<Target> {
    if !may_move(home) || !is_in_share(home, pass.name()) {
        return Vec::new();
    }
    home.planned()
        .filter(|target| pass.has_work(home, *target))
        .collect()
}

/// Returns the blocks that moving `blocks` blocks may take: each may be alone in its level-1 block
/// of its container, and blocks of maps and contexts change.
pub(super) fn cost(blocks: usize) -> u64 {
    2 * blocks as u64 + 64
}
