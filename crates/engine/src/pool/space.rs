//! Admission: which operations may add to the pool's consumption (docs/design/design.md §8, E-27).
//!
//! ```text
//! backed = blocks of areas the host has given space for
//! free   = backed − used at the last commit − charged since
//! grow       may go on while free ≥ reserve + its charge
//! overwrite  may go on while free ≥ ¾ of the reserve + its charge
//! release    may always go on
//! ```
//!
//! A charge is one block for each block of data. Metadata that a consistency point writes for it
//! (at most METADATA_FACTOR blocks for a page of data: level-1 block, container level-1 block, map
//! blocks) comes out of the reserve, so a consistency point cannot run out of space. Therefore the
//! dirty limit is at most the reserve divided by METADATA_FACTOR. If `beyond` blocks are free and
//! backed outside of the reserve, they raise the limit:
//!
//! ```text
//! limit = max(reserve ÷ METADATA_FACTOR, beyond ÷ (METADATA_FACTOR + 2))
//!         and at most what memory allows
//! ```
//!
//! A dirty page has taken one block of `beyond` as its charge. The dirty pages of the running
//! consistency point and of the next one are at most `limit` together, and the metadata of each
//! page fits in the rest (decision 0019). Background work that is not urgent does not use these
//! blocks either. A larger limit lets more changes share the level-1 blocks of large LUNs.
//!
//! Charges of a consistency point end when it commits and its real use is known.
//!
//! A large pool with little in it has a small reserve, so that the host need not give much before
//! anything is written: one block for [`RESERVE_PART`] blocks in use, at least [`RESERVE_LEAST`],
//! at most the whole reserve of the pool. The reserve grows only at a commit, and only into blocks
//! that are free and backed then. So it always consists of blocks that are there, as the rules
//! above assume.
//!
//! Charging is loose by design. Reactors add to shared counters, without the tokens of A-12. Two
//! operations that race may overdraw by one operation each, which the reserve covers.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use everglade_env::BLOCK_SIZE;
use everglade_format::CpNumber;

/// Blocks of the reserve that a page of dirty data costs at most: its level-1 block, level-1 blocks
/// of the container for the replaced block, for the replaced level-1 block and for the new ones,
/// and map blocks (four and a half of six are left when overwrites are admitted last).
const METADATA_FACTOR: u64 = 6;
/// The reserve of a pool that has nothing in it, if the whole reserve is larger: 128 MiB.
pub(crate) const RESERVE_LEAST: u64 = (128 << 20) / BLOCK_SIZE as u64;
/// Blocks in use for each block of the reserve. The whole reserve is a hundredth of the pool, so
/// half of a pool in use asks for all of it.
pub const RESERVE_PART: u64 = 50;
/// Consistency points in a row without a waiting writer, after which space for a larger dirty limit
/// is no longer kept.
const CALM_AFTER: u32 = 64;
/// The host is asked for at most one part in `AHEAD_PART` of the pool for a larger dirty limit.
const AHEAD_PART: u64 = 16;

/// The progress of a consistency point that is about to commit.
pub(crate) const WHOLE: u32 = 16;
/// Parts of [`WHOLE`] that writers may take at once of the dirty limit that a running consistency
/// point leaves.
const AT_ONCE: u32 = 4;

/// The effect of an operation on consumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Adds blocks.
    Grow,
    /// Replaces blocks that will be freed.
    Overwrite,
}

/// See the module's documentation. All values in blocks.
#[derive(Debug)]
pub(crate) struct Space {
    /// Changed in the freeze only, when the aggregate grows or shrinks.
    total: AtomicU64,
    /// Kept back when the pool is full.
    whole_reserve: AtomicU64,
    /// Kept back now.
    reserve: AtomicU64,
    backed: AtomicI64,
    used: AtomicU64,
    /// Charged blocks by parity of the consistency point.
    charged: [AtomicI64; 2],
    /// Blocks that deletions have yet to free.
    pending: AtomicU64,
    /// Objects in the trash, which goes first.
    trash: AtomicU64,
    /// Dirty pages, by parity of the consistency point.
    dirty: [AtomicI64; 2],
    dirty_limit: AtomicI64,
    /// Most dirty pages that memory allows.
    dirty_most: AtomicI64,
    /// Consistency points since one held writers up.
    calm: AtomicU32,
    /// Progress of the running consistency point, of [`WHOLE`].
    progress: AtomicU32,
    /// A writer waits for more of it.
    paced: AtomicBool,
    /// A writer had to, since it began.
    was_paced: AtomicBool,
    host_full: AtomicBool,
    /// True if an operation waits for space, or background work has asked for some.
    hungry: AtomicBool,
    /// The last consistency point in which an operation was refused, and the last committed
    /// consistency point.
    refused: AtomicU64,
    committed: AtomicU64,
}

