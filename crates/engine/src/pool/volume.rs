//! Volumes and LUNs as clients see them: committed roots, and overlays of later changes (B-02).
//!
//! A client operation runs inside the stripe affinities of the file stripes it touches. It finds a
//! block's newest content in this order: the active overlay (consistency point n + 1), the frozen
//! overlay (n, while it is being written), the committed tree (n − 1). The consistency point
//! publishes new roots and drops frozen overlays together, inside the Aggregate affinity, so no
//! reader sees one without the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everglade_affinity::{Affinity, Partitioned, Permit, STRIPES, Stripe, VolumeAffinities};
use everglade_env::BLOCK_SIZE;
use everglade_env::lock::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use everglade_format::volume::Sync;
use everglade_format::{FileId, SPAN, SnapshotId, SnapshotRecord, identity};

use crate::pool::aggregate::Aggregate;
use crate::pool::image::Image;
use crate::pool::info::{LunCloneInfo, ScanInfo, SnapshotInfo, SplitInfo};
use crate::pool::name::Name;
use crate::pool::overlay::{LeafContent, Overlay};
use crate::pool::trashed_snapshot::TrashedSnapshot;
use crate::read::redirects::Followed;
use crate::read::root::Root;

/// Level-1 blocks in a file stripe (docs/reference/conventions.md#defaults): an operation of 1 MiB
/// touches at most two stripes.
pub(crate) const STRIPE_REGIONS: u64 = 8;
/// Leaves in a file stripe.
pub(crate) const STRIPE_BLOCKS: u64 = STRIPE_REGIONS * SPAN;

/// A volume's stripes have a bit each.
const _: () = assert!(STRIPES <= u64::BITS as usize);

/// State that belongs to one stripe affinity of a volume.
#[derive(Default)]
pub(crate) struct StripeState {
    /// Changes of the consistency point that operations join now.
    pub(crate) active: Overlay,
    /// Changes of the one being written.
    pub(crate) frozen: Option<Arc<Overlay>>,
}

impl StripeState {
    /// What the frozen overlay has for a leaf.
    pub(crate) fn find_in_frozen(&self, file: FileId, leaf: u64) -> LeafContent {
        match &self.frozen {
            Some(frozen) => frozen.find(file, leaf),
            None => LeafContent::Older,
        }
    }
}

/// What is said of a volume that is in the trash, after its name.
pub(crate) const IN_TRASH: &str = " (in the trash)";

/// A volume.
pub(crate) struct Volume {
    pub(crate) id: FileId,
    pub(crate) name: Name,
    /// Writes are durable when they are answered. Changed in the freeze only.
    pub(crate) is_always: AtomicBool,
    pub(crate) aggregate: Arc<Aggregate>,
    pub(crate) affinities: VolumeAffinities,
    pub(crate) stripes: Vec<Partitioned<StripeState, Stripe>>,
    /// Stripes with something in their active overlay, one bit each.
    pub(crate) dirty_stripes: AtomicU64,
    /// Stripes with a frozen overlay. Changed in the Aggregate affinity only.
    pub(crate) frozen_stripes: AtomicU64,
    pub(crate) traffic: Traffic,
    /// LUNs by name. Changed in the freeze only.
    pub(crate) luns: RwLock<BTreeMap<String, Arc<Lun>>>,
    /// Snapshots that clients can open, by name. Changed in the Aggregate affinity only.
    pub(crate) images: RwLock<BTreeMap<String, Image>>,
    /// Snapshots, for people. Changed when a consistency point is published only.
    pub(crate) snapshots: RwLock<Arc<Vec<SnapshotInfo>>>,
    /// Blocks of its active image, for people: as of the last consistency point.
    pub(crate) used_blocks: AtomicU64,
    /// Blocks of its files of the aggregate, likewise: container with all that is in it, and side
    /// files.
    pub(crate) allocated_blocks: AtomicU64,
    /// Blocks that deletions in the volume have yet to free, likewise.
    pub(crate) pending_blocks: AtomicU64,
    /// State of the scans of its snapshots, likewise.
    pub(crate) scan: Mutex<ScanInfo>,
    /// A LUN that is being cloned, as of the last consistency point, for people.
    pub(crate) lun_clone: Mutex<Option<LunCloneInfo>>,
    /// The base of a clone: its parent and the parent's snapshot. As of the last consistency point.
    pub(crate) base: Mutex<Option<(FileId, SnapshotId)>>,
    /// Published state of its split, likewise.
    pub(crate) split: Mutex<SplitInfo>,
    /// True if the volume, or its parent, was split: most of its blocks are not where its trees say
    /// ([`crate::read::redirects`]).
    pub(crate) is_moved: AtomicBool,
    /// Operations wait for the next commit: another image is about to take the place of this one.
    /// Set in the freeze, cleared when the consistency point is published.
    pub(crate) is_paused: AtomicBool,
    /// LUNs in the trash, each with the time of its deletion in seconds since 1970 UTC. No client
    /// finds them. Changed in the Aggregate affinity only.
    pub(crate) trash: RwLock<BTreeMap<FileId, (u64, Arc<Lun>)>>,
    /// Snapshots in the trash, likewise.
    pub(crate) trashed_snapshots: RwLock<BTreeMap<SnapshotId, TrashedSnapshot>>,
    /// When the volume was put into the trash, likewise; 0 if it is not there.
    pub(crate) deleted_seconds: AtomicU64,
}

