//! Clones: a writable volume that begins as the image of a snapshot of another, its *base*
//! (docs/design/design.md §8).
//!
//! A clone shares the vvbn space that its base had: its active image is the base's tree, its first
//! snapshot is the base itself, and its container is empty. The blocks of the base are in the
//! parent's container. The clone writes to vvbns that are free in its own maps, so to slots of its
//! own container. The base is a snapshot of the clone that cannot be deleted, so the clone never
//! frees or reuses the base's blocks. The parent keeps the base while a clone needs it.
//!
//! ```text
//! parent   … ← S ← active      container: what the parent and its snapshots hold, S included
//!              ┊ the same image
//! clone        S ← active      container: what the clone wrote
//! ```
//!
//! So making a clone costs one consistency point and some blocks of metadata, whatever its size. A
//! clone of a clone works in the same way.
//!
//! A split gives a clone blocks of its own ([`crate::background::split`]); afterwards the volume is
//! no clone.
//!
//! 1. The container of a clone has no slot for a vvbn of the base, except for the superblock's and
//!    for those that a split has copied.
//! 2. While the volume is a clone, neither its parent nor the base can be deleted, in the parent
//!    and in the clone.

use everglade_format::snapshot::State;
use everglade_format::volume::VOLUME_AREA_BLOCKS;
use everglade_format::{FileId, SnapshotRecord};

use crate::alloc::filesystem::FileSystem;
use crate::change::{Change, Error, Request};
use crate::home::aggregate::Home;
use crate::home::publication::Restored;
use crate::pool::bases::BASE;
use crate::pool::image::Image;
use crate::read::load::{LoadCx, Stop};
use crate::snapshot::restore;

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
    // All vvbns of the base are below the frontier.
    home.fs
        .file(id)
        .grow(fs.areas[0].count() * VOLUME_AREA_BLOCKS);
    let (site, publication) = home.site(id);
    let volume = site.volume;
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
        deleted_seconds: 0,
        holds: Vec::new(),
        ..base
    });
    fs.snapshots = snapshots;
    fs.inode_file.inode_changed = true;
    let luns = fs.luns();
    volume.fs = fs;
    volume.is_new = false;
    let shared = volume.shared.clone();
    shared.set_base(volume.fs.snapshots.roots.base);
    let image = Image::new(&shared, &name, &luns);
    publication.images.push((shared.clone(), name, image));
    let restored = Restored::new(&shared, &volume.fs);
    publication.restored.push(restored);
}

/// The base cannot be read: the volume, which is empty, goes again with the next consistency point.
fn give_up(home: &mut Home, id: FileId, reason: &str) {
    let volume = home.volumes.get_mut(&id).expect("it is being made");
    volume.fs.snapshots.cloning = None;
    volume.fs.snapshots.roots.base = None;
    let name = volume.shared.name.to_string();
    let is_ours =
        |change: &Change| matches!(change, Change::CloneVolume { name: made, .. } if *made == name);
    let reason = format!("the snapshot cannot be read, and nothing was cloned: {reason}");
    home.under_way()
        .refuse(is_ours, &Error::Unavailable(reason));
    // First, before another request renames it.
    home.requests
        .push_front(Request::of_nobody(Change::DeleteVolume { name }));
}
