//! Events: a ring of the newest events, and the listeners.
//!
//! A listener that does not keep up loses the oldest events and is told how many it lost; it delays
//! no other listener.

use std::collections::VecDeque;

use everglade_api::{Event, EventKind, Moment, Severity};
use everglade_env::lock::{Mutex, MutexGuard};
use tokio::sync::broadcast;

/// Events that are kept.
const KEPT: usize = 1024;
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
    ring: Mutex<VecDeque<Event>>,
    listeners: broadcast::Sender<Event>,
}

impl Events {
    pub(super) fn new() -> Events {
        Events {
            ring: Mutex::default(),
            listeners: broadcast::channel(BEHIND_MAX).0,
        }
    }

    /// Adds one.
    pub fn tell(&self, now: Moment, told: NewEvent) {
        let mut ring = self.lock();
        let event = Event {
            number: ring.back().map_or(1, |last| last.number + 1),
            time: now.to_string(),
            severity: told.severity,
            kind: told.kind,
            object: told.object,
            code: told.code,
            text: told.text,
        };
        ring.push_back(event.clone());
        if ring.len() > KEPT {
            ring.pop_front();
        }
        // Sent under the lock, so that listeners receive events in order. There may be no
        // listeners.
        let _ = self.listeners.send(event);
    }

    /// Returns the kept events, oldest first.
    #[must_use]
    pub fn recent(&self) -> Vec<Event> {
        self.lock().iter().cloned().collect()
    }

    /// Returns a receiver of future events.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.listeners.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.ring.lock()
    }
}

#[cfg(test)]
mod tests {
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
        let events = Events::new();
        for number in 0..KEPT + 5 {
            events.tell(Moment(1), told(&number.to_string()));
        }
        let recent = events.recent();
        assert_eq!(recent.len(), KEPT);
        assert_eq!(recent[0].number, 6);
        assert_eq!(recent[KEPT - 1].text, (KEPT + 4).to_string());
    }

    #[test]
    fn a_slow_listener_loses_the_oldest_and_is_told() {
        let events = Events::new();
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
