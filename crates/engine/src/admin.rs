//! Administrative changes: volumes and LUNs come, go, grow and get other names. Executed in the freeze, durable at
//! commit. Renaming is in `rename`, snapshots are in `snapshot::change`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use everglade_affinity::{Affinities, Partitioned, Permit, STRIPES, Stranded, VolumeAffinities};
use everglade_env::BLOCK_SIZE;
use everglade_format::config::name_is_valid;
use everglade_format::number::NUMBER_END;
use everglade_format::planted::{self, Bug};
use everglade_format::volume::{Sync, VOLUME_AREA_BLOCKS};
use everglade_format::{CpNumber, Entry, EntryKind, FileId, Inode, Kind, Layer};
use everglade_freespace::Areas;

use crate::cp::{Home, VolumeHome};
use crate::filesystem::FileSystem;
use crate::snapshot::{change as snapshot, clone, lun, lun_clone, split};
use crate::tree::{File, Root};
use crate::volume::name::Name;
use crate::volume::{Lun, StripeState, Volume};
use crate::{notes, rename};

/// A change to what an aggregate holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds a volume.
    CreateVolume {
        /// Unique in the daemon.
        name: String,
        /// When its writes count as done.
        sync: Sync,
    },
    /// Removes a volume with all its LUNs. Space returns in the background.
    DeleteVolume {
        /// Which.
        name: String,
    },
    /// Gives a volume another name.
    RenameVolume {
        /// Which.
        name: String,
        /// Unique in the daemon.
        to: String,
    },
    /// Gives the aggregate another name. Names of aggregates are kept apart by whoever names them.
    RenameAggregate {
        /// The new one.
        to: String,
    },
    /// Replaces the text that administrators' programs keep in the aggregate.
    SetNotes {
        /// At most [`everglade_format::notes::NOTES_BYTES_MAX`] bytes.
        text: Vec<u8>,
    },
    /// Adds a LUN.
    CreateLun {
        /// Where.
        volume: String,
        /// Unique in the volume.
        name: String,
        /// A multiple of the block size.
        size_bytes: u64,
    },
    /// Removes a LUN. Space returns in the background.
    DeleteLun {
        /// Where.
        volume: String,
        /// Which.
        name: String,
    },
    /// Gives a LUN another name.
    RenameLun {
        /// Where.
        volume: String,
        /// Which.
        name: String,
        /// Unique in the volume.
        to: String,
    },
    /// Cuts off the end of a LUN, with what is there. Space returns in the background.
    ShrinkLun {
        /// Where.
        volume: String,
        /// Which.
        name: String,
        /// A multiple of the block size, not above the present size.
        size_bytes: u64,
    },
    /// Makes a LUN larger. Waits until what was cut off of it before is gone.
    GrowLun {
        /// Where.
        volume: String,
        /// Which.
        name: String,
        /// A multiple of the block size, not below the present size.
        size_bytes: u64,
    },
    /// Takes a snapshot (F-01).
    CreateSnapshot {
        /// Of which volume.
        volume: String,
        /// Unique among the volume's snapshots.
        name: String,
    },
    /// Gives a snapshot another name.
    RenameSnapshot {
        /// Of which volume.
        volume: String,
        /// Which.
        name: String,
        /// Unique among the volume's snapshots.
        to: String,
    },
    /// Removes a snapshot. Space returns in the background.
    DeleteSnapshot {
        /// Of which volume.
        volume: String,
        /// Which.
        name: String,
    },
    /// Keeps a snapshot from being deleted.
    HoldSnapshot {
        /// Of which volume.
        volume: String,
        /// Which.
        name: String,
        /// The reason; unique among the snapshot's holds.
        tag: String,
    },
    /// Takes a hold away.
    ReleaseSnapshot {
        /// Of which volume.
        volume: String,
        /// Which.
        name: String,
        /// Which hold.
        tag: String,
    },
    /// Adds a volume that begins as the image of a snapshot.
    CloneVolume {
        /// Unique in the daemon.
        name: String,
        /// The volume that has the snapshot.
        parent: String,
        /// Which of its snapshots.
        snapshot: String,
    },
    /// Gives a clone blocks of its own for all that it shares with its base, in the background. Then it is no clone.
    StartSplit {
        /// Which clone.
        volume: String,
    },
    /// Stops that. What was copied stays, and the next start goes on from there.
    StopSplit {
        /// Which clone.
        volume: String,
    },
    /// Makes a LUN what it was in a snapshot, and leaves the rest of the volume alone. What was active stays as another
    /// snapshot.
    RestoreLun {
        /// Of which volume.
        volume: String,
        /// From which of its snapshots.
        snapshot: String,
        /// Which LUN; one that was deleted comes back.
        lun: String,
        /// Name of the snapshot that is taken of the present image.
        safety: String,
    },
    /// Makes another LUN that begins with the same blocks, in the background. Done when that has begun.
    CloneLun {
        /// Of which volume.
        volume: String,
        /// Which LUN.
        lun: String,
        /// Unique in the volume.
        name: String,
        /// As it was in which snapshot; as it is if there is none.
        from: Option<String>,
    },
    /// Ends the making of a LUN's clone. What it took comes back in the background.
    CancelLunClone {
        /// Of which volume.
        volume: String,
        /// The name it was to get.
        name: String,
    },
    /// Reads all metadata that can be derived, and mends what is damaged. Clients' changes wait for it.
    Scrub,
    /// Holds the scans of a volume's snapshots back, or lets them go on.
    SetScanPace {
        /// Which volume.
        volume: String,
        /// Of what a consistency point may do for them, 0 to 100; at 0 they rest.
        percent: u8,
    },
    /// Makes the image of a snapshot the active one. What was active stays as another snapshot, and newer
    /// snapshots stay too.
    RestoreVolume {
        /// Which volume.
        volume: String,
        /// To which of its snapshots.
        snapshot: String,
        /// Name of the snapshot that is taken of the present image.
        safety: String,
    },
    /// Makes the image of a snapshot the active one, and deletes what is newer, with what was active. All of it happens or
    /// none.
    RollBackVolume {
        /// Which volume.
        volume: String,
        /// To which of its snapshots.
        snapshot: String,
        /// The snapshots that are newer. If there are others, or one of them has to stay, nothing happens.
        discards: Vec<String>,
    },
}

