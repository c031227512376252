//! State that all reactors share: the list of aggregates, the page cache, the affinity tree,
//! mailboxes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everglade_affinity::{Affinities, Permit};
use everglade_env::lock::{Mutex, RwLock};
use everglade_env::{BLOCK_SIZE, DeviceId, Nanos, SegmentFault, Storage};
use everglade_format::Seat;
use everglade_pagecache::PageCache;

use crate::admin::removal;
use crate::background::split;
use crate::cp::freeze::RECLAIM_REGIONS;
use crate::media::Media;
use crate::media::copies::{CopiesInfo, DriveFaults};
use crate::media::devices::StripesInfo;
use crate::media::next::NextGeometry;
use crate::mount::copies::{self, LostCopy};
use crate::mount::grow_error::GrowError;
use crate::mount::growth;
use crate::mount::labels::{self};
use crate::mount::members::Missing;
use crate::mount::mounting::Mounting;
use crate::mount::records::Records;
use crate::mount::refusal::Refusal;
use crate::mount::replacement;
use crate::mount::wanted::{Growth, GrowthInfo};
use crate::pool::aggregate::{Aggregate, State};
use crate::pool::cpu::{CpuTimes, Subsystem};
use crate::pool::garden::GardenInfo;
use crate::pool::info::SnapshotInfo;
use crate::pool::limit::{LimitInfo, LimitSettings, Limits};
use crate::pool::log::{JournalInfo, Log, RecoveryInfo};
use crate::pool::lost::LostInfo;
use crate::pool::mended::MendedInfo;
use crate::pool::present;
use crate::pool::refused::RefusedInfo;
use crate::pool::removal::{RemovalInfo, RemovalPlan};
use crate::pool::scrub::ScrubInfo;
use crate::pool::shares::{Lane, Turn, Waits};
use crate::pool::space::Usage;
use crate::pool::trash::{self, PurgedInfo, TrashInfo};
use crate::pool::trigger::CpCounts;
use crate::pool::volume::Volume;
use crate::pool::volume_info::{VolumeId, VolumeInfo};
use crate::tree::notes::Unreadable;
use crate::{change, snapshot};

/// Settings of the engine.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of reactors.
    pub reactors: usize,
    /// Memory for everything, bytes (docs/reference/conventions.md#defaults: at least 256 MiB; less
    /// only in tests).
    pub memory_bytes: u64,
    /// Longest time between consistency points while there are changes, nanoseconds.
    pub cp_interval: Nanos,
    /// Level-1 blocks of deleted files, or as many blocks released by scans, that one consistency
    /// point frees, and blocks that a repair reads in it. With fewer than usual they are seen in
    /// the middle.
    pub reclaim_regions: u64,
    /// Scan each new snapshot's map in the background (F-06 … F-08) instead of folding a block of
    /// the map when it is first changed. For benchmarks that show what the scan would cost: both
    /// are right, and media may have been used with either.
    pub create_scan: bool,
    /// A parity group that has no free area empties its emptiest one before writing there.
    pub cleans_on_demand: bool,
    /// What clients read in order, and does not lie in order, is put in order (H-16).
    pub writes_after_read: bool,
    /// A LUN that is put in order gets blocks of its own, which snapshots and clones do not share
    /// (H-14). For comparison.
    pub moves_unshare: bool,
    /// LUNs of which one step of cleaning takes changed regions, at least one (D-23). With one,
    /// each LUN is cleaned by itself, for comparison.
    pub luns_together: usize,
    /// Blocks that cleaning replaces in a volume before the maps learn about them, at least one
    /// (D-10). With one, each step of cleaning changes the maps at once, for comparison.
    pub stage_blocks: usize,
    /// While operations of an aggregate wait for their shares, at most this number of others is
    /// under way, if the aggregate has up to four devices. One of eight devices has twice as many.
    pub share_depth: usize,
    /// An operation on a drive that takes longer costs the drive its place, if another drive has
    /// its blocks; nanoseconds.
    pub drive_timeout: Nanos,
}

