//! Pairs of trees: the blocks that a file has in one image and not in another.
//!
//! The verifier walks both trees side by side from their roots. Blocks are written once, so equal
//! pointers mean equal subtrees, and neither pointer is followed. So the cost of a thousand
//! snapshots is the sum of their differences.

use std::ops::Range;
use std::rc::Rc;

use everglade_format::indirect::BlockKind;
use everglade_format::{
    BITS_PER_BLOCK, Block, FileId, Header, Indirect, Inode, Layer, Pointer, SPAN, metafile,
};

use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::problem::{Kind, Object, ProblemPlace};
use crate::tree;

/// A file in one image, to be compared with the same file in another that was verified before.
pub(super) struct Pair<'p> {
    pub(super) fs: &'p FileSystem<'p>,
    pub(super) file: FileId,
    pub(super) object: &'p Object,
    /// Inode in the known image.
    pub(super) old: Option<&'p Inode>,
    /// Inode in the image being verified.
    pub(super) new: Option<&'p Inode>,
    /// Blocks beyond the end are wrong.
    pub(super) is_bounded: bool,
}

/// An item that a walk meets.
pub(super) enum Visit {
    /// A block of the known image that the other does not have here.
    Old(Pointer),
    /// A block of the image being verified that the other does not have here.
    New {
        level: u8,
        index: u64,
        pointer: Pointer,
    },
    /// A leaf that differs; a hole stands for none.
    Leaf {
        index: u64,
        old: Pointer,
        new: Pointer,
    },
    /// Leaves of which nothing is known.
    Unknown(Range<u64>),
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walked {
    pub(super) old_blocks: u64,
    pub(super) new_blocks: u64,
    /// True if a part could not be followed.
    pub(super) is_partial: bool,
}

/// The root of a tree: its level, and the pointer to it.
#[derive(Clone, Copy)]
struct Side {
    level: u8,
    pointer: Pointer,
}

impl Side {
    const NONE: Side = Side {
        level: 0,
        pointer: Pointer::HOLE,
    };

    fn of(inode: Option<&Inode>) -> Side {
        inode.map_or(Side::NONE, |inode| Side {
            level: inode.levels,
            pointer: inode.root,
        })
    }

    /// The block at `level`, which a tree that is less high does not have.
    fn at(&self, level: u8) -> Pointer {
        match self.level == level && self.pointer.has_block() {
            true => self.pointer,
            false => Pointer::HOLE,
        }
    }
}

struct Walk<'w> {
    pair: &'w Pair<'w>,
    findings: &'w mut Findings,
    visit: &'w mut dyn FnMut(&mut Findings, Visit),
    walked: Walked,
    /// Leaves from here on are beyond the end of the new tree but not of the old one.
    end: u64,
}

/// Walks the blocks that differ between the two trees.
pub(super) fn walk(
    pair: &Pair<'_>,
    findings: &mut Findings,
    visit: &mut dyn FnMut(&mut Findings, Visit),
) -> Walked {
    let (old, new) = (Side::of(pair.old), Side::of(pair.new));
    let count = |inode: Option<&Inode>| inode.map_or(0, Inode::block_count);
    let end = match pair.is_bounded && count(pair.new) < count(pair.old) {
        true => count(pair.new),
        false => u64::MAX,
    };
    let mut walk = Walk {
        pair,
        findings,
        visit,
        walked: Walked::default(),
        end,
    };
    walk.block(old.level.max(new.level), 0, old, new);
    walk.walked
}

/// True if two pointers name the same block. Their pvbns may differ, because those are hints.
fn same(old: &Pointer, new: &Pointer) -> bool {
    (old.vvbn, old.tag) == (new.vvbn, new.tag)
}

