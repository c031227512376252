//! Scans: what goes on in the background for a volume's snapshots, and how fast.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::required;
use crate::{Fields, Problem};

/// `PUT /v1/volumes/{v}/scan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SetScan {
    /// Of what a consistency point may do for scans, 0 to 100. At 0 they rest, until the pool is
    /// short of space.
    pub pace_percent: u8,
}

impl SetScan {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<SetScan, Problem> {
        let mut fields = Fields::parse(body)?;
        let percent = fields.integer("pace_percent")?;
        fields.finish()?;
        match u8::try_from(required("pace_percent", percent)?) {
            Ok(pace_percent) if pace_percent <= 100 => Ok(SetScan { pace_percent }),
            _ => {
                let text = "use a whole number from 0, at which scans rest, to 100";
                Err(Problem::invalid("pace_percent", text))
            }
        }
    }
}

/// `GET /v1/volumes/{v}/scan`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scan {
    /// Which volume.
    pub volume: String,
    /// What is under way: `none`; `fold`, which finds out what a restore left to a snapshot alone;
    /// `delete`, which gives back what deleted snapshots held; `release`, the end of that.
    pub kind: String,
    /// Deleted snapshots that the pass is for.
    pub deleted_count: u64,
    /// Snapshots that were deleted later: the next pass is for them.
    pub waiting_count: u64,
    /// How far the pass is, 0 to 100; 100 if none is under way.
    pub percent: u64,
    /// Seconds until it ends, if it goes on as it did; absent if that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
    /// How a delete pass finds what the deleted snapshots alone hold: by `subtraction` or by
    /// `addition`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// What deletions in the volume have yet to give back, about.
    pub pending_free_bytes: u64,
    /// Of what a consistency point may do for scans, 0 to 100; at 0 they rest.
    pub pace_percent: u8,
    /// Blocks of the maps, each of 128 MiB of the volume, that delete passes did by subtraction
    /// since the daemon began.
    pub subtracted_maps: u64,
    /// The same by addition.
    pub added_maps: u64,
    /// Those they did not have to look into.
    pub skipped_maps: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn a_pace_is_a_percentage() {
        for pace_percent in [0, 1, 100] {
            let request = SetScan { pace_percent };
            let body = serde_json::to_vec(&request).expect("JSON");
            assert_eq!(SetScan::parse(&body), Ok(request));
        }
        for (body, code) in [
            ("{}", Code::MissingField),
            ("{\"pace_percent\": 101}", Code::InvalidValue),
            ("{\"pace_percent\": \"fast\"}", Code::InvalidValue),
            ("{\"pace_percent\": 1, \"x\": 1}", Code::UnknownField),
        ] {
            assert_eq!(
                SetScan::parse(body.as_bytes()).expect_err(body).code,
                code,
                "{body}"
            );
        }
    }
}
