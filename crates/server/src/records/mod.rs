//! Records for administrators: the history of changes, events and jobs.
//!
//! | | kept | lost when |
//! | --- | --- | --- |
//! | [`history`] | in the data directory, the newest thousands | never, up to its bound |
//! | [`events`] | likewise | never, but for the last second of a daemon that was killed |
//! | [`jobs`] | in memory, running jobs and the newest that ended | the daemon ends, except the work |
//!
//! Jobs that clone LUNs ([`clones`]), repair aggregates ([`repairs`]) and split clones ([`splits`])
//! share `follow` and `course`; the history and the events share `lines`. All records are bounded,
//! and no client operation waits for a record.

pub mod clones;
pub(crate) mod course;
pub mod events;
mod follow;
pub mod history;
pub mod jobs;
mod lines;
pub mod repairs;
pub mod splits;

use std::path::Path;

use everglade_api::{Change, EventKind, Moment, Severity};

use events::{Events, NewEvent};
use history::{History, Keyed};
use jobs::Jobs;

/// The history, the events and the jobs.
pub struct Records {
    /// Changes that administrators made.
    pub history: History,
    /// Events, also those of earlier daemons.
    pub events: Events,
    /// Running jobs, and the newest that ended.
    pub jobs: Jobs,
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// `volume create`.
    pub what: &'static str,
    /// Name of the object that was changed.
    pub object: String,
    /// Settings of the change.
    pub detail: String,
}

impl Records {
    /// Opens the records of a data directory. A file that cannot be read is begun anew, and the log
    /// says so.
    #[must_use]
    pub fn open(data_dir: &Path) -> Records {
        Records {
            history: History::open(data_dir),
            events: Events::open(data_dir),
            jobs: Jobs::new(),
        }
    }

    /// Writes new events, and the lines of the history that could not be written before.
    pub fn settle(&self) {
        self.history.settle();
        self.events.settle();
    }

    /// Writes down a change. A failed write of the line does not undo the change.
    pub fn remember(&self, now: Moment, who: &str, deed: &Deed) {
        self.remember_keyed(now, who, deed, None);
    }

    /// Records a change whose request had a key. Returns the change as the history has it.
    pub fn remember_keyed(
        &self,
        now: Moment,
        who: &str,
        deed: &Deed,
        keyed: Option<Keyed>,
    ) -> Change {
        self.events.tell(
            now,
            NewEvent {
                severity: Severity::Info,
                kind: EventKind::Change,
                object: deed.object.clone(),
                code: None,
                text: format!("{} by {who}", deed.what),
            },
        );
        let (change, written) = self.history.append(now, who, deed, keyed);
        if let Err(error) = written {
            let count = self.history.unwritten();
            tracing::error!(
                "the history of changes lacks the newest {count} until it can be written: {error}"
            );
            self.events.tell(
                now,
                NewEvent {
                    severity: Severity::Warning,
                    kind: EventKind::Daemon,
                    object: "history".to_owned(),
                    code: None,
                    text: format!("a change was made and cannot be written down yet: {error}"),
                },
            );
        }
        change
    }
}
