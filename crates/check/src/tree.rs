//! Trees of blocks: a walk over a file, and the way to one of its leaves.
//!
//! Block (level l, index i) covers the leaves from i × 255^l on; slot s of it is (l − 1, i × 255 +
//! s). The depth is at most six. The walk descends from a block only if its header names the
//! expected place.

use crate::filesystem::pointer_at;
use std::ops::Range;
use std::rc::Rc;

use everglade_format::indirect::BlockKind;
use everglade_format::{Block, FileId, Header, Indirect, Inode, Pointer, SPAN, Tag};

use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::media::Fault;
use crate::problem::{Kind, Object, ProblemPlace};

/// The treatment of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// Leaves are only references.
    Opaque,
    /// Read them.
    Plain,
    /// Read them and check their headers.
    Headed(BlockKind),
}

/// An item that a walk meets.
pub(crate) enum Visit<'b> {
    /// A pointer to block `index` of `level`.
    Reference {
        level: u8,
        index: u64,
        pointer: Pointer,
    },
    /// The content of a leaf, after its reference.
    Leaf {
        index: u64,
        pointer: Pointer,
        block: &'b Block,
    },
}

/// A file to be walked.
pub(crate) struct File<'f> {
    pub(crate) inode: &'f Inode,
    pub(crate) object: &'f Object,
    pub(crate) leaves: Leaves,
    /// Leaves of interest.
    pub(crate) range: Range<u64>,
    /// Blocks beyond the end are wrong (files being shrunk have them).
    pub(crate) bounded: bool,
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    pub(crate) blocks: u64,
    pub(crate) leaves: u64,
    /// True if a part could not be followed.
    pub(crate) partial: bool,
}

type Visitor<'v> = &'v mut dyn FnMut(&mut Findings, Visit<'_>);

struct Walk<'w> {
    fs: &'w FileSystem<'w>,
    file: &'w File<'w>,
    findings: &'w mut Findings,
    visit: Visitor<'w>,
    walked: Walked,
}

/// Walks all of `file` that is in its range, in order.
pub(crate) fn walk(
    fs: &FileSystem<'_>,
    file: &File<'_>,
    findings: &mut Findings,
    visit: Visitor<'_>,
) -> Walked {
    let inode = file.inode;
    check_levels(inode, file.object, findings);
    let mut walk = Walk {
        fs,
        file,
        findings,
        visit,
        walked: Walked::default(),
    };
    if !inode.root.is_hole() {
        walk.block(inode.levels, 0, inode.root);
    }
    walk.walked
}

/// A tree has at least the levels that its size needs.
pub(crate) fn check_levels(inode: &Inode, object: &Object, findings: &mut Findings) {
    let needed = Inode::levels_for(inode.block_count());
    if inode.levels < needed && inode.inline.is_none() {
        let expected = format_args!("{needed} levels for {} blocks", inode.block_count());
        let kind = Kind::LevelsTooFew;
        findings.add(kind, object, ProblemPlace::NONE, expected, inode.levels);
    }
}

