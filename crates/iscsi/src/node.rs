//! What the sessions of all reactors share: who is connected, what happens to LUNs, reservations.
//!
//! A session's identity is the initiator's name, its part of the session's number (ISID) and the
//! target. A host that lost its connection connects again under the same identity: its new session
//! *replaces* the old one (RFC 7143 §6.3.5), which may not have noticed yet. The old one is told,
//! ends, and gives its seat up when nothing of it is under way any more. The new one waits for
//! that, so a write that the host has given up never lands after the host wrote again.
//!
//! Sessions of different reactors do not talk to each other. Each looks at what is shared here, at
//! its next command or once a second. Locks protect the two tables, and are held for a look-up; the
//! order is seats, then tickets; the others are never taken under another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

use everglade_env::lock::Mutex;
use everglade_target::reservations::{LunUuid, Registry, Reservations};

/// Identity of a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Name of the initiator.
    pub initiator: String,
    /// The initiator's part of the session's number.
    pub isid: [u8; 6],
    /// Name of the export.
    pub export: String,
}

/// See the module's documentation.
#[derive(Default)]
pub struct Node {
    seats: Mutex<BTreeMap<Identity, Arc<Occupant>>>,
    /// The newest of the logins that wait for a seat.
    newest: Mutex<BTreeMap<Identity, u64>>,
    tickets: AtomicU64,
    luns: Mutex<BTreeMap<LunUuid, Arc<Events>>>,
    reservations: Arc<Registry>,
    handles: AtomicU16,
}

/// What is known of a session by others.
#[derive(Debug)]
struct Occupant {
    tsih: u16,
    is_replaced: AtomicBool,
}

/// The seat of a session, given up when it is dropped.
pub struct Seat {
    node: Arc<Node>,
    identity: Identity,
    occupant: Arc<Occupant>,
}

/// The right of a login to a seat, until a newer login of the same identity comes.
pub struct Ticket {
    node: Arc<Node>,
    identity: Identity,
    number: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut newest = self.node.newest.lock();
        if newest.get(&self.identity) == Some(&self.number) {
            newest.remove(&self.identity);
        }
    }
}

/// Events of a LUN, by number of times they happened.
#[derive(Debug, Default)]
pub struct Events {
    /// The logical unit was reset.
    pub resets: AtomicU64,
    /// Tasks of all hosts were cleared.
    pub clears: AtomicU64,
    /// Number of aborts of other sessions' tasks.
    generation: AtomicU64,
    /// How far each session is with them.
    members: Mutex<Vec<Arc<AtomicU64>>>,
}

/// A session of a LUN, as far as aborts by others are concerned.
#[derive(Clone, Debug)]
pub struct Member {
    reached: Arc<AtomicU64>,
}

/// What a session says that has left.
const LEFT: u64 = u64::MAX;

impl Events {
    /// A session begins, which has nothing that could be aborted.
    #[must_use]
    pub fn join(&self) -> Member {
        let mut members = self.members.lock();
        members.retain(|member| member.load(Ordering::Acquire) != LEFT);
        let reached = Arc::new(AtomicU64::new(self.generation()));
        members.push(Arc::clone(&reached));
        Member { reached }
    }

    /// Returns the number of aborts so far.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Begins a new generation, whose aborts are known by other means. Returns it.
    pub fn advance(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Returns whether all sessions but `own` have reached a generation: nothing that was aborted
    /// until then is under way.
    #[must_use]
    pub fn have_reached(&self, generation: u64, own: &Member) -> bool {
        let members = self.members.lock();
        let mut others = members.iter().filter(|it| !Arc::ptr_eq(it, &own.reached));
        others.all(|other| other.load(Ordering::Acquire) >= generation)
    }
}

impl Member {
    /// Returns the generation that the session has reached.
    #[must_use]
    pub fn reached(&self) -> u64 {
        self.reached.load(Ordering::Acquire)
    }

    /// The session has reached a generation.
    pub fn reach(&self, generation: u64) {
        self.reached.store(generation, Ordering::Release);
    }

