//! Aggregates: pools of devices.

use serde::{Deserialize, Serialize};

use crate::fields::required;
use crate::{Fields, Name, Problem};

/// Devices in one request. The label has room for many more; nobody's machine has.
pub const DEVICES_MAX: usize = 64;

/// `POST /v1/aggregates`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateAggregate {
    /// Unique in the daemon.
    pub name: Name,
    /// Absolute paths: empty directories, regular files, block devices. None: a directory in the data
    /// directory.
    pub devices: Vec<String>,
    /// Size of each device that is a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Whether files and block devices may hold something that will be overwritten.
    pub discard_contents: bool,
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
        let discard_contents = fields.flag("discard_contents")?;
        fields.finish()?;
        let request = CreateAggregate {
            name: required("name", name)?,
            devices,
            size_bytes,
            discard_contents,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// What the host has given for good.
    pub host_backed_bytes: u64,
    /// What the host could still give; absent if all devices are block devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_free_bytes: Option<u64>,
    /// Consistency points so far.
    pub committed_cp: u64,
    /// How many volumes it holds.
    pub volume_count: u64,
    /// What it is made of.
    pub devices: Vec<Device>,
}

/// How an aggregate is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AggregateState {
    /// Being made; not to be used yet.
    Creating,
    /// Its metadata is being read.
    Mounting,
    /// Serving.
    Online,
    /// Writing its last consistency point.
    Stopping,
    /// Everything is on media.
    Stopped,
    /// It cannot be used.
    Failed,
}

impl std::fmt::Display for AggregateState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            AggregateState::Creating => "creating",
            AggregateState::Mounting => "mounting",
            AggregateState::Online => "online",
            AggregateState::Stopping => "stopping",
            AggregateState::Stopped => "stopped",
            AggregateState::Failed => "failed",
        })
    }
}

/// One device of an aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Where it is.
    pub path: String,
    /// What is there.
    pub kind: DeviceKind,
    /// Its size.
    pub size_bytes: u64,
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
            discard_contents: true,
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
