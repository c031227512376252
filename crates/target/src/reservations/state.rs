//! The state machine of one LUN's reservations.
//!
//! ```text
//!                register            acquire
//! unknown host ---------> registrant --------> holder
//!      ^                     |  ^                 |
//!      +---- unregister -----+  +---- release ----+
//!      +---- preempted by another registrant -----+
//! ```
//!
//! Kinds that are for all registrants have no single holder: every registrant holds them, and the
//! last one that leaves ends the reservation.
//!
//! Invariants: a host is registered at most once, its key is not 0, a single holder is registered,
//! a reservation for all registrants has at least one.

use core::fmt;
use std::sync::Arc;

/// Most hosts that register with one LUN.
pub const REGISTRANTS_MAX: usize = 256;
/// Longest identity of a host: an iSCSI name of 223 bytes and some more.
pub const HOST_BYTES_MAX: usize = 300;
/// Most notices kept for hosts that do not ask.
const NOTICES_MAX: usize = 1024;

/// A key that hosts register with; 0 means none.
pub type Key = u64;

/// Identity of a host in its protocol: for iSCSI the initiator's name and port, for NVMe the host
/// identifier.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(Arc<[u8]>);

impl Host {
    /// Makes an identity of at most [`HOST_BYTES_MAX`] bytes.
    ///
    /// # Panics
    /// If it is longer.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Host {
        assert!(bytes.len() <= HOST_BYTES_MAX, "protocols bound their names");
        Host(Arc::from(bytes))
    }

    /// Returns the bytes it was made of.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({})", self.0.escape_ascii())
    }
}

/// What an operation does, as far as reservations care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads data.
    Read,
    /// Changes data, or the LUN's settings.
    Write,
}

/// Kinds of reservations.
///
/// | kind | SCSI | NVMe | others may read | registrants may write | holder |
/// | --- | --- | --- | --- | --- | --- |
/// | `WriteExclusive` | 1 | 1 | yes | no | one |
/// | `ExclusiveAccess` | 3 | 2 | no | no | one |
/// | `WriteExclusiveRegistrants` | 5 | 3 | yes | yes | one |
/// | `ExclusiveAccessRegistrants` | 6 | 4 | no | yes | one |
/// | `WriteExclusiveAll` | 7 | 5 | yes | yes | all registrants |
/// | `ExclusiveAccessAll` | 8 | 6 | no | yes | all registrants |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only the holder writes.
    WriteExclusive = 1,
    /// Only the holder reads and writes.
    ExclusiveAccess = 3,
    /// Only registrants write.
    WriteExclusiveRegistrants = 5,
    /// Only registrants read and write.
    ExclusiveAccessRegistrants = 6,
    /// Only registrants write, and all of them hold.
    WriteExclusiveAll = 7,
    /// Only registrants read and write, and all of them hold.
    ExclusiveAccessAll = 8,
}

impl Kind {
    /// All kinds, in the order of the numbers of both protocols.
    pub const ALL: [Kind; 6] = [
        Kind::WriteExclusive,
        Kind::ExclusiveAccess,
        Kind::WriteExclusiveRegistrants,
        Kind::ExclusiveAccessRegistrants,
        Kind::WriteExclusiveAll,
        Kind::ExclusiveAccessAll,
    ];

    /// Number in SCSI.
    #[must_use]
    pub fn scsi(self) -> u8 {
        self as u8
    }

    /// Number in NVMe.
    #[must_use]
    pub fn nvme(self) -> u8 {
        let index = Kind::ALL.iter().position(|kind| *kind == self);
        u8::try_from(index.expect("all are listed") + 1).expect("six")
    }

    /// Returns the kind with this number in SCSI.
    #[must_use]
    pub fn of_scsi(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.scsi() == number)
    }

    /// Returns the kind with this number in NVMe.
    #[must_use]
    pub fn of_nvme(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.nvme() == number)
    }

    /// Every registrant holds it.
    #[must_use]
    pub fn is_for_all(self) -> bool {
        matches!(self, Kind::WriteExclusiveAll | Kind::ExclusiveAccessAll)
    }

    /// Registrants may do what the holder may.
    #[must_use]
    pub fn admits_registrants(self) -> bool {
        !matches!(self, Kind::WriteExclusive | Kind::ExclusiveAccess)
    }

    /// Everybody may read.
    #[must_use]
    pub fn admits_readers(self) -> bool {
        matches!(
            self,
            Kind::WriteExclusive | Kind::WriteExclusiveRegistrants | Kind::WriteExclusiveAll
        )
    }
}

