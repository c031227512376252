//! Removal of devices from an aggregate that goes on.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::required;
use crate::{Fields, Problem};

/// `POST /v1/aggregates/{aggregate}/actions/remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RemoveDevice {
    /// Path of the device, as the aggregate shows it; of a group of drives, any of them. Its whole
    /// group is removed.
    pub device: String,
    /// Only check whether it could be removed, and report what would be left.
    #[schema(required = false)]
    pub dry_run: bool,
}

impl RemoveDevice {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<RemoveDevice, Problem> {
        let mut fields = Fields::parse(body)?;
        let device = fields.parsed("device")?;
        let dry_run = fields.flag("dry_run")?;
        fields.finish()?;
        Ok(RemoveDevice {
            device: required("device", device)?,
            dry_run,
        })
    }
}

/// State of a removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RemovalState {
    /// None is under way.
    #[default]
    None,
    /// Nobody has asked for it yet: this is what it would do.
    Planned,
    /// Blocks move to the other devices.
    Running,
    /// The other devices have too little free space at present.
    Waiting,
    /// Gardening is paused, or waits for its part of the day.
    Paused,
    /// What is left cannot be read.
    Stuck,
}

impl fmt::Display for RemovalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RemovalState::None => "none",
            RemovalState::Planned => "planned",
            RemovalState::Running => "running",
            RemovalState::Waiting => "waiting",
            RemovalState::Paused => "paused",
            RemovalState::Stuck => "stuck",
        })
    }
}

/// `GET /v1/aggregates/{aggregate}/removal`: the removal under way, or its plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removal {
    /// Name of the aggregate.
    pub aggregate: String,
    /// State of the removal.
    pub state: RemovalState,
    /// Paths of the devices that leave.
    pub devices: Vec<String>,
    /// Capacity of the aggregate without them.
    pub size_bytes: u64,
    /// Space that was in use on the devices when the removal began, or when the aggregate was
    /// opened; absent until that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Space that is still in use on them; absent until that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_bytes: Option<u64>,
    /// Part that has moved, in whole percent.
    pub percent: u64,
    /// Blocks that could not be moved, because they cannot be read.
    pub stuck_block_count: u64,
    /// When it began, or the aggregate was opened; absent if none is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// Bytes moved in a second, on the average.
    pub bytes_per_second: u64,
    /// Seconds until it ends, if it goes on like this; absent while that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_the_daemon_reads() {
        let request = RemoveDevice {
            device: "/dev/sde".to_owned(),
            dry_run: true,
        };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(RemoveDevice::parse(&body), Ok(request));
        let missing = RemoveDevice::parse(b"{}").expect_err("no device");
        assert_eq!(missing.field.as_deref(), Some("device"));
    }
}