/// The usual [`Options::drive_timeout`]: kernels try for about as long.
pub const DRIVE_TIMEOUT: Nanos = 30_000_000_000;

/// The usual [`Options::share_depth`]: enough for a few drives, and few enough that a client with
/// the usual queue of 32 has some that wait beside another one.
pub const SHARE_DEPTH: usize = 32;

/// The usual [`Options::luns_together`]: as many as a step has regions.
pub const LUNS_TOGETHER: usize = 32;

/// The usual [`Options::stage_blocks`]: what replaces 256 MiB, in half a mebibyte.
pub const STAGE_BLOCKS: usize = 65_536;

impl Default for Options {
    fn default() -> Self {
        Options {
            reactors: 1,
            memory_bytes: 1 << 30,
            cp_interval: 10_000_000_000,
            reclaim_regions: RECLAIM_REGIONS,
            create_scan: false,
            cleans_on_demand: false,
            writes_after_read: false,
            moves_unshare: false,
            luns_together: LUNS_TOGETHER,
            stage_blocks: STAGE_BLOCKS,
            share_depth: SHARE_DEPTH,
            drive_timeout: DRIVE_TIMEOUT,
        }
    }
}

/// Messages between reactors.
pub(crate) enum Message {
    /// An operation may run, inside the permit.
    Granted(u64, Permit),
    /// An operation waited for an affinity that is gone.
    Stranded(u64),
    /// To all reactors: operations that wait for this aggregate's journal should run again.
    Logged(u32),
    /// To all reactors: an aggregate committed, failed, or got space, so its waiters should run
    /// again.
    Progress(u32),
    /// To the home reactor: mount an aggregate.
    Mount(Box<Mounting>),
    /// To the home reactor: forget a deleted aggregate.
    Forget(u32),
    /// To the home reactor: execute a change.
    Change(u32, change::Request),
    /// To the reactor that has it: the turn of an operation has come in this lane of an aggregate.
    Turn(u32, Lane, Turn),
    /// To the requester: a change was executed at this time and is durable, or was refused.
    Changed(u64, Result<Nanos, change::Error>),
}

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) affinities: Affinities<u64>,
    pub(crate) cache: PageCache,
    pub(crate) aggregates: RwLock<Vec<Arc<Aggregate>>>,
    /// An aggregate with groups of drives was opened.
    pub(crate) has_groups: AtomicBool,
    /// Serialises the opening of aggregates.
    pub(crate) opening: Mutex<()>,
    pub(crate) mailboxes: Vec<Mutex<VecDeque<Message>>>,
    /// CPU time of each reactor.
    pub(crate) cpu: Vec<CpuTimes>,
    pub(crate) volume_names: Mutex<BTreeMap<String, u32>>,
    pub(crate) next_handle: AtomicU64,
    /// Limits of LUNs and volumes.
    pub(crate) limits: Limits,
}

/// The engine. Clones share it.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Shared>);

/// An aggregate, for people.
#[derive(Clone, Debug)]
pub struct AggregateInfo {
    /// Its number in this process.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Its membership epoch.
    pub epoch: u64,
    /// State of the aggregate.
    pub state: State,
    /// It was opened to be read only ([`crate::Opening::is_for_reading`]).
    pub is_for_reading: bool,
    /// The last committed consistency point.
    pub committed_cp: u64,
    /// The one it was opened with, before its journal was replayed.
    pub opened_cp: u64,
    /// Blocks of an allocation area of a device.
    pub area_blocks: u64,
    /// Space.
    pub usage: Usage,
    /// Consistency points since start.
    pub cp_counts: CpCounts,
    /// Its journal, if it has one.
    pub journal: Option<JournalInfo>,
    /// Blocks that could not be read.
    pub lost: LostInfo,
    /// Blocks that could not be read and were derived again.
    pub mended: MendedInfo,
    /// Requests of clients that found no space, by LUN.
    pub refused: BTreeMap<String, RefusedInfo>,
    /// Blocks that were not where a pointer says, and were found by way of a container, since it
    /// was opened.
    pub stale_reads: u64,
    /// Result of the journal's replay when the aggregate was opened.
    pub recovery: Option<RecoveryInfo>,
    /// Devices that are there, in the order of the label's table.
    pub devices: Vec<DeviceId>,
    /// Members, in the order of the label's table.
    pub members: Vec<MemberInfo>,
    /// Reads of other copies.
    pub copies: CopiesInfo,
    /// Writes of parity groups.
    pub stripes: StripesInfo,
    /// The scrub that is under way, or the last one.
    pub scrub: ScrubInfo,
    /// What its gardener does.
    pub garden: GardenInfo,
    /// Members that leave it, if any do.
    pub removal: Option<RemovalInfo>,
    /// Devices of members that were removed, and that may still have labels: see
    /// [`Engine::forget_former`].
    pub former: Vec<DeviceId>,
    /// What left its trash because space was short.
    pub purged: PurgedInfo,
}

