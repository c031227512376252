//! The gardener: which areas are emptied, which LUN is put in order, and how far that is (H-02,
//! H-05, H-15).
//!
//! ```text
//! asked for ──▶ passes areas, in order ──enough of one is free──▶ lent ──▶ emptied ──▶ closed
//!                  ▲                                                │                     │
//!                  └────────────────────────────────────────────────┴──taken back─────────┘
//! ```
//!
//! After growth, a *rebalance* empties areas of devices that are fuller than the others
//! ([`super::rebalance`]).
//!
//! An area is *lent* to the gardener while it is emptied ([`Lent`]), so that no cursor opens it:
//! what is moved out of it is not moved into it. Areas of all columns of a parity group are lent
//! together, because they are filled together.
//!
//! A scan that somebody asked for passes all areas (H-05). In parity groups, areas are also emptied
//! on demand: when a group has few areas left that are free as a whole, the emptiest ones are
//! emptied (H-06, H-07). So writes go on in whole stripes, and so do the moved blocks. As each area
//! that is filled makes room for the next demand, the rate of cleaning follows that of writing.
//! Alone and mirrored drives write a block of any stripe at the same cost, so nothing is emptied
//! there unless somebody asks (H-09).
//!
//! An area that was emptied goes back in the next consistency point, because blocks of the
//! aggregate's files leave their places at the end of one. On demand, the next area is emptied
//! meanwhile.
//!
//! Beside clients all of this rests after each consistency point that has moved something, demands
//! apart, several times as long as that took, and longer when reads of clients become slow
//! ([`crate::media::pace`]).
//!
//! 1. Whoever needs space more takes lent areas back: their free blocks count as free in all
//!    accounts of space. So the gardener asks before each step whether an area is still lent.
//! 2. An area that could not be emptied on demand is not tried again while it is the emptiest one
//!    of its group. So a demand that cannot be met ends.
//! 3. All of this is in memory. After a restart nothing is lent, and nobody has asked for anything:
//!    an area is as good half-emptied as it was before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everglade_env::Nanos;
use everglade_format::{CpNumber, FileId};

use crate::alloc::filesystem::FileSystem;
use crate::home::candidate::Candidate;
use crate::home::rebalance::Rebalance;
use crate::home::space_map::{Bits, SpaceCount};
use crate::pool::garden::{
    CleaningInfo, GardenInfo, GardeningState, LayoutInfo, RebalanceInfo, SpaceMapInfo,
};

/// An area is emptied on demand if at least this part of it is free: an eighth.
const DEMAND_PART: u64 = 8;
/// Blocks that a parity group has in areas that are free as a whole, beside the open ones; fewer
/// are a demand. 256 MiB: what one consistency point writes, and what is moved in it.
const AHEAD_BLOCKS: u64 = 65_536;
/// A small group needs less: this part of its blocks, a 32nd.
const AHEAD_PART: u64 = 32;
/// After so many regions in a row that were put in order in vain, write after read pauses.
const VAIN_REGIONS: u32 = 64;

/// Areas that are emptied together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lent {
    /// Extent and area of each column.
    pub(crate) columns: Vec<(usize, u64)>,
    /// The column that is emptied, as an index.
    pub(crate) column: usize,
    /// The next block to look at, counted from the beginning of the area.
    pub(crate) next: u64,
    pub(crate) reason: Reason,
    /// The last consistency point that moved something out of it.
    pub(crate) moved_in: Option<CpNumber>,
}

impl Lent {
    /// True if all columns were emptied.
    pub(crate) fn is_passed(&self) -> bool {
        self.column >= self.columns.len()
    }
}

