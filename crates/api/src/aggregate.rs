//! Aggregates: pools of devices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::required;
use crate::{Fields, Name, Problem};

/// Devices in one request. The label has room for many more; nobody's machine has.
pub const DEVICES_MAX: usize = 64;

/// `POST /v1/aggregates`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreateAggregate {
    /// Unique in the daemon.
    pub name: Name,
    /// Absolute paths: empty directories, regular files, block devices. None: a directory in the
    /// data directory.
    #[schema(required = false, max_items = 64)]
    pub devices: Vec<String>,
    /// Size of each device that is a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Absolute path of one more device, for the journal alone. None: the journal is on the first
    /// device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_device: Option<String>,
    /// Size of each half of the journal, a multiple of 4,096. None: 2 % of the aggregate, 16 to 256
    /// MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_half_bytes: Option<u64>,
    /// Whether files and block devices may hold something that will be overwritten.
    #[schema(required = false)]
    pub discard_contents: bool,
    /// Only look whether it could be made, and say what would be lost.
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
        let raid: Option<String> = fields.parsed("raid")?;
        let devices = fields.strings("devices", DEVICES_MAX)?;
        let size_bytes = fields.integer("size_bytes")?;
        let journal_device = fields.parsed("journal_device")?;
        let journal_half_bytes = fields.integer("journal_half_bytes")?;
        let discard_contents = fields.flag("discard_contents")?;
        let dry_run = fields.flag("dry_run")?;
        fields.finish()?;
        let request = CreateAggregate {
            name: required("name", name)?,
            devices,
            size_bytes,
            journal_device,
            journal_half_bytes,
            discard_contents,
            dry_run,
        };
        match raid.as_deref() {
            None | Some("none") => Ok(request),
            Some(other) => {
                let text = format!("{other:?} is not possible in this version; use none");
                Err(Problem::invalid("raid", text))
            }
        }
    }
}

/// An aggregate as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Aggregate {
    /// Its name.
    pub name: String,
    /// 32 hexadecimal digits.
    pub uuid: String,
    /// How it is doing.
    pub state: AggregateState,
    /// Why it is doing badly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Always `none` in this version.
    pub raid: String,
    /// All that its devices have for data.
    pub size_bytes: u64,
    /// In use at the last consistency point.
    pub used_bytes: u64,
    /// What clients can still fill.
    pub free_bytes: u64,
    /// Kept back for consistency points and deletions.
    pub reserve_bytes: u64,
    /// To be given back by deletions under way; part of what is used.
    pub pending_free_bytes: u64,
    /// Sizes of all its LUNs together.
    pub logical_bytes: u64,
    /// What clones have of their parents without taking it again, for each clone.
    pub shared_bytes: u64,
    /// In memory, for the next consistency points to write.
    pub dirty_bytes: u64,
    /// What the host has given for good.
    pub host_backed_bytes: u64,
    /// What the host could still give; absent if all devices are block devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_free_bytes: Option<u64>,
    /// Consistency points so far.
    pub committed_cp: u64,
    /// Why consistency points began since the aggregate was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cp: Option<ConsistencyPoints>,
    /// Its journal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<Journal>,
    /// What could not be read.
    #[serde(default)]
    pub damage: Damage,
    /// What its journal gave back when it was opened; absent after a clean stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// How many volumes it holds.
    pub volume_count: u64,
    /// What it is made of.
    pub devices: Vec<Device>,
}

/// What `POST /v1/aggregates` with `dry_run` would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreationPlan {
    /// The name it would have.
    pub name: String,
    /// All that its devices have, but for one that is for the journal alone.
    pub size_bytes: u64,
    /// What it would be made of.
    pub devices: Vec<PlannedDevice>,
}

/// A device that would be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedDevice {
    /// Where it is.
    pub path: String,
    /// What is there.
    pub kind: DeviceKind,
    /// Its size.
    pub size_bytes: u64,
    /// Whether it holds something that would be lost.
    pub holds_data: bool,
    /// Whether it would be for the journal alone.
    pub is_journal: bool,
}

/// Why consistency points began since the aggregate was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsistencyPoints {
    /// How many, by what made them begin: `timer`, `journal`, `dirty`, `wanted`, `change`,
    /// `reclaim`, `stop`.
    pub by_trigger: BTreeMap<String, u64>,
    /// How many of them began because more came, while the one before ran, than can be buffered.
    /// Clients wait then.
    pub back_to_back: u64,
}

/// What of an aggregate could not be read. Clients get errors for exactly those blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Damage {
    /// Blocks that became lost since the volumes were made: they read as errors until they are
    /// overwritten.
    pub lost_block_count: u64,
    /// Blocks found to be damaged or unreadable since the aggregate was opened.
    pub unreadable_block_count: u64,
    /// What and where, oldest first; not all, if there are many.
    pub lines: Vec<String>,
    /// Blocks of metadata that could not be read and were derived from others since the aggregate
    /// was opened, by what they are of. Nothing was lost with them.
    #[serde(default)]
    pub mended: BTreeMap<String, u64>,
    /// Which, and what was wrong with them, oldest first; not all, if there are many.
    #[serde(default)]
    pub mended_lines: Vec<String>,
    /// Blocks of metadata that the last repair found damaged and that cannot be derived.
    #[serde(default)]
    pub metadata_damaged_count: u64,
    /// Which, and what is wrong with them; the first 64.
    #[serde(default)]
    pub metadata_damaged: Vec<String>,
}

/// The journal of an aggregate: what was flushed since the last consistency point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Journal {
    /// Of one half; one is filled while the consistency point of the other is written.
    pub half_bytes: u64,
    /// In use, in the half that is being filled.
    pub used_bytes: u64,
    /// The same in percent of the half.
    pub fill_percent: u64,
    /// In memory only, because nobody has asked for it to be durable.
    pub unlogged_bytes: u64,
}

/// What the journal gave back when the aggregate was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// Operations done again.
    pub operation_count: u64,
    /// Operations on LUNs that are no more.
    pub skipped_count: u64,
    /// Of the journal, read.
    pub bytes: u64,
    /// Until all of it was committed.
    pub duration_ms: u64,
}

/// How an aggregate is doing.
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
    /// It failed while it was open, and cannot be used.
    Failed,
    /// It could not be opened when the daemon began.
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
    /// Where it is.
    pub path: String,
    /// What is there.
    pub kind: DeviceKind,
    /// Its size.
    pub size_bytes: u64,
}

/// What a device is.
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
    /// In order of creation.
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
            devices: vec!["/dev/sdb".to_owned()],
            size_bytes: Some(1 << 30),
            journal_device: Some("/dev/sdc".to_owned()),
            journal_half_bytes: Some(64 << 20),
            discard_contents: true,
            dry_run: true,
        };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(CreateAggregate::parse(&body), Ok(request));
    }

    #[test]
    fn raid_is_none_or_refused() {
        let parse = |raid: &str| {
            CreateAggregate::parse(format!("{{\"name\": \"a\", \"raid\": {raid}}}").as_bytes())
        };
        assert!(parse("\"none\"").is_ok() && parse("null").is_ok());
        for raid in ["\"mirror\"", "\"NONE\"", "1"] {
            let problem = parse(raid).expect_err(raid);
            assert_eq!(problem.code, Code::InvalidValue);
            assert_eq!(problem.field.as_deref(), Some("raid"));
        }
        let problem = CreateAggregate::parse(b"{}").expect_err("no name");
        assert_eq!(problem.code, Code::MissingField);
    }
}
