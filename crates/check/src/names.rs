//! Names: the directory and the hidden namespace of a file system.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everglade_format::indirect::{BlockKind, HEADER_BYTES};
use everglade_format::{
    BLOCK_SIZE, Directory, EntryKind, FileId, Inode, Layer, directory, metafile,
};

use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::inodes::{Inodes, check_block_count};
use crate::problem::{Kind, Object, ProblemPlace};
use crate::reference::{References, note_reference};
use crate::side_kinds;
use crate::tree::{self, File, Leaves, Visit};

/// Bytes of an entry, also where the entries are in the inode (B-05): one after the other from the
/// first byte on.
const ENTRY_BYTES: usize = 128;

/// The entry of a file in a directory.
pub(crate) struct Name {
    pub(crate) text: Arc<str>,
    pub(crate) hidden: bool,
}

/// All names of a file system.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) of: BTreeMap<FileId, Name>,
    pub(crate) partial: bool,
}

struct Reader<'r> {
    fs: &'r FileSystem<'r>,
    inodes: &'r Inodes,
    object: Object,
    directory: FileId,
    seen: BTreeSet<Arc<str>>,
    names: &'r mut Names,
}

/// Reads both directories.
pub(crate) fn walk(
    fs: &FileSystem<'_>,
    inodes: &Inodes,
    findings: &mut Findings,
    references: &mut References,
) -> Names {
    let mut names = Names::default();
    for directory in [metafile::DIRECTORY, metafile::HIDDEN] {
        let Some(inode) = inodes.all.get(&directory) else {
            // Reported, unless the file system is empty.
            names.partial |= !inodes.all.is_empty() || inodes.partial;
            continue;
        };
        let mut reader = Reader {
            fs,
            inodes,
            object: fs.metafile(directory),
            directory,
            seen: BTreeSet::new(),
            names: &mut names,
        };
        match &inode.inline {
            Some(data) => reader.read_inline(data, findings),
            None => reader.read_tree(inode, findings, references),
        }
    }
    if !names.partial {
        for id in inodes.all.keys() {
            // Volumes name their side files.
            let is_side = |id: &FileId| side_kinds::is_side(inodes.all[id].kind);
            if *id >= metafile::FIRST_FILE && !names.of.contains_key(id) && !is_side(id) {
                let object = fs.file(*id, "file".into());
                let expected = "an entry in directory or hidden namespace";
                findings.add(Kind::Unnamed, &object, ProblemPlace::NONE, expected, "none");
            }
        }
    }
    names
}

impl Reader<'_> {
    fn read_inline(&mut self, data: &[u8], findings: &mut Findings) {
        let mut block = [0; BLOCK_SIZE];
        let whole = data.len().is_multiple_of(ENTRY_BYTES);
        if !whole {
            let expected = format_args!("entries of {ENTRY_BYTES} bytes");
            let found = format_args!("{} bytes in the inode", data.len());
            let kind = Kind::DirectoryDamaged;
            findings.add(kind, &self.object, ProblemPlace::NONE, expected, found);
        }
        block[HEADER_BYTES..HEADER_BYTES + data.len()].copy_from_slice(data);
        self.read_entries(&block, ProblemPlace::NONE, findings);
    }

    fn read_tree(&mut self, inode: &Inode, findings: &mut Findings, references: &mut References) {
        let object = self.object.clone();
        let file = File {
            inode,
            object: &object,
            leaves: Leaves::Headed(BlockKind::Directory),
            range: 0..u64::MAX,
            bounded: true,
        };
        let fs = self.fs;
        let walked = tree::walk(fs, &file, findings, &mut |findings, visit| {
            note_reference(fs, &file, &visit, findings, references);
            if let Visit::Leaf {
                index,
                pointer,
                block,
            } = visit
            {
                self.read_entries(block, ProblemPlace::in_tree(0, index, &pointer), findings);
            }
        });
        self.names.partial |= walked.partial;
        check_block_count(inode, &object, walked, findings);
    }

    fn read_entries(
        &mut self,
        block: &[u8; BLOCK_SIZE],
        place: ProblemPlace,
        findings: &mut Findings,
    ) {
        match Directory::decode(block) {
            Ok(entries) => {
                for (_, entry) in entries {
                    self.read_entry(&entry, place, findings);
                }
            }
            Err(damage) => {
                self.names.partial = true;
                findings.damage(Kind::DirectoryDamaged, &self.object, place, &damage);
            }
        }
    }

    fn read_entry(
        &mut self,
        entry: &directory::Entry,
        place: ProblemPlace,
        findings: &mut Findings,
    ) {
        let hidden = self.directory == metafile::HIDDEN;
        let (id, object) = (entry.file, &self.object);
        let named = format_args!("{:?} of file {id}", entry.name);
        let file = self.inodes.all.get(&id);
        let is_side = file.is_some_and(|inode| side_kinds::is_side(inode.kind));
        let kind = match self.fs.layer() {
            // A side file is named only by its volume, until the side file is deleted.
            Layer::Aggregate if is_side && hidden => EntryKind::Side,
            Layer::Aggregate => EntryKind::Volume,
            Layer::Volume => EntryKind::Lun,
        };
        if entry.kind != kind || is_side && !hidden {
            let found = format_args!("{:?} {named}", entry.kind);
            findings.add(
                Kind::EntryKind,
                object,
                place,
                format_args!("{kind:?}"),
                found,
            );
        }
        let exists = id >= metafile::FIRST_FILE && self.inodes.all.contains_key(&id);
        if !exists && !self.inodes.partial {
            findings.add(Kind::EntryWithoutFile, object, place, "a file", named);
        }
        let text: Arc<str> = entry.name.as_str().into();
        // Objects that were deleted may have had the same name.
        let is_deleted = hidden || entry.is_in_trash();
        if !is_deleted && !self.seen.insert(text.clone()) {
            findings.add(Kind::NameTwice, object, place, "each name once", named);
        }
        match self.names.of.entry(id) {
            Entry::Vacant(place) => {
                place.insert(Name { text, hidden });
            }
            Entry::Occupied(_) => {
                let expected = "one entry for each file";
                let found = format_args!("another: {named}");
                findings.add(Kind::NamedTwice, object, place, expected, found);
            }
        }
    }
}
