//! All files of a file system: every tree is walked, every reference noted. One walk for both
//! layers.

use std::collections::BTreeMap;
use std::sync::Arc;

use everglade_format::indirect::BlockKind;
use everglade_format::number::NUMBER_END;
use everglade_format::{
    BITS_PER_BLOCK, FileId, Inode, Kind as FileKind, Layer, TopAreas, metafile, refcount,
};

use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::inodes::{self, Inodes, check_block_count};
use crate::names::{self, Names};
use crate::notes::Notes;
use crate::problem::{Kind, Object, ProblemPlace};
use crate::reference::{References, note_reference};
use crate::side_kinds;
use crate::tree::{self, File, Leaves, Visit};

/// The result of a walk over a file system.
pub(crate) struct Files {
    pub(crate) inodes: Inodes,
    pub(crate) names: Names,
    /// True if a tree could not be followed to its end: blocks may seem lost that are not.
    pub(crate) partial: bool,
    /// True if a part of the active map could not be read.
    pub(crate) bits_partial: bool,
    /// Leaves of LUNs or containers that are not hidden.
    pub(crate) mapped: u64,
    /// Holes of the same files.
    pub(crate) holes: u64,
    /// Blocks the overflow file owns.
    pub(crate) overflow: u64,
    /// Blocks of the trees that could be read to their ends.
    pub(crate) blocks: BTreeMap<FileId, u64>,
}

/// Walks the file system whose inode file is `root`.
pub(crate) fn walk(
    fs: &FileSystem<'_>,
    root: &Inode,
    next_file: FileId,
    findings: &mut Findings,
    references: &mut References,
) -> Files {
    let inodes = inodes::walk(fs, root, next_file, findings, references);
    let names = names::walk(fs, &inodes, findings, references);
    let mut files = Files::new(fs, inodes, names);
    let ids: Vec<FileId> = files.inodes.all.keys().copied().collect();
    for id in ids {
        if id != metafile::DIRECTORY && id != metafile::HIDDEN {
            files.walk_file(fs, id, findings, references);
        }
    }
    files
}

impl Files {
    /// Files whose inodes and names are known, before any of their trees is.
    pub(crate) fn new(fs: &FileSystem<'_>, inodes: Inodes, names: Names) -> Files {
        Files {
            partial: inodes.partial || names.partial || fs.has_lost,
            inodes,
            names,
            bits_partial: false,
            mapped: 0,
            holes: 0,
            overflow: 0,
            blocks: BTreeMap::new(),
        }
    }

    /// True for a file whose tree ends where its size says (files being deleted have more).
    pub(crate) fn is_whole(&self, id: FileId) -> bool {
        match self.names.of.get(&id) {
            Some(name) => !name.hidden,
            None => id < metafile::FIRST_FILE || side_kinds::is_side(self.inodes.all[&id].kind),
        }
    }