impl AggregateInfo {
    /// True if its drives are in mirrors or parity groups.
    #[must_use]
    pub fn has_groups(&self) -> bool {
        self.members.iter().any(|member| member.seat.group != 0)
    }
}

/// A member of an aggregate, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Its device, if that is there.
    pub device: Option<DeviceId>,
    /// Its name for ever.
    pub uuid: [u8; 16],
    /// Its part in a group of drives, as the config record says.
    pub seat: Seat,
    /// True if it is read and written.
    pub is_used: bool,
    /// Its faults since the aggregate was opened, or since it came. Counted in mirrors only.
    pub faults: DriveFaults,
}

fn members_of(media: &Media) -> Vec<MemberInfo> {
    let layout = media.layout();
    let faults = |device| media.copies.faults_of(device);
    let seats = layout.seats();
    let info = seats.map(|(member, device, is_used)| MemberInfo {
        device,
        uuid: member.uuid,
        seat: member.seat,
        is_used,
        faults: device.map(faults).unwrap_or_default(),
    });
    info.collect()
}

/// The aggregate that devices have, as their labels say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// The membership epoch.
    pub epoch: u64,
    /// The consistency point that it would be opened with.
    pub cp: u64,
    /// Its devices.
    pub members: usize,
    /// Those of them that are not there.
    pub missing: usize,
}

/// A LUN, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LunInfo {
    /// `volume/lun`.
    pub name: String,
    /// What hosts know it by ([`everglade_target::Export::uuid`]).
    pub uuid: [u8; 16],
    /// The volume it is in.
    pub volume: VolumeId,
    /// Bytes.
    pub size_bytes: u64,
    /// Blocks of its tree, data and metadata, as of the last consistency point.
    pub used_blocks: u64,
}

impl Engine {
    /// An engine without aggregates.
    #[must_use]
    pub fn new(options: Options) -> Engine {
        assert!(
            options.reactors > 0,
            "an engine runs on at least one reactor"
        );
        let cache_pages = cache_memory(options.memory_bytes, 0) / BLOCK_SIZE as u64;
        Engine(Arc::new(Shared {
            affinities: Affinities::new(options.reactors),
            cache: PageCache::new(
                usize::try_from(cache_pages).expect("memory fits the address space"),
            ),
            aggregates: RwLock::default(),
            has_groups: AtomicBool::new(false),
            opening: Mutex::default(),
            mailboxes: (0..options.reactors).map(|_| Mutex::default()).collect(),
            cpu: (0..options.reactors).map(|_| CpuTimes::default()).collect(),
            volume_names: Mutex::default(),
            next_handle: AtomicU64::new(1),
            limits: Limits::default(),
            options,
        }))
    }

    /// Returns the CPU time of each reactor since its start by subsystem, in the order of
    /// [`Subsystem::ALL`].
    #[must_use]
    pub fn cpu_times(&self) -> Vec<[Nanos; Subsystem::ALL.len()]> {
        self.0.cpu.iter().map(CpuTimes::read).collect()
    }

