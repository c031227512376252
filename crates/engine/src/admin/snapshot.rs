//! Administrative changes of snapshots. They are executed in the freeze and durable at the commit;
//! none of them loads a page.

use std::sync::atomic::Ordering;

use everglade_format::snapshot::HOLDS_MAX;
use everglade_format::{CpNumber, SnapshotId, SnapshotRecord};

use crate::change::Error;
use crate::holders::table::{Created, hold};
use crate::home::aggregate::Home;
use crate::home::bases;
use crate::home::find::{check_name, check_new, check_room, ensure_side_files, find, live};
use crate::home::volume::VolumeHome;
use crate::pool::bases::BASE;
use crate::pool::image::Image;

pub(crate) fn create(
    home: &mut Home,
    cp: CpNumber,
    seconds: u64,
    volume: &str,
    name: &str,
) -> Result<(), Error> {
    let known = find(home, volume)?;
    check_new(known, name)?;
    check_room(known)?;
    ensure_side_files(home, cp, seconds, volume)?;
    let name = name.to_owned();
    find(home, volume)?.fs.snapshots.created.push(Created {
        name,
        seconds,
        is_nameless: false,
    });
    Ok(())
}

pub(crate) fn rename(home: &mut Home, volume: &str, name: &str, to: &str) -> Result<(), Error> {
    let volume = find(home, volume)?;
    let id = live(volume, name)?;
    check_new(volume, to)?;
    let mut images = volume.shared.images_mut();
    if let Some(image) = images.remove(name) {
        if image.is_open() {
            let error = in_use(volume, name, "renamed");
            images.insert(name.to_owned(), image);
            return Err(error);
        }
        images.insert(to.to_owned(), image.renamed(to));
    }
    drop(images);
    volume.fs.snapshots.rename(id, to);
    Ok(())
}

fn in_use(volume: &VolumeHome, name: &str, what: &str) -> Error {
    Error::Busy(format!(
        "snapshot {}@{name} is exported to a client and cannot be {what}; disconnect the client \
        first",
        volume.shared.name
    ))
}

pub(crate) fn delete(home: &mut Home, volume: &str, name: &str) -> Result<(), Error> {
    let (volume, id, _) = take_away(home, volume, name)?;
    volume.fs.snapshots.delete(id);
    Ok(())
}

/// Takes a snapshot away from clients, if it may be deleted. Returns its volume, its number and its
/// image.
pub(super) fn take_away<'a>(
    home: &'a mut Home,
    volume: &str,
    name: &str,
) -> Result<(&'a mut VolumeHome, SnapshotId, Option<Image>), Error> {
    let id = live(find(home, volume)?, name)?;
    check_expendable(home, volume, id)?;
    let volume = find(home, volume)?;
    let mut taken = take_images(volume, &[id])?;
    let (id, image) = taken.pop().expect("one was taken");
    Ok((volume, id, image))
}

/// Refuses to delete a snapshot that is in use.
fn check_expendable(home: &mut Home, volume: &str, id: SnapshotId) -> Result<(), Error> {
    let volume = find(home, volume)?;
    let record = volume.fs.snapshots.get(id);
    let object = format!("snapshot {}@{}", volume.shared.name, record.name);
    if let Some(tags) = held_by(record) {
        return Err(Error::Busy(format!(
            "{object} is held by {tags}; release the holds first"
        )));
    }
    if id == BASE && volume.fs.snapshots.roots.base.is_some() {
        return Err(Error::Busy(format!(
            "{object} is what this clone is based on; split the clone first, or delete it"
        )));
    }
    let volume_id = volume.shared.id;
    let clones = bases::of(home, volume_id, Some(id));
    if !clones.is_empty() {
        return Err(Error::Busy(format!(
            "{object} is the base of {}; {}",
            clones.join(", "),
            bases::remedy(&clones)
        )));
    }
    Ok(())
}

/// The tags of the holds on a snapshot, if there are any.
fn held_by(record: &SnapshotRecord) -> Option<String> {
    let tags: Vec<&str> = record.holds.iter().map(|hold| hold.tag.as_str()).collect();
    (!tags.is_empty()).then(|| tags.join(", "))
}

/// Refuses to delete a volume while one of its snapshots is held.
pub(crate) fn check_unheld(volume: &VolumeHome) -> Result<(), Error> {
    let mut live = volume.fs.snapshots.live();
    let held = live.find_map(|record| Some((&record.name, held_by(record)?)));
    held.map_or(Ok(()), |(name, tags)| {
        Err(Error::Busy(format!(
            "snapshot {}@{name} is held by {tags}, and goes with its volume; release the holds \
            first",
            volume.shared.name
        )))
    })
}

