//! `GET /v1/statistics`: counters since the daemon began, for `top`. Rates are differences of two
//! answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Statistics {
    /// Milliseconds since the daemon was ready.
    pub uptime_ms: u64,
    /// NBD connections now.
    pub connection_count: u64,
    /// Memory pages of the process that are in use now.
    pub memory_bytes: u64,
    /// Look-ups in the page cache that found what they looked for.
    pub cache_hits: u64,
    /// Those that did not.
    pub cache_misses: u64,
    /// What NBD clients did, by kind of request.
    pub operations: Vec<Operation>,
    /// Aggregates.
    pub aggregates: Vec<AggregateStatistics>,
}

/// One kind of request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Operation {
    /// `read`, `write`, `flush`, …
    pub op: String,
    /// How many were answered.
    pub count: u64,
    /// How many of them with an error.
    pub error_count: u64,
    /// What they carried.
    pub bytes: u64,
    /// How long they took, together.
    pub duration_us: u64,
}

/// One aggregate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AggregateStatistics {
    /// Its name.
    pub name: String,
    /// Consistency points so far.
    pub committed_cp: u64,
    /// In use at the last one.
    pub used_bytes: u64,
    /// What clients can still fill.
    pub free_bytes: u64,
    /// In memory, for the next consistency points to write.
    pub dirty_bytes: u64,
    /// To be given back by deletions.
    pub pending_free_bytes: u64,
}
