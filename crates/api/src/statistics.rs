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
    /// Hits of the page cache.
    pub cache_hits: u64,
    /// Misses of the page cache.
    pub cache_misses: u64,
    /// Operations of NBD clients, by kind of request.
    pub operations: Vec<Operation>,
    /// CPU time of the data plane's threads since they began, by subsystem.
    #[serde(default)]
    pub cpu: Vec<CpuTime>,
    /// Aggregates.
    pub aggregates: Vec<AggregateStatistics>,
    /// Devices of the aggregates.
    #[serde(default)]
    pub devices: Vec<DeviceStatistics>,
}

/// What a device did since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceStatistics {
    /// Path of the device.
    pub path: String,
    /// The aggregate that it is a device of.
    pub aggregate: String,
    /// Operations that failed.
    pub error_count: u64,
    /// Reads, writes and flushes.
    pub operations: Vec<DeviceOperation>,
}

/// Operations of one kind on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceOperation {
    /// `read`, `write` or `flush`.
    pub op: String,
    /// Number of operations that are done, also of those that failed.
    pub count: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Sum of the durations.
    pub duration_us: u64,
}

/// CPU time of one subsystem, summed over all reactors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CpuTime {
    /// `protocol`, `client`, `journal`, `cleaner`, `infrastructure`, `parity`, `background` or
    /// `device`.
    pub subsystem: String,
    /// Its CPU time.
    pub time_us: u64,
}

/// One kind of request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Operation {
    /// `read`, `write`, `flush`, …
    pub op: String,
    /// Number of requests answered.
    pub count: u64,
    /// Number of requests answered with an error.
    pub error_count: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Sum of the durations.
    pub duration_us: u64,
}

/// Statistics of one aggregate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AggregateStatistics {
    /// Its name.
    pub name: String,
    /// Consistency points so far.
    pub committed_cp: u64,
    /// Space in use at the last consistency point.
    pub used_bytes: u64,
    /// Space that clients can still fill.
    pub free_bytes: u64,
    /// Data in memory that the next consistency points will write.
    pub dirty_bytes: u64,
    /// Space that deletions have yet to free.
    pub pending_free_bytes: u64,
}