/// Bytes that clients read and wrote since the volume was opened.
#[derive(Default)]
pub(crate) struct Traffic {
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
}

impl Traffic {
    pub(crate) fn note_read(&self, bytes: u32) {
        self.read.fetch_add(u64::from(bytes), Ordering::Relaxed);
    }

    pub(crate) fn note_written(&self, bytes: u32) {
        self.written.fetch_add(u64::from(bytes), Ordering::Relaxed);
    }
}

/// A LUN.
pub(crate) struct Lun {
    pub(crate) file: FileId,
    /// Name in the image that the LUN is part of.
    pub(crate) name: Name,
    /// The snapshot whose image it is part of; of the active image if there is none.
    pub(crate) snapshot: Option<String>,
    pub(crate) volume: Arc<Volume>,
    size_bytes: AtomicU64,
    /// Blocks of its tree as of the last consistency point, for people.
    used_blocks: AtomicU64,
    root: Mutex<Root>,
    gone: AtomicBool,
}

impl Volume {
    /// What is noted for it is noted under this ([`identity`]).
    pub(crate) fn uuid(&self) -> [u8; 16] {
        identity::volume_uuid(&self.aggregate.uuid, self.id)
    }

    /// When writes count as done.
    pub(crate) fn sync(&self) -> Sync {
        match self.is_always.load(Ordering::Relaxed) {
            true => Sync::Always,
            false => Sync::Standard,
        }
    }

    pub(crate) fn set_sync(&self, sync: Sync) {
        let is_always = sync == Sync::Always;
        self.is_always.store(is_always, Ordering::Relaxed);
    }

    pub(crate) fn stripe_index(&self, file: FileId, stripe: u64) -> usize {
        let count = self.stripes.len() as u64;
        usize::try_from(stripe.wrapping_add(u64::from(file.0)) % count).expect("below the count")
    }

    pub(crate) fn stripe(&self, file: FileId, stripe: u64) -> &Affinity<Stripe> {
        self.stripes[self.stripe_index(file, stripe)].affinity()
    }

    /// False if a stripe has no overlay. Exact inside the stripe's affinity: an operation that
    /// leaves an overlay sets the flag before it leaves. Panics if the permit does not cover the
    /// stripe, as an access to the stripe does.
    pub(crate) fn has_overlay(&self, stripe_index: usize, permit: &Permit) -> bool {
        let stripe = self.stripes[stripe_index].affinity();
        assert!(
            permit.covers(stripe),
            "{permit:?} does not cover {stripe:?}"
        );
        let dirty = self.dirty_stripes.load(Ordering::Acquire);
        (dirty | self.frozen_stripes.load(Ordering::Acquire)) >> stripe_index & 1 == 1
    }

