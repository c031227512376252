//! Reservations that outlive the power: a change that is to be kept is answered when it is kept.
//!
//! ```text
//! change ─▶ in memory, with a Ticket ─▶ desk ─▶ keeper writes ─▶ Kept::end(Ok) ─▶ ticket answered
//! └─ cannot ─▶ Kept::end(Err) ─▶ state as before
//! ```
//!
//! 1. A change counts at once for operations of all hosts, and its command is answered when it is
//!    on stable storage. So nobody who was answered is wrong after a power cut.
//! 2. The keeper takes all changes of all LUNs that wait, and writes them together. Changes that
//!    come meanwhile are in the next write.
//! 3. If it cannot write, the state of the LUN is what it was before the first of the changes, and
//!    all changes that wait fail, because they built on one another. What was kept is still kept.
//! 4. A LUN takes part if its state is to be kept, or something of it is kept, or may be.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use everglade_env::lock::Mutex;

use super::{LunUuid, Registry, Reservations, State, stored};

/// LUNs whose changes wait for the keeper.
pub(super) struct Desk {
    waiting: Mutex<BTreeSet<LunUuid>>,
    call: Box<dyn Fn() + Send + Sync>,
}

impl Desk {
    pub(super) fn new(call: impl Fn() + Send + Sync + 'static) -> Desk {
        Desk {
            waiting: Mutex::default(),
            call: Box::new(call),
        }
    }

    /// Calls the keeper.
    pub(super) fn ask(&self, uuid: &LunUuid) {
        self.waiting.lock().insert(*uuid);
        (self.call)();
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

/// The right to an answer about a change.
#[derive(Clone, Debug)]
pub struct Ticket(Arc<OnceLock<Result<(), Arc<str>>>>);

impl Ticket {
    pub(super) fn new() -> Ticket {
        Ticket(Arc::default())
    }

    /// Returns whether the change is kept, or the reason why it was undone; `None` while that is
    /// open.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<(), Arc<str>>> {
        self.0.get().cloned()
    }

    fn answer(&self, outcome: &Result<(), Arc<str>>) {
        // A ticket is answered once: whoever takes it from the list answers it.
        let is_first = self.0.set(outcome.clone()).is_ok();
        assert!(is_first, "a ticket is in one list");
    }
}

/// The state of a LUN for the keeper, who ends it.
#[derive(Debug)]
pub struct Kept {
    /// The LUN.
    pub uuid: LunUuid,
    /// The bytes to keep, or `None` if nothing of it is to be kept.
    pub bytes: Option<Vec<u8>>,
    state: State,
    tickets: Vec<Ticket>,
    reservations: Arc<Reservations>,
}

impl Kept {
    /// Answers the changes: all of them are on stable storage, or could not be written for a
    /// reason.
    pub fn end(self, outcome: Result<(), Arc<str>>) {
        let mut state = self.reservations.state.lock();
        let mut tickets = self.tickets;
        match &outcome {
            Ok(()) => {
                state.is_kept = self.state.persists();
                state.before = (!state.tickets.is_empty()).then_some(self.state);
            }
            Err(_) => {
                // Later changes built on these.
                tickets.append(&mut state.tickets);
                let before = state.before.take().expect("a change is not kept");
                state.now.go_back_to(before);
                self.reservations.publish(&state.now);
            }
        }
        state.is_being_kept = false;
        drop(state);
        tickets.iter().for_each(|ticket| ticket.answer(&outcome));
    }
}

impl Registry {
    /// Makes a registry with a keeper. `call` wakes it; it then takes [`Registry::to_keep`].
    pub fn with_keeper(call: impl Fn() + Send + Sync + 'static) -> Registry {
        Registry {
            luns: Mutex::default(),
            desk: Some(Arc::new(Desk::new(call))),
        }
    }

