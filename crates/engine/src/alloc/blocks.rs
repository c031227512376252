//! Taking and freeing blocks in both layers (D-21, E-01, G-01, O-07).
//!
//! Each operation has a load phase (`ensure_*`, `prepare_free_*`), which may stop and can be run
//! again, and a modify phase (`take_*`, `free_*`), which cannot fail.

use everglade_env::Page;
use everglade_format::context::{self, CONTEXTS_PER_BLOCK};
use everglade_format::metafile::{ACTIVE_MAP, CONTEXT_MAP};
use everglade_format::{
    BITS_PER_BLOCK, Block, Context, FileId, Indirect, Layer, Owner, Pointer, Pvbn, SPAN, Tag, Vvbn,
    bitmap,
};
use everglade_freespace::{Areas, Candidate};
use everglade_target::Error;

use crate::alloc::cursor::{OpenArea, ROW_CHUNK_BLOCKS, chunk_end};
use crate::alloc::filesystem::FileSystem;
use crate::holders::fold;
use crate::holders::held::Freed;
use crate::holders::history::Node;
use crate::holders::images::Images;
use crate::media::host::Host;
use crate::read::load::{Gather, LoadCx, Stop, layer_name};
use crate::tree::Content;

/// The purpose of a block: data and metadata go to different areas, so that frees of one leave no
/// holes in the other and metadata finds its areas whole (docs/design/design.md §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Data,
    Metadata,
}

/// Chunks whose describing blocks are read in one go with one that is needed.
const CHUNKS_AHEAD: usize = 16;
/// Map blocks read in one step when areas are searched.
const SCAN_BLOCKS: u64 = 64;

impl FileSystem {
    /// Makes at least `count` numbers ready to take. `below` is the aggregate that a volume is in.
    pub(crate) fn ensure(
        &mut self,
        mut below: Option<&mut FileSystem>,
        cx: &mut LoadCx<'_>,
        host: &mut Host,
        purpose: Purpose,
        count: usize,
    ) -> Result<(), Stop> {
        while self.cursor(purpose).stock.len() < count {
            self.fill(below.as_deref_mut(), cx, host, purpose)?;
        }
        Ok(())
    }

    pub(super) fn cursor(&mut self, purpose: Purpose) -> &mut super::Cursor {
        match purpose {
            Purpose::Data => &mut self.data,
            Purpose::Metadata => &mut self.meta,
        }
    }

    /// Adds one chunk to the stock.
    fn fill(
        &mut self,
        mut below: Option<&mut FileSystem>,
        cx: &mut LoadCx<'_>,
        host: &mut Host,
        purpose: Purpose,
    ) -> Result<(), Stop> {
        let extents = self.areas.len();
        let turn = self.cursor(purpose).turn;
        // Twice as many if some are crowded: these come last.
        let rounds = 1 + usize::from(!self.crowded.is_empty());
        for step in 0..extents * rounds {
            let mut extent = (turn + step) % extents;
            if self.crowded.contains(&extent) != (step >= extents) {
                continue;
            }
            if let Some(group) = self.rows[extent] {
                match self.lowest_in_rows(group, purpose) {
                    Some(lowest) => extent = lowest,
                    None if self.open_rows(cx, host, purpose, extent)? => {}
                    None => continue,
                }
            } else if self.cursor(purpose).open[extent].is_none()
                && !self.open_area(below.as_deref_mut(), cx, host, purpose, extent)?
            {
                continue;
            }
            let area = self.cursor(purpose).open[extent].expect("opened above");
            self.fill_from(below, cx, purpose, area)?;
            self.cursor(purpose).turn = (extent + 1) % extents;
            return Ok(());
        }
        let is_aggregate = self.layer == Layer::Aggregate;
        if is_aggregate
            && (self.take_lent(purpose) || self.take_over(purpose) || self.reopen(purpose))
        {
            return Ok(());
        }
        Err(Stop::Failed(Error::NoSpace))
    }

