//! The one generic file system, instantiated as aggregate and as volume (docs/design/design.md §4,
//! B-01 … B-03).
//!
//! This is the consistency point's side of it: inodes, changed blocks, names, allocation state.
//! Only the aggregate's home reactor uses it; clients see committed roots and overlays.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use everglade_format::indirect::HEADER_BYTES;
use everglade_format::inode::INODES_PER_BLOCK;
use everglade_format::metafile::{
    ACTIVE_MAP, CONTEXT_MAP, DIRECTORY, FIRST_FILE, HIDDEN, INODE_FILE, METAFILES, NOTES, OVERFLOW,
    REFCOUNTS, TOP_AREAS,
};
use everglade_format::{CpNumber, FileId, Inode, Kind, Layer};
use everglade_freespace::Areas;

use crate::alloc::Cursor;
use crate::alloc::active_map::SafeCopies;
use crate::holders::table::Snapshots;
use crate::pool::image::Luns;
use crate::read::load::{LoadCx, Stop};
use crate::tree::names::Names;
use crate::tree::notes::Notes;
use crate::tree::{Content, File};

/// See the module's documentation.
pub(crate) struct FileSystem {
    pub(crate) layer: Layer,
    pub(crate) inode_file: File,
    /// All known files with an inode in the inode file: metafiles, and LUNs or containers.
    pub(crate) files: BTreeMap<FileId, File>,
    /// Files whose inodes are to be erased.
    pub(crate) erased: Vec<FileId>,
    pub(crate) safe: SafeCopies,
    /// Areas of each extent of pvbn space; a vvbn space has one extent.
    pub(crate) areas: Vec<Areas>,
    pub(crate) area_blocks: u64,
    /// First number of each extent.
    pub(crate) bases: Vec<u64>,
    /// Extents that are filled together, because they have the same stripes of a parity group: the
    /// first of them, for each extent that is such a column.
    pub(crate) rows: Vec<Option<usize>>,
    pub(crate) data: Cursor,
    pub(crate) meta: Cursor,
    /// Set bits of the active map, as of now.
    pub(crate) used: u64,
    /// Areas with at least one block in use, as of the last sealed map. Aggregates only.
    pub(crate) areas_used: u64,
    /// Blocks in use in each area of a changed map block, before it was changed.
    pub(crate) used_before: HashMap<u64, Vec<u64>>,
    /// Blocks of LUNs' trees that became lost, ever. Volumes only.
    pub(crate) lost: u64,
    pub(crate) next_file: FileId,
    pub(crate) directory: Names,
    pub(crate) hidden: Names,
    /// Aggregates only.
    pub(crate) notes: Notes,
    /// LUNs that were made shorter and still have blocks beyond their ends.
    pub(crate) cut: BTreeSet<FileId>,
    /// For each extent, the next map block to read when areas are searched for free space.
    pub(crate) scan_next: Vec<u64>,
    /// Areas that are being emptied ([`crate::alloc::lent`]). Aggregates only.
    pub(crate) lent: BTreeSet<(usize, u64)>,
    /// Extents where nothing is allocated as long as another one has space, because their devices
    /// are fuller than others ([`crate::home::rebalance`]). Aggregates only.
    pub(crate) crowded: BTreeSet<usize>,
    /// Used-up areas that were reopened in this consistency point.
    pub(crate) reopened: BTreeSet<(usize, u64)>,
    /// True if a block may have more than one reference, so a refcount file exists. Volumes only.
    pub(crate) has_counts: bool,
    /// The file of the aggregate that holds it. Volumes only.
    pub(crate) container: Option<FileId>,
    /// Volumes only.
    pub(crate) snapshots: Snapshots,
}

