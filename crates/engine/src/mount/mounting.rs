//! Mount: from a superblock to an aggregate that serves. Reads metadata in proportion to the number
//! of volumes and LUNs, never to their size.
//!
//! A mount runs as a handler: it stops when pages are missing, and runs again from the top. It
//! builds the aggregate first, then [`TOGETHER`] volumes at a time with their snapshots. The pages
//! of a step are released before the next step, because a thousand volumes with their snapshots may
//! have more metadata than there is memory.
//!
//! Damaged blocks are derived from the rest where that is possible ([`crate::mend`]), and kept in
//! memory until the first consistency point, because a mount writes nothing. If a block cannot be
//! derived, the mount leaves out what depends on it, such as a volume without its superblock or
//! snapshots without their records. The aggregate is read-only then ([`crate::alloc::named`]). The
//! mount fails only if no volume can be read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use everglade_affinity::VolumeAffinities;
use everglade_env::PageRef;
use everglade_format::config::Uuid;
use everglade_format::volume::{SUPERBLOCK_VVBN, Split, VOLUME_AREA_BLOCKS};
use everglade_format::{
    Damage, Entry, EntryKind, FileId, Kind, Layer, Pointer, Pvbn, SnapshotId, Superblock,
    VolumeSuperblock,
};
use everglade_freespace::Areas;
use everglade_target::Error;

use crate::admin::volume::new_volume;
use crate::alloc::filesystem::FileSystem;
use crate::alloc::named::{Absent, load_readable};
use crate::background::lun_clone;
use crate::holders::table::Snapshots;
use crate::home::aggregate::Home;
use crate::home::removing::Removing;
use crate::home::volume::VolumeHome;
use crate::media::heal::Healing;
use crate::mend::{self, Mender};
use crate::mount::lost;
use crate::mount::search::Search;
use crate::pool::aggregate::Aggregate;
use crate::pool::image::{self, Image};
use crate::pool::info::SnapshotInfo;
use crate::pool::trash;
use crate::pool::volume::Lun;
use crate::read::load::{Damaged, Gather, LoadCx, Stop};
use crate::read::root::Root;
use crate::tree::File;

/// Volumes that are read at the same time. Each takes a few reads one after the other, and may have
/// 2,000 blocks of snapshots.
const TOGETHER: usize = 8;

/// A mount under way. Affinities are made once and used by the run that gets through.
pub(crate) struct Mounting {
    pub(crate) aggregate: Arc<Aggregate>,
    pub(crate) superblock: Superblock,
    pub(crate) healing: Healing,
    pub(crate) affinities: BTreeMap<FileId, VolumeAffinities>,
    pub(crate) begun: Option<Begun>,
    /// Derives damaged blocks.
    pub(crate) mender: Mender,
    /// Derived blocks, by the pointer that names each and its pvbn. Until the first consistency
    /// point writes them, the devices cannot supply their content.
    pub(crate) derived: Vec<(Pointer, Pvbn, PageRef)>,
    /// True after a block could not be derived: damaged objects are left out from then on.
    pub(crate) leaves_out: bool,
}

/// The part of a mount that is done.
pub(crate) struct Begun {
    fs: FileSystem,
    /// Volumes that are yet to be read.
    names: VecDeque<Entry>,
    volumes: Vec<LoadedVolume>,
    /// Searches for the superblocks of volumes.
    searches: Vec<Search>,
    /// Damaged objects that are left out.
    absent: Vec<Absent>,
}

/// Snapshots, each with its LUNs, or why they cannot be read.
type Images = Vec<(SnapshotId, Result<image::Luns, String>)>;

/// Metadata of a volume, before anything shared is made of it.
struct LoadedVolume {
    name: String,
    /// When it was put into the trash; 0 if it is not there.
    deleted_seconds: u64,
    superblock: VolumeSuperblock,
    fs: FileSystem,
    /// Snapshots that can be named, and those in the trash.
    images: Images,
    /// Damaged parts of the volume that are left out.
    absent: Vec<Absent>,
}

