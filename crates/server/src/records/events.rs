//! Events: the newest events, also those of earlier daemons, and the listeners.
//!
//! The file `log/events.jsonl` in the data directory has them (`lines`). It is written once a
//! second, if there are new events, and the list is not locked meanwhile. So nobody who tells or
//! reads events waits for the host. A daemon that is killed loses the events of its last second.
//!
//! Alerts, failures and jobs also become lines of the log, at once. The other kinds of events are
//! logged where they happen.
//!
//! A listener that does not keep up loses the oldest events and is told how many it lost; it delays
//! no other listener.

use std::path::Path;

use everglade_api::{Event, EventKind, Moment, Severity};
use everglade_env::lock::{Mutex, MutexGuard};
use tokio::sync::broadcast;

use super::lines::{Lines, Record};

/// Longest text: a condition with its remedy.
const TEXT_CHARS_MAX: usize = 1000;
/// Events that a listener may fall behind.
const BEHIND_MAX: usize = 256;

/// Something that happened, before it has its number and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// How much it matters.
    pub severity: Severity,
    /// The kind of event.
    pub kind: EventKind,
    /// Name of the object concerned.
    pub object: String,
    /// Code of the alert, if the event is one.
    pub code: Option<String>,
    /// Text for people.
    pub text: String,
}

/// See the module's documentation.
pub struct Events {
    lines: Mutex<Lines<Event>>,
    /// Held by the one that writes the file.
    writing: Mutex<()>,
    listeners: broadcast::Sender<Event>,
}

impl Record for Event {
    fn number(&self) -> u64 {
        self.number
    }
}

impl Events {
    pub(super) fn open(data_dir: &Path) -> Events {
        let lines = Lines::open(data_dir, "events.jsonl", "the list of events");
        Events {
            lines: Mutex::new(lines),
            writing: Mutex::new(()),
            listeners: broadcast::channel(BEHIND_MAX).0,
        }
    }

    /// Adds an event.
    pub fn tell(&self, now: Moment, told: NewEvent) {
        let mut lines = self.lock();
        let event = Event {
            number: lines.next(),
            time: now.to_string(),
            severity: told.severity,
            kind: told.kind,
            object: told.object,
            code: told.code,
            text: told.text.chars().take(TEXT_CHARS_MAX).collect(),
        };
        lines.push(event.clone());
        // Sent under the lock, so that listeners receive events in order. There may be no
        // listeners.
        let _ = self.listeners.send(event.clone());
        drop(lines);
        log(&event);
    }

    /// Writes the events that are not in the file. A failed write is tried again with the next
    /// call. Costs nothing if there are none.
    pub(super) fn settle(&self) {
        let _one = self.writing.lock();
        let lines = self.lock();
        if lines.unwritten == 0 {
            return;
        }
        let draft = lines.draft();
        drop(lines);
        let outcome = draft.write();
        if let Err(error) = self.lock().written(&draft, outcome) {
            tracing::debug!("the newest events are not written yet: {error}");
        }
    }

    /// Returns the kept events, oldest first.
    #[must_use]
    pub fn recent(&self) -> Vec<Event> {
        self.lock().records.iter().cloned().collect()
    }

    /// Returns a receiver of future events.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.listeners.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Lines<Event>> {
        self.lines.lock()
    }
}

