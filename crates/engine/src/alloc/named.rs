//! The files that a file system names, as a mount reads them: metafiles, directories, and the
//! inodes that these name.
//!
//! A mount leaves out damaged files and notes them ([`Absent`]): one damaged block must not close a
//! pool that can be read. An aggregate without some of its files is read-only (`pool/standing.rs`),
//! so nothing incomplete is ever written.
//!
//! | damaged | left out |
//! | --- | --- |
//! | an inode | its LUN or volume; what stays has its name |
//! | a block of a directory, or its inode | the names: what had them gets `lun-ID` or `volume-ID` |
//! | the inode of another metafile | nothing that is read |
//!
//! Only damaged files are left out. A device that does not answer fails the mount, because it may
//! answer at the next start.

use std::collections::BTreeSet;

use everglade_format::inode::INODES_PER_BLOCK;
use everglade_format::metafile::{
    DIRECTORY, FIRST_FILE, HIDDEN, METAFILES, Metafile, NOTES, REFCOUNTS, TOP_AREAS,
};
use everglade_format::{CpNumber, Damage, Entry, EntryKind, FileId, Inode, Kind, Layer, TopAreas};

use crate::alloc::filesystem::FileSystem;
use crate::pool::image;
use crate::read::load::{Damaged, Gather, LoadCx, Stop};
use crate::tree::names::Names;
use crate::tree::notes::Notes;

/// Something that a mount could not read.
#[derive(Clone, Debug)]
pub(crate) struct Absent {
    /// For people: `LUN a`.
    pub(crate) what: String,
    pub(crate) damaged: Box<Damaged>,
}

const _: () = {
    let mut last = 0;
    while last < METAFILES.len() {
        assert!(
            (METAFILES[last].id.0 as u64) < INODES_PER_BLOCK,
            "all metafiles' inodes are in one block"
        );
        last += 1;
    }
};

/// Loads metafiles, names, and the files that are named; all of them, or it stops.
pub(crate) fn load_file_system(
    fs: &mut FileSystem,
    cx: &mut LoadCx<'_>,
    kind: EntryKind,
) -> Result<(), Stop> {
    match load_readable(fs, cx, kind)?.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(Stop::Damaged(first.damaged)),
    }
}

/// Loads what can be read of them. Returns what cannot.
pub(crate) fn load_readable(
    fs: &mut FileSystem,
    cx: &mut LoadCx<'_>,
    kind: EntryKind,
) -> Result<Vec<Absent>, Stop> {
    let mut absent = Vec::new();
    let mut lost_metafiles = BTreeSet::new();
    for metafile in METAFILES.iter().filter(|known| known.is_of(fs.layer)) {
        let inode = match load_metafile(fs, cx, metafile) {
            Ok(inode) => inode,
            Err(Stop::Damaged(damaged)) => {
                record_absent(&mut absent, "inodes of metafiles", damaged);
                lost_metafiles.insert(metafile.id);
                // Empty, so that everybody finds it.
                Some(Inode::new(metafile.id, Kind::Metafile, CpNumber(0), 0))
            }
            Err(stop) => return Err(stop),
        };
        if let Some(inode) = inode {
            let file = fs.file_of(inode);
            fs.files.insert(metafile.id, file);
        }
    }
    fs.has_counts = fs.files.contains_key(&REFCOUNTS);
    let mut gather = Gather::default();
    let directory = gather.add(load_names(fs, cx, DIRECTORY));
    let hidden = gather.add(load_names(fs, cx, HIDDEN));
    let top = gather.add(load_top_areas(fs, cx));
    let notes = fs
        .files
        .get(&NOTES)
        .map(|file| Notes::load(file, cx, |pvbn| fs.area_of(pvbn.0).is_some()));
    let notes = gather.add(notes.unwrap_or_else(|| Ok(Notes::default())));
    gather.finish()?;
    let (Some(directory), Some(hidden), Some(top), Some(notes)) = (directory, hidden, top, notes)
    else {
        unreachable!("nothing was missing")
    };
    fs.notes = notes;
    let (mut directory, lost_names) = directory;
    let (mut hidden, lost_hidden) = hidden;
    let is_nameless = lost_metafiles.contains(&DIRECTORY) || !lost_names.is_empty();
    for damaged in lost_names.into_iter().chain(lost_hidden) {
        record_absent(&mut absent, "names", Box::new(damaged));
    }
    if is_nameless {
        for entry in load_nameless(fs, cx, kind, &[&directory, &hidden])? {
            directory.add(entry);
        }
    }
    load_named(fs, cx, kind, (&mut directory, &mut hidden), &mut absent)?;
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
    Ok(absent)
}

/// Notes what is absent, once for each reason.
fn record_absent(absent: &mut Vec<Absent>, what: &str, damaged: Box<Damaged>) {
    if absent.iter().all(|known| known.damaged != damaged) {
        let what = what.to_owned();
        absent.push(Absent { what, damaged });
    }
}

