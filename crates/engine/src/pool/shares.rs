//! Shares of a busy aggregate: where operations wait, each LUN gets its part, by weight.
//!
//! ```text
//! operation ──▶ asks ──room──▶ begins ──▶ ends ──▶ the next that waits begins
//!                 └─no room──▶ waits, by its tag
//! ```
//!
//! Start-time fair queueing with a bound of what is under way, SFQ(D) (Jin, Chase, Kaur:
//! *Interposed proportional sharing for a storage service utility*, 2004). An operation gets a tag
//! when it asks. The tag is the aggregate's virtual time, or the end of the LUN's operation before
//! it if that is later. An operation ends at its tag plus its cost divided by the LUN's weight. The
//! lowest tag begins first, and the virtual time is the tag that began last.
//!
//! 1. Nobody waits while there is room: nothing is kept free for a LUN that asks for little.
//! 2. LUNs that always have operations waiting get parts of the cost in proportion to their
//!    weights. A part is wrong by one operation at most, beside the operations that are under way.
//! 3. A LUN that was idle saves nothing up: its next tag is not before the virtual time.
//! 4. What needs space or memory and what needs none wait in different [`Lane`]s, so a read never
//!    waits for writes that wait for a consistency point, and nothing that frees space waits for
//!    what needs it.
//! 5. Each operation that began ends once, and gives its room to at most as many as there is room
//!    for. An operation of another reactor is told there ([`Granted`]).
//!
//! Only while something has a weight ([`crate::pool::limit`]) does any operation ask.

use std::collections::BTreeMap;

use everglade_env::Nanos;
use everglade_env::lock::Mutex;
use everglade_target::Op;

/// The weight of a LUN that has none of its own.
pub(crate) const WEIGHT: u32 = 100;
/// Devices of an aggregate that is not large.
const DEVICES_FEW: usize = 4;
/// What an operation costs beside its bytes, in bytes.
const COST: u64 = 16 << 10;
/// Parts of a byte, so that large weights count.
const SCALE: u128 = 1 << 16;

/// Operations that may wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Those that need neither space nor memory: reads, discards.
    Light,
    /// Those that change blocks.
    Writes,
}

impl Lane {
    /// Returns the lane of an operation and what it costs; nothing if it never waits. Flushes do
    /// not: clients wait for the writes before.
    pub(crate) fn of(op: &Op) -> Option<(Lane, u64)> {
        let (lane, bytes) = match op {
            Op::Flush => return None,
            Op::Read { length, .. } => (Lane::Light, u64::from(*length)),
            Op::Write { data, .. } => (Lane::Writes, u64::from(data.length)),
            Op::CompareAndWrite { data, .. } => (Lane::Writes, u64::from(data.length)),
            Op::WriteZeroes { .. } => (Lane::Writes, 0),
            _ => (Lane::Light, 0),
        };
        Some((lane, COST + bytes))
    }
}

/// The place of an operation among those that wait in its lane.
pub(crate) type Turn = (u128, u64);

/// An operation whose turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// The reactor that has it.
    pub(crate) reactor: usize,
    pub(crate) turn: Turn,
}

/// How long operations of a LUN waited for their turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Operations that waited.
    pub operations: u64,
    /// How long they waited, all together.
    pub nanos: u64,
}

#[derive(Debug, Default)]
struct Flow {
    /// The end of its last operation.
    end: u128,
    waits: Waits,
}

#[derive(Debug)]
struct Waiting {
    reactor: usize,
    lun: [u8; 16],
    since: Nanos,
}

#[derive(Debug, Default)]
struct Queue {
    /// The tag that began last.
    time: u128,
    flows: BTreeMap<[u8; 16], Flow>,
    waiting: BTreeMap<Turn, Waiting>,
    /// Operations that have waited, for their order.
    count: u64,
    under_way: usize,
    /// Most of them, as of the last one that asked.
    depth: usize,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) lun: [u8; 16],
    pub(crate) weight: u32,
    pub(crate) reactor: usize,
}

