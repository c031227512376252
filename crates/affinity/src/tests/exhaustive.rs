//! Every sequence of calls up to a length, in a tree that has each shape of conflict once.

use super::World;
use crate::Node;

const REACTORS: usize = 8;

/// Enumerates all answers to a series of questions: an odometer whose wheels appear as asked for.
#[derive(Default)]
struct Odometer {
    wheels: Vec<(usize, usize)>,
    at: usize,
}

impl Odometer {
    fn choose(&mut self, count: usize) -> usize {
        if self.at == self.wheels.len() {
            self.wheels.push((0, count));
        }
        let (value, before) = self.wheels[self.at];
        assert_eq!(count, before, "the same answers lead to the same question");
        self.at += 1;
        value
    }

    fn next(&mut self) -> bool {
        self.at = 0;
        while let Some((value, count)) = self.wheels.pop() {
            if value + 1 < count {
                self.wheels.push((value + 1, count));
                return true;
            }
        }
        false
    }
}

fn all_sequences(length: usize, pick: impl Fn(&[usize], usize) -> usize, ops: &[&[usize]]) {
    let mut odometer = Odometer::default();
    let mut runs = 0_u64;
    loop {
        let mut world = World::new(REACTORS, 2);
        for step in 0..length {
            let choice = odometer.choose(ops.len() + world.active.len());
            let idle = world.idle_reactors(REACTORS);
            match ops.get(choice) {
                Some(op) => {
                    let targets: Vec<Node> = op.iter().map(|&n| world.nodes[n].clone()).collect();
                    world.enter(pick(&idle, step), &targets);
                }
                None => drop(world.leave(choice - ops.len())),
            }
        }
        world.drain();
        runs += 1;
        if !odometer.next() {
            break;
        }
    }
    println!("{runs} sequences of {length} calls");
}

/// Serial, aggregate, aggregate range, volume, logical, stripes, volume VBN, its range, a pair.
const WIDE: [&[usize]; 10] = [
    &[0],
    &[1],
    &[3],
    &[4],
    &[5],
    &[6],
    &[7],
    &[8],
    &[9],
    &[6, 7],
];
/// Volume, logical, two stripes, the pair in both orders.
const DEEP: [&[usize]; 6] = [&[4], &[5], &[6], &[7], &[6, 7], &[7, 6]];

#[test]
fn every_short_sequence_agrees_with_the_oracle() {
    all_sequences(5, |idle, _| idle[0], &WIDE);
    all_sequences(5, |idle, step| idle[step % idle.len()], &WIDE);
}

#[test]
fn every_longer_sequence_around_one_volume_agrees_with_the_oracle() {
    all_sequences(7, |idle, _| idle[0], &DEEP);
    all_sequences(6, |idle, step| idle[step % idle.len()], &DEEP);
}
