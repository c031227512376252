//! The watch: checks the state of the daemon once a second, and reports what has changed.
//!
//! A new condition is an alert, and a condition that has ended is cleared; jobs that have ended are
//! reported. The watch only reads counters, so an idle daemon stays idle.
//!
//! Drives of mirrors that fail are reported (`losses`), and the membership epochs that
//! their loss makes are recorded in the data directory.
//!
//! Once an hour the watch records the consistency points of the aggregates in the data directory.
//!
//! Under systemd with a watchdog, the watch also asks every reactor for a sign of life. It tells
//! systemd that the daemon is alive only when all reactors have answered, so systemd restarts a
//! daemon that hangs.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use everglade_api::{Code, Condition, EventKind, Health, Job, JobState, Severity};

use crate::Stop;
use crate::administrator::Administrator;
use crate::losses::Losses;
use crate::ready;
use crate::records::Records;
use crate::records::events::NewEvent;

/// The time between two checks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Interval between records of the aggregates' consistency points (decision 0031).
const NOTE_EVERY: Duration = Duration::from_secs(3600);

/// The running watch.
pub struct Watch {
    thread: JoinHandle<()>,
}

/// Starts looking.
///
/// # Errors
/// The system gives no thread.
pub fn start(
    administrator: Arc<Administrator>,
    records: Arc<Records>,
    stop: &Stop,
) -> io::Result<Watch> {
    let (ask, asked) = mpsc::channel();
    stop.on_ask(move || _ = ask.send(()));
    let mut watcher = Watcher {
        administrator,
        records,
        conditions: BTreeMap::new(),
        losses: Losses::default(),
        owes_epochs: false,
        watchdog: ready::watchdog_interval(),
        fed: None,
        noted: Instant::now(),
    };
    let run = move || {
        loop {
            watcher.check();
            match asked.recv_timeout(LOOK_EVERY) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return watcher.say_stopping(),
            }
        }
    };
    let thread = crate::background::spawn("watch", run)?;
    Ok(Watch { thread })
}

impl Watch {
    /// Waits for the end after a stop.
    pub fn wait(self) {
        if self.thread.join().is_err() {
            tracing::error!("the watch ended by a panic");
        }
    }
}

struct Watcher {
    administrator: Arc<Administrator>,
    records: Arc<Records>,
    /// The present conditions, by object and code.
    conditions: BTreeMap<(String, String), Condition>,
    losses: Losses,
    /// True if the membership epochs could not be recorded.
    owes_epochs: bool,
    /// Interval at which systemd expects a sign of life.
    watchdog: Option<Duration>,
    fed: Option<Instant>,
    /// Time at which the consistency points were recorded last.
    noted: Instant,
}

impl Watcher {
    fn check(&mut self) {
        let now = self.administrator.now();
        let key = |found: &Condition| (found.object.clone(), found.code.clone());
        let found = self.administrator.status().conditions.into_iter();
        let found: BTreeMap<_, _> = found
            .map(|condition| (key(&condition), condition))
            .collect();
        for told in changes(&self.conditions, &found) {
            self.records.events.tell(now, told);
        }
        self.conditions = found;
        let aggregates = self.administrator.aggregates().aggregates;
        for told in self.losses.check(now, &aggregates) {
            self.records.events.tell(now, told);
        }
        self.follow_epochs();
        let short = Code::HostLow.to_string();
        if self.conditions.values().any(|known| known.code == short) {
            self.administrator.give_back();
        }
        let jobs = &self.records.jobs;
        let given_back = jobs.advance(now, &self.administrator.pending());
        let split = jobs.advance_splits(now, &self.administrator.splits());
        let repaired = jobs.advance_repairs(now, &self.administrator.repairs());
        for job in given_back.iter().chain(&split).chain(&repaired) {
            self.records.events.tell(now, ended(job));
        }
        let clones = self.administrator.lun_clones();
        for job in self.records.jobs.advance_clones(now, &clones) {
            self.records.events.tell(now, ended(&job));
        }
        self.administrator.settle();
        self.records.settle();
        if self.noted.elapsed() >= NOTE_EVERY {
            self.noted = Instant::now();
            self.administrator.see_points();
        }
        self.feed_watchdog();
    }

