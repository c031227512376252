//! The inventory of all objects, for administrators. It is read-only, and needs no message to the
//! data plane.
//!
//! The numbers of an aggregate are those of its last consistency point, and of counters that change
//! while they are read. They are nearly exact, and cheap enough to be read every second.

use std::collections::BTreeMap;

use everglade_api::{
    Aggregate, AggregateState, AggregateSummary, Aggregates, CatchingUp, Code, Condition,
    ConsistencyPoints, Damage, Device, DeviceKind, Health, Journal, Lun, Luns, Problem, Recovery,
    Size, Status, Sync, Version, Volume, Volumes, counted,
};
use everglade_engine::{
    AggregateInfo, Cleaned, JournalInfo, LunInfo, PhaseTimes, RecoveryInfo, State, TrashInfo,
    VolumeInfo,
};
use everglade_env::{DeviceFiles, DeviceId, TrafficInfo};
use everglade_format::volume::Sync as MediaSync;

use super::administrator::{Administrator, split};
use super::drives;
use super::unavailable::Unavailable;
use super::units::bytes;
use crate::datadir::{Uuid, format_file};
use crate::fronts::Counts;
use crate::records::course::percent;

/// Snapshots that are named when space is short.
const LARGEST_SNAPSHOTS: usize = 3;

