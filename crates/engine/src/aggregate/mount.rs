//! Mount: from a superblock to an aggregate that serves. Reads metadata in proportion to the number of
//! volumes and LUNs, never to their size.
//!
//! Runs as a handler: it stops for pages and runs again from the top, building anew what it was at: the aggregate, then
//! [`TOGETHER`] volumes at a time with their snapshots. What a step read is let go before the next, because a thousand volumes
//! with their snapshots may have more metadata than there is memory.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use everglade_affinity::VolumeAffinities;
use everglade_env::PageRef;
use everglade_format::inode::INODES_PER_BLOCK;
use everglade_format::metafile::{DIRECTORY, HIDDEN, METAFILES, NOTES, REFCOUNTS, TOP_AREAS};
use everglade_format::volume::{SUPERBLOCK_VVBN, Split, VOLUME_AREA_BLOCKS};
use everglade_format::{
    Damage, Entry, EntryKind, FileId, Inode, Kind, Layer, Pvbn, Superblock, TopAreas,
    VolumeSuperblock,
};
use everglade_freespace::Areas;
use everglade_target::Error;

use crate::admin::new_volume;
use crate::aggregate::Aggregate;
use crate::aggregate::heal::Healing;
use crate::alloc::host::Host;
use crate::cp::{Home, VolumeHome};
use crate::filesystem::FileSystem;
use crate::load::{Gather, LoadCx, Stop};
use crate::mend::{self, Mender};
use crate::names::Names;
use crate::notes::Notes;
use crate::snapshot::image::{self, Image};
use crate::snapshot::info::SnapshotInfo;
use crate::snapshot::lun_clone;
use crate::snapshot::table::Snapshots;
use crate::tree::{File, Root};
use crate::volume::Lun;

/// Volumes that are read at the same time. Each takes a few reads one after the other, and may have 2,000 blocks of snapshots.
const TOGETHER: usize = 8;

/// A mount under way. Affinities are made once and used by the run that gets through.
pub(crate) struct Mounting {
    pub(crate) aggregate: Arc<Aggregate>,
    pub(crate) superblock: Superblock,
    pub(crate) healing: Healing,
    pub(crate) affinities: BTreeMap<FileId, VolumeAffinities>,
    pub(crate) begun: Option<Begun>,
    /// Derives what is damaged.
    pub(crate) mender: Mender,
    /// What was derived, for the first consistency point to write.
    pub(crate) derived: Vec<(Pvbn, PageRef)>,
}

/// The part of a mount that is done.
pub(crate) struct Begun {
    fs: FileSystem,
    /// Volumes that are yet to be read.
    names: VecDeque<Entry>,
    volumes: Vec<LoadedVolume>,
}

/// Snapshots by name, each with its LUNs, or why they cannot be read.
type Images = Vec<(String, Result<image::Luns, String>)>;

/// Metadata of a volume, before anything shared is made of it.
struct LoadedVolume {
    name: String,
    superblock: VolumeSuperblock,
    fs: FileSystem,
    /// Snapshots that can be named.
    images: Images,
}

impl Mounting {
    /// Does a step, or stops. Nothing if there is more to do, for which nothing that was read is needed. `add` makes the
    /// affinities of a volume. What cannot be read is derived, if it can be, and kept in memory: a mount writes nothing.
    pub(crate) fn run(
        &mut self,
        cx: &mut LoadCx<'_>,
        add: impl FnMut() -> Result<VolumeAffinities, Error>,
    ) -> Result<Option<Home>, Stop> {
        let outcome = match self.mender.is_busy() {
            true => self.mend(cx).map(|()| None),
            false => self.step(cx, add),
        };
        outcome.or_else(|stop| self.mender.catch(stop).map(|()| None))
    }