impl Mounting {
    /// Runs a step, or stops. Returns nothing if more work remains that needs no page of this step.
    /// `add` makes the affinities of a volume. An unreadable block is derived, if possible, and
    /// kept in memory: a mount writes nothing.
    pub(crate) fn run(
        &mut self,
        cx: &mut LoadCx<'_>,
        add: impl FnMut() -> Result<VolumeAffinities, Error>,
    ) -> Result<Option<Home>, Stop> {
        if self.leaves_out {
            return self.step(cx, add);
        }
        let outcome = match self.mender.is_busy() {
            true => self.mend(cx).map(|()| None),
            false => self.step(cx, add),
        };
        match outcome.or_else(|stop| self.mender.catch(stop).map(|()| None)) {
            Err(Stop::Damaged(_)) => {
                self.leaves_out = true;
                Ok(None)
            }
            outcome => outcome,
        }
    }

    /// Returns the derived blocks, by all pointers that lead to them.
    pub(crate) fn pins(&self) -> impl Iterator<Item = (Pointer, &PageRef)> {
        self.derived.iter().flat_map(|(pointer, pvbn, page)| {
            let there = Pointer {
                pvbn: *pvbn,
                ..*pointer
            };
            [(*pointer, page), (there, page)]
        })
    }

    fn mend(&mut self, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
        match self.mender.step(cx)? {
            mend::MendStep::Again => {}
            mend::MendStep::Write(pvbn, page) => {
                let pointer = self.mender.pointer();
                if self.pins().any(|(known, _)| known == pointer) {
                    return Err(Stop::damaged(format!(
                        "block {pvbn} was derived, but still cannot be read"
                    )));
                }
                self.derived.push((pointer, pvbn, page));
                self.mender.written(cx);
            }
            // Nothing that a mount reads.
            mend::MendStep::Install(place, _) => {
                return Err(Stop::damaged(format!("{place} cannot be read")));
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        cx: &mut LoadCx<'_>,
        add: impl FnMut() -> Result<VolumeAffinities, Error>,
    ) -> Result<Option<Home>, Stop> {
        let Some(begun) = &mut self.begun else {
            self.begun = Some(self.begin(cx)?);
            return Ok(None);
        };
        let uuid = self.aggregate.uuid;
        if begun.names.is_empty() && !begun.searches.is_empty() {
            return begun.search(cx, uuid).map(|()| None);
        }
        if begun.names.is_empty() {
            let begun = self.begun.take().expect("looked at above");
            return self.finish(begun, add).map(Some);
        }
        let mut gather = Gather::default();
        let mut loaded = Vec::new();
        for entry in begun.names.iter().take(TOGETHER) {
            let volume = match load_volume(&begun.fs, cx, entry, None, uuid) {
                Err(Stop::Damaged(damaged)) if self.leaves_out => Ok(Err(damaged)),
                Ok((volume, _)) if !self.leaves_out && !volume.absent.is_empty() => {
                    Err(Stop::Damaged(volume.absent[0].damaged.clone()))
                }
                volume => volume.map(Ok),
            };
            loaded.extend(gather.add(volume));
        }
        gather.finish()?;
        for loaded in loaded {
            let entry = begun.names.pop_front().expect("one for each");
            let loaded = loaded.and_then(|(volume, sides)| {
                begun.add_sides(sides)?;
                Ok(volume)
            });
            let is_container = |damaged: &Damaged| {
                let of = damaged.name.filter(|name| name.level > 0);
                of.is_some_and(|of| (of.volume, of.file) == (None, entry.file))
            };
            match loaded {
                Ok(volume) => begun.volumes.push(volume),
                Err(damaged) if is_container(&damaged) => {
                    begun.searches.push(Search::new(entry, damaged));
                }
                Err(damaged) => begun.absent.push(Absent {
                    what: format!("volume {}", entry.name),
                    damaged,
                }),
            }
        }
        Ok(None)
    }

    /// Reads what the aggregate has itself.
    fn begin(&self, cx: &mut LoadCx<'_>) -> Result<Begun, Stop> {
        let superblock = &self.superblock;
        let layout = self.aggregate.media.layout();
        let geometry = &layout.geometry;
        let area_blocks = geometry.area_blocks();
        let extents = geometry.extents().iter().zip(&superblock.frontiers);
        let areas = extents.map(|(extent, frontier)| {
            let count = extent.length / area_blocks;
            Areas::new(count, area_blocks, u64::from(*frontier))
        });
        let mut areas: Vec<Areas> = areas.collect();
        lost::leave_out(&self.aggregate, &layout, &mut areas);
        let extents = geometry.extents().iter().zip(&mut areas);
        for (_, areas) in extents.filter(|(extent, _)| layout.config.is_leaving(extent.member)) {
            areas.shut();
        }
        let bases = geometry
            .extents()
            .iter()
            .map(|extent| extent.base)
            .collect();
        let inode_file = superblock.inode_file.clone();
        let mut fs = FileSystem::new(Layer::Aggregate, area_blocks, bases, areas, inode_file);
        fs.rows = layout.rows_of_extents();
        fs.used = superblock.blocks_used;
        fs.areas_used = superblock.areas_used;
        fs.next_file = superblock.next_file;
        let mut names = VecDeque::new();
        let mut absent = Vec::new();
        if superblock.cp.0 == 0 {
            fs.create_metafiles(superblock.cp.next(), superblock.written_seconds);
        } else {
            absent = load_readable(&mut fs, cx, EntryKind::Volume)?;
            if let Some(first) = absent.first()
                && !self.leaves_out
            {
                return Err(Stop::Damaged(first.damaged.clone()));
            }
            names.extend(fs.directory.iter().cloned());
            let moved = moved(
                &fs,
                cx,
                names.make_contiguous(),
                &self.aggregate.uuid,
                self.leaves_out,
            )?;
            self.aggregate.redirects.set(moved.into_iter());
        }
        Ok(Begun {
            fs,
            names,
            volumes: Vec::new(),
            searches: Vec::new(),
            absent,
        })
    }

    fn finish(
        &mut self,
        begun: Begun,
        mut add: impl FnMut() -> Result<VolumeAffinities, Error>,
    ) -> Result<Home, Stop> {
        let Begun {
            fs,
            volumes,
            mut absent,
            ..
        } = begun;
        if volumes.is_empty()
            && let Some(first) = absent.pop()
        {
            return Err(Stop::Damaged(first.damaged));
        }
        let (inode_file, cp) = (&self.superblock.inode_file, self.superblock.cp);
        let mender = Mender::new(&self.aggregate, inode_file.clone(), cp);
        let mut home = Home::new(self.aggregate.clone(), fs, mender);
        home.healing = std::mem::take(&mut self.healing);
        let derived = self.derived.drain(..);
        home.derived = derived.map(|(_, pvbn, page)| (pvbn, page)).collect();
        for loaded in volumes {
            let id = loaded.superblock.volume;
            let affinities = match self.affinities.entry(id) {
                std::collections::btree_map::Entry::Occupied(known) => known.get().clone(),
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(add().map_err(Stop::Failed)?).clone()
                }
            };
            absent.extend(loaded.absent.iter().cloned());
            join(&mut home, loaded, affinities);
        }
        self.leave_out(&absent);
        if !home.aggregate.lost_segments.is_empty() {
            home.aggregate.space.set_backed(home.backed_blocks());
            lost::halt_if_needed(&home.aggregate);
        }
        home.tell_moved();
        home.tell_usage();
        home.aggregate.space.set_pending(home.pending_blocks());
        home.aggregate
            .space
            .set_trash(trash::count(&home.aggregate));
        let layout = home.aggregate.media.layout();
        home.removing = Removing::begin(&layout, home.wall_seconds);
        home.tell_removal();
        let notes = home.fs.notes.text();
        if let Err(reason) = &notes {
            home.aggregate
                .lost
                .unreadable("the aggregate's notes", &reason.to_string());
        }
        home.aggregate.set_notes(notes);
        Ok(home)
    }
}

impl Mounting {
    /// Lists the absent objects, and makes the aggregate read-only if there are any.
    fn leave_out(&self, absent: &[Absent]) {
        for Absent { what, damaged } in absent {
            self.aggregate.lost.unreadable(what, &damaged.reason);
        }
        let Some(first) = absent.first() else {
            return;
        };
        let others = match absent.len() - 1 {
            0 => String::new(),
            1 => ", and neither can one other part of the aggregate".to_owned(),
            count => format!(", and neither can {count} other parts of the aggregate"),
        };
        let reason = &first.damaged.reason;
        self.aggregate
            .halt(format!("{} cannot be read{others}: {reason}", first.what));
    }
}

impl Begun {
    /// Continues the search for a superblock, and loads the volume once its superblock is found.
    fn search(&mut self, cx: &mut LoadCx<'_>, uuid: [u8; 16]) -> Result<(), Stop> {
        let search = self.searches.last_mut().expect("looked at by the caller");
        if !search.is_over(&self.fs) {
            return search.step(&self.fs, cx);
        }
        let loaded = match search.found {
            Some(found) => match load_volume(&self.fs, cx, &search.volume, Some(found), uuid) {
                Err(Stop::Damaged(damaged)) => Err(damaged),
                volume => Ok(volume?),
            },
            None => Err(search.damaged.clone()),
        };
        let Search {
            volume, damaged, ..
        } = self.searches.pop().expect("as above");
        let loaded = loaded.and_then(|(volume, sides)| {
            self.add_sides(sides)?;
            Ok(volume)
        });
        let name = &volume.name;
        self.absent.push(match loaded {
            Ok(volume) => {
                self.volumes.push(volume);
                let what = format!("the container of volume {name}");
                Absent { what, damaged }
            }
            Err(damaged) => {
                let what = format!("volume {name}");
                Absent { what, damaged }
            }
        });
        Ok(())
    }

