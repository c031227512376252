//! `GET /v1/history`: every administrative change that was made: who, when, what.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// Grows by one with each change; gaps are changes that were forgotten for age.
    pub number: u64,
    /// When it was durable, RFC 3339 in UTC.
    pub time: String,
    /// Who asked: a user of the host (`uid 0 (root)`), the name of a token, or the daemon itself.
    pub who: String,
    /// What was done: `volume create`.
    pub what: String,
    /// To what: `aggregate aggr0`, `vol0`, `vol0/lun0`.
    pub object: String,
    /// With which settings.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// `GET /v1/history`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// Oldest first.
    pub changes: Vec<Change>,
}
