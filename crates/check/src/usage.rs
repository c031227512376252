//! Usage: references, the active map and (in volumes) the container, merged by block number (O-03).
//!
//! Definition 1: a bit of the active map is set exactly if its block has a reference, and no block
//! has two references, except leaves that LUNs share: such a leaf has one reference more than its
//! count in the refcount file. In a volume the container has a block exactly where the bit is set.

use std::ops::Range;
use std::rc::Rc;

use everglade_format::bytes::u64_at;
use everglade_format::refcount::COUNTS_PER_BLOCK;
use everglade_format::{
    BITS_PER_BLOCK, Block, FileId, Inode, Layer, Pointer, Pvbn, metafile, refcount,
};

use crate::files::Files;
use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::problem::{Kind, Object, ProblemPlace};
use crate::reference::{Reference, References};
use crate::tree::{self, File, Leaves, Visit};

/// All known facts about one block number.
pub(crate) struct Number<'n> {
    pub(crate) number: u64,
    /// Its bit in the active map, unless that cannot be read.
    pub(crate) marked: Option<bool>,
    pub(crate) references: &'n [Reference],
    /// References beyond the first, as the refcount file has them; nothing if it cannot be read.
    pub(crate) count: Option<u16>,
    /// In a volume, the number's slot in the container; a hole if the slot is empty or unreadable.
    pub(crate) slot: Pointer,
    /// The slot could be read.
    pub(crate) slot_known: bool,
}

/// The fields of a file system's superblock about its blocks.
#[derive(Clone, Copy)]
pub(crate) struct Claims<'c> {
    pub(crate) blocks_used: u64,
    /// Areas with at least one block in use, where that is recorded.
    pub(crate) areas_used: Option<u64>,
    pub(crate) area_blocks: u64,
    pub(crate) frontiers: Frontiers<'c>,
    /// The active map may be that of an older image.
    pub(crate) may_be_restored: bool,
}

/// The frontiers: numbers from there on were never allocated.
#[derive(Clone, Copy)]
pub(crate) enum Frontiers<'c> {
    /// For each extent of the aggregate, counted in areas from its first.
    Extents(&'c [u32]),
    /// Counted in areas of the volume.
    Volume(u64),
}

/// The comparison of one file system's blocks.
pub(crate) struct Usage<'u> {
    fs: &'u FileSystem<'u>,
    files: &'u Files,
    claims: Claims<'u>,
    /// Bits set so far.
    pub(crate) used: u64,
    /// Areas with bits set so far.
    areas_used: u64,
    /// The area of the last bit that was set.
    area: Option<u64>,
    /// True if some bits could not be read.
    unknown: bool,
}

