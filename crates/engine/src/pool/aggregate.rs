//! Aggregates: the state of a pool that all reactors share (B-01).
//!
//! The consistency point's own state ([`crate::home::aggregate::Home`]) is not here: it belongs to
//! the home reactor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everglade_affinity::AggregateAffinities;
use everglade_env::lock::{Mutex, RwLock};
use everglade_env::{DeviceId, SegmentFault};
use everglade_format::config::Uuid;
use everglade_format::{CpNumber, FileId, SPAN, Superblock, TagKey};

use crate::media::{Layout, Media};
use crate::pool::garden::GardenInfo;
use crate::pool::log::{Log, RecoveryInfo};
use crate::pool::lost::LostBlocks;
use crate::pool::mended::Mended;
use crate::pool::name::Name;
use crate::pool::refused::Refused;
use crate::pool::removal::RemovalInfo;
use crate::pool::scattered::Scattered;
use crate::pool::scrub::ScrubInfo;
use crate::pool::segments;
use crate::pool::shares::Shares;
use crate::pool::space::Space;
use crate::pool::standing::Standing;
use crate::pool::trash::Purged;
use crate::pool::trigger::Counts;
use crate::pool::volume::Volume;
use crate::read::redirects::Redirects;
use crate::tree::notes;

pub use crate::pool::standing::State;

/// Shared state of an aggregate.
pub(crate) struct Aggregate {
    /// Its number in this process, part of the page cache's key.
    pub(crate) id: u32,
    pub(crate) uuid: Uuid,
    /// Name in the last consistency point, or in the one being written.
    pub(crate) name: Name,
    pub(crate) key: TagKey,
    /// Its devices, and where its blocks are on them.
    pub(crate) media: Media,
    pub(crate) affinities: AggregateAffinities,
    /// The reactor that runs its consistency points.
    pub(crate) home: usize,
    /// Volumes by name. Changed in the freeze only.
    pub(crate) volumes: RwLock<BTreeMap<String, Arc<Volume>>>,
    /// Volumes in the trash. Changed in the freeze only.
    pub(crate) trash: RwLock<BTreeMap<FileId, Arc<Volume>>>,
    pub(crate) purged: Purged,
    pub(crate) space: Space,
    /// The consistency point it was opened with.
    pub(crate) opened: CpNumber,
    /// Segment files that were lost when it was opened: nothing can be written there, and what was
    /// there may come back.
    pub(crate) lost_segments: Vec<SegmentFault>,
    /// Segment files that were lost on drives which another one replaces; those are not used.
    pub(crate) spared_segments: Vec<SegmentFault>,
    /// When it was opened, its labels had the record of a change of its devices that was cut
    /// ([`crate::mount::labels`]).
    pub(crate) has_cut_change: bool,
    /// A consistency point comes before clients: when it was opened, a copy of a superblock was to
    /// be healed ([`crate::media::heal`]), or it has got another name.
    pub(crate) commits_first: bool,
    /// It was opened to be read only: it never writes to its devices.
    pub(crate) is_for_reading: bool,
    /// The journal, unless it has none.
    pub(crate) log: Option<Log>,
    pub(crate) counts: Counts,
    pub(crate) lost: LostBlocks,
    pub(crate) mended: Mended,
    /// Requests of clients that found no space.
    pub(crate) refused: Refused,
    /// Notes of administrators' programs. Changed in the freeze only.
    notes: Mutex<notes::Text>,
    pub(crate) redirects: Redirects,
    /// What each LUN gets while operations wait.
    pub(crate) shares: Shares,
    scrub: Mutex<ScrubInfo>,
    garden: Mutex<GardenInfo>,
    /// Gardening is paused: blocks move only out of areas that clients need as a whole.
    garden_is_paused: AtomicBool,
    removal: Mutex<Option<RemovalInfo>>,
    /// Devices of members that were removed, and that may still have labels.
    former: Mutex<Vec<DeviceId>>,
    /// Regions of LUNs that were read in order, and do not lie in order.
    pub(crate) scattered: Scattered,
    /// The last consistency point with which a volume or LUN came, or grew.
    topology: AtomicU64,
    /// Result of replaying the journal.
    recovery: Mutex<Option<RecoveryInfo>>,
    /// The consistency point that operations join now. Changed in the freeze only.
    joining: AtomicU64,
    committed: AtomicU64,
    /// Highest consistency point that a waiter needs.
    wanted: AtomicU64,
    /// Operations since the last freeze changed something.
    changes: AtomicU64,
    /// The home reactor should be woken.
    alarm: AtomicBool,
    stopping: AtomicBool,
    /// True after the aggregate was deleted: lists leave it out.
    forgotten: AtomicBool,
    pub(crate) standing: Standing,
}

