//! Aggregates: pools of devices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::required;
use crate::{CatchingUp, Fields, Name, Problem, Raid, Removal};

/// Limit of devices in one request. The label has room for many more than any host has.
pub const DEVICES_MAX: usize = 64;

/// `POST /v1/aggregates`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreateAggregate {
    /// Unique in the daemon.
    pub name: Name,
    /// How the devices protect each other.
    #[schema(required = false)]
    pub raid: Raid,
    /// Drives of each group of a mirror: 2 or 3. The devices make groups in the order in which they
    /// are named. None: 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_size: Option<u64>,
    /// Absolute paths: empty directories, regular files, block devices; for a mirror, a multiple of
    /// the size of a group. None: a directory in the data directory.
    #[schema(required = false, max_items = 64)]
    pub devices: Vec<String>,
    /// Size of each device that is a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Absolute path of one more device, for the journal alone; not for a mirror. None: the journal
    /// is on the first device, or on all drives of the first group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_device: Option<String>,
    /// Size of each half of the journal, a multiple of 4,096. None: 2 % of the aggregate, 16 to 256
    /// MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_half_bytes: Option<u64>,
    /// Size of the allocation areas of each device. Space is taken from the host, written and
    /// emptied one area at a time. A power of two from 1 MiB to 128 MiB. None: 128 MiB. It cannot
    /// be changed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub area_bytes: Option<u64>,
    /// Whether existing contents of files and block devices may be overwritten.
    #[schema(required = false)]
    pub discard_contents: bool,
    /// Only check whether the aggregate could be created, and report which contents would be lost.
    #[schema(required = false)]
    pub dry_run: bool,
}

impl CreateAggregate {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<CreateAggregate, Problem> {
        let mut fields = Fields::parse(body)?;
        let name = fields.parsed("name")?;
        let raid: Option<Raid> = fields.parsed("raid")?;
        let group_size = fields.integer("group_size")?;
        let devices = fields.strings("devices", DEVICES_MAX)?;
        let size_bytes = fields.integer("size_bytes")?;
        let journal_device = fields.parsed("journal_device")?;
        let journal_half_bytes = fields.integer("journal_half_bytes")?;
        let area_bytes = fields.integer("area_bytes")?;
        let discard_contents = fields.flag("discard_contents")?;
        let dry_run = fields.flag("dry_run")?;
        fields.finish()?;
        let request = CreateAggregate {
            name: required("name", name)?,
            raid: raid.unwrap_or_default(),
            group_size,
            devices,
            size_bytes,
            journal_device,
            journal_half_bytes,
            area_bytes,
            discard_contents,
            dry_run,
        };
        request.check_raid()?;
        Ok(request)
    }
}

/// An aggregate as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Aggregate {
    /// Its name.
    pub name: String,
    /// 32 hexadecimal digits.
    pub uuid: String,
    /// State of the aggregate.
    pub state: AggregateState,
    /// The reason, if the aggregate is read-only, failed or unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It was imported to be read only: nothing is written to its devices.
    #[serde(default)]
    pub imported_read_only: bool,
    /// How its devices protect each other: `none` or `mirror`; `unknown` if the aggregate is
    /// unavailable.
    pub raid: String,
    /// Drives of each group of a mirror; absent without redundancy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_size: Option<u64>,
    /// Capacity for data of all its devices.
    pub size_bytes: u64,
    /// Space in use at the last consistency point.
    pub used_bytes: u64,
    /// Space that clients can still fill.
    pub free_bytes: u64,
    /// Kept back for consistency points and deletions.
    pub reserve_bytes: u64,
    /// Space that deletions in progress have yet to free; included in `used_bytes`.
    pub pending_free_bytes: u64,
    /// Sizes of all its LUNs together.
    pub logical_bytes: u64,
    /// Size of the allocation areas of each device; 0 if the aggregate could not be opened.
    #[serde(default)]
    pub area_bytes: u64,
    /// Space that clones share with their parents, counted for each clone.
    pub shared_bytes: u64,
    /// Space that is in snapshots alone: deleting all of them would free it.
    #[serde(default)]
    pub snapshot_exclusive_bytes: u64,
    /// Space that objects in the trash take. It is freed when space is short.
    #[serde(default)]
    pub trash_bytes: u64,
    /// Data in memory that the next consistency points will write.
    pub dirty_bytes: u64,
    /// Space that the host has allocated to the devices.
    pub host_backed_bytes: u64,
    /// Free space of the host; absent if all devices are block devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_free_bytes: Option<u64>,
    /// Consistency points so far.
    pub committed_cp: u64,
    /// Consistency points since the aggregate was opened, by cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cp: Option<ConsistencyPoints>,
    /// The journal of the aggregate, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<Journal>,
    /// Blocks that could not be read.
    #[serde(default)]
    pub damage: Damage,
    /// Blocks that one drive of a mirror had wrong; absent without redundancy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<Copies>,
    /// Stripes of parity groups; absent without parity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripes: Option<Stripes>,
    /// The replay of the journal when the aggregate was opened; absent after a clean stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// The removal of devices that is under way, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
    /// Number of volumes in the aggregate.
    pub volume_count: u64,
    /// Devices of the aggregate. Those of a mirror are in the order of groups and columns.
    pub devices: Vec<Device>,
}

