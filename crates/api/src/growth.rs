//! Aggregates that become larger: by more devices, or because their devices become larger.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::aggregate::DEVICES_MAX;
use crate::{DeviceKind, Fields, Problem};

/// `POST /v1/aggregates/{aggregate}/actions/add`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AddDevices {
    /// Absolute paths: empty directories, regular files, block devices. None: a directory in the
    /// data directory, which needs `size_bytes`. If the aggregate has mirrors or parity groups, the
    /// drives of one group after the other.
    #[schema(required = false, max_items = 64)]
    pub devices: Vec<String>,
    /// Size of each device that is a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Number of the group that gets the devices, from 1: a parity group gets data drives, a mirror
    /// gets copies. None: the devices are groups of their own, or single devices. A directory is as
    /// large as the others of the group, unless `size_bytes` says otherwise.
    #[schema(minimum = 1, maximum = 65535)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    /// Whether the parity group gets the devices for more parity instead.
    #[schema(required = false)]
    pub parity: bool,
    /// Whether existing contents of files and block devices may be overwritten.
    #[schema(required = false)]
    pub discard_contents: bool,
    /// Only check whether the devices could be added, and report which contents would be lost.
    #[schema(required = false)]
    pub dry_run: bool,
}

impl AddDevices {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<AddDevices, Problem> {
        let mut fields = Fields::parse(body)?;
        let request = AddDevices {
            devices: fields.strings("devices", DEVICES_MAX)?,
            size_bytes: fields.integer("size_bytes")?,
            group: fields.integer("group")?,
            parity: fields.flag("parity")?,
            discard_contents: fields.flag("discard_contents")?,
            dry_run: fields.flag("dry_run")?,
        };
        fields.finish()?;
        Ok(request)
    }
}

/// `POST /v1/aggregates/{aggregate}/actions/resize`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ResizeAggregate {
    /// Path of the device that becomes larger, with its mirror or parity group. None: the only
    /// directory, or those of all groups, if there is a size; else all files and block devices that
    /// have become larger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// New size of a device that is a directory. None: the size that a file or block device has
    /// now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Only check whether the aggregate could become larger, and report by how much.
    #[schema(required = false)]
    pub dry_run: bool,
}

impl ResizeAggregate {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<ResizeAggregate, Problem> {
        let mut fields = Fields::parse(body)?;
        let request = ResizeAggregate {
            device: fields.parsed("device")?,
            size_bytes: fields.integer("size_bytes")?,
            dry_run: fields.flag("dry_run")?,
        };
        fields.finish()?;
        Ok(request)
    }
}

/// The result, or the plan, of a growth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Growth {
    /// Name of the aggregate.
    pub aggregate: String,
    /// Whether the request only asked what would happen.
    pub dry_run: bool,
    /// Capacity for data of all its devices, before.
    pub former_size_bytes: u64,
    /// Capacity for data of all its devices, after.
    pub size_bytes: u64,
    /// Kept back for consistency points and deletions, after.
    pub reserve_bytes: u64,
    /// The devices that are new or larger.
    pub devices: Vec<GrownDevice>,
}

/// A device that is new in its aggregate, or larger than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrownDevice {
    /// Path of the device.
    pub path: String,
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Its size before; absent if it is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_size_bytes: Option<u64>,
    /// Its size after.
    pub size_bytes: u64,
    /// Whether the device has contents that would be lost.
    pub holds_data: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn what_a_client_writes_the_daemon_reads() {
        let add = AddDevices {
            devices: vec!["/dev/sdb".to_owned()],
            size_bytes: Some(1 << 30),
            group: Some(2),
            parity: true,
            discard_contents: true,
            dry_run: true,
        };
        let body = serde_json::to_vec(&add).expect("JSON");
        assert_eq!(AddDevices::parse(&body), Ok(add));
        let resize = ResizeAggregate {
            device: Some("/srv/big".to_owned()),
            size_bytes: Some(1 << 40),
            dry_run: true,
        };
        let body = serde_json::to_vec(&resize).expect("JSON");
        assert_eq!(ResizeAggregate::parse(&body), Ok(resize));
        let nothing = ResizeAggregate::default();
        assert_eq!(ResizeAggregate::parse(b"{}"), Ok(nothing));
    }

    #[test]
    fn a_mistyped_field_is_refused_by_name() {
        let add = AddDevices::parse(b"{\"device\": \"/dev/sdb\"}").expect_err("a typo");
        assert_eq!(
            (add.code, add.field.as_deref()),
            (Code::UnknownField, Some("device"))
        );
        let resize = ResizeAggregate::parse(b"{\"size\": 7}").expect_err("a typo");
        assert_eq!(
            (resize.code, resize.field.as_deref()),
            (Code::UnknownField, Some("size"))
        );
        let resize = ResizeAggregate::parse(b"{\"device\": 7}").expect_err("a number");
        assert_eq!(
            (resize.code, resize.field.as_deref()),
            (Code::InvalidValue, Some("device"))
        );
    }
}
