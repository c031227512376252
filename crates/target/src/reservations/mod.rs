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
//!
//! [`Registry`] has the state of all LUNs by identity, shared by all protocols and reactors. Every
//! operation of a client asks [`Reservations::may`] first: while nobody holds a reservation that is
//! one load of an atomic.
//!
//! The lock of a LUN protects its state. Whoever holds it works in memory only, and waits for
//! nothing. The lock of the registry is taken before that of a LUN, and only when a LUN is opened.
//!
//! The state is kept in memory: it survives the end of a connection, and not that of the daemon.
//! [`stored`] makes bytes of it, for whoever is to keep it.

pub mod state;
pub mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everglade_env::lock::Mutex;

pub use state::{Access, Existing, Host, Key, Kind, Notice, Refusal, Registrant, Report, State};
pub use stored::NotStored;

/// Identity of a LUN.
pub type LunUuid = [u8; 16];

/// The reservations of all LUNs.
#[derive(Debug, Default)]
pub struct Registry {
    luns: Mutex<BTreeMap<LunUuid, Arc<Reservations>>>,
}

/// The reservations of one LUN.
#[derive(Debug, Default)]
pub struct Reservations {
    /// Somebody holds a reservation.
    is_held: AtomicBool,
    /// Number of changes, so that sessions notice that there may be notices.
    changes: AtomicU64,
    state: Mutex<State>,
}

impl Registry {
    /// Returns the reservations of a LUN.
    #[must_use]
    pub fn lun(&self, uuid: &LunUuid) -> Arc<Reservations> {
        Arc::clone(self.luns.lock().entry(*uuid).or_default())
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
        !self.is_held.load(Ordering::Acquire) || self.state.lock().may(host, access)
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
        self.state.lock().take_notices(host)
    }

    /// Returns who is registered, and who holds what.
    #[must_use]
    pub fn report(&self) -> Report {
        self.state.lock().report()
    }

    /// Changes the state.
    ///
    /// # Errors
    /// The change is refused; then nothing has changed.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut state = self.state.lock();
        let outcome = change(&mut state)?;
        self.publish(&state);
        Ok(outcome)
    }

    /// Returns the whole state as bytes.
    #[must_use]
    pub fn store(&self) -> Vec<u8> {
        stored::encode(&self.state.lock())
    }

    /// Replaces the whole state by a stored one.
    ///
    /// # Errors
    /// The bytes are no stored state; then nothing has changed.
    pub fn restore(&self, bytes: &[u8]) -> Result<(), NotStored> {
        let restored = stored::decode(bytes)?;
        let mut state = self.state.lock();
        *state = restored;
        self.publish(&state);
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