impl Change {
    /// True for what takes something away: whoever asks for many of these one after the other is better served if they
    /// come together, and nobody uses what they leave.
    pub(crate) fn is_deletion(&self) -> bool {
        matches!(
            self,
            Change::DeleteVolume { .. } | Change::DeleteLun { .. } | Change::DeleteSnapshot { .. }
        )
    }

    /// Most blocks that the change adds to what is in use for good (DESIGN §8): a volume has its superblock,
    /// metafiles and first blocks of the container; a LUN may begin a block of inodes and one of names.
    pub(crate) fn growth(&self) -> u64 {
        match self {
            Change::CreateVolume { .. } | Change::CloneVolume { .. } => 32,
            // Side files, a record, and what the summary map begins with.
            Change::CreateSnapshot { .. }
            | Change::RestoreVolume { .. }
            | Change::RollBackVolume { .. }
            | Change::RestoreLun { .. }
            | Change::CloneLun { .. } => 16,
            Change::CreateLun { .. } | Change::GrowLun { .. } => 4,
            // As if none of it were there already.
            Change::SetNotes { text } => notes::blocks(text.len()) + 2,
            Change::DeleteVolume { .. }
            | Change::DeleteLun { .. }
            | Change::ShrinkLun { .. }
            | Change::RenameAggregate { .. }
            | Change::RenameVolume { .. }
            | Change::RenameLun { .. }
            | Change::RenameSnapshot { .. }
            | Change::DeleteSnapshot { .. }
            | Change::HoldSnapshot { .. }
            | Change::CancelLunClone { .. }
            | Change::Scrub
            | Change::SetScanPace { .. }
            | Change::StartSplit { .. }
            | Change::StopSplit { .. }
            | Change::ReleaseSnapshot { .. } => 0,
        }
    }
}