/// Numbers for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All blocks of the aggregate.
    pub total_blocks: u64,
    /// Blocks in use at the last commit.
    pub used_blocks: u64,
    /// Kept back.
    pub reserve_blocks: u64,
    /// For which the host has given space.
    pub backed_blocks: u64,
    /// Blocks that deletions under way will free.
    pub pending_blocks: u64,
    /// Memory that the next consistency points have to write, in pages.
    pub dirty_pages: u64,
}

fn parity(cp: CpNumber) -> usize {
    usize::from(!cp.0.is_multiple_of(2))
}

fn signed(blocks: u64) -> i64 {
    i64::try_from(blocks).expect("block counts have 40 bits")
}

impl Space {
    pub(crate) fn new(total: u64, reserve: u64, used: u64, backed: u64) -> Self {
        let space = Space {
            total: AtomicU64::new(total),
            whole_reserve: AtomicU64::new(reserve),
            reserve: AtomicU64::new(reserve.min(RESERVE_LEAST)),
            backed: AtomicI64::new(signed(backed)),
            used: AtomicU64::new(used),
            charged: Default::default(),
            pending: AtomicU64::new(0),
            trash: AtomicU64::new(0),
            dirty: Default::default(),
            dirty_limit: AtomicI64::new(i64::MAX),
            dirty_most: AtomicI64::new(i64::MAX),
            calm: AtomicU32::new(CALM_AFTER),
            progress: AtomicU32::new(0),
            paced: AtomicBool::new(false),
            was_paced: AtomicBool::new(false),
            host_full: AtomicBool::new(false),
            hungry: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            committed: AtomicU64::new(0),
        };
        space.settle_reserve();
        space.limit_dirty();
        space
    }

    /// The reserve that what is in use asks for.
    pub(crate) fn wanted_reserve(&self) -> u64 {
        let whole = self.whole_reserve();
        let part = self.used.load(Ordering::Relaxed) / RESERVE_PART;
        part.max(RESERVE_LEAST).min(whole)
    }

    /// The reserve follows what is in use, as far as the host has given space.
    fn settle_reserve(&self) {
        let there = u64::try_from(self.free_backed()).unwrap_or(0);
        let most = there.max(self.reserve()).max(RESERVE_LEAST);
        let reserve = self.wanted_reserve().min(most);
        self.reserve.store(reserve, Ordering::Relaxed);
    }

    /// Sets the number of pages that may be dirty within the memory limit.
    pub(crate) fn set_dirty_memory(&self, pages: u64) {
        self.dirty_most.store(signed(pages), Ordering::Relaxed);
        self.limit_dirty();
    }

    fn limit_of_reserve(&self) -> i64 {
        signed((self.reserve() / METADATA_FACTOR).max(64))
    }

    /// Most dirty pages whose consistency points have the space that they need (see above).
    fn limit_dirty(&self) {
        let beyond = self.free_backed() - signed(self.reserve());
        let fits = self
            .limit_of_reserve()
            .max(beyond / signed(METADATA_FACTOR + 2));
        let most = self.dirty_most.load(Ordering::Relaxed);
        self.dirty_limit.store(fits.min(most), Ordering::Relaxed);
    }

    pub(crate) fn dirty_limit(&self) -> i64 {
        self.dirty_limit.load(Ordering::Relaxed)
    }

    /// Returns the blocks kept from background work: the reserve, or the possible needs of dirty
    /// pages.
    fn kept(&self) -> i64 {
        match self.dirty_limit() {
            limit if limit > self.limit_of_reserve() => limit * signed(METADATA_FACTOR),
            _ => signed(self.reserve()),
        }
    }

