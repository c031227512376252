//! `GET /v1/status`: the health of the server, and conditions with their remedies.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{AggregateState, Journal, Recovery};

/// Health of the server or of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// No condition is reported.
    Healthy,
    /// The server works, but an operator should check this.
    Warning,
    /// Something does not work.
    Unhealthy,
}

impl std::fmt::Display for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Health::Healthy => "healthy",
            Health::Warning => "warning",
            Health::Unhealthy => "unhealthy",
        })
    }
}

/// Something an operator should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Condition {
    /// `EVG-NNNN`.
    pub code: String,
    /// Severity of the condition.
    pub health: Health,
    /// Object concerned: `aggregate aggr0`.
    pub object: String,
    /// Description of the condition.
    pub what: String,
    /// Remedy.
    pub action: String,
    /// Page about the code.
    #[serde(default)]
    pub page: String,
}

/// An aggregate, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AggregateSummary {
    /// Its name.
    pub name: String,
    /// State of the aggregate.
    pub state: AggregateState,
    /// Capacity for data of all its devices.
    pub size_bytes: u64,
    /// Space that clients can still fill.
    pub free_bytes: u64,
    /// The journal of the aggregate, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<Journal>,
    /// The replay of the journal when the aggregate was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The worst of all conditions.
    pub health: Health,
    /// Empty if all is well.
    pub conditions: Vec<Condition>,
    /// Summary of every aggregate.
    #[serde(default)]
    pub aggregates: Vec<AggregateSummary>,
    /// Aggregates that serve.
    pub online_count: u64,
    /// Aggregates.
    pub aggregate_count: u64,
    /// Volumes.
    pub volume_count: u64,
    /// LUNs.
    pub lun_count: u64,
    /// NBD connections.
    pub connection_count: u64,
    /// Time since the daemon was ready.
    pub uptime_seconds: u64,
    /// Time that deleted LUNs and volumes can come back for; 0 if they cannot.
    #[serde(default)]
    pub trash_keep_seconds: u64,
}
