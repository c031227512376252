//! Spare drives.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::required;
use crate::{DeviceKind, Fields, Problem};

/// `POST /v1/spares` and `POST /v1/spares/actions/remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SpareDrive {
    /// Absolute path of the drive: an empty directory, a regular file or a block device.
    pub device: String,
}

impl SpareDrive {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<SpareDrive, Problem> {
        let mut fields = Fields::parse(body)?;
        let device = fields.parsed("device")?;
        fields.finish()?;
        Ok(SpareDrive {
            device: required("device", device)?,
        })
    }
}

/// A spare drive: it takes the place of the first drive of a mirror that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Spare {
    /// Its path.
    pub device: String,
    /// Its kind; absent if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<DeviceKind>,
    /// Its size; absent for a directory, which gets the size of the drive that it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// `GET /v1/spares`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Spares {
    /// Spare drives, in the order in which they were added.
    pub spares: Vec<Spare>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_the_daemon_reads() {
        let request = SpareDrive {
            device: "/dev/sde".to_owned(),
        };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(SpareDrive::parse(&body), Ok(request));
        let missing = SpareDrive::parse(b"{}").expect_err("no device");
        assert_eq!(missing.field.as_deref(), Some("device"));
    }
}