    /// Reads which aggregate these devices have, without opening it.
    ///
    /// # Errors
    /// The refusal that [`Engine::open`] would give.
    pub fn examine(storage: &dyn Storage, devices: &[DeviceId]) -> Result<Found, Refusal> {
        let labels = labels::read(storage, devices, &[], None, Missing::IfSafe)?;
        let (config, superblock) = (labels.config, labels.superblock);
        let members = config.members.iter().zip(&labels.devices);
        let staying = members.filter(|(member, _)| !member.seat.is_removed());
        let staying: Vec<bool> = staying.map(|(_, device)| device.is_some()).collect();
        Ok(Found {
            members: staying.len(),
            missing: staying.iter().filter(|is_there| !**is_there).count(),
            name: superblock.name.unwrap_or(config.name),
            uuid: config.uuid,
            epoch: config.epoch,
            cp: superblock.cp.0,
        })
    }

    /// Reads which aggregate one device belongs to: its UUID and its name in the label. Nothing if
    /// it has no whole label, or cannot be read.
    #[must_use]
    pub fn identify(storage: &dyn Storage, device: DeviceId) -> Option<([u8; 16], String)> {
        let records = Records::read(storage, device).ok()?.records;
        let newest = records.into_iter().max_by_key(|config| config.epoch)?;
        Some((newest.uuid, newest.name))
    }

    /// Returns the segment files that were lost when the aggregate was opened. Nothing is written
    /// there for as long as it is open.
    ///
    /// # Panics
    /// If there never was one of this number.
    #[must_use]
    pub fn lost_segments(&self, id: u32) -> Vec<SegmentFault> {
        self.0.aggregate(id).lost_segments.clone()
    }

    /// Returns the segment files that were lost on drives which the aggregate was opened without.
    ///
    /// # Panics
    /// If there never was one of this number.
    #[must_use]
    pub fn spared_segments(&self, id: u32) -> Vec<SegmentFault> {
        self.0.aggregate(id).spared_segments.clone()
    }

    /// Rewrites lost copies of an aggregate's labels; returns the lost copies, and those that could
    /// not be written. Called after the aggregate is online. Blocks the caller.
    pub fn mend_labels(&self, storage: &dyn Storage, id: u32) -> Vec<LostCopy> {
        let aggregate = self.0.aggregate(id);
        if aggregate.is_for_reading {
            return Vec::new();
        }
        let media = &aggregate.media;
        // Whoever changes the devices writes all labels.
        let Some(_turn) = media.begin_change() else {
            return Vec::new();
        };
        let layout = media.layout();
        // The consistency point under way writes a record to all labels.
        if layout.is_grown() {
            return Vec::new();
        }
        copies::mend(storage, &layout)
    }

    /// Forgets a device whose member was removed. It may be closed then, and still has a label.
    ///
    /// # Panics
    /// If there never was an aggregate of this number.
    pub fn forget_former(&self, id: u32, device: DeviceId) {
        self.0.aggregate(id).forget_former(device);
    }

    /// Says what the removal of a member would leave. Changes nothing.
    ///
    /// # Errors
    /// Why the member cannot be removed.
    ///
    /// # Panics
    /// If there never was an aggregate of this number.
    pub fn examine_removal(&self, id: u32, member: u32) -> Result<RemovalPlan, change::Error> {
        removal::examine(&self.0.aggregate(id), member)
    }

    /// Says what a growth would give. Writes nothing.
    ///
    /// # Errors
    /// Why the aggregate cannot grow like this.
    pub fn examine_growth(
        &self,
        storage: &dyn Storage,
        id: u32,
        growth: &Growth,
    ) -> Result<GrowthInfo, GrowError> {
        growth::examine(storage, &self.0.aggregate(id), growth)
    }

    /// Writes the config records of an aggregate that grows to all its devices, old and new. The
    /// result goes into [`change::Change::Grow`], which makes the growth take effect. Blocks the
    /// caller.
    ///
    /// # Errors
    /// Why the aggregate cannot grow like this, or could not be written.
    pub fn prepare_growth(
        &self,
        storage: &dyn Storage,
        id: u32,
        growth: &Growth,
    ) -> Result<NextGeometry, GrowError> {
        growth::prepare(storage, &self.0.aggregate(id), growth)
    }

