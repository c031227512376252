//! Persistent reservations: hosts that share a LUN agree on who may write to it, or read it (SPC-4
//! §5.13; NVMe reservations are the same with other numbers).
//!
//! A host *registers* with a key. A registered host may *acquire* the reservation, whose [`Kind`]
//! says what is left to others. Another registered host may take it away (*preempt*), for example
//! because it knows that the holder is dead. Everything is remembered by host, not by connection: a
//! host that connects again is registered as before.
//!
//! | file | what |
//! | --- | --- |
//! | [`state`] | the state machine of one LUN, without locks |
//! | [`stored`] | the state as bytes, with a version |
//! | [`keeping`] | changes that are answered when they are on stable storage |
//!
//! [`Registry`] has the state of all LUNs by identity, shared by all protocols and reactors. Every
//! operation of a client asks [`Reservations::may`] first: while nobody holds a reservation that is
//! one load of an atomic.
//!
//! The lock of a LUN protects its state. Whoever holds it works in memory only, and waits for
//! nothing. The lock of the registry is taken before that of a LUN, and only when a LUN is opened.
//!
//! The state survives the end of a connection. It survives the end of the daemon if a host wants
//! that, and if the registry has a keeper ([`keeping`]).

pub mod keeping;
pub mod state;
pub mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everglade_env::lock::Mutex;

use keeping::Desk;
pub use keeping::{Kept, Ticket};
pub use state::{Access, Existing, Host, Key, Kind, Notice, Refusal, Registrant, Report, State};
pub use stored::NotStored;

/// Identity of a LUN.
pub type LunUuid = [u8; 16];

/// The reservations of all LUNs.
#[derive(Debug, Default)]
pub struct Registry {
    luns: Mutex<BTreeMap<LunUuid, Arc<Reservations>>>,
    /// Where the keeper finds its work, if there is one.
    desk: Option<Arc<Desk>>,
}

/// The reservations of one LUN.
#[derive(Debug, Default)]
pub struct Reservations {
    /// Somebody holds a reservation.
    is_held: AtomicBool,
    /// Number of changes, so that sessions notice that there may be notices.
    changes: AtomicU64,
    uuid: LunUuid,
    desk: Option<Arc<Desk>>,
    state: Mutex<Contents>,
}

/// The state, and what of it is kept.
#[derive(Debug, Default)]
struct Contents {
    now: State,
    /// Something of it is kept, or may be.
    is_kept: bool,
    /// The state before the first change that is not kept yet, if there is one.
    before: Option<State>,
    /// The keeper is writing.
    is_being_kept: bool,
    /// Of changes that the keeper has not taken.
    tickets: Vec<Ticket>,
}

impl Registry {
    /// Returns the reservations of a LUN.
    #[must_use]
    pub fn lun(&self, uuid: &LunUuid) -> Arc<Reservations> {
        let mut luns = self.luns.lock();
        let lun = luns.entry(*uuid).or_insert_with(|| {
            Arc::new(Reservations {
                uuid: *uuid,
                desk: self.desk.clone(),
                ..Reservations::default()
            })
        });
        Arc::clone(lun)
    }

    /// Returns the LUNs that are known here.
    #[must_use]
    pub fn uuids(&self) -> Vec<LunUuid> {
        self.luns.lock().keys().copied().collect()
    }

    /// Forgets a LUN that was deleted.
    pub fn remove(&self, uuid: &LunUuid) {
        self.luns.lock().remove(uuid);
    }
}

impl Reservations {
    /// Returns whether `host` may do this now.
    #[must_use]
    #[inline]
    pub fn may(&self, host: &Host, access: Access) -> bool {
        !self.is_held.load(Ordering::Acquire) || self.state.lock().now.may(host, access)
    }

    /// Returns the number of changes so far. As long as it stays the same, no host has new notices.
    #[must_use]
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns what other hosts have done to `host` since the last call.
    #[must_use]
    pub fn take_notices(&self, host: &Host) -> Vec<Notice> {
        self.state.lock().now.take_notices(host)
    }

    /// Returns who is registered, and who holds what.
    #[must_use]
    pub fn report(&self) -> Report {
        self.state.lock().now.report()
    }

    /// Returns whether the state can outlive the daemon.
    #[must_use]
    pub fn can_persist(&self) -> bool {
        self.desk.is_some()
    }

    /// Returns whether the state is to outlive the daemon.
    #[must_use]
    pub fn persists(&self) -> bool {
        self.state.lock().now.persists()
    }

    /// Changes a state of which nothing is to be kept.
    ///
    /// # Errors
    /// The change is refused; then nothing has changed.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.change_kept(change).map(|(outcome, _)| outcome)
    }

    /// Changes the state. With a ticket the command is answered when the ticket is.
    ///
    /// # Errors
    /// The change is refused; then nothing has changed.
    pub fn change_kept<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<T, Refusal>,
    ) -> Result<(T, Option<Ticket>), Refusal> {
        let mut state = self.state.lock();
        let before = self.desk.is_some().then(|| state.now.clone());
        let outcome = change(&mut state.now)?;
        self.publish(&state.now);
        let is_involved = state.is_kept || state.before.is_some() || state.now.persists();
        let Some(desk) = self.desk.as_ref().filter(|_| is_involved) else {
            return Ok((outcome, None));
        };
        state.before = state.before.take().or(before);
        let ticket = Ticket::new();
        state.tickets.push(ticket.clone());
        drop(state);
        desk.ask(&self.uuid);
        Ok((outcome, Some(ticket)))
    }

    /// Returns the whole state as bytes.
    #[must_use]
    pub fn store(&self) -> Vec<u8> {
        stored::encode(&self.state.lock().now)
    }

    /// Replaces the whole state by a stored one, which is kept from then on.
    ///
    /// # Errors
    /// The bytes are no stored state; then nothing has changed.
    pub fn restore(&self, bytes: &[u8]) -> Result<(), NotStored> {
        let restored = stored::decode(bytes)?;
        let mut state = self.state.lock();
        state.now = restored;
        state.is_kept = true;
        self.publish(&state.now);
        Ok(())
    }

    fn publish(&self, state: &State) {
        self.is_held.store(state.is_held(), Ordering::Release);
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lun_without_a_holder_is_open_to_all_and_one_with_is_not() {
        let registry = Registry::default();
        let lun = registry.lun(&[1; 16]);
        let [a, b] = [b"a", b"b"].map(|name| Host::new(name));
        assert!(lun.may(&a, Access::Write));
        let acquired = lun.change(|state| {
            state.register(&a, Existing::Is(0), 7)?;
            state.acquire(&a, 7, Kind::WriteExclusive)
        });
        assert_eq!(acquired, Ok(()));
        let again = registry.lun(&[1; 16]);
        assert!(again.may(&b, Access::Read) && !again.may(&b, Access::Write));
        assert!(registry.lun(&[2; 16]).may(&b, Access::Write), "another LUN");
        let kept = lun.store();
        registry.remove(&[1; 16]);
        let fresh = registry.lun(&[1; 16]);
        assert!(fresh.may(&b, Access::Write));
        assert_eq!(fresh.restore(&kept), Ok(()));
        assert!(!fresh.may(&b, Access::Write) && fresh.may(&a, Access::Write));
        assert_eq!(fresh.restore(b"?"), Err(NotStored));
        assert!(!fresh.may(&b, Access::Write));
    }
}