/// Why an aggregate that was opened to be read only cannot be changed.
const FOR_READING: &str = "it was imported with --read-only; export it, and import it without that";

impl Aggregate {
    pub(crate) fn new(
        id: u32,
        layout: Layout,
        highest_epoch: u64,
        affinities: AggregateAffinities,
        home: usize,
        superblock: &Superblock,
        space: Space,
    ) -> Self {
        let committed = superblock.cp;
        let config = &layout.config;
        Aggregate {
            id,
            name: Name::new(superblock.name.as_ref().unwrap_or(&config.name)),
            key: TagKey::new(&config.secret),
            log: Log::new(config),
            counts: Counts::default(),
            lost: LostBlocks::default(),
            mended: Mended::default(),
            refused: Refused::default(),
            notes: Mutex::new(Ok(Arc::default())),
            redirects: Redirects::default(),
            shares: Shares::default(),
            scrub: Mutex::default(),
            garden: Mutex::default(),
            garden_is_paused: AtomicBool::new(false),
            removal: Mutex::default(),
            former: Mutex::default(),
            scattered: Scattered::default(),
            opened: committed,
            lost_segments: Vec::new(),
            spared_segments: Vec::new(),
            has_cut_change: highest_epoch > config.epoch,
            commits_first: false,
            is_for_reading: false,
            topology: AtomicU64::new(0),
            recovery: Mutex::new(None),
            uuid: config.uuid,
            media: Media::new(layout).after_change(highest_epoch),
            affinities,
            home,
            volumes: RwLock::default(),
            trash: RwLock::default(),
            purged: Purged::default(),
            space,
            joining: AtomicU64::new(committed.0 + 1),
            committed: AtomicU64::new(committed.0),
            wanted: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            alarm: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            forgotten: AtomicBool::new(false),
            standing: Standing::mounting(),
        }
    }

    /// Its name, if that is not the one in the labels.
    pub(crate) fn changed_name(&self) -> Option<String> {
        let name = self.name.to_string();
        (name != self.media.layout().config.name).then_some(name)
    }

    /// Gives it another name before anybody knows it. The first consistency point writes the name.
    pub(crate) fn begin_as(&mut self, name: &str) {
        self.name.set(name);
        self.commits_first = true;
    }

    /// The consistency point an operation joins; stable while inside any of the aggregate's
    /// affinities.
    pub(crate) fn joining(&self) -> CpNumber {
        CpNumber(self.joining.load(Ordering::Acquire))
    }

    /// Begins a consistency point. In the freeze only. Returns its number.
    pub(crate) fn begin_cp(&self) -> CpNumber {
        // The order of these two updates matters to [`Aggregate::covering`].
        let number = self.joining.fetch_add(1, Ordering::AcqRel);
        self.changes.store(0, Ordering::Release);
        CpNumber(number)
    }

    /// True if its first consistency point does not wait for a change after it was opened: a change
    /// of its devices was cut, a missing drive is to be recorded, what clients see may depend on a
    /// single copy of a superblock, or its name has changed.
    pub(crate) fn must_commit_first(&self) -> bool {
        self.has_cut_change || self.commits_first || self.media.is_waiting()
    }