    /// Fills the labels and the journal of a drive that is to get the seat of a member with zeroes,
    /// and reads them back, while the old drive is still in use. Blocks the caller.
    ///
    /// # Errors
    /// Why the drive cannot have the seat, or could not be written.
    pub fn make_ready(
        &self,
        storage: &dyn Storage,
        id: u32,
        member: u32,
        device: DeviceId,
    ) -> Result<(), GrowError> {
        let layout = self.0.aggregate(id).media.layout();
        replacement::make_ready(storage, &layout, member, device)
    }

    /// Erases what [`Engine::prepare_growth`] wrote, after the change was refused or could not be
    /// asked for. Blocks the caller. Does nothing if the change took effect.
    pub fn abandon_growth(&self, storage: &dyn Storage, id: u32, next: NextGeometry) {
        growth::abandon(storage, &self.0.aggregate(id), &next);
    }

    /// Asks every aggregate to stop after one more consistency point. Reactors must be woken.
    pub fn request_stop(&self) {
        for aggregate in self.0.all() {
            aggregate.request_stop();
        }
    }

    /// Asks one aggregate to stop after one more consistency point. Reactors must be woken; watch
    /// [`Engine::aggregates`] for the end.
    ///
    /// # Panics
    /// If there never was one of this number.
    pub fn request_stop_of(&self, id: u32) {
        self.0.aggregate(id).request_stop();
    }

    /// Pauses gardening in an aggregate, or lets it go on: whatever moves blocks, but for clients
    /// that need an area. Returns true if that is a change; then reactors must be woken.
    ///
    /// # Panics
    /// If there never was one of this number.
    pub fn pause_garden(&self, id: u32, is_paused: bool) -> bool {
        self.0.aggregate(id).pause_garden(is_paused)
    }

    /// Removes an aggregate that has stopped or failed, because it is deleted: lists leave it out,
    /// the names of its volumes are free, and its memory is freed when none of its work is under
    /// way. Its devices may be closed then and later. Reactors must be woken.
    ///
    /// # Panics
    /// If it could still do something.
    pub fn forget(&self, id: u32) {
        let aggregate = self.0.aggregate(id);
        assert!(
            aggregate.is_at_rest(),
            "an aggregate is forgotten after its end"
        );
        aggregate.set_forgotten();
        let mut names = self.0.volume_names.lock();
        names.retain(|_, holder| *holder != id);
        for lun in aggregate.kept_volumes().iter().flat_map(|v| v.kept_luns()) {
            lun.set_gone();
        }
        aggregate.dissolve();
        let aggregates = self.0.aggregates.read();
        share_dirty_memory(&self.0.options, &aggregates);
        drop(aggregates);
        self.0.post(aggregate.home, Message::Forget(id));
    }