    fn add_sides(&mut self, sides: Sides) -> Result<(), Box<Damaged>> {
        for (id, side) in sides {
            if self.fs.files.insert(id, side).is_some() {
                return Err(another_side_file(id));
            }
        }
        Ok(())
    }
}

/// Containers, each with whether its volume was split: without them its own inodes may not be
/// found.
fn moved(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    names: &[Entry],
    uuid: &Uuid,
    leaves_out: bool,
) -> Result<Vec<(bool, FileId, Root)>, Stop> {
    let mut gather = Gather::default();
    let mut moved = Vec::new();
    for id in names.iter().map(|entry| entry.file) {
        let container = &fs.files[&id];
        let leaf = match container.leaf(cx, SUPERBLOCK_VVBN.0) {
            // The volume is left out later.
            Err(Stop::Damaged(_)) if leaves_out => continue,
            leaf => leaf,
        };
        let Some(leaf) = gather.add(leaf) else {
            continue;
        };
        let Ok(superblock) = VolumeSuperblock::decode(leaf.bytes(), id, uuid) else {
            continue;
        };
        let is_split = superblock.snapshots.split == Split::Done;
        moved.push((is_split, id, Root::of(&container.inode)));
    }
    gather.finish()?;
    Ok(moved)
}

/// Makes a loaded volume part of the aggregate.
fn join(home: &mut Home, loaded: LoadedVolume, affinities: VolumeAffinities) {
    let LoadedVolume {
        name,
        deleted_seconds,
        superblock,
        fs,
        images,
        absent: _,
    } = loaded;
    let shared = new_volume(home, affinities, superblock.volume, &name, superblock.sync);
    shared
        .deleted_seconds
        .store(deleted_seconds, Ordering::Relaxed);
    let mut luns = shared.luns.write();
    let mut trash = shared.trash.write();
    for entry in fs.directory.iter() {
        let inode = &fs.files[&entry.file].inode;
        let lun = Lun::new(
            entry.file,
            &entry.name,
            shared.clone(),
            inode.size_bytes,
            Root::of(inode),
        );
        lun.set_used_blocks(inode.blocks);
        match entry.deleted_seconds {
            0 => _ = luns.insert(entry.name.clone(), Arc::new(lun)),
            seconds => _ = trash.insert(entry.file, (seconds, Arc::new(lun))),
        }
    }
    drop((luns, trash));
    for (id, luns) in images {
        let record = fs.snapshots.get(id);
        let luns = luns.unwrap_or_else(|reason| {
            let object = format!("snapshot {name}@{}", record.name);
            home.aggregate.lost.unreadable(&object, &reason);
            image::Luns::new()
        });
        let image = Image::new(&shared, &record.name, &luns);
        shared.keep_image(record, image);
    }
    let live = fs.snapshots.live().map(SnapshotInfo::of);
    shared.swap_snapshots(&mut Arc::new(live.collect()));
    shared.set_base(fs.snapshots.roots.base);
    home.aggregate.lost.found(fs.lost);
    let known = VolumeHome {
        shared: shared.clone(),
        fs,
        is_new: false,
        next: None,
        discarding: Vec::new(),
    };
    home.volumes.insert(superblock.volume, known);
    match deleted_seconds {
        0 => _ = home.aggregate.volumes.write().insert(name, shared),
        _ => _ = home.aggregate.trash.write().insert(shared.id, shared),
    }
}

/// Side files of a volume, which belong to the aggregate. The code that adds them checks first
/// whether the aggregate has them already.
type Sides = Vec<(FileId, File)>;

fn another_side_file(id: FileId) -> Box<Damaged> {
    let expected = "a file with levels that nothing else names";
    Box::new(Damaged {
        name: None,
        pointer: Pointer::HOLE,
        reason: Damage::new("side file", expected, id).to_string(),
    })
}

/// Loads a volume, from `superblock` if the container does not show it.
fn load_volume(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    volume: &Entry,
    superblock: Option<Pointer>,
    uuid: [u8; 16],
) -> Result<(LoadedVolume, Sides), Stop> {
    let (id, name, deleted_seconds) = (volume.file, &volume.name, volume.deleted_seconds);
    let container = &fs.files[&id];
    let page = match superblock {
        None => container.leaf(cx, SUPERBLOCK_VVBN.0)?.to_page(),
        Some(found) => cx.page(found)?,
    };
    let superblock = VolumeSuperblock::decode(&page, id, &uuid)?;
    let count = container.inode.block_count() / VOLUME_AREA_BLOCKS;
    if superblock.frontier > count || count == 0 {
        return Err(Damage::new(
            "volume frontier",
            format!("at most {count}"),
            superblock.frontier,
        )
        .into());
    }
    let areas = Areas::new(count, VOLUME_AREA_BLOCKS, superblock.frontier);
    let inode_file = superblock.inode_file.clone();
    let mut volume = FileSystem::new(
        Layer::Volume,
        VOLUME_AREA_BLOCKS,
        vec![0],
        vec![areas],
        inode_file,
    );
    volume.used = superblock.blocks_used;
    volume.lost = superblock.lost;
    volume.next_file = superblock.next_file;
    volume.set_container(id);
    let mut absent = load_readable(&mut volume, cx, EntryKind::Lun)?;
    let roots = superblock.snapshots.clone();
    let mut sides = Sides::new();
    let named = [
        (roots.files.map(|(summary, _)| summary), Kind::Summary),
        (roots.files.map(|(_, table)| table), Kind::Snapshots),
        (roots.release, Kind::Release),
    ];
    for (side, kind) in named {
        let Some(side) = side else { continue };
        match load_side(fs, cx, side, kind) {
            Ok(file) => sides.push((side, file)),
            Err(Stop::Damaged(damaged)) => absent.push(Absent {
                what: format!("{kind:?} file"),
                damaged,
            }),
            Err(stop) => return Err(stop),
        }
    }
    let side = |wanted: FileId| sides.iter().find(|(id, _)| *id == wanted);
    let table = roots.files.and_then(|(_, table)| side(table));
    let table = table.map(|(_, file)| file);
    let (snapshots, lost) = Snapshots::load_readable(roots, table, cx)?;
    volume.snapshots = snapshots;
    absent.extend(lost.into_iter().map(|damaged| Absent {
        what: "snapshots".to_owned(),
        damaged: Box::new(damaged),
    }));
    for absent in &mut absent {
        absent.what = format!("{} of volume {name}", absent.what);
    }
    lun_clone::check_loaded(&mut volume);
    let images = load_images(&volume.snapshots, cx)?;
    let volume = LoadedVolume {
        name: name.clone(),
        deleted_seconds,
        superblock,
        fs: volume,
        images,
        absent,
    };
    Ok((volume, sides))
}

fn load_side(fs: &FileSystem, cx: &mut LoadCx<'_>, side: FileId, kind: Kind) -> Result<File, Stop> {
    let inode = image::load_inode(&fs.inode_file, cx, side)?;
    Damage::unless_equal("inode kind", kind, inode.kind)?;
    if inode.levels == 0 || side >= fs.next_file {
        return Err(Stop::Damaged(another_side_file(side)));
    }
    Ok(File::new(inode, Layer::Aggregate))
}

/// Loads the LUNs of all snapshots that can be named or are in the trash. A snapshot that cannot be
/// read does not affect the others.
fn load_images(snapshots: &Snapshots, cx: &mut LoadCx<'_>) -> Result<Images, Stop> {
    let mut images = Vec::new();
    let mut gather = Gather::default();
    for record in snapshots.kept() {
        let luns = match image::load(cx, record).map_err(Stop::settled) {
            Ok(luns) => Ok(luns),
            Err(Stop::Failed(error)) => Err(error.to_string()),
            Err(stop) => {
                gather.add::<()>(Err(stop));
                continue;
            }
        };
        images.push((record.id, luns));
    }
    gather.finish()?;
    Ok(images)
}
