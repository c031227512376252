//! A space map that is being made: areas are counted one by one (H-01).
//!
//! A free run ends at a block in use and at the end of its extent, so one that reaches the end of
//! an area goes on in the next.
//!
//! 1. Areas above the frontier of their extent have never been used: they are free, and their bits
//!    are not read.
//! 2. An area whose bits cannot be read has no count and no free block.
//! 3. Each block of an area that was counted is in use, or in one free run.
//! 4. Clients write meanwhile, so a map is right for each area at some time while it was made.
//! 5. Extents and groups are those at its beginning. Areas that leave meanwhile have no count.

use everglade_format::{BITS_PER_BLOCK, BLOCK_SIZE, Block, bitmap};

use crate::home::candidate::Candidate;
use crate::pool::space_map::{ExtentMap, FreeRuns, SpaceMap, StripesMap};

/// What the active map says of an area.
pub(crate) enum Bits {
    /// The block of the map, and its first bit for the area.
    Known(Box<Block>, u64),
    /// Nothing of it was ever used.
    Unused,
    /// It cannot be read.
    Unreadable,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct SpaceCount {
    /// For each extent that leads, the areas that it had in use when this began.
    ends: Vec<u64>,
    /// For each extent, the one that leads its parity group.
    groups: Vec<Option<usize>>,
    next: Option<Candidate>,
    /// For each extent, the blocks of the free run that reaches the end of the last area counted.
    open: Vec<u64>,
    map: SpaceMap,
}

impl SpaceCount {
    /// Begins with maps in which no area is counted. For each extent that leads, `ends` says how
    /// many areas may be in use; `groups` says which extent leads its parity group.
    ///
    /// # Panics
    /// If these are not as many as the extents.
    pub(crate) fn new(
        area_blocks: u64,
        extents: Vec<ExtentMap>,
        ends: Vec<u64>,
        groups: Vec<Option<usize>>,
    ) -> SpaceCount {
        assert_eq!(
            (ends.len(), groups.len()),
            (extents.len(), extents.len()),
            "one for each extent"
        );
        SpaceCount {
            next: Candidate { extent: 0, area: 0 }.within(&ends),
            ends,
            groups,
            open: vec![0; extents.len()],
            map: SpaceMap {
                area_blocks,
                extents,
                ..SpaceMap::default()
            },
        }
    }

    /// Areas that it counts.
    pub(crate) fn area_count(&self) -> u64 {
        self.ends.iter().sum()
    }

    /// The area to count next; `None` when all were counted.
    pub(crate) fn to_count(&self) -> Option<Candidate> {
        self.next
    }

    /// Takes what the map says of an area, for each column.
    pub(crate) fn counted(&mut self, at: Candidate, columns: &[(usize, Bits)]) {
        for (extent, bits) in columns {
            self.count(*extent, at.area, bits);
        }
        if self.groups[at.extent].is_some() {
            let stripes = stripes(columns, self.map.area_blocks);
            let all = self.map.stripes.get_or_insert_default();
            all.free += stripes.free;
            all.whole += stripes.whole;
        }
        self.next = at.next().within(&self.ends);
    }

    fn count(&mut self, extent: usize, area: u64, bits: &Bits) {
        let length = self.map.area_blocks;
        let area = usize::try_from(area).expect("areas fit into memory");
        let areas = self.map.extents.get(extent).map(|it| it.used.len());
        if areas.is_none_or(|areas| area >= areas) {
            // A group may have grown meanwhile.
            return;
        }
        let used = match bits {
            Bits::Unused => {
                self.open[extent] += length;
                Some(0)
            }
            Bits::Unreadable => {
                self.end_run(extent);
                None
            }
            Bits::Known(bits, from) => {
                self.count_runs(extent, bits, (*from, from + length));
                let used = bitmap::count(bits, *from, from + length);
                Some(u32::try_from(used).expect("an area has at most the bits of a block"))
            }
        };
        self.map.extents[extent].used[area] = used;
    }

