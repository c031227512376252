//! Clones: a writable volume that begins as the image of a snapshot of another, its *base* (DESIGN §8).
//!
//! A clone shares the vvbn space that its base had: its active image is the base's tree, its first snapshot is the
//! base itself, and its container is empty. What the base holds is in the parent's container; whatever the clone
//! writes goes to vvbns that its own maps call free, hence to slots of its own container. The base, being a
//! snapshot of the clone that cannot be deleted, keeps the clone from freeing or reusing what is not its own; the
//! parent keeps the base because a clone needs it.
//!
//! ```text
//! parent   … ← S ← active                container: what the parent and its snapshots hold, S included
//!              ┊ the same image
//! clone        S ← active                container: what the clone wrote
//! ```
//!
//! So a clone costs one consistency point and some blocks of metadata, whatever its size, and a clone of a clone is
//! nothing special.
//!
//! A clone may get blocks of its own ([`super::split`]), and is none any more then.
//!
//! 1. The container of a clone has no slot for a vvbn of the base, but for the superblock's and those that a split has
//!    copied.
//! 2. The base cannot be deleted, neither in the parent nor in the clone, nor the parent, while the clone is one.

use std::sync::Arc;

use everglade_format::planted::{self, Bug};
use everglade_format::snapshot::State;
use everglade_format::volume::{CLONE_DEPTH_MAX, VOLUME_AREA_BLOCKS};
use everglade_format::{CpNumber, FileId, SnapshotId, SnapshotRecord};

use crate::admin::{Change, Context, Error, Request, create_volume, find};
use crate::cp::Home;
use crate::filesystem::FileSystem;
use crate::load::{LoadCx, Stop};
use crate::snapshot::change::{ensure_side_files, live};
use crate::snapshot::image::{self, Image};
use crate::snapshot::info::SnapshotInfo;
use crate::snapshot::restore::{self, Restored};
use crate::volume::Volume;

/// The id of the base among the clone's own snapshots.
pub(crate) const BASE: SnapshotId = SnapshotId(1);

/// Begins a clone in the freeze; [`prepare`] gives it its image.
pub(crate) fn create(
    home: &mut Home,
    context: &mut Context<'_>,
    cp: CpNumber,
    name: &str,
    (parent, snapshot): (&str, &str),
) -> Result<(), Error> {
    let known = find(home, parent)?;
    let (parent_id, sync) = (known.shared.id, known.sync);
    let base = (parent_id, live(known, snapshot)?);
    let above = |id: &FileId| {
        let (parent, _) = home.volumes.get(id)?.fs.snapshots.roots.base?;
        // A parent is older, so this ends.
        (parent < *id).then_some(parent)
    };
    if std::iter::successors(Some(parent_id), above).count() > CLONE_DEPTH_MAX {
        return Err(Error::Limit(format!(
            "{parent}@{snapshot} is the end of a chain of {CLONE_DEPTH_MAX} clones, the most there can be"
        )));
    }
    create_volume(home, context, cp, name, sync)?;
    ensure_side_files(home, cp, context.seconds, name)?;
    let snapshots = &mut find(home, name)?.fs.snapshots;
    snapshots.roots.base = Some(base);
    snapshots.cloning = Some(base);
    snapshots.set_changed();
    Ok(())
}

/// Names of the clones that need a snapshot of a volume, or any of them.
pub(crate) fn of(home: &Home, volume: FileId, snapshot: Option<SnapshotId>) -> Vec<String> {
    let needs = |base: Option<(FileId, SnapshotId)>| {
        base.is_some_and(|(id, base)| id == volume && snapshot.is_none_or(|known| known == base))
    };
    let clones = home
        .volumes
        .values()
        .filter(|v| needs(v.fs.snapshots.roots.base) && !planted::is(Bug::BaseNotLocked));
    clones
        .map(|volume| volume.shared.name.to_string())
        .collect()
}

