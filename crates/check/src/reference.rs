//! References: which blocks the trees point at, collected for one window of block numbers at a
//! time.

use std::collections::BTreeSet;
use std::ops::Range;

use everglade_format::{FileId, Layer, Pointer, Pvbn, Tag, Vvbn, metafile};

use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::problem::{Kind, ProblemPlace};
use crate::side_kinds;
use crate::tree::{File, Visit};

/// Blocks in a window: 640 MiB of references when all are in use.
pub(crate) const WINDOW_BLOCKS: u64 = 1 << 24;

const LEVEL_SHIFT: u32 = 56;

/// A pointer and the place it was found for. Forty bytes: there is one for each block in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    /// The block: a pvbn in the aggregate, a vvbn in a volume.
    pub(crate) number: u64,
    pub(crate) tag: Tag,
    /// In a volume, the pvbn that the pointer has for the block.
    pub(crate) cached: Pvbn,
    level_and_index: u64,
    pub(crate) file: FileId,
    /// The file is a side file of a volume, which is metadata down to its leaves.
    is_side: bool,
}

impl Reference {
    /// A reference to `number`, which must be the number of the pointer that counts at its layer.
    pub(crate) fn new(number: u64, file: FileId, level: u8, index: u64, pointer: &Pointer) -> Self {
        assert!(index >> LEVEL_SHIFT == 0, "index {index} in a tree");
        Reference {
            number,
            tag: pointer.tag,
            cached: pointer.pvbn,
            level_and_index: u64::from(level) << LEVEL_SHIFT | index,
            file,
            is_side: false,
        }
    }

    /// Returns the reference as one of a side file.
    pub(crate) fn of_side(self) -> Self {
        Reference {
            is_side: true,
            ..self
        }
    }

    pub(crate) fn level(&self) -> u8 {
        u8::try_from(self.level_and_index >> LEVEL_SHIFT).expect("eight bits")
    }

    pub(crate) fn index(&self) -> u64 {
        self.level_and_index & ((1 << LEVEL_SHIFT) - 1)
    }

    /// A block of any content that the overflow file merely owns.
    pub(crate) fn is_overflow_leaf(&self) -> bool {
        self.file == metafile::OVERFLOW && self.level() == 0
    }

    /// A leaf of a container (in the aggregate) or of a LUN (in a volume).
    pub(crate) fn is_user_leaf(&self) -> bool {
        self.file >= metafile::FIRST_FILE && self.level() == 0 && !self.is_side
    }

    /// True if the walk over the aggregate's trees reads the block: all metadata of the aggregate.
    pub(crate) fn is_walked(&self) -> bool {
        !self.is_user_leaf() && !self.is_overflow_leaf()
    }

    /// Its place, read as a reference of the aggregate.
    pub(crate) fn place_in_aggregate(&self) -> ProblemPlace {
        ProblemPlace {
            pvbn: Some(Pvbn(self.number)),
            ..self.problem_place()
        }
    }

    /// Its place, read as a reference of a volume.
    pub(crate) fn place_in_volume(&self, pvbn: Option<Pvbn>) -> ProblemPlace {
        ProblemPlace {
            vvbn: Some(Vvbn(self.number)),
            pvbn,
            ..self.problem_place()
        }
    }

    fn problem_place(&self) -> ProblemPlace {
        ProblemPlace {
            level: Some(self.level()),
            index: Some(self.index()),
            ..ProblemPlace::NONE
        }
    }
}

/// The references to the blocks of one window, and which windows have any.
pub(crate) struct References {
    pub(crate) window: Range<u64>,
    pub(crate) list: Vec<Reference>,
    /// Windows with references or with bits of the active map.
    pub(crate) touched: BTreeSet<u64>,
}

impl References {
    pub(crate) fn new(window: u64) -> Self {
        let start = window * WINDOW_BLOCKS;
        References {
            window: start..start + WINDOW_BLOCKS,
            list: Vec::new(),
            touched: BTreeSet::new(),
        }
    }

    /// Keeps all references, whatever their number. For small files.
    pub(crate) fn everything() -> Self {
        References {
            window: 0..u64::MAX,
            ..References::new(0)
        }
    }

    /// Notes that there is something to compare near `number`.
    pub(crate) fn touch(&mut self, number: u64) {
        self.touched.insert(number / WINDOW_BLOCKS);
    }

    pub(crate) fn push(&mut self, reference: Reference) {
        self.touch(reference.number);
        if self.window.contains(&reference.number) {
            self.list.push(reference);
        }
    }

    pub(crate) fn sort(&mut self) {
        self.list
            .sort_unstable_by_key(|r| (r.number, r.file, r.level_and_index));
    }

    /// References to the blocks of `range`; they must have been sorted.
    pub(crate) fn within(&self, range: &Range<u64>) -> &[Reference] {
        let from = self.list.partition_point(|r| r.number < range.start);
        let to = self.list.partition_point(|r| r.number < range.end);
        &self.list[from..to]
    }
}

/// Notes the reference of a visit under the number that counts at the layer.
pub(crate) fn note_reference(
    fs: &FileSystem<'_>,
    file: &File<'_>,
    visit: &Visit<'_>,
    findings: &mut Findings,
    references: &mut References,
) {
    let Visit::Reference {
        level,
        index,
        pointer,
    } = visit
    else {
        return;
    };
    let number = match fs.layer() {
        Layer::Aggregate => pointer.pvbn.0,
        Layer::Volume => pointer.vvbn.0,
    };
    if fs.layer() == Layer::Aggregate && fs.media.geometry.locate(pointer.pvbn).is_none() {
        let place = ProblemPlace::in_tree(*level, *index, pointer);
        let expected = "a block of an extent";
        let found = pointer.pvbn;
        findings.add(Kind::OutsideExtents, file.object, place, expected, found);
        return;
    }
    let reference = Reference::new(number, file.inode.id, *level, *index, pointer);
    references.push(match side_kinds::is_side(file.inode.kind) {
        true => reference.of_side(),
        false => reference,
    });
}
