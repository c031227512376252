//! Restore: the image of a snapshot becomes the active one, and nothing newer is lost (F-16,
//! docs/design/design.md §8).
//!
//! In the freeze the active image is taken as a *safety snapshot*, and operations on the volume
//! begin to wait. The consistency point writes the frozen state, which is the safety snapshot's
//! image, reads the inodes of the target, and puts the target's root into the volume's superblock.
//! When the consistency point is published, clients see all of the target and continue. No block is
//! copied, and the cost does not depend on the volume's size. Later the fold scan puts the safety
//! snapshot's blocks into the summary map; until then every change of the active map reads its
//! snapmap, too ([`crate::holders::fold`]).
//!
//! 1. Clients see all of the image before, or all of the one after; a power cut leaves one of the
//!    two.
//! 2. If the target cannot be read, the restore has no effect: no safety snapshot, no change.
//! 3. A restore that discards newer snapshots takes a safety snapshot without a name, which counts
//!    as deleted from the beginning. The newer snapshots are deleted in the same consistency point.
//!    Clients lose the images of these snapshots when the restore is requested, and get them back
//!    if the target cannot be read.
//! 4. File ids and the frontier of the vvbn space belong to the volume, not to the image: a restore
//!    does not revert them.

use std::sync::atomic::Ordering;

use everglade_format::volume::VOLUME_AREA_BLOCKS;
use everglade_format::{EntryKind, FileId, Layer, SnapshotRecord};
use everglade_freespace::Areas;

use crate::alloc::filesystem::FileSystem;
use crate::alloc::named::load_file_system;
use crate::change::{Change, Error};
use crate::home::aggregate::Home;
use crate::home::publication::{Publication, Restored};
use crate::home::site::Site;
use crate::read::load::{LoadCx, Stop};

/// Reads the target's inodes, once in the consistency point. A target that cannot be read ends the
/// restore.
pub(crate) fn prepare(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) -> Result<(), Stop> {
    let volume = home.site(id).0.volume;
    let Some(target) = volume.fs.snapshots.restoring else {
        return Ok(());
    };
    if volume.next.is_some() {
        return Ok(());
    }
    let (now, record) = (&volume.fs, volume.fs.snapshots.get(target));
    let areas = (now.areas[0].count(), now.areas[0].frontier());
    match load(cx, record, id, areas).map_err(Stop::settled) {
        Ok(mut next) => {
            next.lost = now.lost.max(next.lost);
            next.next_file = now.next_file.max(next.next_file);
            volume.next = Some(Box::new(next));
            Ok(())
        }
        Err(Stop::Failed(error)) => {
            volume.fs.snapshots.restoring = None;
            let safety = volume.fs.snapshots.created.pop();
            assert!(safety.is_some(), "a restore takes a safety snapshot");
            for (id, image) in std::mem::take(&mut volume.discarding) {
                if let Some(image) = image {
                    volume.shared.keep_image(volume.fs.snapshots.get(id), image);
                }
            }
            let name = volume.shared.name.to_string();
            volume.shared.is_paused.store(false, Ordering::Release);
            let is_ours = |change: &Change| match change {
                Change::RestoreVolume { volume, .. } | Change::RollBackVolume { volume, .. } => {
                    *volume == name
                }
                _ => false,
            };
            let reason = format!("the snapshot cannot be read, and nothing was changed: {error}");
            home.under_way()
                .refuse(is_ours, &Error::Unavailable(reason));
            Ok(())
        }
        Err(stop) => Err(stop),
    }
}

/// Loads the file system whose root is a snapshot, in a container and a vvbn space of this many
/// areas; areas from the frontier on are unused.
pub(crate) fn load(
    cx: &mut LoadCx<'_>,
    record: &SnapshotRecord,
    container: FileId,
    (count, frontier): (u64, u64),
) -> Result<FileSystem, Stop> {
    let areas = Areas::new(count, VOLUME_AREA_BLOCKS, frontier);
    let mut fs = FileSystem::new(
        Layer::Volume,
        VOLUME_AREA_BLOCKS,
        vec![0],
        vec![areas],
        record.inode_file.clone(),
    );
    fs.set_container(container);
    fs.used = record.blocks_used;
    fs.lost = record.lost;
    fs.next_file = record.next_file;
    load_file_system(&mut fs, cx, EntryKind::Lun)?;
    Ok(fs)
}

/// The restored image takes the place of the one that was just sealed.
pub(crate) fn switch(site: &mut Site<'_>, publication: &mut Publication) {
    let volume = &mut *site.volume;
    let Some(mut next) = volume.next.take() else {
        return;
    };
    let mut snapshots = std::mem::take(&mut volume.fs.snapshots);
    let target = snapshots.restoring.take().expect("it was prepared");
    let safety = snapshots.roots.parent.expect("a safety snapshot was taken");
    snapshots.get_mut(safety).is_unfolded = true;
    snapshots.get_mut(target).exclusive = 0;
    snapshots.roots.parent = Some(target);
    snapshots.roots.exclusive = 0;
    for (id, _) in std::mem::take(&mut volume.discarding) {
        snapshots.delete(id);
    }
    snapshots.set_changed();
    snapshots.held.clear();
    volume.fs.finish_cp();
    next.snapshots = snapshots;
    // Areas may have been opened since the target was read: every area once used stays below the
    // frontier.
    let now = &volume.fs.areas[0];
    next.areas = vec![Areas::new(now.count(), VOLUME_AREA_BLOCKS, now.frontier())];
    // Areas lent to cursors of the former image have no owner now, and will be searched.
    volume.fs = *next;
    let restored = Restored::new(&volume.shared, &volume.fs);
    publication.restored.push(restored);
}
