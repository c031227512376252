//! Reading a file system: its metafiles, names and areas.

use everglade_format::inode::INODES_PER_BLOCK;
use everglade_format::metafile::{DIRECTORY, HIDDEN, METAFILES, NOTES, REFCOUNTS, TOP_AREAS};
use everglade_format::{Damage, EntryKind, FileId, Inode, Kind, Layer, TopAreas};

use crate::alloc::filesystem::FileSystem;
use crate::pool::image;
use crate::read::load::{Gather, LoadCx, Stop};
use crate::tree::File;
use crate::tree::names::Names;
use crate::tree::notes::Notes;

pub(crate) fn load_inode(fs: &FileSystem, cx: &mut LoadCx<'_>, id: FileId) -> Result<Inode, Stop> {
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
        fs.files.insert(metafile.id, File::new(inode, fs.layer));
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
        let known = fs.files.insert(entry.file, File::new(inode, fs.layer));
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
pub(crate) fn load_top_areas(fs: &FileSystem, cx: &mut LoadCx<'_>) -> Result<TopAreas, Stop> {
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
        Err(Stop::Failed(_)) => Ok(TopAreas::default()),
        Err(stop) => Err(stop),
    }
}