fn load_metafile(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    metafile: &Metafile,
) -> Result<Option<Inode>, Stop> {
    let found = image::find_inode(&fs.inode_file, cx, metafile.id)?;
    let Some(inode) = found else {
        return match metafile.is_optional {
            true => Ok(None),
            false => Err(image::no_inode(metafile.id)),
        };
    };
    Damage::unless_equal("inode kind", Kind::Metafile, inode.kind)?;
    Ok(Some(inode))
}

/// A directory, and which of its blocks are damaged.
fn load_names(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    id: FileId,
) -> Result<(Names, Vec<Damaged>), Stop> {
    let file = &fs.files[&id];
    let (blocks, most) = (file.inode.block_count(), u64::from(fs.next_file.0));
    if blocks > most {
        let expected = format!("at most {most} blocks");
        let damage = Damage::new("directory size", expected, blocks);
        return match damage.into() {
            Stop::Damaged(damaged) => Ok((Names::default(), vec![*damaged])),
            stop => Err(stop),
        };
    }
    Names::load_readable(file, cx)
}

/// Files of this kind that no name was found for, with names made up for them.
fn load_nameless(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    kind: EntryKind,
    known: &[&Names],
) -> Result<Vec<Entry>, Stop> {
    let (wanted, noun) = match kind {
        EntryKind::Volume => (Kind::Container, "volume"),
        EntryKind::Lun | EntryKind::Side => (Kind::Lun, "lun"),
    };
    let first = Inode::block_and_slot(FIRST_FILE).0;
    let blocks = fs.inode_file.inode.block_count();
    // File numbers end here.
    let blocks = blocks.min(u64::from(fs.next_file.0).div_ceil(INODES_PER_BLOCK));
    let mut taken: BTreeSet<String> = known
        .iter()
        .flat_map(|names| names.iter().map(|entry| entry.name.clone()))
        .collect();
    let mut found = Vec::new();
    let mut gather = Gather::default();
    for block in first..blocks {
        let leaf = match fs.inode_file.leaf(cx, block) {
            Ok(leaf) => leaf,
            Err(Stop::Damaged(_)) => continue,
            Err(stop) => {
                gather.add::<()>(Err(stop));
                continue;
            }
        };
        for slot in 0..INODES_PER_BLOCK {
            let number = u32::try_from(block * INODES_PER_BLOCK + slot);
            let id = FileId(number.expect("below the next file"));
            let slot = usize::try_from(slot).expect("few in a block");
            if id < FIRST_FILE || known.iter().any(|names| names.contains(id)) {
                continue;
            }
            let inode = Inode::decode_from(leaf.bytes(), slot, id, fs.layer);
            if !inode.is_ok_and(|inode| inode.is_some_and(|inode| inode.kind == wanted)) {
                continue;
            }
            let mut name = format!("{noun}-{id}");
            while !taken.insert(name.clone()) {
                name.push('-');
            }
            found.push(Entry::new(id, kind, &name));
        }
    }
    gather.finish()?;
    Ok(found)
}

/// Loads the files that are named; what cannot be read loses its name.
fn load_named(
    fs: &mut FileSystem,
    cx: &mut LoadCx<'_>,
    kind: EntryKind,
    (directory, hidden): (&mut Names, &mut Names),
    absent: &mut Vec<Absent>,
) -> Result<(), Stop> {
    let mut gather = Gather::default();
    let mut lost = Vec::new();
    for entry in directory.iter().chain(hidden.iter()) {
        let is_hidden = hidden.contains(entry.file);
        let inode = match load_inode(fs, cx, kind, entry, is_hidden) {
            Err(Stop::Damaged(damaged)) => {
                lost.push((entry.file, entry.name.clone(), damaged));
                continue;
            }
            inode => inode,
        };
        let Some(inode) = gather.add(inode) else {
            continue;
        };
        if inode.is_cut && directory.contains(entry.file) {
            fs.cut.insert(entry.file);
        }
        let file = fs.file_of(inode);
        fs.files.insert(entry.file, file);
    }
    gather.finish()?;
    for (id, name, damaged) in lost {
        if fs.files.contains_key(&id) {
            // Named twice: the other name is as good.
            continue;
        }
        directory.remove(id);
        hidden.remove(id);
        let noun = match kind {
            EntryKind::Volume => "volume",
            EntryKind::Lun | EntryKind::Side => "LUN",
        };
        record_absent(absent, &format!("{noun} {name}"), damaged);
    }
    Ok(())
}

/// The inode that an entry names, if it can be what the entry says.
fn load_inode(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    kind: EntryKind,
    entry: &Entry,
    is_hidden: bool,
) -> Result<Inode, Stop> {
    // Side files of volumes have names only while they are being deleted.
    let is_side = entry.kind == EntryKind::Side && fs.layer == Layer::Aggregate && is_hidden;
    if !is_side {
        Damage::unless_equal("directory entry kind", kind, entry.kind)?;
    }
    let inode = image::load_inode(&fs.inode_file, cx, entry.file)?;
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
        return Err(Damage::new("inode", "a file with levels and an id in use", entry.file).into());
    }
    if fs.files.contains_key(&entry.file) {
        return Err(Damage::new("directory", "one name for each file", entry.file).into());
    }
    Ok(inode)
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

#[cfg(test)]
mod tests;
