//! Repair: reads every block that can be derived, so that damaged blocks are mended before another
//! step needs them.
//!
//! An administrator starts a repair ([`crate::change::Change::StartRepair`]). From then on each
//! consistency point reads a *slice* of the blocks that the previous one committed, in this order:
//! the files of the aggregate, then of each volume the metafiles of the active image and of its
//! snapshots. A damaged block stops the step that reads it, like any other step. A block that
//! cannot be derived is listed, and skipped. A repair does not read
//!
//! * trees of LUNs and their data: they cannot be derived, and a reader notices damage in them;
//! * blocks of a snapshot that is being deleted, except its map: some of them are free already;
//! * lists of the best areas: they only save time, and are written anew.
//!
//! ```text
//! Start ─▶ slice ─▶ slice ─▶ … ─▶ Done
//!            └──── Stop, or a device that does not answer ────▶ Stopped
//! ```
//!
//! 1. A slice begins at the [`Cursor`], in the trees of the last commit: pointers change from one
//!    consistency point to the next, the place in the cursor does not. Blocks that were written
//!    behind the cursor since then are good, because they are new.
//! 2. Blocks wait on a stack whose top is the next in order. So everything before the place of the
//!    top block has been read, and this place is the cursor of the next slice.
//! 3. Blocks are read from the device even if they are in memory. A block that is damaged on the
//!    device and good in memory is written again without being derived, whatever its kind.
//! 4. The state of a repair is in memory only, so a repair ends with the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everglade_env::PageRef;
use everglade_format::inode::INODES_PER_BLOCK;
use everglade_format::metafile::{DIRECTORY, INODE_FILE, OVERFLOW, TOP_AREAS};
use everglade_format::snapshot::State;
use everglade_format::volume::SUPERBLOCK_VVBN;
use everglade_format::{Block, Damage, FileId, Indirect, Inode, Kind, Pointer, SPAN, SnapshotId};

use super::view::View;
use crate::holders::table::Snapshots;
use crate::pool::aggregate::Aggregate;
use crate::pool::info::Progress;
use crate::pool::mended::{LINES_MAX, RepairInfo, RepairState};
use crate::read::load::{BlockName, Damaged, Gather, LoadCx, Stop};
use crate::tree::names::Names;

/// Blocks read in one step.
const STEP_BLOCKS: usize = 64;

/// An image: of the aggregate (`None`), of a volume, or of one of its snapshots. In the order in
/// which they are read.
type ImageKey = Option<(FileId, Option<SnapshotId>)>;

/// The first place that was not read yet: file and leaf of an image. Inodes are counted as leaf 0
/// of the first file that their block describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor {
    image: ImageKey,
    file: u64,
    leaf: u64,
}

impl Cursor {
    /// True if all of the image was read.
    fn is_passed(&self) -> bool {
        self.file > u64::from(u32::MAX)
    }
}

/// A block that is to be read.
#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: Kind,
    name: BlockName,
    pointer: Pointer,
}

impl Entry {
    /// File and leaf of the first that hangs below it, itself included.
    fn first(&self) -> (u64, u64) {
        self.position(self.name.index)
    }

    /// File and leaf of the first that does not hang below it.
    fn end(&self) -> (u64, u64) {
        self.position(self.name.index.saturating_add(1))
    }

    fn position(&self, index: u64) -> (u64, u64) {
        let leaf = index.saturating_mul(Inode::reach(self.name.level));
        match self.name.file {
            INODE_FILE => (leaf.saturating_mul(INODES_PER_BLOCK), 0),
            file => (u64::from(file.0), leaf),
        }
    }
}

/// The result for a damaged block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The consistency point has its content, and writes it elsewhere.
    Installed,
    /// The block was written in its place.
    Written,
    /// The block cannot be derived.
    Lost,
}

/// The part of an image to read.
#[derive(Clone, Debug)]
enum Image {
    /// All its metafiles, by the inode of its inode file.
    Whole(Inode),
    /// Its active map only.
    Map(Inode),
}

