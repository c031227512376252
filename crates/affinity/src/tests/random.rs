//! Long sequences from a seed, with volumes that come and go.

use super::{Message, World};
use crate::{Entry, Node, VolumeAffinities};

const REACTORS: usize = 4;

struct Seeded(u64);

impl Seeded {
    #[expect(clippy::cast_possible_truncation, reason = "less than a usize")]
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

impl World {
    /// Removes the volume if some permit in use covers its parent.
    fn try_remove(&mut self, volume: &VolumeAffinities) -> bool {
        let covers = |(_, permit): &&(u32, crate::Permit)| permit.covers(&self.aggregate);
        let Some((_, permit)) = self.active.iter().find(covers) else {
            return false;
        };
        let stranded = self.affinities.remove(&volume.volume, permit).unwrap();
        let inside = |message: &Message| volume.volume.covers(&message.targets[0]);
        let (gone, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.oracle.waiting)
            .into_iter()
            .partition(inside);
        self.oracle.waiting = stay;
        let stranded: Vec<_> = stranded.iter().map(|s| (s.message, s.reactor)).collect();
        let expected: Vec<_> = gone.iter().map(|m| (m.id, m.reactor)).collect();
        assert_eq!(stranded, expected);
        self.nodes.retain(|node| !volume.volume.covers(node));
        true
    }
}

fn run(seed: u64) -> Vec<u32> {
    let mut random = Seeded(seed);
    let mut world = World::new(REACTORS, 3);
    let mut volumes = vec![world.add_volume(2)];
    let mut graveyard: Vec<Node> = Vec::new();
    let mut transcript = Vec::new();
    for _ in 0..3_000 {
        let idle = world.idle_reactors(REACTORS);
        let crowded = world.active.len() + world.affinities.waiting() > 12;
        match random.below(20) {
            0 => {
                let volume = volumes[0].clone();
                if world.try_remove(&volume) {
                    graveyard.extend(volume.stripes().iter().map(|s| s.node().clone()));
                    volumes = vec![world.add_volume(1 + random.below(4))];
                }
            }
            1 if !idle.is_empty() && !graveyard.is_empty() => {
                let node = &graveyard[random.below(graveyard.len())];
                let entry = world.affinities.enter(idle[0], node, u32::MAX);
                assert!(matches!(entry, Entry::Gone));
            }
            2..=12 if !idle.is_empty() && !crowded => {
                let node = world.nodes[random.below(world.nodes.len())].clone();
                let mut targets = vec![node];
                if random.below(6) == 0 {
                    let stripes = volumes[0].stripes();
                    let first = random.below(stripes.len());
                    let second = (first + 1) % stripes.len();
                    if first != second {
                        targets = vec![
                            stripes[first].node().clone(),
                            stripes[second].node().clone(),
                        ];
                    }
                }
                transcript.push(u32::from(
                    world.enter(idle[random.below(idle.len())], &targets),
                ));
            }
            _ if !world.active.is_empty() => {
                let index = random.below(world.active.len());
                transcript.extend(world.leave(index));
            }
            _ => {}
        }
    }
    world.drain();
    let counts = world.affinities.counts();
    let queued: u64 = counts.iter().map(|count| count.queued).sum();
    assert!(queued > 300, "the workload is contended");
    transcript
}

#[test]
fn long_sequences_agree_with_the_oracle() {
    for seed in 1..=60 {
        run(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
    }
}

#[test]
fn the_same_calls_give_the_same_answers() {
    assert_eq!(run(7), run(7));
}