impl Change {
    /// True if it is refused rather than kept waiting for space that others give back, which may take long: whoever asks
    /// holds what others wait for.
    pub(crate) fn is_impatient(&self) -> bool {
        matches!(self, Change::SetNotes { .. })
    }
}

/// Why a change was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The name is taken.
    #[error("{0} exists already; choose another name")]
    Exists(String),
    /// Nothing has this name.
    #[error("there is no {0}")]
    NotFound(String),
    /// The value cannot be.
    #[error("{field}: {problem}")]
    Invalid {
        /// Which value.
        field: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The pool, or the host below it, is full.
    #[error(
        "no space left in the pool; delete or discard something first, or make another aggregate"
    )]
    NoSpace,
    /// Somebody uses it, or something else is happening to it.
    #[error("{0}")]
    Busy(String),
    /// There is a most, and this would be more.
    #[error("{0}")]
    Limit(String),
    /// The aggregate cannot be changed now.
    #[error("{0}")]
    Unavailable(String),
}

/// A change on its way to the freeze.
pub(crate) struct Request {
    pub(crate) change: Change,
    pub(crate) reactor: usize,
    pub(crate) token: u64,
}

impl Request {
    /// A change that nobody waits for.
    pub(crate) fn of_nobody(change: Change) -> Request {
        Request {
            change,
            reactor: usize::MAX,
            token: 0,
        }
    }
}

/// What executing a change needs besides the aggregate.
pub(crate) struct Context<'a> {
    pub(crate) affinities: &'a Affinities<u64>,
    /// Volume names of the daemon, with the aggregates that have them.
    pub(crate) names: &'a Mutex<BTreeMap<String, u32>>,
    /// Operations that waited for a stripe that is no more.
    pub(crate) stranded: &'a mut Vec<Stranded<u64>>,
    pub(crate) seconds: u64,
    pub(crate) reclaim_regions: u64,
    /// What this one may do of it; 0: what was deleted waits for a later one.
    pub(crate) reclaim_budget: u64,
    /// New snapshots are scanned.
    pub(crate) create_scan: bool,
}

pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if name_is_valid(name) {
        return Ok(());
    }
    let problem = format!(
        "{name:?} is not a name: use 1 to 64 letters, digits, '.', '_' and '-', starting with a letter or digit"
    );
    Err(Error::Invalid {
        field: "name",
        problem,
    })
}

