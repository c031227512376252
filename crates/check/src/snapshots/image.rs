//! Images of snapshots, each compared with an image that is verified already.
//!
//! Where `c(v)` counts the references of an image to v, and `m(v)` is its map's bit plus the count
//! of its refcount file, Definition 1 requires that the difference `c − m` is 0 everywhere. If the
//! difference is not 0, v is a *stray*. Two images have the same strays except among the blocks in
//! which they differ, so only these blocks are examined:
//!
//! strays(new) = strays(old) + references(new ∖ old) − references(old ∖ new) − (bits(new) −
//! bits(old)) − (counts(new) − counts(old))
//!
//! If there is no other image, an empty image takes its place. Blocks that cannot be read are left
//! out of both images.

use std::collections::{BTreeMap, BTreeSet};

use everglade_format::indirect::BlockKind;
use everglade_format::metafile::{ACTIVE_MAP, DIRECTORY, FIRST_FILE, HIDDEN, REFCOUNTS};
use everglade_format::number::NUMBER_END;
use everglade_format::refcount::COUNTS_PER_BLOCK;
use everglade_format::volume::SUPERBLOCK_VVBN;
use everglade_format::{
    BITS_PER_BLOCK, Block, FileId, Indirect, Inode, Kind as FileKind, Layer, Pointer, SPAN,
    SnapshotRecord, bitmap, refcount,
};

use super::Volume;
use super::pair::{self, Pair, Visit};
use crate::bad::{Bad, BadBlocks};
use crate::files::Files;
use crate::filesystem::{FileSystem, Inside};
use crate::findings::Findings;
use crate::inodes;
use crate::names;
use crate::problem::{Kind, ProblemPlace};
use crate::reference::{Reference, References, WINDOW_BLOCKS};
use crate::tree;
use crate::usage::{Number, counts_of, owner};

/// Blocks of the refcount file for one of the map.
const COUNTS_OF_MAP: u64 = BITS_PER_BLOCK / COUNTS_PER_BLOCK;

/// Limit of the strays that are kept. If an image has more, the strays of images that are compared
/// with it are not reported, because they are computed from the complete list.
const STRAYS_MAX: usize = 1 << 16;

/// Blocks for which an image does not satisfy Definition 1: references − bits − counts.
#[derive(Clone, Default)]
pub(crate) struct Strays {
    of: BTreeMap<u64, i64>,
    are_too_many: bool,
}

impl Strays {
    pub(crate) fn add(&mut self, number: u64, excess: i64) {
        match excess {
            0 => _ = self.of.remove(&number),
            _ if self.of.len() < STRAYS_MAX => _ = self.of.insert(number, excess),
            _ => self.are_too_many = true,
        }
    }
}

/// An image that was verified.
pub(super) struct Image {
    files: Files,
    /// References of the files that are read as a whole: all but LUNs, the active map and the
    /// refcount file.
    small: Vec<Reference>,
    strays: Strays,
    is_partial: bool,
}

impl Image {
    /// The active image.
    pub(super) fn of_active(volume: &Volume<'_>, strays: Strays) -> Image {
        let (fs, superblock) = (volume.fs, volume.superblock);
        let (root, next) = (&superblock.inode_file, superblock.next_file);
        let mut image = Image::read(fs, root, next, &mut Findings::deaf());
        image.files.blocks.clone_from(&volume.files.blocks);
        image.is_partial = volume.files.partial;
        image.strays = strays;
        image
    }

    /// Reads everything but LUNs, the active map and the refcount file.
    fn read(fs: &FileSystem<'_>, root: &Inode, next: FileId, findings: &mut Findings) -> Image {
        let mut references = References::everything();
        let inodes = inodes::walk(fs, root, next, findings, &mut references);
        let names = names::walk(fs, &inodes, findings, &mut references);
        let mut files = Files::new(fs, inodes, names);
        let ids: Vec<FileId> = files.inodes.all.keys().copied().collect();
        for id in ids {
            if !is_large(id) && id != DIRECTORY && id != HIDDEN {
                files.walk_file(fs, id, findings, &mut references);
            }
        }
        Image {
            is_partial: files.partial,
            files,
            small: references.list,
            strays: Strays::default(),
        }
    }
}

/// Files that images share most blocks of.
fn is_large(id: FileId) -> bool {
    id == ACTIVE_MAP || id == REFCOUNTS || id >= FIRST_FILE
}