    /// The session has ended.
    pub fn leave(&self) {
        self.reach(LEFT);
    }
}

/// The reasons why a session cannot have its seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another session has it, and was told to leave: try again.
    Occupied,
    /// A newer login of the same host waits for it.
    Outdated,
}

impl Node {
    /// Makes a node whose reservations are those of other protocols, too.
    #[must_use]
    pub fn new(reservations: Arc<Registry>) -> Node {
        Node {
            reservations,
            ..Node::default()
        }
    }

    /// Returns a ticket for a login, newer than all before. Older logins of the same identity lose
    /// their right to the seat: their host has given them up.
    #[must_use]
    pub fn ticket(self: &Arc<Node>, identity: &Identity) -> Ticket {
        let number = self.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        self.newest.lock().insert(identity.clone(), number);
        Ticket {
            node: Arc::clone(self),
            identity: identity.clone(),
            number,
        }
    }

    /// Takes the seat of a session.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn sit(self: &Arc<Node>, ticket: &Ticket) -> Result<Seat, Refusal> {
        let identity = &ticket.identity;
        let mut seats = self.seats.lock();
        if self.newest.lock().get(identity) != Some(&ticket.number) {
            return Err(Refusal::Outdated);
        }
        if let Some(occupant) = seats.get(identity) {
            occupant.is_replaced.store(true, Ordering::Release);
            return Err(Refusal::Occupied);
        }
        // 0 means no session.
        let tsih = self.handles.fetch_add(1, Ordering::Relaxed) % (u16::MAX - 1) + 1;
        let occupant = Arc::new(Occupant {
            tsih,
            is_replaced: AtomicBool::new(false),
        });
        seats.insert(identity.clone(), Arc::clone(&occupant));
        Ok(Seat {
            node: Arc::clone(self),
            identity: identity.clone(),
            occupant,
        })
    }

    /// Returns whether there is a session of this identity and number.
    #[must_use]
    pub fn has(&self, identity: &Identity, tsih: u16) -> bool {
        let seats = self.seats.lock();
        seats.get(identity).is_some_and(|it| it.tsih == tsih)
    }

    /// Returns the events of a LUN.
    #[must_use]
    pub fn events(&self, uuid: &LunUuid) -> Arc<Events> {
        Arc::clone(self.luns.lock().entry(*uuid).or_default())
    }

    /// Returns the reservations of a LUN.
    #[must_use]
    pub fn reservations(&self, uuid: &LunUuid) -> Arc<Reservations> {
        self.reservations.lun(uuid)
    }
}

impl Seat {
    /// Number of the session.
    #[must_use]
    pub fn tsih(&self) -> u16 {
        self.occupant.tsih
    }

    /// Returns whether another session waits for the seat.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        self.occupant.is_replaced.load(Ordering::Acquire)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.node.seats.lock().remove(&self.identity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_free_when_its_session_has_left() {
        let node = Arc::new(Node::default());
        let mut identity = Identity {
            initiator: "iqn.me".to_owned(),
            isid: [1; 6],
            export: "v/l".to_owned(),
        };
        let sit = |identity: &Identity| node.sit(&node.ticket(identity));
        let first = sit(&identity).expect("free");
        assert!(!first.is_replaced());
        let older = node.ticket(&identity);
        let newer = node.ticket(&identity);
        assert_eq!(node.sit(&older).err(), Some(Refusal::Outdated));
        assert!(
            !first.is_replaced(),
            "only the newest login may ask for that"
        );
        assert_eq!(node.sit(&newer).err(), Some(Refusal::Occupied));
        assert!(first.is_replaced());
        assert!(node.has(&identity, first.tsih()) && !node.has(&identity, 0));
        let tsih = first.tsih();
        drop(first);
        assert!(!node.has(&identity, tsih));
        assert_eq!(node.sit(&older).err(), Some(Refusal::Outdated));
        let second = node.sit(&newer).expect("free again");
        assert_ne!(second.tsih(), tsih);
        drop((older, newer));
        assert_eq!(
            node.newest.lock().len(),
            0,
            "nothing is remembered of who left"
        );
        identity.isid[5] = 2;
        assert!(sit(&identity).is_ok(), "another path of the same host");
    }
}