    /// True if no aggregate will do anything more.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.all().iter().all(|known| known.is_at_rest())
    }

    /// Returns all aggregates.
    #[must_use]
    pub fn aggregates(&self) -> Vec<AggregateInfo> {
        let info = |aggregate: &Arc<Aggregate>| AggregateInfo {
            id: aggregate.id,
            name: aggregate.name.to_string(),
            uuid: aggregate.uuid,
            epoch: aggregate.media.epoch(),
            state: aggregate.state(),
            committed_cp: aggregate.committed().0,
            opened_cp: aggregate.opened.0,
            area_blocks: aggregate.media.layout().config.area_blocks,
            usage: aggregate.space.usage(),
            cp_counts: aggregate.counts.read(),
            journal: aggregate.log.as_ref().map(Log::info),
            lost: aggregate.lost.info(),
            mended: aggregate.mended.info(),
            refused: aggregate.refused.info(),
            stale_reads: aggregate.redirects.count(),
            recovery: aggregate.recovery(),
            devices: aggregate.media.layout().devices().collect(),
            members: members_of(&aggregate.media),
            copies: aggregate.media.copies.info(),
            stripes: aggregate.media.stripes.info(),
            scrub: aggregate.scrub(),
            garden: aggregate.garden(),
            removal: aggregate.removal(),
            former: aggregate.former(),
            purged: aggregate.purged.info(),
            is_for_reading: aggregate.is_for_reading,
        };
        let all = self.0.all();
        let listed = all.iter().filter(|aggregate| !aggregate.is_forgotten());
        listed.map(info).collect()
    }

    /// Numbers of the aggregates that serve, the oldest first.
    #[must_use]
    pub fn online(&self) -> Vec<u32> {
        let all = self.0.all();
        let serving = all.iter().filter(|known| known.is_online());
        let serving = serving.filter(|known| !known.is_forgotten());
        serving.map(|known| known.id).collect()
    }

    /// The number of the aggregate that has a volume.
    #[must_use]
    pub fn home_of(&self, volume: &str) -> Option<u32> {
        let names = &self.0.volume_names;
        names.lock().get(volume).copied()
    }

    /// Returns the UUID of a volume that clients can see, by its name. No host knows it.
    #[must_use]
    pub fn volume_uuid(&self, name: &str) -> Option<[u8; 16]> {
        let aggregate = self.0.aggregate(self.home_of(name)?);
        let volumes = aggregate.volumes.read();
        volumes.get(name).map(|volume| volume.uuid())
    }

    /// Returns the UUIDs of the volumes that clients can see, with their names.
    #[must_use]
    pub fn volume_uuids(&self) -> BTreeMap<[u8; 16], String> {
        let mut uuids = BTreeMap::new();
        for aggregate in self.0.all().iter() {
            let volumes = aggregate.volumes.read();
            let named = volumes.iter();
            uuids.extend(named.map(|(name, volume)| (volume.uuid(), name.clone())));
        }
        uuids
    }

    /// The identity of a volume that clients can see, by its name.
    #[must_use]
    pub fn volume_id(&self, name: &str) -> Option<VolumeId> {
        let aggregate = self.0.aggregate(self.home_of(name)?);
        let volumes = aggregate.volumes.read();
        volumes.get(name).map(|volume| VolumeId::of(volume))
    }

    /// Returns a volume's present name, if the volume still exists.
    #[must_use]
    pub fn volume_name(&self, id: VolumeId) -> Option<String> {
        let aggregate = self.0.all().get(id.aggregate as usize)?.clone();
        let volumes = aggregate.volumes.read();
        let found = volumes.values().find(|volume| volume.id.0 == id.volume);
        found.map(|volume| volume.name.to_string())
    }

    /// The reactor on which an aggregate's consistency points run, and which takes changes of it
    /// without passing them on.
    #[must_use]
    pub fn home_reactor(&self, aggregate: u32) -> usize {
        let all = self.0.all();
        all.get(aggregate as usize).map_or(0, |known| known.home)
    }

    /// The reactor on which the consistency points of an export's aggregate run, if there is such a
    /// volume.
    #[must_use]
    pub fn home_reactor_of(&self, export: &str) -> Option<usize> {
        let (volume, _) = export.split_once('/')?;
        let id = self.home_of(volume)?;
        Some(self.0.aggregate(id).home)
    }

    /// Returns an aggregate's notes of administrators' programs
    /// ([`crate::change::Change::SetNotes`]); empty before the aggregate is open.
    ///
    /// # Errors
    /// Why they cannot be read, in one line. An aggregate that does not exist counts as one that
    /// does not answer.
    pub fn notes(&self, aggregate: u32) -> Result<Arc<[u8]>, Unreadable> {
        let all = self.0.all();
        let found = all.iter().find(|known| known.id == aggregate);
        let found = found.filter(|known| !known.is_forgotten());
        let gone = || Unreadable::Unanswered("the aggregate is gone".to_owned());
        found.ok_or_else(gone)?.notes()
    }

    /// Returns the number of aggregates at home on each reactor: their consistency points run
    /// there.
    #[must_use]
    pub fn homes(&self) -> Vec<usize> {
        let mut homes = vec![0; self.0.options.reactors];
        let all = self.0.all();
        for aggregate in all.iter().filter(|aggregate| !aggregate.is_forgotten()) {
            homes[aggregate.home] += 1;
        }
        homes
    }

    /// Returns those snapshots of a volume that clients can name, in the order of their numbers;
    /// none if there is no such volume.
    #[must_use]
    pub fn snapshots(&self, volume: &str) -> Vec<SnapshotInfo> {
        let known = self.0.volume(volume);
        known.map_or_else(Vec::new, |volume| present::all(&volume))
    }

    /// Returns one snapshot.
    #[must_use]
    pub fn snapshot(&self, volume: &str, name: &str) -> Option<SnapshotInfo> {
        present::one(&*self.0.volume(volume)?, name)
    }

    /// Checks whether a LUN could be restored from a snapshot now, as
    /// [`change::Change::RestoreLun`] does.
    ///
    /// # Errors
    /// The error of such a restore.
    pub fn check_restore_lun(
        &self,
        volume: &str,
        snapshot: &str,
        lun: &str,
    ) -> Result<(), change::Error> {
        let aggregates = self.0.all();
        let mut found = aggregates.iter().filter_map(|known| known.volume(volume));
        let missing = || change::Error::NotFound(format!("volume {volume}"));
        let found = found.next().ok_or_else(missing)?;
        snapshot::lun::source(&found, snapshot, lun).map(drop)
    }

    /// Returns all volumes, by name.
    #[must_use]
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        let mut volumes: Vec<VolumeInfo> = Vec::new();
        for aggregate in self.0.all() {
            let known = aggregate.kept_volumes();
            volumes.extend(aggregate.all_volumes().iter().map(|volume| {
                let split = split::as_of_now(volume.split(), &aggregate);
                VolumeInfo::of(volume, &known, split)
            }));
        }
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        volumes
    }

    /// Returns what is in the trash, the oldest first.
    #[must_use]
    pub fn trash(&self) -> Vec<TrashInfo> {
        let all = self.0.all();
        let listed = all.iter().filter(|aggregate| !aggregate.is_forgotten());
        let mut trash: Vec<TrashInfo> = listed.flat_map(|it| trash::of(it)).collect();
        trash.sort_by_key(TrashInfo::order);
        trash
    }

    /// Returns all LUNs, by name.
    #[must_use]
    pub fn luns(&self) -> Vec<LunInfo> {
        let mut luns: Vec<LunInfo> = Vec::new();
        for volume in self
            .0
            .all()
            .iter()
            .flat_map(|aggregate| aggregate.all_volumes())
        {
            let info = |lun: &crate::pool::volume::Lun| LunInfo {
                name: lun.full_name(),
                uuid: lun.uuid(),
                volume: VolumeId::of(&lun.volume),
                size_bytes: lun.size_bytes(),
                used_blocks: lun.used_blocks(),
            };
            luns.extend(volume.all_luns().iter().map(|lun| info(lun)));
        }
        luns.sort_by(|a, b| a.name.cmp(&b.name));
        luns
    }

    /// Drops all objects, for a process that outlives its engines: volumes, LUNs and aggregates
    /// refer to each other. The engine's reactors must have ended.
    pub fn dissolve(&self) {
        self.0.all().iter().for_each(|known| known.dissolve());
    }

    /// Operations that had to wait for the stripe they are in, instead of running at once where
    /// they arrived.
    #[must_use]
    pub fn queued_operations(&self) -> u64 {
        self.0.affinities.counts()[everglade_affinity::Class::Stripe as usize].queued
    }

    /// Sets the limit of a LUN or a volume, which all its clients share, or removes it: then all
    /// fields are 0. `of` is its UUID ([`everglade_target::Export::lun_uuid`],
    /// [`Engine::volume_uuids`]); it need not be there yet. Reactors that sleep take note when
    /// they are woken.
    pub fn set_limit(&self, of: [u8; 16], settings: LimitSettings) {
        self.0.limits.set(of, settings);
    }

    /// Returns how long operations of each LUN waited for their share of a busy aggregate, by the
    /// UUIDs of the LUNs, since the aggregate came online.
    #[must_use]
    pub fn waits(&self) -> BTreeMap<[u8; 16], Waits> {
        let mut all = BTreeMap::new();
        for aggregate in self.0.all().iter() {
            aggregate.shares.add_waits(&mut all);
        }
        all
    }

    /// Returns the limits by the UUIDs of what has them, and what they have done.
    #[must_use]
    pub fn limits(&self) -> BTreeMap<[u8; 16], LimitInfo> {
        self.0.limits.all()
    }

    /// Lifts all limits until the end, so that a stop does not wait for operations that are held.
    pub fn lift_limits(&self) {
        self.0.limits.lift();
    }

    /// Look-ups in the page cache that found a page, and those that did not.
    #[must_use]
    pub fn cache_counts(&self) -> (u64, u64) {
        self.0.cache.counts()
    }
}