/// Gives a new clone the image of its base, before anything of it is written.
pub(crate) fn prepare(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) -> Result<(), Stop> {
    let volume = &home.volumes[&id];
    let Some((parent, snapshot)) = volume.fs.snapshots.cloning else {
        return Ok(());
    };
    let parent = &home
        .volumes
        .get(&parent)
        .expect("a parent stays while it has clones")
        .fs;
    let record = parent.snapshots.get(snapshot).clone();
    let areas = (parent.areas[0].count(), parent.areas[0].frontier());
    match restore::load(cx, &record, id, areas).map_err(Stop::settled) {
        Ok(fs) => {
            begin(home, id, fs, record);
            Ok(())
        }
        Err(Stop::Failed(error)) => {
            give_up(home, id, &error.to_string());
            Ok(())
        }
        Err(stop) => Err(stop),
    }
}

/// The clone is what its base was.
fn begin(home: &mut Home, id: FileId, mut fs: FileSystem, base: SnapshotRecord) {
    // All of the vvbn space that the base knows of is below the frontier.
    home.fs
        .file(id)
        .grow(fs.areas[0].count() * VOLUME_AREA_BLOCKS);
    let volume = home.volumes.get_mut(&id).expect("it is being made");
    let mut snapshots = std::mem::take(&mut volume.fs.snapshots);
    snapshots.cloning = None;
    let name = base.name.clone();
    snapshots.adopt(SnapshotRecord {
        id: BASE,
        state: State::Live,
        parent: None,
        also: Vec::new(),
        is_unfolded: false,
        is_in_pass: false,
        exclusive: 0,
        holds: Vec::new(),
        ..base
    });
    fs.snapshots = snapshots;
    fs.inode_file.inode_changed = true;
    let luns = image::of(&fs);
    volume.fs = fs;
    volume.is_new = false;
    let run = home.run.as_mut().expect("under way");
    let shared = volume.shared.clone();
    shared.set_base(volume.fs.snapshots.roots.base);
    run.images.push((
        shared.clone(),
        name.clone(),
        Image::new(&shared, &name, &luns),
    ));
    run.restored.push(Restored::new(&shared, &volume.fs));
}

/// The base cannot be read: the volume, which is empty, goes again with the next consistency point.
fn give_up(home: &mut Home, id: FileId, reason: &str) {
    let volume = home.volumes.get_mut(&id).expect("it is being made");
    volume.fs.snapshots.cloning = None;
    volume.fs.snapshots.roots.base = None;
    let name = volume.shared.name.to_string();
    let run = home.run.as_mut().expect("under way");
    let is_ours =
        |change: &Change| matches!(change, Change::CloneVolume { name: made, .. } if *made == name);
    for (request, answer) in &mut run.answers {
        if is_ours(&request.change) && answer.is_ok() {
            *answer = Err(Error::Unavailable(format!(
                "the snapshot cannot be read, and nothing was cloned: {reason}"
            )));
        }
    }
    // First, before somebody gives it another name.
    home.requests
        .push_front(Request::of_nobody(Change::DeleteVolume { name }));
}

/// Says of a volume's snapshots which are bases, for people.
pub(crate) fn mark(snapshots: &mut [SnapshotInfo], volume: &Volume) {
    let mut clones: Vec<(SnapshotId, String)> = Vec::new();
    for other in volume.aggregate.all_volumes() {
        if let Some((parent, base)) = other.base()
            && parent == volume.id
        {
            clones.push((base, other.name.to_string()));
        }
    }
    clones.sort();
    for snapshot in snapshots {
        let of = clones.iter().filter(|(base, _)| base.0 == snapshot.id);
        snapshot.clones = of.map(|(_, name)| name.clone()).collect();
        if volume.base().is_some() && snapshot.id == BASE.0 {
            snapshot.is_base = true;
            // What the active image freed of it stays where it is, in the parent's container.
            snapshot.exclusive_bytes = 0;
        }
    }
}

/// What a volume is a clone of, for people: `parent@snapshot`.
pub(crate) fn base_name(
    volumes: &[Arc<Volume>],
    (parent, snapshot): (FileId, SnapshotId),
) -> Option<String> {
    let parent = volumes.iter().find(|volume| volume.id == parent)?;
    let snapshots = parent.snapshots();
    let snapshot = snapshots.iter().find(|info| info.id == snapshot.0)?;
    Some(format!("{}@{}", parent.name, snapshot.name))
}
