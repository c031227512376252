//! The home reactor asks the host for space before it is needed, and returns it
//! (docs/design/design.md §7, decisions 0005 and 0020).

use everglade_env::{BLOCK_SIZE, DeviceId, DiskError, Nanos, Op, Outside};
use everglade_format::Pvbn;
use everglade_freespace::{Areas, Standing};

use crate::home::aggregate::Home;
use crate::media::Place;
use crate::media::devices::Scope;
use crate::media::host::{HOST_MARGIN_BYTES, nearly_free};
use crate::reactor::Core;
use crate::reactor::loading::Inflight;

/// Time that a refusal of the host is remembered, in nanoseconds.
const REFUSAL: Nanos = 1_000_000_000;
/// Areas kept ready beyond the reserve, and in each extent where a new one is taken next.
const READY_AHEAD: u64 = 2;
/// The number of ready areas that a pool keeps while its host has plenty of space: punching an area
/// that is rewritten soon is wasted work.
const READY_MOST: u64 = 8;

impl Home {
    /// True if the space from the host is enough for the near future.
    fn has_enough(&self) -> bool {
        self.has_enough_without(0)
    }

    /// True if space would be enough with `blocks` blocks less.
    fn has_enough_without(&self, blocks: u64) -> bool {
        let space = &self.aggregate.space;
        let ahead = READY_AHEAD * self.fs.area_blocks + self.fs.area_blocks / 2;
        let ahead = ahead.max(space.wanted_beyond());
        space.free_backed()
            >= i64::try_from(space.wanted_reserve() + ahead + blocks).expect("40 bits")
    }

    /// True if a ready area should go back to the host. A host that has not plenty gets all that is
    /// not needed soon.
    fn has_too_much(&self) -> bool {
        let extents = self.fs.areas.len() as u64;
        let ready: u64 = self.fs.areas.iter().map(Areas::ready_count).sum();
        if !self.host.prefers_new() {
            return ready > READY_AHEAD * extents && self.has_enough_without(self.fs.area_blocks);
        }
        let space = &self.aggregate.space;
        let kept = (space.wanted_reserve() + space.wanted_beyond()).div_ceil(self.fs.area_blocks);
        ready > kept + READY_MOST.max(READY_AHEAD * extents)
    }

    /// The host gave space for an area, unless it was given before.
    fn note_prepared(&mut self, extent: usize, area: u64) {
        self.host.full = false;
        self.host.searched = false;
        self.aggregate.space.set_host_full(false);
        // The same area of a parity group is prepared in all of its columns.
        for column in self.fs.columns_with(extent) {
            let blocks = i64::try_from(self.fs.area_blocks).expect("40 bits");
            let areas = &mut self.fs.areas[column];
            if areas.standing(area) == Standing::Unprepared && areas.prepared(area) {
                self.aggregate.space.note_backed(blocks);
            }
        }
    }
}

impl<O: Outside> Core<O> {
    /// Returns the member and the device that have an area, and its range there in bytes.
    fn area_range(home: &Home, extent: usize, area: u64) -> ((u32, DeviceId), u64, u64) {
        let first = home.fs.bases[extent] + area * home.fs.area_blocks;
        // Number 0 has a place too, though it is never allocated.
        let Place {
            member,
            device,
            offset,
            ..
        } = home
            .aggregate
            .media
            .locate(Pvbn(first.max(1)))
            .expect("areas are in extents");
        let offset = if first == 0 {
            offset - BLOCK_SIZE as u64
        } else {
            offset
        };
        (
            (member, device),
            offset,
            home.fs.area_blocks * BLOCK_SIZE as u64,
        )
    }

    /// Returns what the hosts of a column's drives can give to each of them, in bytes: the least of
    /// them. A drive that catches up is left out: nobody waits for it.
    fn free_of_hosts(&self, home: &Home, (member, device): (u32, DeviceId)) -> Option<u64> {
        let drives = home.aggregate.media.full_of(member);
        let drives = drives.unwrap_or_else(|| vec![device]);
        let free = drives.into_iter();
        let free = free.filter_map(|drive| self.outside.host_free_bytes(drive));
        free.min()
    }

    fn ask_host(&mut self, aggregate: u32, extent: usize, area: u64, inflight: Inflight) {
        let ((member, device), offset, length) =
            Self::area_range(&self.homes[&aggregate], extent, area);
        let allocate = Op::Allocate {
            device,
            offset,
            length,
        };
        self.submit_to_column((aggregate, Scope::Rows(member)), allocate, inflight);
    }

