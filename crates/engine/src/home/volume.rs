//! The home reactor's state of a volume.

use std::sync::Arc;

use everglade_format::{FileId, Inode, SnapshotId};

use crate::alloc::filesystem::FileSystem;
use crate::pool::aggregate::Aggregate;
use crate::pool::image::Image;
use crate::pool::volume::Volume;
use crate::tree::Lost;

/// State of a volume that only the home reactor has.
pub(crate) struct VolumeHome {
    pub(crate) shared: Arc<Volume>,
    pub(crate) fs: FileSystem,
    /// Its superblock is not in the container yet.
    pub(crate) is_new: bool,
    /// The image that a restore is about to put in the place of `fs`.
    pub(crate) next: Option<Box<FileSystem>>,
    /// Snapshots that the restore removes, each with the image that clients had before the restore
    /// was requested.
    pub(crate) discarding: Vec<(SnapshotId, Option<Image>)>,
}

impl VolumeHome {
    /// Takes note of blocks of a LUN that became lost. Halts the aggregate instead if it has lost
    /// segment files.
    pub(crate) fn note_lost(&mut self, aggregate: &Aggregate, lun: FileId, lost: Vec<Lost>) {
        // A search in the directory is not for each LUN that is cleaned.
        let Some(first) = lost.first() else {
            return;
        };
        if !aggregate.lost_segments.is_empty() {
            // The block may come back with its file. The consistency point does not commit.
            let reason = &first.reason;
            return aggregate.halt(format!(
                "a change needs a block that cannot be read: {reason}"
            ));
        }
        let name = self.fs.directory.iter().find(|entry| entry.file == lun);
        let name = name.map_or("a deleted LUN", |entry| &entry.name);
        for Lost {
            level,
            index,
            reason,
        } in lost
        {
            self.fs.lost += 1;
            let reach = Inode::reach(level);
            let bytes = |index: u64| {
                let leaf = index.saturating_mul(reach);
                leaf.saturating_mul(everglade_env::BLOCK_SIZE as u64)
            };
            let object = format!("{}/{name}", self.shared.name);
            let bytes = bytes(index)..bytes(index + 1);
            aggregate.lost.lost(object, &bytes, &reason);
        }
    }
}