/// The key that a host says it is registered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It must be this; 0 for a host that is not registered.
    Is(Key),
    /// Whatever it is.
    Ignored,
}

/// What another host has done to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It is no longer registered. `aborts` says that its commands under way are to be aborted.
    RegistrationPreempted {
        /// Its commands are to be aborted.
        aborts: bool,
    },
    /// All registrations and the reservation were cleared.
    ReservationPreempted,
    /// The reservation it took part in is no more, or is another.
    ReservationReleased,
}

/// The reasons why a change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The host is not registered with this key, or another holds the reservation.
    Conflict,
    /// The holder named another kind than it holds.
    WrongKind,
    /// A key is 0 where that means nothing.
    NoKey,
    /// There are too many registrants.
    Full,
}

/// A registered host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrant {
    /// Who.
    pub host: Host,
    /// With which key.
    pub key: Key,
    /// It holds the reservation, perhaps with all others.
    pub holds: bool,
}

/// All there is to know about a LUN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of changes of registrations.
    pub generation: u32,
    /// Registered hosts, in the order in which they registered.
    pub registrants: Vec<Registrant>,
    /// The reservation.
    pub kind: Option<Kind>,
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(super) generation: u32,
    pub(super) registered: Vec<(Host, Key)>,
    pub(super) reservation: Option<Reservation>,
    pub(super) notices: Vec<(Host, Notice)>,
    /// It is to outlive the power.
    pub(super) persists: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    pub(super) kind: Kind,
    /// `None` if all registrants hold it.
    pub(super) holder: Option<Host>,
}

