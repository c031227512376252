//! Scores of the allocation areas of one extent (or of one volume's vvbn space).
//!
//! ```text
//! untouched ──prepare──▶ ready ──open──▶ open ──score──▶ partial or ready
//!                        ▲ ▲  └──punch──▶ bare
//!              prepare ──┘ └── prepare      ▲
//!                 empty ─────── refuse ─────┘
//! ```
//!
//! * *untouched*: at or above the frontier, never allocated from; takes no memory;
//! * *empty*: all blocks free; nobody knows whether the host has given the space. After a start
//!   every free area is empty, the reserve included, so a full host must be asked for each of them;
//! * *bare*: all blocks free, and the host has not given the space;
//! * *ready*: all blocks free and the host has given the space;
//! * *partial*: some blocks in use, so the host has given the space;
//! * *open*: lent to a cursor; known to nobody else until it is scored again (O-14);
//! * *left out*: nothing may be written there for as long as the extent is open; in no set.
//!
//! An extent that is to be emptied is *shut*: none of its areas is given out any more. What is free
//! in its partial areas is counted, because it is of no use.
//!
//! 1. An area is in at most one of the sets; open areas are in none.
//! 2. Memory is bounded: at most [`PARTIAL_MAX`] partial areas are remembered, the best ones. When
//!    some were dropped, or not yet seen since start, the cache says so (`complete` is false) and
//!    the owner scans the map when the rest is used up.

use std::collections::{BTreeMap, BTreeSet};

/// Most partial areas remembered: 8,192 areas of 128 MiB are 1 TiB of the best space.
pub(crate) const PARTIAL_MAX: usize = 8_192;

/// An area to allocate from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// May be written at once.
    Ready(u64),
    /// Free, but the host must be asked for space first.
    Unprepared(u64),
}

/// What is known of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has free blocks, and the host has given the space.
    Writable,
    /// All of it is free, and the host must be asked for the space first. An area above the
    /// frontier is so only if it is the next one.
    Unprepared,
    /// It is full, or was not seen since start.
    Unknown,
    /// It is open, left out, shut, or not there, or others come before it.
    Withheld,
}

/// See the module's documentation. Areas are counted from 0 within the extent.
#[derive(Debug)]
pub struct Areas {
    count: u64,
    area_blocks: u64,
    frontier: u64,
    ready: BTreeSet<u64>,
    empty: BTreeSet<u64>,
    bare: BTreeSet<u64>,
    partial: BTreeSet<(u64, std::cmp::Reverse<u64>)>,
    scores: BTreeMap<u64, u64>,
    open: BTreeSet<u64>,
    /// Areas that are left out, each with the most free blocks that it may have beside used ones.
    left_out: BTreeMap<u64, u64>,
    /// Free blocks of each area that is in use and of which this is known, if the extent is shut.
    shut: Option<BTreeMap<u64, u64>>,
    complete: bool,
    /// Something was dropped since the last search began.
    dropped: bool,
}

impl Areas {
    /// `count` areas of which those from `frontier` on are untouched. The others are unknown.
    #[must_use]
    pub fn new(count: u64, area_blocks: u64, frontier: u64) -> Self {
        Areas {
            count,
            area_blocks,
            frontier,
            ready: BTreeSet::new(),
            empty: BTreeSet::new(),
            bare: BTreeSet::new(),
            partial: BTreeSet::new(),
            scores: BTreeMap::new(),
            open: BTreeSet::new(),
            left_out: BTreeMap::new(),
            shut: None,
            complete: frontier == 0,
            dropped: false,
        }
    }

    /// Areas in the extent.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Areas from this one on were never allocated from.
    #[must_use]
    pub fn frontier(&self) -> u64 {
        self.frontier
    }

    /// Makes the space larger (vvbn spaces grow on demand).
    pub fn grow(&mut self, count: u64) {
        assert!(count >= self.count, "areas never disappear");
        self.count = count;
    }

    /// Never gives out this area, which nothing knows yet. The frontier passes it when a later area
    /// is prepared, so it does not pass further than what was written.
    pub fn leave_out(&mut self, area: u64) {
        assert!(area < self.count, "area {area} of {}", self.count);
        let free = match area < self.frontier {
            true => self.area_blocks,
            false => 0,
        };
        self.left_out.insert(area, free);
    }

    /// Returns the blocks that are free in areas that are in use and that nobody may have: at most
    /// those of areas that are left out, and those of a shut extent as far as they are known.
    #[must_use]
    pub fn left_out_blocks(&self) -> u64 {
        let shut = self.shut.iter().flat_map(BTreeMap::values);
        self.left_out.values().chain(shut).sum()
    }

