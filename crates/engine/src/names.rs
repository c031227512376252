//! Names: a directory held in memory, its changes written by the consistency point (B-16, E-11).
//!
//! Every entry keeps its slot while it lives. The directory of deleted files works the same way; its
//! entries are found by file id, since two deleted files may have had one name.

use std::collections::{BTreeMap, BTreeSet};

use everglade_format::directory::ENTRIES_PER_BLOCK;
use everglade_format::{Damage, Directory, Entry, FileId};

use crate::load::{Damaged, LoadCx, Stop};
use crate::tree::{Content, File};

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Names {
    entries: BTreeMap<FileId, (u64, Entry)>,
    slots: BTreeMap<u64, FileId>,
    changed: BTreeSet<u64>,
}

impl Names {
    /// Reads a directory; all of it, or it stops.
    pub(crate) fn load(file: &File, cx: &mut LoadCx<'_>) -> Result<Names, Stop> {
        let (names, lost) = Names::load_readable(file, cx)?;
        match lost.into_iter().next() {
            None => Ok(names),
            Some(damaged) => Err(Stop::Damaged(Box::new(damaged))),
        }
    }

    /// Reads what can be read of a directory, and says what cannot.
    pub(crate) fn load_readable(
        file: &File,
        cx: &mut LoadCx<'_>,
    ) -> Result<(Names, Vec<Damaged>), Stop> {
        let mut names = Names::default();
        let mut lost = Vec::new();
        let mut gather = crate::load::Gather::default();
        for block in 0..file.inode.block_count() {
            match names.load_block(file, cx, block) {
                Err(Stop::Damaged(damaged)) => lost.push(*damaged),
                loaded => _ = gather.add(loaded),
            }
        }
        gather.finish()?;
        Ok((names, lost))
    }

    fn load_block(&mut self, file: &File, cx: &mut LoadCx<'_>, block: u64) -> Result<(), Stop> {
        let leaf = file.leaf(cx, block)?;
        for (slot, entry) in Directory::decode(leaf.bytes())? {
            let slot = block * ENTRIES_PER_BLOCK as u64 + slot as u64;
            if let Some((_, first)) = self.entries.get(&entry.file) {
                let found = format!("{} and {}", first.name, entry.name);
                return Err(Damage::new("directory", "one name for each file", found).into());
            }
            self.slots.insert(slot, entry.file);
            self.entries.insert(entry.file, (slot, entry));
        }
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().map(|(_, entry)| entry)
    }

    pub(crate) fn contains(&self, file: FileId) -> bool {
        self.entries.contains_key(&file)
    }

    /// The entry with the lowest file id.
    pub(crate) fn first(&self) -> Option<FileId> {
        self.entries.keys().next().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    pub(crate) fn add(&mut self, entry: Entry) {
        let slot = (0..)
            .find(|slot| !self.slots.contains_key(slot))
            .expect("slots do not run out");
        self.slots.insert(slot, entry.file);
        self.changed.insert(slot);
        assert!(
            self.entries.insert(entry.file, (slot, entry)).is_none(),
            "a file is named twice"
        );
    }

    /// Gives a file another name, in its slot: a block of a directory has the old one or the new one.
    pub(crate) fn rename(&mut self, file: FileId, name: &str) {
        let (slot, entry) = self.entries.get_mut(&file).expect("only what has a name");
        name.clone_into(&mut entry.name);
        self.changed.insert(*slot);
    }

    pub(crate) fn remove(&mut self, file: FileId) -> Option<Entry> {
        let (slot, entry) = self.entries.remove(&file)?;
        self.slots.remove(&slot);
        self.changed.insert(slot);
        Some(entry)
    }

    /// Puts changed entries into the blocks of the directory's file.
    pub(crate) fn write(&mut self, file: &mut File, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
        while let Some(slot) = self.changed.first().copied() {
            let (block, place) = (
                slot / ENTRIES_PER_BLOCK as u64,
                slot % ENTRIES_PER_BLOCK as u64,
            );
            file.grow(block + 1);
            let page = file.modify(cx, 0, block, Content::Keep)?;
            let entry = self
                .slots
                .get(&slot)
                .and_then(|file| self.entries.get(file))
                .map(|(_, e)| e);
            Directory::encode_into(page, usize::try_from(place).expect("below 31"), entry);
            self.changed.remove(&slot);
        }
        Ok(())
    }
}