/// Why areas are lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A scan found that enough of it is free.
    Scan,
    /// A parity group needs a whole area.
    Demand(Candidate),
    /// Its device is fuller than others.
    Balance,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Gardener {
    next: Option<Candidate>,
    /// For each extent that leads, the areas that it had when this began.
    ends: Vec<u64>,
    lent: Option<Lent>,
    /// Lent areas that have been passed. They go back in a consistency point that has moved nothing
    /// out of them.
    emptied: Vec<Lent>,
    rebalance: Option<Rebalance>,
    /// For each group, the area that was last tried on demand, in vain.
    in_vain: BTreeMap<usize, u64>,
    layout: Option<LayoutJob>,
    space_map: Option<SpaceCount>,
    /// Regions in a row that did not lie better after they were put in order because they were
    /// read.
    vain_regions: u32,
    /// When it began to move blocks in the consistency point under way, demands apart.
    bite_begun: Option<Nanos>,
    /// It moves nothing before, demands apart.
    rests_until: Nanos,
    info: GardenInfo,
}

/// A LUN that is put in order ([`crate::background::layout`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayoutJob {
    pub(crate) volume: FileId,
    pub(crate) lun: FileId,
    /// The next region: level-1 block.
    pub(crate) next: u64,
    /// Runs are counted, and nothing is moved.
    pub(crate) is_estimate: bool,
}

impl Gardener {
    /// Begins to pass all areas; one under way goes on with another limit.
    pub(crate) fn start(&mut self, fs: &FileSystem, least_free_percent: u8, seconds: u64) {
        if self.info.cleaning.state == GardeningState::Running {
            self.info.cleaning.least_free_percent = least_free_percent;
            return;
        }
        self.ends = fs.areas_to_pass();
        self.info.cleaning = CleaningInfo {
            state: GardeningState::Running,
            least_free_percent,
            total_areas: self.ends.iter().sum(),
            begun_seconds: seconds,
            ..CleaningInfo::default()
        };
        self.next = Some(Candidate { extent: 0, area: 0 });
    }

    /// Ends it early. A lent area goes back with the next step.
    pub(crate) fn stop(&mut self, seconds: u64) {
        if self.info.cleaning.state == GardeningState::Running {
            self.info.cleaning.state = GardeningState::Stopped;
            self.info.cleaning.ended_seconds = Some(seconds);
            self.next = None;
        }
    }

    /// True if there is anything to do, demands apart.
    pub(crate) fn is_busy(&self) -> bool {
        let has_areas = self.lent.is_some() || !self.emptied.is_empty();
        self.next.is_some() || has_areas || self.rebalance.is_some()
    }

    /// Returns lent areas that go back in a consistency point, or in the next one: their reason is
    /// gone, or they have been passed in another one. To be confirmed by [`Gardener::give_back`].
    pub(crate) fn to_give_back(&self, cp: Option<CpNumber>) -> Option<&Lent> {
        let is_wanted = |lent: &&Lent| match lent.reason {
            Reason::Scan => self.next.is_some(),
            Reason::Demand(_) => true,
            Reason::Balance => self.rebalance.is_some(),
        };
        let unwanted = self.lent.iter().find(|lent| !is_wanted(lent));
        let mut emptied = self.emptied.iter();
        unwanted.or_else(|| emptied.find(|lent| cp.is_none() || lent.moved_in != cp))
    }

    /// True if lent areas have been passed and have not gone back.
    pub(crate) fn has_emptied(&self) -> bool {
        !self.emptied.is_empty()
    }

    /// Returns the area to empty before the next one is needed, if a parity group has few that are
    /// free as a whole, and this one is worth it. A host that is full gives nothing more.
    pub(crate) fn demand(&self, fs: &FileSystem, is_host_full: bool) -> Option<Candidate> {
        let groups = (0..fs.areas.len()).filter(|extent| fs.rows[*extent] == Some(*extent));
        let mut wanting = groups.filter_map(|extent| {
            let areas = &fs.areas[extent];
            let area = areas.best_partial()?;
            let is_worth_it = areas.has_partial(fs.area_blocks / DEMAND_PART);
            let is_wanted = is_worth_it && !self.has_ahead(fs, extent, is_host_full);
            is_wanted.then_some(Candidate { extent, area })
        });
        wanting.find(|it| self.in_vain.get(&it.extent) != Some(&it.area))
    }