impl FileSystem {
    /// A file system without any file.
    pub(crate) fn new(
        layer: Layer,
        area_blocks: u64,
        bases: Vec<u64>,
        areas: Vec<Areas>,
        inode_file: Inode,
    ) -> Self {
        assert_eq!(bases.len(), areas.len(), "one set of areas for each extent");
        let extents = areas.len();
        FileSystem {
            layer,
            inode_file: File::new(inode_file, layer),
            files: BTreeMap::new(),
            erased: Vec::new(),
            safe: SafeCopies::default(),
            areas,
            area_blocks,
            bases,
            rows: vec![None; extents],
            data: Cursor::new(extents),
            meta: Cursor::new(extents),
            used: 0,
            areas_used: 0,
            used_before: HashMap::new(),
            lost: 0,
            next_file: FIRST_FILE,
            directory: Names::default(),
            hidden: Names::default(),
            notes: Notes::default(),
            cut: BTreeSet::new(),
            scan_next: vec![0; extents],
            lent: BTreeSet::new(),
            crowded: BTreeSet::new(),
            reopened: BTreeSet::new(),
            has_counts: false,
            container: None,
            snapshots: Snapshots::default(),
        }
    }

    /// Appends an extent, nothing of which was ever allocated.
    pub(crate) fn add_extent(&mut self, base: u64, areas: Areas, rows: Option<usize>) {
        assert!(
            self.bases.last().is_none_or(|last| *last < base),
            "extents are appended"
        );
        self.bases.push(base);
        self.rows.push(rows);
        self.areas.push(areas);
        self.data.open.push(None);
        self.meta.open.push(None);
        self.scan_next.push(0);
    }

    /// Makes this file system the volume of a container.
    pub(crate) fn set_container(&mut self, id: FileId) {
        assert_eq!(self.layer, Layer::Volume, "an aggregate is in no container");
        self.container = Some(id);
        let inode_file = self.inode_file.inode.clone();
        self.inode_file = self.file_of(inode_file);
    }

    /// A file of it, nothing of which is changed.
    pub(crate) fn file_of(&self, inode: Inode) -> File {
        File::new(inode, self.layer).of(self.container)
    }

    /// Creates the metafiles of a file system that has none.
    pub(crate) fn create_metafiles(&mut self, cp: CpNumber, seconds: u64) {
        for metafile in METAFILES {
            if metafile.is_optional || !metafile.is_of(self.layer) {
                continue;
            }
            let mut file = self.file_of(Inode::new(metafile.id, Kind::Metafile, cp, seconds));
            file.inode_changed = true;
            self.files.insert(metafile.id, file);
        }
    }

    /// The inode of the inode file of a new file system.
    pub(crate) fn empty_inode_file(cp: CpNumber, seconds: u64) -> Inode {
        Inode::new(INODE_FILE, Kind::Metafile, cp, seconds)
    }

    pub(crate) fn file(&mut self, id: FileId) -> &mut File {
        self.files
            .get_mut(&id)
            .expect("metafiles and named files are always known")
    }

    pub(crate) fn map(&mut self) -> &mut File {
        self.file(ACTIVE_MAP)
    }

    /// A new id.
    pub(crate) fn new_file_id(&mut self) -> FileId {
        let id = self.next_file;
        self.next_file = FileId(id.0.checked_add(1).expect("2^32 files were created"));
        id
    }

    /// True if the running consistency point has anything to write for this file system.
    pub(crate) fn is_changed(&self) -> bool {
        self.inode_file.is_changed()
            || !self.erased.is_empty()
            || self.directory.is_changed()
            || self.hidden.is_changed()
            || self.notes.is_changed()
            || self.snapshots.is_changed()
            || self.files.values().any(File::is_changed)
    }

