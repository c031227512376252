//! Names: a directory held in memory, its changes written by the consistency point (B-16, E-11).
//!
//! Every entry keeps its slot while it lives. The directory of deleted files works the same way;
//! its entries are found by file id, because two deleted files may have had the same name.

use std::collections::{BTreeMap, BTreeSet};

use everglade_format::directory::ENTRIES_PER_BLOCK;
use everglade_format::{Damage, Directory, Entry, FileId};

use crate::read::load::{Damaged, LoadCx, Stop, unless_damaged};
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
        unless_damaged(names, lost)
    }

    /// Reads what can be read of a directory, and says what cannot.
    pub(crate) fn load_readable(
        file: &File,
        cx: &mut LoadCx<'_>,
    ) -> Result<(Names, Vec<Damaged>), Stop> {
        let mut names = Names::default();
        let mut lost = Vec::new();
        let mut gather = crate::read::load::Gather::default();
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

    /// All entries, those of objects in the trash included.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().map(|(_, entry)| entry)
    }

    pub(crate) fn contains(&self, file: FileId) -> bool {
        self.entries.contains_key(&file)
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

    /// Gives a file another name, in its slot: a block of a directory has the old one or the new
    /// one.
    pub(crate) fn rename(&mut self, file: FileId, name: &str) {
        let (slot, entry) = self.entries.get_mut(&file).expect("only what has a name");
        name.clone_into(&mut entry.name);
        self.changed.insert(*slot);
    }

    /// The object is in the trash from `seconds` on, under the name that it has.
    pub(crate) fn put_into_trash(&mut self, file: FileId, seconds: u64) {
        let (slot, entry) = self.entries.get_mut(&file).expect("only what has a name");
        // 0 says that it is not there.
        entry.deleted_seconds = seconds.max(1);
        self.changed.insert(*slot);
    }

    /// The object is not in the trash any more, if it was, and has this name.
    pub(crate) fn revive(&mut self, file: FileId, name: &str) {
        let (slot, entry) = self.entries.get_mut(&file).expect("only what has a name");
        if entry.is_in_trash() || entry.name != name {
            entry.deleted_seconds = 0;
            name.clone_into(&mut entry.name);
            self.changed.insert(*slot);
        }
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

#[cfg(test)]
mod tests {
    use everglade_format::metafile::DIRECTORY;
    use everglade_format::{CpNumber, EntryKind, Inode, Kind, Layer};

    use super::*;
    use crate::read::fixture::Shelf;

    fn entry(file: u32, name: &str) -> Entry {
        Entry::new(FileId(file), EntryKind::Lun, name)
    }

    /// Writes the changes into blocks, and reads a directory from them.
    fn read_again(names: &mut Names, file: &mut File) -> Vec<(u64, String)> {
        let (outcome, _) = Shelf::new().load(|cx| {
            names.write(file, cx)?;
            Names::load(file, cx)
        });
        let read = outcome.unwrap_or_else(|stop| panic!("{stop:?}"));
        let mut all: Vec<(u64, String)> = read
            .entries
            .values()
            .map(|(slot, entry)| (*slot, entry.name.clone()))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn entries_keep_their_slots_and_new_ones_take_the_first_free_slot() {
        let inode = Inode::new(DIRECTORY, Kind::Metafile, CpNumber(1), 0);
        let mut file = File::new(inode, Layer::Volume);
        let mut names = Names::default();
        for (number, name) in [(20, "a"), (21, "b"), (22, "c")] {
            names.add(entry(number, name));
        }
        names.remove(FileId(21)).expect("it is there");
        names.rename(FileId(22), "d");
        assert!(names.is_changed());
        let named = |slot, name: &str| (slot, name.to_owned());
        assert_eq!(
            read_again(&mut names, &mut file),
            [named(0, "a"), named(2, "d")]
        );
        assert!(!names.is_changed(), "all of it was written");
        names.add(entry(23, "e"));
        assert_eq!(
            read_again(&mut names, &mut file),
            [named(0, "a"), named(1, "e"), named(2, "d")]
        );
    }

    #[test]
    fn names_fill_several_blocks() {
        let inode = Inode::new(DIRECTORY, Kind::Metafile, CpNumber(1), 0);
        let mut file = File::new(inode, Layer::Volume);
        let mut names = Names::default();
        for number in 0..100 {
            names.add(entry(100 + number, &format!("lun{number}")));
        }
        assert_eq!(read_again(&mut names, &mut file).len(), 100);
        let blocks = 100_u64.div_ceil(ENTRIES_PER_BLOCK as u64);
        assert_eq!(file.inode.block_count(), blocks);
        assert_eq!(names.iter().next().map(|it| it.file), Some(FileId(100)));
    }

    #[test]
    fn what_has_no_name_cannot_lose_it() {
        assert_eq!(Names::default().remove(FileId(20)), None);
    }
}
