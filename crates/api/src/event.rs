//! `GET /v1/events`: recent events, as a list for people or as a stream for programs.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// The daemon became ready, or is stopping.
    Daemon,
    /// An administrator changed something; the history has the change, too.
    Change,
    /// Something an operator should know has begun.
    Alert,
    /// A condition has ended.
    Cleared,
    /// A block is damaged, or requests of clients were refused because there is no space.
    Failure,
    /// A job began or ended.
    Job,
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            EventKind::Daemon => "daemon",
            EventKind::Change => "change",
            EventKind::Alert => "alert",
            EventKind::Cleared => "cleared",
            EventKind::Failure => "failure",
            EventKind::Job => "job",
        })
    }
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// An operator should check this.
    Warning,
    /// Something does not work.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Grows by one with each event, also across restarts of the daemon.
    pub number: u64,
    /// Time of the event, RFC 3339 in UTC.
    #[schema(format = DateTime)]
    pub time: String,
    /// Severity of the event.
    pub severity: Severity,
    /// Kind of the event.
    pub kind: EventKind,
    /// Object that the event concerns.
    pub object: String,
    /// `EVG-NNNN` of an alert or a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Description for people.
    pub text: String,
}

/// `GET /v1/events`, unless a stream is requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Events {
    /// Oldest first; the newest thousands, also those of earlier daemons.
    pub events: Vec<Event>,
}