    /// Files that were deleted, lowest id first. One that is only being made has its name among
    /// theirs, and is none.
    pub(crate) fn deleted(&self) -> impl Iterator<Item = FileId> + '_ {
        let made = self.snapshots.roots.lun_clone.map(|cloning| cloning.to);
        let hidden = self.hidden.iter().map(|entry| entry.file);
        hidden.filter(move |file| Some(*file) != made)
    }

    /// The refcount file, made if there is none.
    pub(crate) fn refcounts(&mut self, cp: CpNumber, seconds: u64) -> &mut File {
        self.has_counts = true;
        self.erased.retain(|id| *id != REFCOUNTS);
        let (layer, container) = (self.layer, self.container);
        self.files.entry(REFCOUNTS).or_insert_with(|| {
            let inode = Inode::new(REFCOUNTS, Kind::Metafile, cp, seconds);
            let mut file = File::new(inode, layer).of(container);
            file.inode_changed = true;
            file
        })
    }

    /// Blocks held in memory until they are sealed.
    pub(crate) fn changed_count(&self) -> usize {
        let files = self.files.values().chain([&self.inode_file]);
        files.map(File::changed_count).sum()
    }

    /// Puts changed names into their blocks.
    pub(crate) fn write_names(&mut self, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
        for (id, names) in [(DIRECTORY, &mut self.directory), (HIDDEN, &mut self.hidden)] {
            let file = self.files.get_mut(&id).expect("every file system has it");
            names.write(file, cx)?;
        }
        Ok(())
    }

    /// Puts changed notes into their blocks.
    pub(crate) fn write_notes(&mut self, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
        if !self.notes.is_changed() {
            return Ok(());
        }
        let file = self.files.get_mut(&NOTES).expect("made with the notes");
        self.notes.write(file, cx)
    }

    /// Makes the blocks of the inode file changed that will hold changed inodes.
    pub(crate) fn prepare_inodes(&mut self, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
        // The inodes of the maps change while they are written, so their block always does.
        let maps = [ACTIVE_MAP, OVERFLOW, TOP_AREAS, CONTEXT_MAP];
        let changed = self
            .files
            .values()
            .filter(|file| file.is_changed())
            .map(File::id);
        let mut blocks: Vec<u64> = changed
            .chain(self.erased.iter().copied())
            .chain(maps)
            .map(|id| Inode::block_and_slot(id).0)
            .collect();
        blocks.sort_unstable();
        blocks.dedup();
        self.inode_file
            .grow(u64::from(self.next_file.0).div_ceil(INODES_PER_BLOCK));
        let mut gather = crate::read::load::Gather::default();
        for block in blocks {
            gather.add(
                self.inode_file
                    .modify(cx, 0, block, Content::Keep)
                    .map(|_| ()),
            );
        }
        gather.finish()
    }

    /// Puts every changed inode into its block, which [`FileSystem::prepare_inodes`] made changed.
    /// The trees of all files must be sealed.
    pub(crate) fn write_inodes(&mut self) {
        for file in self.files.values_mut().filter(|file| file.inode_changed) {
            assert!(
                file.first_changed().is_none(),
                "{:?} is not sealed",
                file.id()
            );
            let (block, slot) = Inode::block_and_slot(file.id());
            let page = self.inode_file.changed_page(0, block).expect("prepared");
            file.inode.encode_into(page, slot, self.layer);
            file.inode_changed = false;
        }
        for id in self.erased.drain(..) {
            let (block, slot) = Inode::block_and_slot(id);
            let page = self.inode_file.changed_page(0, block).expect("prepared");
            Inode::erase(page, slot);
        }
        const { assert!(HEADER_BYTES == 16) };
    }

    /// Ends a consistency point: numbers freed in it may be used.
    pub(crate) fn finish_cp(&mut self) {
        self.safe.drop_all();
        self.snapshots.finish_cp();
        self.inode_file.inode_changed = false;
        assert!(!self.is_changed(), "something was changed but not written");
    }
}

impl FileSystem {
    /// The LUNs of the image that a consistency point has just sealed.
    pub(crate) fn luns(&self) -> Luns {
        let named = self.directory.iter();
        named
            .filter(|entry| !entry.is_in_trash())
            .map(|entry| (entry.name.clone(), self.files[&entry.file].inode.clone()))
            .collect()
    }
}