/// See [`Administrator::engine_counts`].
pub struct EngineCounts {
    /// Volumes, with the bytes that clients read and wrote.
    pub volumes: Vec<VolumeInfo>,
    /// Path of each device, and the number of operations that failed, for each cause.
    pub device_errors: Vec<(String, [(&'static str, u64); 3])>,
    /// Reads, writes and flushes of each device, by its path.
    pub device_traffic: Vec<(String, [TrafficInfo; 3])>,
    /// Durations of the phases of consistency points, by aggregate.
    pub phases: Vec<(String, Vec<(&'static str, PhaseTimes)>)>,
    /// What cleaning did in each aggregate.
    pub cleaned: Vec<(String, Cleaned)>,
    /// Blocks that consistency points of each aggregate wrote and read, by what they are.
    pub cp_blocks: Vec<(String, Vec<(&'static str, u64)>)>,
    /// Nanoseconds that the consistency points of each aggregate waited, by reason.
    pub waits: Vec<(String, Vec<(&'static str, u64)>)>,
    /// Operations that did not run at once.
    pub queued_operations: u64,
    /// Connections of each reactor, and aggregates at home there.
    pub reactors: Vec<(u32, usize)>,
    /// Connections that went to another reactor.
    pub connections_moved: u64,
    /// Blocks that were not where a pointer says: volumes were split, or blocks were moved.
    pub stale_reads: u64,
    /// What was moved in each aggregate.
    pub gardens: Vec<(String, Gardened)>,
}

/// What was moved in an aggregate since it was opened.
#[derive(Clone, Copy, Debug)]
pub struct Gardened {
    /// Bytes of blocks that were moved.
    pub moved_bytes: u64,
    /// Areas that were emptied.
    pub cleaned_areas: u64,
    /// Bytes of LUNs that wait to be put in order after they were read.
    pub waiting_bytes: u64,
    /// Bytes of blocks that were moved because of that.
    pub after_read_bytes: u64,
    /// Bytes in use on devices that are being removed; none if none are, or that is not known yet.
    pub leaving_bytes: Option<u64>,
    /// Objects that left the trash because space was short.
    pub purged: u64,
}

fn gardened(info: &AggregateInfo) -> Gardened {
    Gardened {
        moved_bytes: bytes(info.garden.moved_blocks),
        cleaned_areas: info.garden.cleaned_areas,
        waiting_bytes: bytes(info.garden.after_read.waiting_blocks),
        after_read_bytes: bytes(info.garden.after_read.moved_blocks),
        leaving_bytes: info
            .removal
            .as_ref()
            .filter(|removal| removal.is_surveyed)
            .map(|removal| bytes(removal.left_blocks)),
        purged: info.purged.count,
    }
}

/// See [`Administrator::descriptor_counts`].
#[derive(Clone, Copy, Debug)]
pub struct DescriptorCounts {
    /// Descriptors of all devices.
    pub devices: DeviceFiles,
    /// Connections of clients, open or on their way.
    pub connections: u32,
    /// Times that accepting them paused.
    pub pauses: u64,
}

impl Administrator {
    /// Returns all aggregates, in order of creation.
    #[must_use]
    pub fn aggregates(&self) -> Aggregates {
        let (volumes, luns) = (self.engine.volumes(), self.engine.luns());
        let aggregates = self.engine.aggregates();
        let trash = self.engine.trash();
        let view = |info: &AggregateInfo| self.view_aggregate(info, &volumes, &luns, &trash);
        Aggregates {
            aggregates: aggregates
                .iter()
                .map(view)
                .chain(self.unavailable().iter().map(Unavailable::view))
                .collect(),
        }
    }

    /// Returns one aggregate.
    ///
    /// # Errors
    /// No aggregate has this name.
    pub fn aggregate(&self, name: &str) -> Result<Aggregate, Problem> {
        if let Some(known) = self.unavailable().iter().find(|known| known.name == name) {
            return Ok(known.view());
        }
        let info = self.find_aggregate(name);
        let info = info.ok_or_else(|| Problem::not_found("aggregate", name))?;
        let (volumes, luns) = (self.engine.volumes(), self.engine.luns());
        Ok(self.view_aggregate(&info, &volumes, &luns, &self.engine.trash()))
    }

    fn view_aggregate(
        &self,
        info: &AggregateInfo,
        volumes: &[VolumeInfo],
        luns: &[LunInfo],
        trash: &[TrashInfo],
    ) -> Aggregate {
        let usage = info.usage;
        let reason = info.state.reason().map(str::to_owned);
        let here = |volume: &&VolumeInfo| volume.aggregate == info.name;
        let volumes: Vec<_> = volumes.iter().filter(here).collect();
        let logical_bytes = luns
            .iter()
            .filter(|lun| {
                let volume = split(&lun.name).volume;
                volumes.iter().any(|known| known.name == volume.as_str())
            })
            .map(|lun| lun.size_bytes)
            .fold(0, u64::saturating_add);
        let alone = volumes.iter().map(|it| it.snapshot_exclusive_bytes);
        let snapshot_exclusive_bytes = alone.fold(0, u64::saturating_add);
        let damaged = info.lost.lines.iter();
        let mended = info.mended.blocks.iter();
        let mended = mended.map(|(file, blocks)| ((*file).to_owned(), *blocks));
        let devices = info.devices.iter();
        let host_free_bytes = devices
            .filter_map(|id| self.plane.world.host_free_bytes(*id))
            .min();
        Aggregate {
            name: info.name.clone(),
            uuid: Uuid(info.uuid).to_string(),
            state: self.state_of_aggregate(info),
            reason,
            imported_read_only: info.is_for_reading,
            raid: drives::raid(info).to_owned(),
            group_size: drives::group_size(info),
            size_bytes: bytes(usage.total_blocks),
            used_bytes: bytes(usage.used_blocks),
            free_bytes: bytes(free_blocks(info)),
            reserve_bytes: bytes(usage.reserve_blocks),
            pending_free_bytes: bytes(usage.pending_blocks),
            logical_bytes,
            area_bytes: bytes(info.area_blocks),
            shared_bytes: self.shared_bytes(&volumes),
            snapshot_exclusive_bytes,
            trash_bytes: trash_bytes(trash, info.id),
            dirty_bytes: bytes(usage.dirty_pages),
            host_backed_bytes: bytes(usage.backed_blocks),
            host_free_bytes,
            committed_cp: info.committed_cp,
            cp: Some(view_cp(info)),
            journal: info.journal.as_ref().map(view_journal),
            damage: Damage {
                lost_block_count: info.lost.lost,
                unreadable_block_count: info.lost.unreadable,
                lines: damaged.map(ToString::to_string).collect(),
                mended: mended.collect(),
                mended_lines: info.mended.lines.clone(),
                metadata_damaged_count: info.mended.beyond_repair.0,
                metadata_damaged: info.mended.beyond_repair.1.clone(),
            },
            copies: drives::copies(info),
            stripes: drives::stripes(info),
            recovery: info.recovery.as_ref().and_then(view_recovery),
            removal: info.removal.as_ref().map(|_| self.view_removal(info)),
            volume_count: volumes.len() as u64,
            devices: self.view_devices(info),
        }
    }

    /// Returns the bytes that clones among these volumes share with their parents.
    fn shared_bytes(&self, volumes: &[&VolumeInfo]) -> u64 {
        let clones = volumes.iter().filter(|volume| volume.base.is_some());
        let snapshots = clones.flat_map(|clone| self.engine.snapshots(&clone.name));
        let bases = snapshots.filter(|snapshot| snapshot.is_base);
        bases
            .map(|base| base.logical_bytes)
            .fold(0, u64::saturating_add)
    }

    fn state_of_aggregate(&self, info: &AggregateInfo) -> AggregateState {
        let is_ready = self.ready().contains(&info.name);
        match &info.state {
            State::Failed(_) => AggregateState::Failed,
            State::Online | State::Mounting if !is_ready => AggregateState::Creating,
            State::Mounting => AggregateState::Mounting,
            State::Online => AggregateState::Online,
            State::ReadOnly(_) => AggregateState::ReadOnly,
            State::Stopping => AggregateState::Stopping,
            State::Stopped => AggregateState::Stopped,
        }
    }

    /// Returns the devices of an aggregate, in the order of the label's table.
    fn view_devices(&self, info: &AggregateInfo) -> Vec<Device> {
        let mut idle = self.idle_drives.lock();
        let devices = drives::staying(info).filter_map(|member| {
            let found = match member.device {
                Some(id) => Some(self.view_device(id)?),
                None => None,
            };
            let shown = idle.view(member, found);
            let catching_up = info
                .copies
                .catching_up
                .filter(|it| Some(it.device) == member.device);
            Some(Device {
                catching_up: catching_up.map(|it| {
                    let seconds = self.now().0.saturating_sub(it.begun_seconds);
                    CatchingUp::of(bytes(it.passed_blocks), bytes(it.total_blocks), seconds)
                }),
                ..shown
            })
        });
        devices.collect()
    }

    fn view_device(&self, id: DeviceId) -> Option<Device> {
        let info = self.plane.world.info(id)?;
        Some(Device {
            path: info.path.to_string_lossy().into_owned(),
            kind: match info.kind {
                everglade_env::DeviceKind::Directory => DeviceKind::Directory,
                everglade_env::DeviceKind::File => DeviceKind::File,
                everglade_env::DeviceKind::Block => DeviceKind::Block,
            },
            size_bytes: info.size_bytes,
            group: None,
            column: None,
            state: None,
            catching_up: None,
            faults: None,
        })
    }

    /// Returns all volumes, by name.
    #[must_use]
    pub fn volumes(&self) -> Volumes {
        let luns = self.engine.luns();
        let volumes = self.engine.volumes();
        let view = |info: &VolumeInfo| self.view_volume(info, &luns);
        Volumes {
            volumes: volumes.iter().map(view).collect(),
        }
    }

    fn view_volume(&self, info: &VolumeInfo, luns: &[LunInfo]) -> Volume {
        let here = |lun: &&LunInfo| split(&lun.name).volume.as_str() == info.name;
        let luns = luns.iter().filter(here);
        Volume {
            name: info.name.clone(),
            aggregate: info.aggregate.clone(),
            sync: match info.sync {
                MediaSync::Standard => Sync::Standard,
                MediaSync::Always => Sync::Always,
            },
            lun_count: luns.clone().count() as u64,
            logical_bytes: luns.map(|lun| lun.size_bytes).fold(0, u64::saturating_add),
            clone_of: info.base.clone(),
            used_bytes: bytes(info.used_blocks),
            allocated_bytes: bytes(info.allocated_blocks),
            pending_free_bytes: bytes(info.pending_blocks),
            snapshot_count: info.snapshot_count,
            snapshot_exclusive_bytes: info.snapshot_exclusive_bytes,
            snapshot_policy: self.schedule().policy_of(&info.name),
            comment: self.schedule().comment_of(&info.uuid),
        }
    }

    /// Returns one volume.
    ///
    /// # Errors
    /// No volume has this name.
    pub fn volume(&self, name: &str) -> Result<Volume, Problem> {
        let volumes = self.engine.volumes();
        let found = volumes.iter().find(|known| known.name == name);
        let found = found.ok_or_else(|| Problem::not_found("volume", name))?;
        Ok(self.view_volume(found, &self.engine.luns()))
    }

    /// Returns the LUNs of a volume, by name.
    ///
    /// # Errors
    /// No volume has this name.
    pub fn luns(&self, volume: &str) -> Result<Luns, Problem> {
        self.volume(volume)?;
        let luns = self.engine.luns();
        let here = luns.iter().map(view_lun);
        Ok(Luns {
            luns: here.filter(|lun| lun.volume == volume).collect(),
        })
    }

    /// Returns one LUN.
    ///
    /// # Errors
    /// The volume or the LUN does not exist.
    pub fn lun(&self, volume: &str, name: &str) -> Result<Lun, Problem> {
        let mut luns = self.luns(volume)?.luns.into_iter();
        let found = luns.find(|lun| lun.name == name);
        found.ok_or_else(|| Problem::not_found("LUN", format!("{volume}/{name}")))
    }

    /// Says which snapshots of an aggregate hold most alone.
    fn largest_snapshots(&self, aggregate: &str) -> String {
        let volumes = self.engine.volumes().into_iter();
        let here = volumes.filter(|volume| volume.aggregate == aggregate);
        let mut found: Vec<(u64, String)> = here
            .flat_map(|volume| {
                let snapshots = self.engine.snapshots(&volume.name).into_iter();
                snapshots.map(move |it| {
                    let name = format!("{}@{}", volume.name, it.name);
                    (it.exclusive_bytes, name)
                })
            })
            .filter(|(alone, _)| *alone > 0)
            .collect();
        found.sort_by(|one, other| other.cmp(one));
        let largest = found.into_iter().take(LARGEST_SNAPSHOTS);
        let largest: Vec<String> = largest
            .map(|(alone, name)| format!("{name} with {}", Size(alone)))
            .collect();
        match largest.is_empty() {
            true => String::new(),
            false => format!("; the largest snapshots: {}", largest.join(", ")),
        }
    }

    /// Returns the health of the server, with all conditions.
    #[must_use]
    pub fn status(&self) -> Status {
        let aggregates = self.aggregates().aggregates;
        let closed: BTreeMap<String, Code> = self
            .unavailable()
            .iter()
            .map(|known| (known.name.clone(), known.code))
            .collect();
        let mut conditions: Vec<_> = aggregates
            .iter()
            .flat_map(|known| {
                let mut found = conditions(known, closed.get(&known.name).copied());
                let full = Code::AggregateNearlyFull.to_string();
                for condition in found.iter_mut().filter(|it| it.code == full) {
                    condition.what += &self.largest_snapshots(&known.name);
                }
                found
            })
            .collect();
        conditions.extend(self.found_at_start());
        conditions.extend(self.schedule().conditions());
        conditions.extend(self.paused_scans());
        conditions.extend(self.unmatched_patterns());
        let online = |aggregate: &&Aggregate| aggregate.state == AggregateState::Online;
        Status {
            health: conditions
                .iter()
                .map(|condition| condition.health)
                .max()
                .unwrap_or(Health::Healthy),
            online_count: aggregates.iter().filter(online).count() as u64,
            aggregate_count: aggregates.len() as u64,
            aggregates: aggregates.iter().map(summary).collect(),
            volume_count: self.engine.volumes().len() as u64,
            lun_count: self.engine.luns().len() as u64,
            connection_count: u64::from(self.plane.placement.connections()),
            uptime_seconds: self.since.elapsed().as_secs(),
            trash_keep_seconds: self.trash_keep,
            conditions,
        }
    }

    /// Returns the counters of client sessions, by protocol.
    #[must_use]
    pub fn clients(&self) -> Vec<(&'static str, Counts)> {
        self.plane.counts()
    }

    /// Returns the users of descriptors, for metrics.
    #[must_use]
    pub fn descriptor_counts(&self) -> DescriptorCounts {
        DescriptorCounts {
            devices: self.plane.world.device_files(),
            connections: self.plane.placement.loads().sum(),
            pauses: self.plane.placement.pauses(),
        }
    }

    /// Returns the engine's counters of volumes, aggregates and devices, for metrics.
    #[must_use]
    pub fn engine_counts(&self) -> EngineCounts {
        let aggregates = self.engine.aggregates();
        let devices = aggregates.iter().flat_map(|info| info.devices.iter());
        let infos = devices.filter_map(|id| self.plane.world.info(*id));
        EngineCounts {
            volumes: self.engine.volumes(),
            device_traffic: infos
                .clone()
                .map(|info| (info.path.to_string_lossy().into_owned(), info.traffic))
                .collect(),
            device_errors: infos
                .map(|info| (info.path.to_string_lossy().into_owned(), info.errors))
                .collect(),
            phases: aggregates
                .iter()
                .map(|info| (info.name.clone(), info.cp_counts.phases.clone()))
                .collect(),
            cleaned: aggregates
                .iter()
                .map(|info| (info.name.clone(), info.cp_counts.cleaned))
                .collect(),
            cp_blocks: aggregates
                .iter()
                .map(|info| (info.name.clone(), info.cp_counts.blocks.clone()))
                .collect(),
            waits: aggregates
                .iter()
                .map(|info| (info.name.clone(), info.cp_counts.waits.clone()))
                .collect(),
            queued_operations: self.engine.queued_operations(),
            reactors: self
                .plane
                .placement
                .loads()
                .zip(self.engine.homes())
                .collect(),
            connections_moved: self.plane.placement.moved(),
            stale_reads: self
                .engine
                .aggregates()
                .iter()
                .map(|it| it.stale_reads)
                .sum(),
            gardens: aggregates
                .iter()
                .map(|info| (info.name.clone(), gardened(info)))
                .collect(),
        }
    }

    /// Returns the version of the running daemon.
    #[must_use]
    pub fn version(&self) -> Version {
        Version {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            data_directory_format: format_file::VERSION,
            media_format: u64::from(crate::MEDIA_VERSION),
        }
    }
}

fn summary(aggregate: &Aggregate) -> AggregateSummary {
    AggregateSummary {
        name: aggregate.name.clone(),
        state: aggregate.state,
        size_bytes: aggregate.size_bytes,
        free_bytes: aggregate.free_bytes,
        journal: aggregate.journal.clone(),
        recovery: aggregate.recovery.clone(),
    }
}

fn view_cp(info: &AggregateInfo) -> ConsistencyPoints {
    let by_trigger = info.cp_counts.by_trigger.iter();
    ConsistencyPoints {
        by_trigger: by_trigger
            .map(|(trigger, count)| ((*trigger).to_owned(), *count))
            .collect(),
        back_to_back: info.cp_counts.back_to_back,
    }
}

fn view_journal(info: &JournalInfo) -> Journal {
    let fill = percent(info.used_bytes, info.half_bytes);
    Journal {
        half_bytes: info.half_bytes,
        used_bytes: info.used_bytes,
        fill_percent: fill.map_or(0, |fill| fill.min(100)),
        unlogged_bytes: info.unlogged_bytes,
    }
}

/// Returns `None` if nothing was replayed.
fn view_recovery(info: &RecoveryInfo) -> Option<Recovery> {
    (info.operations + info.skipped > 0).then_some(Recovery {
        operation_count: info.operations,
        skipped_count: info.skipped,
        bytes: info.bytes,
        duration_ms: info.nanos / 1_000_000,
    })
}

/// Returns the blocks that clients can still fill.
pub(super) fn free_blocks(info: &AggregateInfo) -> u64 {
    let usage = info.usage;
    let unused = usage.total_blocks.saturating_sub(usage.used_blocks);
    unused.saturating_sub(usage.reserve_blocks)
}

fn view_lun(info: &LunInfo) -> Lun {
    let name = split(&info.name);
    Lun {
        name: name.lun.to_string(),
        volume: name.volume.to_string(),
        object: info.name.clone(),
        size_bytes: info.size_bytes,
        used_bytes: bytes(info.used_blocks),
        uuid: Uuid(info.uuid).to_string(),
        nbd_export: info.name.clone(),
        nbd_uri: None,
        iscsi_target: None,
        nvme_subsystem: None,
    }
}

/// The remedy for an aggregate that is read-only.
const READ_ONLY_ACTION: &str = "copy what you need from its exports, then stop the daemon and run \
    `everglade check`; replace a device that reports errors; start the daemon again: if the cause \
    is gone, the aggregate is online";

/// Returns the conditions of an aggregate. `closed` is the code of one that could not be opened.
fn conditions(aggregate: &Aggregate, closed: Option<Code>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    let mut add = |code: Code, health: Health, what: String, action: &str| {
        conditions.push(Condition {
            code: code.to_string(),
            health,
            object: format!("aggregate {}", aggregate.name),
            what,
            action: action.to_owned(),
            page: code.page(),
        });
    };
    if let (AggregateState::Unavailable, Some(reason)) = (aggregate.state, &aggregate.reason) {
        add(
            closed.unwrap_or(Code::AggregateUnavailable),
            Health::Unhealthy,
            format!("it could not be opened and serves nothing: {reason}"),
            "do what the message says, then start the daemon again; nothing was written to it",
        );
        return conditions;
    }
    let is_read_only = aggregate.state == AggregateState::ReadOnly;
    // One that was imported to be read only is as somebody wanted it.
    let halted = aggregate.reason.as_ref();
    let halted = halted.filter(|_| is_read_only && !aggregate.imported_read_only);
    if let Some(reason) = halted {
        let unlogged = aggregate
            .journal
            .as_ref()
            .map_or(0, |journal| journal.unlogged_bytes);
        let in_memory = match unlogged {
            0 => String::new(),
            bytes => format!(
                "; {} that clients wrote and did not flush are in memory only",
                Size(bytes)
            ),
        };
        add(
            Code::ReadOnly,
            Health::Unhealthy,
            format!(
                "it can be read and not changed, because {reason}{in_memory}; what was flushed is \
                safe"
            ),
            READ_ONLY_ACTION,
        );
    }
    if is_read_only {
        drives::degraded(aggregate, &mut add);
        damaged(&aggregate.damage, &mut add);
        return conditions;
    }
    if let Some(reason) = &aggregate.reason {
        add(
            Code::AggregateFailed,
            Health::Unhealthy,
            format!("it failed and serves nothing: {reason}"),
            "restore its devices, then start the daemon again; what was flushed is safe",
        );
        return conditions;
    }
    drives::degraded(aggregate, &mut add);
    damaged(&aggregate.damage, &mut add);
    let for_clients = aggregate.size_bytes - aggregate.reserve_bytes.min(aggregate.size_bytes);
    if aggregate.free_bytes < for_clients / 10 {
        add(
            Code::AggregateNearlyFull,
            Health::Warning,
            format!("{} are left{}", Size(aggregate.free_bytes), held(aggregate)),
            match aggregate.trash_bytes {
                0 => "delete or discard something, or make the aggregate larger",
                _ => {
                    "delete or discard something, 'trash empty' what is not needed any more, or \
                    make the aggregate larger"
                }
            },
        );
    }
    if let Some((promised, free)) = host_shortage(aggregate) {
        add(
            Code::HostLow,
            Health::Warning,
            format!(
                "it may still take {} of its host, which has {} left",
                Size(promised),
                Size(free)
            ),
            "make room on the host, or delete something here",
        );
    }
    conditions
}

/// The bytes that an aggregate may still take of its host, and those that the host has left, if
/// these are few.
pub(super) fn host_shortage(aggregate: &Aggregate) -> Option<(u64, u64)> {
    let promised = aggregate
        .size_bytes
        .saturating_sub(aggregate.host_backed_bytes);
    let low = |free: &u64| *free < promised && *free < aggregate.size_bytes / 20;
    let free = aggregate.host_free_bytes.filter(low)?;
    Some((promised, free))
}

/// The space that the trash of an aggregate takes.
fn trash_bytes(trash: &[TrashInfo], aggregate: u32) -> u64 {
    let here = trash.iter().filter(|it| it.volume.aggregate == aggregate);
    here.map(|it| bytes(it.used_blocks))
        .fold(0, u64::saturating_add)
}

/// Says what holds space that could be had: snapshots, the trash, and deletions under way.
fn held(aggregate: &Aggregate) -> String {
    let parts = [
        ("snapshots alone hold", aggregate.snapshot_exclusive_bytes),
        ("the trash has", aggregate.trash_bytes),
        ("deletions have yet to free", aggregate.pending_free_bytes),
        ("the reserve is", aggregate.reserve_bytes),
    ];
    let parts = parts.iter().filter(|(_, bytes)| *bytes > 0);
    let parts: Vec<String> = parts
        .map(|(what, bytes)| format!("{what} {}", Size(*bytes)))
        .collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("; {}", parts.join(", ")),
    }
}

/// Adds the conditions of damaged blocks. Unreadable blocks are worse than blocks known to be lost,
/// which can be overwritten.
fn damaged(damage: &Damage, add: &mut impl FnMut(Code, Health, String, &str)) {
    let (lost, unreadable) = (damage.lost_block_count, damage.unreadable_block_count);
    let first = damage.lines.first().map_or("", String::as_str);
    if unreadable > 0 {
        add(
            Code::BlocksUnreadable,
            Health::Unhealthy,
            format!(
                "{} cannot be read, of which {lost} are lost; the first: {first}",
                counted(unreadable, "block")
            ),
            "restore what is on them from a copy; 'aggregate show' lists them; look at the device",
        );
    } else if lost > 0 {
        add(
            Code::BlocksUnreadable,
            Health::Warning,
            format!(
                "{} were lost earlier; reads of them fail until they are overwritten",
                counted(lost, "block")
            ),
            "restore what was on them from a copy, if that has not been done",
        );
    }
    let mended: u64 = damage.mended.values().sum();
    if mended > 0 {
        let first = damage.mended_lines.first().map_or("", String::as_str);
        add(
            Code::MetadataMended,
            Health::Warning,
            format!(
                "metadata was damaged and derived again: {}; the first: {first}",
                counted(mended, "block")
            ),
            "nothing was lost; look at the device, and let 'everglade repair' look at the rest",
        );
    }
    if damage.metadata_damaged_count > 0 {
        let first = damage.metadata_damaged.first().map_or("", String::as_str);
        add(
            Code::MetadataDamaged,
            Health::Unhealthy,
            format!(
                "metadata is damaged and cannot be derived: {}; the first: {first}",
                counted(damage.metadata_damaged_count, "block")
            ),
            "copy out what you need while it can be read; 'aggregate show' lists the blocks; look \
            at the device",
        );
    }
}

/// An aggregate with which all is well.
#[cfg(test)]
pub(crate) fn example() -> Aggregate {
    Aggregate {
        name: "a".to_owned(),
        uuid: String::new(),
        state: AggregateState::Online,
        reason: None,
        imported_read_only: false,
        raid: "none".to_owned(),
        group_size: None,
        size_bytes: 1000,
        used_bytes: 0,
        free_bytes: 900,
        reserve_bytes: 100,
        pending_free_bytes: 0,
        logical_bytes: 0,
        area_bytes: 0,
        shared_bytes: 0,
        snapshot_exclusive_bytes: 0,
        trash_bytes: 0,
        dirty_bytes: 0,
        host_backed_bytes: 100,
        host_free_bytes: Some(900),
        committed_cp: 1,
        cp: None,
        journal: None,
        damage: Damage::default(),
        copies: None,
        stripes: None,
        recovery: None,
        removal: None,
        volume_count: 0,
        devices: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use everglade_api::DeviceState;

    use super::*;

    fn aggregate() -> Aggregate {
        example()
    }

    fn codes(aggregate: &Aggregate) -> Vec<String> {
        let conditions = conditions(aggregate, None);
        conditions.into_iter().map(|found| found.code).collect()
    }

    #[test]
    fn each_condition_is_reported_when_it_holds() {
        let good = aggregate();
        assert!(conditions(&good, None).is_empty());
        let full = Aggregate {
            free_bytes: 89,
            ..aggregate()
        };
        assert_eq!(codes(&full), ["EVG-4002"]);
        let low = Aggregate {
            host_free_bytes: Some(49),
            ..aggregate()
        };
        assert_eq!(codes(&low), ["EVG-4003"]);
        let damaged = |lost_block_count, unreadable_block_count| {
            let damage = Damage {
                lost_block_count,
                unreadable_block_count,
                lines: vec!["v/l: block 7".to_owned()],
                ..Damage::default()
            };
            let aggregate = Aggregate {
                damage,
                ..aggregate()
            };
            let found = conditions(&aggregate, None);
            assert_eq!(found[0].code, "EVG-4005");
            found[0].health
        };
        assert_eq!(damaged(0, 1), Health::Unhealthy);
        assert_eq!(damaged(1, 0), Health::Warning);
        let damage = Damage {
            mended: [("active map".to_owned(), 1)].into(),
            ..Damage::default()
        };
        let mended = Aggregate {
            damage,
            ..aggregate()
        };
        assert_eq!(codes(&mended), ["EVG-4010"]);
        let backed = Aggregate {
            host_backed_bytes: 1000,
            ..low
        };
        assert!(codes(&backed).is_empty(), "it takes no more");
        let failed = Aggregate {
            reason: Some("gone".to_owned()),
            free_bytes: 0,
            ..aggregate()
        };
        assert_eq!(
            codes(&failed),
            ["EVG-4001"],
            "the rest does not matter then"
        );
        assert_eq!(conditions(&failed, None)[0].health, Health::Unhealthy);
        let read_only = Aggregate {
            state: AggregateState::ReadOnly,
            journal: Some(Journal {
                unlogged_bytes: 8192,
                ..Journal::default()
            }),
            ..failed.clone()
        };
        assert_eq!(codes(&read_only), ["EVG-4008"]);
        let told = &conditions(&read_only, None)[0];
        assert_eq!(told.health, Health::Unhealthy);
        for part in ["because gone", "8.0 KiB", "not flush"] {
            assert!(told.what.contains(part), "{}", told.what);
        }
        let absent = Aggregate {
            state: AggregateState::Unavailable,
            ..failed
        };
        assert_eq!(codes(&absent), ["EVG-4004"]);
        assert_eq!(
            conditions(&absent, None)[0].page,
            "docs/reference/codes/EVG-4004.md"
        );
    }

    #[test]
    fn a_mirror_that_lost_drives_says_what_is_left() {
        use DeviceState::{Behind, Failed, Missing, Online};
        let told = |groups: &[&[DeviceState]]| {
            let device = |group: usize, column: usize, state: DeviceState| Device {
                path: format!("/{group}-{column}"),
                kind: DeviceKind::File,
                size_bytes: 1000,
                group: Some(group as u64 + 1),
                column: Some(column as u64),
                state: Some(state),
                catching_up: None,
                faults: None,
            };
            let mut mirror = aggregate();
            mirror.group_size = Some(groups[0].len() as u64);
            for (group, states) in groups.iter().enumerate() {
                let states = states.iter().enumerate();
                let drives = states.map(|(column, state)| device(group, column, *state));
                mirror.devices.extend(drives);
            }
            conditions(&mirror, None)
        };
        assert!(told(&[&[Online, Online], &[Online, Online]]).is_empty());
        let one = told(&[&[Online, Online], &[Missing, Online]]);
        assert_eq!((one.len(), one[0].health), (1, Health::Warning));
        assert_eq!(one[0].code, "EVG-4017");
        assert_eq!(
            one[0].what,
            "group 2 has 1 of 2 drives left: /1-0 is missing; no data is lost, but if the last \
            drive of group 2 fails, the aggregate is lost"
        );
        let both = told(&[&[Online, Failed], &[Behind, Online]]);
        assert_eq!(
            both[0].what,
            "group 1 has 1 of 2 drives left: /0-1 failed; group 2 has 1 of 2 drives left: /1-0 \
            is behind; no data is lost, but if the last drive of one of the groups 1, 2 fails, \
            the aggregate is lost"
        );
        let three = told(&[&[Online, Failed, Online]]);
        assert!(
            three[0].what.contains("can lose another"),
            "{}",
            three[0].what
        );
    }
}
