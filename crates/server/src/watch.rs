//! The watch: checks the state of the daemon once a second, and reports what has changed.
//!
//! A new condition is an alert, and a condition that has ended is cleared. A condition counts as
//! ended when several checks in a row did not find it, so one that comes and goes is told once.
//! Jobs that have ended are reported, and so are damaged blocks and requests that found no space
//! (`incidents`). The watch only reads counters, so an idle daemon stays idle.
//!
//! Drives of mirrors that fail are reported (`losses`), and the membership epochs that
//! their loss makes are recorded in the data directory.
//!
//! Once an hour the watch records the consistency points of the aggregates in the data directory.
//!
//! Under systemd with a watchdog, the watch also asks every reactor for a sign of life. It tells
//! systemd that the daemon is alive only when all reactors have answered, so systemd restarts a
//! daemon that hangs.

mod incidents;

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

/// Checks that must not find a condition before it counts as ended.
const ABSENT_MAX: u32 = 10;

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
        conditions: Conditions::default(),
        incidents: incidents::Teller::default(),
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
    conditions: Conditions,
    incidents: incidents::Teller,
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
        let incidents = self.administrator.incidents();
        for told in self.incidents.news(Instant::now(), &incidents) {
            self.records.events.tell(now, told);
        }
        let aggregates = self.administrator.aggregates().aggregates;
        for told in self.losses.check(now, &aggregates) {
            self.records.events.tell(now, told);
        }
        self.follow_epochs();
        let found = self.administrator.status().conditions;
        let short = Code::HostLow.to_string();
        let is_host_low = found.iter().any(|condition| condition.code == short);
        for told in self.conditions.changes(found) {
            self.records.events.tell(now, told);
        }
        if is_host_low {
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

/// The conditions that were told, by object and code, each with the number of checks since that did
/// not find it.
#[derive(Default)]
struct Conditions(BTreeMap<(String, String), (Condition, u32)>);

impl Conditions {
    /// Takes the conditions that a check found, and returns the events for those that are new or
    /// have ended.
    fn changes(&mut self, found: Vec<Condition>) -> Vec<NewEvent> {
        let mut events = Vec::new();
        for (_, absent) in self.0.values_mut() {
            *absent += 1;
        }
        for condition in found {
            let key = (condition.object.clone(), condition.code.clone());
            if !self.0.contains_key(&key) {
                events.push(begun(&condition));
            }
            self.0.insert(key, (condition, 0));
        }
        self.0.retain(|_, (condition, absent)| {
            let is_over = *absent >= ABSENT_MAX;
            if is_over {
                events.push(over(condition));
            }
            !is_over
        });
        events
    }
}

fn begun(condition: &Condition) -> NewEvent {
    let severity = match condition.health {
        Health::Unhealthy => Severity::Error,
        Health::Warning | Health::Healthy => Severity::Warning,
    };
    let text = format!("{}; {}", condition.what, condition.action);
    told(condition, severity, EventKind::Alert, text)
}

fn over(condition: &Condition) -> NewEvent {
    let text = format!("it is over: {}", condition.what);
    told(condition, Severity::Info, EventKind::Cleared, text)
}

fn told(condition: &Condition, severity: Severity, kind: EventKind, text: String) -> NewEvent {
    NewEvent {
        severity,
        kind,
        object: condition.object.clone(),
        code: Some(condition.code.clone()),
        text,
    }
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
        code: job.code.clone(),
        text: match &job.detail {
            Some(detail) => format!("job {} ({}) {}: {detail}", job.id, job.kind, job.state),
            None => format!("job {} ({}) is {}", job.id, job.kind, job.state),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(codes: &[&str]) -> Vec<Condition> {
        let condition = |code: &&str| Condition {
            code: (*code).to_owned(),
            health: Health::Warning,
            object: "aggregate a".to_owned(),
            what: "4.0 KiB are left".to_owned(),
            action: "delete something".to_owned(),
            page: String::new(),
        };
        codes.iter().map(condition).collect()
    }

    #[test]
    fn a_condition_is_told_when_it_begins_and_when_it_is_over() {
        let mut known = Conditions::default();
        let begun = known.changes(conditions(&["EVG-4002"]));
        assert_eq!((begun.len(), begun[0].kind), (1, EventKind::Alert));
        assert_eq!(begun[0].code.as_deref(), Some("EVG-4002"));
        let again = known.changes(conditions(&["EVG-4002"]));
        assert!(again.is_empty(), "it is told once");
        for _ in 1..ABSENT_MAX {
            assert!(known.changes(Vec::new()).is_empty());
        }
        let over = known.changes(Vec::new());
        assert_eq!((over.len(), over[0].kind), (1, EventKind::Cleared));
        assert!(known.changes(Vec::new()).is_empty());
    }

    #[test]
    fn a_condition_that_comes_and_goes_is_told_once() {
        let mut known = Conditions::default();
        known.changes(conditions(&["EVG-4003"]));
        for _ in 0..3 * ABSENT_MAX {
            assert!(known.changes(Vec::new()).is_empty());
            assert!(known.changes(conditions(&["EVG-4003"])).is_empty());
        }
        let other = known.changes(conditions(&["EVG-4002", "EVG-4003"]));
        assert_eq!((other.len(), other[0].kind), (1, EventKind::Alert));
    }
}