    /// Records the membership epochs. A failure is logged once.
    fn follow_epochs(&mut self) {
        let followed = self.administrator.follow_epochs();
        if let (Err(error), false) = (&followed, self.owes_epochs) {
            tracing::warn!("{error}; which drives are in use is recorded when that is possible");
        }
        self.owes_epochs = followed.is_err();
    }

    fn feed_watchdog(&mut self) {
        let Some(interval) = self.watchdog else {
            return;
        };
        let is_due = self.fed.is_none_or(|fed| fed.elapsed() >= interval / 3);
        if is_due && self.administrator.is_alive() {
            self.fed = Some(Instant::now());
            ready::announce_alive();
        }
    }

    fn say_stopping(&self) {
        let told = NewEvent {
            severity: Severity::Info,
            kind: EventKind::Daemon,
            object: "daemon".to_owned(),
            code: None,
            text: "stopping".to_owned(),
        };
        self.records.events.tell(self.administrator.now(), told);
    }
}

/// Returns the events for a change from these conditions to those.
fn changes(
    before: &BTreeMap<(String, String), Condition>,
    after: &BTreeMap<(String, String), Condition>,
) -> Vec<NewEvent> {
    let told = |condition: &Condition, severity, kind, text| NewEvent {
        severity,
        kind,
        object: condition.object.clone(),
        code: Some(condition.code.clone()),
        text,
    };
    let begun = after.iter().filter(|(key, _)| !before.contains_key(*key));
    let over = before.iter().filter(|(key, _)| !after.contains_key(*key));
    let begun = begun.map(|(_, condition)| {
        let severity = match condition.health {
            Health::Unhealthy => Severity::Error,
            Health::Warning | Health::Healthy => Severity::Warning,
        };
        let text = format!("{}; {}", condition.what, condition.action);
        told(condition, severity, EventKind::Alert, text)
    });
    let over = over.map(|(_, condition)| {
        let text = format!("it is over: {}", condition.what);
        told(condition, Severity::Info, EventKind::Cleared, text)
    });
    begun.chain(over).collect()
}

/// The event for a job that has ended.
fn ended(job: &Job) -> NewEvent {
    let severity = match job.state {
        JobState::Failed => Severity::Error,
        JobState::Running | JobState::Done => Severity::Info,
    };
    NewEvent {
        severity,
        kind: EventKind::Job,
        object: job.object.clone(),
        code: None,
        text: match &job.detail {
            Some(detail) => format!("job {} ({}) {}: {detail}", job.id, job.kind, job.state),
            None => format!("job {} ({}) is {}", job.id, job.kind, job.state),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(codes: &[&str]) -> BTreeMap<(String, String), Condition> {
        let condition = |code: &&str| Condition {
            code: (*code).to_owned(),
            health: Health::Warning,
            object: "aggregate a".to_owned(),
            what: "4.0 KiB are left".to_owned(),
            action: "delete something".to_owned(),
            page: String::new(),
        };
        let entry = |code: &&str| {
            (
                ("aggregate a".to_owned(), code.to_string()),
                condition(code),
            )
        };
        codes.iter().map(entry).collect()
    }

    #[test]
    fn a_condition_is_told_when_it_begins_and_when_it_is_over() {
        let (none, some) = (conditions(&[]), conditions(&["EVG-4002"]));
        let begun = changes(&none, &some);
        assert_eq!((begun.len(), begun[0].kind), (1, EventKind::Alert));
        assert_eq!(begun[0].code.as_deref(), Some("EVG-4002"));
        assert!(changes(&some, &some).is_empty(), "it is told once");
        assert_eq!(changes(&some, &none)[0].kind, EventKind::Cleared);
    }
}