    /// Takes an open area from the other cursor, because the file system is close to full. True if
    /// the other cursor had one to take.
    fn take_over(&mut self, purpose: Purpose) -> bool {
        let (own, other) = match purpose {
            Purpose::Data => (&mut self.data, &mut self.meta),
            Purpose::Metadata => (&mut self.meta, &mut self.data),
        };
        for (own, other) in own.open.iter_mut().zip(&mut other.open) {
            if own.is_none() && other.is_some() {
                *own = other.take();
                return true;
            }
        }
        false
    }

    /// Reopens areas that were used up: blocks may have been freed behind their cursor in earlier
    /// consistency points. Each area is searched once more. Returns true if an area was reopened.
    fn reopen(&mut self, purpose: Purpose) -> bool {
        let used_up = self
            .data
            .exhausted
            .iter()
            .chain(&self.meta.exhausted)
            .copied();
        let Some((extent, area)) = used_up
            .filter(|area| !self.reopened.contains(area))
            .find(|(extent, _)| self.cursor_of(purpose).open[*extent].is_none())
        else {
            return false;
        };
        self.reopened.insert((extent, area));
        for cursor in [&mut self.data, &mut self.meta] {
            cursor.exhausted.retain(|known| *known != (extent, area));
        }
        self.begin_area(purpose, extent, area);
        true
    }

    /// Starts a cursor at the beginning of an area.
    pub(super) fn begin_area(&mut self, purpose: Purpose, extent: usize, area: u64) {
        let start = self.first_of((extent, area));
        let open = OpenArea {
            extent,
            area,
            next: start,
            end: start + self.area_blocks,
        };
        self.cursor(purpose).open[extent] = Some(open);
    }

    pub(super) fn cursor_of(&self, purpose: Purpose) -> &super::Cursor {
        match purpose {
            Purpose::Data => &self.data,
            Purpose::Metadata => &self.meta,
        }
    }

    /// Takes the next chunk of an open area into stock, or finds it used up.
    fn fill_from(
        &mut self,
        mut below: Option<&mut FileSystem>,
        cx: &mut LoadCx<'_>,
        purpose: Purpose,
        area: OpenArea,
    ) -> Result<(), Stop> {
        let volume = self.layer == Layer::Volume;
        self.map().grow((area.end - 1) / BITS_PER_BLOCK + 1);
        let start = area.next;
        // Also for an area without free blocks: an area is scored when its map block is sealed.
        let block = start.min(area.end - 1) / BITS_PER_BLOCK;
        self.prepare_map(below.as_deref_mut(), cx, block)?;
        let found = (start < area.end)
            .then(|| self.first_free(start, area.end))
            .flatten();
        let Some(first) = found else {
            let cursor = self.cursor(purpose);
            cursor.open[area.extent] = None;
            cursor.exhausted.push((area.extent, area.area));
            return Ok(());
        };
        let mut end = chunk_end(first, volume).min(area.end);
        if self.rows[area.extent].is_some() {
            end = end.min((first / ROW_CHUNK_BLOCKS + 1) * ROW_CHUNK_BLOCKS);
        }
        self.prepare_chunk(below, cx, first, area.end)?;
        let mut next = first;
        let mut found = Vec::new();
        while next < end
            && let Some(number) = self.first_free(next, end)
        {
            // Number 0 stands for a hole; a volume's superblock is in use from the start. A
            // reopened area may have numbers that are in stock already.
            let again = self.reopened.contains(&(area.extent, area.area));
            let in_stock =
                || self.data.stock.contains(&number) || self.meta.stock.contains(&number);
            if number != 0 && !(again && in_stock()) {
                found.push(number);
            }
            next = number + 1;
        }
        let cursor = self.cursor(purpose);
        cursor.stock.extend(found);
        cursor.open[area.extent] = Some(OpenArea { next: end, ..area });
        Ok(())
    }