/// The result of `POST /v1/aggregates` with `dry_run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreationPlan {
    /// The name it would have.
    pub name: String,
    /// Capacity of all its devices, except a device for the journal alone. A group of a mirror has
    /// the capacity of its smallest drive.
    pub size_bytes: u64,
    /// Devices that the aggregate would have.
    pub devices: Vec<PlannedDevice>,
}

/// A device that would be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedDevice {
    /// Path of the device.
    pub path: String,
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Its size.
    pub size_bytes: u64,
    /// Whether the device has contents that would be lost.
    pub holds_data: bool,
    /// Whether the device would be for the journal alone.
    pub is_journal: bool,
    /// The group of a mirror that the device would belong to, from 1; absent without redundancy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
}

/// Blocks of a mirror that one drive had wrong, since the aggregate was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Copies {
    /// Blocks that were wrong or unreadable on one drive, and were read from another.
    pub read_elsewhere_block_count: u64,
    /// Blocks of these that were then written again.
    pub rewritten_block_count: u64,
}

/// Stripes of parity groups that were written since the aggregate was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stripes {
    /// Stripes that were written without reading.
    pub full_count: u64,
    /// Stripes of which a part was read to compute parity.
    pub partial_count: u64,
    /// Blocks that were read for that.
    pub read_block_count: u64,
    /// Free blocks that were filled with zeroes.
    pub filled_block_count: u64,
    /// Blocks that were reconstructed, because their drive was missing or had them wrong.
    pub reconstructed_block_count: u64,
}

/// Consistency points since the aggregate was opened, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsistencyPoints {
    /// Number of consistency points by trigger: `timer`, `journal`, `dirty`, `wanted`, `change`,
    /// `reclaim`, `stop`.
    pub by_trigger: BTreeMap<String, u64>,
    /// Number of consistency points that began at once because more data than can be buffered
    /// arrived during the one before. Clients wait then.
    pub back_to_back: u64,
}

/// Blocks of an aggregate that could not be read. Clients get errors for exactly those blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Damage {
    /// Blocks that became lost since the volumes were made: they read as errors until they are
    /// overwritten.
    pub lost_block_count: u64,
    /// Blocks found to be damaged or unreadable since the aggregate was opened.
    pub unreadable_block_count: u64,
    /// Descriptions of unreadable blocks, oldest first; not all if there are many.
    pub lines: Vec<String>,
    /// Number of unreadable metadata blocks that were derived from other blocks since the aggregate
    /// was opened, by kind. No data was lost with them.
    #[serde(default)]
    pub mended: BTreeMap<String, u64>,
    /// Descriptions of the derived blocks, oldest first; not all if there are many.
    #[serde(default)]
    pub mended_lines: Vec<String>,
    /// Blocks of metadata that the last repair found damaged and that cannot be derived.
    #[serde(default)]
    pub metadata_damaged_count: u64,
    /// Descriptions of the damaged metadata blocks; the first 64.
    #[serde(default)]
    pub metadata_damaged: Vec<String>,
}

/// The journal of an aggregate: data flushed since the last consistency point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Journal {
    /// Size of one half. One half is filled while the consistency point of the other is written.
    pub half_bytes: u64,
    /// Space in use, in the half that is being filled.
    pub used_bytes: u64,
    /// Space in use, in percent of the half.
    pub fill_percent: u64,
    /// Data in memory only, because no client has requested durability.
    pub unlogged_bytes: u64,
}

/// The replay of the journal when the aggregate was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// Number of operations replayed.
    pub operation_count: u64,
    /// Operations on LUNs that are no more.
    pub skipped_count: u64,
    /// Bytes read from the journal.
    pub bytes: u64,
    /// Time until all of it was committed.
    pub duration_ms: u64,
}