impl Queue {
    /// Returns the turn of an operation that has to wait.
    fn ask(&mut self, asker: Asker, cost: u64, depth: usize, now: Nanos) -> Option<Turn> {
        self.depth = depth;
        let flow = self.flows.entry(asker.lun).or_default();
        let tag = self.time.max(flow.end);
        flow.end = tag + u128::from(cost) * SCALE / u128::from(asker.weight.max(1));
        if self.waiting.is_empty() && self.under_way < depth {
            self.under_way += 1;
            self.time = tag;
            return None;
        }
        self.count += 1;
        let turn = (tag, self.count);
        let waiting = Waiting {
            reactor: asker.reactor,
            lun: asker.lun,
            since: now,
        };
        self.waiting.insert(turn, waiting);
        Some(turn)
    }

    /// An operation ended. Those that it makes room for are under way.
    fn end(&mut self, now: Nanos, granted: &mut Vec<Granted>) {
        assert!(self.under_way > 0, "an operation ended that had not begun");
        self.under_way -= 1;
        while self.under_way < self.depth {
            let Some((turn, next)) = self.waiting.pop_first() else {
                return;
            };
            self.under_way += 1;
            self.time = turn.0;
            let flow = self.flows.entry(next.lun).or_default();
            flow.waits.operations += 1;
            flow.waits.nanos += now.saturating_sub(next.since);
            granted.push(Granted {
                reactor: next.reactor,
                turn,
            });
        }
    }
}

/// The lanes of an aggregate. See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    light: Mutex<Queue>,
    writes: Mutex<Queue>,
}

impl Shares {
    fn queue(&self, lane: Lane) -> &Mutex<Queue> {
        match lane {
            Lane::Light => &self.light,
            Lane::Writes => &self.writes,
        }
    }

    /// An operation wants to begin, beside at most so many others ([`depth`]). Returns its turn if
    /// it has to wait; otherwise it is under way.
    pub(crate) fn ask(
        &self,
        (lane, cost): (Lane, u64),
        asker: Asker,
        depth: usize,
        now: Nanos,
    ) -> Option<Turn> {
        self.queue(lane).lock().ask(asker, cost, depth, now)
    }

    /// An operation that was under way ended. Adds those that are under way instead.
    pub(crate) fn end(&self, lane: Lane, now: Nanos, granted: &mut Vec<Granted>) {
        self.queue(lane).lock().end(now, granted);
    }

    /// An operation does not wait any more, because nothing has a weight. Returns false if its turn
    /// has come already.
    pub(crate) fn withdraw(&self, lane: Lane, turn: Turn) -> bool {
        self.queue(lane).lock().waiting.remove(&turn).is_some()
    }

    /// Adds how long operations of each LUN have waited.
    pub(crate) fn add_waits(&self, all: &mut BTreeMap<[u8; 16], Waits>) {
        for lane in [&self.light, &self.writes] {
            for (lun, flow) in &lane.lock().flows {
                let waits = all.entry(*lun).or_default();
                waits.operations += flow.waits.operations;
                waits.nanos += flow.waits.nanos;
            }
        }
    }
}