    /// True if no stripe has an overlay, so that the committed trees say everything.
    pub(crate) fn is_clean(&self) -> bool {
        let dirty = self.dirty_stripes.load(Ordering::Acquire);
        dirty | self.frozen_stripes.load(Ordering::Acquire) == 0
    }

    pub(crate) fn lun(&self, name: &str) -> Option<Arc<Lun>> {
        self.luns.read().get(name).cloned()
    }

    pub(crate) fn images(&self) -> RwLockReadGuard<'_, BTreeMap<String, Image>> {
        self.images.read()
    }

    pub(crate) fn images_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Image>> {
        self.images.write()
    }

    /// Shows clients the image of a live snapshot, or keeps it with the snapshot in the trash.
    pub(crate) fn keep_image(&self, record: &SnapshotRecord, image: Image) {
        if record.is_named() {
            self.images_mut().insert(record.name.clone(), image);
            return;
        }
        let trashed = TrashedSnapshot {
            name: record.name.clone(),
            deleted_seconds: record.deleted_seconds,
            exclusive_blocks: record.exclusive,
            image,
        };
        self.trashed_snapshots.write().insert(record.id, trashed);
    }

    /// Takes note of what snapshots in the trash hold alone, for people.
    pub(crate) fn note_trashed<'a>(&self, records: impl Iterator<Item = &'a SnapshotRecord>) {
        let mut known = self.trashed_snapshots.write();
        for record in records {
            if let Some(trashed) = known.get_mut(&record.id) {
                trashed.exclusive_blocks = record.exclusive;
            }
        }
    }

    /// Returns the published state of the scans.
    pub(crate) fn scan(&self) -> ScanInfo {
        self.scan.lock().clone()
    }

    pub(crate) fn set_scan(&self, info: ScanInfo) {
        *self.scan.lock() = info;
    }

    /// Returns the published state of a LUN clone job.
    pub(crate) fn lun_clone(&self) -> Option<LunCloneInfo> {
        self.lun_clone.lock().clone()
    }

    pub(crate) fn set_lun_clone(&self, info: Option<LunCloneInfo>) {
        *self.lun_clone.lock() = info;
    }

    /// Returns the parent and the snapshot that the volume is a clone of.
    pub(crate) fn base(&self) -> Option<(FileId, SnapshotId)> {
        *self.base.lock()
    }

    pub(crate) fn set_base(&self, base: Option<(FileId, SnapshotId)>) {
        *self.base.lock() = base;
    }

    /// Returns the published state of the split.
    pub(crate) fn split(&self) -> SplitInfo {
        *self.split.lock()
    }

    pub(crate) fn set_split(&self, info: SplitInfo) {
        *self.split.lock() = info;
    }

    /// For those who follow its pointers.
    pub(crate) fn followed(&self) -> Followed<'_> {
        Followed {
            id: self.id,
            is_moved: &self.is_moved,
        }
    }

    /// Sets the moved flag, at a mount and when a consistency point is published.
    pub(crate) fn set_moved(&self, is_moved: bool) {
        self.is_moved.store(is_moved, Ordering::Relaxed);
    }

    /// Returns the published list of snapshots, by their numbers. Readers of a long list do not
    /// make publications wait.
    pub(crate) fn snapshots(&self) -> Arc<Vec<SnapshotInfo>> {
        self.snapshots.read().clone()
    }

    /// Publishes a new list of snapshots and leaves the former list in `view`: freeing a thousand
    /// entries would make clients wait.
    pub(crate) fn swap_snapshots(&self, view: &mut Arc<Vec<SnapshotInfo>>) {
        std::mem::swap(&mut *self.snapshots.write(), view);
    }

    /// All LUNs that clients find.
    pub(crate) fn all_luns(&self) -> Vec<Arc<Lun>> {
        self.luns.read().values().cloned().collect()
    }

    /// These, and those in the trash.
    pub(crate) fn kept_luns(&self) -> Vec<Arc<Lun>> {
        let mut luns = self.all_luns();
        luns.extend(self.trash.read().values().map(|(_, lun)| lun.clone()));
        luns
    }

    /// Its name, for people, and that it is in the trash.
    pub(crate) fn said(&self) -> String {
        match self.deleted_seconds.load(Ordering::Relaxed) {
            0 => self.name.to_string(),
            _ => format!("{}{IN_TRASH}", self.name),
        }
    }

    /// True if this is the name by which the volume is found.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.deleted_seconds.load(Ordering::Relaxed) == 0 && self.name.is(name)
    }
}