    /// The consistency point that must be committed before clients are admitted after a change of
    /// the devices was cut. A drive that is absent now may have the superblock of the next one;
    /// then it must be older than what the others have.
    pub(crate) fn beyond_cut_change(&self) -> CpNumber {
        let joining = self.joining();
        match self.media.has_groups() {
            true => joining.next(),
            false => joining,
        }
    }

    pub(crate) fn committed(&self) -> CpNumber {
        CpNumber(self.committed.load(Ordering::Acquire))
    }

    pub(crate) fn set_committed(&self, cp: CpNumber) {
        assert_eq!(
            self.committed.swap(cp.0, Ordering::AcqRel) + 1,
            cp.0,
            "consistency points in order"
        );
    }

    /// Asks for every consistency point up to `cp`. True if that is news for the home reactor.
    pub(crate) fn want_cp(&self, cp: CpNumber) -> bool {
        self.wanted.fetch_max(cp.0, Ordering::AcqRel) < cp.0
    }

    pub(crate) fn wanted(&self) -> CpNumber {
        CpNumber(self.wanted.load(Ordering::Acquire))
    }

    /// The last consistency point with which a volume or LUN came, or grew. What is logged for it
    /// is of no use before that is committed.
    pub(crate) fn topology(&self) -> CpNumber {
        CpNumber(self.topology.load(Ordering::Acquire))
    }

    /// Publishes the devices' topology. In the freeze only.
    pub(crate) fn set_topology(&self, cp: CpNumber) {
        self.topology.store(cp.0, Ordering::Release);
    }

    pub(crate) fn notes(&self) -> notes::Text {
        self.notes.lock().clone()
    }

    pub(crate) fn set_notes(&self, text: notes::Text) {
        *self.notes.lock() = text;
    }

    pub(crate) fn scrub(&self) -> ScrubInfo {
        *self.scrub.lock()
    }

    pub(crate) fn set_scrub(&self, info: ScrubInfo) {
        *self.scrub.lock() = info;
    }

    /// What its gardener does.
    pub(crate) fn garden(&self) -> GardenInfo {
        let mut garden = self.garden.lock().clone();
        garden.after_read.waiting_blocks = self.scattered.count() * SPAN;
        garden.is_paused = self.garden_is_paused();
        garden
    }

    /// True if gardening is paused.
    pub(crate) fn garden_is_paused(&self) -> bool {
        self.garden_is_paused.load(Ordering::Relaxed)
    }

    /// Pauses gardening, or lets it go on. Returns true if that is a change.
    pub(crate) fn pause_garden(&self, is_paused: bool) -> bool {
        self.garden_is_paused.swap(is_paused, Ordering::Relaxed) != is_paused
    }

    /// The members that leave it.
    pub(crate) fn removal(&self) -> Option<RemovalInfo> {
        let mut removal = self.removal.lock().clone();
        if let Some(removal) = &mut removal {
            removal.waits_for_space = !self.space.has_room_beside(0);
            removal.is_paused = self.garden_is_paused();
        }
        removal
    }

    /// Devices of members that were removed, and that may still have labels.
    pub(crate) fn former(&self) -> Vec<DeviceId> {
        self.former.lock().clone()
    }

    /// These devices were members, and are none any more.
    pub(crate) fn add_former(&self, devices: &[DeviceId]) {
        if !devices.is_empty() {
            self.former.lock().extend_from_slice(devices);
        }
    }

    /// A device has no label any more.
    pub(crate) fn forget_former(&self, device: DeviceId) {
        self.former.lock().retain(|other| *other != device);
    }

    pub(crate) fn set_removal(&self, info: Option<RemovalInfo>) {
        *self.removal.lock() = info;
    }

    pub(crate) fn set_garden(&self, info: GardenInfo) {
        *self.garden.lock() = info;
    }

