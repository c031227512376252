//! The state that a consistency point shows clients when it is published: roots, snapshots,
//! restored volumes and new LUNs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::alloc::filesystem::FileSystem;
use crate::pool::image::Image;
use crate::pool::info::SnapshotInfo;
use crate::pool::volume::{Lun, Volume};
use crate::read::root::Root;

/// Client-visible state of the consistency point under way, until it is published.
#[derive(Default)]
pub(crate) struct Publication {
    pub(crate) roots: Vec<(Arc<Lun>, Root)>,
    /// Clones of LUNs that are complete.
    pub(crate) new_luns: Vec<NewLun>,
    /// New snapshots.
    pub(crate) images: Vec<(Arc<Volume>, String, Image)>,
    /// Restored volumes.
    pub(crate) restored: Vec<Restored>,
    /// New snapshot lists of volumes, for administrators.
    pub(crate) views: Vec<(Arc<Volume>, Arc<Vec<SnapshotInfo>>)>,
}

impl Publication {
    /// Publishes all of the state. Inside the Aggregate affinity; pointer swaps only. The former
    /// state stays here, so that its memory can be freed outside.
    pub(crate) fn publish(&mut self) {
        for (lun, root) in self.roots.drain(..) {
            lun.set_root(root);
        }
        for restored in self.restored.drain(..) {
            restored.publish();
        }
        self.new_luns.drain(..).for_each(NewLun::publish);
        for (volume, name, image) in self.images.drain(..) {
            volume.images_mut().insert(name, image);
        }
        for (volume, view) in &mut self.views {
            volume.swap_snapshots(view);
        }
    }
}

/// A new LUN, which clients will see when the consistency point is published.
pub(crate) struct NewLun {
    pub(crate) volume: Arc<Volume>,
    pub(crate) lun: Arc<Lun>,
}

impl NewLun {
    /// Shows it to clients. Inside the Aggregate affinity.
    pub(crate) fn publish(self) {
        let name = self.lun.name.get().to_string();
        let mut luns = self.volume.luns.write();
        // The LUN exists already if a LUN was restored in the same consistency point: a restore
        // publishes all LUNs.
        luns.entry(name).or_insert(self.lun);
    }
}

/// A LUN as clients will see it: its handle, and the values that the handle will get.
pub(crate) struct Next {
    lun: Arc<Lun>,
    name: String,
    /// When it was put into the trash; 0 if it is not there.
    deleted_seconds: u64,
    size_bytes: u64,
    used_blocks: u64,
    root: Root,
}

/// The LUNs of the restored image. A LUN that exists now keeps its handle, even if its name
/// changes. If the image has a LUN in its trash, the LUN gets a new handle, which no client has.
pub(crate) fn luns(shared: &Arc<Volume>, fs: &FileSystem) -> Vec<Next> {
    let known = shared.kept_luns();
    let lun = |entry: &everglade_format::Entry| {
        let inode = &fs.files[&entry.file].inode;
        let is_free = |lun: &&Arc<Lun>| lun.file == entry.file && !entry.is_in_trash();
        let same = known.iter().find(is_free);
        let root = Root::of(inode);
        let lun = same.cloned().unwrap_or_else(|| {
            Arc::new(Lun::new(
                entry.file,
                &entry.name,
                shared.clone(),
                inode.size_bytes,
                root,
            ))
        });
        Next {
            lun,
            name: entry.name.clone(),
            deleted_seconds: entry.deleted_seconds,
            size_bytes: inode.size_bytes,
            used_blocks: inode.blocks,
            root,
        }
    };
    fs.directory.iter().map(lun).collect()
}

/// A volume that was restored, with the LUNs that clients will see when the consistency point is
/// published.
pub(crate) struct Restored {
    volume: Arc<Volume>,
    luns: Vec<Next>,
}

impl Restored {
    pub(crate) fn new(volume: &Arc<Volume>, fs: &FileSystem) -> Restored {
        Restored {
            volume: volume.clone(),
            luns: luns(volume, fs),
        }
    }

    /// Shows it. Inside the Aggregate affinity.
    pub(crate) fn publish(self) {
        let volume = self.volume;
        assert_eq!(
            volume.dirty_stripes.load(Ordering::Acquire),
            0,
            "operations wait while a volume is restored"
        );
        let mut luns = volume.luns.write();
        let mut trash = volume.trash.write();
        let before = std::mem::take(&mut *luns);
        let before = before.into_values();
        let trashed = std::mem::take(&mut *trash);
        let before = before.chain(trashed.into_values().map(|(_, lun)| lun));
        for next in self.luns {
            let lun = next.lun;
            lun.set_size_bytes(next.size_bytes);
            lun.set_used_blocks(next.used_blocks);
            lun.name.set(&next.name);
            lun.set_root(next.root);
            match next.deleted_seconds {
                0 => _ = luns.insert(next.name, lun),
                seconds => _ = trash.insert(lun.file, (seconds, lun)),
            }
        }
        for lun in before {
            if !luns.values().any(|new| Arc::ptr_eq(new, &lun)) {
                lun.set_gone();
            }
        }
        drop((luns, trash));
        volume.is_paused.store(false, Ordering::Release);
    }
}
