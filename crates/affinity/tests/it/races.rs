//! Two or three reactors, a few messages each, every kind of conflict.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use shuttle::thread;

use crate::affinities::{Affinities, Entry};
use crate::node::Node;
use crate::outcome::Granted;
use crate::permit::Permit;
use crate::shape::{AggregateAffinities, VolumeAffinities};

const NOBODY: usize = usize::MAX;

/// The nodes that a reactor enters, as indexes into the nodes of the world.
type Script = &'static [&'static [usize]];

// Nodes of the world by index.
const SERIAL: usize = 0;
const VOLUME: usize = 1;
const LOGICAL: usize = 2;
const VBN: usize = 3;
const STRIPE: usize = 4;
const NEIGHBOUR: usize = 5;
const RANGE: usize = 6;

/// The message whose handler removes the volume; the others are 0.
const REMOVE: u32 = 1;

struct World {
    affinities: Affinities<u32>,
    nodes: Vec<Node>,
    leaves: Vec<(Node, AtomicUsize)>,
    mailboxes: Vec<Mutex<VecDeque<Granted<u32>>>>,
    done: AtomicUsize,
    /// True while a coarse message is queued and has not run.
    coarse_waits: AtomicBool,
}

impl World {
    fn new(reactors: usize) -> World {
        let affinities = Affinities::new(reactors);
        let aggregate = AggregateAffinities::add(&affinities, 1).unwrap();
        let volume = VolumeAffinities::add(&affinities, &aggregate.aggregate, 2, 1).unwrap();
        let nodes = vec![
            affinities.serial().node().clone(),
            volume.volume.node().clone(),
            volume.logical.node().clone(),
            volume.vbn.node().clone(),
            volume.stripes()[0].node().clone(),
            volume.stripes()[1].node().clone(),
            volume.range(0).node().clone(),
        ];
        let leaves = nodes[STRIPE..=RANGE]
            .iter()
            .map(|n| (n.clone(), AtomicUsize::new(NOBODY)))
            .collect();
        let mailboxes = (0..reactors).map(|_| Mutex::default()).collect();
        let (done, coarse_waits) = (AtomicUsize::new(0), AtomicBool::new(false));
        World {
            affinities,
            nodes,
            leaves,
            mailboxes,
            done,
            coarse_waits,
        }
    }

    /// Marks the leaves that a permit covers: two conflicting permits have a leaf in common.
    fn mark(&self, permit: &Permit) {
        for (leaf, holder) in self.leaves.iter().filter(|(leaf, _)| permit.covers(leaf)) {
            let before = holder.swap(permit.reactor(), Ordering::SeqCst);
            assert_eq!(before, NOBODY, "{permit:?} is not alone in {leaf:?}");
        }
    }

    /// Runs a handler that yields to others, and leaves. A granted message has its permit from that
    /// moment, long before its reactor reads the mail.
    fn run(&self, permit: Permit, message: u32) {
        thread::yield_now();
        if message == REMOVE {
            let stranded = self
                .affinities
                .remove(&self.nodes[VOLUME], &permit)
                .unwrap();
            self.done.fetch_add(stranded.len(), Ordering::SeqCst);
        }
        for (leaf, holder) in self.leaves.iter().filter(|(leaf, _)| permit.covers(leaf)) {
            let before = holder.swap(NOBODY, Ordering::SeqCst);
            assert_eq!(before, permit.reactor(), "somebody came into {leaf:?}");
        }
        if !permit.node().class().is_leaf() {
            self.coarse_waits.store(false, Ordering::SeqCst);
        }
        let mut granted = Vec::new();
        self.affinities.leave(permit, &mut granted);
        for granted in granted {
            self.mark(&granted.permit);
            self.mailboxes[granted.reactor]
                .lock()
                .unwrap()
                .push_back(granted);
        }
        self.done.fetch_add(1, Ordering::SeqCst);
    }

