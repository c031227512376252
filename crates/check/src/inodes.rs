//! The inode file: all inodes of a file system, each checked by itself.

use std::collections::BTreeMap;

use everglade_format::indirect::BlockKind;
use everglade_format::inode::INODES_PER_BLOCK;
use everglade_format::{Block, CpNumber, FileId, Inode, Kind as FileKind, Layer, metafile};

use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::problem::{Kind, Object, ProblemPlace};
use crate::reference::{References, note_reference};
use crate::side_kinds;
use crate::tree::{self, File, Leaves, Visit, Walked};

/// All inodes, and the readable part of their file.
#[derive(Default)]
pub(crate) struct Inodes {
    pub(crate) all: BTreeMap<FileId, Inode>,
    pub(crate) partial: bool,
}

/// Reads the inode file whose inode is `root`; ids must be below `next_file`.
pub(crate) fn walk(
    fs: &FileSystem<'_>,
    root: &Inode,
    next_file: FileId,
    findings: &mut Findings,
    references: &mut References,
) -> Inodes {
    let object = fs.metafile(metafile::INODE_FILE);
    let mut inodes = Inodes::default();
    if root.id != metafile::INODE_FILE || root.kind != FileKind::Metafile || root.inline.is_some() {
        let found = format_args!("{:?} {} in the superblock", root.kind, root.id);
        findings.add(
            Kind::InodeUnexpected,
            &object,
            ProblemPlace::NONE,
            "inode of the inode file",
            found,
        );
        inodes.partial = true;
        return inodes;
    }
    let file = File {
        inode: root,
        object: &object,
        leaves: Leaves::Headed(BlockKind::Inodes),
        range: 0..u64::MAX,
        bounded: true,
    };
    let walked = tree::walk(fs, &file, findings, &mut |findings, visit| {
        note_reference(fs, &file, &visit, findings, references);
        if let Visit::Leaf { index, block, .. } = visit {
            read_block(fs, &object, index, block, next_file, findings, &mut inodes);
        }
    });
    inodes.partial |= walked.partial;
    check_block_count(root, &object, walked, findings);
    // The aggregate is empty until its first consistency point.
    let just_created = fs.cp == CpNumber(0) && root.size_bytes == 0 && root.root.is_hole();
    if !inodes.partial && !just_created {
        check_presence(fs, &inodes, findings);
    }
    inodes
}

fn read_block(
    fs: &FileSystem<'_>,
    object: &Object,
    index: u64,
    block: &Block,
    next_file: FileId,
    findings: &mut Findings,
    inodes: &mut Inodes,
) {
    for (slot, id) in (0..).zip(index * INODES_PER_BLOCK..(index + 1) * INODES_PER_BLOCK) {
        let place = ProblemPlace {
            level: Some(0),
            index: Some(index),
            ..ProblemPlace::NONE
        };
        let Ok(id) = u32::try_from(id).map(FileId) else {
            break;
        };
        match Inode::decode_from(block, slot, id, fs.layer()) {
            Ok(None) => {}
            Ok(Some(inode)) => {
                check(fs, &inode, next_file, findings);
                inodes.all.insert(id, inode);
            }
            Err(damage) => {
                inodes.partial = true;
                let object = match object {
                    Object::File { .. } => fs.file(id, "inode".into()),
                    _ if id < metafile::FIRST_FILE => fs.metafile(id),
                    _ => fs.file(id, "inode".into()),
                };
                findings.damage(Kind::InodeDamaged, &object, place, &damage);
            }
        }
    }
}

fn check(fs: &FileSystem<'_>, inode: &Inode, next_file: FileId, findings: &mut Findings) {
    let id = inode.id;
    let object = fs.file(id, "inode".into());
    let user_kind = match fs.layer() {
        Layer::Aggregate if side_kinds::is_side(inode.kind) => inode.kind,
        Layer::Aggregate => FileKind::Container,
        Layer::Volume => FileKind::Lun,
    };
    let expected = if id >= metafile::FIRST_FILE {
        Some(user_kind)
    } else {
        let known = |known: &&metafile::Metafile| known.id == id && known.is_of(fs.layer());
        metafile::METAFILES
            .iter()
            .find(known)
            .map(|_| FileKind::Metafile)
    };
    if expected != Some(inode.kind) {
        let expected = expected.map_or("no file with this id".into(), |kind| format!("{kind:?}"));
        let found = format_args!("{:?}", inode.kind);
        findings.add(
            Kind::InodeUnexpected,
            &object,
            ProblemPlace::NONE,
            expected,
            found,
        );
    }
    let small = [metafile::DIRECTORY, metafile::HIDDEN, metafile::TOP_AREAS];
    if inode.inline.is_some() && !small.contains(&id) {
        let expected = "a tree of blocks";
        let found = "data in the inode";
        findings.add(
            Kind::InodeUnexpected,
            &object,
            ProblemPlace::NONE,
            expected,
            found,
        );
    }
    if side_kinds::is_side(inode.kind) && inode.levels == 0 {
        let expected = "at least one level, so that it can shrink";
        findings.add(Kind::LevelsTooFew, &object, ProblemPlace::NONE, expected, 0);
    }
    if id >= metafile::FIRST_FILE && id >= next_file {
        let expected = format_args!("an id below {next_file}");
        findings.add(Kind::NextFile, &object, ProblemPlace::NONE, expected, id);
    }
    if inode.cp_created > fs.cp {
        let expected = format_args!("created in consistency point {} at most", fs.cp);
        findings.add(
            Kind::StampAhead,
            &object,
            ProblemPlace::NONE,
            expected,
            inode.cp_created,
        );
    }
}

fn check_presence(fs: &FileSystem<'_>, inodes: &Inodes, findings: &mut Findings) {
    for known in &metafile::METAFILES {
        let wanted = known.is_of(fs.layer()) && !known.is_optional;
        if wanted && !inodes.all.contains_key(&known.id) {
            let object = fs.metafile(known.id);
            findings.add(
                Kind::MetafileMissing,
                &object,
                ProblemPlace::NONE,
                "an inode",
                "none",
            );
        }
    }
}

/// Compares the blocks an inode claims with those that a whole walk met.
pub(crate) fn check_block_count(
    inode: &Inode,
    object: &Object,
    walked: Walked,
    findings: &mut Findings,
) {
    if !walked.partial && walked.blocks != inode.blocks {
        let expected = format_args!("{} blocks in the tree", walked.blocks);
        let found = inode.blocks;
        findings.add(
            Kind::BlockCount,
            object,
            ProblemPlace::NONE,
            expected,
            found,
        );
    }
}
