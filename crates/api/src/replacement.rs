//! Replacement of a drive of a mirror, and how far a drive has caught up.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::required;
use crate::{DeviceKind, Fields, Problem};

/// `POST /v1/aggregates/{aggregate}/actions/replace`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReplaceDrive {
    /// Path of the drive that is replaced, as the aggregate shows it. It may be missing, or failed,
    /// or in use.
    pub device: String,
    /// Absolute path of the new drive: an empty directory, a regular file or a block device.
    pub with: String,
    /// Size of the new drive if it is a directory. None: the size of the one that is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Whether existing contents of a file or block device may be overwritten.
    #[schema(required = false)]
    pub discard_contents: bool,
    /// Only check whether the drive could be replaced, and report which contents would be lost.
    #[schema(required = false)]
    pub dry_run: bool,
}

impl ReplaceDrive {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<ReplaceDrive, Problem> {
        let mut fields = Fields::parse(body)?;
        let device = fields.parsed("device")?;
        let with = fields.parsed("with")?;
        let request = ReplaceDrive {
            device: required("device", device)?,
            with: required("with", with)?,
            size_bytes: fields.integer("size_bytes")?,
            discard_contents: fields.flag("discard_contents")?,
            dry_run: fields.flag("dry_run")?,
        };
        fields.finish()?;
        Ok(request)
    }
}

/// The result, or the plan, of a replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replacement {
    /// Name of the aggregate.
    pub aggregate: String,
    /// Whether the request only asked what would happen.
    pub dry_run: bool,
    /// The group that both drives belong to.
    pub group: u64,
    /// Path of the drive that is replaced.
    pub device: String,
    /// Whether it was in use until then.
    pub was_in_use: bool,
    /// Path of the new drive.
    pub with: String,
    /// Kind of the new drive.
    pub kind: DeviceKind,
    /// Size of the new drive.
    pub size_bytes: u64,
    /// Whether the new drive has contents that would be lost.
    pub holds_data: bool,
}

/// How far a drive has caught up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatchingUp {
    /// Bytes that the drive has passed, whether in use or not.
    pub passed_bytes: u64,
    /// All that it has to pass.
    pub total_bytes: u64,
    /// The same in whole percent.
    pub percent: u64,
    /// Bytes passed in a second, on the average since it began.
    pub bytes_per_second: u64,
    /// Seconds until it has everything, if it goes on like this; absent while that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}

impl CatchingUp {
    /// Returns the progress of a drive that began `seconds` ago.
    #[must_use]
    pub fn of(passed_bytes: u64, total_bytes: u64, seconds: u64) -> CatchingUp {
        let percent = u128::from(passed_bytes) * 100 / u128::from(total_bytes.max(1));
        let bytes_per_second = passed_bytes / seconds.max(1);
        let left = total_bytes.saturating_sub(passed_bytes);
        CatchingUp {
            passed_bytes,
            total_bytes,
            percent: u64::try_from(percent).map_or(100, |percent| percent.min(100)),
            bytes_per_second,
            eta_seconds: left.checked_div(bytes_per_second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn what_a_client_writes_the_daemon_reads() {
        let request = ReplaceDrive {
            device: "/dev/sdb".to_owned(),
            with: "/dev/sdd".to_owned(),
            size_bytes: Some(1 << 30),
            discard_contents: true,
            dry_run: true,
        };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(ReplaceDrive::parse(&body), Ok(request));
    }

    #[test]
    fn both_drives_are_named_and_nothing_else() {
        for (body, code, field) in [
            ("{}", Code::MissingField, "device"),
            ("{\"device\": \"/a\"}", Code::MissingField, "with"),
            (
                "{\"device\": 7, \"with\": \"/b\"}",
                Code::InvalidValue,
                "device",
            ),
            (
                "{\"device\": \"/a\", \"with\": \"/b\", \"by\": 1}",
                Code::UnknownField,
                "by",
            ),
        ] {
            let problem = ReplaceDrive::parse(body.as_bytes()).expect_err(body);
            assert_eq!(
                (problem.code, problem.field.as_deref()),
                (code, Some(field))
            );
        }
    }

    #[test]
    fn progress_has_a_rate_and_an_end() {
        let of = |passed, seconds| {
            let it = CatchingUp::of(passed, 1000, seconds);
            (it.percent, it.bytes_per_second, it.eta_seconds)
        };
        assert_eq!(of(0, 0), (0, 0, None));
        assert_eq!(of(250, 0), (25, 250, Some(3)));
        assert_eq!(of(500, 10), (50, 50, Some(10)));
        assert_eq!(of(1000, 10), (100, 100, Some(0)));
        assert_eq!(CatchingUp::of(0, 0, 5).percent, 0);
    }
}
