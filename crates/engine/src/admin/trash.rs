//! Putting LUNs, snapshots and volumes into the trash, taking them out, and removing them for good
//! ([`crate::pool::trash`]). All of it happens in the freeze.
//!
//! ```text
//! in use ──put──▶ in the trash ──purge, or space is short──▶ its blocks are freed (E-11)
//!    ◀──undelete──────┘
//! ```
//!
//! 1. An object is in the maps of names or in the trash, never in both. Its entry in the directory,
//!    or its record, says which, so both are committed together.
//! 2. A client that has a LUN open loses it when it is put into the trash. The client's handle
//!    stays invalid, also after the LUN has come back. A snapshot that a client has open is not
//!    deleted.
//! 3. Writes that joined before the object was put into the trash are in it. There are no later
//!    ones.
//! 4. A client is refused for lack of space only after the trash is empty.
//! 5. A volume that is about to have as many snapshots as it may have loses those in the trash
//!    first.
//! 6. A snapshot in the trash has no holds and no clones, so nothing keeps it from leaving.

use std::sync::atomic::Ordering;

use everglade_affinity::Permit;
use everglade_format::snapshot::SNAPSHOTS_MAX;
use everglade_format::{FileId, SnapshotId};

use crate::admin::lun::{hide, take_away};
use crate::admin::snapshot;
use crate::admin::volume::{check_expendable, destroy, end_layout};
use crate::background::lun_clone;
use crate::change::{Context, Error};
use crate::home::aggregate::Home;
use crate::home::find::{check_name, check_new, find};
use crate::home::volume::VolumeHome;
use crate::pool::trash::{self, TrashInfo};
use crate::pool::trashed_snapshot::TrashedSnapshot;

/// Snapshots that a volume may still take while it has others in the trash.
const PLACES_KEPT: usize = 16;

pub(crate) fn put_lun(
    home: &mut Home,
    seconds: u64,
    volume: &str,
    name: &str,
) -> Result<(), Error> {
    let (volume, lun) = take_away(home, volume, name)?;
    let kept = (seconds.max(1), lun.with_new_handle());
    volume.shared.trash.write().insert(lun.file, kept);
    volume.fs.directory.put_into_trash(lun.file, seconds);
    Ok(())
}

pub(crate) fn undelete_lun(
    home: &mut Home,
    volume: &str,
    lun: u32,
    name: &str,
) -> Result<(), Error> {
    check_name(name)?;
    let volume = find(home, volume)?;
    lun_clone::check_free(volume, name)?;
    if volume.shared.lun(name).is_some() {
        return Err(Error::Exists(format!("LUN {}/{name}", volume.shared.name)));
    }
    let file = FileId(lun);
    let found = volume.shared.trash.write().remove(&file);
    let (_, lun) = found.ok_or_else(|| not_there(&format!("LUN of {}", volume.shared.name)))?;
    lun.name.set(name);
    volume.shared.luns.write().insert(name.to_owned(), lun);
    volume.fs.directory.revive(file, name);
    Ok(())
}

pub(crate) fn purge_lun(home: &mut Home, volume: &str, lun: u32) -> Result<(), Error> {
    let volume = find(home, volume)?;
    let found = volume.shared.trash.write().remove(&FileId(lun));
    found.ok_or_else(|| not_there(&format!("LUN of {}", volume.shared.name)))?;
    hide(volume, FileId(lun));
    Ok(())
}

pub(crate) fn put_snapshot(
    home: &mut Home,
    seconds: u64,
    volume: &str,
    name: &str,
) -> Result<(), Error> {
    let (volume, id, image) = snapshot::take_away(home, volume, name)?;
    volume.fs.snapshots.put_into_trash(id, seconds);
    let record = volume.fs.snapshots.get(id);
    let image = image.unwrap_or_default();
    volume.shared.keep_image(record, image);
    Ok(())
}

pub(crate) fn undelete_snapshot(
    home: &mut Home,
    volume: &str,
    snapshot: u32,
    name: &str,
) -> Result<(), Error> {
    let volume = find(home, volume)?;
    check_new(volume, name)?;
    let (id, trashed) = take_out(volume, snapshot)?;
    volume.fs.snapshots.revive(id, name);
    let record = volume.fs.snapshots.get(id);
    volume
        .shared
        .keep_image(record, trashed.image.renamed(name));
    Ok(())
}

pub(crate) fn purge_snapshot(home: &mut Home, volume: &str, snapshot: u32) -> Result<(), Error> {
    let volume = find(home, volume)?;
    let (id, _) = take_out(volume, snapshot)?;
    volume.fs.snapshots.delete(id);
    Ok(())
}