    /// Makes the block that describes the chunk of `first` a changed block. If it has to be read,
    /// the blocks for the next chunks of the area are read with it, in one go.
    fn prepare_chunk(
        &mut self,
        mut below: Option<&mut FileSystem>,
        cx: &mut LoadCx<'_>,
        first: u64,
        area_end: u64,
    ) -> Result<(), Stop> {
        let (file, level, unit) = match &self.container {
            Some(container) => (*container, 1, SPAN),
            None => (CONTEXT_MAP, 0, CONTEXTS_PER_BLOCK),
        };
        let block = first / unit;
        let owner = below.as_deref_mut().unwrap_or(self);
        let described = owner.file(file);
        described.grow(match level {
            0 => area_end.div_ceil(unit),
            _ => area_end,
        });
        let outcome = described
            .modify(cx, level, block, Content::Keep)
            .map(|_| ());
        if matches!(outcome, Err(Stop::Load)) {
            // Free numbers are known only in the current map block.
            let end = area_end.min((first / BITS_PER_BLOCK + 1) * BITS_PER_BLOCK);
            let ahead = (block + 1..end.div_ceil(unit)).take(CHUNKS_AHEAD);
            let ahead = ahead.filter(|next| {
                let chunk_end = end.min((next + 1) * unit);
                self.first_free(next * unit, chunk_end).is_some()
            });
            let ahead: Vec<u64> = ahead.collect();
            let owner = below.unwrap_or(self);
            owner.file(file).want_ahead(cx, level, ahead);
        }
        outcome
    }

    /// Returns the first number in `from..to` that neither the active image nor a snapshot holds.
    /// The range lies in one prepared map block.
    fn first_free(&self, mut from: u64, to: u64) -> Option<u64> {
        let map = self
            .files
            .get(&ACTIVE_MAP)
            .expect("every file system has it");
        let block = from / BITS_PER_BLOCK;
        let held = self.snapshots.held.get(&block);
        assert!(
            held.is_some() || !self.snapshots.any(),
            "map block {block} was not prepared"
        );
        while from < to {
            let number = self.safe.first_free(map, from, to)?;
            let Some(held) = held else {
                return Some(number);
            };
            let base = block * BITS_PER_BLOCK;
            let free = bitmap::first_clear(&held.summary, number - base, to - base)? + base;
            if free == number {
                return Some(number);
            }
            from = free;
        }
        None
    }

    /// Returns the remaining stock after the consistency point has placed all blocks; used-up areas
    /// may be scored again.
    pub(crate) fn put_back(&mut self) {
        for purpose in [Purpose::Data, Purpose::Metadata] {
            let area_blocks = self.area_blocks;
            for (extent, area) in self.cursor(purpose).put_back(area_blocks) {
                self.areas[extent].close(area);
            }
        }
        self.reopened.clear();
    }

    /// Opens the best area of an extent. False if the extent has none.
    fn open_area(
        &mut self,
        below: Option<&mut FileSystem>,
        cx: &mut LoadCx<'_>,
        host: &mut Host,
        purpose: Purpose,
        extent: usize,
    ) -> Result<bool, Stop> {
        let Some(area) = self.choose_area(below, cx, host, extent)? else {
            return Ok(false);
        };
        self.areas[extent].open(area);
        self.begin_area(purpose, extent, area);
        Ok(true)
    }

    /// Returns the best area of an extent; `None` if it has none. Stops if the area's space has to
    /// be asked for.
    pub(super) fn choose_area(
        &mut self,
        mut below: Option<&mut FileSystem>,
        cx: &mut LoadCx<'_>,
        host: &mut Host,
        extent: usize,
    ) -> Result<Option<u64>, Stop> {
        if self.layer == Layer::Volume && self.areas[extent].unprepared().is_none() {
            // Virtual space costs nothing: there is always one more area.
            let count = self.areas[extent].count() + 1;
            if (count + 1) * self.area_blocks >= everglade_format::number::NUMBER_END {
                return Err(Stop::Failed(Error::NoSpace));
            }
            self.areas[extent].grow(count);
        }
        let (least, prefers_new) = match self.layer {
            Layer::Volume => (self.area_blocks / 2, false),
            Layer::Aggregate => (host.least_free(self.area_blocks), host.prefers_new()),
        };
        while !self.areas[extent].is_complete() {
            let areas = &self.areas[extent];
            let is_good = areas.ready_count() > 0 || areas.has_partial(least);
            // Hardly anything that a search could find is better than a new area.
            if is_good || prefers_new && areas.unprepared().is_some() {
                break;
            }
            if self.scan(below.as_deref_mut(), cx, extent)? {
                break;
            }
        }
        let area = match self.areas[extent].best(least) {
            Some(Candidate::Ready(area)) => area,
            Some(Candidate::Unprepared(area)) if self.layer == Layer::Volume => {
                assert!(
                    self.areas[extent].prepared(area),
                    "virtual space needs no host"
                );
                area
            }
            Some(Candidate::Unprepared(area))
                if !host.full || self.areas[extent].empty() == Some(area) =>
            {
                // A wake-up during the consistency point does not request another consistency
                // point.
                host.wanted.get_or_insert((extent, area));
                return Err(Stop::Io);
            }
            _ => return Ok(self.areas[extent].best_partial()),
        };
        Ok(Some(area))
    }