    pub(crate) fn walk_file(
        &mut self,
        fs: &FileSystem<'_>,
        id: FileId,
        findings: &mut Findings,
        references: &mut References,
    ) {
        let inode = &self.inodes.all[&id];
        let object = self.object_of(fs, id);
        let visible = self.is_whole(id);
        let file = File {
            inode,
            object: &object,
            leaves: leaves_of(inode),
            range: 0..u64::MAX,
            bounded: visible && !inode.is_cut,
        };
        let mut next_leaf = 0;
        let mut notes = Notes::default();
        let walked = tree::walk(fs, &file, findings, &mut |findings, visit| {
            note_reference(fs, &file, &visit, findings, references);
            match visit {
                Visit::Reference {
                    level: 0, index, ..
                } if id == metafile::OVERFLOW => {
                    if index != next_leaf {
                        let place = ProblemPlace {
                            level: Some(0),
                            index: Some(next_leaf),
                            ..ProblemPlace::NONE
                        };
                        let kind = Kind::OverflowGap;
                        findings.add(kind, &object, place, "a block", "a hole");
                    }
                    next_leaf = index + 1;
                }
                Visit::Reference {
                    level: 0,
                    index,
                    pointer,
                } if id == metafile::ACTIVE_MAP => {
                    let first = index.saturating_mul(BITS_PER_BLOCK);
                    if first < NUMBER_END {
                        references.touch(first);
                    } else {
                        let place = ProblemPlace::in_tree(0, index, &pointer);
                        let expected = format_args!("no bits beyond {NUMBER_END}");
                        let found = format_args!("a block of bits from {first} on");
                        findings.add(Kind::MarkedOutside, &object, place, expected, found);
                    }
                }
                Visit::Leaf {
                    index,
                    pointer,
                    block,
                } if id == metafile::REFCOUNTS => {
                    let first = index.saturating_mul(refcount::COUNTS_PER_BLOCK);
                    let place = ProblemPlace::in_tree(0, index, &pointer);
                    let expected = "counts of vvbns there can be, one of them above zero";
                    if first >= NUMBER_END || refcount::is_empty(block) {
                        let found = format_args!("a block of counts from vvbn {first} on");
                        findings.add(Kind::RefCount, &object, place, expected, found);
                    }
                    if first < NUMBER_END {
                        references.touch(first);
                    }
                }
                Visit::Leaf {
                    index,
                    pointer,
                    block,
                } if id == metafile::NOTES => {
                    notes.read(
                        block,
                        ProblemPlace::in_tree(0, index, &pointer),
                        &object,
                        findings,
                    );
                }
                Visit::Leaf {
                    index,
                    pointer,
                    block,
                } if id == metafile::TOP_AREAS => {
                    if let Err(damage) = TopAreas::decode(block) {
                        let place = ProblemPlace::in_tree(0, index, &pointer);
                        findings.damage(Kind::TopAreasDamaged, &object, place, &damage);
                    }
                }
                _ => {}
            }
        });
        // An inode still counts blocks that were lost together with the pointers to them.
        if !fs.has_lost || inode.kind != FileKind::Lun {
            check_block_count(inode, &object, walked, findings);
        }
        if !walked.partial {
            self.blocks.insert(id, walked.blocks);
        }
        self.partial |= walked.partial;
        self.bits_partial |= walked.partial && id == metafile::ACTIVE_MAP;
        if id == metafile::OVERFLOW {
            self.overflow = walked.leaves;
        } else if id >= metafile::FIRST_FILE && visible && !side_kinds::is_side(inode.kind) {
            self.mapped += walked.leaves;
            self.holes += inode.block_count().saturating_sub(walked.leaves);
        }
    }

    /// The inode of a metafile, if there is one.
    pub(crate) fn metafile(&self, id: FileId) -> Option<&Inode> {
        self.inodes.all.get(&id)
    }

    /// A file under its name; 0 stands for the file system itself.
    pub(crate) fn object_of(&self, fs: &FileSystem<'_>, id: FileId) -> Object {
        if id == FileId(0) {
            return fs.object();
        }
        if id < metafile::FIRST_FILE {
            return fs.metafile(id);
        }
        let what = match fs.layer() {
            Layer::Aggregate => "container of",
            Layer::Volume => "LUN",
        };
        let side = self
            .inodes
            .all
            .get(&id)
            .and_then(|it| side_kinds::name(it.kind));
        let name: Arc<str> = match self.names.of.get(&id) {
            Some(name) if name.hidden && side.is_some() => {
                format!("deleted side file of {}", name.text).into()
            }
            None if side.is_some() => side.unwrap_or_default().into(),
            Some(name) if name.hidden => format!("deleted {what} {}", name.text).into(),
            Some(name) => format!("{what} {}", name.text).into(),
            None => "unnamed file".into(),
        };
        fs.file(id, name)
    }
}

fn leaves_of(inode: &Inode) -> Leaves {
    match inode.kind {
        FileKind::Summary => return Leaves::Plain,
        FileKind::Snapshots => return Leaves::Headed(BlockKind::Snapshots),
        FileKind::Release => return Leaves::Headed(BlockKind::Releases),
        FileKind::Metafile | FileKind::Lun | FileKind::Container => {}
    }
    match inode.id {
        metafile::ACTIVE_MAP | metafile::CONTEXT_MAP | metafile::REFCOUNTS => Leaves::Plain,
        metafile::TOP_AREAS => Leaves::Headed(BlockKind::TopAreas),
        metafile::NOTES => Leaves::Headed(BlockKind::Notes),
        _ => Leaves::Opaque,
    }
}
