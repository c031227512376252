//! Volumes are created and deleted.

use std::sync::Arc;

use everglade_affinity::{Affinities, Partitioned, Permit, STRIPES, VolumeAffinities};
use everglade_env::lock::{Mutex, RwLock};
use everglade_format::volume::{Sync, VOLUME_AREA_BLOCKS};
use everglade_format::{CpNumber, Entry, EntryKind, FileId, Inode, Kind, Layer};
use everglade_freespace::Areas;

use crate::admin::snapshot;
use crate::alloc::filesystem::FileSystem;
use crate::change::{Context, Error};
use crate::home::aggregate::Home;
use crate::home::bases;
use crate::home::find::{check_name, find};
use crate::home::volume::VolumeHome;
use crate::pool::garden::GardeningState;
use crate::pool::name::Name;
use crate::pool::volume::{StripeState, Volume};
use crate::tree::File;

pub(crate) fn create_volume(
    home: &mut Home,
    context: &mut Context<'_>,
    cp: CpNumber,
    name: &str,
    sync: Sync,
) -> Result<(), Error> {
    check_name(name)?;
    let mut names = context.names.lock();
    if names.contains_key(name) {
        return Err(Error::Exists(format!("volume {name}")));
    }
    let affinities = volume_affinities(context.affinities, home)?;
    names.insert(name.to_owned(), home.aggregate.id);
    drop(names);
    let id = home.fs.new_file_id();
    let mut container = File::new(
        Inode::new(id, Kind::Container, cp, context.seconds),
        Layer::Aggregate,
    );
    container.grow(VOLUME_AREA_BLOCKS);
    container.inode_changed = true;
    home.fs.files.insert(id, container);
    let entry = Entry::new(id, EntryKind::Volume, name);
    home.fs.directory.add(entry);

    let areas = Areas::new(1, VOLUME_AREA_BLOCKS, 1);
    let inode_file = FileSystem::empty_inode_file(cp, context.seconds);
    let mut fs = FileSystem::new(
        Layer::Volume,
        VOLUME_AREA_BLOCKS,
        vec![0],
        vec![areas],
        inode_file,
    );
    fs.set_container(id);
    fs.create_metafiles(cp, context.seconds);
    let shared = new_volume(home, affinities, id, name, sync);
    home.volumes.insert(
        id,
        VolumeHome {
            shared: shared.clone(),
            fs,
            is_new: true,
            next: None,
            discarding: Vec::new(),
        },
    );
    let mut volumes = home.aggregate.volumes.write();
    volumes.insert(name.to_owned(), shared);
    Ok(())
}

/// Changes when writes count as done. Writes that are answered after this consistency point began
/// count by the new rule. What clients are told of caches is the same in both, so sessions go on.
pub(crate) fn set_sync(home: &mut Home, volume: &str, sync: Sync) -> Result<(), Error> {
    let known = find(home, volume)?;
    if known.shared.sync() != sync {
        known.shared.set_sync(sync);
        // The superblock of the volume has it, and is written with the inode file.
        known.fs.inode_file.inode_changed = true;
    }
    Ok(())
}

/// The affinities of a volume about to appear.
pub(crate) fn volume_affinities(
    affinities: &Affinities<u64>,
    home: &Home,
) -> Result<VolumeAffinities, Error> {
    let aggregate = &home.aggregate.affinities.aggregate;
    VolumeAffinities::add(affinities, aggregate, STRIPES, everglade_affinity::RANGES)
        .map_err(|gone| Error::Unavailable(gone.to_string()))
}