impl Lun {
    pub(crate) fn new(file: FileId, name: &str, volume: Arc<Volume>, size: u64, root: Root) -> Lun {
        Lun {
            file,
            name: Name::new(name),
            snapshot: None,
            volume,
            size_bytes: AtomicU64::new(size),
            used_blocks: AtomicU64::new(0),
            root: Mutex::new(root),
            gone: AtomicBool::new(false),
        }
    }

    /// A LUN of a snapshot.
    pub(crate) fn of_snapshot(
        file: FileId,
        name: &str,
        snapshot: &str,
        volume: Arc<Volume>,
        size: u64,
        root: Root,
    ) -> Lun {
        Lun {
            snapshot: Some(snapshot.to_owned()),
            ..Lun::new(file, name, volume, size, root)
        }
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    /// Operations on it wait: it is part of the active image, and another one is about to take the
    /// place of that.
    pub(crate) fn is_paused(&self) -> bool {
        self.snapshot.is_none() && self.volume.is_paused.load(Ordering::Acquire)
    }

    /// The stripe that a range of bytes lies in, if it is only one.
    pub(crate) fn only_stripe(&self, offset: u64, length: u32) -> Option<&Affinity<Stripe>> {
        let last = offset.checked_add(u64::from(length))?.checked_sub(1)?;
        let stripe = |at: u64| at / BLOCK_SIZE as u64 / STRIPE_BLOCKS;
        (stripe(offset) == stripe(last)).then(|| self.volume.stripe(self.file, stripe(offset)))
    }

    pub(crate) fn used_blocks(&self) -> u64 {
        self.used_blocks.load(Ordering::Relaxed)
    }

    pub(crate) fn set_used_blocks(&self, blocks: u64) {
        self.used_blocks.store(blocks, Ordering::Relaxed);
    }

    /// Sets the size. In the freeze only.
    pub(crate) fn set_size_bytes(&self, size: u64) {
        self.size_bytes.store(size, Ordering::Release);
    }

    pub(crate) fn root(&self) -> Root {
        *self.root.lock()
    }

    /// When a consistency point is published only.
    pub(crate) fn set_root(&self, root: Root) {
        *self.root.lock() = root;
    }

    /// The same LUN under a new handle, which no client has.
    pub(crate) fn with_new_handle(&self) -> Arc<Lun> {
        let name = self.name.get();
        let lun = Lun::new(
            self.file,
            &name,
            self.volume.clone(),
            self.size_bytes(),
            self.root(),
        );
        lun.set_used_blocks(self.used_blocks());
        Arc::new(lun)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Marks the LUN as deleted. In the freeze only.
    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// What hosts know it by, for ever ([`identity`]).
    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.uuid_in(self.snapshot.as_deref())
    }

    /// That of its volume.
    pub(crate) fn volume_uuid(&self) -> [u8; 16] {
        self.volume.uuid()
    }

    /// That of the LUN that this is, or is an image of.
    pub(crate) fn lun_uuid(&self) -> [u8; 16] {
        self.uuid_in(None)
    }

    fn uuid_in(&self, snapshot: Option<&str>) -> [u8; 16] {
        let volume = &self.volume;
        identity::lun_uuid(&volume.aggregate.uuid, volume.id, self.file, snapshot)
    }

    /// `volume/lun`, or `volume/lun@snapshot`.
    pub(crate) fn full_name(&self) -> String {
        match &self.snapshot {
            None => format!("{}/{}", self.volume.name, self.name),
            Some(snapshot) => format!("{}/{}@{snapshot}", self.volume.name, self.name),
        }
    }
}