    fn mend(&mut self, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
        match self.mender.step(cx)? {
            mend::Step::Again => {}
            mend::Step::Write(pvbn, page) => {
                self.derived.push((pvbn, page));
                self.mender.written(cx);
            }
            // Nothing that a mount reads.
            mend::Step::Install(place, _) => {
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
        if begun.names.is_empty() {
            let begun = self.begun.take().expect("looked at above");
            return self.finish(begun, add).map(Some);
        }
        let uuid = self.aggregate.config.uuid;
        let mut gather = Gather::default();
        let mut loaded = Vec::new();
        for entry in begun.names.iter().take(TOGETHER) {
            let volume = load_volume(&begun.fs, cx, entry.file, &entry.name, uuid);
            loaded.extend(gather.add(volume));
        }
        gather.finish()?;
        for (volume, sides) in loaded {
            begun.names.pop_front();
            for (id, side) in sides {
                if begun.fs.files.insert(id, side).is_some() {
                    return Err(another_side_file(id));
                }
            }
            begun.volumes.push(volume);
        }
        Ok(None)
    }

    /// Reads what the aggregate has itself.
    fn begin(&self, cx: &mut LoadCx<'_>) -> Result<Begun, Stop> {
        let superblock = &self.superblock;
        let geometry = &self.aggregate.geometry;
        let area_blocks = geometry.area_blocks();
        let areas =
            geometry
                .extents()
                .iter()
                .zip(&superblock.frontiers)
                .map(|(extent, frontier)| {
                    Areas::new(
                        extent.length / area_blocks,
                        area_blocks,
                        u64::from(*frontier),
                    )
                });
        let bases = geometry
            .extents()
            .iter()
            .map(|extent| extent.base)
            .collect();
        let inode_file = superblock.inode_file.clone();
        let mut fs = FileSystem::new(
            Layer::Aggregate,
            area_blocks,
            bases,
            areas.collect(),
            inode_file,
        );
        fs.used = superblock.blocks_used;
        fs.areas_used = superblock.areas_used;
        fs.next_file = superblock.next_file;
        let mut names = VecDeque::new();
        if superblock.cp.0 == 0 {
            fs.create_metafiles(superblock.cp.next(), superblock.written_seconds);
        } else {
            load_file_system(&mut fs, cx, EntryKind::Volume)?;
            names.extend(fs.directory.iter().cloned());
            let moved = moved(&fs, cx, names.make_contiguous())?;
            self.aggregate.redirects.set(moved.into_iter());
        }
        Ok(Begun {
            fs,
            names,
            volumes: Vec::new(),
        })
    }

    fn finish(
        &mut self,
        begun: Begun,
        mut add: impl FnMut() -> Result<VolumeAffinities, Error>,
    ) -> Result<Home, Stop> {
        let Begun { fs, volumes, .. } = begun;
        let mut home = Home {
            aggregate: self.aggregate.clone(),
            fs,
            volumes: BTreeMap::new(),
            host: Host::default(),
            requests: VecDeque::new(),
            arrived: VecDeque::new(),
            run: None,
            replaying: None,
            is_pressed: false,
            last_begin: 0,
            last_reclaim: 0,
            leaving: Default::default(),
            is_entering: false,
            preparing: None,
            prepare_after: 0,
            search_wanted: false,
            wall_seconds: 0,
            punching: None,
            healing: std::mem::take(&mut self.healing),
            mender: Mender::new(self.superblock.inode_file.clone(), self.superblock.cp),
            installed: Vec::new(),
            scrub: None,
            derived: std::mem::take(&mut self.derived),
        };
        for loaded in volumes {
            let id = loaded.superblock.volume;
            let affinities = match self.affinities.entry(id) {
                std::collections::btree_map::Entry::Occupied(known) => known.get().clone(),
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(add().map_err(Stop::Failed)?).clone()
                }
            };
            join(&mut home, loaded, affinities);
        }
        home.tell_moved();
        home.tell_usage();
        home.aggregate.space.set_pending(home.pending_blocks());
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

/// Containers, each with whether its volume was split: without them its own inodes may not be found.
fn moved(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    names: &[Entry],
) -> Result<Vec<(bool, FileId, Root)>, Stop> {
    let mut gather = Gather::default();
    let mut moved = Vec::new();
    for id in names.iter().map(|entry| entry.file) {
        let container = &fs.files[&id];
        let Some(leaf) = gather.add(container.leaf(cx, SUPERBLOCK_VVBN.0)) else {
            continue;
        };
        let superblock = VolumeSuperblock::decode(leaf.bytes(), id, &cx.aggregate.config.uuid)?;
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
        superblock,
        fs,
        images,
    } = loaded;
    let shared = new_volume(home, affinities, superblock.volume, &name, superblock.sync);
    let mut luns = shared.luns.write().unwrap_or_else(PoisonError::into_inner);
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
        luns.insert(entry.name.clone(), Arc::new(lun));
    }
    drop(luns);
    for (snapshot, luns) in images {
        let luns = luns.unwrap_or_else(|reason| {
            let object = format!("snapshot {name}@{snapshot}");
            home.aggregate.lost.unreadable(&object, &reason);
            image::Luns::new()
        });
        let image = Image::new(&shared, &snapshot, &luns);
        shared.images_mut().insert(snapshot, image);
    }
    let live = fs.snapshots.live().map(SnapshotInfo::of);
    shared.swap_snapshots(&mut Arc::new(live.collect()));
    shared.set_base(fs.snapshots.roots.base);
    home.aggregate.lost.found(fs.lost);
    let known = VolumeHome {
        shared: shared.clone(),
        fs,
        sync: superblock.sync,
        is_new: false,
        next: None,
    };
    home.volumes.insert(superblock.volume, known);
    home.aggregate
        .volumes
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(name, shared);
}

fn load_inode(fs: &FileSystem, cx: &mut LoadCx<'_>, id: FileId) -> Result<Inode, Stop> {
    image::load_inode(&fs.inode_file, cx, id)
}

/// Loads metafiles, names, and the files that are named.
pub(crate) fn load_file_system(
    fs: &mut FileSystem,
    cx: &mut LoadCx<'_>,
    kind: EntryKind,
) -> Result<(), Stop> {
    const {
        let mut last = 0;
        while last < METAFILES.len() {
            assert!(
                (METAFILES[last].id.0 as u64) < INODES_PER_BLOCK,
                "all metafiles' inodes are in one block"
            );
            last += 1;
        }
    };
    for metafile in METAFILES {
        if !metafile.is_of(fs.layer) {
            continue;
        }
        let found = image::find_inode(&fs.inode_file, cx, metafile.id)?;
        let Some(inode) = found else {
            if metafile.is_optional {
                continue;
            }
            return Err(image::no_inode(metafile.id));
        };
        Damage::unless_equal("inode kind", Kind::Metafile, inode.kind)?;
        let file = fs.file_of(inode);
        fs.files.insert(metafile.id, file);
    }
    fs.has_counts = fs.files.contains_key(&REFCOUNTS);
    for id in [DIRECTORY, HIDDEN] {
        let blocks = fs.files[&id].inode.block_count();
        let most = u64::from(fs.next_file.0);
        if blocks > most {
            return Err(
                Damage::new("directory size", format!("at most {most} blocks"), blocks).into(),
            );
        }
    }
    let mut gather = Gather::default();
    let directory = gather.add(Names::load(&fs.files[&DIRECTORY], cx));
    let hidden = gather.add(Names::load(&fs.files[&HIDDEN], cx));
    let top = gather.add(load_top_areas(fs, cx));
    let notes = fs.files.get(&NOTES).map(|file| Notes::load(file, cx));
    let notes = gather.add(notes.unwrap_or_else(|| Ok(Notes::default())));
    gather.finish()?;
    let (Some(directory), Some(hidden), Some(top), Some(notes)) = (directory, hidden, top, notes)
    else {
        unreachable!("nothing was missing")
    };
    fs.notes = notes;
    let mut gather = Gather::default();
    for entry in directory.iter().chain(hidden.iter()) {
        // Side files of volumes have names only while they are being deleted.
        let is_side = entry.kind == EntryKind::Side
            && fs.layer == Layer::Aggregate
            && hidden.contains(entry.file);
        if !is_side {
            Damage::unless_equal("directory entry kind", kind, entry.kind)?;
        }
        let Some(inode) = gather.add(load_inode(fs, cx, entry.file)) else {
            continue;
        };
        let is_expected = match entry.kind {
            EntryKind::Volume => inode.kind == Kind::Container,
            EntryKind::Lun => inode.kind == Kind::Lun,
            EntryKind::Side => {
                matches!(inode.kind, Kind::Summary | Kind::Snapshots | Kind::Release)
            }
        };
        if !is_expected {
            let expected = format!("that of a {:?}", entry.kind);
            return Err(Damage::new("inode kind", expected, format!("{:?}", inode.kind)).into());
        }
        if inode.levels == 0 || entry.file >= fs.next_file {
            return Err(
                Damage::new("inode", "a file with levels and an id in use", entry.file).into(),
            );
        }
        if inode.is_cut && directory.contains(entry.file) {
            fs.cut.insert(entry.file);
        }
        let file = fs.file_of(inode);
        let known = fs.files.insert(entry.file, file);
        if known.is_some() {
            return Err(Damage::new("directory", "one name for each file", entry.file).into());
        }
    }
    gather.finish()?;
    fs.directory = directory;
    fs.hidden = hidden;
    for (area, free) in top.0 {
        let number = u64::from(area).saturating_mul(fs.area_blocks);
        if let Some((extent, area)) = fs.area_of(number)
            && u64::from(free) <= fs.area_blocks
        {
            // The host may not have space for an area that is all free: ask before using it.
            fs.areas[extent].score(area, u64::from(free), true);
        }
    }
    Ok(())
}

/// TopAA, from the inode or from its block. A cache: damage is treated as absence.
fn load_top_areas(fs: &FileSystem, cx: &mut LoadCx<'_>) -> Result<TopAreas, Stop> {
    let file = &fs.files[&TOP_AREAS];
    if let Some(bytes) = &file.inode.inline {
        let number = |bytes: &[u8]| everglade_format::bytes::u32_at(bytes, 0);
        return Ok(TopAreas(
            bytes
                .chunks_exact(8)
                .map(|e| (number(&e[..4]), number(&e[4..])))
                .collect(),
        ));
    }
    if file.inode.block_count() == 0 {
        return Ok(TopAreas::default());
    }
    match file.leaf(cx, 0) {
        Ok(leaf) => Ok(TopAreas::decode(leaf.bytes()).unwrap_or_default()),
        Err(Stop::Damaged(_) | Stop::Failed(_)) => Ok(TopAreas::default()),
        Err(stop) => Err(stop),
    }
}

/// Side files of a volume, which belong to the aggregate. Whoever adds them looks whether it has them already.
type Sides = Vec<(FileId, File)>;

fn another_side_file(id: FileId) -> Stop {
    let expected = "a file with levels that nothing else names";
    Damage::new("side file", expected, id).into()
}

fn load_volume(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    id: FileId,
    name: &str,
    uuid: [u8; 16],
) -> Result<(LoadedVolume, Sides), Stop> {
    let container = &fs.files[&id];
    let leaf = container.leaf(cx, SUPERBLOCK_VVBN.0)?;
    let superblock = VolumeSuperblock::decode(leaf.bytes(), id, &uuid)?;
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
    load_file_system(&mut volume, cx, EntryKind::Lun)?;
    let roots = superblock.snapshots.clone();
    let mut sides = Sides::new();
    let named = [
        (roots.files.map(|(summary, _)| summary), Kind::Summary),
        (roots.files.map(|(_, table)| table), Kind::Snapshots),
        (roots.release, Kind::Release),
    ];
    for (side, kind) in named {
        let Some(side) = side else { continue };
        let inode = load_inode(fs, cx, side)?;
        Damage::unless_equal("inode kind", kind, inode.kind)?;
        if inode.levels == 0 || side >= fs.next_file {
            return Err(another_side_file(side));
        }
        sides.push((side, File::new(inode, Layer::Aggregate)));
    }
    let side = |wanted: FileId| sides.iter().find(|(id, _)| *id == wanted);
    let table = roots.files.and_then(|(_, table)| side(table));
    let table = table.map(|(_, file)| file);
    volume.snapshots = Snapshots::load(roots, table, cx)?;
    lun_clone::check_loaded(&mut volume);
    let images = load_images(&volume.snapshots, cx)?;
    let volume = LoadedVolume {
        name: name.to_owned(),
        superblock,
        fs: volume,
        images,
    };
    Ok((volume, sides))
}

/// The LUNs of all snapshots that can be named. A snapshot that cannot be read costs nobody else anything.
fn load_images(snapshots: &Snapshots, cx: &mut LoadCx<'_>) -> Result<Images, Stop> {
    let mut images = Vec::new();
    let mut gather = Gather::default();
    for record in snapshots.live() {
        let luns = match image::load(cx, record).map_err(Stop::settled) {
            Ok(luns) => Ok(luns),
            Err(Stop::Failed(error)) => Err(error.to_string()),
            Err(stop) => {
                gather.add::<()>(Err(stop));
                continue;
            }
        };
        images.push((record.name.clone(), luns));
    }
    gather.finish()?;
    Ok(images)
}
