//! `GET /v1/status`: whether all is well and, where it is not, what happened and what to do.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{AggregateState, Journal, Recovery};

/// Whether all is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// All is well.
    Healthy,
    /// It works, and somebody should look.
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
    /// How bad it is.
    pub health: Health,
    /// Whose: `aggregate aggr0`.
    pub object: String,
    /// What happened.
    pub what: String,
    /// What to do.
    pub action: String,
    /// Where more is said about the code.
    #[serde(default)]
    pub page: String,
}

/// An aggregate, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AggregateSummary {
    /// Its name.
    pub name: String,
    /// How it is doing.
    pub state: AggregateState,
    /// All that its devices have for data.
    pub size_bytes: u64,
    /// What clients can still fill.
    pub free_bytes: u64,
    /// Its journal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<Journal>,
    /// What its journal gave back when it was opened.
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
    /// Every aggregate, in short.
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
    /// How long the daemon has been ready.
    pub uptime_seconds: u64,
}
