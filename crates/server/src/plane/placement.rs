//! The assignment of connections to reactors, and their counts (decision 0023).
//!
//! Connections of all protocols are counted together by reactor, because they share the reactor's
//! time, and by protocol, because each protocol has its own limit. The numbers are atomic: every
//! reactor changes them, and one reactor admits connections.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::fronts::FRONTS_MAX;

/// Connections of a reactor.
#[derive(Default)]
struct Load {
    /// Open, or on their way.
    connections: AtomicU32,
    /// Connections of this reactor that have named their export and stay.
    settled: AtomicU32,
}

/// See the module's documentation.
pub(crate) struct Placement {
    /// Connections of all reactors, open or on their way.
    connections: AtomicU32,
    /// Connections, by protocol.
    fronts: [AtomicU32; FRONTS_MAX],
    /// Connections, by reactor.
    loads: Vec<Load>,
    /// Connections that went to another reactor when they named their export.
    moved: AtomicU64,
    /// The reactor that accepts waits for a connection to end.
    is_gate_shut: AtomicBool,
    /// Times that accepting paused.
    pauses: AtomicU64,
}

impl Placement {
    pub(super) fn new(reactors: usize) -> Placement {
        Placement {
            connections: AtomicU32::new(0),
            fronts: Default::default(),
            loads: (0..reactors).map(|_| Load::default()).collect(),
            moved: AtomicU64::new(0),
            is_gate_shut: AtomicBool::new(false),
            pauses: AtomicU64::new(0),
        }
    }

    /// Counts a connection of a protocol and chooses its reactor: one with the fewest connections,
    /// so that a client with one request at a time does not share the thread of a busy client while
    /// another reactor is idle. Among equals it chooses the one that is home of the fewest
    /// aggregates (`homes`, by reactor), because their consistency points run there. If several are
    /// still equal, it takes the first one, counting from `from`. `None` if there are
    /// `connections_max` of this protocol. Called by one reactor, the one that accepts.
    pub(crate) fn admit(
        &self,
        front: usize,
        connections_max: u32,
        from: usize,
        homes: &[usize],
    ) -> Option<usize> {
        if self.fronts[front].load(Ordering::Acquire) >= connections_max {
            return None;
        }
        let count = self.loads.len();
        let reactor = (from..from + count)
            .map(|reactor| reactor % count)
            .min_by_key(|reactor| (self.load(*reactor), homes[*reactor]))?;
        self.connections.fetch_add(1, Ordering::AcqRel);
        self.fronts[front].fetch_add(1, Ordering::AcqRel);
        self.loads[reactor]
            .connections
            .fetch_add(1, Ordering::AcqRel);
        Some(reactor)
    }

    /// A connection of reactor `here` names its export: says on which reactor it stays, and counts
    /// it there. If the export is at home `here`, that is another one which has no more that stay,
    /// so that the consistency points its own writes cause run beside it and not before it;
    /// otherwise the other's clients would pay. Connections that have not named an export are not
    /// looked at: they may be probes, and those that come back together after a restart would keep
    /// each other where they happen to be.
    pub(crate) fn choose_reactor(&self, here: usize, is_home: bool, homes: &[usize]) -> usize {
        let away = is_home.then(|| self.settle_away(here, homes)).flatten();
        let Some(reactor) = away else {
            self.loads[here].settled.fetch_add(1, Ordering::AcqRel);
            return here;
        };
        self.loads[reactor]
            .connections
            .fetch_add(1, Ordering::AcqRel);
        self.loads[here].connections.fetch_sub(1, Ordering::AcqRel);
        self.moved.fetch_add(1, Ordering::Relaxed);
        reactor
    }