fn check_size(size: u64) -> Result<(), Error> {
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

/// Executes a change. Allocates memory but loads nothing.
pub(crate) fn execute(
    home: &mut Home,
    permit: &Permit,
    context: &mut Context<'_>,
    cp: CpNumber,
    change: &Change,
) -> Result<(), Error> {
    match change {
        Change::CreateVolume { name, sync } => create_volume(home, context, cp, name, *sync),
        Change::DeleteVolume { name } => delete_volume(home, permit, context, name),
        Change::RenameVolume { name, to } => rename::volume(home, context, name, to),
        Change::RenameAggregate { to } => rename::aggregate(home, to),
        Change::SetNotes { text } => notes::set(home, cp, context.seconds, text),
        Change::RenameLun { volume, name, to } => rename::lun(home, volume, name, to),
        Change::CreateLun {
            volume,
            name,
            size_bytes,
        } => create_lun(home, context, cp, volume, name, *size_bytes),
        Change::DeleteLun { volume, name } => delete_lun(home, volume, name),
        Change::ShrinkLun {
            volume,
            name,
            size_bytes,
        } => shrink_lun(home, volume, name, *size_bytes),
        Change::GrowLun {
            volume,
            name,
            size_bytes,
        } => grow_lun(home, volume, name, *size_bytes),
        Change::CreateSnapshot { volume, name } => {
            snapshot::create(home, cp, context.seconds, volume, name)
        }
        Change::RenameSnapshot { volume, name, to } => snapshot::rename(home, volume, name, to),
        Change::DeleteSnapshot { volume, name } => snapshot::delete(home, volume, name),
        Change::HoldSnapshot { volume, name, tag } => {
            snapshot::add_hold(home, context.seconds, volume, name, tag)
        }
        Change::SetScanPace { volume, percent } => snapshot::set_pace(home, volume, *percent),
        Change::ReleaseSnapshot { volume, name, tag } => {
            snapshot::release_hold(home, volume, name, tag)
        }
        Change::CloneVolume {
            name,
            parent,
            snapshot: base,
        } => clone::create(home, context, cp, name, (parent, base)),
        Change::CloneLun {
            volume,
            lun,
            name,
            from,
        } => {
            let stamp = (cp, context.seconds);
            lun_clone::begin(home, stamp, (volume, lun), name, from.as_deref())
        }
        Change::CancelLunClone { volume, name } => lun_clone::cancel(home, volume, name),
        Change::Scrub => {
            home.begin_scrub();
            Ok(())
        }
        Change::StartSplit { volume } => split::start(home, volume),
        Change::StopSplit { volume } => split::stop(home, volume),
        Change::RestoreLun {
            volume,
            snapshot: target,
            lun: name,
            safety,
        } => lun::begin(home, context.seconds, (volume, target), name, safety),
        Change::RestoreVolume {
            volume,
            snapshot: target,
            safety,
        } => snapshot::restore(home, context.seconds, volume, target, safety),
        Change::RollBackVolume {
            volume,
            snapshot: target,
            discards,
        } => snapshot::roll_back(home, context.seconds, volume, target, discards),
    }
}

pub(crate) fn create_volume(
    home: &mut Home,
    context: &mut Context<'_>,
    cp: CpNumber,
    name: &str,
    sync: Sync,
) -> Result<(), Error> {
    check_name(name)?;
    let mut names = context.names.lock().unwrap_or_else(PoisonError::into_inner);
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
    home.fs.directory.add(Entry {
        file: id,
        kind: EntryKind::Volume,
        name: name.to_owned(),
    });

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
            sync,
            is_new: true,
            next: None,
        },
    );
    let mut volumes = home
        .aggregate
        .volumes
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    volumes.insert(name.to_owned(), shared);
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
        sync,
        aggregate: home.aggregate.clone(),
        stripes: stripes.collect(),
        affinities,
        dirty_stripes: 0.into(),
        frozen_stripes: 0.into(),
        traffic: crate::volume::Traffic::default(),
        luns: std::sync::RwLock::default(),
        images: std::sync::RwLock::default(),
        snapshots: std::sync::RwLock::default(),
        used_blocks: 0.into(),
        allocated_blocks: 0.into(),
        pending_blocks: 0.into(),
        scan: std::sync::Mutex::default(),
        lun_clone: std::sync::Mutex::default(),
        base: std::sync::Mutex::default(),
        split: std::sync::Mutex::default(),
        is_moved: false.into(),
        is_paused: false.into(),
    })
}

fn delete_volume(
    home: &mut Home,
    permit: &Permit,
    context: &mut Context<'_>,
    name: &str,
) -> Result<(), Error> {
    let not_found = || Error::NotFound(format!("volume {name}"));
    let volume = home.aggregate.volume(name).ok_or_else(not_found)?;
    let clones = clone::of(home, volume.id, None);
    if !clones.is_empty() {
        return Err(Error::Busy(format!(
            "{} is cloned from snapshots of volume {name}; split or delete what is cloned first",
            clones.join(", ")
        )));
    }
    // Also while it is restored, which a deletion ends.
    home.volumes
        .get(&volume.id)
        .map_or(Ok(()), snapshot::check_unheld)?;
    let mut volumes = home
        .aggregate
        .volumes
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    volumes.remove(name);
    drop(volumes);
    for lun in volume.all_luns() {
        lun.set_gone();
    }
    for stripe in &volume.stripes {
        // Handles may keep the volume for long; its pages must not stay with it.
        *stripe.get(permit) = StripeState::default();
    }
    if let Ok(stranded) = context.affinities.remove(&volume.affinities.volume, permit) {
        context.stranded.extend(stranded);
    }
    context
        .names
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .remove(name);
    for image in std::mem::take(&mut *volume.images_mut()).into_values() {
        image.luns.values().for_each(|lun| lun.set_gone());
    }
    let removed = home.volumes.remove(&volume.id);
    let entry = home
        .fs
        .directory
        .remove(volume.id)
        .expect("every volume has a name");
    home.fs.hidden.add(entry);
    // Snapshots go with the container; their side files are nobody's now.
    let roots = removed
        .map(|removed| removed.fs.snapshots.roots)
        .unwrap_or_default();
    let files = roots
        .files
        .into_iter()
        .flat_map(|(summary, table)| [summary, table]);
    for file in files.chain(roots.release) {
        home.fs.hidden.add(Entry {
            file,
            kind: EntryKind::Side,
            name: name.to_owned(),
        });
    }
    Ok(())
}

