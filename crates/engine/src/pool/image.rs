//! The LUNs of a snapshot, as clients see them: read-only, at `volume/lun@snapshot`.

use std::collections::BTreeMap;
use std::sync::Arc;

use everglade_format::metafile::DIRECTORY;
use everglade_format::{Damage, Inode, Kind, Layer, SnapshotRecord};

use crate::pool::volume::{Lun, Volume};
use crate::read::load::{Gather, LoadCx, Stop};
use crate::read::root::Root;
use crate::tree::File;
use crate::tree::names::Names;

/// A LUN of an image: its name and its inode.
pub(crate) type Luns = Vec<(String, Inode)>;

/// Reads the LUNs of a snapshot.
pub(crate) fn load(cx: &mut LoadCx<'_>, record: &SnapshotRecord) -> Result<Luns, Stop> {
    let inodes = File::new(record.inode_file.clone(), Layer::Volume);
    let directory = load_inode(&inodes, cx, DIRECTORY)?;
    Damage::unless_equal("inode kind", Kind::Metafile, directory.kind)?;
    let most = u64::from(record.next_file.0);
    if directory.block_count() > most {
        let expected = format!("at most {most} blocks");
        return Err(Damage::new("directory size", expected, directory.block_count()).into());
    }
    let names = Names::load(&File::new(directory, Layer::Volume), cx)?;
    let mut luns = Luns::new();
    let mut gather = Gather::default();
    for entry in names.iter().filter(|entry| !entry.is_in_trash()) {
        let Some(inode) = gather.add(load_inode(&inodes, cx, entry.file)) else {
            continue;
        };
        Damage::unless_equal("inode kind", Kind::Lun, inode.kind)?;
        luns.push((entry.name.clone(), inode));
    }
    gather.finish()?;
    Ok(luns)
}

/// Reads an inode of an image.
pub(crate) fn load_inode(
    inodes: &File,
    cx: &mut LoadCx<'_>,
    id: everglade_format::FileId,
) -> Result<Inode, Stop> {
    find_inode(inodes, cx, id)?.ok_or_else(|| no_inode(id))
}

/// The damage of a file that has no inode.
pub(crate) fn no_inode(id: everglade_format::FileId) -> Stop {
    let expected = format!("an inode of file {id}");
    Damage::new("inode", expected, "none").into()
}

/// Loads the inode of a file that may not exist.
pub(crate) fn find_inode(
    inodes: &File,
    cx: &mut LoadCx<'_>,
    id: everglade_format::FileId,
) -> Result<Option<Inode>, Stop> {
    let (block, slot) = Inode::block_and_slot(id);
    if block >= inodes.inode.block_count() {
        return Ok(None);
    }
    let leaf = inodes.leaf(cx, block)?;
    let Some(inode) = Inode::decode_from(leaf.bytes(), slot, id, inodes.layer)? else {
        return Ok(None);
    };
    let least = Inode::levels_for(inode.block_count());
    if inode.levels < least {
        let expected = format!("at least {least} for its size");
        return Err(Damage::new("inode levels", expected, inode.levels).into());
    }
    Ok(Some(inode))
}

/// A snapshot that clients can open.
#[derive(Default)]
pub(crate) struct Image {
    pub(crate) luns: BTreeMap<String, Arc<Lun>>,
}

impl Image {
    pub(crate) fn new(volume: &Arc<Volume>, snapshot: &str, luns: &Luns) -> Image {
        let lun = |(name, inode): &(String, Inode)| {
            let root = Root::of(inode);
            let lun = Lun::of_snapshot(
                inode.id,
                name,
                snapshot,
                volume.clone(),
                inode.size_bytes,
                root,
            );
            (name.clone(), Arc::new(lun))
        };
        Image {
            luns: luns.iter().map(lun).collect(),
        }
    }

    /// Returns the image under another name. No client may have it open.
    pub(crate) fn renamed(self, snapshot: &str) -> Image {
        let again = |lun: Arc<Lun>| {
            let volume = lun.volume.clone();
            Arc::new(Lun::of_snapshot(
                lun.file,
                &lun.name.get(),
                snapshot,
                volume,
                lun.size_bytes(),
                lun.root(),
            ))
        };
        let luns = self.luns.into_iter();
        Image {
            luns: luns.map(|(name, lun)| (name, again(lun))).collect(),
        }
    }

    /// True if a client has one of its LUNs open.
    pub(crate) fn is_open(&self) -> bool {
        self.luns.values().any(|lun| Arc::strong_count(lun) > 1)
    }
}