/// The state of a repair's slice: what is left to read in this consistency point.
struct Slice {
    /// The inode of the aggregate's inode file.
    committed: Inode,
    /// All volumes that have names, ascending; `None` until they are listed.
    volumes: Option<Vec<FileId>>,
    /// The images of one of them.
    images: Option<(FileId, BTreeMap<ImageKey, Image>)>,
    /// The stack of entries to read; the next one is at its end.
    left: Vec<Entry>,
    /// Number of blocks that the slice may still read.
    budget: u64,
    begun_at: Cursor,
}

/// See the module's documentation.
pub(crate) struct Repair {
    aggregate: Arc<Aggregate>,
    slice: Option<Slice>,
    cursor: Cursor,
    is_done: bool,
    /// Blocks that were damaged, once it is known what became of them.
    met: BTreeMap<(u64, u64), Fate>,
    /// In-memory copies of blocks that were found damaged in the last step.
    copies: Vec<(Pointer, PageRef)>,
    read_blocks: u64,
    /// The number of blocks to read, as estimated when the repair began.
    total_blocks: u64,
    /// The number of blocks that had been mended when the repair began.
    mended_before: u64,
    damaged_blocks: u64,
    /// The first that cannot be derived.
    damaged: Vec<String>,
    /// Objects that could not be listed and were reported.
    unlisted: BTreeSet<String>,
    began_seconds: u64,
}

impl Repair {
    /// Returns the repair of an aggregate of about `total_blocks` blocks.
    pub(crate) fn new(aggregate: &Arc<Aggregate>, total_blocks: u64, seconds: u64) -> Repair {
        let repair = Repair {
            aggregate: aggregate.clone(),
            slice: None,
            cursor: Cursor::default(),
            is_done: false,
            met: BTreeMap::new(),
            copies: Vec::new(),
            read_blocks: 0,
            total_blocks,
            mended_before: aggregate.mended.info().total(),
            damaged_blocks: 0,
            damaged: Vec::new(),
            unlisted: BTreeSet::new(),
            began_seconds: seconds,
        };
        repair.tell_progress(seconds);
        repair
    }

    /// Begins a slice of `blocks` blocks, read from the previous consistency point.
    pub(crate) fn begin_slice(&mut self, committed: Inode, blocks: u64) {
        self.slice = Some(Slice {
            committed,
            volumes: None,
            images: None,
            left: Vec::new(),
            budget: blocks,
            begun_at: self.cursor,
        });
    }

    /// True if all blocks were read.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// What a damaged block holds, if it is known in memory, and where the block is in its file.
    pub(crate) fn copy_of(&self, damaged: &Damaged) -> Option<(BlockName, PageRef)> {
        let mut copies = self.copies.iter();
        let (_, page) = copies.find(|(pointer, _)| *pointer == damaged.pointer)?;
        Some((damaged.name?, page.clone()))
    }

    /// Records that a block was mended in its place.
    pub(crate) fn note_written(&mut self, pointer: Pointer) {
        self.met.insert(key_of(pointer), Fate::Written);
    }

    /// Records that the running consistency point has the block's content.
    pub(crate) fn note_installed(&mut self, pointer: Pointer) {
        self.met.insert(key_of(pointer), Fate::Installed);
    }

    /// Records that a block was not mended. Other damaged blocks that prevented its repair are
    /// tried on their own later.
    pub(crate) fn give_up(&mut self, damaged: &Damaged) {
        // A contradiction has no block of its own.
        if !damaged.pointer.is_hole() {
            self.met.insert(key_of(damaged.pointer), Fate::Lost);
        }
        self.damaged_blocks += 1;
        if self.damaged.len() < LINES_MAX {
            self.damaged.push(damaged.to_string());
        }
    }

    /// Publishes the progress of the repair: the blocks read so far are committed.
    pub(crate) fn tell_progress(&self, seconds: u64) {
        let state = match self.is_done {
            true => RepairState::Done,
            false => RepairState::Running,
        };
        self.tell(state, seconds, None);
    }

    /// Reports that the repair stopped before all was read: on request, or for a reason.
    pub(crate) fn tell_stopped(&self, seconds: u64, reason: Option<String>) {
        self.tell(RepairState::Stopped, seconds, reason);
    }

