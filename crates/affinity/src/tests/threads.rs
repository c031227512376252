//! Real threads as reactors, with mailboxes, and a checker that sees any two who meet.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::{
    Affinities, AggregateAffinities, Entry, Granted, Node, Partitioned, Permit, Stripe,
    VolumeAffinities,
};

const REACTORS: usize = 4;
const MESSAGES: usize = 60_000;
const NOBODY: usize = usize::MAX;

/// A holder marks every leaf it covers: two conflicting holders have a leaf in common.
struct Meeting {
    affinities: Affinities<u32>,
    leaves: Vec<(Node, AtomicUsize)>,
    stripes: Vec<Partitioned<u64, Stripe>>,
    nodes: Vec<Node>,
    pairs: Vec<[Node; 2]>,
    mailboxes: Vec<Mutex<VecDeque<Granted<u32>>>>,
}

impl Meeting {
    /// For each coarse node, every leaf is among the choices `leaf_weight` times.
    fn new(leaf_weight: usize) -> Meeting {
        let affinities = Affinities::new(REACTORS);
        let aggregate = AggregateAffinities::add(&affinities, 2).unwrap();
        let add = || VolumeAffinities::add(&affinities, &aggregate.aggregate, 4, 2).unwrap();
        let volumes = [add(), add()];
        let mut leaves: Vec<Node> = aggregate
            .ranges()
            .iter()
            .map(|r| r.node().clone())
            .collect();
        let mut nodes = vec![
            affinities.serial().node().clone(),
            aggregate.aggregate.node().clone(),
        ];
        nodes.push(aggregate.vbn.node().clone());
        let mut pairs = Vec::new();
        let mut stripes = Vec::new();
        for volume in &volumes {
            leaves.extend(volume.stripes().iter().map(|stripe| stripe.node().clone()));
            leaves.extend(volume.ranges().iter().map(|range| range.node().clone()));
            nodes.push(volume.volume.node().clone());
            nodes.push(volume.logical.node().clone());
            nodes.push(volume.vbn.node().clone());
            stripes.extend(
                volume
                    .stripes()
                    .iter()
                    .map(|stripe| Partitioned::new(stripe, 0)),
            );
            pairs.extend(
                volume
                    .stripes()
                    .windows(2)
                    .map(|two| [two[0].node().clone(), two[1].node().clone()]),
            );
        }
        for _ in 0..leaf_weight {
            nodes.extend(leaves.iter().cloned());
        }
        let leaves = leaves
            .into_iter()
            .map(|leaf| (leaf, AtomicUsize::new(NOBODY)))
            .collect();
        let mailboxes = (0..REACTORS).map(|_| Mutex::default()).collect();
        Meeting {
            affinities,
            leaves,
            stripes,
            nodes,
            pairs,
            mailboxes,
        }
    }

    fn run(&self, permit: Permit, granted: &mut Vec<Granted<u32>>) {
        let me = permit.reactor();
        for (leaf, holder) in &self.leaves {
            if permit.covers(leaf) {
                let before = holder.swap(me, Ordering::SeqCst);
                assert_eq!(before, NOBODY, "{permit:?} met another in {leaf:?}");
            }
        }
        for stripe in &self.stripes {
            if permit.covers(stripe.affinity()) {
                *stripe.get(&permit) += 1;
            }
        }
        for (leaf, holder) in &self.leaves {
            if permit.covers(leaf) {
                assert_eq!(
                    holder.swap(NOBODY, Ordering::SeqCst),
                    me,
                    "somebody came into {leaf:?}"
                );
            }
        }
        self.affinities.leave(permit, granted);
        for granted in granted.drain(..) {
            self.mailboxes[granted.reactor]
                .lock()
                .unwrap()
                .push_back(granted);
        }
    }

    /// Sends its messages and runs until each of them has run; returns how many.
    fn react(&self, reactor: usize) -> usize {
        let deadline = Instant::now() + Duration::from_secs(120);
        let mut random = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(reactor as u64 + 1);
        let (mut sent, mut done) = (0, 0);
        let mut granted = Vec::new();
        while done < MESSAGES {
            let mail = self.mailboxes[reactor].lock().unwrap().pop_front();
            if let Some(mail) = mail {
                assert_eq!(mail.permit.reactor(), reactor);
                self.run(mail.permit, &mut granted);
                done += 1;
                continue;
            }
            if sent == MESSAGES || sent - done >= 8 {
                assert!(Instant::now() < deadline, "a wake-up was lost");
                std::thread::yield_now();
                continue;
            }
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let pick = (random >> 8) as usize;
            let entry = if pick.is_multiple_of(16) {
                let [first, second] = &self.pairs[pick / 16 % self.pairs.len()];
                self.affinities.enter2(reactor, first, second, 0)
            } else {
                self.affinities
                    .enter(reactor, &self.nodes[pick / 16 % self.nodes.len()], 0)
            };
            sent += 1;
            if let Entry::Entered(permit) = entry {
                self.run(permit, &mut granted);
                done += 1;
            }
        }
        done
    }
}

#[test]
fn threads_never_meet_where_coarse_work_is_common() {
    every_message_gets_its_turn(2);
}

#[test]
fn threads_never_meet_where_coarse_work_is_rare() {
    every_message_gets_its_turn(60);
}

fn every_message_gets_its_turn(leaf_weight: usize) {
    let meeting = Meeting::new(leaf_weight);
    let done: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..REACTORS)
            .map(|reactor| {
                scope.spawn({
                    let meeting = &meeting;
                    move || meeting.react(reactor)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(done, REACTORS * MESSAGES);
    assert_eq!(meeting.affinities.waiting(), 0);
    let counts = meeting.affinities.counts();
    let sum = |pick: fn(&crate::Count) -> u64| counts.iter().map(pick).sum::<u64>();
    let (inline, queued, granted) = (sum(|c| c.inline), sum(|c| c.queued), sum(|c| c.granted));
    println!("inline {inline}, queued {queued}, granted {granted}");
    assert_eq!(inline + queued, (REACTORS * MESSAGES) as u64);
    assert_eq!(queued, granted);
}