impl Walk<'_> {
    fn block(&mut self, level: u8, index: u64, old: Side, new: Side) {
        let reach = Inode::reach(level);
        let first = index.saturating_mul(reach);
        let is_inside = first.saturating_add(reach) <= self.end;
        if old.level == new.level && same(&old.pointer, &new.pointer) && is_inside {
            return;
        }
        if new.level == level
            && new.pointer.is_lost()
            && !(old.level == level && old.pointer.is_lost())
        {
            self.walked.is_partial = true;
            let place = ProblemPlace::in_tree(level, index, &new.pointer);
            self.findings
                .add(Kind::Lost, self.pair.object, place, "a block", "lost");
        }
        let (old_here, new_here) = (old.at(level), new.at(level));
        if old_here.has_block() {
            self.walked.old_blocks += 1;
            (self.visit)(self.findings, Visit::Old(old_here));
        }
        if new_here.has_block() {
            self.new_block(level, index, new_here);
        }
        if level > 0 {
            self.children(level, index, old, new);
        } else if old_here.has_block() || new_here.has_block() {
            let (old, new) = (old_here, new_here);
            (self.visit)(self.findings, Visit::Leaf { index, old, new });
        }
    }

    fn new_block(&mut self, level: u8, index: u64, pointer: Pointer) {
        self.walked.new_blocks += 1;
        let end = self.pair.new.map_or(0, Inode::block_count);
        if self.pair.is_bounded && index.saturating_mul(Inode::reach(level)) >= end {
            let place = ProblemPlace::in_tree(level, index, &pointer);
            let expected = format_args!("nothing beyond block {end}");
            self.findings.add(
                Kind::BeyondEnd,
                self.pair.object,
                place,
                expected,
                "a block",
            );
        }
        let visit = Visit::New {
            level,
            index,
            pointer,
        };
        (self.visit)(self.findings, visit);
    }

    fn children(&mut self, level: u8, index: u64, old: Side, new: Side) {
        let layer = Layer::Volume;
        let kind = BlockKind::indirect(layer);
        let (file, fs) = (self.pair.file, self.pair.fs);
        let reach = Inode::reach(level);
        let unknown = || {
            let first = index.saturating_mul(reach);
            Visit::Unknown(first..first.saturating_add(reach))
        };
        let (old_here, new_here) = (old.at(level), new.at(level));
        let spot = (file, level, index);
        let object = self.pair.object;
        let mut new_block = None;
        if new_here.has_block() {
            new_block = tree::read(fs, object, spot, &new_here, Some(kind), self.findings);
            if new_block.is_none() {
                self.walked.is_partial = true;
                (self.visit)(self.findings, unknown());
            }
        }
        let mut old_block = None;
        if old_here.has_block() {
            // The unreadable block was reported when the other image was verified, and its
            // references were not counted then.
            let is_sound =
                |block: &Rc<Block>| Header::expect(block, kind, level, file, index).is_ok();
            old_block = fs.read(&old_here).ok().filter(is_sound);
            if old_block.is_none() {
                (self.visit)(self.findings, unknown());
            }
        }
        for slot in 0..SPAN {
            let mut child = |side: Side, block: Option<&Block>, is_new: bool| {
                if side.level < level {
                    return if index == 0 && slot == 0 {
                        side
                    } else {
                        Side::NONE
                    };
                }
                let pointer = match block.map(|block| Indirect(block).pointer(slot, layer)) {
                    None => Pointer::HOLE,
                    Some(Ok(pointer)) => pointer,
                    Some(Err(damage)) => {
                        if is_new {
                            self.walked.is_partial = true;
                            let place = ProblemPlace {
                                level: Some(level - 1),
                                index: Some(index * SPAN + slot),
                                ..ProblemPlace::NONE
                            };
                            let (kind, object) = (Kind::PointerInvalid, self.pair.object);
                            self.findings.damage(kind, object, place, &damage);
                        }
                        Pointer::HOLE
                    }
                };
                Side {
                    level: level - 1,
                    pointer,
                }
            };
            let old = child(old, old_block.as_deref(), false);
            let new = child(new, new_block.as_deref(), true);
            if old.pointer.is_hole() && new.pointer.is_hole() {
                continue;
            }
            self.block(level - 1, index * SPAN + slot, old, new);
        }
    }
}

/// Map blocks among leaves of an active map that a vvbn can have.
pub(super) fn is_map_block(file: FileId, index: u64) -> bool {
    file == metafile::ACTIVE_MAP
        && index.saturating_mul(BITS_PER_BLOCK) < everglade_format::number::NUMBER_END
}