    /// Scores the next few areas below the frontier. True if that was the last of them.
    fn scan(
        &mut self,
        mut below: Option<&mut FileSystem>,
        cx: &mut LoadCx<'_>,
        extent: usize,
    ) -> Result<bool, Stop> {
        let base = self.bases[extent];
        let end = base + self.areas[extent].frontier() * self.area_blocks;
        let first = base / BITS_PER_BLOCK + self.scan_next[extent];
        let last = (first + SCAN_BLOCKS).min(end.div_ceil(BITS_PER_BLOCK));
        let map = self
            .files
            .get(&ACTIVE_MAP)
            .expect("every file system has it");
        let mut gather = Gather::default();
        for block in first..last {
            if block < map.inode.block_count() {
                gather.add(map.leaf(cx, block).map(|_| ()));
            }
            if let Some(below) = &mut below
                && self.snapshots.any()
            {
                let summary = below.file(self.snapshots.summary());
                gather.add(summary.leaf(cx, block).map(|_| ()));
            }
        }
        gather.finish()?;
        for block in first..last {
            self.score_block(below.as_deref_mut(), cx, block, true)?;
        }
        let is_last = last * BITS_PER_BLOCK >= end;
        if is_last {
            self.scan_next[extent] = 0;
            self.areas[extent].set_searched();
        } else {
            self.scan_next[extent] = last - base / BITS_PER_BLOCK;
        }
        Ok(is_last)
    }