/// State of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AggregateState {
    /// Being made; not to be used yet.
    Creating,
    /// Its metadata is being read.
    Mounting,
    /// Serving.
    Online,
    /// Everything can be read and nothing can be changed.
    #[serde(rename = "read-only")]
    ReadOnly,
    /// Writing its last consistency point.
    Stopping,
    /// Everything is on media.
    Stopped,
    /// The aggregate failed while it was open, and cannot be used.
    Failed,
    /// The aggregate could not be opened when the daemon started.
    Unavailable,
}

impl std::fmt::Display for AggregateState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            AggregateState::Creating => "creating",
            AggregateState::Mounting => "mounting",
            AggregateState::Online => "online",
            AggregateState::ReadOnly => "read-only",
            AggregateState::Stopping => "stopping",
            AggregateState::Stopped => "stopped",
            AggregateState::Failed => "failed",
            AggregateState::Unavailable => "unavailable",
        })
    }
}

/// One device of an aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Device {
    /// Path of the device.
    pub path: String,
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Its size; of a missing device, the recorded one.
    pub size_bytes: u64,
    /// The group of a mirror that it belongs to, from 1; absent without redundancy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    /// Its column in the group, from 0; absent without redundancy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// Whether it is in use; absent if the aggregate is unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DeviceState>,
    /// How far it has caught up; absent if it does not catch up now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catching_up: Option<CatchingUp>,
    /// Its faults since the daemon started, or since it came; absent without redundancy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<DriveFaults>,
}

/// Faults of a drive of a mirror.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriveFaults {
    /// Reads of a block that failed.
    pub read_error_count: u64,
    /// Reads of a block that gave other contents than were written.
    pub wrong_block_count: u64,
    /// Writes and flushes that failed. The first one costs the drive.
    pub write_error_count: u64,
    /// Times that it did not end an operation in time. The first one costs the drive.
    #[serde(default)]
    pub hung_count: u64,
    /// Blocks that were written again, with the contents of another drive.
    pub mended_block_count: u64,
    /// Blocks in use that it did not get when it caught up, since no drive in use had them right.
    pub not_copied_block_count: u64,
}

/// State of a device of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceState {
    /// It is read and written.
    Online,
    /// It failed since the daemon started, and is not used any more.
    Failed,
    /// It is there, but missed writes before the daemon started, or has just replaced another
    /// drive. It catches up, and is not read until it has everything.
    Behind,
    /// It is not there, or could not be opened when the daemon started.
    Missing,
}

impl DeviceState {
    /// All states.
    pub const ALL: [DeviceState; 4] = [
        DeviceState::Online,
        DeviceState::Failed,
        DeviceState::Behind,
        DeviceState::Missing,
    ];

    /// Returns the word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            DeviceState::Online => "online",
            DeviceState::Failed => "failed",
            DeviceState::Behind => "behind",
            DeviceState::Missing => "missing",
        }
    }
}

impl std::fmt::Display for DeviceState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// A directory of segment files.
    Directory,
    /// A regular file.
    File,
    /// A block device.
    Block,
}

impl std::fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            DeviceKind::Directory => "directory",
            DeviceKind::File => "file",
            DeviceKind::Block => "block",
        })
    }
}

/// `GET /v1/aggregates`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Aggregates {
    /// Aggregates in order of creation.
    pub aggregates: Vec<Aggregate>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn what_a_client_writes_the_daemon_reads() {
        let request = CreateAggregate {
            name: "a".parse().expect("a name"),
            raid: Raid::None,
            group_size: None,
            devices: vec!["/dev/sdb".to_owned()],
            size_bytes: Some(1 << 30),
            journal_device: Some("/dev/sdc".to_owned()),
            journal_half_bytes: Some(64 << 20),
            area_bytes: Some(16 << 20),
            discard_contents: true,
            dry_run: true,
        };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(CreateAggregate::parse(&body), Ok(request));
    }

    #[test]
    fn a_mirror_is_read_as_it_was_written() {
        let request = CreateAggregate {
            name: "a".parse().expect("a name"),
            raid: Raid::Mirror,
            group_size: Some(3),
            devices: ["/dev/sdb", "/dev/sdc", "/dev/sdd"]
                .map(str::to_owned)
                .into(),
            size_bytes: None,
            journal_device: None,
            journal_half_bytes: None,
            area_bytes: None,
            discard_contents: false,
            dry_run: false,
        };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(CreateAggregate::parse(&body), Ok(request));
    }

    #[test]
    fn a_name_is_required() {
        let problem = CreateAggregate::parse(b"{}").expect_err("no name");
        assert_eq!(problem.code, Code::MissingField);
    }
}
