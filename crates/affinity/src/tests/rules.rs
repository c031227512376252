//! The rules one by one, as a reader of A-07 would ask for them.

use super::World;
use crate::{
    Affinities, Aggregate, AggregateAffinities, Class, Entry, Gone, Granted, Node, Permit,
    VolumeAffinities,
};

fn small() -> (Affinities<u32>, AggregateAffinities, VolumeAffinities) {
    let affinities = Affinities::new(4);
    let aggregate = AggregateAffinities::add(&affinities, 2).unwrap();
    let volume = VolumeAffinities::add(&affinities, &aggregate.aggregate, 4, 2).unwrap();
    (affinities, aggregate, volume)
}

fn inside(entry: Entry) -> Permit {
    match entry {
        Entry::Entered(permit) => permit,
        other => panic!("not inside: {other:?}"),
    }
}

fn leave(affinities: &Affinities<u32>, permit: Permit) -> Vec<Granted<u32>> {
    let mut granted = Vec::new();
    affinities.leave(permit, &mut granted);
    granted
}

#[test]
fn client_work_and_allocation_of_one_volume_run_together() {
    let (affinities, aggregate, volume) = small();
    let permits = [
        affinities.enter(0, &volume.logical, 1),
        affinities.enter(1, &volume.vbn, 2),
        affinities.enter(2, aggregate.range(0), 3),
        affinities.enter(3, aggregate.range(1), 4),
    ];
    for permit in permits {
        assert!(leave(&affinities, inside(permit)).is_empty());
    }
}

#[test]
fn a_queued_coarse_message_closes_its_subtree_and_goes_first() {
    let (affinities, _, volume) = small();
    let stripes = volume.stripes();
    let early = inside(affinities.enter(0, &stripes[0], 1));
    assert!(matches!(
        affinities.enter(1, &volume.volume, 2),
        Entry::Queued
    ));
    assert!(matches!(affinities.enter(2, &stripes[1], 3), Entry::Queued));
    assert!(matches!(affinities.enter(3, &stripes[2], 4), Entry::Queued));
    let mut first = leave(&affinities, early);
    assert_eq!(first.len(), 1);
    let coarse = first.remove(0);
    assert_eq!((coarse.reactor, coarse.message), (1, 2));
    let then = leave(&affinities, coarse.permit);
    assert_eq!(
        then.iter()
            .map(|g| (g.reactor, g.message))
            .collect::<Vec<_>>(),
        [(2, 3), (3, 4)]
    );
    for granted in then {
        assert!(leave(&affinities, granted.permit).is_empty());
    }
}

#[test]
fn fine_messages_are_not_starved_by_coarse_ones() {
    let (affinities, _, volume) = small();
    let now = inside(affinities.enter(0, &volume.volume, 1));
    assert!(matches!(
        affinities.enter(1, &volume.stripes()[0], 2),
        Entry::Queued
    ));
    assert!(matches!(
        affinities.enter(2, &volume.volume, 3),
        Entry::Queued
    ));
    let granted = leave(&affinities, now);
    assert_eq!(granted.iter().map(|g| g.message).collect::<Vec<_>>(), [2]);
}

#[test]
fn two_stripes_are_entered_all_or_nothing() {
    let (affinities, _, volume) = small();
    let stripes = volume.stripes();
    let second = inside(affinities.enter(0, &stripes[1], 1));
    assert!(matches!(
        affinities.enter2(1, &stripes[0], &stripes[1], 2),
        Entry::Queued
    ));
    assert!(
        matches!(affinities.enter(2, &stripes[0], 3), Entry::Queued),
        "no barging"
    );
    let mut granted = leave(&affinities, second);
    assert_eq!(granted.len(), 1);
    let pair = granted.remove(0);
    assert!(pair.permit.covers(&stripes[0]) && pair.permit.covers(&stripes[1]));
    assert!(!pair.permit.covers(&stripes[2]) && !pair.permit.covers(&volume.logical));
    assert_eq!(leave(&affinities, pair.permit)[0].message, 3);
}

#[test]
fn the_same_stripe_twice_is_one_entry() {
    let (affinities, _, volume) = small();
    let stripe = &volume.stripes()[0];
    let permit = inside(affinities.enter2(0, stripe, stripe, 1));
    assert!(permit.second().is_none());
    assert!(leave(&affinities, permit).is_empty());
}

#[test]
fn who_tries_in_vain_leaves_nothing_behind() {
    let (affinities, _, volume) = small();
    let stripe = &volume.stripes()[0];
    assert!(affinities.try_enter(0, &volume.logical).is_none(), "coarse");
    let owner = affinities.try_enter(0, stripe).expect("free");
    assert!(owner.covers(stripe));
    assert!(affinities.try_enter(1, stripe).is_none(), "somebody is in");
    assert!(matches!(
        affinities.enter(1, &volume.logical, 1),
        Entry::Queued
    ));
    assert!(affinities.try_enter(2, stripe).is_none(), "somebody waits");
    assert_eq!(affinities.waiting(), 1);
    let mut granted = leave(&affinities, owner);
    assert_eq!(granted.len(), 1, "only who had a message");
    assert!(affinities.try_enter(2, stripe).is_none(), "closed above");
    assert!(leave(&affinities, granted.remove(0).permit).is_empty());
    // The mark of the coarse scan is still there, which `enter` repairs.
    drop(leave(&affinities, inside(affinities.enter(2, stripe, 2))));
    let again = affinities.try_enter(1, stripe).expect("free again");
    assert!(leave(&affinities, again).is_empty());
}