    /// Blocks beside the reserve that the host should have given space for, so that as much may be
    /// dirty as memory allows. None where the reserve is enough, or when writers have not been held
    /// up for a while or have gone.
    pub(crate) fn wanted_beyond(&self) -> u64 {
        let most = u64::try_from(self.dirty_most.load(Ordering::Relaxed)).unwrap_or(0);
        let is_enough = most <= self.reserve() / METADATA_FACTOR;
        let are_gone = !self.was_paced.load(Ordering::Relaxed) && self.dirty() == 0;
        if is_enough || are_gone || self.calm.load(Ordering::Relaxed) >= CALM_AFTER {
            return 0;
        }
        let wanted = most.saturating_mul(METADATA_FACTOR + 2);
        wanted.min(self.total() / AHEAD_PART)
    }

    fn charged(&self) -> i64 {
        self.charged
            .iter()
            .map(|charged| charged.load(Ordering::Relaxed))
            .sum()
    }

    /// Admits `blocks` of data to consistency point `cp`, or says no.
    pub(crate) fn charge(&self, class: Class, blocks: u64, cp: CpNumber) -> bool {
        let free = self.backed.load(Ordering::Relaxed)
            - signed(self.used.load(Ordering::Relaxed))
            - self.charged();
        let floor = match class {
            Class::Grow => signed(self.reserve()),
            Class::Overwrite => signed(self.reserve()) / 4 * 3,
        };
        if free < floor + signed(blocks) {
            self.refused.fetch_max(cp.0, Ordering::Relaxed);
            self.hungry.store(true, Ordering::Relaxed);
            return false;
        }
        self.charged[parity(cp)].fetch_add(signed(blocks), Ordering::Relaxed);
        true
    }

    /// Admits `blocks` that were admitted before a crash.
    pub(crate) fn charge_again(&self, blocks: u64, cp: CpNumber) {
        self.charged[parity(cp)].fetch_add(signed(blocks), Ordering::Relaxed);
    }

    /// True if `blocks` blocks can be taken for background work: beside the reserve, the blocks
    /// that clients were admitted for, and a hundredth of the pool (of the space that the host has
    /// provided, if it provides no more) for new client writes.
    pub(crate) fn has_room_beside(&self, blocks: u64) -> bool {
        let needed = signed(self.whole_reserve()) + signed(blocks);
        let margin = signed(self.total() / 100);
        let used = signed(self.used.load(Ordering::Relaxed)) + self.charged();
        let of_backed = match self.host_full.load(Ordering::Relaxed) {
            true => margin,
            false => 0,
        };
        signed(self.total()) - used >= needed + margin
            && self.free_backed() >= self.kept() + signed(blocks) + of_backed
    }

    /// True if waiting may help: charged blocks may cost less, deletions will free blocks, or the
    /// host may provide more space.
    pub(crate) fn may_improve(&self) -> bool {
        self.has_charges() || self.is_growing()
    }

    /// Adds to the dirty pages of `cp`. True if that took them beyond half of the limit.
    pub(crate) fn note_dirty(&self, pages: i64, cp: CpNumber) -> bool {
        let before = self.dirty[parity(cp)].fetch_add(pages, Ordering::Relaxed);
        let half = self.dirty_limit() / 2;
        before < half && before + pages >= half
    }

    /// Dirty pages of all consistency points.
    pub(crate) fn dirty(&self) -> i64 {
        self.dirty
            .iter()
            .map(|dirty| dirty.load(Ordering::Relaxed))
            .sum()
    }

    /// Dirty pages of one consistency point.
    pub(crate) fn dirty_in(&self, cp: CpNumber) -> u64 {
        let pages = self.dirty[parity(cp)].load(Ordering::Relaxed);
        u64::try_from(pages).unwrap_or(0)
    }

    /// True if `pages` more may be dirty in `cp`, which is being joined. While a consistency point
    /// runs, writers get the rest of the dirty limit as it gets on (docs/design/design.md §6): they
    /// slow down to its pace instead of running into the limit and standing still until it commits.
    /// A lone operation always may.
    pub(crate) fn has_room(&self, pages: i64, cp: CpNumber) -> bool {
        let active = self.dirty[parity(cp)].load(Ordering::Relaxed);
        let frozen = self.dirty() - active;
        if frozen <= 0 || active <= 0 {
            return true;
        }
        let parts = AT_ONCE + self.progress.load(Ordering::Relaxed) * (WHOLE - AT_ONCE) / WHOLE;
        let left = (self.dirty_limit() - frozen).max(0);
        let room = left / i64::from(WHOLE) * i64::from(parts);
        if active + pages <= room {
            return true;
        }
        self.paced.store(true, Ordering::Release);
        self.was_paced.store(true, Ordering::Relaxed);
        false
    }

