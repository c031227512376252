//! LUNs are created, deleted and resized.

use std::sync::Arc;

use everglade_format::{CpNumber, Entry, EntryKind, FileId, Inode, Kind};

use crate::background::lun_clone;
use crate::change::{Change, Context, Error};
use crate::home::aggregate::Home;
use crate::home::find::{check_name, check_size, find, find_lun, set_size};
use crate::home::volume::VolumeHome;
use crate::pool::volume::Lun;
use crate::read::root::Root;

pub(crate) fn create_lun(
    home: &mut Home,
    context: &Context<'_>,
    cp: CpNumber,
    volume: &str,
    name: &str,
    size: u64,
) -> Result<(), Error> {
    check_name(name)?;
    check_size(size)?;
    let volume = find(home, volume)?;
    if volume.shared.lun(name).is_some() {
        return Err(Error::Exists(format!("LUN {}/{name}", volume.shared.name)));
    }
    lun_clone::check_free(volume, name)?;
    let id = volume.fs.new_file_id();
    let inode = Inode::new(id, Kind::Lun, cp, context.seconds);
    let mut file = volume.fs.file_of(inode);
    set_size(&mut file, size);
    file.inode_changed = true;
    let root = Root::of(&file.inode);
    volume.fs.files.insert(id, file);
    let entry = Entry::new(id, EntryKind::Lun, name);
    volume.fs.directory.add(entry);
    let lun = Arc::new(Lun::new(id, name, volume.shared.clone(), size, root));
    volume.shared.luns.write().insert(name.to_owned(), lun);
    Ok(())
}

/// From this moment on, blocks beyond the new end are invisible: operations there are refused, the
/// frozen overlays' blocks there are not cleaned, and later consistency points free the tree's
/// blocks ([`crate::background::shrink`]).
pub(crate) fn shrink_lun(
    home: &mut Home,
    volume: &str,
    name: &str,
    size: u64,
) -> Result<(), Error> {
    check_size(size)?;
    let (volume, lun) = find_lun(home, volume, name)?;
    let present = lun.size_bytes();
    if size > present {
        let problem = format!(
            "{} has {present} bytes; shrinking does not make it larger",
            lun.full_name()
        );
        return Err(Error::Invalid {
            field: "size_bytes",
            problem,
        });
    }
    if size == present {
        return Ok(());
    }
    lun_clone::check_held(volume, &lun)?;
    volume.fs.cut.insert(lun.file);
    let file = volume.fs.file(lun.file);
    file.inode.is_cut = true;
    file.inode.size_bytes = size;
    file.inode_changed = true;
    lun.set_size_bytes(size);
    Ok(())
}

/// True if a change must wait for a later freeze: a LUN grows only after the blocks of an earlier
/// cut are freed, or their content would be visible again.
pub(crate) fn must_wait(home: &Home, change: &Change) -> bool {
    let Change::GrowLun { volume, name, .. } = change else {
        return false;
    };
    let is_cut_next = home.requests.iter().any(|request| {
        matches!(&request.change, Change::ShrinkLun { volume: v, name: n, .. }
            if v == volume && n == name)
    });
    let known = home.volumes.values().find(|v| v.shared.is(volume));
    let is_cut = known.is_some_and(|known| {
        let lun = known.shared.lun(name);
        lun.is_some_and(|lun| known.fs.cut.contains(&lun.file))
    });
    is_cut_next || is_cut
}

pub(crate) fn delete_lun(home: &mut Home, volume: &str, name: &str) -> Result<(), Error> {
    let (volume, lun) = take_away(home, volume, name)?;
    hide(volume, lun.file);
    Ok(())
}

/// Takes a LUN away from clients: its name is free, and their handles are gone.
pub(crate) fn take_away<'a>(
    home: &'a mut Home,
    volume: &str,
    name: &str,
) -> Result<(&'a mut VolumeHome, Arc<Lun>), Error> {
    let (volume, lun) = find_lun(home, volume, name)?;
    lun_clone::check_held(volume, &lun)?;
    volume.shared.luns.write().remove(name);
    lun.set_gone();
    Ok((volume, lun))
}

/// The blocks of a LUN that clients do not see any more are freed in the background.
pub(crate) fn hide(volume: &mut VolumeHome, lun: FileId) {
    let entry = volume.fs.directory.remove(lun);
    let mut entry = entry.expect("every LUN has a name");
    entry.deleted_seconds = 0;
    volume.fs.cut.remove(&lun);
    volume.fs.hidden.add(entry);
}

pub(crate) fn grow_lun(home: &mut Home, volume: &str, name: &str, size: u64) -> Result<(), Error> {
    check_size(size)?;
    let (volume, lun) = find_lun(home, volume, name)?;
    if size < lun.size_bytes() {
        let problem = format!(
            "{} has {} bytes already; growing does not make it smaller",
            lun.full_name(),
            lun.size_bytes()
        );
        return Err(Error::Invalid {
            field: "size_bytes",
            problem,
        });
    }
    // Growth waits for this before it is admitted; a volume that was restored meanwhile may have it
    // again.
    if volume.fs.cut.contains(&lun.file) {
        return Err(Error::Busy(format!(
            "what was cut off of {} is being freed; try again",
            lun.full_name()
        )));
    }
    set_size(volume.fs.file(lun.file), size);
    lun.set_size_bytes(size);
    Ok(())
}
