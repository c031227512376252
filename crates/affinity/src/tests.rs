//! Shared parts of this crate's tests: a small tree, and an oracle too simple to be wrong.

mod cost;
mod exhaustive;
mod partition;
mod random;
mod rules;
mod threads;

use crate::{
    Affinities, Affinity, Aggregate, AggregateAffinities, Entry, Granted, Node, Permit,
    VolumeAffinities,
};

/// The tree, its oracle, and the permits in use, driven by one thread.
struct World {
    affinities: Affinities<u32>,
    aggregate: Affinity<Aggregate>,
    nodes: Vec<Node>,
    oracle: Oracle,
    active: Vec<(u32, Permit)>,
    message_next: u32,
}

/// The rule of A-07 and the order of arrival, word for word.
#[derive(Default)]
struct Oracle {
    active: Vec<Message>,
    waiting: Vec<Message>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Message {
    id: u32,
    reactor: usize,
    targets: Vec<Node>,
}

impl Message {
    fn conflicts(&self, other: &Message) -> bool {
        let related = |a: &Node, b: &Node| a.covers(b) || b.covers(a);
        self.targets
            .iter()
            .any(|a| other.targets.iter().any(|b| related(a, b)))
    }
}

impl Oracle {
    fn enter(&mut self, message: Message) -> bool {
        let blocked = self
            .active
            .iter()
            .chain(&self.waiting)
            .any(|earlier| earlier.conflicts(&message));
        if blocked {
            &mut self.waiting
        } else {
            &mut self.active
        }
        .push(message);
        !blocked
    }

    fn leave(&mut self, id: u32) -> Vec<Message> {
        self.active.retain(|message| message.id != id);
        let (mut granted, mut still) = (Vec::new(), Vec::new());
        for message in std::mem::take(&mut self.waiting) {
            let mut earlier = self.active.iter().chain(&granted).chain(&still);
            if earlier.any(|earlier| earlier.conflicts(&message)) {
                still.push(message);
            } else {
                granted.push(message);
            }
        }
        self.active.extend(granted.iter().cloned());
        self.waiting = still;
        granted
    }
}

impl World {
    /// Serial, an aggregate with one range, and a volume of `stripes` stripes and one range.
    fn new(reactors: usize, stripes: usize) -> World {
        let affinities = Affinities::new(reactors);
        let aggregate = AggregateAffinities::add(&affinities, 1).unwrap();
        let nodes = vec![
            affinities.serial().node().clone(),
            aggregate.aggregate.node().clone(),
            aggregate.vbn.node().clone(),
            aggregate.range(0).node().clone(),
        ];
        let mut world = World {
            affinities,
            aggregate: aggregate.aggregate,
            nodes,
            oracle: Oracle::default(),
            active: Vec::new(),
            message_next: 0,
        };
        world.add_volume(stripes);
        world
    }

    fn add_volume(&mut self, stripes: usize) -> VolumeAffinities {
        let volume = VolumeAffinities::add(&self.affinities, &self.aggregate, stripes, 1).unwrap();
        self.nodes.push(volume.volume.node().clone());
        self.nodes.push(volume.logical.node().clone());
        self.nodes
            .extend(volume.stripes().iter().map(|stripe| stripe.node().clone()));
        self.nodes.push(volume.vbn.node().clone());
        self.nodes
            .extend(volume.ranges().iter().map(|range| range.node().clone()));
        volume
    }

    /// Returns the reactors that are not inside the leaf they published.
    fn idle_reactors(&self, reactors: usize) -> Vec<usize> {
        let busy = |r: &usize| {
            self.active
                .iter()
                .any(|(_, p)| p.entered && p.reactor == *r)
        };
        (0..reactors).filter(|reactor| !busy(reactor)).collect()
    }

    fn enter(&mut self, reactor: usize, targets: &[Node]) -> bool {
        let id = self.message_next;
        self.message_next += 1;
        let entry = match targets {
            // Half of them without a message at first.
            [node] => match id
                .is_multiple_of(2)
                .then(|| self.affinities.try_enter(reactor, node))
            {
                Some(Some(permit)) => Entry::Entered(permit),
                _ => self.affinities.enter(reactor, node, id),
            },
            [first, second] => self.affinities.enter2(reactor, first, second, id),
            _ => panic!("one or two targets"),
        };
        let expected = self.oracle.enter(Message {
            id,
            reactor,
            targets: targets.to_vec(),
        });
        match entry {
            Entry::Entered(permit) => {
                assert!(expected, "entered {targets:?}, which is not free");
                self.active.push((id, permit));
            }
            Entry::Queued => assert!(!expected, "had to wait for {targets:?}, which is free"),
            Entry::Gone => panic!("{targets:?} is gone"),
        }
        self.compare();
        expected
    }

    /// Ends the `index`th permit in use and returns the messages granted.
    fn leave(&mut self, index: usize) -> Vec<u32> {
        let (id, permit) = self.active.remove(index);
        let mut granted = Vec::new();
        self.affinities.leave(permit, &mut granted);
        let seen: Vec<_> = granted.iter().map(seen).collect();
        assert_eq!(seen, self.oracle.leave(id), "granted after {id} left");
        let ids = granted.iter().map(|granted| granted.message).collect();
        self.active.extend(
            granted
                .into_iter()
                .map(|granted| (granted.message, granted.permit)),
        );
        self.compare();
        ids
    }

    fn compare(&self) {
        assert_eq!(self.active.len(), self.oracle.active.len());
        assert_eq!(self.affinities.waiting(), self.oracle.waiting.len());
    }

    /// Drains the queues: each waiting message runs as the others leave.
    fn drain(&mut self) {
        while !self.active.is_empty() {
            self.leave(0);
        }
        assert_eq!(self.affinities.waiting(), 0, "somebody waits for nobody");
    }
}

fn seen(granted: &Granted<u32>) -> Message {
    let mut targets = vec![granted.permit.node().clone()];
    targets.extend(granted.permit.second().cloned());
    assert_eq!(granted.reactor, granted.permit.reactor());
    Message {
        id: granted.message,
        reactor: granted.reactor,
        targets,
    }
}
