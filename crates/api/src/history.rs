//! `GET /v1/history`: every administrative change, with its caller, action and time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One administrative change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// Grows by one with each change; gaps are changes that were forgotten for age.
    pub number: u64,
    /// Time at which the change was durable, RFC 3339 in UTC.
    #[schema(format = DateTime)]
    pub time: String,
    /// Caller: a user of the host (`uid 0 (root)`), the name of a token, or the daemon itself.
    pub who: String,
    /// Action: `volume create`.
    pub what: String,
    /// Object: `aggregate aggr0`, `vol0`, `vol0/lun0`.
    pub object: String,
    /// Settings of the change.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// `GET /v1/history`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// Oldest first.
    pub changes: Vec<Change>,
}
