//! `GET /v1/events`: what happened lately, for somebody who looks and for programs that listen.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// The daemon became ready, or is stopping.
    Daemon,
    /// Somebody changed something; it is also in the history.
    Change,
    /// Something an operator should know has begun.
    Alert,
    /// It is over.
    Cleared,
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
            EventKind::Job => "job",
        })
    }
}

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Somebody should look.
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
    /// Grows by one with each event since the daemon began.
    pub number: u64,
    /// When, RFC 3339 in UTC.
    pub time: String,
    /// How much it matters.
    pub severity: Severity,
    /// What kind of thing.
    pub kind: EventKind,
    /// To what it happened.
    pub object: String,
    /// `EVG-NNNN` of an alert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// In words.
    pub text: String,
}

/// `GET /v1/events`, unless it is asked for as a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Events {
    /// Oldest first; since the daemon began, and not for ever.
    pub events: Vec<Event>,
}