    /// True if a parity group has enough areas that are free as a whole, or about to be.
    fn has_ahead(&self, fs: &FileSystem, group: usize, is_host_full: bool) -> bool {
        let areas = &fs.areas[group];
        let next = match is_host_full {
            true => areas.empty(),
            false => areas.unprepared(),
        };
        if next.is_some() {
            return true;
        }
        let row_blocks = fs.columns_with(group).len() as u64 * fs.area_blocks;
        let least = AHEAD_BLOCKS.min(areas.count() * row_blocks / AHEAD_PART);
        let is_of_group = |lent: &&Lent| lent.columns.iter().any(|(extent, _)| *extent == group);
        let emptied = self.emptied.iter().filter(is_of_group).count() as u64;
        (areas.ready_count() + emptied) * row_blocks >= least
    }

    /// True if areas are emptied on demand at present: then clients need them, and write on.
    pub(crate) fn is_demanded(&self) -> bool {
        let lent = self.lent.as_ref();
        lent.is_some_and(|lent| matches!(lent.reason, Reason::Demand(_)))
    }

    /// An area that was wanted on demand cannot be lent.
    pub(crate) fn give_up(&mut self, candidate: Candidate) {
        self.in_vain.insert(candidate.extent, candidate.area);
    }

    /// What to look at next; `None` if all was passed.
    pub(crate) fn candidate(&self) -> Option<Candidate> {
        self.next?.within(&self.ends)
    }

    /// An area was looked at.
    pub(crate) fn pass(&mut self, at: Candidate) {
        self.info.cleaning.passed_areas += 1;
        self.next = Some(at.next());
    }

    /// Everything was passed.
    pub(crate) fn end(&mut self, seconds: u64) {
        self.next = None;
        self.info.cleaning.state = GardeningState::Done;
        self.info.cleaning.ended_seconds = Some(seconds);
    }

    /// Areas are lent to it.
    pub(crate) fn lend(&mut self, columns: Vec<(usize, u64)>, reason: Reason) {
        self.lent = Some(Lent {
            columns,
            column: 0,
            next: 0,
            reason,
            moved_in: None,
        });
    }

    /// The areas that are lent to it.
    pub(crate) fn lent(&self) -> Option<&Lent> {
        self.lent.as_ref()
    }

    /// A part of a lent area was emptied, in this consistency point. After the last part, the next
    /// area may be lent.
    pub(crate) fn advance(
        &mut self,
        (column, next): (usize, u64),
        (moved, left): (u64, u64),
        cp: CpNumber,
    ) {
        self.info.moved_blocks += moved;
        let Some(lent) = &self.lent else {
            return;
        };
        let mut is_enough = false;
        match lent.reason {
            Reason::Scan => {
                self.info.cleaning.moved_blocks += moved;
                self.info.cleaning.left_blocks += left;
            }
            Reason::Balance => {
                self.info.rebalance.moved_blocks += moved;
                self.info.rebalance.left_blocks += left;
                let from = lent.columns[0].0;
                let rebalance = self.rebalance.as_mut();
                is_enough = rebalance.is_some_and(|it| it.moved(from, moved));
            }
            Reason::Demand(_) => {}
        }
        if let Some(lent) = &mut self.lent {
            (lent.column, lent.next) = match is_enough {
                true => (lent.columns.len(), 0),
                false => (column, next),
            };
            if moved > 0 {
                lent.moved_in = Some(cp);
            }
        }
        self.emptied.extend(self.lent.take_if(|it| it.is_passed()));
    }