    fn count_runs(&mut self, extent: usize, bits: &Block, (from, to): (u64, u64)) {
        let in_use = inverse(bits);
        let mut at = from;
        while let Some(free) = bitmap::first_clear(bits, at, to) {
            if free > at {
                self.end_run(extent);
            }
            let end = bitmap::first_clear(&in_use, free, to).unwrap_or(to);
            self.open[extent] += end - free;
            at = end;
        }
        if at < to {
            self.end_run(extent);
        }
    }

    /// The free run that reaches up to here ends.
    fn end_run(&mut self, extent: usize) {
        let blocks = std::mem::take(&mut self.open[extent]);
        let Some(class) = blocks.checked_ilog2() else {
            return;
        };
        let class = class as usize;
        let classes = &mut self.map.free_runs;
        if classes.len() <= class {
            classes.resize(class + 1, FreeRuns::default());
        }
        classes[class].runs += 1;
        classes[class].blocks += blocks;
    }

    /// Ends the count: what it has not passed was never used.
    pub(crate) fn finish(mut self, seconds: u64) -> SpaceMap {
        let length = self.map.area_blocks;
        for (extent, group) in std::mem::take(&mut self.groups).iter().enumerate() {
            let end = self.ends[group.unwrap_or(extent)];
            let end = usize::try_from(end).expect("areas fit into memory");
            let areas = &mut self.map.extents[extent].used;
            let unused = areas.get_mut(end..).unwrap_or_default();
            unused.fill(Some(0));
            let left = unused.len() as u64 * length;
            self.open[extent] += left;
            self.end_run(extent);
            if *group == Some(extent) {
                let all = self.map.stripes.get_or_insert_default();
                all.free += left;
                all.whole += left;
            }
        }
        self.map.counted_seconds = seconds;
        self.check();
        self.map
    }
    /// Every block of an area that was counted is in use, or free.
    fn check(&self) {
        let areas = self.map.extents.iter().flat_map(|extent| &extent.used);
        let known = areas.clone().flatten();
        let blocks = known.clone().count() as u64 * self.map.area_blocks;
        let used: u64 = known.map(|used| u64::from(*used)).sum();
        let free: u64 = self.map.free_runs.iter().map(|it| it.blocks).sum();
        assert_eq!(used + free, blocks, "a space map counts each block once");
    }
}

/// Counts the stripes of areas that are filled together.
fn stripes(columns: &[(usize, Bits)], length: u64) -> StripesMap {
    let (mut any, mut all) = ([0; BLOCK_SIZE], [0xff; BLOCK_SIZE]);
    for (_, bits) in columns {
        let used = match bits {
            Bits::Known(bits, from) => moved_to_front(bits, *from),
            Bits::Unused => [0; BLOCK_SIZE],
            Bits::Unreadable => [0xff; BLOCK_SIZE],
        };
        bitmap::unite(&mut any, &used);
        bitmap::intersect(&mut all, &used);
    }
    StripesMap {
        free: length - bitmap::count(&all, 0, length),
        whole: length - bitmap::count(&any, 0, length),
    }
}

/// Returns the bits from `from` on, which is a multiple of 8, at the beginning of a block.
fn moved_to_front(bits: &Block, from: u64) -> Block {
    let from = usize::try_from(from.min(BITS_PER_BLOCK) / 8).expect("within a block");
    let mut moved = [0; BLOCK_SIZE];
    moved[..BLOCK_SIZE - from].copy_from_slice(&bits[from..]);
    moved
}

fn inverse(bits: &Block) -> Block {
    let mut inverse = *bits;
    inverse.iter_mut().for_each(|byte| *byte = !*byte);
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: u64 = 512;

    fn at(extent: usize, area: u64) -> Candidate {
        Candidate { extent, area }
    }

    fn extent(member: u32, areas: usize) -> ExtentMap {
        ExtentMap {
            member,
            first_dbn: 0,
            used: vec![None; areas],
        }
    }

    /// An area that begins at bit `from` of its map block, with these blocks in use.
    fn bits(from: u64, used: impl IntoIterator<Item = u64>) -> Bits {
        let mut block = Box::new([0; BLOCK_SIZE]);
        // Neighbours do not count.
        block[..(from / 8) as usize].fill(0xff);
        block[((from + AREA) / 8) as usize..].fill(0xff);
        for bit in used {
            bitmap::set(&mut block, from + bit);
        }
        Bits::Known(block, from)
    }

    fn runs(map: &SpaceMap) -> Vec<(usize, u64, u64)> {
        let classes = map.free_runs.iter().enumerate();
        let classes = classes.filter(|(_, it)| it.runs > 0);
        classes.map(|(at, it)| (at, it.runs, it.blocks)).collect()
    }

    #[test]
    fn a_free_run_goes_on_in_the_next_area_and_ends_with_its_extent() {
        let extents = vec![extent(3, 4), extent(5, 2)];
        let mut count = SpaceCount::new(AREA, extents, vec![3, 1], vec![None, None]);
        assert_eq!(count.area_count(), 4);
        // Free: 3 blocks, then 500 that reach the end.
        let used = bits(512, (3..12).chain([]));
        count.counted(at(0, 0), &[(0, used)]);
        // They go on for 100.
        count.counted(at(0, 1), &[(0, bits(1024, 100..512))]);
        count.counted(at(0, 2), &[(0, Bits::Unreadable)]);
        assert_eq!(count.to_count(), Some(at(1, 0)));
        count.counted(at(1, 0), &[(1, bits(0, 0..512))]);
        assert_eq!(count.to_count(), None);
        let map = count.finish(7);
        // The last areas of both extents were never used.
        assert_eq!(runs(&map), [(1, 1, 3), (9, 3, 600 + 512 + 512)]);
        assert_eq!(map.extents[0].used, [Some(9), Some(412), None, Some(0)]);
        assert_eq!(map.extents[1].used, [Some(512), Some(0)]);
        assert_eq!((map.counted_seconds, map.stripes), (7, None));
    }

    #[test]
    fn a_stripe_is_whole_if_all_columns_are_free() {
        let extents = vec![extent(0, 2), extent(1, 2), extent(2, 2)];
        let groups = vec![Some(0); 3];
        let mut count = SpaceCount::new(AREA, extents, vec![1, 0, 0], groups);
        let columns = [
            (0, bits(0, 0..100)),
            (1, bits(512, 50..150)),
            (2, Bits::Unused),
        ];
        count.counted(at(0, 0), &columns);
        let stripes = count.finish(0).stripes.expect("a group");
        assert_eq!((stripes.free, stripes.whole), (512 + 512, 362 + 512));
        // Without the third column, stripes 50 to 99 have nothing free.
        let extents = vec![extent(0, 1), extent(1, 1)];
        let mut count = SpaceCount::new(AREA, extents, vec![1, 0], vec![Some(0); 2]);
        count.counted(at(0, 0), &columns[..2]);
        let stripes = count.finish(0).stripes.expect("a group");
        assert_eq!((stripes.free, stripes.whole), (462, 362));
    }

    #[test]
    fn what_comes_or_goes_meanwhile_is_not_counted() {
        let extents = vec![extent(0, 2), extent(1, 1)];
        let mut count = SpaceCount::new(AREA, extents, vec![2, 0], vec![Some(0); 2]);
        // A column joins the group; then all but the first leave.
        let columns = [0, 1, 2].map(|column| (column, Bits::Unused));
        count.counted(at(0, 0), &columns);
        count.counted(at(0, 1), &columns[..1]);
        let map = count.finish(0);
        assert_eq!(map.extents[0].used, [Some(0), Some(0)]);
        assert_eq!(map.extents[1].used, [Some(0)]);
        assert_eq!(runs(&map), [(9, 1, 512), (10, 1, 1024)]);
        let mut count = SpaceCount::new(AREA, vec![extent(0, 2); 2], vec![2, 0], vec![Some(0); 2]);
        count.counted(at(0, 0), &columns[..1]);
        count.counted(at(0, 1), &columns[..1]);
        assert_eq!(count.finish(0).extents[1].used, [None, None]);
    }
}