/// A volume that can be changed now.
pub(crate) fn find<'a>(home: &'a mut Home, volume: &str) -> Result<&'a mut VolumeHome, Error> {
    let found = home
        .volumes
        .values_mut()
        .find(|known| known.shared.name.is(volume));
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

fn create_lun(
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
    volume.fs.directory.add(Entry {
        file: id,
        kind: EntryKind::Lun,
        name: name.to_owned(),
    });
    let lun = Arc::new(Lun::new(id, name, volume.shared.clone(), size, root));
    volume
        .shared
        .luns
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(name.to_owned(), lun);
    Ok(())
}

/// LUNs have at least one level, so that their leaves always sit in level-1 blocks.
pub(crate) fn set_size(file: &mut File, size: u64) {
    file.grow((size / BLOCK_SIZE as u64).max(2));
    file.inode.size_bytes = size;
    file.inode_changed = true;
}

/// What is beyond the new end is not seen from this moment on: operations are refused there, the frozen overlays'
/// part of it is not cleaned, and the consistency points free what the tree has ([`crate::cp::reclaim`]).
fn shrink_lun(home: &mut Home, volume: &str, name: &str, size: u64) -> Result<(), Error> {
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

/// Whether a change must wait for a later freeze: a LUN grows after what was cut off of it is gone, or what was
/// there would be seen again.
pub(crate) fn must_wait(home: &Home, change: &Change) -> bool {
    let Change::GrowLun { volume, name, .. } = change else {
        return false;
    };
    let is_cut_next = home.requests.iter().any(|request| {
        matches!(&request.change, Change::ShrinkLun { volume: v, name: n, .. }
            if v == volume && n == name)
    });
    let known = home.volumes.values().find(|v| v.shared.name.is(volume));
    let is_cut = known.is_some_and(|known| {
        let lun = known.shared.lun(name);
        lun.is_some_and(|lun| known.fs.cut.contains(&lun.file))
    });
    is_cut_next || is_cut
}

fn delete_lun(home: &mut Home, volume: &str, name: &str) -> Result<(), Error> {
    let (volume, lun) = find_lun(home, volume, name)?;
    lun_clone::check_held(volume, &lun)?;
    volume
        .shared
        .luns
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .remove(name);
    lun.set_gone();
    let entry = volume
        .fs
        .directory
        .remove(lun.file)
        .expect("every LUN has a name");
    volume.fs.cut.remove(&lun.file);
    if !planted::is(Bug::HiddenEntryLost) {
        volume.fs.hidden.add(entry);
    }
    Ok(())
}

fn grow_lun(home: &mut Home, volume: &str, name: &str, size: u64) -> Result<(), Error> {
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
    // Growth waits for this before it is admitted; a volume that was restored meanwhile may have it again.
    if volume.fs.cut.contains(&lun.file) {
        return Err(Error::Busy(format!(
            "what was cut off of {} is being freed; try again",
            lun.full_name()
        )));
    }
    if !planted::is(Bug::GrowthLost) {
        set_size(volume.fs.file(lun.file), size);
    }
    lun.set_size_bytes(size);
    Ok(())
}
