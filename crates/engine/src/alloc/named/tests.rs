//! Mounts of a volume or an aggregate whose inode file is in memory.

use everglade_env::{BLOCK_SIZE, Page};
use everglade_format::indirect::HEADER_BYTES;
use everglade_format::inode::INODE_BYTES;
use everglade_format::metafile::{ACTIVE_MAP, CONTEXT_MAP, DIRECTORY, HIDDEN, METAFILES};
use everglade_format::{CpNumber, Directory, Entry, EntryKind, FileId, Inode, Kind, Layer, Vvbn};

use super::{Absent, load_file_system, load_readable};
use crate::alloc::filesystem::FileSystem;
use crate::alloc::fixture::file_system;
use crate::read::fixture::Shelf;
use crate::read::load::Stop;
use crate::tree::Content;

/// The blocks on media.
struct Media {
    shelf: Shelf,
    fs: FileSystem,
    kind: EntryKind,
}

fn entry(file: u32, kind: EntryKind, name: &str) -> Entry {
    Entry::new(FileId(file), kind, name)
}

fn lun(file: u32, name: &str) -> Entry {
    entry(file, EntryKind::Lun, name)
}

impl Media {
    /// A file system without names, whose next file is number 80.
    fn new(layer: Layer) -> Media {
        let mut fs = file_system(layer, 1024, &[(0, 1)]);
        fs.files.clear();
        fs.next_file = FileId(80);
        fs.inode_file.grow(6);
        let shelf = Shelf::new();
        let changed = shelf.load(|cx| {
            (0..6).try_for_each(|block| {
                let page = fs.inode_file.modify(cx, 0, block, Content::Fresh);
                page.map(|_| ())
            })
        });
        changed.0.expect("nothing is loaded for fresh blocks");
        let kind = match layer {
            Layer::Aggregate => EntryKind::Volume,
            Layer::Volume => EntryKind::Lun,
        };
        let mut media = Media { shelf, fs, kind };
        for metafile in METAFILES
            .iter()
            .filter(|it| it.is_of(layer) && !it.is_optional)
        {
            media.put(&Inode::new(metafile.id, Kind::Metafile, CpNumber(1), 0));
        }
        media
    }

    fn slot(&mut self, id: FileId) -> (&mut Page, usize) {
        let (block, slot) = Inode::block_and_slot(id);
        let page = self.fs.inode_file.changed_page(0, block);
        (page.expect("all are changed"), slot)
    }

    fn put(&mut self, inode: &Inode) {
        let layer = self.fs.layer;
        let (page, slot) = self.slot(inode.id);
        inode.encode_into(page, slot, layer);
    }

    fn put_file(&mut self, file: u32, kind: Kind) -> Inode {
        let mut inode = Inode::new(FileId(file), kind, CpNumber(1), 0);
        (inode.levels, inode.size_bytes) = (1, 8192);
        self.put(&inode);
        inode
    }

    /// Writes nonsense over an inode.
    fn damage(&mut self, file: FileId) {
        let (page, slot) = self.slot(file);
        let at = HEADER_BYTES + slot * INODE_BYTES;
        page[at..at + 64].fill(0xa5);
    }

    fn put_directory(&mut self, id: FileId, page: Page) {
        let mut root = self.shelf.put(page);
        if self.fs.layer == Layer::Aggregate {
            root.vvbn = Vvbn(0);
        }
        let mut inode = Inode::new(id, Kind::Metafile, CpNumber(1), 0);
        (inode.size_bytes, inode.blocks, inode.root) = (BLOCK_SIZE as u64, 1, root);
        self.put(&inode);
    }

    fn name(&mut self, id: FileId, entries: &[Entry]) {
        let mut page = Page::zeroed();
        for (slot, entry) in entries.iter().enumerate() {
            Directory::encode_into(&mut page, slot, Some(entry));
        }
        self.put_directory(id, page);
    }

    fn mount(&mut self) -> Vec<Absent> {
        let Media { shelf, fs, kind } = self;
        let (loaded, _) = shelf.load(|cx| load_readable(fs, cx, *kind));
        loaded.expect("damage stops no mount")
    }

    fn names(&self) -> Vec<(u32, &str)> {
        let names = self.fs.directory.iter();
        names
            .map(|entry| (entry.file.0, entry.name.as_str()))
            .collect()
    }
}

fn what(absent: &[Absent]) -> Vec<&str> {
    absent.iter().map(|it| it.what.as_str()).collect()
}

#[test]
fn named_files_are_found_with_what_is_left_to_do_for_them() {
    let mut media = Media::new(Layer::Volume);
    media.put_file(64, Kind::Lun);
    let cut = media.put_file(65, Kind::Lun);
    media.put(&Inode {
        is_cut: true,
        ..cut
    });
    let deleted = media.put_file(66, Kind::Lun);
    media.put(&Inode {
        is_cut: true,
        ..deleted
    });
    media.put_file(67, Kind::Lun);
    media.name(DIRECTORY, &[lun(64, "a"), lun(65, "b")]);
    media.name(HIDDEN, &[lun(66, "a")]);
    assert!(media.mount().is_empty());
    assert_eq!(media.names(), [(64, "a"), (65, "b")]);
    assert_eq!(media.fs.deleted().collect::<Vec<_>>(), [FileId(66)]);
    let cut: Vec<_> = media.fs.cut.iter().collect();
    assert_eq!(cut, [&FileId(65)], "a deleted LUN goes as a whole");
    assert!(!media.fs.files.contains_key(&FileId(67)), "nobody names it");
    assert!(!media.fs.has_counts, "it has no refcount file");
}

