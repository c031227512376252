//! Idempotency keys: a request that is repeated with the same key is executed once (decision 0030).
//!
//! ```text
//! new ─▶ under way ─┬─ made ─────▶ made: a repetition is answered from the history, or with the
//!                   │              first answer, until the key is forgotten for age
//!                   ├─ refused ──▶ forgotten: a repetition is a new attempt
//!                   └─ unknown ──▶ unknown: a repetition has the same answer until a restart
//! ```
//!
//! 1. A key belongs to one caller and one request: method, path, query and body. Another request
//!    with it is refused.
//! 2. The thread that makes a change settles its key, because the client may have disconnected or
//!    been told to ask again. The thread has the key as a [`Ticket`]. When the last ticket of a key
//!    is dropped and nothing was made, the key is forgotten.
//! 3. The history has the keys of the changes that it keeps, so these keys are known after a
//!    restart. A change is durable before its line in the history is. After a crash between the
//!    two, a repetition finds the state that the first attempt left.
//! 4. At most [`KEYS_MAX`] keys are known; the oldest settled keys are dropped first. The number of
//!    keys under way is bounded by the places of the desk and the connections of the listening
//!    sockets.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use everglade_api::{Problem, Remembered};
use everglade_env::lock::{Mutex, MutexGuard};

use crate::records::history::{Kept, Keyed};

/// Limit of known keys.
const KEYS_MAX: usize = 1024;
/// Longer answers are not kept; the history answers instead.
pub(super) const ANSWER_BYTES_MAX: usize = 4096;

/// See the module's documentation.
#[derive(Clone, Default)]
pub(super) struct Keys {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    known: HashMap<Owned, KeyEntry>,
    /// In order of their first use.
    order: VecDeque<Owned>,
}

/// A key with its caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owned {
    who: String,
    key: String,
}

struct KeyEntry {
    request: String,
    fate: Fate,
}

/// The state of a request with a key.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// The change is running.
    UnderWay,
    /// The change may have been made.
    Unknown(Problem),
    /// The change was made, but its answer is not kept: a repetition is answered from the history.
    Made(Remembered),
    /// The change was made, and this was the answer.
    Answered(Given),
}

/// An answer that can be given again.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The result of the search for a request's key.
pub(super) enum Met {
    /// The key is new.
    New(Arc<Ticket>),
    /// The same request was seen before, with this state.
    Again(Fate),
    /// Another request has the key.
    Taken,
}

/// A request that has its key for itself. Goes with the change to its thread.
pub(super) struct Ticket {
    keys: Keys,
    owned: Owned,
    request: String,
}

impl Keys {
    /// Takes over the keys of changes that the history has.
    pub(super) fn recall(&self, kept: impl IntoIterator<Item = Kept>) {
        let mut inner = self.lock();
        for Kept { change, keyed } in kept {
            let Some(Keyed { key, request }) = keyed else {
                continue;
            };
            let remembered = Remembered::of(&change);
            let who = change.who;
            let fate = Fate::Made(remembered);
            inner.add(Owned { who, key }, KeyEntry { request, fate });
        }
    }

