//! Asynchronous events: what a host wants to hear of, and what it has heard (base "Asynchronous
//! Event Request command").
//!
//! ```text
//! quiet --happens--> pending --a request waits--> told --log page read--> quiet
//! ```
//!
//! An event that was told is not told again before the host has read the log page that says more.
//! The host looks at the log page after it was told, so it sees later changes as well.

/// Event requests that a controller keeps.
pub(crate) const REQUESTS_MAX: usize = 4;

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A namespace has changed.
    Namespace,
    /// The discovery log page has changed.
    Discovery,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Quiet,
    Pending,
    Told,
}

impl Event {
    const ALL: [Event; 2] = [Event::Namespace, Event::Discovery];

    /// The bit of the event in the feature, and in the controller's structure.
    pub(crate) fn bit(self) -> u32 {
        match self {
            Event::Namespace => crate::wire::feature::events::NAMESPACE,
            Event::Discovery => crate::wire::feature::events::DISCOVERY,
        }
    }

    /// Returns the result of the request that tells the event: a notice, what about, and the log
    /// page that says more.
    fn result(self) -> u64 {
        const NOTICE: u64 = 2;
        let (about, page) = match self {
            Event::Namespace => (0x00, crate::wire::log_page::id::CHANGED_NAMESPACES),
            Event::Discovery => (0xf0, crate::wire::log_page::id::DISCOVERY),
        };
        NOTICE | about << 8 | u64::from(page) << 16
    }
}

/// The events of one controller.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Ids of the requests that wait.
    requests: Vec<u16>,
    /// Events that the host wants to hear of.
    wanted: u32,
    states: [State; Event::ALL.len()],
}

impl Events {
    /// Keeps a request; false if there are too many.
    pub(crate) fn keep(&mut self, id: u16) -> bool {
        if self.requests.len() == REQUESTS_MAX {
            return false;
        }
        self.requests.push(id);
        true
    }

    /// Gives up a request; false if there is none with this id.
    pub(crate) fn abort(&mut self, id: u16) -> bool {
        let position = self.requests.iter().position(|kept| *kept == id);
        position.map(|at| self.requests.remove(at)).is_some()
    }

    /// Returns whether a request with this id waits.
    pub(crate) fn has(&self, id: u16) -> bool {
        self.requests.contains(&id)
    }

    pub(crate) fn wanted(&self) -> u32 {
        self.wanted
    }

    pub(crate) fn want(&mut self, wanted: u32) {
        self.wanted = wanted;
    }

    /// Notes that an event has happened, if the host wants to hear of it.
    pub(crate) fn happened(&mut self, event: Event) {
        let state = &mut self.states[event as usize];
        if self.wanted & event.bit() != 0 && *state == State::Quiet {
            *state = State::Pending;
        }
    }

    /// Notes that the host has read the log page of an event.
    pub(crate) fn was_read(&mut self, event: Event) {
        self.states[event as usize] = State::Quiet;
    }

    /// Forgets everything, because the controller was disabled.
    pub(crate) fn clear(&mut self) {
        *self = Events::default();
    }

    /// Returns the next request to be answered, and with which result.
    pub(crate) fn next(&mut self) -> Option<(u16, u64)> {
        let pending = |event: &Event| self.states[*event as usize] == State::Pending;
        let event = Event::ALL.into_iter().find(pending)?;
        if self.requests.is_empty() {
            return None;
        }
        self.states[event as usize] = State::Told;
        Some((self.requests.remove(0), event.result()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_told_once_until_its_log_page_is_read() {
        let mut events = Events::default();
        events.happened(Event::Namespace);
        events.want(Event::Namespace.bit());
        assert!(events.keep(7) && events.keep(8));
        assert_eq!(
            events.next(),
            None,
            "it happened before the host wanted to know"
        );
        events.happened(Event::Namespace);
        events.happened(Event::Discovery);
        assert_eq!(events.next(), Some((7, 0x04_00_02)));
        events.happened(Event::Namespace);
        assert_eq!(events.next(), None);
        events.was_read(Event::Namespace);
        events.happened(Event::Namespace);
        assert_eq!(events.next(), Some((8, 0x04_00_02)));
        events.want(Event::Discovery.bit());
        events.happened(Event::Discovery);
        assert_eq!(events.next(), None, "no request waits");
        assert!(events.keep(9));
        assert_eq!(events.next(), Some((9, 0x70_f0_02)));
    }

    #[test]
    fn requests_are_few_and_can_be_given_up() {
        let mut events = Events::default();
        assert!((0..4).all(|id| events.keep(id)));
        assert!(!events.keep(4));
        assert!(events.abort(2) && !events.abort(2) && !events.has(2));
        assert!(events.keep(4));
    }
}