    /// The consistency point waits for an area. If the area is requested already, it is not
    /// requested again.
    pub(super) fn want(&mut self, aggregate: u32, extent: usize, area: u64) {
        let home = self.homes.get_mut(&aggregate).expect("at home");
        if home.preparing != Some((extent, area)) {
            home.host.asked = true;
            self.ask_host(aggregate, extent, area, Inflight::Wanted { aggregate });
        }
    }

    pub(super) fn complete_wanted(&mut self, aggregate: u32, result: Result<(), DiskError>) {
        let home = self.homes.get_mut(&aggregate).expect("at home");
        let (extent, area) = home
            .host
            .wanted
            .take()
            .expect("one area is wanted at a time");
        home.host.asked = false;
        match result {
            Ok(()) => home.note_prepared(extent, area),
            // Another one may have its space already.
            Err(_) if home.fs.areas[extent].refused(area) => {}
            Err(_) => home.host.full = true,
        }
        self.wake_home(aggregate);
        self.tell_progress(aggregate);
        self.prepare(aggregate);
    }

    /// Looks at what the hosts have left.
    fn note_host(&mut self, aggregate: u32) {
        let Some(home) = self.homes.get(&aggregate) else {
            return;
        };
        let extents = 0..home.fs.areas.len();
        let giving = extents.filter(|extent| !home.fs.areas[*extent].is_shut());
        let hosts = giving.filter_map(|extent| {
            let (place, _, _) = Self::area_range(home, extent, 0);
            self.free_of_hosts(home, place)
        });
        let free = hosts.min();
        let home = self.homes.get_mut(&aggregate).expect("as above");
        let bytes = |blocks: u64| blocks * BLOCK_SIZE as u64;
        let total = home.aggregate.space.total();
        let area_blocks = home.fs.area_blocks;
        home.host.note_free(free, bytes(area_blocks), bytes(total));
    }

    /// Asks for the space of one more area if there are too few ready.
    pub(super) fn prepare(&mut self, aggregate: u32) {
        let now = self.outside.now();
        self.note_host(aggregate);
        let Some(home) = self.homes.get_mut(&aggregate) else {
            return;
        };
        if home.preparing.is_some() || home.aggregate.is_halted() {
            return;
        }
        let is_enough = home.has_enough();
        // The host refused a moment ago, so only space that it provided before is available.
        let is_refusing = now < home.prepare_after;
        let space = &home.aggregate.space;
        // The reserve may have all the host has; the margin is for what goes beyond it.
        let is_reserve =
            space.free_backed() < i64::try_from(space.wanted_reserve()).expect("40 bits");
        // Space may be enough in total, but not for the area that is taken next.
        let nearly_free = nearly_free(home.fs.area_blocks);
        let is_new_next = |areas: &Areas| {
            let has_next = areas.ready_count() >= READY_AHEAD || areas.has_partial(nearly_free);
            home.host.has_plenty && !has_next
        };
        // The extent with the fewest ready areas: drives advance equally.
        let candidates = home.fs.areas.iter().enumerate();
        let choice = candidates
            .filter(|(_, areas)| !is_enough || is_new_next(areas))
            .filter_map(|(extent, areas)| {
                let area = match is_refusing {
                    true => areas.empty()?,
                    false => areas.unprepared()?,
                };
                Some((areas.ready_count(), extent, area))
            })
            .min();
        let Some((_, extent, area)) = choice else {
            if is_enough {
                return;
            }
            // A search since the last area that got its space found nothing to ask for, or what it
            // found was refused. It may have seen more areas than are remembered, so it does not
            // always make all of them known.
            let is_known = home.fs.areas.iter().all(Areas::is_complete);
            if is_known || home.host.searched {
                // Operations do not wait for this area.
                return self.note_refusal(aggregate);
            }
            // Areas that were not seen since start may be empty: the next consistency point
            // searches them.
            if !home.search_wanted {
                home.search_wanted = true;
                home.host.refuses = is_refusing;
                home.aggregate.want_cp(home.aggregate.joining());
                self.wake_home(aggregate);
            }
            return;
        };
        let (place, _, length) = Self::area_range(home, extent, area);
        let free = self.free_of_hosts(&self.homes[&aggregate], place);
        let home = self.homes.get_mut(&aggregate).expect("as above");
        let is_short = free.is_some_and(|free| free < length + HOST_MARGIN_BYTES.min(length));
        // An empty area may have its space, which costs the host nothing.
        let is_empty = home.fs.areas[extent].empty() == Some(area);
        if is_short && !is_reserve && !is_empty {
            home.prepare_after = now + REFUSAL;
            return self.prepare(aggregate);
        }
        if home.host.wanted == Some((extent, area)) {
            return;
        }
        home.preparing = Some((extent, area));
        self.ask_host(aggregate, extent, area, Inflight::Prepare { aggregate });
    }