    /// Gives out none of the areas any more. Open ones stay open.
    pub fn shut(&mut self) {
        if self.shut.is_some() {
            return;
        }
        let left_out = &self.left_out;
        let known = self.scores.iter().map(|(area, free)| (*area, *free));
        let known = known.filter(|(area, _)| !left_out.contains_key(area));
        self.shut = Some(known.collect());
        self.ready.clear();
        self.empty.clear();
        self.bare.clear();
        self.partial.clear();
        self.scores.clear();
        self.complete = true;
    }

    /// Gives areas out again. Those below the frontier are unknown then.
    pub fn unshut(&mut self) {
        if self.shut.take().is_some() {
            self.complete = self.frontier == 0;
        }
    }

    /// True if none of the areas is given out.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        self.shut.is_some()
    }

    /// The next untouched area that may be used.
    fn untouched(&self) -> Option<u64> {
        if self.shut.is_some() {
            return None;
        }
        (self.frontier..self.count).find(|area| !self.left_out.contains_key(area))
    }

    /// False if areas below the frontier may have free blocks that are not known here.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Says that every area below the frontier was scored by a search. If some were dropped
    /// meanwhile, the next search may find them.
    pub fn set_searched(&mut self) {
        self.complete = !std::mem::take(&mut self.dropped);
    }

    /// Records that `area` has `free` free blocks. An open area is left alone. An area that became
    /// empty keeps its space on the host (`ready`) unless `given_back`.
    pub fn score(&mut self, area: u64, free: u64, given_back: bool) {
        assert!(
            area < self.count && free <= self.area_blocks,
            "area {area} with {free} free"
        );
        if self.open.contains(&area) {
            return;
        }
        if area >= self.frontier && free == self.area_blocks {
            return;
        }
        if let Some(known) = self.left_out.get_mut(&area) {
            // An area without used blocks is not in use.
            *known = free % self.area_blocks;
            return;
        }
        if let Some(shut) = &mut self.shut {
            match free % self.area_blocks {
                0 => shut.remove(&area),
                free => shut.insert(area, free),
            };
            return;
        }
        let was_empty = self.empty.contains(&area);
        let was_bare = self.bare.contains(&area);
        let was_ready = self.ready.contains(&area);
        self.forget(area);
        if free == self.area_blocks {
            if was_bare {
                self.bare.insert(area);
            } else if (given_back || was_empty) && !was_ready {
                self.empty.insert(area);
            } else {
                self.ready.insert(area);
            }
        } else if free > 0 {
            self.partial.insert((free, std::cmp::Reverse(area)));
            self.scores.insert(area, free);
            if self.partial.len() > PARTIAL_MAX
                && let Some((_, std::cmp::Reverse(worst))) = self.partial.pop_first()
            {
                self.scores.remove(&worst);
                (self.complete, self.dropped) = (false, true);
            }
        }
    }

    fn forget(&mut self, area: u64) {
        self.ready.remove(&area);
        self.empty.remove(&area);
        self.bare.remove(&area);
        if let Some(free) = self.scores.remove(&area) {
            self.partial.remove(&(free, std::cmp::Reverse(area)));
        }
    }

    /// The area to allocate from next: a ready one, else the emptiest partial one with at least
    /// `partial_min` free blocks, else one that must be prepared first, else any partial one.
    #[must_use]
    pub fn best(&self, partial_min: u64) -> Option<Candidate> {
        let partial = self.best_partial().map(Candidate::Ready);
        if let Some(area) = self.ready.first() {
            return Some(Candidate::Ready(*area));
        }
        if self.has_partial(partial_min) {
            return partial;
        }
        self.unprepared().map(Candidate::Unprepared).or(partial)
    }

    /// The best partial area.
    #[must_use]
    pub fn best_partial(&self) -> Option<u64> {
        self.partial
            .last()
            .map(|(_, std::cmp::Reverse(area))| *area)
    }

    /// True if a partial area has at least `free` free blocks.
    #[must_use]
    pub fn has_partial(&self, free: u64) -> bool {
        self.partial.last().is_some_and(|(most, _)| *most >= free)
    }

    /// The next area that could be prepared: an empty one, which may have its space, then a bare
    /// one, then an untouched one.
    #[must_use]
    pub fn unprepared(&self) -> Option<u64> {
        let bare = self.bare.first().copied();
        self.empty().or(bare).or_else(|| self.untouched())
    }

    /// The next area of which nobody knows whether it has its space.
    #[must_use]
    pub fn empty(&self) -> Option<u64> {
        self.empty.first().copied()
    }

    /// Records that the host gave no space for an area. Returns true if this was not known before;
    /// then it is worth trying another empty area, which may have its space.
    pub fn refused(&mut self, area: u64) -> bool {
        let is_news = self.empty.remove(&area);
        if is_news {
            self.bare.insert(area);
        }
        is_news
    }

    /// Records that the host gave space for an empty, bare or untouched area. Returns false, and
    /// changes nothing, if the area is no longer one.
    pub fn prepared(&mut self, area: u64) -> bool {
        if self.untouched() == Some(area) {
            self.frontier = area + 1;
        } else if !self.empty.remove(&area) && !self.bare.remove(&area) {
            return false;
        }
        self.ready.insert(area);
        true
    }

    /// Records that the space of a ready area is being given back to the host.
    pub fn give_back(&mut self, area: u64) -> bool {
        let was_ready = self.ready.remove(&area);
        if was_ready {
            self.bare.insert(area);
        }
        was_ready
    }

    /// The ready areas, ascending.
    pub fn ready(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.ready.iter().copied()
    }

    /// Number of ready areas.
    #[must_use]
    pub fn ready_count(&self) -> u64 {
        self.ready.len() as u64
    }

    /// Lends an area to a cursor.
    pub fn open(&mut self, area: u64) {
        self.forget(area);
        if area >= self.frontier {
            let next = self.untouched();
            assert_eq!(Some(area), next, "untouched areas are opened in order");
            self.frontier = area + 1;
        }
        assert!(self.open.insert(area), "area {area} is open twice");
    }

    /// Takes an area back from a cursor. It is unknown until it is scored.
    pub fn close(&mut self, area: u64) {
        assert!(self.open.remove(&area), "area {area} is not open");
    }

    /// Returns what is known of an area.
    #[must_use]
    pub fn standing(&self, area: u64) -> Standing {
        let is_withheld = self.shut.is_some() || self.left_out.contains_key(&area);
        if is_withheld || self.open.contains(&area) {
            Standing::Withheld
        } else if self.ready.contains(&area) || self.scores.contains_key(&area) {
            Standing::Writable
        } else if self.empty.contains(&area)
            || self.bare.contains(&area)
            || self.untouched() == Some(area)
        {
            Standing::Unprepared
        } else if area < self.frontier {
            Standing::Unknown
        } else {
            Standing::Withheld
        }
    }

    /// True if a cursor has the area.
    #[must_use]
    pub fn is_open(&self, area: u64) -> bool {
        self.open.contains(&area)
    }

    /// The best known areas with their free blocks, best first, at most `most`: for TopAA.
    #[must_use]
    pub fn top(&self, most: usize) -> Vec<(u64, u64)> {
        let whole = self
            .ready
            .iter()
            .chain(&self.empty)
            .chain(&self.bare)
            .map(|area| (*area, self.area_blocks));
        let partial = self
            .partial
            .iter()
            .rev()
            .map(|(free, std::cmp::Reverse(area))| (*area, *free));
        whole.chain(partial).take(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shut_extent_gives_nothing_out_and_counts_what_is_free_in_used_areas() {
        let mut areas = Areas::new(6, 256, 4);
        areas.score(0, 100, true);
        areas.score(1, 256, true);
        areas.score(2, 0, false);
        areas.open(3);
        areas.shut();
        assert_eq!((areas.best(0), areas.unprepared()), (None, None));
        assert_eq!((areas.ready_count(), areas.is_complete()), (0, true));
        assert_eq!(areas.standing(0), Standing::Withheld);
        assert_eq!(areas.left_out_blocks(), 100);
        areas.score(2, 30, false);
        areas.close(3);
        areas.score(3, 256, false);
        assert_eq!(areas.left_out_blocks(), 130);
        assert!(!areas.prepared(1) && !areas.refused(1));
        areas.score(0, 256, false);
        assert_eq!(areas.left_out_blocks(), 30);
        areas.unshut();
        assert_eq!((areas.left_out_blocks(), areas.is_complete()), (0, false));
        assert_eq!(areas.standing(0), Standing::Unknown);
        areas.score(2, 30, false);
        assert_eq!(areas.best(0), Some(Candidate::Ready(2)));
    }

    #[test]
    fn an_area_stands_where_it_was_put() {
        let mut areas = Areas::new(10, 256, 4);
        assert_eq!(areas.standing(2), Standing::Unknown);
        assert_eq!(areas.standing(4), Standing::Unprepared, "the next one");
        assert_eq!(areas.standing(5), Standing::Withheld, "not yet");
        assert_eq!(areas.standing(10), Standing::Withheld, "not there");
        areas.score(1, 90, false);
        areas.score(2, 256, true);
        assert_eq!(areas.standing(1), Standing::Writable);
        assert_eq!(areas.standing(2), Standing::Unprepared);
        assert!(areas.prepared(2));
        assert_eq!(areas.standing(2), Standing::Writable);
        areas.open(2);
        assert_eq!(areas.standing(2), Standing::Withheld);
    }

    #[test]
    fn ready_areas_come_first_then_the_emptiest_then_untouched_ones() {
        let mut areas = Areas::new(10, 256, 4);
        assert_eq!(
            areas.best(100),
            Some(Candidate::Unprepared(4)),
            "nothing else is known"
        );
        areas.score(1, 90, false);
        assert_eq!(
            areas.best(100),
            Some(Candidate::Unprepared(4)),
            "too full to be preferred"
        );
        assert_eq!(areas.best(80), Some(Candidate::Ready(1)));
        areas.score(2, 200, false);
        assert_eq!(areas.best(100), Some(Candidate::Ready(2)));
        areas.score(3, 256, true);
        assert_eq!(
            areas.unprepared(),
            Some(3),
            "an empty area before an untouched one"
        );
        assert!(areas.prepared(3));
        assert_eq!(areas.best(100), Some(Candidate::Ready(3)));
    }

    #[test]
    fn an_open_area_is_nobody_elses() {
        let mut areas = Areas::new(3, 256, 0);
        assert!(areas.prepared(0));
        areas.open(0);
        areas.score(0, 256, false);
        assert_eq!(areas.best(1), Some(Candidate::Unprepared(1)));
        areas.close(0);
        areas.score(0, 17, false);
        assert_eq!(areas.best(1), Some(Candidate::Ready(0)));
    }

    #[test]
    fn a_given_back_area_must_be_prepared_again() {
        let mut areas = Areas::new(3, 256, 1);
        areas.score(0, 256, false);
        assert_eq!(
            areas.ready().collect::<Vec<_>>(),
            [0],
            "it was in use, so the host has given space"
        );
        assert!(areas.give_back(0));
        assert!(!areas.give_back(0));
        assert_eq!(areas.best(1), Some(Candidate::Unprepared(0)));
    }

    #[test]
    fn on_a_full_host_every_empty_area_is_asked_for_once() {
        let mut areas = Areas::new(6, 256, 5);
        for area in [1, 3, 4] {
            areas.score(area, 256, true);
        }
        assert!(areas.refused(1), "it had been given back");
        assert_eq!(areas.best(1), Some(Candidate::Unprepared(3)));
        assert!(areas.prepared(3), "it had not");
        assert!(areas.refused(4));
        assert_eq!(areas.empty(), None);
        assert!(!areas.refused(4), "that is known");
        areas.score(4, 256, true);
        areas.score(4, 256, false);
        assert_eq!(areas.empty(), None, "seeing it again tells nothing");
        assert_eq!(areas.unprepared(), Some(1), "before an untouched one");
        assert!(!areas.refused(5), "an untouched area never had any");
        assert_eq!(areas.top(9).len(), 3);
        assert!(areas.prepared(1));
        assert_eq!(areas.ready().collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn an_area_that_is_left_out_is_never_given_out() {
        let mut areas = Areas::new(6, 256, 3);
        for area in [0, 2, 3, 4] {
            areas.leave_out(area);
        }
        assert_eq!(areas.left_out_blocks(), 512, "the two below the frontier");
        for (area, free) in [(0, 200), (1, 0), (2, 256)] {
            areas.score(area, free, true);
        }
        assert_eq!(areas.left_out_blocks(), 200, "area 2 is not in use");
        assert!(areas.top(9).is_empty() && areas.empty().is_none());
        assert_eq!(areas.best(1), Some(Candidate::Unprepared(5)));
        assert_eq!(areas.frontier(), 3, "nothing was written beyond it yet");
        assert!(!areas.prepared(3), "that one is left out");
        assert!(areas.prepared(5));
        assert_eq!(areas.frontier(), 6);
        assert_eq!(areas.unprepared(), None);
        for area in [3, 4] {
            areas.score(area, 256, true);
        }
        assert_eq!(areas.left_out_blocks(), 200);
        areas.open(5);
        assert_eq!(areas.best(1), None);
    }

    #[test]
    fn memory_is_bounded_and_the_loss_is_told() {
        let count = PARTIAL_MAX as u64 + 10;
        let mut areas = Areas::new(count, 32_768, count);
        areas.set_searched();
        for area in 0..count {
            areas.score(area, area + 1, false);
        }
        assert!(!areas.is_complete());
        assert_eq!(areas.top(1), [(count - 1, count)]);
        assert_eq!(areas.partial.len(), PARTIAL_MAX);
    }
}
