//! The cost of entering and leaving, for people to read; no test asserts times.

use std::time::Instant;

use crate::{Affinities, AggregateAffinities, Entry, Node, VolumeAffinities};

const ROUNDS: u32 = 200_000;

#[test]
fn cost_of_entering_and_leaving_is_printed() {
    let affinities = Affinities::new(8);
    let aggregate = AggregateAffinities::add(&affinities, 8).unwrap();
    let volume = VolumeAffinities::add(&affinities, &aggregate.aggregate, 64, 8).unwrap();
    let stripes: Vec<Node> = volume
        .stripes()
        .iter()
        .map(|stripe| stripe.node().clone())
        .collect();
    let one = |name: &str, nodes: &[Node]| {
        let mut granted = Vec::new();
        let start = Instant::now();
        for round in 0..ROUNDS as usize {
            match affinities.enter(0, &nodes[round % nodes.len()], 0_u64) {
                Entry::Entered(permit) => affinities.leave(permit, &mut granted),
                other => panic!("alone and not inside: {other:?}"),
            }
        }
        println!(
            "{name}: {:.1} ns",
            start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
        );
        assert!(granted.is_empty());
    };
    one("one stripe again and again", &stripes[..1]);
    one("64 stripes in turn", &stripes);
    one("the logical volume", &[volume.logical.node().clone()]);
    one("serial", &[affinities.serial().node().clone()]);
}