type Each<'e> = &'e mut dyn FnMut(&mut Findings, &Number<'_>);

impl<'u> Usage<'u> {
    pub(crate) fn new(fs: &'u FileSystem<'u>, files: &'u Files, claims: Claims<'u>) -> Self {
        let lost = files.partial && files.metafile(metafile::ACTIVE_MAP).is_none();
        Usage {
            fs,
            files,
            claims,
            used: 0,
            areas_used: 0,
            area: None,
            unknown: files.bits_partial || lost,
        }
    }

    /// Compares all numbers of a window, in order; `references` must have been sorted.
    pub(crate) fn window(
        &mut self,
        references: &References,
        findings: &mut Findings,
        each: Each<'_>,
    ) {
        let window = &references.window;
        let mut start = window.start;
        while start < window.end {
            let range = start..start + BITS_PER_BLOCK;
            self.map_block(&range, references.within(&range), findings, each);
            start = range.end;
        }
    }

    fn map_block(
        &mut self,
        range: &Range<u64>,
        references: &[Reference],
        findings: &mut Findings,
        each: Each<'_>,
    ) {
        let bits = self.bits(range.start);
        let (slots, slot_known) = slots(self.fs, range);
        let counts = self.counts(range);
        let are_known = counts.is_some();
        let counts = counts.unwrap_or_default();
        let (mut references, mut slots, mut counts) = (references, &slots[..], &counts[..]);
        let mut from = range.start;
        loop {
            let bit = bits
                .as_ref()
                .ok()
                .and_then(|bits| bits.next(from - range.start));
            let next = [
                bit.map(|bit| bit + range.start),
                references.first().map(|r| r.number),
                slots.first().map(|(vvbn, _)| *vvbn),
                counts.first().map(|(vvbn, _)| *vvbn),
            ];
            let Some(number) = next.into_iter().flatten().min() else {
                break;
            };
            let same = references.partition_point(|r| r.number <= number);
            let (here, rest) = references.split_at(same);
            references = rest;
            let mut slot = Pointer::HOLE;
            if let Some(((vvbn, pointer), rest)) = slots.split_first()
                && *vvbn == number
            {
                (slot, slots) = (*pointer, rest);
            }
            let mut count = are_known.then_some(0);
            if let Some(((vvbn, found), rest)) = counts.split_first()
                && *vvbn == number
            {
                (count, counts) = (Some(*found), rest);
            }
            let number = Number {
                number,
                count,
                marked: bits.as_ref().ok().map(|_| next[0] == Some(number)),
                references: here,
                slot,
                slot_known,
            };
            self.definition_1(&number, findings);
            each(findings, &number);
            from = number.number + 1;
            if from == range.end {
                break;
            }
        }
    }

    fn bits(&mut self, start: u64) -> Result<Bits, ()> {
        let Some(active) = self.files.metafile(metafile::ACTIVE_MAP) else {
            self.unknown = true;
            return Err(());
        };
        match tree::leaf_at(self.fs, active, start / BITS_PER_BLOCK) {
            Ok(block) => Ok(Bits(block)),
            Err(_) => {
                self.unknown = true;
                Err(())
            }
        }
    }

    /// Counts above zero of a range of vvbns; nothing if they cannot be read.
    fn counts(&self, range: &Range<u64>) -> Option<Vec<(u64, u16)>> {
        let Some(inode) = self.files.metafile(metafile::REFCOUNTS) else {
            return (!self.files.inodes.partial).then(Vec::new);
        };
        counts_of(self.fs, inode, range)
    }

    fn definition_1(&mut self, number: &Number<'_>, findings: &mut Findings) {
        if number.marked == Some(true) {
            self.used += 1;
            self.check_mark(number.number, findings);
        }
        self.check_count(number, findings);
        let Some((first, others)) = number.references.split_first() else {
            let is_block = self.is_block(number.number);
            if number.marked == Some(true) && is_block && !self.files.partial {
                let (object, place) = owner(self.fs, self.files, None, number);
                findings.add(Kind::Leaked, &object, place, "a reference", "none");
            }
            return;
        };
        if number.marked != Some(false) && others.is_empty() {
            return;
        }
        let (object, place) = owner(self.fs, self.files, Some(first), number);
        if number.marked == Some(false) {
            let expected = "a set bit in the active map";
            findings.add(Kind::NotMarked, &object, place, expected, "a clear one");
        }
        if number.count != Some(0) && number.references.iter().all(Reference::is_user_leaf) {
            // References may share the block; the caller compared their number with the count.
            return;
        }
        for other in others {
            let found = format_args!("also {object}, {place}");
            let (object, place) = owner(self.fs, self.files, Some(other), number);
            let expected = "the only reference";
            findings.add(Kind::DoubleReference, &object, place, expected, found);
        }
    }

    /// A block has as many references as its count says; a free block has none.
    fn check_count(&self, number: &Number<'_>, findings: &mut Findings) {
        let Some(count) = number.count.filter(|count| *count > 0) else {
            return;
        };
        let wanted = usize::from(count) + 1;
        let there = number.references.len();
        let is_short = there < wanted && !self.files.partial;
        if number.marked == Some(false) || there > wanted || is_short || count == refcount::RESERVED
        {
            let (object, place) = owner(self.fs, self.files, number.references.first(), number);
            let expected = format_args!("{wanted} references to a block in use, by its count");
            let marked = match number.marked {
                Some(false) => " to a free one",
                _ => "",
            };
            let found = format_args!("{there}{marked}");
            findings.add(Kind::RefCount, &object, place, expected, found);
        }
    }

    fn check_mark(&mut self, number: u64, findings: &mut Findings) {
        let object = self.fs.object();
        let place = number_place(self.fs, number, None);
        if !self.is_block(number) {
            let expected = "a clear bit for what is no block";
            findings.add(Kind::MarkedOutside, &object, place, expected, "a set bit");
        }
        let area = number / self.claims.area_blocks;
        if self.area == Some(area) {
            return;
        }
        self.area = Some(area);
        self.areas_used += 1;
        if let Some((area, frontier)) = self.beyond_frontier(number) {
            let expected = format_args!("nothing in use from area {frontier} on");
            let found = format_args!("a block in use in area {area}");
            findings.add(Kind::Frontier, &object, place, expected, found);
        }
    }

    /// The area (of the volume or extent) and the frontier, if `number` is beyond it.
    fn beyond_frontier(&self, number: u64) -> Option<(u64, u64)> {
        let (area, frontier) = match self.claims.frontiers {
            Frontiers::Volume(frontier) => (number / self.claims.area_blocks, frontier),
            Frontiers::Extents(frontiers) => {
                let geometry = &self.fs.media.geometry;
                let extent = geometry.extent_of(Pvbn(number))?;
                let offset = number - geometry.extents()[extent].base;
                // A missing reference is reported at the end.
                let frontier = frontiers.get(extent).copied().unwrap_or(0);
                (offset / self.claims.area_blocks, u64::from(frontier))
            }
        };
        (area >= frontier).then_some((area, frontier))
    }

    fn is_block(&self, number: u64) -> bool {
        match self.fs.layer() {
            Layer::Aggregate => self.fs.media.geometry.locate(Pvbn(number)).is_some(),
            Layer::Volume => number != 0,
        }
    }

    /// Compares the totals, after all windows.
    pub(crate) fn finish(&self, findings: &mut Findings) {
        let object = self.fs.object();
        let claims = &self.claims;
        if !self.unknown && self.used != claims.blocks_used {
            let expected = format_args!("{} blocks in use, as in the active map", self.used);
            let found = claims.blocks_used;
            findings.add(
                Kind::UsedCount,
                &object,
                ProblemPlace::NONE,
                expected,
                found,
            );
        }
        if let Some(areas_used) = claims.areas_used
            && !self.unknown
            && areas_used != self.areas_used
        {
            let expected = format_args!("{} areas in use, as in the active map", self.areas_used);
            findings.add(
                Kind::AreasUsed,
                &object,
                ProblemPlace::NONE,
                expected,
                areas_used,
            );
        }
        self.check_frontiers(findings);
        self.check_reach(findings);
    }

    fn check_frontiers(&self, findings: &mut Findings) {
        let Frontiers::Extents(frontiers) = self.claims.frontiers else {
            return;
        };
        let object = self.fs.object();
        let extents = self.fs.media.geometry.extents();
        if frontiers.len() != extents.len() {
            let expected = format_args!("{} frontiers, one for each extent", extents.len());
            let found = frontiers.len();
            findings.add(Kind::Frontier, &object, ProblemPlace::NONE, expected, found);
        }
        for (index, (extent, frontier)) in extents.iter().zip(frontiers).enumerate() {
            let areas = extent.length / self.claims.area_blocks;
            if u64::from(*frontier) > areas {
                let expected = format_args!("at most {areas} areas in extent {index}");
                let found = format_args!("a frontier of {frontier}");
                findings.add(Kind::Frontier, &object, ProblemPlace::NONE, expected, found);
            }
        }
    }

    /// A volume's active map and container must reach as far as blocks could be in use; the map
    /// only as long as the volume has no snapshot that it could have been taken back to. In the
    /// aggregate areas may be made ready before the map grows.
    fn check_reach(&self, findings: &mut Findings) {
        let (Frontiers::Volume(frontier), Some(inside)) = (self.claims.frontiers, &self.fs.inside)
        else {
            return;
        };
        let active = self.files.metafile(metafile::ACTIVE_MAP);
        if let Some(active) = active
            && !self.claims.may_be_restored
            && active.block_count() < frontier
        {
            let object = self.fs.metafile(metafile::ACTIVE_MAP);
            let expected = format_args!("at least {frontier} blocks");
            let found = active.block_count();
            findings.add(
                Kind::MapTooShort,
                &object,
                ProblemPlace::NONE,
                expected,
                found,
            );
        }
        let needed = frontier.saturating_mul(self.claims.area_blocks);
        if inside.container.block_count() < needed {
            let object = self.fs.object();
            let expected = format_args!("a container of at least {needed} blocks");
            let found = inside.container.block_count();
            findings.add(
                Kind::MapTooShort,
                &object,
                ProblemPlace::NONE,
                expected,
                found,
            );
        }
    }
}

/// The file that a reference belongs to (the file system for none), and the place in it.
pub(crate) fn owner(
    fs: &FileSystem<'_>,
    files: &Files,
    reference: Option<&Reference>,
    number: &Number<'_>,
) -> (Object, ProblemPlace) {
    let pvbn = (!number.slot.is_hole()).then_some(number.slot.pvbn);
    match reference {
        Some(it) if it.file != FileId(0) => {
            let place = match fs.layer() {
                Layer::Aggregate => it.place_in_aggregate(),
                Layer::Volume => it.place_in_volume(pvbn),
            };
            (files.object_of(fs, it.file), place)
        }
        _ => (fs.object(), number_place(fs, number.number, pvbn)),
    }
}

fn number_place(fs: &FileSystem<'_>, number: u64, pvbn: Option<Pvbn>) -> ProblemPlace {
    match fs.layer() {
        Layer::Aggregate => ProblemPlace::at_pvbn(number),
        Layer::Volume => ProblemPlace {
            pvbn,
            ..ProblemPlace::at_vvbn(number)
        },
    }
}

/// Counts above zero that a refcount file has for a range of vvbns; nothing if some cannot be read.
pub(crate) fn counts_of(
    fs: &FileSystem<'_>,
    inode: &Inode,
    range: &Range<u64>,
) -> Option<Vec<(u64, u16)>> {
    let mut found = Vec::new();
    let end = inode
        .block_count()
        .min(range.end.div_ceil(COUNTS_PER_BLOCK));
    for leaf in range.start / COUNTS_PER_BLOCK..end {
        let Some(block) = tree::leaf_at(fs, inode, leaf).ok()? else {
            continue;
        };
        let first = leaf * COUNTS_PER_BLOCK;
        let counts = refcount::counts(&block).map(|(slot, count)| (first + slot as u64, count));
        found.extend(counts.filter(|(vvbn, _)| range.contains(vvbn)));
    }
    Some(found)
}

/// One block of the active map; `None` is a hole: all bits are zero.
struct Bits(Option<Rc<Block>>);

impl Bits {
    /// Returns the first set bit from `from` on.
    fn next(&self, from: u64) -> Option<u64> {
        let block = self.0.as_ref()?;
        let mut bit = from;
        while bit < BITS_PER_BLOCK {
            let at = usize::try_from(bit / 64 * 8).expect("inside a block");
            let word = u64_at(&block[..], at) >> (bit % 64);
            if word != 0 {
                return Some(bit + u64::from(word.trailing_zeros()));
            }
            bit = (bit / 64 + 1) * 64;
        }
        None
    }
}

/// The slots in use of a volume's container that are in `range`, and whether all of them could be
/// read.
pub(crate) fn slots(fs: &FileSystem<'_>, range: &Range<u64>) -> (Vec<(u64, Pointer)>, bool) {
    let mut slots = Vec::new();
    let Some(inside) = &fs.inside else {
        return (slots, true);
    };
    let object = Object::Aggregate;
    let file = File {
        inode: inside.container,
        object: &object,
        leaves: Leaves::Opaque,
        range: range.clone(),
        bounded: false,
    };
    let mut reported_before = Findings::deaf();
    let walked = tree::walk(
        inside.aggregate,
        &file,
        &mut reported_before,
        &mut |_, visit| {
            if let Visit::Reference {
                level: 0,
                index,
                pointer,
            } = visit
                && range.contains(&index)
            {
                slots.push((index, pointer));
            }
        },
    );
    (slots, !walked.partial)
}