/// A volume without LUNs, as clients see it.
pub(crate) fn new_volume(
    home: &Home,
    affinities: VolumeAffinities,
    id: FileId,
    name: &str,
    sync: Sync,
) -> Arc<Volume> {
    let stripes = affinities
        .stripes()
        .iter()
        .map(|stripe| Partitioned::new(stripe, StripeState::default()));
    Arc::new(Volume {
        id,
        name: Name::new(name),
        is_always: (sync == Sync::Always).into(),
        aggregate: home.aggregate.clone(),
        stripes: stripes.collect(),
        affinities,
        dirty_stripes: 0.into(),
        frozen_stripes: 0.into(),
        traffic: crate::pool::volume::Traffic::default(),
        luns: RwLock::default(),
        images: RwLock::default(),
        snapshots: RwLock::default(),
        used_blocks: 0.into(),
        allocated_blocks: 0.into(),
        pending_blocks: 0.into(),
        scan: Mutex::default(),
        lun_clone: Mutex::default(),
        base: Mutex::default(),
        split: Mutex::default(),
        is_moved: false.into(),
        is_paused: false.into(),
        trash: RwLock::default(),
        trashed_snapshots: RwLock::default(),
        deleted_seconds: 0.into(),
    })
}

pub(crate) fn delete_volume(
    home: &mut Home,
    permit: &Permit,
    context: &mut Context<'_>,
    name: &str,
) -> Result<(), Error> {
    let not_found = || Error::NotFound(format!("volume {name}"));
    let volume = home.aggregate.volume(name).ok_or_else(not_found)?;
    check_expendable(home, &volume)?;
    home.aggregate.volumes.write().remove(name);
    context.names.lock().remove(name);
    destroy(home, permit, context, &volume);
    Ok(())
}

/// Refuses to delete a volume that something else needs. It may be in a restore, which the deletion
/// ends.
pub(crate) fn check_expendable(home: &Home, volume: &Volume) -> Result<(), Error> {
    let clones = bases::of(home, volume.id, None);
    if !clones.is_empty() {
        return Err(Error::Busy(format!(
            "{} is cloned from snapshots of volume {}; {}",
            clones.join(", "),
            volume.name,
            bases::remedy(&clones)
        )));
    }
    let known = home.volumes.get(&volume.id);
    known.map_or(Ok(()), snapshot::check_unheld)
}

/// Ends a job of the gardener that puts this volume in order.
pub(crate) fn end_layout(home: &mut Home, seconds: u64, volume: FileId) {
    let layout = home.gardener.layout();
    if layout.is_some_and(|job| job.volume == volume) {
        home.gardener.end_layout(GardeningState::Stopped, seconds);
        home.tell_garden();
    }
}

/// Removes a volume that is in no list of names any more. Its blocks are freed in the background.
pub(crate) fn destroy(
    home: &mut Home,
    permit: &Permit,
    context: &mut Context<'_>,
    volume: &Volume,
) {
    for lun in volume.kept_luns() {
        lun.set_gone();
    }
    for stripe in &volume.stripes {
        // Handles may keep the volume for long; its pages must not stay with it.
        *stripe.get(permit) = StripeState::default();
    }
    if let Ok(stranded) = context.affinities.remove(&volume.affinities.volume, permit) {
        context.stranded.extend(stranded);
    }
    volume.trashed_snapshots.write().clear();
    for image in std::mem::take(&mut *volume.images_mut()).into_values() {
        image.luns.values().for_each(|lun| lun.set_gone());
    }
    let removed = home.volumes.remove(&volume.id);
    end_layout(home, context.seconds, volume.id);
    let entry = home.fs.directory.remove(volume.id);
    let mut entry = entry.expect("every volume has a name");
    entry.deleted_seconds = 0;
    let name = entry.name.clone();
    home.fs.hidden.add(entry);
    // Snapshots are deleted with the container; their side files no longer have an owner.
    let roots = removed
        .map(|removed| removed.fs.snapshots.roots)
        .unwrap_or_default();
    let files = roots
        .files
        .into_iter()
        .flat_map(|(summary, table)| [summary, table]);
    for file in files.chain(roots.release) {
        let entry = Entry::new(file, EntryKind::Side, &name);
        home.fs.hidden.add(entry);
    }
}