    /// Begins a request, unless its key says that it was begun before.
    pub(super) fn meet(&self, who: &str, key: &str, request: String) -> Met {
        let owned = Owned {
            who: who.to_owned(),
            key: key.to_owned(),
        };
        let mut inner = self.lock();
        if let Some(known) = inner.known.get(&owned) {
            return match known.request == request {
                true => Met::Again(known.fate.clone()),
                false => Met::Taken,
            };
        }
        let known = KeyEntry {
            request: request.clone(),
            fate: Fate::UnderWay,
        };
        inner.add(owned.clone(), known);
        Met::New(Arc::new(Ticket {
            keys: self.clone(),
            owned,
            request,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Inner {
    fn add(&mut self, owned: Owned, known: KeyEntry) {
        if self.known.insert(owned.clone(), known).is_none() {
            self.order.push_back(owned);
        }
        // Each key is checked once; keys under way move to the end.
        for _ in 0..self.order.len() {
            if self.known.len() <= KEYS_MAX {
                return;
            }
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            match self.known.get(&oldest).map(|known| &known.fate) {
                Some(Fate::UnderWay) => self.order.push_back(oldest),
                _ => _ = self.known.remove(&oldest),
            }
        }
    }

    fn remove(&mut self, owned: &Owned) {
        self.known.remove(owned);
        self.order.retain(|known| known != owned);
    }
}

impl Ticket {
    /// Returns the key as the history stores it.
    pub(super) fn keyed(&self) -> Keyed {
        Keyed {
            key: self.owned.key.clone(),
            request: self.request.clone(),
        }
    }

    /// Settles the key of a change that was made.
    pub(super) fn made(&self, remembered: Remembered) {
        self.settle(Fate::Made(remembered));
    }

    /// Settles the key with an unknown outcome.
    pub(super) fn unknown(&self, problem: &Problem) {
        self.settle(Fate::Unknown(problem.clone()));
    }

    /// Keeps the answer that the client gets, which has more than the history's.
    pub(super) fn answered(&self, given: Given) {
        self.settle(Fate::Answered(given));
    }

    fn settle(&self, fate: Fate) {
        if let Some(known) = self.keys.lock().known.get_mut(&self.owned) {
            known.fate = fate;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut inner = self.keys.lock();
        let known = inner.known.get(&self.owned);
        if known.is_some_and(|known| matches!(known.fate, Fate::UnderWay)) {
            inner.remove(&self.owned);
        }
    }
}

#[cfg(test)]
mod tests {
    use everglade_api::{Change, Code, Outcome};

    use super::*;

    fn remembered() -> Remembered {
        Remembered::of(&change("w"))
    }

    fn change(who: &str) -> Change {
        Change {
            number: 1,
            time: "2026-01-01T00:00:00Z".to_owned(),
            who: who.to_owned(),
            what: "snapshot delete".to_owned(),
            object: "v@s".to_owned(),
            detail: String::new(),
        }
    }

    fn begun(met: Met) -> Arc<Ticket> {
        match met {
            Met::New(ticket) => ticket,
            _ => panic!("nobody used it"),
        }
    }

    #[test]
    fn a_key_belongs_to_one_caller_and_one_request() {
        let keys = Keys::default();
        let ticket = begun(keys.meet("w", "k", "r".to_owned()));
        assert!(matches!(
            keys.meet("w", "k", "r".to_owned()),
            Met::Again(Fate::UnderWay)
        ));
        assert!(matches!(
            keys.meet("w", "k", "other".to_owned()),
            Met::Taken
        ));
        begun(keys.meet("x", "k", "other".to_owned()));
        ticket.made(remembered());
        drop(ticket);
        let Met::Again(Fate::Made(found)) = keys.meet("w", "k", "r".to_owned()) else {
            panic!("it was made");
        };
        assert_eq!(
            (found.outcome, found.object.as_str()),
            (Outcome::Done, "v@s")
        );
    }

    #[test]
    fn a_refused_request_may_be_tried_again_once_nobody_does_it_any_more() {
        let keys = Keys::default();
        let ticket = begun(keys.meet("w", "k", "r".to_owned()));
        // The client was asked to wait; the thread continues.
        let thread = Arc::clone(&ticket);
        drop(ticket);
        assert!(matches!(
            keys.meet("w", "k", "r".to_owned()),
            Met::Again(Fate::UnderWay)
        ));
        drop(thread);
        begun(keys.meet("w", "k", "r".to_owned()));
    }

    #[test]
    fn what_is_unknown_stays_unknown() {
        let keys = Keys::default();
        let ticket = begun(keys.meet("w", "k", "r".to_owned()));
        ticket.unknown(&Problem::new(Code::OutcomeUnknown, "it failed"));
        drop(ticket);
        assert!(matches!(
            keys.meet("w", "k", "r".to_owned()),
            Met::Again(Fate::Unknown(_))
        ));
    }

    #[test]
    fn the_oldest_settled_keys_go_first_and_none_that_is_under_way() {
        let keys = Keys::default();
        let first = begun(keys.meet("w", "first", "r".to_owned()));
        for number in 0..KEYS_MAX {
            let ticket = begun(keys.meet("w", &format!("k{number}"), "r".to_owned()));
            ticket.made(remembered());
        }
        assert_eq!(keys.lock().known.len(), KEYS_MAX);
        assert_eq!(keys.lock().order.len(), KEYS_MAX);
        assert!(matches!(
            keys.meet("w", "first", "r".to_owned()),
            Met::Again(Fate::UnderWay)
        ));
        begun(keys.meet("w", "k0", "r".to_owned()));
        drop(first);
    }

    #[test]
    fn the_history_has_the_keys_of_an_earlier_daemon() {
        let keys = Keys::default();
        let keyed = Keyed {
            key: "k".to_owned(),
            request: "r".to_owned(),
        };
        keys.recall([
            Kept {
                change: change("w"),
                keyed: Some(keyed),
            },
            Kept {
                change: change("x"),
                keyed: None,
            },
        ]);
        assert!(matches!(
            keys.meet("w", "k", "r".to_owned()),
            Met::Again(Fate::Made(_))
        ));
        assert_eq!(keys.lock().known.len(), 1);
    }
}