/// Takes from clients, or out of the trash, the images of snapshots that are deleted: of all or, if
/// one is open, of none.
fn take_images(
    volume: &VolumeHome,
    ids: &[SnapshotId],
) -> Result<Vec<(SnapshotId, Option<Image>)>, Error> {
    let record = |id: &SnapshotId| volume.fs.snapshots.get(*id);
    let mut images = volume.shared.images_mut();
    let mut trashed = volume.shared.trashed_snapshots.write();
    let is_open = |id: &&SnapshotId| {
        let record = record(id);
        record.is_named() && images.get(&record.name).is_some_and(Image::is_open)
    };
    if let Some(open) = ids.iter().find(is_open) {
        return Err(in_use(volume, &record(open).name, "deleted"));
    }
    let taken = ids.iter().map(|id| {
        let image = match record(id).is_in_trash() {
            true => trashed.remove(id).map(|it| it.image),
            false => images.remove(&record(id).name),
        };
        (*id, image)
    });
    Ok(taken.collect())
}

pub(crate) fn add_hold(
    home: &mut Home,
    seconds: u64,
    volume: &str,
    name: &str,
    tag: &str,
) -> Result<(), Error> {
    let volume = find(home, volume)?;
    let id = live(volume, name)?;
    check_name(tag)?;
    let record = volume.fs.snapshots.get(id);
    if record.holds.iter().any(|hold| hold.tag == tag) {
        return Err(Error::Exists(format!(
            "hold {tag} on {}@{name}",
            volume.shared.name
        )));
    }
    if record.holds.len() == HOLDS_MAX {
        return Err(Error::Limit(format!(
            "snapshot {}@{name} has {HOLDS_MAX} holds, the most there can be; release one first",
            volume.shared.name
        )));
    }
    volume
        .fs
        .snapshots
        .get_mut(id)
        .holds
        .push(hold(tag, seconds));
    Ok(())
}

pub(crate) fn release_hold(
    home: &mut Home,
    volume: &str,
    name: &str,
    tag: &str,
) -> Result<(), Error> {
    let volume = find(home, volume)?;
    let id = live(volume, name)?;
    let record = volume.fs.snapshots.get(id);
    if !record.holds.iter().any(|hold| hold.tag == tag) {
        return Err(Error::NotFound(format!(
            "hold {tag} on {}@{name}",
            volume.shared.name
        )));
    }
    volume
        .fs
        .snapshots
        .get_mut(id)
        .holds
        .retain(|hold| hold.tag != tag);
    Ok(())
}

/// Begins a restore (see [`crate::snapshot::restore`]).
pub(crate) fn restore(
    home: &mut Home,
    seconds: u64,
    volume: &str,
    name: &str,
    safety: &str,
) -> Result<(), Error> {
    let volume = find(home, volume)?;
    let id = live(volume, name)?;
    check_new(volume, safety)?;
    check_room(volume)?;
    let safety = Created {
        name: safety.to_owned(),
        seconds,
        is_nameless: false,
    };
    begin_restore(volume, id, safety);
    Ok(())
}

fn begin_restore(volume: &mut VolumeHome, target: SnapshotId, safety: Created) {
    let snapshots = &mut volume.fs.snapshots;
    snapshots.created.push(safety);
    snapshots.restoring = Some(target);
    volume.shared.is_paused.store(true, Ordering::Release);
}

/// Begins a restore after which nothing newer is left (see [`crate::snapshot::restore`]).
pub(crate) fn roll_back(
    home: &mut Home,
    seconds: u64,
    volume: &str,
    name: &str,
    discards: &[String],
) -> Result<(), Error> {
    let known = find(home, volume)?;
    let target = live(known, name)?;
    check_room(known)?;
    let snapshots = &known.fs.snapshots;
    let mut taken = snapshots.created.iter().filter(|it| !it.is_nameless);
    if let Some(taken) = taken.next() {
        return Err(Error::Busy(format!(
            "snapshot {volume}@{} is just being taken; try again",
            taken.name
        )));
    }
    // Nobody has to name what is in the trash.
    let newer = snapshots.kept().filter(|record| record.id > target);
    let mut doomed = Vec::new();
    for record in newer {
        if record.is_named() && !discards.contains(&record.name) {
            return Err(Error::Busy(format!(
                "snapshot {volume}@{} is newer, and nobody said that it may go; look again",
                record.name
            )));
        }
        doomed.push(record.id);
    }
    for id in &doomed {
        check_expendable(home, volume, *id)?;
    }
    let volume = find(home, volume)?;
    volume.discarding = take_images(volume, &doomed)?;
    let safety = Created {
        name: name.to_owned(),
        seconds,
        is_nameless: true,
    };
    begin_restore(volume, target, safety);
    Ok(())
}

/// Holds scans back, or lets them go on (see [`crate::background::scan`]).
pub(crate) fn set_pace(home: &mut Home, volume: &str, percent: u8) -> Result<(), Error> {
    if percent > 100 {
        return Err(Error::Invalid {
            field: "pace_percent",
            problem: format!("{percent} is not possible; use 0, at which scans rest, to 100"),
        });
    }
    let snapshots = &mut find(home, volume)?.fs.snapshots;
    snapshots.roots.held_back = 100 - percent;
    snapshots.set_changed();
    Ok(())
}
