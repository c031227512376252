//! Differences of a LUN between two images of its volume, for backup tools and for people.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Code, Name, Problem};

/// `GET /v1/volumes/{v}/snapshots/{s}/changes?lun=L&…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareSnapshot {
    /// Name of the LUN.
    pub lun: Name,
    /// The other snapshot; the active image if absent.
    pub until: Option<Name>,
    /// Offset of the first byte to compare.
    pub offset: u64,
    /// Number of bytes to compare, at least 1; to the end if absent.
    pub length: Option<u64>,
    /// Maximum number of ranges to return, at least 1.
    pub max_records: Option<usize>,
}

impl CompareSnapshot {
    /// Names of the parameters, in the order of [`CompareSnapshot::parse`].
    pub const PARAMETERS: [&'static str; 5] = ["lun", "until", "offset", "length", "max_records"];

    /// Compares a whole LUN.
    #[must_use]
    pub fn whole(lun: Name, until: Option<Name>) -> CompareSnapshot {
        CompareSnapshot {
            lun,
            until,
            offset: 0,
            length: None,
            max_records: None,
        }
    }

    /// Reads the values of the parameters.
    ///
    /// # Errors
    /// The first one that is wrong.
    pub fn parse(values: [Option<String>; 5]) -> Result<CompareSnapshot, Problem> {
        let [lun, until, offset, length, max_records] = values;
        let name = |field: &'static str, value: Option<String>| {
            let parsed = value.map(|value| value.parse::<Name>()).transpose();
            parsed.map_err(|error| Problem::invalid(field, error))
        };
        let missing = || Problem::of_field(Code::MissingField, "lun", "name a LUN of the volume");
        Ok(CompareSnapshot {
            lun: name("lun", lun)?.ok_or_else(missing)?,
            until: name("until", until)?,
            offset: number("offset", offset, 0, u64::MAX)?.unwrap_or(0),
            length: number("length", length, 1, u64::MAX)?,
            max_records: number("max_records", max_records, 1, 10_000)?
                .and_then(|most| usize::try_from(most).ok()),
        })
    }

    /// Returns the query of the request.
    #[must_use]
    pub fn query(&self) -> String {
        let mut query = format!("lun={}&offset={}", self.lun, self.offset);
        // Writing to a String cannot fail.
        if let Some(until) = &self.until {
            let _ = write!(query, "&until={until}");
        }
        if let Some(length) = self.length {
            let _ = write!(query, "&length={length}");
        }
        if let Some(most) = self.max_records {
            let _ = write!(query, "&max_records={most}");
        }
        query
    }
}

fn number(
    field: &str,
    value: Option<String>,
    least: u64,
    most: u64,
) -> Result<Option<u64>, Problem> {
    let Some(value) = value else { return Ok(None) };
    match value.parse() {
        Ok(found) if (least..=most).contains(&found) => Ok(Some(found)),
        _ => {
            let shown: String = value
                .chars()
                .take(64)
                .flat_map(char::escape_default)
                .collect();
            let text =
                format!("\"{shown}\" is not possible; use a whole number from {least} to {most}");
            Err(Problem::invalid(field, text))
        }
    }
}

/// Bytes in a row that may read differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedRange {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Differences of a LUN between a snapshot and a later image, from an offset on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotChanges {
    /// Name of the volume.
    pub volume: String,
    /// Name of the older snapshot.
    pub snapshot: String,
    /// Name of the newer snapshot; absent for the active image, which may change meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Name of the LUN.
    pub lun: String,
    /// Size of the LUN in the newer image. Bytes beyond its end in the snapshot are compared with
    /// zeroes.
    pub lun_bytes: u64,
    /// Offset of the first byte compared.
    pub offset: u64,
    /// Number of bytes compared from `offset` on.
    pub compared_bytes: u64,
    /// The sum of the ranges.
    pub changed_bytes: u64,
    /// Ranges that may differ, in ascending order, in blocks of 4 KiB; all other bytes are equal.
    pub changes: Vec<ChangedRange>,
    /// Offset of the next request; absent at the end. Ranges of two answers may touch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(query: &str) -> [Option<String>; 5] {
        CompareSnapshot::PARAMETERS.map(|name| {
            let mut parts = query.split('&').filter_map(|part| part.split_once('='));
            parts
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_owned())
        })
    }

    #[test]
    fn what_a_client_asks_the_daemon_understands() {
        let name = |name: &str| name.parse::<Name>().expect("a name");
        let mut asked = CompareSnapshot::whole(name("l"), None);
        assert_eq!(
            CompareSnapshot::parse(values(&asked.query())),
            Ok(asked.clone())
        );
        asked.until = Some(name("t"));
        (asked.offset, asked.length, asked.max_records) = (1 << 40, Some(4096), Some(7));
        assert_eq!(CompareSnapshot::parse(values(&asked.query())), Ok(asked));
    }

    #[test]
    fn a_bad_parameter_is_named() {
        for (query, code, field) in [
            ("", Code::MissingField, "lun"),
            ("lun=a/b", Code::InvalidValue, "lun"),
            ("lun=a&until=b@c", Code::InvalidValue, "until"),
            ("lun=a&offset=-1", Code::InvalidValue, "offset"),
            ("lun=a&length=0", Code::InvalidValue, "length"),
            ("lun=a&max_records=10001", Code::InvalidValue, "max_records"),
        ] {
            let problem = CompareSnapshot::parse(values(query)).expect_err(query);
            assert_eq!(
                (problem.code, problem.field.as_deref()),
                (code, Some(field)),
                "{query}"
            );
        }
    }
}