#[test]
fn a_damaged_inode_costs_its_own_lun_only() {
    let mut media = Media::new(Layer::Volume);
    (64..67).for_each(|file| _ = media.put_file(file, Kind::Lun));
    media.damage(FileId(65));
    media.name(DIRECTORY, &[lun(64, "a"), lun(65, "b"), lun(66, "c")]);
    let absent = media.mount();
    assert_eq!(what(&absent), ["LUN b"]);
    assert_eq!(media.names(), [(64, "a"), (66, "c")]);
    let Media { shelf, fs, kind } = &mut media;
    let (all, _) = shelf.load(|cx| load_file_system(fs, cx, *kind));
    assert!(
        matches!(all, Err(Stop::Damaged(_))),
        "whoever needs all stops"
    );
}

#[test]
fn a_name_that_leads_to_another_kind_of_file_or_beyond_the_last_is_left_out() {
    let mut media = Media::new(Layer::Volume);
    media.put_file(64, Kind::Summary);
    media.put_file(80, Kind::Lun);
    let mut flat = media.put_file(66, Kind::Lun);
    (flat.levels, flat.size_bytes) = (0, 4096);
    media.put(&flat);
    media.put_file(67, Kind::Lun);
    media.name(
        DIRECTORY,
        &[
            lun(64, "side"),
            lun(80, "late"),
            lun(66, "flat"),
            lun(67, "good"),
            lun(68, "none"),
        ],
    );
    let mut absent = media.mount();
    absent.sort_by(|a, b| a.what.cmp(&b.what));
    assert_eq!(
        what(&absent),
        ["LUN flat", "LUN late", "LUN none", "LUN side"]
    );
    assert_eq!(media.names(), [(67, "good")]);
}

#[test]
fn luns_of_a_damaged_directory_get_names_that_nobody_has() {
    let mut media = Media::new(Layer::Volume);
    (64..67).for_each(|file| _ = media.put_file(file, Kind::Lun));
    media.put_file(68, Kind::Summary);
    media.put_directory(DIRECTORY, Page::copy_of(&[0xa5; BLOCK_SIZE]));
    media.name(HIDDEN, &[lun(65, "lun-64")]);
    let absent = media.mount();
    assert_eq!(what(&absent), ["names"]);
    assert_eq!(media.names(), [(64, "lun-64-"), (66, "lun-66")]);
    assert!(
        media.fs.hidden.contains(FileId(65)),
        "a deleted LUN stays deleted"
    );
    assert!(!media.fs.files.contains_key(&FileId(68)), "it is no LUN");
}

#[test]
fn without_the_inodes_of_metafiles_volumes_are_found_by_their_numbers() {
    let mut media = Media::new(Layer::Aggregate);
    media.put_file(64, Kind::Container);
    media.damage(DIRECTORY);
    let absent = media.mount();
    assert_eq!(what(&absent), ["inodes of metafiles"]);
    assert_eq!(media.names(), [(64, "volume-64")]);
    let empty = &media.fs.files[&DIRECTORY].inode;
    assert_eq!(empty.block_count(), 0, "everybody finds an empty one");
}

#[test]
fn a_metafile_that_must_be_there_is_missed_and_an_optional_one_is_not() {
    let mut media = Media::new(Layer::Aggregate);
    assert!(media.mount().is_empty(), "neither notes nor counts");
    let mut media = Media::new(Layer::Aggregate);
    let (page, slot) = media.slot(CONTEXT_MAP);
    Inode::erase(page, slot);
    assert_eq!(what(&media.mount()), ["inodes of metafiles"]);
    let mut media = Media::new(Layer::Volume);
    assert!(media.mount().is_empty());
    assert!(
        !media.fs.files.contains_key(&CONTEXT_MAP),
        "a volume has none"
    );
    assert!(media.fs.files.contains_key(&ACTIVE_MAP));
}

#[test]
fn a_side_file_has_a_name_only_while_it_is_deleted_from_an_aggregate() {
    let side = |file| entry(file, EntryKind::Side, "vol0");
    let mut media = Media::new(Layer::Aggregate);
    media.put_file(64, Kind::Summary);
    media.put_file(65, Kind::Summary);
    media.name(DIRECTORY, &[side(64)]);
    media.name(HIDDEN, &[side(65)]);
    assert_eq!(what(&media.mount()), ["volume vol0"]);
    assert_eq!(media.fs.deleted().collect::<Vec<_>>(), [FileId(65)]);
    let mut media = Media::new(Layer::Volume);
    media.put_file(65, Kind::Summary);
    media.name(HIDDEN, &[side(65)]);
    assert_eq!(what(&media.mount()), ["LUN vol0"]);
}