    /// Counts one more settled connection on a reactor other than `here` that has no more of them.
    /// Other reactors may call this at the same time.
    fn settle_away(&self, here: usize, homes: &[usize]) -> Option<usize> {
        let settled = |reactor: usize| &self.loads[reactor].settled;
        let mine = settled(here).load(Ordering::Acquire);
        let count = self.loads.len();
        loop {
            let (seen, _, reactor) = (here + 1..here + count)
                .map(|reactor| reactor % count)
                .map(|reactor| {
                    let seen = settled(reactor).load(Ordering::Acquire);
                    (seen, homes[reactor], reactor)
                })
                .min_by_key(|(seen, homes, _)| (*seen, *homes))?;
            if seen > mine {
                return None;
            }
            let taken = settled(reactor).compare_exchange(
                seen,
                seen + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if taken.is_ok() {
                return Some(reactor);
            }
        }
    }

    /// Connections of all reactors.
    pub(crate) fn loads(&self) -> impl Iterator<Item = u32> {
        (0..self.loads.len()).map(|reactor| self.load(reactor))
    }

    /// Connections of a reactor, open or on their way.
    fn load(&self, reactor: usize) -> u32 {
        self.loads[reactor].connections.load(Ordering::Acquire)
    }

    /// Connections that went to another reactor.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Removes a connection that has ended. `is_settled`: it had named its export. Returns whether
    /// the accepting reactor waits for this.
    pub(super) fn forget(&self, reactor: usize, front: usize, is_settled: bool) -> bool {
        let load = &self.loads[reactor];
        load.settled
            .fetch_sub(u32::from(is_settled), Ordering::AcqRel);
        load.connections.fetch_sub(1, Ordering::AcqRel);
        self.fronts[front].fetch_sub(1, Ordering::AcqRel);
        self.connections.fetch_sub(1, Ordering::SeqCst);
        self.is_gate_shut.load(Ordering::SeqCst)
    }

    /// Notes that the accepting reactor has paused, so that each end of a connection wakes it. The
    /// reactor reads the number of connections afterwards, so it misses no end.
    pub(crate) fn shut_gate(&self) {
        self.pauses.fetch_add(1, Ordering::Relaxed);
        self.is_gate_shut.store(true, Ordering::SeqCst);
    }

    pub(crate) fn open_gate(&self) {
        self.is_gate_shut.store(false, Ordering::SeqCst);
    }

    /// Connections of all protocols and reactors, open or on their way.
    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Times that accepting paused.
    pub(crate) fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_goes_to_a_reactor_with_the_fewest() {
        let placement = Placement::new(3);
        let mut next = 0;
        let mut admit = || {
            let reactor = placement.admit(0, 7, next, &[0; 3]);
            next = reactor.map_or(next, |reactor| (reactor + 1) % 3);
            reactor
        };
        assert_eq!([admit(), admit(), admit()], [Some(0), Some(1), Some(2)]);
        assert_eq!(admit(), Some(0));
        placement.forget(1, 0, false);
        placement.forget(2, 0, false);
        // A client that probes first and returns gets the free reactors, not the next in turn.
        assert_eq!([admit(), admit()], [Some(1), Some(2)]);
        assert_eq!([admit(), admit()], [Some(1), Some(2)]);
        assert_eq!(admit(), Some(0));
        assert_eq!(admit(), None, "as many as can be");
        placement.forget(2, 0, false);
        assert_eq!(admit(), Some(2));
    }

    #[test]
    fn a_connection_leaves_the_home_of_its_export_for_a_reactor_with_no_more() {
        let placement = Placement::new(3);
        let homes = [1, 1, 0];
        let loads = || placement.loads().collect::<Vec<_>>();
        assert_eq!(placement.admit(0, 9, 0, &homes), Some(2));
        // A connection that has not named its export does not count.
        assert_eq!(placement.admit(0, 9, 0, &homes), Some(0));
        assert_eq!(
            placement.choose_reactor(0, true, &homes),
            2,
            "where nothing is at home"
        );
        assert_eq!(loads(), [0, 0, 2]);
        assert_eq!(
            placement.choose_reactor(2, false, &homes),
            2,
            "well where it is"
        );
        for expected in [0, 1] {
            assert_eq!(placement.admit(0, 9, 0, &homes), Some(expected));
        }
        assert_eq!(placement.choose_reactor(0, true, &homes), 1);
        assert_eq!(placement.choose_reactor(1, true, &homes), 0);
        assert_eq!((loads(), placement.moved()), (vec![1, 1, 2], 3));
        assert_eq!(placement.admit(0, 9, 0, &homes), Some(0));
        assert_eq!(
            placement.choose_reactor(0, true, &homes),
            1,
            "it has no more without it"
        );
        assert_eq!(placement.admit(0, 9, 0, &homes), Some(0));
        assert_eq!(
            placement.choose_reactor(0, true, &homes),
            0,
            "the others have more"
        );
        placement.forget(2, 0, true);
        placement.forget(2, 0, true);
        assert_eq!(placement.admit(0, 9, 2, &homes), Some(2));
        assert_eq!(placement.choose_reactor(2, true, &homes), 2);
        assert_eq!(loads(), [2, 2, 1]);
    }

    #[test]
    fn clients_that_come_back_together_are_not_at_home_afterwards() {
        let placement = Placement::new(2);
        let homes = [1, 1];
        // All connect before any names its export. Client n names an export at home on its own
        // reactor.
        let clients: Vec<_> = (0..8)
            .filter_map(|n| placement.admit(0, 9, n, &homes))
            .collect();
        let at_home = clients
            .iter()
            .filter(|here| placement.choose_reactor(**here, true, &homes) == **here);
        assert_eq!(at_home.count(), 0);
        assert_eq!(placement.loads().collect::<Vec<_>>(), [4, 4]);
    }

    #[test]
    fn among_equals_a_connection_goes_where_no_aggregate_is_at_home() {
        let placement = Placement::new(3);
        let admit = || placement.admit(0, 9, 0, &[2, 1, 0]);
        assert_eq!([admit(), admit(), admit()], [Some(2), Some(1), Some(0)]);
        assert_eq!(admit(), Some(2), "but never where more are already");
    }

    #[test]
    fn each_protocol_has_as_many_as_it_may_have() {
        let placement = Placement::new(1);
        assert_eq!(placement.admit(0, 1, 0, &[0]), Some(0));
        assert_eq!(placement.admit(0, 1, 0, &[0]), None);
        assert_eq!(
            placement.admit(1, 1, 0, &[0]),
            Some(0),
            "the other has none"
        );
        assert_eq!(
            (placement.connections(), placement.admit(1, 1, 0, &[0])),
            (2, None)
        );
        assert!(!placement.forget(0, 0, false), "the gate is open");
        placement.shut_gate();
        assert!(placement.forget(0, 1, false), "somebody waits for that");
        assert_eq!(placement.connections(), 0);
        assert_eq!(placement.admit(1, 1, 0, &[0]), Some(0));
    }
}