/// Aggregates share the memory that may be dirty.
pub(crate) fn share_dirty_memory(options: &Options, aggregates: &[Arc<Aggregate>]) {
    let live = || aggregates.iter().filter(|known| !known.is_forgotten());
    let pages = dirty_memory(options.memory_bytes) / BLOCK_SIZE as u64;
    let share = pages / live().count().max(1) as u64;
    for known in live() {
        known.space.set_dirty_memory(share);
        if let Some(log) = &known.log {
            log.set_dirty_memory(share);
        }
    }
}

/// Returns the bytes that may be dirty: a quarter of the memory (docs/design/design.md §12), or
/// half of what is above 128 MiB up to 448 MiB, whichever is more. The more changes a consistency
/// point has, the more of them share a level-1 block; with 448 MiB random overwrites of 16 GiB
/// write one such block for two blocks of data instead of one for one, and more than that saves
/// little.
fn dirty_memory(memory: u64) -> u64 {
    let half = (memory / 2).saturating_sub(64 << 20);
    half.min(448 << 20).max(memory / 4)
}

/// Returns the bytes that may be cached while `dirty` bytes wait for consistency points and the
/// journal: half of the memory, or the rest of it if that is less. An eighth is for the network, a
/// sixteenth for pinned metadata and read-ahead, and a sixteenth for memory outside pages: tables,
/// queues, pages that the allocator holds (docs/design/design.md §12). Dirty pages go into the
/// cache when they are clean, so the cache shrinks while most pages are dirty, and has its half
/// again afterwards.
fn cache_memory(memory: u64, dirty: u64) -> u64 {
    let left = (memory - memory / 4).saturating_sub(dirty);
    left.min(memory / 2).max(memory / 8)
}