    /// True if the next consistency point should begin without delay: half of the limit is dirty,
    /// or a quarter if a writer had to wait for the last consistency point. Then waiting until half
    /// of the limit is dirty would leave the devices idle.
    pub(crate) fn is_dirty_enough(&self) -> bool {
        let part = if self.was_paced.load(Ordering::Relaxed) {
            4
        } else {
            2
        };
        self.dirty() * part >= self.dirty_limit()
    }

    /// Begins the progress of a consistency point. Returns true if waiting writers should be woken,
    /// because there is room again.
    pub(crate) fn begin_progress(&self) -> bool {
        self.progress.store(0, Ordering::Release);
        match self.was_paced.swap(false, Ordering::Relaxed) {
            true => self.calm.store(0, Ordering::Relaxed),
            false => {
                let calm = self.calm.load(Ordering::Relaxed);
                self.calm.store(calm.saturating_add(1), Ordering::Relaxed);
            }
        }
        self.paced.swap(false, Ordering::AcqRel)
    }

    /// Updates the progress of the running consistency point. Returns true if waiting writers
    /// should be woken.
    pub(crate) fn set_progress(&self, progress: u32) -> bool {
        let before = self.progress.swap(progress.min(WHOLE), Ordering::AcqRel);
        before != progress && self.paced.swap(false, Ordering::AcqRel)
    }

    /// A consistency point committed: its charges end, its real use counts.
    pub(crate) fn commit(&self, cp: CpNumber, used: u64, backed: u64, pending: u64) {
        self.committed.store(cp.0, Ordering::Relaxed);
        self.charged[parity(cp)].store(0, Ordering::Relaxed);
        self.dirty[parity(cp)].store(0, Ordering::Relaxed);
        self.used.store(used, Ordering::Relaxed);
        self.backed.store(signed(backed), Ordering::Relaxed);
        self.pending.store(pending, Ordering::Relaxed);
        self.settle_reserve();
        self.limit_dirty();
    }

    /// Sets the number of blocks for which the host has given space.
    pub(crate) fn set_backed(&self, blocks: u64) {
        self.backed.store(signed(blocks), Ordering::Relaxed);
        self.settle_reserve();
        self.limit_dirty();
    }

    /// Sets the number of blocks that deletions have yet to free.
    pub(crate) fn set_pending(&self, blocks: u64) {
        self.pending.store(blocks, Ordering::Relaxed);
    }

    /// Something was deleted. How many blocks that frees is known when it is committed; until then
    /// waiting helps.
    pub(crate) fn expect_frees(&self) {
        self.pending.fetch_max(1, Ordering::Relaxed);
    }

    /// The host gave space for `blocks` more, or took some back.
    pub(crate) fn note_backed(&self, blocks: i64) {
        self.backed.fetch_add(blocks, Ordering::Relaxed);
    }

    /// The host refused, or gave, space. True if that is news.
    pub(crate) fn set_host_full(&self, full: bool) -> bool {
        self.host_full.swap(full, Ordering::Relaxed) != full
    }

    /// True if blocks are charged whose real cost the next commit will show.
    pub(crate) fn has_charges(&self) -> bool {
        self.charged() > 0
    }

    /// True if blocks will be freed, or the host may provide some: waiting helps. What is in the
    /// trash is freed when space is short.
    pub(crate) fn is_growing(&self) -> bool {
        let has_pending = self.pending.load(Ordering::Relaxed) > 0;
        has_pending || self.has_trash() || self.is_asking_host()
    }

    /// True if something is in the trash, as of the last freeze.
    pub(crate) fn has_trash(&self) -> bool {
        self.trash.load(Ordering::Relaxed) > 0
    }

    /// Sets the number of objects in the trash.
    pub(crate) fn set_trash(&self, objects: u64) {
        self.trash.store(objects, Ordering::Relaxed);
    }