    /// Tells people how it is doing.
    fn tell(&self, state: RepairState, seconds: u64, reason: Option<String>) {
        let is_running = state == RepairState::Running;
        let total = match is_running {
            true => self.total_blocks.max(self.read_blocks),
            false => self.read_blocks,
        };
        let progress = Progress {
            done: self.read_blocks,
            total,
            since: Some((self.began_seconds, 0)),
        };
        let eta = progress.eta_seconds(seconds);
        let mended = self.aggregate.mended.info().total();
        self.aggregate.mended.tell_repair(RepairInfo {
            state,
            read_blocks: self.read_blocks,
            total_blocks: total,
            mended_blocks: mended.saturating_sub(self.mended_before),
            damaged_blocks: self.damaged_blocks,
            damaged: self.damaged.clone(),
            reason,
            eta_seconds: eta.filter(|_| is_running),
        });
    }

    /// Reads some. True when the slice is over.
    pub(crate) fn step(&mut self, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
        let mut slice = self.slice.take().expect("a slice was begun");
        let stepped = self.step_of(&mut slice, cx);
        if !matches!(stepped, Ok(true)) {
            self.slice = Some(slice);
        }
        stepped
    }

    fn step_of(&mut self, slice: &mut Slice, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
        if slice.left.is_empty() {
            return self.next_image(slice, cx);
        }
        // The way to the cursor alone may cost as much as a slice has.
        if slice.budget == 0 && self.cursor > slice.begun_at {
            return Ok(true);
        }
        let budget = usize::try_from(slice.budget).unwrap_or(STEP_BLOCKS);
        let most = budget.clamp(1, STEP_BLOCKS);
        let from = slice.left.len().saturating_sub(most);
        let mut gather = Gather::default();
        let mut pages = Vec::new();
        // The next is at the end.
        let mut again = Vec::new();
        self.copies.clear();
        for entry in slice.left[from..].iter().rev() {
            let Some(read) = gather.add(cx.on_device(entry.pointer)) else {
                continue;
            };
            let reason = match read {
                Ok(page) => {
                    pages.push((*entry, page));
                    continue;
                }
                Err(reason) => reason,
            };
            let known = cx.in_memory(entry.pointer);
            match self.met.get(&key_of(entry.pointer)) {
                None => {
                    let copy = known.map(|page| (entry.pointer, page));
                    self.copies.extend(copy);
                    gather.add::<()>(Err(Stop::damaged(reason).at(entry.name, entry.pointer)));
                }
                Some(Fate::Written) => again.push(Damaged {
                    name: Some(entry.name),
                    pointer: entry.pointer,
                    reason: format!("{reason}, although it was written again"),
                }),
                // The blocks below this one are known all the same.
                Some(Fate::Installed) => pages.extend(known.map(|page| (*entry, page))),
                Some(Fate::Lost) => {}
            }
        }
        gather.finish()?;
        again.iter().for_each(|damaged| self.give_up(damaged));
        let start = (self.cursor.file, self.cursor.leaf);
        // Paths to the cursor were counted by the slice before.
        let read = slice.left[from..].iter().filter(|it| it.first() >= start);
        self.read_blocks += read.count() as u64;
        slice.budget = slice
            .budget
            .saturating_sub((slice.left.len() - from) as u64);
        slice.left.truncate(from);
        for (entry, page) in pages.into_iter().rev() {
            // The block is whole but unusable: written by mistake, or by an older version.
            if let Err(damage) = self.add_below(slice, entry, &page) {
                self.give_up(&Damaged {
                    name: Some(entry.name),
                    pointer: entry.pointer,
                    reason: format!("damaged metadata: {damage}"),
                });
            }
        }
        match slice.left.last() {
            Some(next) => {
                let (file, leaf) = next.first().max(start);
                self.cursor = Cursor {
                    file,
                    leaf,
                    ..self.cursor
                };
            }
            None => self.pass_image(),
        }
        Ok(false)
    }