fn take_out(volume: &VolumeHome, snapshot: u32) -> Result<(SnapshotId, TrashedSnapshot), Error> {
    let id = SnapshotId(snapshot);
    let found = volume.shared.trashed_snapshots.write().remove(&id);
    let what = || not_there(&format!("snapshot of {}", volume.shared.name));
    Ok((id, found.ok_or_else(what)?))
}

pub(crate) fn put_volume(
    home: &mut Home,
    context: &mut Context<'_>,
    name: &str,
) -> Result<(), Error> {
    let volume = find(home, name)?.shared.clone();
    check_expendable(home, &volume)?;
    end_layout(home, context.seconds, volume.id);
    home.aggregate.volumes.write().remove(name);
    context.names.lock().remove(name);
    let mut luns = volume.luns.write();
    for lun in luns.values_mut() {
        lun.set_gone();
        *lun = lun.with_new_handle();
    }
    drop(luns);
    let mut images = volume.images_mut();
    for (snapshot, image) in std::mem::take(&mut *images) {
        image.luns.values().for_each(|lun| lun.set_gone());
        let image = image.renamed(&snapshot);
        images.insert(snapshot, image);
    }
    drop(images);
    let seconds = context.seconds.max(1);
    volume.deleted_seconds.store(seconds, Ordering::Relaxed);
    home.fs.directory.put_into_trash(volume.id, seconds);
    home.aggregate.trash.write().insert(volume.id, volume);
    Ok(())
}

pub(crate) fn undelete_volume(
    home: &mut Home,
    context: &mut Context<'_>,
    volume: u32,
    name: &str,
) -> Result<(), Error> {
    check_name(name)?;
    let mut names = context.names.lock();
    if names.contains_key(name) {
        return Err(Error::Exists(format!("volume {name}")));
    }
    let found = home.aggregate.trash.write().remove(&FileId(volume));
    let volume = found.ok_or_else(|| not_there("volume"))?;
    names.insert(name.to_owned(), home.aggregate.id);
    drop(names);
    volume.name.set(name);
    volume.deleted_seconds.store(0, Ordering::Relaxed);
    home.fs.directory.revive(volume.id, name);
    let mut volumes = home.aggregate.volumes.write();
    volumes.insert(name.to_owned(), volume);
    Ok(())
}

pub(crate) fn purge_volume(
    home: &mut Home,
    permit: &Permit,
    context: &mut Context<'_>,
    volume: u32,
) -> Result<(), Error> {
    let found = home.aggregate.trash.read().get(&FileId(volume)).cloned();
    let volume = found.ok_or_else(|| not_there("volume"))?;
    check_expendable(home, &volume)?;
    home.aggregate.trash.write().remove(&volume.id);
    destroy(home, permit, context, &volume);
    Ok(())
}

fn not_there(what: &str) -> Error {
    Error::NotFound(format!("such {what} in the trash"))
}

/// If space is short, the object that is in the trash for longest is removed for good. The next one
/// waits for a later consistency point, which sees what this one freed. The same if a volume has
/// nearly as many snapshots as it may have: its oldest in the trash goes. Returns whether something
/// was removed.
pub(crate) fn make_room(home: &mut Home, permit: &Permit, context: &mut Context<'_>) -> bool {
    if !home.aggregate.space.has_trash() {
        return false;
    }
    let is_full = |volume: &VolumeHome| {
        let has_trash = !volume.shared.trashed_snapshots.read().is_empty();
        has_trash && volume.fs.snapshots.count() + PLACES_KEPT > SNAPSHOTS_MAX
    };
    let full = home.volumes.iter().filter(|(_, known)| is_full(known));
    let full: Vec<FileId> = full.map(|(id, _)| *id).collect();
    let is_short = home.aggregate.space.needs_trash();
    if !is_short && full.is_empty() {
        return false;
    }
    let has_to_go = |info: &TrashInfo| {
        let is_of_full = full.contains(&FileId(info.volume.volume));
        is_short || info.snapshot.is_some() && is_of_full
    };
    let mut known = trash::of(&home.aggregate);
    known.retain(has_to_go);
    for info in known {
        let volume = info.volume.volume;
        let name = |home: &Home| home.volumes[&FileId(volume)].shared.name.get();
        let (noun, purged) = match (info.lun, info.snapshot) {
            (Some(lun), _) => ("LUN", purge_lun(home, &name(home), lun)),
            (None, Some(snapshot)) => {
                let purged = purge_snapshot(home, &name(home), snapshot);
                ("snapshot", purged)
            }
            (None, None) => ("volume", purge_volume(home, permit, context, volume)),
        };
        // A volume that is just being restored keeps its LUNs and snapshots for now.
        if purged.is_ok() {
            home.aggregate.purged.note(format!("{noun} {}", info.name));
            return true;
        }
    }
    false
}