    pub(crate) fn recovery(&self) -> Option<RecoveryInfo> {
        *self.recovery.lock()
    }

    pub(crate) fn set_recovery(&self, info: RecoveryInfo) {
        *self.recovery.lock() = Some(info);
    }

    /// Notes that an operation changed something in the current consistency point. True if it is
    /// the first.
    pub(crate) fn note_change(&self) -> bool {
        self.changes.fetch_add(1, Ordering::AcqRel) == 0
    }

    /// Something happened that the home reactor should know: it may sleep.
    pub(crate) fn raise_alarm(&self) {
        self.alarm.store(true, Ordering::Release);
    }

    /// True once after an alarm.
    pub(crate) fn take_alarm(&self) -> bool {
        self.alarm.load(Ordering::Acquire) && self.alarm.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn has_changes(&self) -> bool {
        self.changes.load(Ordering::Acquire) > 0
    }

    /// The consistency point that makes everything done so far durable.
    pub(crate) fn covering(&self) -> CpNumber {
        // Outside any affinity: a freeze may happen in between. Looked at in the order opposite to
        // that of the freeze, so that then one consistency point too many is waited for, never one
        // too few.
        let has_changes = self.has_changes();
        let joining = self.joining();
        if has_changes {
            joining
        } else {
            CpNumber(joining.0 - 1)
        }
    }

    pub(crate) fn state(&self) -> State {
        self.standing.state()
    }

    pub(crate) fn is_online(&self) -> bool {
        self.standing.is_online()
    }

    /// True if no write of the aggregate will happen any more ([`crate::pool::standing`]).
    pub(crate) fn is_halted(&self) -> bool {
        self.standing.is_halted()
    }

    /// Halts the aggregate: no change can be made durable any more.
    pub(crate) fn halt(&self, reason: String) {
        self.standing
            .halt(self.with_cause(reason), self.stop_requested());
    }

    /// It is opened to be read only. Before it is mounted.
    pub(crate) fn begin_for_reading(&mut self) {
        self.is_for_reading = true;
        self.standing.halt(FOR_READING.to_owned(), false);
    }

    /// Makes the aggregate unusable.
    pub(crate) fn fail(&self, reason: String) {
        self.standing.fail(self.with_cause(reason));
    }

    /// Adds a lost segment file to the reason why it cannot go on: most likely the cause.
    fn with_cause(&self, reason: String) -> String {
        match self.lost_segments.first() {
            Some(fault) => format!("{reason}; {}", segments::words(fault)),
            None => reason,
        }
    }

    /// True if it will not do anything more for a stop.
    pub(crate) fn is_at_rest(&self) -> bool {
        match self.state() {
            State::Stopped | State::Failed(_) => true,
            State::ReadOnly(_) => self.stop_requested(),
            State::Mounting | State::Online | State::Stopping => false,
        }
    }

    pub(crate) fn request_stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(crate) fn stop_requested(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn is_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::Acquire)
    }

    pub(crate) fn set_forgotten(&self) {
        self.forgotten.store(true, Ordering::Release);
    }

    pub(crate) fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.volumes.read().get(name).cloned()
    }

    /// All volumes that clients find.
    pub(crate) fn all_volumes(&self) -> Vec<Arc<Volume>> {
        self.volumes.read().values().cloned().collect()
    }

    /// These, and those in the trash.
    pub(crate) fn kept_volumes(&self) -> Vec<Arc<Volume>> {
        let mut volumes = self.all_volumes();
        volumes.extend(self.trash.read().values().cloned());
        volumes
    }

    /// Clears the lists of volumes, and of what they have. These objects refer to each other, so
    /// they would otherwise never be freed.
    pub(crate) fn dissolve(&self) {
        for volume in self.kept_volumes() {
            volume.luns.write().clear();
            volume.trash.write().clear();
            volume.images_mut().clear();
            volume.trashed_snapshots.write().clear();
        }
        self.volumes.write().clear();
        self.trash.write().clear();
    }
}