    /// Records that lent areas went back. With `is_clean`, nothing was left in any of them.
    pub(crate) fn give_back(&mut self, lent: &Lent, is_clean: bool) {
        self.emptied.retain(|other| other != lent);
        self.lent.take_if(|other| other == lent);
        self.info.cleaned_areas += u64::from(is_clean);
        match lent.reason {
            // The area with block 0, which is never allocated, never counts as free as a whole.
            Reason::Demand(candidate) if !is_clean || lent.moved_in.is_none() => {
                self.give_up(candidate);
            }
            Reason::Scan => self.info.cleaning.cleaned_areas += u64::from(is_clean),
            Reason::Demand(_) | Reason::Balance => {}
        }
    }

    /// Begins a rebalance.
    pub(crate) fn start_rebalance(&mut self, rebalance: Rebalance, seconds: u64) {
        self.info.rebalance = RebalanceInfo {
            state: GardeningState::Running,
            total_areas: rebalance.area_count(),
            begun_seconds: seconds,
            ..RebalanceInfo::default()
        };
        self.rebalance = Some(rebalance);
    }

    /// True while there is a rebalance.
    pub(crate) fn rebalances(&self) -> bool {
        self.rebalance.is_some()
    }

    /// True if areas are surveyed next, which takes no space.
    pub(crate) fn is_surveying(&self) -> bool {
        self.lent.is_none() && self.emptied.is_empty() && self.to_survey().is_some()
    }

    /// The area that a rebalance surveys next; `None` if it knows all.
    pub(crate) fn to_survey(&self) -> Option<Candidate> {
        self.rebalance.as_ref()?.to_survey()
    }

    /// A rebalance has looked at an area: so many of its blocks are in use. After the last area,
    /// this returns the extents that are crowded.
    pub(crate) fn surveyed(&mut self, at: Candidate, used: u64) -> Option<BTreeSet<usize>> {
        let rebalance = self.rebalance.as_mut()?;
        rebalance.surveyed(at, used);
        let info = &mut self.info.rebalance;
        info.surveyed_areas += 1;
        if rebalance.to_survey().is_some() {
            return None;
        }
        let found = rebalance.plan();
        info.total_blocks = found.blocks;
        info.fullest_percent = found.fullest_percent;
        info.emptiest_percent = found.emptiest_percent;
        Some(rebalance.crowded())
    }

    /// Returns the area that a rebalance empties next; `None` if no unit has more than its share,
    /// or no area is left to try.
    pub(crate) fn next_crowded(&mut self) -> Option<Candidate> {
        self.rebalance.as_mut()?.next()
    }

    /// Ends a rebalance, if there is one. A lent area goes back with the next step.
    pub(crate) fn end_rebalance(&mut self, state: GardeningState, seconds: u64) {
        if self.rebalance.take().is_some() {
            self.info.rebalance.state = state;
            self.info.rebalance.ended_seconds = Some(seconds);
        }
    }

    /// Begins to put a LUN in order.
    pub(crate) fn start_layout(&mut self, job: LayoutJob, info: LayoutInfo) {
        self.layout = Some(job);
        self.info.layout = info;
    }

    /// The LUN that is put in order.
    pub(crate) fn layout(&self) -> Option<&LayoutJob> {
        self.layout.as_ref()
    }

    /// A region of an estimate is about to be passed: its blocks and runs, and where the first
    /// block is.
    pub(crate) fn note_part(&mut self, blocks: u64, runs: u64, first: Option<(u32, u64)>) {
        let info = &mut self.info.layout;
        let Some(at) = info.passed_regions.checked_div(info.part_regions) else {
            return;
        };
        let at = usize::try_from(at).expect("a few parts");
        if let Some(part) = info.parts.get_mut(at) {
            part.blocks += blocks;
            part.runs += runs;
            part.first = part.first.or(first);
        }
    }

    /// So many pointers of a region named former places.
    pub(crate) fn note_stale(&mut self, stale: u64) {
        self.info.layout.stale_pointers += stale;
    }