impl Walk<'_> {
    fn block(&mut self, level: u8, index: u64, pointer: Pointer) {
        let place = ProblemPlace::in_tree(level, index, &pointer);
        if pointer.is_lost() {
            self.walked.partial = true;
            let expected = "a block";
            self.findings
                .add(Kind::Lost, self.file.object, place, expected, "lost");
            return;
        }
        self.walked.blocks += 1;
        let end = self.file.inode.block_count();
        if self.file.bounded && index.saturating_mul(Inode::reach(level)) >= end {
            let expected = format_args!("nothing beyond block {end}");
            self.findings.add(
                Kind::BeyondEnd,
                self.file.object,
                place,
                expected,
                "a block",
            );
        }
        let reference = Visit::Reference {
            level,
            index,
            pointer,
        };
        (self.visit)(self.findings, reference);
        if level > 0 {
            let kind = BlockKind::indirect(self.fs.layer());
            match self.read(level, index, &pointer, Some(kind)) {
                Some(block) => self.children(level, index, &block),
                None => self.walked.partial = true,
            }
            return;
        }
        self.walked.leaves += 1;
        let header = match self.file.leaves {
            Leaves::Opaque => return,
            Leaves::Plain => None,
            Leaves::Headed(kind) => Some(kind),
        };
        match self.read(0, index, &pointer, header) {
            Some(block) => (self.visit)(
                self.findings,
                Visit::Leaf {
                    index,
                    pointer,
                    block: &block,
                },
            ),
            None => self.walked.partial = true,
        }
    }

    fn children(&mut self, level: u8, index: u64, block: &Block) {
        let layer = self.fs.layer();
        let reach = Inode::reach(level - 1);
        let mut from = 0;
        while let Some(slot) = Indirect(block).next_used(from) {
            from = slot + 1;
            let child = index * SPAN + slot;
            let first = child.saturating_mul(reach);
            if first >= self.file.range.end {
                break;
            }
            if first.saturating_add(reach) <= self.file.range.start {
                continue;
            }
            match Indirect(block).pointer(slot, layer) {
                Ok(pointer) => self.block(level - 1, child, pointer),
                Err(damage) => {
                    self.walked.partial = true;
                    let place = ProblemPlace {
                        level: Some(level - 1),
                        index: Some(child),
                        ..ProblemPlace::NONE
                    };
                    self.findings
                        .damage(Kind::PointerInvalid, self.file.object, place, &damage);
                }
            }
        }
    }

    fn read(
        &mut self,
        level: u8,
        index: u64,
        pointer: &Pointer,
        kind: Option<BlockKind>,
    ) -> Option<Rc<Block>> {
        let (file, object) = (self.file.inode.id, self.file.object);
        let spot = (file, level, index);
        read(self.fs, object, spot, pointer, kind, self.findings)
    }
}

/// Reads block `(file, level, index)` and reports its problems. Blocks that no device has, or that
/// the container lacks, are reported where references are compared with them.
pub(crate) fn read(
    fs: &FileSystem<'_>,
    object: &Object,
    (file, level, index): (FileId, u8, u64),
    pointer: &Pointer,
    kind: Option<BlockKind>,
    findings: &mut Findings,
) -> Option<Rc<Block>> {
    let place = ProblemPlace::in_tree(level, index, pointer);
    let block = match fs.read(pointer) {
        Ok(block) => block,
        Err(fault) => {
            let place = ProblemPlace {
                pvbn: fs.pvbn_of(pointer),
                ..place
            };
            content_fault(findings, object, place, pointer.tag, &fault);
            return None;
        }
    };
    let Some(kind) = kind else { return Some(block) };
    match Header::expect(&block, kind, level, file, index) {
        Ok(header) if header.cp <= fs.cp => Some(block),
        Ok(header) => {
            let expected = format_args!("consistency point {} at most", fs.cp);
            findings.add(Kind::StampAhead, object, place, expected, header.cp);
            Some(block)
        }
        Err(damage) => {
            findings.damage(Kind::HeaderMismatch, object, place, &damage);
            None
        }
    }
}

/// Reports that a block's content cannot be had or does not have the tag `expected`.
pub(crate) fn content_fault(
    findings: &mut Findings,
    object: &Object,
    place: ProblemPlace,
    expected: Tag,
    fault: &Fault,
) {
    match fault {
        Fault::Tag(found) => {
            let expected = format_args!("tag {expected}");
            findings.add(Kind::TagMismatch, object, place, expected, found);
        }
        Fault::Disk(error) => {
            findings.add(Kind::ReadError, object, place, "a readable block", error);
        }
        Fault::Outside | Fault::Unmapped | Fault::Disagreement | Fault::Unknown => {}
    }
}

/// Leaf `fbn` of a file of plain leaves; `None` for a hole.
pub(crate) fn leaf_at(
    fs: &FileSystem<'_>,
    inode: &Inode,
    fbn: u64,
) -> Result<Option<Rc<Block>>, Fault> {
    let pointer = pointer_at(fs, inode, fbn)?;
    if pointer.is_hole() {
        return Ok(None);
    }
    fs.read(&pointer).map(Some)
}