    /// Records that the host has no space left. Operations that wait for space are woken once; if
    /// there is enough space, none waits.
    fn note_refusal(&mut self, aggregate: u32) {
        let home = &self.homes[&aggregate];
        if !home.has_enough() && home.aggregate.space.set_host_full(true) {
            self.tell_progress(aggregate);
        }
    }

    pub(super) fn complete_prepare(&mut self, aggregate: u32, result: Result<(), DiskError>) {
        let now = self.outside.now();
        let home = self.homes.get_mut(&aggregate).expect("at home");
        let (extent, area) = home
            .preparing
            .take()
            .expect("one area is prepared at a time");
        // A refusal means that the host is full, unless the area may have had its space already.
        let mut is_full = false;
        match result {
            Ok(()) => home.note_prepared(extent, area),
            Err(_) if home.fs.areas[extent].refused(area) => {}
            Err(_) => {
                is_full = true;
                home.prepare_after = now + REFUSAL;
            }
        }
        if home.host.wanted == Some((extent, area)) {
            home.host.wanted = None;
            home.host.full |= is_full;
            self.wake_home(aggregate);
        }
        self.tell_progress(aggregate);
        self.prepare(aggregate);
    }

    /// Gives an area back to the host if it is not needed soon. Only areas that are free in the
    /// committed maps are ready, and cursors do not open one whose punch is under way.
    pub(super) fn punch(&mut self, aggregate: u32) {
        self.note_host(aggregate);
        let home = self.homes.get_mut(&aggregate).expect("at home");
        let area_blocks = home.fs.area_blocks;
        if home.punching.is_some()
            || home.preparing.is_some()
            || home.aggregate.is_halted()
            || !home.has_too_much()
        {
            return;
        }
        let choice = home.fs.areas.iter().enumerate();
        // Without its blocks in one column, the parity of a stripe would be wrong.
        let choice = choice.filter(|(extent, _)| home.fs.rows[*extent].is_none());
        let choice = choice.filter_map(|(extent, areas)| {
            Some((areas.ready_count(), extent, areas.ready().next_back()?))
        });
        let Some((_, extent, area)) = choice.max() else {
            return;
        };
        let (place, offset, length) = Self::area_range(home, extent, area);
        let (member, device) = place;
        if self.free_of_hosts(&self.homes[&aggregate], place).is_none() {
            return;
        }
        let home = self.homes.get_mut(&aggregate).expect("as above");
        home.fs.areas[extent].open(area);
        home.punching = Some((extent, area));
        home.aggregate
            .space
            .note_backed(-i64::try_from(area_blocks).expect("40 bits"));
        let punch = Op::Punch {
            device,
            offset,
            length,
        };
        let scope = Scope::Column(member);
        self.submit_to_column((aggregate, scope), punch, Inflight::Punch { aggregate });
    }

    /// Returns space that the aggregates of this home reactor do not need soon, to hosts that are
    /// short of space. Consistency points do so, too; this is for a host that other programs fill
    /// while nothing is written here.
    pub fn give_back(&mut self) {
        let idle = |home: &&Home| home.run.is_none() && home.aggregate.is_online();
        let idle = self.homes.values().filter(idle);
        let idle: Vec<u32> = idle.map(|home| home.aggregate.id).collect();
        for aggregate in idle {
            self.punch(aggregate);
        }
    }

    pub(super) fn complete_punch(&mut self, aggregate: u32) {
        let home = self.homes.get_mut(&aggregate).expect("at home");
        let (extent, area) = home.punching.take().expect("one area is punched at a time");
        home.fs.areas[extent].close(area);
        home.fs.areas[extent].score(area, home.fs.area_blocks, true);
        // The host has its space back, as if it had refused it.
        home.fs.areas[extent].refused(area);
        if home.run.is_none() {
            self.punch(aggregate);
        }
    }
}
