//! Finding the object that a change names, and the checks that every change of it needs.

use std::sync::Arc;

use everglade_env::BLOCK_SIZE;
use everglade_format::config::name_is_valid;
use everglade_format::number::NUMBER_END;
use everglade_format::snapshot::SNAPSHOTS_MAX;
use everglade_format::{CpNumber, Inode, Kind, Layer, SnapshotId};

use crate::change::Error;
use crate::home::aggregate::Home;
use crate::home::volume::VolumeHome;
use crate::pool::volume::Lun;
use crate::tree::File;

pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if name_is_valid(name) {
        return Ok(());
    }
    let problem = format!(
        "{name:?} is not a name: use 1 to 64 letters, digits, '.', '_' and '-', starting with a \
        letter or digit"
    );
    Err(Error::Invalid {
        field: "name",
        problem,
    })
}

pub(crate) fn check_size(size: u64) -> Result<(), Error> {
    let limit = (NUMBER_END >> 4) * BLOCK_SIZE as u64;
    if size == 0 || !size.is_multiple_of(BLOCK_SIZE as u64) || size > limit {
        let problem = format!("{size} is not a size: use a multiple of 4096 up to {limit} bytes");
        return Err(Error::Invalid {
            field: "size_bytes",
            problem,
        });
    }
    Ok(())
}

/// A volume that can be changed now.
pub(crate) fn find<'a>(home: &'a mut Home, volume: &str) -> Result<&'a mut VolumeHome, Error> {
    let found = home
        .volumes
        .values_mut()
        .find(|known| known.shared.is(volume));
    let found = found.ok_or_else(|| Error::NotFound(format!("volume {volume}")))?;
    let snapshots = &found.fs.snapshots;
    let is_restoring = snapshots.restoring.is_some() || snapshots.lun.is_some();
    match (is_restoring.then_some(()), snapshots.cloning) {
        (None, None) => Ok(found),
        (Some(()), _) => Err(Error::Busy(format!(
            "volume {volume} is being restored; try again"
        ))),
        (None, Some(_)) => Err(Error::Busy(format!(
            "volume {volume} is just being made; try again"
        ))),
    }
}

/// A LUN of a volume that can be changed now.
pub(crate) fn find_lun<'a>(
    home: &'a mut Home,
    volume: &str,
    name: &str,
) -> Result<(&'a mut VolumeHome, Arc<Lun>), Error> {
    let found = find(home, volume)?;
    match found.shared.lun(name) {
        Some(lun) => Ok((found, lun)),
        None => Err(Error::NotFound(format!("LUN {volume}/{name}"))),
    }
}

/// LUNs have at least one level, so that their leaves always sit in level-1 blocks.
pub(crate) fn set_size(file: &mut File, size: u64) {
    file.grow((size / BLOCK_SIZE as u64).max(2));
    file.inode.size_bytes = size;
    file.inode_changed = true;
}

/// A live snapshot of a volume, by name.
pub(crate) fn live(volume: &VolumeHome, name: &str) -> Result<SnapshotId, Error> {
    let snapshots = &volume.fs.snapshots;
    if let Some(record) = snapshots.find(name) {
        return Ok(record.id);
    }
    let object = format!("snapshot {}@{name}", volume.shared.name);
    match snapshots.is_taken(name) {
        true => Err(Error::Busy(format!(
            "{object} is just being taken; try again"
        ))),
        false => Err(Error::NotFound(object)),
    }
}

pub(crate) fn check_new(volume: &VolumeHome, name: &str) -> Result<(), Error> {
    check_name(name)?;
    match volume.fs.snapshots.is_taken(name) {
        true => Err(Error::Exists(format!(
            "snapshot {}@{name}",
            volume.shared.name
        ))),
        false => Ok(()),
    }
}

pub(crate) fn check_room(volume: &VolumeHome) -> Result<(), Error> {
    if volume.fs.snapshots.count() < SNAPSHOTS_MAX {
        return Ok(());
    }
    Err(Error::Limit(format!(
        "volume {} has {SNAPSHOTS_MAX} snapshots, those being deleted and those in the trash \
        included; delete one for good, or wait until deletions end",
        volume.shared.name
    )))
}

/// Gives a volume the files of the aggregate that its snapshots need.
pub(crate) fn ensure_side_files(
    home: &mut Home,
    cp: CpNumber,
    seconds: u64,
    volume: &str,
) -> Result<(), Error> {
    if find(home, volume)?.fs.snapshots.roots.files.is_some() {
        return Ok(());
    }
    let mut add = |kind: Kind| {
        let id = home.fs.new_file_id();
        let mut file = File::new(Inode::new(id, kind, cp, seconds), Layer::Aggregate);
        // At least one level, so that the file can shrink like any deleted one.
        file.grow(2);
        file.inode_changed = true;
        home.fs.files.insert(id, file);
        id
    };
    let files = (add(Kind::Summary), add(Kind::Snapshots));
    let snapshots = &mut find(home, volume)?.fs.snapshots;
    snapshots.roots.files = Some(files);
    snapshots.set_changed();
    Ok(())
}