    /// Adds the blocks below a block that was read, the first on top.
    fn add_below(&self, slice: &mut Slice, entry: Entry, page: &Block) -> Result<(), Damage> {
        let name = entry.name;
        let layer = name.layer();
        if name.level > 0 {
            for slot in (0..SPAN).rev() {
                let pointer = Indirect(page).pointer(slot, layer)?;
                let name = BlockName {
                    level: name.level - 1,
                    index: name.index * SPAN + slot,
                    ..name
                };
                self.add(
                    slice,
                    Entry {
                        name,
                        pointer,
                        ..entry
                    },
                );
            }
        } else if name.file == INODE_FILE {
            for slot in (0..INODES_PER_BLOCK).rev() {
                let id = name.index * INODES_PER_BLOCK + slot;
                let id = FileId(u32::try_from(id).unwrap_or(u32::MAX));
                let slot = usize::try_from(slot).expect("below 14");
                let inode = Inode::decode_from(page, slot, id, layer)?;
                if let Some(inode) = inode.filter(|it| self.is_wanted(it)) {
                    let entry = Entry {
                        kind: inode.kind,
                        name: BlockName {
                            volume: name.volume,
                            file: inode.id,
                            level: inode.levels,
                            index: 0,
                        },
                        pointer: inode.root,
                    };
                    self.add(slice, entry);
                }
            }
        }
        Ok(())
    }

    /// True for a file of the aggregate, and for a metafile of an image of a volume.
    fn is_wanted(&self, inode: &Inode) -> bool {
        self.cursor.image.is_none() || inode.kind == Kind::Metafile
    }

    /// Adds a block, unless an earlier slice has read it, or it is a block of data, of a merely
    /// owned file, or of best areas.
    fn add(&self, slice: &mut Slice, entry: Entry) {
        let is_superblock = entry.name.index == SUPERBLOCK_VVBN.0;
        let is_data = entry.kind == Kind::Container && !is_superblock
            || [OVERFLOW, TOP_AREAS].contains(&entry.name.file);
        let is_behind = entry.end() <= (self.cursor.file, self.cursor.leaf);
        if entry.pointer.has_block() && (entry.name.level > 0 || !is_data) && !is_behind {
            slice.left.push(entry);
        }
    }

    /// Begins with the image at the cursor, or the first after it.
    fn next_image(&mut self, slice: &mut Slice, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
        let next = match self.cursor.image {
            None if !self.cursor.is_passed() => Some((None, Image::Whole(slice.committed.clone()))),
            _ => self.image_of_a_volume(slice, cx)?,
        };
        let Some((key, image)) = next else {
            self.is_done = true;
            return Ok(true);
        };
        if key != self.cursor.image {
            self.cursor = Cursor {
                image: key,
                ..Cursor::default()
            };
        }
        let (file, inode) = match image {
            Image::Whole(inode) => (INODE_FILE, inode),
            Image::Map(inode) => (inode.id, inode),
        };
        let root = Entry {
            kind: Kind::Metafile,
            name: BlockName {
                volume: key.map(|(volume, _)| volume),
                file,
                level: inode.levels,
                index: 0,
            },
            pointer: inode.root,
        };
        self.add(slice, root);
        if slice.left.is_empty() {
            self.pass_image();
        }
        Ok(false)
    }

    /// The image of a volume at the cursor, or the first after it.
    fn image_of_a_volume(
        &mut self,
        slice: &mut Slice,
        cx: &mut LoadCx<'_>,
    ) -> Result<Option<(ImageKey, Image)>, Stop> {
        if slice.volumes.is_none() {
            slice.volumes = Some(self.volumes(&slice.committed, cx)?);
        }
        let at = self.cursor.image.map(|(volume, _)| volume);
        let volumes = slice.volumes.iter().flatten();
        let volumes: Vec<FileId> = volumes.copied().filter(|id| Some(*id) >= at).collect();
        for volume in volumes {
            if slice.images.as_ref().is_none_or(|(of, _)| *of != volume) {
                slice.images = Some((volume, self.images(&slice.committed, cx, volume)?));
            }
            let (_, images) = slice.images.as_ref().expect("listed above");
            let is_left = |key: &ImageKey| *key != self.cursor.image || !self.cursor.is_passed();
            let mut left = images.range(self.cursor.image..);
            if let Some((key, image)) = left.find(|(key, _)| is_left(key)) {
                return Ok(Some((*key, image.clone())));
            }
        }
        Ok(None)
    }

    /// Records that all of the image at the cursor was read.
    fn pass_image(&mut self) {
        self.cursor.file = u64::MAX;
    }