    /// Returns the LUNs whose changes wait to be kept, with all of their changes so far.
    #[must_use]
    pub fn to_keep(&self) -> Vec<Kept> {
        let Some(desk) = &self.desk else {
            return Vec::new();
        };
        let waiting = std::mem::take(&mut *desk.waiting.lock());
        let luns = self.luns.lock();
        let waiting = waiting.iter().filter_map(|uuid| luns.get(uuid));
        waiting
            .filter_map(|reservations| {
                let mut state = reservations.state.lock();
                let tickets = std::mem::take(&mut state.tickets);
                if tickets.is_empty() {
                    return None;
                }
                assert!(!state.is_being_kept, "one keeper takes one at a time");
                state.is_being_kept = true;
                let now = state.now.clone();
                Some(Kept {
                    uuid: reservations.uuid,
                    bytes: now.persists().then(|| stored::encode(&now)),
                    state: now,
                    tickets,
                    reservations: Arc::clone(reservations),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reservations::{Access, Existing, Host, Kind, Refusal};

    fn registry() -> Registry {
        Registry::with_keeper(|| {})
    }

    fn register(lun: &Reservations, host: &Host, persists: bool) -> Option<Ticket> {
        let changed = lun.change_kept(|state| {
            state.register(host, Existing::Ignored, 7)?;
            state.set_persists(persists);
            Ok(())
        });
        changed.expect("in order").1
    }

    fn acquire(lun: &Reservations, host: &Host) -> Option<Ticket> {
        let acquired = lun.change_kept(|state| state.acquire(host, 7, Kind::WriteExclusive));
        acquired.expect("free").1
    }

    #[test]
    fn what_is_not_to_be_kept_needs_no_keeper() {
        let registry = registry();
        let lun = registry.lun(&[1; 16]);
        assert!(register(&lun, &Host::new(b"a"), false).is_none());
        assert!(registry.to_keep().is_empty());
    }

    #[test]
    fn a_change_is_answered_when_it_is_kept_and_changes_in_a_row_are_one_write() {
        let registry = registry();
        let lun = registry.lun(&[1; 16]);
        let [a, b] = [b"a", b"b"].map(|name| Host::new(name));
        let first = register(&lun, &a, true).expect("a ticket");
        let second = acquire(&lun, &a).expect("a ticket");
        assert!(first.outcome().is_none() && !lun.may(&b, Access::Write));
        let mut work = registry.to_keep();
        let kept = work.pop().expect("one LUN");
        assert!(work.is_empty());
        // This one is in the next write.
        let third = register(&lun, &b, true).expect("a ticket");
        let bytes = kept.bytes.clone().expect("to be kept");
        kept.end(Ok(()));
        assert_eq!(
            (first.outcome(), second.outcome()),
            (Some(Ok(())), Some(Ok(())))
        );
        assert_eq!(third.outcome(), None);
        let again = Registry::default().lun(&[1; 16]);
        assert_eq!(again.restore(&bytes), Ok(()));
        assert!(again.may(&a, Access::Write) && !again.may(&b, Access::Write));
        assert_eq!(again.report().registrants.len(), 1);
        registry.to_keep().pop().expect("the rest").end(Ok(()));
        assert_eq!(third.outcome(), Some(Ok(())));
    }

    #[test]
    fn what_cannot_be_kept_is_undone_with_all_that_came_after() {
        let registry = registry();
        let lun = registry.lun(&[1; 16]);
        let [a, b] = [b"a", b"b"].map(|name| Host::new(name));
        // Whether it was kept or not, it was there.
        assert!(register(&lun, &a, false).is_none());
        let kept = register(&lun, &a, true).expect("a ticket");
        registry
            .to_keep()
            .pop()
            .expect("work")
            .end(Err("full".into()));
        assert_eq!(kept.outcome(), Some(Err("full".into())));
        assert_eq!(lun.report().registrants.len(), 1);
        let _ = register(&lun, &a, true);
        registry.to_keep().pop().expect("work").end(Ok(()));
        let reserved = acquire(&lun, &a).expect("a ticket");
        let work = registry.to_keep().pop().expect("work");
        let after = register(&lun, &b, true).expect("a ticket");
        work.end(Err("no space".into()));
        for ticket in [reserved, after] {
            assert_eq!(ticket.outcome(), Some(Err("no space".into())));
        }
        assert!(lun.may(&b, Access::Write), "as before");
        assert_eq!(lun.report().registrants.len(), 1);
        assert!(registry.to_keep().is_empty());
    }

    #[test]
    fn a_state_that_was_kept_and_is_not_to_be_any_more_is_removed_first() {
        let registry = registry();
        let lun = registry.lun(&[1; 16]);
        let a = Host::new(b"a");
        let _ = register(&lun, &a, true);
        registry.to_keep().pop().expect("work").end(Ok(()));
        let ticket = register(&lun, &a, false).expect("something is kept");
        let work = registry.to_keep().pop().expect("work");
        assert_eq!(work.bytes, None);
        work.end(Ok(()));
        assert_eq!(ticket.outcome(), Some(Ok(())));
        assert!(acquire(&lun, &a).is_none(), "nothing is kept");
    }

    #[test]
    fn a_refused_change_waits_for_nothing() {
        let registry = registry();
        let lun = registry.lun(&[1; 16]);
        let a = Host::new(b"a");
        let refused = lun.change_kept(|state| state.clear(&a, 1)).map(|it| it.0);
        assert_eq!(refused, Err(Refusal::Conflict));
        assert!(registry.to_keep().is_empty());
    }
}
