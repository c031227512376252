//! Looking up blocks in the last committed consistency point.

use everglade_format::snapshot::State;
use everglade_format::volume::SUPERBLOCK_VVBN;
use everglade_format::{FileId, Inode, Layer, Pointer, Pvbn, Tag, VolumeSuperblock, Vvbn};

use crate::holders::table::Snapshots;
use crate::pool::aggregate::Aggregate;
use crate::pool::image;
use crate::read::load::{BlockName, LoadCx, Stop};
use crate::tree::File;

/// The aggregate as it was committed.
pub(super) struct View<'v> {
    pub(super) aggregate: &'v Aggregate,
    /// The inode of its inode file.
    pub(super) inode_file: &'v Inode,
}

impl View<'_> {
    /// A file of the aggregate that must be there.
    pub(super) fn file(&self, cx: &mut LoadCx<'_>, id: FileId) -> Result<File, Stop> {
        let inodes = File::new(self.inode_file.clone(), Layer::Aggregate);
        let inode = image::load_inode(&inodes, cx, id)?;
        Ok(File::new(inode, Layer::Aggregate))
    }

    /// Reads a volume's superblock.
    pub(super) fn superblock(
        &self,
        cx: &mut LoadCx<'_>,
        volume: FileId,
    ) -> Result<VolumeSuperblock, Stop> {
        let container = self.file(cx, volume)?;
        let leaf = container.leaf(cx, SUPERBLOCK_VVBN.0)?;
        let uuid = &self.aggregate.uuid;
        Ok(VolumeSuperblock::decode(leaf.bytes(), volume, uuid)?)
    }

    /// A file of an image of a volume that must be there.
    pub(super) fn file_of(
        &self,
        cx: &mut LoadCx<'_>,
        volume: FileId,
        inode_file: &Inode,
        id: FileId,
    ) -> Result<File, Stop> {
        let inodes = File::new(inode_file.clone(), Layer::Volume).of(Some(volume));
        let inode = image::load_inode(&inodes, cx, id)?;
        Ok(File::new(inode, Layer::Volume).of(Some(volume)))
    }

    /// A volume's snapshots.
    pub(super) fn snapshots(
        &self,
        cx: &mut LoadCx<'_>,
        superblock: &VolumeSuperblock,
    ) -> Result<Snapshots, Stop> {
        let roots = superblock.snapshots.clone();
        let table = match roots.files {
            Some((_, table)) => Some(self.file(cx, table)?),
            None => None,
        };
        Snapshots::load(roots, table.as_ref(), cx)
    }

    /// The place of a volume's block, by the volume's container or, for a clone, by those of its
    /// parents.
    pub(super) fn slot(
        &self,
        cx: &mut LoadCx<'_>,
        mut volume: FileId,
        vvbn: Vvbn,
    ) -> Result<Option<(Pvbn, Tag)>, Stop> {
        loop {
            let slot = self.file(cx, volume)?.pointer(cx, 0, vvbn.0)?;
            if slot.has_block() {
                return Ok(Some((slot.pvbn, slot.tag)));
            }
            let base = self.superblock(cx, volume)?.snapshots.base;
            match base {
                // Parents are older.
                Some((parent, _)) if parent < volume => volume = parent,
                _ => return Ok(None),
            }
        }
    }

    /// The inode of the inode file of the image in which a metafile has this block at `pointer`.
    pub(super) fn image_with(
        &self,
        cx: &mut LoadCx<'_>,
        name: BlockName,
        pointer: Pointer,
    ) -> Result<Option<Inode>, Stop> {
        let volume = name.volume.expect("images are of volumes");
        let superblock = self.superblock(cx, volume)?;
        let mut images = vec![superblock.inode_file.clone()];
        let snapshots = self.snapshots(cx, &superblock)?;
        let records = snapshots.all().filter(|it| it.state != State::Gone);
        images.extend(records.map(|record| record.inode_file.clone()));
        for image in images {
            let inodes = File::new(image.clone(), Layer::Volume).of(Some(volume));
            let found = match image::find_inode(&inodes, cx, name.file) {
                // An image that cannot be read cannot tell.
                Err(Stop::Damaged(_)) | Ok(None) => continue,
                found => found?,
            };
            let Some(inode) = found else { continue };
            let file = File::new(inode, Layer::Volume).of(Some(volume));
            let known = match file.pointer(cx, name.level, name.index) {
                Err(Stop::Damaged(_)) => continue,
                known => known?,
            };
            if (known.vvbn, known.tag) == (pointer.vvbn, pointer.tag) {
                return Ok(Some(image));
            }
        }
        Ok(None)
    }
}