impl Shared {
    /// Gives the cache the memory that dirty pages leave.
    pub(crate) fn share_with_cache(&self) {
        let aggregates = self.aggregates.read();
        let aggregates = aggregates;
        let dirty = aggregates.iter().map(|known| {
            let dirty = u64::try_from(known.space.dirty()).unwrap_or(0);
            known
                .log
                .as_ref()
                .map_or(dirty, |log| log.pages_with(dirty))
        });
        let dirty = dirty.sum::<u64>() * BLOCK_SIZE as u64;
        let pages = cache_memory(self.options.memory_bytes, dirty) / BLOCK_SIZE as u64;
        let pages = usize::try_from(pages).expect("memory fits the address space");
        self.cache.set_capacity(pages);
    }

    /// A volume of any aggregate.
    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        let all = self.all();
        all.iter().find_map(|aggregate| aggregate.volume(name))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Aggregate>> {
        self.aggregates.read().clone()
    }

    pub(crate) fn aggregate(&self, id: u32) -> Arc<Aggregate> {
        self.aggregates.read()[id as usize].clone()
    }

    pub(crate) fn post(&self, reactor: usize, message: Message) {
        self.mailboxes[reactor].lock().push_back(message);
    }

    pub(crate) fn new_handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_a_quarter_and_nearly_half_of_the_memory_may_be_dirty() {
        let mib = |mib: u64| mib << 20;
        let of = |memory| dirty_memory(mib(memory)) >> 20;
        assert_eq!([of(16), of(256)], [4, 64], "a quarter of little");
        assert_eq!([of(512), of(1024), of(1792)], [192, 448, 448]);
        assert_eq!(of(8192), 2048, "a quarter of much");
    }
}