/// Writes a line of the log, if nobody else does.
fn log(event: &Event) {
    let Event { object, text, .. } = event;
    match event.kind {
        EventKind::Alert | EventKind::Cleared | EventKind::Failure | EventKind::Job => {}
        EventKind::Daemon | EventKind::Change => return,
    }
    let code = event.code.as_ref();
    let code = code.map_or_else(String::new, |code| format!(" ({code})"));
    match event.severity {
        Severity::Info => tracing::info!("{object}: {text}{code}"),
        Severity::Warning => tracing::warn!("{object}: {text}{code}"),
        Severity::Error => tracing::error!("{object}: {text}{code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::{KEPT, LINE_BYTES_MAX};
    use super::*;

    fn told(text: &str) -> NewEvent {
        NewEvent {
            severity: Severity::Info,
            kind: EventKind::Daemon,
            object: "daemon".to_owned(),
            code: None,
            text: text.to_owned(),
        }
    }

    #[test]
    fn the_newest_are_kept_with_their_numbers() {
        let folder = temp_dir();
        let events = Events::open(folder.path());
        for number in 0..KEPT + 5 {
            events.tell(Moment(1), told(&number.to_string()));
        }
        let recent = events.recent();
        assert_eq!(recent.len(), KEPT);
        assert_eq!(recent[0].number, 6);
        assert_eq!(recent[KEPT - 1].text, (KEPT + 4).to_string());
    }

    fn temp_dir() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary directory")
    }

    #[test]
    fn events_are_there_after_a_restart_and_numbers_go_on() {
        let folder = temp_dir();
        let path = folder.path().join("log/events.jsonl");
        for round in 1..4usize {
            let events = Events::open(folder.path());
            events.tell(Moment(1), told("ready"));
            events.tell(Moment(2), told(&"x".repeat(2 * TEXT_CHARS_MAX)));
            events.settle();
            let recent = Events::open(folder.path()).recent();
            assert_eq!(recent, events.recent());
            assert_eq!(recent.len(), 2 * round);
            assert_eq!(recent[2 * round - 1].number, 2 * round as u64);
            assert_eq!(recent[2 * round - 1].text.len(), TEXT_CHARS_MAX);
        }
        let before = std::fs::metadata(&path).expect("there").modified();
        Events::open(folder.path()).settle();
        let after = std::fs::metadata(&path).expect("there").modified();
        assert_eq!(before.expect("a time"), after.expect("a time"), "no news");
    }

    #[test]
    fn the_file_is_bounded() {
        let folder = temp_dir();
        let events = Events::open(folder.path());
        for _ in 0..5 {
            for number in 0..KEPT - 1 {
                events.tell(Moment(1), told(&number.to_string()));
            }
            events.settle();
            let text = std::fs::read_to_string(folder.path().join("log/events.jsonl"));
            assert!(text.expect("written").lines().count() < 3 * KEPT);
        }
        assert_eq!(Events::open(folder.path()).recent(), events.recent());
    }

    #[test]
    fn of_a_file_that_grew_too_long_the_newest_are_read_and_numbers_go_on() {
        let folder = temp_dir();
        let path = folder.path().join("log/events.jsonl");
        let events = Events::open(folder.path());
        events.tell(Moment(1), told("first"));
        events.settle();
        let event = |number| Event {
            number,
            text: "\u{1}".repeat(TEXT_CHARS_MAX),
            ..events.recent()[0].clone()
        };
        let count = 2 * KEPT as u64;
        let line = |number| serde_json::to_string(&event(number)).expect("JSON") + "\n";
        let long: String = (1..=count).map(line).collect();
        assert!(line(count).len() as u64 <= LINE_BYTES_MAX);
        std::fs::write(&path, &long).expect("written");
        let events = Events::open(folder.path());
        let recent = events.recent();
        assert_eq!((recent.len(), recent[KEPT - 1].number), (KEPT, count));
        events.tell(Moment(1), told("next"));
        assert_eq!(events.recent()[KEPT - 1].number, count + 1);
        events.settle();
        let text = std::fs::read_to_string(&path).expect("written");
        assert_eq!(text.lines().count(), KEPT, "it was replaced");
    }

    #[test]
    fn what_is_told_while_the_file_is_written_is_written_by_the_next_call() {
        let folder = temp_dir();
        let events = Events::open(folder.path());
        events.tell(Moment(1), told("before"));
        let draft = events.lock().draft();
        events.tell(Moment(1), told("meanwhile"));
        let outcome = draft.write();
        events.lock().written(&draft, outcome).expect("written");
        assert_eq!(Events::open(folder.path()).recent().len(), 1);
        events.settle();
        assert_eq!(Events::open(folder.path()).recent(), events.recent());
    }

    #[test]
    fn a_slow_listener_loses_the_oldest_and_is_told() {
        let folder = temp_dir();
        let events = Events::open(folder.path());
        let mut slow = events.listen();
        for number in 0..=BEHIND_MAX {
            events.tell(Moment(1), told(&number.to_string()));
        }
        let lost = slow.try_recv().expect_err("too slow");
        assert!(
            matches!(lost, broadcast::error::TryRecvError::Lagged(_)),
            "{lost}"
        );
        assert_eq!(slow.try_recv().expect("the next").text, "1");
    }
}