#[test]
fn a_leaf_is_free_again_without_the_lock_after_coarse_work() {
    let (affinities, _, volume) = small();
    for reactor in 0..2 {
        let stripe = &volume.stripes()[reactor];
        drop(leave(
            &affinities,
            inside(affinities.enter(reactor, stripe, 1)),
        ));
    }
    drop(leave(
        &affinities,
        inside(affinities.enter(3, &volume.logical, 2)),
    ));
    let stripe = &volume.stripes()[0];
    drop(leave(&affinities, inside(affinities.enter(0, stripe, 3))));
    assert!(
        stripe.word().is_open(),
        "the first visitor repairs the mark of the coarse scan"
    );
}

#[test]
fn removal_strands_who_waited_and_refuses_who_comes_later() {
    let (affinities, aggregate, volume) = small();
    let freeze = inside(affinities.enter(0, &aggregate.aggregate, 1));
    let (a, b) = (&volume.stripes()[0], &volume.stripes()[1]);
    assert!(matches!(affinities.enter(1, a, 2), Entry::Queued));
    assert!(matches!(affinities.enter2(2, a, b, 3), Entry::Queued));
    assert!(matches!(
        affinities.enter(3, &volume.volume, 4),
        Entry::Queued
    ));
    assert!(matches!(
        affinities.enter(1, aggregate.range(0), 5),
        Entry::Queued
    ));
    let stranded = affinities.remove(&volume.volume, &freeze).unwrap();
    let stranded: Vec<_> = stranded.iter().map(|s| (s.reactor, s.message)).collect();
    assert_eq!(stranded, [(1, 2), (2, 3), (3, 4)]);
    assert_eq!(affinities.remove(&volume.volume, &freeze), Err(Gone));
    let granted = leave(&affinities, freeze);
    assert_eq!(granted.iter().map(|g| g.message).collect::<Vec<_>>(), [5]);
    assert!(matches!(affinities.enter(0, a, 6), Entry::Gone));
    assert!(matches!(affinities.enter2(0, a, b, 6), Entry::Gone));
    assert!(matches!(
        affinities.enter(0, &volume.logical, 6),
        Entry::Gone
    ));
    assert!(affinities.add::<_, crate::Stripe>(&volume.logical).is_err());
    assert_eq!(affinities.waiting(), 0);
}

#[test]
fn removing_one_stripe_strands_the_pair_and_not_the_neighbour() {
    let (affinities, _, volume) = small();
    let whole = inside(affinities.enter(0, &volume.logical, 1));
    let (a, b) = (&volume.stripes()[0], &volume.stripes()[1]);
    assert!(matches!(affinities.enter(1, b, 2), Entry::Queued));
    assert!(matches!(affinities.enter2(2, a, b, 3), Entry::Queued));
    assert!(matches!(affinities.enter(3, b, 4), Entry::Queued));
    let stranded = affinities.remove(a, &whole).unwrap();
    assert_eq!(stranded.iter().map(|s| s.message).collect::<Vec<_>>(), [3]);
    let mut granted = leave(&affinities, whole);
    assert_eq!(granted.iter().map(|g| g.message).collect::<Vec<_>>(), [2]);
    assert_eq!(leave(&affinities, granted.remove(0).permit)[0].message, 4);
}

#[test]
#[should_panic(expected = "does not cover its parent")]
fn removal_needs_a_permit_above() {
    let (affinities, _, volume) = small();
    let permit = inside(affinities.enter(0, &volume.volume, 1));
    drop(affinities.remove(&volume.volume, &permit));
}

#[test]
#[should_panic(expected = "while it is inside one")]
fn there_is_no_nested_entry() {
    let (affinities, _, volume) = small();
    let _permit = inside(affinities.enter(0, &volume.stripes()[0], 1));
    drop(affinities.enter(0, &volume.stripes()[1], 2));
}

#[test]
#[should_panic(expected = "no sibling leaves")]
fn only_siblings_are_entered_together() {
    let (affinities, aggregate, volume) = small();
    drop(affinities.enter2(0, volume.range(0), aggregate.range(0), 1));
}

#[test]
fn routing_is_the_same_for_every_metafile_and_rotates_file_stripes() {
    let (_, aggregate, volume) = small();
    assert_eq!(volume.range(5).node(), volume.range(7).node());
    assert_ne!(aggregate.range(0).node(), aggregate.range(1).node());
    assert_eq!(volume.stripe(1, 0).node(), volume.stripe(0, 1).node());
    assert_eq!(volume.stripe(u32::MAX, u64::MAX).class(), Class::Stripe);
}

#[test]
fn counters_tell_how_messages_got_in() {
    let (affinities, _, volume) = small();
    let stripe = &volume.stripes()[0];
    let permit = inside(affinities.enter(0, stripe, 1));
    assert!(matches!(affinities.enter(1, stripe, 2), Entry::Queued));
    let granted = leave(&affinities, permit).remove(0);
    drop(leave(&affinities, granted.permit));
    drop(leave(
        &affinities,
        inside(affinities.enter(0, affinities.serial(), 3)),
    ));
    let counts = affinities.counts();
    let stripe = counts[Class::Stripe as usize];
    assert_eq!((stripe.inline, stripe.queued, stripe.granted), (1, 1, 1));
    assert_eq!(counts[Class::Serial as usize].inline, 1);
    assert_eq!(
        Class::ALL.map(|class| class as usize),
        [0, 1, 2, 3, 4, 5, 6, 7]
    );
}

#[test]
fn aggregates_are_independent() {
    let mut world = World::new(4, 1);
    let other = world
        .affinities
        .add::<_, Aggregate>(world.affinities.serial())
        .unwrap();
    let nodes: Vec<Node> = vec![world.nodes[1].clone(), other.node().clone()];
    assert!(world.enter(0, &nodes[..1]) && world.enter(1, &nodes[1..]));
    assert!(!world.enter(2, &[world.affinities.serial().node().clone()]));
    world.drain();
}