    fn enter_and_run(&self, permit: Permit) {
        self.mark(&permit);
        self.run(permit, 0);
    }

    fn run_mail(&self, reactor: usize) -> bool {
        let mail = self.mailboxes[reactor].lock().unwrap().pop_front();
        let some = mail.is_some();
        if let Some(mail) = mail {
            self.run(mail.permit, mail.message);
        }
        some
    }

    fn ask(&self, reactor: usize, targets: &[usize]) -> Entry {
        match targets {
            [node] => {
                let node = &self.nodes[*node];
                // The first one without a message at first.
                let tried = (reactor == 0).then(|| self.affinities.try_enter(reactor, node));
                match tried.flatten() {
                    Some(permit) => Entry::Entered(permit),
                    None => self.affinities.enter(reactor, node, 0),
                }
            }
            [first, second] => {
                self.affinities
                    .enter2(reactor, &self.nodes[*first], &self.nodes[*second], 0)
            }
            _ => panic!("one or two targets"),
        }
    }

    fn react(&self, reactor: usize, script: Script) {
        for targets in script {
            match self.ask(reactor, targets) {
                Entry::Entered(permit) => self.enter_and_run(permit),
                Entry::Queued => {}
                Entry::Gone => panic!("nothing was removed"),
            }
            while self.run_mail(reactor) {}
        }
    }
}

/// Runs the scripts as threads. Whatever is in mailboxes afterwards runs at the end, on one thread:
/// nothing spins, and a message that is in no mailbox then was forgotten.
fn race(scripts: &'static [Script]) {
    let world = Arc::new(World::new(scripts.len()));
    let threads: Vec<_> = scripts
        .iter()
        .enumerate()
        .map(|(reactor, script)| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.react(reactor, script))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    while (0..scripts.len()).any(|reactor| world.run_mail(reactor)) {}
    let asked: usize = scripts.iter().map(|script| script.len()).sum();
    assert_eq!(
        world.done.load(Ordering::SeqCst),
        asked,
        "a queued message was never granted"
    );
    assert_eq!(world.affinities.waiting(), 0);
    for (leaf, _) in &world.leaves {
        match world.affinities.enter(0, leaf, 0) {
            Entry::Entered(permit) => world.affinities.leave(permit, &mut Vec::new()),
            _ => panic!("{leaf:?} is not free although everybody left"),
        }
        assert!(leaf.word().is_open(), "{leaf:?} stays contended");
    }
}

/// Random schedules, schedules with few switches at unlucky places (PCT), and a bounded number of
/// all schedules in order.
fn check(scripts: &'static [Script]) {
    shuttle::check_random(move || race(scripts), 15_000);
    shuttle::check_pct(move || race(scripts), 15_000, 3);
    shuttle::check_dfs(move || race(scripts), Some(20_000));
}

#[test]
fn stripe_against_coarse() {
    check(&[&[&[STRIPE]], &[&[LOGICAL]]]);
}

#[test]
fn stripe_again_and_again_against_coarse_again_and_again() {
    check(&[
        &[&[STRIPE], &[STRIPE], &[NEIGHBOUR]],
        &[&[VOLUME], &[LOGICAL]],
    ]);
}

#[test]
fn three_reactors_on_one_stripe() {
    check(&[
        &[&[STRIPE], &[STRIPE]],
        &[&[STRIPE], &[NEIGHBOUR]],
        &[&[STRIPE]],
    ]);
}

#[test]
fn a_stalled_entry_meets_two_coarse_ones() {
    check(&[
        &[&[STRIPE], &[STRIPE]],
        &[&[LOGICAL], &[STRIPE]],
        &[&[VOLUME], &[LOGICAL]],
    ]);
}

/// A stripe has an owner and a second reactor about to take it when the coarse message comes: the
/// stripe must stay contended after its owner has left.
#[test]
fn a_stalled_entry_behind_an_owner_meets_a_coarse_one() {
    check(&[&[&[STRIPE]], &[&[STRIPE]], &[&[LOGICAL]]]);
}