    /// True if something has to leave the trash: space is short, the host has no more to give, and
    /// no deletion is under way that may be enough.
    pub(crate) fn needs_trash(&self) -> bool {
        if !self.has_trash() || self.pending.load(Ordering::Relaxed) > 0 {
            return false;
        }
        let floor = signed(self.whole_reserve()) + signed(self.total() / 100);
        match self.is_asking_host() {
            true => signed(self.total()) - signed(self.committed_blocks()) < floor,
            false => self.refused_since(1) || self.free_backed() < floor,
        }
    }

    /// True if an operation was refused for lack of space that had joined the last committed
    /// consistency point or, with `later` 1, a later one.
    fn refused_since(&self, later: u64) -> bool {
        let refused = self.refused.load(Ordering::Relaxed);
        refused > 0 && refused >= self.committed.load(Ordering::Relaxed) + later
    }

    /// True if the host was asked for more space and will answer soon.
    pub(crate) fn is_asking_host(&self) -> bool {
        !self.host_full.load(Ordering::Relaxed)
            && self.backed.load(Ordering::Relaxed) < signed(self.total())
    }

    /// True if an operation was refused for lack of space and may wait, or soon would be.
    pub(crate) fn is_short(&self) -> bool {
        let used = signed(self.used.load(Ordering::Relaxed)) + self.charged();
        let floor = signed(self.whole_reserve()) + signed(self.total() / 100);
        self.refused_since(0)
            || signed(self.total()) - used < floor
            || self.host_full.load(Ordering::Relaxed)
    }

    /// Background work would like the host to give space for areas, as if an operation had been
    /// refused.
    pub(crate) fn become_hungry(&self) {
        self.hungry.store(true, Ordering::Relaxed);
    }

    /// Returns true once after an operation was refused, or background work has asked for space.
    pub(crate) fn take_hunger(&self) -> bool {
        self.hungry.swap(false, Ordering::Relaxed)
    }

    /// Blocks that are free and backed, less the charges; may be negative.
    pub(crate) fn free_backed(&self) -> i64 {
        self.backed.load(Ordering::Relaxed)
            - signed(self.used.load(Ordering::Relaxed))
            - self.charged()
    }