/// Returns how many operations of an aggregate with so many devices are under way in a lane.
pub(crate) fn depth(of_few: usize, devices: usize) -> usize {
    (of_few * devices.max(DEVICES_FEW) / DEVICES_FEW).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::SHARE_DEPTH;

    const DEPTH: usize = SHARE_DEPTH;

    fn asker(lun: u8, weight: u32) -> Asker {
        Asker {
            lun: [lun; 16],
            weight,
            reactor: usize::from(lun),
        }
    }

    /// Three LUNs ask all the time, and one of them with far more: what each gets follows from its
    /// weight alone.
    #[test]
    fn who_always_waits_gets_a_part_as_its_weight() {
        let shares = Shares::default();
        let loads = [(1, 500, 40), (2, 300, 60), (3, 200, 900)];
        let mut begun = [0_u64; 4];
        let ask = |lun, weight| shares.ask((Lane::Light, COST), asker(lun, weight), DEPTH, 0);
        for (lun, weight, queue) in loads {
            for _ in 0..queue {
                begun[usize::from(lun)] += u64::from(ask(lun, weight).is_none());
            }
        }
        assert_eq!(begun.iter().sum::<u64>(), DEPTH as u64);
        let mut granted = Vec::new();
        for _ in 0..10_000 {
            shares.end(Lane::Light, 0, &mut granted);
            for next in granted.drain(..) {
                begun[next.reactor] += 1;
                let (lun, weight, _) = loads[next.reactor - 1];
                assert!(ask(lun, weight).is_some(), "others wait");
            }
        }
        let all: u64 = begun.iter().sum();
        for (lun, weight, _) in loads {
            let part = begun[usize::from(lun)] as f64 / all as f64;
            let due = f64::from(weight) / 1_000.0;
            assert!(
                (part / due - 1.0).abs() < 0.02,
                "LUN {lun} got {part}, not {due}"
            );
        }
    }

    #[test]
    fn large_operations_count_more() {
        let shares = Shares::default();
        let ask = |lun, cost| shares.ask((Lane::Writes, cost), asker(lun, WEIGHT), DEPTH, 0);
        let mut begun = [0; 3];
        for _ in 0..200 {
            ask(1, COST);
            ask(2, 4 * COST);
        }
        let mut granted = Vec::new();
        for _ in 0..50 {
            shares.end(Lane::Writes, 0, &mut granted);
        }
        granted.iter().for_each(|it| begun[it.reactor] += 1);
        assert_eq!((begun[0], begun[1] + begun[2]), (0, 50));
        assert!(begun[1] >= 3 * begun[2], "{begun:?}");
    }

    #[test]
    fn while_there_is_room_nobody_waits_and_who_was_idle_saves_nothing_up() {
        let shares = Shares::default();
        let ask = |lun| shares.ask((Lane::Light, COST), asker(lun, WEIGHT), DEPTH, 5);
        let mut granted = Vec::new();
        for _ in 0..1_000 {
            assert_eq!(ask(1), None);
            shares.end(Lane::Light, 9, &mut granted);
        }
        assert_eq!(granted, []);
        // LUN 2 comes later. It is not given a thousand operations before LUN 1 has its next.
        for _ in 0..DEPTH {
            ask(1);
        }
        let mut waiting = Vec::new();
        for _ in 0..4 {
            waiting.push(ask(2).expect("no room"));
            waiting.push(ask(1).expect("no room"));
        }
        for _ in 0..DEPTH {
            shares.end(Lane::Light, 9, &mut granted);
        }
        let mut waits = BTreeMap::new();
        shares.add_waits(&mut waits);
        assert_eq!(
            waits[&[1; 16]],
            Waits {
                operations: 4,
                nanos: 16
            }
        );
        assert_eq!(granted.len(), waiting.len());
        let place = |lun| granted.iter().position(|it| it.reactor == lun);
        assert!(place(1) < Some(5), "{granted:?}");
    }

    #[test]
    fn who_withdraws_is_told_whether_its_turn_has_come() {
        let shares = Shares::default();
        let ask = || shares.ask((Lane::Light, COST), asker(1, WEIGHT), DEPTH, 0);
        for _ in 0..DEPTH {
            assert_eq!(ask(), None);
        }
        let turns = [ask(), ask()].map(|turn| turn.expect("no room"));
        assert_eq!(
            shares.ask((Lane::Writes, COST), asker(1, WEIGHT), DEPTH, 0),
            None,
            "a lane of its own"
        );
        let mut granted = Vec::new();
        shares.end(Lane::Light, 0, &mut granted);
        assert_eq!(granted[0].turn, turns[0]);
        assert!(!shares.withdraw(Lane::Light, turns[0]));
        assert!(shares.withdraw(Lane::Light, turns[1]));
        shares.end(Lane::Light, 0, &mut granted);
        assert_eq!(granted.len(), 1, "nobody waits");
    }
}
