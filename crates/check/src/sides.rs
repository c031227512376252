//! Side files: files of the aggregate that belong to a volume besides its container, for its
//! snapshots.
//!
//! No directory names a side file. The volume's superblock names a side file until its deletion,
//! and the hidden namespace names it afterwards. So each side file is named exactly once.

use std::collections::BTreeSet;

use everglade_format::{FileId, Inode, Kind as FileKind};

use crate::files::Files;
use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::problem::{Kind, Object, ProblemPlace};
use crate::side_kinds::{is_side, name};

/// Side files named by volumes.
#[derive(Default)]
pub(crate) struct Sides {
    named: BTreeSet<FileId>,
    /// True if a volume's superblock could not be read: it may name any side file.
    pub(crate) is_partial: bool,
}

impl Sides {
    /// The side file that a volume names; `None` where there is none.
    pub(crate) fn take<'f>(
        &mut self,
        files: &'f Files,
        volume: &Object,
        (id, kind): (FileId, FileKind),
        findings: &mut Findings,
    ) -> Option<&'f Inode> {
        let expected = format_args!("file {id} as its {}", name(kind).unwrap_or("file"));
        let mut wrong = |found: String| {
            findings.add(Kind::SideFile, volume, ProblemPlace::NONE, expected, found);
        };
        let Some(inode) = files.inodes.all.get(&id) else {
            if !files.inodes.partial {
                wrong("no such file".to_owned());
            }
            return None;
        };
        if inode.kind != kind {
            wrong(format!("a file of kind {:?}", inode.kind));
            return None;
        }
        if files.names.of.contains_key(&id) {
            wrong("a file that a directory names".to_owned());
        }
        if !self.named.insert(id) {
            wrong("a file that another volume names".to_owned());
        }
        Some(inode)
    }

    /// Every side file must have been named by now.
    pub(crate) fn finish(&self, fs: &FileSystem<'_>, files: &Files, findings: &mut Findings) {
        if self.is_partial || files.names.partial {
            return;
        }
        for inode in files.inodes.all.values().filter(|it| is_side(it.kind)) {
            if !self.named.contains(&inode.id) && !files.names.of.contains_key(&inode.id) {
                let object = files.object_of(fs, inode.id);
                let expected = "a volume that names it";
                findings.add(Kind::Unnamed, &object, ProblemPlace::NONE, expected, "none");
            }
        }
    }
}