    /// Returns all volumes that have names, ascending; none if the names cannot be read.
    fn volumes(&mut self, committed: &Inode, cx: &mut LoadCx<'_>) -> Result<Vec<FileId>, Stop> {
        if committed.block_count() == 0 {
            return Ok(Vec::new());
        }
        let aggregate = self.aggregate.clone();
        let view = View {
            aggregate: &aggregate,
            inode_file: committed,
        };
        let file = view.file(cx, DIRECTORY);
        let names = self.unless_damaged(file.and_then(|file| Names::load(&file, cx)))?;
        let mut volumes: Vec<FileId> = names
            .iter()
            .flat_map(Names::iter)
            .map(|it| it.file)
            .collect();
        volumes.sort_unstable();
        Ok(volumes)
    }

    /// The images of a volume, as far as they can be listed.
    fn images(
        &mut self,
        committed: &Inode,
        cx: &mut LoadCx<'_>,
        volume: FileId,
    ) -> Result<BTreeMap<ImageKey, Image>, Stop> {
        let aggregate = self.aggregate.clone();
        let view = View {
            aggregate: &aggregate,
            inode_file: committed,
        };
        let mut images = BTreeMap::new();
        let Some(superblock) = self.unless_damaged(view.superblock(cx, volume))? else {
            return Ok(images);
        };
        let active = Image::Whole(superblock.inode_file.clone());
        images.insert(Some((volume, None)), active);
        let snapshots = self.unless_damaged(view.snapshots(cx, &superblock))?;
        for record in snapshots.iter().flat_map(Snapshots::all) {
            let image = match record.state {
                State::Live => Image::Whole(record.inode_file.clone()),
                State::Deleting => Image::Map(record.active_map.clone()),
                State::Gone => continue,
            };
            images.insert(Some((volume, Some(record.id))), image);
        }
        Ok(images)
    }

    /// `None` for what needs a block that is damaged and cannot be derived.
    fn unless_damaged<T>(&mut self, found: Result<T, Stop>) -> Result<Option<T>, Stop> {
        let damaged = match found {
            Err(Stop::Damaged(damaged)) => damaged,
            found => return found.map(Some),
        };
        match self.met.get(&key_of(damaged.pointer)) {
            // The block is known already, or was reported.
            Some(Fate::Lost) => Ok(None),
            // Blocks contradict each other.
            _ if damaged.pointer.is_hole() => {
                let is_new = self.unlisted.len() < LINES_MAX;
                if is_new && self.unlisted.insert(damaged.reason.clone()) {
                    self.give_up(&damaged);
                }
                Ok(None)
            }
            _ => Err(Stop::Damaged(damaged)),
        }
    }
}

fn key_of(pointer: Pointer) -> (u64, u64) {
    (pointer.pvbn.0, pointer.tag.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(file: FileId, level: u8, index: u64) -> Entry {
        Entry {
            kind: Kind::Metafile,
            name: BlockName {
                volume: None,
                file,
                level,
                index,
            },
            pointer: Pointer::default(),
        }
    }

    #[test]
    fn a_block_of_a_tree_spans_the_leaves_below_it() {
        let leaf = entry(FileId(70), 0, 7);
        assert_eq!((leaf.first(), leaf.end()), ((70, 7), (70, 8)));
        let inner = entry(FileId(70), 1, 2);
        assert_eq!(inner.first(), (70, 2 * SPAN));
        assert_eq!(inner.end(), (70, 3 * SPAN));
    }

    #[test]
    fn a_block_of_inodes_comes_before_the_files_that_it_describes() {
        let inodes = entry(INODE_FILE, 0, 5);
        let first = entry(
            FileId(u32::try_from(5 * INODES_PER_BLOCK).expect("small")),
            3,
            0,
        );
        assert_eq!(inodes.first(), first.first());
        assert!(inodes.end() > first.first());
        assert_eq!(inodes.end(), (6 * INODES_PER_BLOCK, 0));
    }

    #[test]
    fn images_are_read_in_one_order() {
        let of =
            |volume: u32, snapshot: Option<u32>| Some((FileId(volume), snapshot.map(SnapshotId)));
        let mut keys = [
            of(65, None),
            of(64, Some(2)),
            None,
            of(64, None),
            of(64, Some(1)),
        ];
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                None,
                of(64, None),
                of(64, Some(1)),
                of(64, Some(2)),
                of(65, None)
            ]
        );
    }
}