impl<'a> FileSystem<'a> {
    /// The file system that a snapshot of this volume is.
    pub(crate) fn image(&self, name: &str, record: &SnapshotRecord) -> FileSystem<'a> {
        let inside = self.inside.as_ref().map(|inside| Inside {
            name: format!("{}@{name}", inside.name).into(),
            ..inside.clone()
        });
        FileSystem {
            media: self.media,
            cp: record.cp,
            has_lost: record.lost > 0,
            inside,
        }
    }
}

/// Verifies images.
pub(super) struct Pool<'p> {
    volume: &'p Volume<'p>,
    bad: &'p mut BadBlocks,
    /// Blocks of the active map that any image has.
    pub(super) map_blocks: BTreeSet<u64>,
    /// Blocks of snapmaps of victims that were read.
    snapmaps: BTreeSet<u64>,
}

/// The difference of two images, in one window of vvbns.
struct Difference {
    new: References,
    old: References,
    /// Leaves of the map that differ.
    leaves: Vec<(u64, Pointer, Pointer)>,
    /// Leaves of the refcount file that differ.
    counts: Vec<(u64, Pointer, Pointer)>,
    /// Leaves of the map that could not be read.
    unknown: Vec<std::ops::Range<u64>>,
}

impl<'p> Pool<'p> {
    pub(super) fn new(volume: &'p Volume<'p>, bad: &'p mut BadBlocks) -> Pool<'p> {
        Pool {
            volume,
            bad,
            map_blocks: BTreeSet::new(),
            snapmaps: BTreeSet::new(),
        }
    }

    /// Verifies a snapshot's image by its difference to `base`, or alone.
    pub(super) fn check(
        &mut self,
        record: &SnapshotRecord,
        base: Option<&Image>,
        findings: &mut Findings,
    ) -> Image {
        let fs = self.volume.fs.image(&record.name, record);
        let mut image = Image::read(&fs, &record.inode_file, record.next_file, findings);
        check_record(&fs, record, &image, findings);
        if let Some(base) = base {
            image.is_partial |= base.is_partial;
            image.strays.clone_from(&base.strays);
        }
        let mut windows = BTreeSet::from([0]);
        let mut position = 0;
        while let Some(window) = windows.iter().nth(position).copied() {
            // A second walk must not report the same problems again.
            findings.mute(position > 0);
            let mut difference = self.difference(
                &fs,
                &mut image,
                (base, &record.active_map),
                window,
                findings,
            );
            if position == 0 {
                for references in [&difference.new, &difference.old] {
                    windows.extend(&references.touched);
                }
                let of_leaf = |(leaf, ..): &(u64, _, _)| leaf * BITS_PER_BLOCK / WINDOW_BLOCKS;
                windows.extend(difference.leaves.iter().map(of_leaf));
                let of_counts = |(leaf, ..): &(u64, _, _)| leaf * COUNTS_PER_BLOCK / WINDOW_BLOCKS;
                windows.extend(difference.counts.iter().map(of_counts));
            }
            findings.mute(false);
            difference.new.sort();
            self.check_window(&fs, record, &mut image, &difference, findings);
            position += 1;
        }
        image
    }

    /// Walks what differs.
    fn difference(
        &mut self,
        fs: &FileSystem<'_>,
        image: &mut Image,
        (base, map): (Option<&Image>, &Inode),
        window: u64,
        findings: &mut Findings,
    ) -> Difference {
        let mut difference = Difference {
            new: References::new(window),
            old: References::new(window),
            leaves: Vec::new(),
            counts: Vec::new(),
            unknown: Vec::new(),
        };
        for reference in &image.small {
            difference.new.push(*reference);
        }
        let none = BTreeMap::new();
        let known = base.map_or(&none, |base| &base.files.inodes.all);
        match base {
            Some(base) => base.small.iter().for_each(|it| difference.old.push(*it)),
            None => difference.new.push(Reference::new(
                SUPERBLOCK_VVBN.0,
                FileId(0),
                0,
                0,
                &Pointer::HOLE,
            )),
        }
        let ids: BTreeSet<FileId> = image
            .files
            .inodes
            .all
            .keys()
            .chain(known.keys())
            .copied()
            .collect();
        for id in ids.into_iter().filter(|id| is_large(*id)) {
            let blocks = base.and_then(|base| base.files.blocks.get(&id));
            // If the image's own inode cannot be read, the record still has that of its map.
            let kept = (id == ACTIVE_MAP).then_some(map);
            let (old, new) = (known.get(&id), image.files.inodes.all.get(&id).or(kept));
            let before = match old {
                Some(_) => blocks.copied(),
                None => Some(0),
            };
            let counted = self.pair(fs, image, (old, new), &mut difference, findings);
            if let (Some(before), Some((plus, minus)), Some(inode)) = (before, counted, new) {
                let blocks = (before + plus).saturating_sub(minus);
                // The other image may say the same, and be wrong about it too.
                let is_told = old.is_some_and(|old| (old.blocks, before) == (inode.blocks, blocks));
                image.files.blocks.insert(id, blocks);
                let is_counted = inode.kind != FileKind::Lun || !fs.has_lost;
                if is_counted && !is_told && inode.blocks != blocks {
                    let object = image.files.object_of(fs, id);
                    let expected = format_args!("{blocks} blocks in the tree");
                    let kind = Kind::BlockCount;
                    findings.add(kind, &object, ProblemPlace::NONE, expected, inode.blocks);
                }
            } else if counted.is_none() {
                image.is_partial = true;
            }
        }
        difference
    }

    /// Walks what differs in one file. Returns the blocks that it has more and fewer, if all could
    /// be read.
    fn pair(
        &mut self,
        fs: &FileSystem<'_>,
        image: &Image,
        (old, new): (Option<&Inode>, Option<&Inode>),
        difference: &mut Difference,
        findings: &mut Findings,
    ) -> Option<(u64, u64)> {
        let file = new.or(old)?.id;
        let object = image.files.object_of(fs, file);
        if let Some(new) = new
            && old != Some(new)
        {
            tree::check_levels(new, &object, findings);
        }
        let pair = Pair {
            fs,
            file,
            object: &object,
            old,
            new,
            // A LUN that was being cut short has blocks beyond its end.
            is_bounded: new.is_some_and(|inode| !inode.is_cut) && image.files.is_whole(file),
        };
        let map_blocks = &mut self.map_blocks;
        let walked = pair::walk(&pair, findings, &mut |findings, visit| match visit {
            Visit::Old(pointer) => {
                let vvbn = pointer.vvbn.0;
                difference
                    .old
                    .push(Reference::new(vvbn, file, 0, 0, &pointer));
            }
            Visit::New {
                level,
                index,
                pointer,
            } => {
                let vvbn = pointer.vvbn.0;
                let reference = Reference::new(vvbn, file, level, index, &pointer);
                difference.new.push(reference);
            }
            Visit::Leaf { index, old, new } if file == ACTIVE_MAP => {
                if !pair::is_map_block(file, index) {
                    let place = ProblemPlace::in_tree(0, index, &new);
                    let expected = "no bits beyond the last vvbn";
                    findings.add(Kind::MarkedOutside, &object, place, expected, "a block");
                    return;
                }
                // This block is read to check its tag, and to report a problem once.
                if new.has_block() {
                    map_blocks.insert(index);
                    let spot = (file, 0, index);
                    tree::read(fs, &object, spot, &new, None, findings);
                }
                difference.leaves.push((index, old, new));
            }
            Visit::Leaf { index, old, new } if file == REFCOUNTS => {
                let first = index.saturating_mul(COUNTS_PER_BLOCK);
                let mut is_sound = first < NUMBER_END;
                if new.has_block() {
                    let spot = (file, 0, index);
                    let block = tree::read(fs, &object, spot, &new, None, findings);
                    is_sound &= !block.is_some_and(|block| refcount::is_empty(&block));
                }
                if !is_sound {
                    let place = ProblemPlace::in_tree(0, index, &new);
                    let expected = "counts of vvbns there can be, one of them above zero";
                    let found = format_args!("a block of counts from vvbn {first} on");
                    findings.add(Kind::RefCount, &object, place, expected, found);
                }
                if first < NUMBER_END {
                    difference.counts.push((index, old, new));
                }
            }
            Visit::Unknown(range) if file == REFCOUNTS => {
                let end = range.end.div_ceil(COUNTS_OF_MAP);
                difference.unknown.push(range.start / COUNTS_OF_MAP..end);
            }
            Visit::Unknown(range) if file == ACTIVE_MAP => difference.unknown.push(range),
            Visit::Leaf { .. } | Visit::Unknown(_) => {}
        });
        (!walked.is_partial).then_some((walked.new_blocks, walked.old_blocks))
    }

    /// Definition 1 in one window, and what the container says of references that are new.
    fn check_window(
        &mut self,
        fs: &FileSystem<'_>,
        record: &SnapshotRecord,
        image: &mut Image,
        difference: &Difference,
        findings: &mut Findings,
    ) {
        let mut excess: Vec<(u64, i64)> = Vec::new();
        excess.extend(difference.new.list.iter().map(|it| (it.number, 1)));
        excess.extend(difference.old.list.iter().map(|it| (it.number, -1)));
        let mut unknown: BTreeSet<u64> = BTreeSet::new();
        for (leaf, old, new) in &difference.leaves {
            let first = leaf * BITS_PER_BLOCK;
            if !difference.new.window.contains(&first) {
                continue;
            }
            let (Some(old), Some(new)) = (bits(fs, old), bits(fs, new)) else {
                unknown.insert(*leaf);
                continue;
            };
            let (mut gone, mut come) = (old.clone(), new.clone());
            bitmap::subtract(&mut gone, &new);
            bitmap::subtract(&mut come, &old);
            excess.extend(bitmap::ones(&gone).map(|bit| (first + bit, 1)));
            excess.extend(bitmap::ones(&come).map(|bit| (first + bit, -1)));
        }
        for (leaf, old, new) in &difference.counts {
            let first = leaf * COUNTS_PER_BLOCK;
            if !difference.new.window.contains(&first) {
                continue;
            }
            let (Some(old), Some(new)) = (bits(fs, old), bits(fs, new)) else {
                unknown.insert(leaf / COUNTS_OF_MAP);
                continue;
            };
            for slot in 0..COUNTS_PER_BLOCK {
                let at = usize::try_from(slot).expect("below 2,048");
                let (old, new) = (refcount::get(&old, at), refcount::get(&new, at));
                if old != new {
                    excess.push((first + slot, i64::from(old) - i64::from(new)));
                }
            }
        }
        excess.sort_unstable();
        let new = &difference.new;
        for same in excess.chunk_by(|one, other| one.0 == other.0) {
            let (number, change) = (same[0].0, same.iter().map(|(_, n)| n).sum::<i64>());
            let leaf = number / BITS_PER_BLOCK;
            let is_unknown = difference.unknown.iter().any(|range| range.contains(&leaf));
            if change == 0 || is_unknown || unknown.contains(&leaf) {
                continue;
            }
            let before = image.strays.of.get(&number).copied().unwrap_or(0);
            image.strays.add(number, before + change);
            if !image.strays.are_too_many {
                report_stray(fs, record, image, new, (number, before + change), findings);
            }
        }
        for reference in &new.list {
            self.compare_with_container(fs, image, reference, findings);
        }
    }

    fn compare_with_container(
        &mut self,
        fs: &FileSystem<'_>,
        image: &Image,
        reference: &Reference,
        findings: &mut Findings,
    ) {
        let Some(inside) = &fs.inside else { return };
        if reference.file == FileId(0) {
            return;
        }
        let vvbn = reference.number;
        let Ok(slot) = inside.slot(vvbn) else {
            return;
        };
        let references = [*reference];
        let number = Number {
            number: vvbn,
            marked: None,
            count: None,
            references: &references,
            slot,
            slot_known: true,
        };
        let (object, place) = owner(fs, &image.files, Some(reference), &number);
        if slot.is_hole() {
            let expected = "a block in the container";
            findings.add(Kind::ContainerHole, &object, place, expected, "a hole");
        } else if slot.tag != reference.tag {
            let expected = format_args!("tag {} as in the container", slot.tag);
            let kind = Kind::ContainerTag;
            findings.add(kind, &object, place, expected, reference.tag);
        } else if (reference.is_user_leaf() || reference.is_overflow_leaf())
            && let Some(Bad { fault, .. }) = self.bad.remove(&(inside.volume, vvbn))
        {
            tree::content_fault(findings, &object, place, slot.tag, &fault);
        }
    }

    /// Reads the snapmap of a victim, which is all that is left of its image. Blocks that another
    /// victim has as well are read once.
    pub(super) fn check_snapmap(&mut self, record: &SnapshotRecord, findings: &mut Findings) {
        let fs = self.volume.fs.image(&record.name, record);
        let object = fs.metafile(ACTIVE_MAP);
        let map = &record.active_map;
        let kind = BlockKind::indirect(Layer::Volume);
        let mut row = vec![(0, map.root)];
        for level in (0..=map.levels).rev() {
            let mut below = Vec::new();
            for (index, pointer) in row {
                if !pointer.has_block() || !self.snapmaps.insert(pointer.vvbn.0) {
                    continue;
                }
                let spot = (map.id, level, index);
                let wanted = (level > 0).then_some(kind);
                let block = tree::read(&fs, &object, spot, &pointer, wanted, findings);
                let Some(block) = block else { continue };
                if level == 0 {
                    self.map_blocks.insert(index);
                    continue;
                }
                for slot in 0..SPAN {
                    match Indirect(&block).pointer(slot, Layer::Volume) {
                        Ok(pointer) => below.push((index * SPAN + slot, pointer)),
                        Err(damage) => {
                            let place = ProblemPlace::in_tree(level, index, &pointer);
                            findings.damage(Kind::PointerInvalid, &object, place, &damage);
                        }
                    }
                }
            }
            row = below;
        }
    }
}

/// A block of a map; nothing if it cannot be read.
fn bits(fs: &FileSystem<'_>, pointer: &Pointer) -> Option<Box<Block>> {
    match pointer.has_block() {
        true => fs.read(pointer).ok().map(|block| Box::new(*block)),
        false => Some(Box::new([0; everglade_format::BLOCK_SIZE])),
    }
}

fn report_stray(
    fs: &FileSystem<'_>,
    record: &SnapshotRecord,
    image: &Image,
    new: &References,
    (vvbn, excess): (u64, i64),
    findings: &mut Findings,
) {
    if excess == 0 || excess < 0 && image.is_partial {
        return;
    }
    let references = new.within(&(vvbn..vvbn + 1));
    let inside = fs.inside.as_ref();
    let slot = inside.and_then(|it| it.slot(vvbn).ok());
    let number = Number {
        number: vvbn,
        marked: None,
        count: None,
        references,
        slot: slot.unwrap_or(Pointer::HOLE),
        slot_known: slot.is_some(),
    };
    let (object, place) = owner(fs, &image.files, references.first(), &number);
    let counts = image.files.metafile(REFCOUNTS);
    let counts = counts.and_then(|inode| counts_of(fs, inode, &(vvbn..vvbn + 1)));
    if let Some((_, count)) = counts.and_then(|counts| counts.first().copied()) {
        let expected = format_args!("{} references, by its count", u32::from(count) + 1);
        let there = i64::from(count) + 1 + excess;
        findings.add(Kind::RefCount, &object, place, expected, there);
        return;
    }
    if excess < 0 {
        findings.add(Kind::Leaked, &object, place, "a reference", "none");
        return;
    }
    let leaf = tree::leaf_at(fs, &record.active_map, vvbn / BITS_PER_BLOCK);
    let is_marked = matches!(leaf, Ok(Some(bits)) if bitmap::is_set(&bits, vvbn % BITS_PER_BLOCK));
    let (kind, expected, found) = match is_marked {
        false => (
            Kind::NotMarked,
            "a set bit in the active map",
            "a clear one".to_owned(),
        ),
        true => (
            Kind::DoubleReference,
            "the only reference",
            format!("{excess} more"),
        ),
    };
    findings.add(kind, &object, place, expected, found);
}

/// The fields of a record about its image.
fn check_record(
    fs: &FileSystem<'_>,
    record: &SnapshotRecord,
    image: &Image,
    findings: &mut Findings,
) {
    let object = fs.object();
    let inodes = &image.files.inodes;
    if let Some(map) = inodes.all.get(&ACTIVE_MAP)
        && *map != record.active_map
    {
        let expected = "the inode of the image's active map";
        let found = "another one";
        findings.add(
            Kind::SnapshotRecord,
            &object,
            ProblemPlace::NONE,
            expected,
            found,
        );
    }
    if inodes.partial || image.files.names.partial {
        return;
    }
    let hidden = image.files.names.of.iter().filter(|(_, name)| name.hidden);
    let blocks = hidden.filter_map(|(id, _)| inodes.all.get(id).map(|inode| inode.blocks));
    let pending = blocks.fold(0u64, u64::saturating_add);
    if pending != record.pending {
        let expected = format_args!("{pending} blocks of files being deleted");
        let kind = Kind::SnapshotRecord;
        findings.add(kind, &object, ProblemPlace::NONE, expected, record.pending);
    }
}