    /// Looks for areas that were not known since start until each extent has one that could be
    /// prepared, or all of its areas are known. A full host can be asked in vain for bare and
    /// untouched areas, so only one counts that may have its space. Ready areas do not count: they
    /// are not enough, or nobody would search.
    pub(crate) fn search(&mut self, cx: &mut LoadCx<'_>, host: &Host) -> Result<(), Stop> {
        let is_usable = |areas: &Areas| match host.full || host.refuses {
            true => areas.empty().is_some(),
            false => areas.unprepared().is_some(),
        };
        for extent in 0..self.areas.len() {
            while !self.areas[extent].is_complete() && !is_usable(&self.areas[extent]) {
                if self.scan(None, cx, extent)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Scores every area whose bits are in map block `block`.
    pub(crate) fn score_block(
        &mut self,
        below: Option<&mut FileSystem>,
        cx: &mut LoadCx<'_>,
        block: u64,
        given_back: bool,
    ) -> Result<(), Stop> {
        let map = self
            .files
            .get(&ACTIVE_MAP)
            .expect("every file system has it");
        let zero = [0; everglade_format::BLOCK_SIZE];
        let leaf;
        let bits: &[u8; everglade_format::BLOCK_SIZE] = if block < map.inode.block_count() {
            leaf = map.leaf(cx, block)?;
            leaf.bytes()
        } else {
            &zero
        };
        let mut both;
        let bits = match below {
            Some(below) if self.snapshots.any() => {
                both = Box::new(*bits);
                let summary = below.file(self.snapshots.summary());
                bitmap::unite(&mut both, summary.leaf(cx, block)?.bytes());
                &*both
            }
            _ => bits,
        };
        let mut number = block * BITS_PER_BLOCK;
        let block_end = number + BITS_PER_BLOCK;
        while number < block_end {
            if let Some((extent, area)) = self.area_of(number) {
                let from = number % BITS_PER_BLOCK;
                let mut free =
                    self.area_blocks - bitmap::count(bits, from, from + self.area_blocks);
                // Number 0 is never allocated, so the first area is never quite empty; that does
                // not matter to anyone but the test for emptiness.
                free -= u64::from(number == 0 && free > 0);
                self.areas[extent].score(area, free, given_back);
            }
            number += self.area_blocks;
        }
        Ok(())
    }

    /// Extent and area that hold `number`.
    pub(crate) fn area_of(&self, number: u64) -> Option<(usize, u64)> {
        let extent = self
            .bases
            .partition_point(|base| *base <= number)
            .checked_sub(1)?;
        let area = (number - self.bases[extent]) / self.area_blocks;
        (area < self.areas[extent].count()).then_some((extent, area))
    }

    /// Takes a number that [`FileSystem::ensure`] made ready.
    pub(crate) fn take(&mut self, purpose: Purpose) -> u64 {
        let number = self.cursor(purpose).stock.pop_front().expect("ensured");
        self.mark_used(number);
        number
    }

    /// Marks a number that was in stock as in use.
    pub(crate) fn mark_used(&mut self, number: u64) {
        let map = self
            .files
            .get_mut(&ACTIVE_MAP)
            .expect("every file system has it");
        self.safe.allocate(map, number);
        self.used += 1;
        if self.snapshots.any() {
            self.snapshots.add_exclusive(Node::Active, 1);
        }
    }

    /// Takes a number that a snapshot holds back into the active image; its map block was prepared.
    /// Returns false if the number is in the active image already.
    pub(crate) fn adopt(&mut self, number: u64) -> bool {
        let map = self
            .files
            .get_mut(&ACTIVE_MAP)
            .expect("every file system has it");
        let is_new = self.safe.adopt(map, number);
        self.used += u64::from(is_new);
        is_new
    }

    /// Takes a block of the aggregate and records its owner.
    pub(crate) fn take_physical(&mut self, purpose: Purpose, owner: (FileId, Owner)) -> Pvbn {
        assert_eq!(self.layer, Layer::Aggregate);
        let pvbn = Pvbn(self.take(purpose));
        self.set_context(
            pvbn,
            Context {
                file: owner.0,
                owner: owner.1,
                tag: Tag(0),
            },
        );
        pvbn
    }

    /// Records owner and content of a block taken in this consistency point.
    pub(crate) fn set_context(&mut self, pvbn: Pvbn, context: Context) {
        let (block, slot) = context::block_and_slot(pvbn);
        let contexts = self
            .files
            .get_mut(&CONTEXT_MAP)
            .expect("every aggregate has it");
        let page = contexts.changed_page(0, block).expect("ensured");
        context.encode_into(page, slot);
    }

    /// Takes the number of a new volume's superblock.
    pub(crate) fn allocate_superblock(
        &mut self,
        cx: &mut LoadCx<'_>,
        number: u64,
    ) -> Result<(), Stop> {
        self.map().grow(1);
        self.modify_map(cx, 0)?;
        let map = self
            .files
            .get_mut(&ACTIVE_MAP)
            .expect("every file system has it");
        self.safe.allocate(map, number);
        self.used += 1;
        Ok(())
    }

    /// Load phase of freeing a number of this file system: makes its map block a changed block, and
    /// checks that the map says that the number is in use.
    pub(crate) fn prepare_free(&mut self, cx: &mut LoadCx<'_>, number: u64) -> Result<(), Stop> {
        let (block, bit) = (number / BITS_PER_BLOCK, number % BITS_PER_BLOCK);
        let is_used = block < self.map().inode.block_count()
            && bitmap::is_set(self.modify_map(cx, block)?, bit);
        if is_used {
            return Ok(());
        }
        let layer = layer_name(self.layer);
        let place = self.map().place_of((0, block));
        let text =
            format!("the {layer}'s active map says that block {number} is free, but it is in use");
        Err(Stop::damaged(text).at(place, Pointer::HOLE))
    }

    /// Makes a block of the active map changed. In a volume with snapshots, first loads the state
    /// that changes in the block depend on.
    pub(crate) fn prepare_map(
        &mut self,
        below: Option<&mut FileSystem>,
        cx: &mut LoadCx<'_>,
        block: u64,
    ) -> Result<(), Stop> {
        if !self.snapshots.any() || self.snapshots.held.contains_key(&block) {
            return self.modify_map(cx, block).map(|_| ());
        }
        let below = below.expect("a volume is in an aggregate");
        let summary = below.file(self.snapshots.summary());
        let held = fold::load(self.images(), summary, cx, block)?;
        self.modify_map(cx, block)?;
        self.snapshots.held.insert(block, held);
        Ok(())
    }

    /// The volume's images, as far as their maps say who holds what.
    pub(crate) fn images(&self) -> Images<'_> {
        Images {
            volume: self.container,
            snapshots: &self.snapshots,
            active_map: &self.files[&ACTIVE_MAP],
        }
    }

    /// Returns the place of an unchanged block, of any level of the active map, in the last
    /// committed tree.
    pub(crate) fn unchanged_map_place(
        &self,
        cx: &mut LoadCx<'_>,
        level: u8,
        index: u64,
    ) -> Result<Option<Pointer>, Stop> {
        let map = &self.files[&ACTIVE_MAP];
        match map.peek(level, index) {
            Some(_) => Ok(None),
            None => map.pointer(cx, level, index).map(Some),
        }
    }

    /// Scores an area of a volume after a scan released blocks of it.
    pub(crate) fn score_after_scan(&mut self, block: u64, active: &Block, summary: &Block) {
        let mut both = Box::new(*active);
        bitmap::unite(&mut both, summary);
        let Some((extent, area)) = self.area_of(block * BITS_PER_BLOCK) else {
            return;
        };
        let used = bitmap::count(&both, 0, BITS_PER_BLOCK);
        let free = BITS_PER_BLOCK - used - u64::from(block == 0 && used < BITS_PER_BLOCK);
        self.areas[extent].score(area, free, true);
    }

    /// Makes a block of the active map changed, and remembers how much of each area was in use.
    fn modify_map(&mut self, cx: &mut LoadCx<'_>, block: u64) -> Result<&mut Page, Stop> {
        let map = self
            .files
            .get_mut(&ACTIVE_MAP)
            .expect("every file system has it");
        let is_new = map.peek(0, block).is_none();
        let page = map.modify(cx, 0, block, Content::Keep)?;
        if is_new {
            self.used_before
                .insert(block, used_by_area(page, self.area_blocks));
        }
        Ok(page)
    }

    /// Called when a map block is sealed: scores its areas and counts those that began or ceased to
    /// be in use.
    pub(crate) fn account_map_block(&mut self, block: u64, bits: &Block) {
        let mut both = Box::new(*bits);
        if let Some(held) = self.snapshots.held.get(&block) {
            bitmap::unite(&mut both, &held.summary);
        }
        let after = used_by_area(&both, self.area_blocks);
        let before = self
            .used_before
            .remove(&block)
            .expect("remembered when it was first changed");
        for (index, (before, after)) in before.into_iter().zip(after).enumerate() {
            let number = block * BITS_PER_BLOCK + index as u64 * self.area_blocks;
            let Some((extent, area)) = self.area_of(number) else {
                continue;
            };
            if self.layer == Layer::Aggregate {
                self.areas_used += u64::from(before == 0 && after > 0);
                self.areas_used -= u64::from(before > 0 && after == 0);
            }
            let free = self.area_blocks - after - u64::from(number == 0);
            // The host has provided space for every area in use. For an unused, unknown area this
            // is unknown: the area may only have been about to be prepared when the power failed.
            self.areas[extent].score(area, free, before == 0);
        }
    }

    /// Frees a number; allocatable from the next consistency point on (Lemma 1).
    pub(crate) fn free(&mut self, number: u64) {
        let map = self
            .files
            .get_mut(&ACTIVE_MAP)
            .expect("every file system has it");
        self.safe.free(map, number);
        self.used -= 1;
    }
}

impl FileSystem {
    /// Load phase of punching a vvbn of a container.
    pub(crate) fn prepare_punch(
        &mut self,
        cx: &mut LoadCx<'_>,
        container: FileId,
        vvbn: u64,
    ) -> Result<(), Stop> {
        let file = self.file(container);
        if vvbn >= file.inode.block_count() {
            let text = format!("vvbn {vvbn} is beyond the end of its container");
            return Err(Stop::damaged(text).at(file.place_of((1, vvbn / SPAN)), Pointer::HOLE));
        }
        let layer = file.layer;
        let above = file.modify(cx, 1, vvbn / SPAN, Content::Keep)?;
        let slot = Indirect(above).pointer(vvbn % SPAN, layer)?;
        if slot.is_hole() {
            let text = format!("vvbn {vvbn} is in use, but its container has no block for it");
            return Err(Stop::damaged(text).at(file.place_of((1, vvbn / SPAN)), Pointer::HOLE));
        }
        self.prepare_free(cx, slot.pvbn.0)
    }

    /// Punches a vvbn of a container, and frees the block at its pvbn (G-01).
    pub(crate) fn punch(&mut self, container: FileId, vvbn: u64) {
        let file = self.file(container);
        let slot = file
            .set_leaf(vvbn, Pointer::HOLE)
            .expect("decoded while preparing");
        assert!(!slot.is_hole(), "vvbn {vvbn} was punched already");
        self.free(slot.pvbn.0);
    }
}

/// Load phase of freeing a block of a volume's active image: makes all metadata blocks that the
/// modify phase will change into changed blocks.
pub(crate) fn prepare_free_virtual(
    aggregate: &mut FileSystem,
    volume: &mut FileSystem,
    container: FileId,
    cx: &mut LoadCx<'_>,
    vvbn: Vvbn,
) -> Result<(), Stop> {
    let block = vvbn.0 / BITS_PER_BLOCK;
    if volume.snapshots.any() && block < volume.map().inode.block_count() {
        volume.prepare_map(Some(aggregate), cx, block)?;
    }
    volume.prepare_free(cx, vvbn.0)?;
    if !volume.freed(vvbn).is_some_and(|freed| freed.is_held) {
        aggregate.prepare_punch(cx, container, vvbn.0)?;
    }
    Ok(())
}

/// Frees a block of a volume's active image. Unless a snapshot holds it, it is punched.
pub(crate) fn free_virtual(
    aggregate: &mut FileSystem,
    volume: &mut FileSystem,
    container: FileId,
    vvbn: Vvbn,
) {
    volume.free(vvbn.0);
    if let Some(freed) = volume.freed(vvbn) {
        if freed.was_own {
            volume.snapshots.add_exclusive(Node::Active, -1);
        }
        if let Some(heir) = freed.heir {
            volume.snapshots.add_exclusive(Node::Snapshot(heir), 1);
        }
        if freed.is_held {
            return;
        }
    }
    aggregate.punch(container, vvbn.0);
}

impl FileSystem {
    /// Returns the effect on snapshots of freeing a vvbn, if the volume has snapshots. The map
    /// block was prepared.
    fn freed(&self, vvbn: Vvbn) -> Option<Freed> {
        let block = vvbn.0 / BITS_PER_BLOCK;
        let held = self.snapshots.held.get(&block);
        held.map(|held| held.freed(vvbn.0 % BITS_PER_BLOCK))
    }
}

fn used_by_area(bits: &Block, area_blocks: u64) -> Vec<u64> {
    (0..BITS_PER_BLOCK / area_blocks)
        .map(|index| bitmap::count(bits, index * area_blocks, (index + 1) * area_blocks))
        .collect()
}

#[cfg(test)]
mod tests;
