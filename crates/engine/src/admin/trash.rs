//! Putting LUNs and volumes into the trash, taking them out, and removing them for good
//! ([`crate::pool::trash`]). All of it happens in the freeze.
//!
//! ```text
//! in use ──put──▶ in the trash ──purge, or space is short──▶ its blocks are freed (E-11)
//!    ◀──undelete──────┘
//! ```
//!
//! 1. An object is in the maps of names or in the trash, never in both. Its entry in the directory
//!    says which, so both are committed together.
//! 2. A client that has an object open loses it when it is put into the trash. The client's handle
//!    stays invalid, also after the object has come back.
//! 3. Writes that joined before the object was put into the trash are in it. There are no later
//!    ones.
//! 4. A client is refused for lack of space only after the trash is empty.

use std::sync::atomic::Ordering;

use everglade_affinity::Permit;
use everglade_format::FileId;

use crate::admin::lun::{hide, take_away};
use crate::admin::volume::{check_expendable, destroy, end_layout};
use crate::background::lun_clone;
use crate::change::{Context, Error};
use crate::home::aggregate::Home;
use crate::home::find::{check_name, find};
use crate::pool::trash;

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
/// waits for a later consistency point, which sees what this one freed. Returns whether something
/// was removed.
pub(crate) fn make_room(home: &mut Home, permit: &Permit, context: &mut Context<'_>) -> bool {
    if !home.aggregate.space.needs_trash() {
        return false;
    }
    for info in trash::of(&home.aggregate) {
        let volume = info.volume.volume;
        let (noun, purged) = match info.lun {
            None => ("volume", purge_volume(home, permit, context, volume)),
            Some(lun) => {
                let name = home.volumes[&FileId(volume)].shared.name.get();
                ("LUN", purge_lun(home, &name, lun))
            }
        };
        // A volume that is just being restored keeps its LUNs for now.
        if purged.is_ok() {
            home.aggregate.purged.note(format!("{noun} {}", info.name));
            return true;
        }
    }
    false
}