    /// A region of it was passed: its blocks, their runs before and after, and how many moved.
    pub(crate) fn pass_region(&mut self, blocks: u64, (before, after): (u64, u64), moved: u64) {
        let info = &mut self.info.layout;
        info.passed_regions += 1;
        info.blocks += blocks;
        info.runs_before += before;
        info.runs_after += after;
        info.moved_blocks += moved;
        if let Some(job) = &mut self.layout {
            job.next += 1;
        }
    }

    /// Ends the layout of a LUN, if one is put in order.
    pub(crate) fn end_layout(&mut self, state: GardeningState, seconds: u64) {
        if self.layout.take().is_some() {
            self.info.layout.state = state;
            self.info.layout.ended_seconds = Some(seconds);
        }
    }

    /// Begins a space map.
    pub(crate) fn start_space_map(&mut self, count: SpaceCount, seconds: u64) {
        self.info.space_map = SpaceMapInfo {
            state: GardeningState::Running,
            counted_areas: 0,
            total_areas: count.area_count(),
            begun_seconds: seconds,
            last: self.info.space_map.last.take(),
        };
        self.space_map = Some(count);
        self.finish_space_map(seconds);
    }

    /// The area that the space map counts next; `None` without one under way.
    pub(crate) fn to_count(&self) -> Option<Candidate> {
        self.space_map.as_ref()?.to_count()
    }

    /// The space map gets what the active map says of an area, for each column.
    pub(crate) fn counted(&mut self, at: Candidate, columns: &[(usize, Bits)], seconds: u64) {
        if let Some(count) = &mut self.space_map {
            count.counted(at, columns);
            self.info.space_map.counted_areas += 1;
            self.finish_space_map(seconds);
        }
    }

    /// Ends the space map if all was counted.
    fn finish_space_map(&mut self, seconds: u64) {
        if let Some(count) = self.space_map.take_if(|it| it.to_count().is_none()) {
            let info = &mut self.info.space_map;
            info.state = GardeningState::Done;
            info.last = Some(Arc::new(count.finish(seconds)));
        }
    }

    /// Stops the space map that is being made, if there is one. The last finished map stays.
    pub(crate) fn stop_space_map(&mut self) {
        if self.space_map.take().is_some() {
            self.info.space_map.state = GardeningState::Stopped;
        }
    }

    /// A region was put in order because it was read in order: its blocks, their runs before and
    /// after, and how many moved. Returns true if that does not help at present.
    pub(crate) fn note_after_read(
        &mut self,
        blocks: u64,
        (before, after): (u64, u64),
        moved: u64,
    ) -> bool {
        let info = &mut self.info.after_read;
        info.regions += 1;
        info.blocks += blocks;
        info.runs_before += before;
        info.runs_after += after;
        info.moved_blocks += moved;
        self.vain_regions = match after * 2 > before {
            true => self.vain_regions + 1,
            false => 0,
        };
        let is_vain = self.vain_regions >= VAIN_REGIONS;
        if is_vain {
            self.vain_regions = 0;
        }
        is_vain
    }

    /// Blocks were moved.
    pub(crate) fn count_moved(&mut self, moved: u64) {
        self.info.moved_blocks += moved;
    }

    /// It has begun to move blocks in the consistency point under way. True if this is new.
    pub(crate) fn begin_bite(&mut self, now: Nanos) -> bool {
        let is_new = self.bite_begun.is_none();
        self.bite_begun.get_or_insert(now);
        is_new
    }

    /// The consistency point is over. Returns how long it took since blocks were moved, if any
    /// were.
    pub(crate) fn end_bite(&mut self, now: Nanos) -> Option<Nanos> {
        let begun = self.bite_begun.take()?;
        Some(now.saturating_sub(begun))
    }

    /// It moves nothing before this time.
    pub(crate) fn rest_until(&mut self, until: Nanos) {
        self.rests_until = until;
    }

    /// See [`Gardener::rest_until`].
    pub(crate) fn rests_until(&self) -> Nanos {
        self.rests_until
    }

    /// Returns it for people.
    pub(crate) fn info(&self) -> &GardenInfo {
        &self.info
    }
}