impl State {
    /// Returns whether somebody holds a reservation.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.reservation.is_some()
    }

    /// Returns whether the state is to outlive the power. The last registration says so for all.
    #[must_use]
    pub fn persists(&self) -> bool {
        self.persists
    }

    /// Sets whether the state is to outlive the power.
    pub fn set_persists(&mut self, persists: bool) {
        self.persists = persists;
    }

    /// Takes back changes that cannot be kept. Hosts that were told of them ask for the state.
    pub(super) fn go_back_to(&mut self, before: State) {
        let notices = std::mem::take(&mut self.notices);
        *self = State { notices, ..before };
    }

    /// Returns whether `host` may do this.
    #[must_use]
    pub fn may(&self, host: &Host, access: Access) -> bool {
        let Some(Reservation { kind, holder }) = &self.reservation else {
            return true;
        };
        let is_holder = holder.as_ref() == Some(host);
        let is_admitted = kind.admits_registrants() && self.key(host).is_some();
        is_holder || is_admitted || access == Access::Read && kind.admits_readers()
    }

    /// Returns the key of a registered host.
    #[must_use]
    pub fn key(&self, host: &Host) -> Option<Key> {
        let mut registered = self.registered.iter();
        registered.find(|(other, _)| other == host).map(|it| it.1)
    }

    /// Returns who is registered, and who holds what.
    #[must_use]
    pub fn report(&self) -> Report {
        let registrants = self.registered.iter().map(|(host, key)| Registrant {
            host: host.clone(),
            key: *key,
            holds: self.holds(host),
        });
        Report {
            generation: self.generation,
            registrants: registrants.collect(),
            kind: self.reservation.as_ref().map(|it| it.kind),
        }
    }

    /// Returns what other hosts have done to `host` since the last call.
    pub fn take_notices(&mut self, host: &Host) -> Vec<Notice> {
        let mut taken = Vec::new();
        self.notices.retain(|(other, notice)| {
            let is_mine = other == host;
            if is_mine {
                taken.push(*notice);
            }
            !is_mine
        });
        taken
    }

    /// Registers a host with the key `new`, gives it another key, or unregisters it if `new` is 0.
    ///
    /// # Errors
    /// [`Refusal::Conflict`] if the host is registered with another key than it says,
    /// [`Refusal::Full`].
    pub fn register(&mut self, host: &Host, existing: Existing, new: Key) -> Result<(), Refusal> {
        let known = self.key(host);
        if let Existing::Is(said) = existing
            && said != known.unwrap_or(0)
        {
            return Err(Refusal::Conflict);
        }
        match (known, new) {
            (None, 0) => return Ok(()),
            (None, new) => {
                if self.registered.len() >= REGISTRANTS_MAX {
                    return Err(Refusal::Full);
                }
                self.registered.push((host.clone(), new));
            }
            (Some(_), 0) => self.leave(host),
            (Some(_), new) => {
                let mut registered = self.registered.iter_mut();
                let mine = registered.find(|(other, _)| other == host);
                mine.expect("it is registered").1 = new;
            }
        }
        self.changed();
        Ok(())
    }

    /// Acquires the reservation.
    ///
    /// # Errors
    /// [`Refusal::Conflict`] if the host is not registered with `key`, or if there is a reservation
    /// that is not just the same.
    pub fn acquire(&mut self, host: &Host, key: Key, kind: Kind) -> Result<(), Refusal> {
        self.check_key(host, key)?;
        match &self.reservation {
            None => {
                self.reserve(host, kind);
                Ok(())
            }
            Some(held) if held.kind == kind && self.holds(host) => Ok(()),
            Some(_) => Err(Refusal::Conflict),
        }
    }

    /// Releases the reservation, if the host holds it.
    ///
    /// # Errors
    /// [`Refusal::Conflict`] if the host is not registered with `key`, [`Refusal::WrongKind`].
    pub fn release(&mut self, host: &Host, key: Key, kind: Kind) -> Result<(), Refusal> {
        self.check_key(host, key)?;
        match &self.reservation {
            Some(held) if self.holds(host) => {
                if held.kind != kind {
                    return Err(Refusal::WrongKind);
                }
                self.reservation = None;
                if kind.admits_registrants() {
                    self.notify_others(host, Notice::ReservationReleased);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Ends the reservation and all registrations.
    ///
    /// # Errors
    /// [`Refusal::Conflict`] if the host is not registered with `key`.
    pub fn clear(&mut self, host: &Host, key: Key) -> Result<(), Refusal> {
        self.check_key(host, key)?;
        self.notify_others(host, Notice::ReservationPreempted);
        self.reservation = None;
        self.registered.clear();
        self.changed();
        Ok(())
    }

    /// Takes away the registrations with the key `victim`, and the reservation if they hold it,
    /// which then is the host's with this `kind`. Returns the hosts that are no longer registered.
    ///
    /// # Errors
    /// [`Refusal::Conflict`] if the host is not registered with `key` or nobody with `victim`;
    /// [`Refusal::NoKey`] if `victim` is 0 and there is no reservation of all registrants.
    pub fn preempt(
        &mut self,
        host: &Host,
        key: Key,
        victim: Key,
        kind: Kind,
        aborts: bool,
    ) -> Result<Vec<Host>, Refusal> {
        self.check_key(host, key)?;
        let held = self.reservation.clone();
        let is_for_all = held.as_ref().is_some_and(|held| held.kind.is_for_all());
        // Everybody else is unregistered, and the host holds the reservation.
        if is_for_all && victim == 0 {
            let old = held.map(|held| held.kind);
            let removed = self.remove(host, |_| true, aborts);
            self.reserve(host, kind);
            self.tell_of_change(host, old, kind);
            self.changed();
            return Ok(removed);
        }
        if victim == 0 {
            return Err(Refusal::NoKey);
        }
        if !self.registered.iter().any(|(_, other)| *other == victim) {
            return Err(Refusal::Conflict);
        }
        let holder = held.as_ref().and_then(|held| held.holder.as_ref());
        let takes = holder.is_some_and(|holder| self.key(holder) == Some(victim));
        let removed = self.remove(host, |other| other == victim, aborts);
        if takes {
            self.reserve(host, kind);
            self.tell_of_change(host, held.map(|held| held.kind), kind);
        }
        self.changed();
        Ok(removed)
    }

    /// Tells the remaining registrants that a reservation they took part in is another now.
    fn tell_of_change(&mut self, host: &Host, old: Option<Kind>, new: Kind) {
        if old.is_some_and(|old| old != new) {
            self.notify_others(host, Notice::ReservationReleased);
        }
    }

    fn reserve(&mut self, host: &Host, kind: Kind) {
        let holder = (!kind.is_for_all()).then(|| host.clone());
        self.reservation = Some(Reservation { kind, holder });
    }

    fn holds(&self, host: &Host) -> bool {
        match &self.reservation {
            None => false,
            Some(Reservation { holder: None, .. }) => self.key(host).is_some(),
            Some(Reservation { holder, .. }) => holder.as_ref() == Some(host),
        }
    }

    fn check_key(&self, host: &Host, key: Key) -> Result<(), Refusal> {
        match self.key(host) {
            Some(registered) if registered == key => Ok(()),
            _ => Err(Refusal::Conflict),
        }
    }

    /// A registrant leaves of its own will.
    fn leave(&mut self, host: &Host) {
        let held = self.holds(host);
        self.registered.retain(|(other, _)| other != host);
        let Some(Reservation { kind, holder }) = self.reservation.clone() else {
            return;
        };
        let is_last = holder.is_none() && self.registered.is_empty();
        if is_last || held && holder.is_some() {
            self.reservation = None;
            if kind.admits_registrants() {
                self.notify_others(host, Notice::ReservationReleased);
            }
        }
    }

    /// Removes registrations of others whose keys are `wanted`, and the host's own if its key is.
    fn remove(&mut self, host: &Host, wanted: impl Fn(Key) -> bool, aborts: bool) -> Vec<Host> {
        let victims = self.registered.iter();
        let victims = victims.filter(|(other, key)| other != host && wanted(*key));
        let victims: Vec<Host> = victims.map(|(other, _)| other.clone()).collect();
        self.registered
            .retain(|(other, _)| !victims.contains(other));
        for victim in &victims {
            self.notify(victim, Notice::RegistrationPreempted { aborts });
        }
        victims
    }

    fn notify_others(&mut self, host: &Host, notice: Notice) {
        let others = self.registered.iter().map(|(other, _)| other);
        let others: Vec<Host> = others.filter(|other| *other != host).cloned().collect();
        others.iter().for_each(|other| self.notify(other, notice));
    }

    fn notify(&mut self, host: &Host, notice: Notice) {
        if self
            .notices
            .iter()
            .any(|it| it.0 == *host && it.1 == notice)
        {
            return;
        }
        // A host that does not ask loses its oldest notices.
        if self.notices.len() == NOTICES_MAX {
            self.notices.remove(0);
        }
        self.notices.push((host.clone(), notice));
    }

    fn changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> [Host; 3] {
        [b"a", b"b", b"c"].map(|name| Host::new(name))
    }

    /// Hosts with the keys 1, 2 and 3; the first holds.
    fn held(kind: Kind) -> (State, [Host; 3]) {
        let hosts = hosts();
        let mut state = State::default();
        for (host, key) in hosts.iter().zip(1..) {
            assert_eq!(state.register(host, Existing::Is(0), key), Ok(()));
        }
        assert_eq!(state.acquire(&hosts[0], 1, kind), Ok(()));
        (state, hosts)
    }

    #[test]
    fn each_kind_admits_whom_its_row_says() {
        let stranger = Host::new(b"stranger");
        for kind in Kind::ALL {
            let (state, [a, b, _]) = held(kind);
            for access in [Access::Read, Access::Write] {
                let reads = access == Access::Read && kind.admits_readers();
                assert!(state.may(&a, access));
                assert_eq!(state.may(&b, access), kind.admits_registrants() || reads);
                assert_eq!(state.may(&stranger, access), reads, "{kind:?}");
            }
            assert_eq!(Kind::of_scsi(kind.scsi()), Some(kind));
            assert_eq!(Kind::of_nvme(kind.nvme()), Some(kind));
        }
        let numbers = Kind::ALL.map(|kind| (kind.scsi(), kind.nvme()));
        assert_eq!(numbers, [(1, 1), (3, 2), (5, 3), (6, 4), (7, 5), (8, 6)]);
        assert_eq!((Kind::of_scsi(2), Kind::of_nvme(7)), (None, None));
    }

    #[test]
    fn a_registration_needs_the_key_that_is_there() {
        let [a, ..] = hosts();
        let mut state = State::default();
        assert_eq!(
            state.register(&a, Existing::Is(9), 1),
            Err(Refusal::Conflict)
        );
        assert_eq!(state.register(&a, Existing::Is(0), 0), Ok(()));
        assert_eq!(state.report().generation, 0, "nothing was done");
        assert_eq!(state.register(&a, Existing::Is(0), 1), Ok(()));
        assert_eq!(
            state.register(&a, Existing::Is(0), 2),
            Err(Refusal::Conflict)
        );
        assert_eq!(state.register(&a, Existing::Is(1), 2), Ok(()));
        assert_eq!(state.register(&a, Existing::Ignored, 3), Ok(()));
        assert_eq!(state.key(&a), Some(3));
        assert_eq!(state.register(&a, Existing::Is(3), 0), Ok(()));
        assert_eq!((state.key(&a), state.report().generation), (None, 4));
    }

    #[test]
    fn only_registrants_acquire_and_only_one_of_them() {
        let (mut state, [a, b, _]) = held(Kind::WriteExclusive);
        let stranger = Host::new(b"stranger");
        let conflict = Err(Refusal::Conflict);
        assert_eq!(state.acquire(&stranger, 0, Kind::WriteExclusive), conflict);
        assert_eq!(state.acquire(&b, 2, Kind::WriteExclusive), conflict);
        assert_eq!(
            state.acquire(&a, 2, Kind::WriteExclusive),
            conflict,
            "a wrong key"
        );
        assert_eq!(state.acquire(&a, 1, Kind::ExclusiveAccess), conflict);
        assert_eq!(
            state.acquire(&a, 1, Kind::WriteExclusive),
            Ok(()),
            "once more"
        );
    }

    #[test]
    fn a_release_tells_registrants_that_took_part() {
        for kind in Kind::ALL {
            let (mut state, [a, b, _]) = held(kind);
            let wrong = Kind::ALL
                .into_iter()
                .find(|other| *other != kind)
                .expect("six");
            assert_eq!(state.release(&a, 1, wrong), Err(Refusal::WrongKind));
            assert_eq!(state.release(&b, 1, kind), Err(Refusal::Conflict));
            if !kind.is_for_all() {
                assert_eq!(state.release(&b, 2, kind), Ok(()), "it holds nothing");
                assert!(state.is_held());
            }
            assert_eq!(state.release(&a, 1, kind), Ok(()));
            assert!(!state.is_held());
            let told = state.take_notices(&b);
            let expected = match kind.admits_registrants() {
                true => vec![Notice::ReservationReleased],
                false => Vec::new(),
            };
            assert_eq!(told, expected);
            assert_eq!(state.take_notices(&b), [], "once");
            assert_eq!(state.take_notices(&a), []);
        }
    }

    #[test]
    fn a_holder_that_leaves_releases_and_of_all_the_last() {
        for kind in Kind::ALL {
            let (mut state, [a, b, c]) = held(kind);
            assert_eq!(state.register(&a, Existing::Is(1), 0), Ok(()));
            assert_eq!(state.is_held(), kind.is_for_all());
            assert_eq!(state.register(&b, Existing::Is(2), 0), Ok(()));
            assert_eq!(state.register(&c, Existing::Is(3), 0), Ok(()));
            assert!(!state.is_held());
        }
    }

    #[test]
    fn who_preempts_the_holder_holds() {
        let (mut state, [a, b, c]) = held(Kind::WriteExclusive);
        let removed = state.preempt(&b, 2, 1, Kind::ExclusiveAccess, true);
        assert_eq!(removed, Ok(vec![a.clone()]));
        assert_eq!(state.key(&a), None);
        assert!(state.may(&b, Access::Write) && !state.may(&a, Access::Read));
        let told = [Notice::RegistrationPreempted { aborts: true }];
        assert_eq!(state.take_notices(&a), told);
        assert_eq!(state.take_notices(&c), [Notice::ReservationReleased]);
        // A registrant that does not hold only loses its registration.
        let removed = state.preempt(&b, 2, 3, Kind::WriteExclusive, false);
        assert_eq!(removed, Ok(vec![c]));
        assert_eq!(state.report().kind, Some(Kind::ExclusiveAccess));
        for (victim, refusal) in [(9, Refusal::Conflict), (0, Refusal::NoKey)] {
            let refused = state.preempt(&b, 2, victim, Kind::WriteExclusive, false);
            assert_eq!(refused, Err(refusal));
        }
    }

    #[test]
    fn all_registrants_are_preempted_by_no_key() {
        let (mut state, [a, b, c]) = held(Kind::WriteExclusiveAll);
        let removed = state.preempt(&b, 2, 0, Kind::WriteExclusive, false);
        assert_eq!(removed, Ok(vec![a, c]));
        let report = state.report();
        assert_eq!(
            (report.kind, report.registrants.len()),
            (Some(Kind::WriteExclusive), 1)
        );
        assert!(report.registrants[0].holds);
    }

    #[test]
    fn a_clear_ends_everything() {
        let (mut state, [a, b, _]) = held(Kind::ExclusiveAccess);
        assert_eq!(state.clear(&b, 1), Err(Refusal::Conflict));
        assert_eq!(state.clear(&b, 2), Ok(()));
        assert_eq!(state.report().registrants, []);
        assert!(!state.is_held());
        assert_eq!(state.take_notices(&a), [Notice::ReservationPreempted]);
        assert_eq!(state.report().generation, 4);
    }

    #[test]
    fn the_number_of_registrants_is_bounded() {
        let mut state = State::default();
        for number in 0..REGISTRANTS_MAX {
            let host = Host::new(number.to_string().as_bytes());
            assert_eq!(state.register(&host, Existing::Ignored, 1), Ok(()));
        }
        let one_more = Host::new(b"one more");
        let refused = state.register(&one_more, Existing::Ignored, 1);
        assert_eq!(refused, Err(Refusal::Full));
    }
}