#[test]
fn a_pair_against_its_stripes_and_their_parent() {
    check(&[
        &[&[STRIPE, NEIGHBOUR], &[NEIGHBOUR]],
        &[&[NEIGHBOUR], &[STRIPE]],
        &[&[NEIGHBOUR, STRIPE], &[LOGICAL]],
    ]);
}

#[test]
fn everything_against_serial() {
    check(&[
        &[&[RANGE], &[STRIPE]],
        &[&[SERIAL], &[VBN]],
        &[&[NEIGHBOUR], &[VOLUME]],
    ]);
}

/// From the moment a coarse message is queued until it has run, no message enters below it.
fn coarse_is_not_overtaken() {
    let world = Arc::new(World::new(3));
    let fine = |reactor: usize, node: usize| {
        let world = Arc::clone(&world);
        thread::spawn(move || {
            for _ in 0..3 {
                let before = world.coarse_waits.load(Ordering::SeqCst);
                let entry = world.ask(reactor, &[node]);
                let after = world.coarse_waits.load(Ordering::SeqCst);
                if let Entry::Entered(permit) = entry {
                    assert!(!(before && after), "a fine message overtook a coarse one");
                    world.enter_and_run(permit);
                }
                while world.run_mail(reactor) {}
            }
        })
    };
    let threads = [fine(0, STRIPE), fine(1, NEIGHBOUR)];
    match world.ask(2, &[LOGICAL]) {
        Entry::Entered(permit) => world.enter_and_run(permit),
        Entry::Queued => {
            // Only this reactor may have run the message already: its mailbox is read below only.
            world.coarse_waits.store(true, Ordering::SeqCst);
            thread::yield_now();
            while world.run_mail(2) {}
        }
        Entry::Gone => panic!("nothing was removed"),
    }
    for thread in threads {
        thread.join().unwrap();
    }
    while (0..3).any(|reactor| world.run_mail(reactor)) {}
    assert_eq!(world.done.load(Ordering::SeqCst), 7);
}

#[test]
fn a_queued_coarse_message_is_not_overtaken() {
    shuttle::check_random(coarse_is_not_overtaken, 15_000);
    shuttle::check_pct(coarse_is_not_overtaken, 15_000, 3);
}

/// Every message that meets a removal is in one of four cases, and none gets lost.
fn removal_forgets_nobody() {
    let world = Arc::new(World::new(3));
    let visitor = |reactor: usize, targets: &'static [usize]| {
        let world = Arc::clone(&world);
        thread::spawn(move || {
            for _ in 0..2 {
                match world.ask(reactor, targets) {
                    Entry::Entered(permit) => world.enter_and_run(permit),
                    Entry::Queued => {}
                    Entry::Gone => drop(world.done.fetch_add(1, Ordering::SeqCst)),
                }
                while world.run_mail(reactor) {}
            }
        })
    };
    let visitors = [visitor(0, &[STRIPE]), visitor(1, &[STRIPE, NEIGHBOUR])];
    match world.affinities.enter(2, &world.nodes[SERIAL], REMOVE) {
        Entry::Entered(permit) => {
            world.mark(&permit);
            world.run(permit, REMOVE);
        }
        Entry::Queued => drop(world.run_mail(2)),
        Entry::Gone => panic!("serial is gone"),
    }
    for thread in visitors {
        thread.join().unwrap();
    }
    while (0..3).any(|reactor| world.run_mail(reactor)) {}
    assert_eq!(
        world.done.load(Ordering::SeqCst),
        5,
        "four visits and the removal"
    );
    assert_eq!(world.affinities.waiting(), 0);
    assert!(matches!(world.ask(0, &[STRIPE]), Entry::Gone));
}

#[test]
fn removal_loses_nobody_who_comes_at_the_same_time() {
    shuttle::check_random(removal_forgets_nobody, 15_000);
    shuttle::check_pct(removal_forgets_nobody, 15_000, 3);
}