    /// True if `blocks` more fit beside the reserve when `used` are in use: more than at the last
    /// commit, because a consistency point has taken some.
    pub(crate) fn fits_beside_reserve(&self, used: u64, blocks: u64) -> bool {
        let backed = self.backed.load(Ordering::Relaxed);
        backed - signed(used) - self.charged() >= self.kept() + signed(blocks)
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Blocks that are kept back now.
    pub(crate) fn reserve(&self) -> u64 {
        self.reserve.load(Ordering::Relaxed)
    }

    /// Blocks that are kept back when the pool is full.
    pub(crate) fn whole_reserve(&self) -> u64 {
        self.whole_reserve.load(Ordering::Relaxed)
    }

    /// The aggregate has this many blocks from now on, of which `reserve` are kept back. In the
    /// freeze only. The host was not asked for the new ones yet, so clients wait for its answer.
    pub(crate) fn grow(&self, total: u64, reserve: u64) {
        assert!(total >= self.total(), "an aggregate only grows");
        self.total.store(total, Ordering::Relaxed);
        self.whole_reserve.store(reserve, Ordering::Relaxed);
        self.settle_reserve();
        self.host_full.store(false, Ordering::Relaxed);
        self.limit_dirty();
    }

    /// Blocks that are in use or charged.
    pub(crate) fn committed_blocks(&self) -> u64 {
        let used = self.used.load(Ordering::Relaxed);
        used + u64::try_from(self.charged()).unwrap_or(0)
    }

    /// The aggregate may use only this many blocks from now on, of which `reserve` are kept back.
    /// In the freeze only. How many of them the host has given is to be set then.
    pub(crate) fn shrink(&self, total: u64, reserve: u64) {
        assert!(
            total <= self.total(),
            "an aggregate that grows has another way"
        );
        self.total.store(total, Ordering::Relaxed);
        self.whole_reserve.store(reserve, Ordering::Relaxed);
        self.settle_reserve();
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            total_blocks: self.total(),
            used_blocks: self.used.load(Ordering::Relaxed),
            reserve_blocks: self.whole_reserve(),
            backed_blocks: u64::try_from(self.backed.load(Ordering::Relaxed)).unwrap_or(0),
            pending_blocks: self.pending.load(Ordering::Relaxed),
            dirty_pages: u64::try_from(self.dirty()).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_of_a_large_pool_follows_what_is_in_use() {
        let (total, whole) = (1 << 28, 1 << 21);
        let space = Space::new(total, whole, 0, RESERVE_LEAST + 1000);
        assert_eq!(space.reserve(), RESERVE_LEAST);
        let cp = CpNumber(1);
        assert!(space.charge(Class::Grow, 1000, cp));
        assert!(!space.charge(Class::Grow, 1, cp), "the rest is kept back");
        // Half of what is wanted is there.
        let used = 100 * RESERVE_LEAST;
        let backed = used + 3 * RESERVE_LEAST / 2;
        space.commit(cp, used, backed, 0);
        assert_eq!(space.wanted_reserve(), 2 * RESERVE_LEAST);
        assert_eq!(space.reserve(), 3 * RESERVE_LEAST / 2);
        let overwrite = space.charge(Class::Overwrite, RESERVE_LEAST / 4, cp.next());
        assert!(overwrite && !space.charge(Class::Grow, 1, cp.next()));
        space.commit(cp.next(), used, backed - RESERVE_LEAST / 4, 0);
        assert_eq!(
            space.reserve(),
            3 * RESERVE_LEAST / 2,
            "it does not shrink for that"
        );
        space.set_backed(used + 9 * RESERVE_LEAST);
        assert_eq!(space.reserve(), 2 * RESERVE_LEAST);
        space.commit(cp, total - whole, total, 0);
        assert_eq!(space.reserve(), whole, "a full pool has all of it");
        space.commit(cp.next(), 0, total, 0);
        assert_eq!(space.reserve(), RESERVE_LEAST);
    }

    #[test]
    fn an_aggregate_that_grew_admits_more_when_the_host_gave_the_space() {
        let space = Space::new(1000, 100, 0, 1000);
        let cp = CpNumber(1);
        assert!(space.charge(Class::Grow, 900, cp));
        assert!(!space.is_asking_host());
        // All areas had their space, so there was nothing more to ask the host for.
        space.set_host_full(true);
        space.grow(2000, 120);
        assert_eq!((space.total(), space.whole_reserve()), (2000, 120));
        assert!(!space.charge(Class::Grow, 1, cp), "the space is not backed");
        assert!(space.is_asking_host() && space.may_improve());
        space.note_backed(256);
        assert!(space.charge(Class::Grow, 236, cp));
        assert!(!space.charge(Class::Grow, 1, cp));
    }

    #[test]
    fn something_leaves_the_trash_when_neither_the_host_nor_a_deletion_helps() {
        let space = Space::new(1000, 100, 0, 300);
        let cp = CpNumber(1);
        assert!(!space.charge(Class::Grow, 201, cp), "not backed yet");
        space.set_trash(1);
        assert!(!space.needs_trash(), "the host has more");
        space.set_host_full(true);
        assert!(space.needs_trash(), "an operation was refused");
        space.set_pending(1);
        assert!(!space.needs_trash(), "a deletion is under way");
        space.commit(cp, 0, 300, 0);
        assert!(!space.needs_trash(), "nobody has asked since");
        space.commit(cp.next(), 191, 300, 0);
        assert!(space.needs_trash(), "soon somebody would be refused");
        space.set_trash(0);
        assert!(!space.needs_trash() && !space.may_improve());
    }

    #[test]
    fn each_class_stops_at_its_floor() {
        let space = Space::new(1000, 100, 0, 1000);
        let cp = CpNumber(1);
        assert!(space.charge(Class::Grow, 900, cp));
        assert!(
            !space.charge(Class::Grow, 1, cp),
            "the reserve is not for growth"
        );
        assert!(space.charge(Class::Overwrite, 25, cp));
        assert!(
            !space.charge(Class::Overwrite, 1, cp),
            "three quarters of it are for releases only"
        );
        assert!(space.may_improve(), "the charges may turn out smaller");
        space.commit(cp, 900, 1000, 0);
        assert!(!space.may_improve());
        assert!(!space.charge(Class::Grow, 1, cp.next()));
        assert!(space.charge(Class::Overwrite, 25, cp.next()));
    }

    #[test]
    fn writers_keep_pace_with_a_consistency_point() {
        let space = Space::new(100_000, 9_600, 0, 100_000);
        space.set_dirty_memory(1_600);
        let (running, joining) = (CpNumber(2), CpNumber(3));
        assert!(!space.note_dirty(700, running));
        assert!(space.has_room(900, running), "nothing runs yet");
        space.note_dirty(100, running);
        assert!(
            space.has_room(5_000, joining),
            "a lone operation always may"
        );
        space.note_dirty(100, joining);
        assert!(space.has_room(100, joining));
        assert!(!space.has_room(101, joining), "a quarter of what is left");
        assert!(space.set_progress(WHOLE / 2), "somebody waits");
        assert!(space.has_room(400, joining));
        assert!(!space.has_room(401, joining));
        assert!(space.set_progress(WHOLE));
        assert!(space.has_room(700, joining));
        assert!(!space.set_progress(WHOLE - 1), "nobody waits");
        space.set_progress(WHOLE);
        assert!(!space.has_room(701, joining), "never beyond the limit");
        assert!(space.begin_progress());
        space.commit(running, 0, 100_000, 0);
        assert!(space.has_room(5_000, joining), "nothing runs");
    }

    #[test]
    fn more_may_be_dirty_where_more_is_free() {
        let space = Space::new(100_000, 6_000, 0, 14_000);
        space.set_dirty_memory(5_000);
        assert_eq!(space.dirty_limit(), 1_000, "a sixth of the reserve");
        let cp = CpNumber(2);
        space.commit(cp, 0, 30_000, 0);
        assert_eq!(space.dirty_limit(), 3_000, "an eighth of what is beside it");
        assert!(space.fits_beside_reserve(0, 12_000));
        assert!(
            !space.fits_beside_reserve(0, 12_001),
            "the metadata of 3,000 pages"
        );
        space.commit(cp, 0, 100_000, 0);
        assert_eq!(space.dirty_limit(), 5_000, "memory");
        space.commit(cp, 94_000, 100_000, 0);
        assert_eq!(space.dirty_limit(), 1_000);
        assert!(space.fits_beside_reserve(94_000, 0));
    }

    #[test]
    fn space_for_a_larger_limit_is_wanted_while_writers_are_held_up() {
        let space = Space::new(3_200_000, 6_000, 0, 14_000);
        space.set_dirty_memory(5_000);
        assert_eq!(space.wanted_beyond(), 0);
        space.note_dirty(900, CpNumber(2));
        space.note_dirty(50, CpNumber(3));
        assert!(!space.has_room(100, CpNumber(3)));
        space.begin_progress();
        assert_eq!(space.wanted_beyond(), 40_000);
        (0..CALM_AFTER - 1).for_each(|_| _ = space.begin_progress());
        assert_eq!(space.wanted_beyond(), 40_000);
        space.begin_progress();
        assert_eq!(space.wanted_beyond(), 0, "nobody was held up since");
        space.has_room(100, CpNumber(3));
        assert_eq!(space.wanted_beyond(), 0, "not before it is over");
        space.begin_progress();
        assert_eq!(space.wanted_beyond(), 40_000);
        space.commit(CpNumber(2), 0, 14_000, 0);
        space.commit(CpNumber(3), 0, 14_000, 0);
        assert_eq!(space.wanted_beyond(), 0, "the writers have gone");
        space.note_dirty(900, CpNumber(4));
        space.note_dirty(50, CpNumber(5));
        space.set_dirty_memory(1_000);
        space.has_room(100, CpNumber(5));
        space.begin_progress();
        assert_eq!(space.wanted_beyond(), 0, "the reserve is enough");
    }

    #[test]
    fn a_pool_is_short_of_space_a_little_before_clients_are_refused() {
        let space = Space::new(1000, 100, 889, 1000);
        assert!(!space.is_short());
        assert!(space.charge(Class::Grow, 2, CpNumber(1)));
        assert!(space.is_short());
        let thin = Space::new(1000, 100, 10, 120);
        assert!(!thin.is_short(), "the host has more");
        assert!(!thin.charge(Class::Grow, 300, CpNumber(7)));
        assert!(thin.is_short(), "somebody waits, however much there is");
        thin.commit(CpNumber(7), 10, 120, 0);
        assert!(thin.is_short());
        thin.commit(CpNumber(8), 10, 120, 0);
        assert!(!thin.is_short(), "nobody has asked since");
        thin.set_host_full(true);
        assert!(thin.is_short());
    }

    #[test]
    fn what_is_not_urgent_leaves_room_for_clients() {
        let space = Space::new(1000, 100, 790, 1000);
        assert!(space.has_room_beside(100));
        assert!(
            !space.has_room_beside(101),
            "a hundredth of 1,000 is theirs"
        );
        let thin = Space::new(1000, 100, 0, 200);
        assert!(thin.has_room_beside(100));
        assert!(!thin.has_room_beside(101), "the host has not given more");
        thin.set_host_full(true);
        assert!(thin.has_room_beside(90));
        assert!(!thin.has_room_beside(91), "and will not");
    }

    #[test]
    fn space_the_host_has_not_given_does_not_count() {
        let space = Space::new(1000, 100, 0, 200);
        assert!(!space.charge(Class::Grow, 101, CpNumber(1)));
        assert!(space.may_improve(), "the host may give more");
        space.set_host_full(true);
        assert!(!space.may_improve());
        space.note_backed(100);
        assert!(space.charge(Class::Grow, 101, CpNumber(1)));
    }

    #[test]
    fn a_charge_ends_with_its_own_consistency_point_and_counts_until_then() {
        let space = Space::new(1000, 100, 0, 1000);
        let (first, second) = (CpNumber(4), CpNumber(5));
        assert!(space.charge(Class::Grow, 400, first));
        assert!(space.charge(Class::Grow, 300, second));
        assert_eq!(space.free_backed(), 300);
        // Half of the charged blocks turned out to be overwrites.
        space.commit(first, 200, 1000, 0);
        assert_eq!(
            space.free_backed(),
            500,
            "those of the second are still charged"
        );
        assert!(space.has_charges());
        space.charge_again(50, second);
        space.commit(second, 450, 1000, 7);
        assert!(!space.has_charges());
        assert_eq!(
            (space.free_backed(), space.usage().pending_blocks),
            (550, 7)
        );
    }

    #[test]
    fn half_of_the_limit_is_passed_once_by_each_consistency_point() {
        let space = Space::new(100_000, 6_000, 0, 14_000);
        space.set_dirty_memory(1_000);
        let (one, next) = (CpNumber(2), CpNumber(3));
        assert!(!space.note_dirty(499, one));
        assert!(!space.is_dirty_enough());
        assert!(space.note_dirty(1, one), "that was the half");
        assert!(!space.note_dirty(100, one), "it is known already");
        assert!(space.is_dirty_enough());
        assert!(!space.note_dirty(499, next), "the next counts for itself");
        assert!(space.note_dirty(300, next));
        space.commit(one, 0, 14_000, 0);
        assert_eq!((space.dirty_in(one), space.dirty_in(next)), (0, 799));
    }

    #[test]
    fn after_writers_had_to_wait_a_quarter_of_the_limit_is_enough_to_begin() {
        let space = Space::new(100_000, 6_000, 0, 14_000);
        space.set_dirty_memory(1_000);
        space.note_dirty(200, CpNumber(2));
        space.note_dirty(50, CpNumber(3));
        assert!(!space.is_dirty_enough());
        assert!(!space.has_room(1_000, CpNumber(3)));
        assert!(space.is_dirty_enough());
        space.begin_progress();
        assert!(!space.is_dirty_enough(), "nobody waited since");
    }

    #[test]
    fn hunger_is_told_once_for_each_refusal() {
        let space = Space::new(1000, 100, 0, 1000);
        assert!(!space.take_hunger());
        assert!(!space.charge(Class::Grow, 901, CpNumber(1)));
        assert!(space.take_hunger());
        assert!(!space.take_hunger());
        assert!(
            space.charge(Class::Grow, 900, CpNumber(1)),
            "nothing was charged for it"
        );
        assert!(!space.take_hunger());
    }

    #[test]
    fn waiting_for_space_is_in_vain_when_nothing_comes_back_and_the_host_is_full() {
        let space = Space::new(1000, 100, 500, 600);
        assert!(space.is_growing(), "the host may give 400 more");
        assert!(space.set_host_full(true), "that is news");
        assert!(!space.set_host_full(true));
        assert!(!space.is_growing());
        space.set_pending(1);
        assert!(space.is_growing(), "a deletion gives a block back");
        space.commit(CpNumber(1), 500, 600, 0);
        assert!(!space.is_growing() && !space.is_asking_host());
    }
}
