//! The gardener: which areas are emptied, which LUN is put in order, and how far that is (H-02,
//! H-05, H-15).
//!
//! ```text
//! asked for ──▶ passes areas, in order ──enough of one is free──▶ lent ──▶ emptied ──▶ closed
//!                  ▲                                                │                     │
//!                  └────────────────────────────────────────────────┴──taken back─────────┘
//! ```
//!
//! An area is *lent* to the gardener while it is emptied ([`Lent`]), so that no cursor opens it:
//! what is moved out of it is not moved into it. Areas of all columns of a parity group are lent
//! together, because they are filled together.
//!
//! 1. Whoever needs space more takes lent areas back: their free blocks count as free in all
//!    accounts of space. So the gardener asks before each step whether an area is still lent.
//! 2. All of this is in memory. After a restart nothing is lent, and nobody has asked for anything:
//!    an area is as good half-emptied as it was before.

use everglade_format::FileId;

use crate::alloc::filesystem::FileSystem;
use crate::pool::garden::{CleaningInfo, GardenInfo, GardeningState, LayoutInfo};

/// Areas that are emptied together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lent {
    /// Extent and area of each column.
    pub(crate) columns: Vec<(usize, u64)>,
    /// The column that is emptied, as an index.
    pub(crate) column: usize,
    /// The next block to look at, counted from the beginning of the area.
    pub(crate) next: u64,
}

/// What to look at next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The extent, or the first column of a parity group.
    pub(crate) extent: usize,
    pub(crate) area: u64,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Gardener {
    next: Option<Candidate>,
    /// For each extent that leads, the areas that it had when this began.
    ends: Vec<u64>,
    lent: Option<Lent>,
    layout: Option<LayoutJob>,
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
        let end = |extent| match fs.is_leader(extent) {
            true => fs.areas_in_use_of(extent),
            false => 0,
        };
        self.ends = (0..fs.areas.len()).map(end).collect();
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

    /// True if there is anything to do.
    pub(crate) fn is_busy(&self) -> bool {
        self.next.is_some() || self.lent.is_some()
    }

    /// True if a lent area should go back, emptied or not.
    pub(crate) fn is_ending(&self) -> bool {
        self.next.is_none()
    }

    /// What to look at next; `None` if all was passed.
    pub(crate) fn candidate(&self) -> Option<Candidate> {
        let mut at = self.next?;
        while let Some(end) = self.ends.get(at.extent) {
            if at.area < *end {
                return Some(at);
            }
            at = Candidate {
                extent: at.extent + 1,
                area: 0,
            };
        }
        None
    }

    /// An area was looked at.
    pub(crate) fn pass(&mut self, at: Candidate) {
        self.info.cleaning.passed_areas += 1;
        self.next = Some(Candidate {
            area: at.area + 1,
            ..at
        });
    }

    /// Everything was passed.
    pub(crate) fn end(&mut self, seconds: u64) {
        self.next = None;
        self.info.cleaning.state = GardeningState::Done;
        self.info.cleaning.ended_seconds = Some(seconds);
    }

    /// Areas are lent to it.
    pub(crate) fn lend(&mut self, columns: Vec<(usize, u64)>) {
        self.lent = Some(Lent {
            columns,
            column: 0,
            next: 0,
        });
    }

    /// The areas that are lent to it.
    pub(crate) fn lent(&self) -> Option<&Lent> {
        self.lent.as_ref()
    }

    /// A part of a lent area was emptied.
    pub(crate) fn advance(&mut self, (column, next): (usize, u64), moved: u64, left: u64) {
        self.info.moved_blocks += moved;
        self.info.cleaning.moved_blocks += moved;
        self.info.cleaning.left_blocks += left;
        if let Some(lent) = &mut self.lent {
            (lent.column, lent.next) = (column, next);
        }
    }

    /// Gives the lent areas back. With `is_clean` they count as emptied.
    pub(crate) fn give_back(&mut self, is_clean: bool) {
        self.lent = None;
        self.info.cleaned_areas += u64::from(is_clean);
        self.info.cleaning.cleaned_areas += u64::from(is_clean);
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

    /// A region of it was passed: its blocks, their runs before and after, and how many moved.
    pub(crate) fn pass_region(&mut self, blocks: u64, (before, after): (u64, u64), moved: u64) {
        let info = &mut self.info.layout;
        info.passed_regions += 1;
        info.blocks += blocks;
        info.runs_before += before;
        info.runs_after += after;
        info.moved_blocks += moved;
        self.info.moved_blocks += moved;
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

    /// Returns it for people.
    pub(crate) fn info(&self) -> &GardenInfo {
        &self.info
    }
}
