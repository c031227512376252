//! Scans: background work for a volume's snapshots, and its pace.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::required;
use crate::{Fields, Problem};

/// `PUT /v1/volumes/{v}/scan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SetScan {
    /// Share of a consistency point's work that scans may use, 0 to 100. At 0 they pause until the
    /// pool is short of space.
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
    /// Name of the volume.
    pub volume: String,
    /// Kind of the running pass: `none`; `fold`, which finds blocks that a restore left to a
    /// snapshot alone; `delete`, which frees blocks of deleted snapshots; `release`, the end of
    /// that.
    pub kind: String,
    /// Deleted snapshots that the pass is for.
    pub deleted_count: u64,
    /// Number of snapshots deleted since the pass began, which wait for the next pass.
    pub waiting_count: u64,
    /// Progress of the pass, 0 to 100; 100 if none is running.
    pub percent: u64,
    /// Seconds until the pass ends at its present rate; absent while unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
    /// Method by which a delete pass finds blocks of deleted snapshots alone: `subtraction` or
    /// `addition`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// Estimated space that deletions in the volume have yet to free.
    pub pending_free_bytes: u64,
    /// Share of a consistency point's work that scans may use, 0 to 100; at 0 they pause.
    pub pace_percent: u8,
    /// Blocks of the maps, each of 128 MiB of the volume, that delete passes did by subtraction
    /// since the daemon began.
    pub subtracted_maps: u64,
    /// Blocks of the maps that delete passes did by addition.
    pub added_maps: u64,
    /// Blocks of the maps that delete passes could skip.
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
