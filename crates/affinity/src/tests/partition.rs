//! Partitioned state opens only to a covering permit.

use crate::{
    Affinities, AggregateAffinities, Entry, Lent, Partitioned, Permit, Stripe, Volume,
    VolumeAffinities,
};

fn world() -> (Affinities<u32>, AggregateAffinities, VolumeAffinities) {
    let affinities = Affinities::new(2);
    let aggregate = AggregateAffinities::add(&affinities, 1).unwrap();
    let volume = VolumeAffinities::add(&affinities, &aggregate.aggregate, 2, 1).unwrap();
    (affinities, aggregate, volume)
}

fn inside(entry: Entry) -> Permit {
    match entry {
        Entry::Entered(permit) => permit,
        other => panic!("not inside: {other:?}"),
    }
}

fn add_one(count: &Partitioned<u32, Stripe>, stripe: Lent<'_, Stripe>) {
    *count.get(&stripe) += 1;
}

#[test]
fn the_affinity_itself_and_every_ancestor_open_it() {
    let (affinities, aggregate, volume) = world();
    let stripe = volume.stripe(0, 0);
    let count = Partitioned::new(stripe, 0);
    let enter = |node| inside(affinities.enter(0, node, 0));
    for node in [
        stripe.node(),
        volume.logical.node(),
        volume.volume.node(),
        aggregate.aggregate.node(),
        affinities.serial().node(),
    ] {
        let permit = enter(node);
        *count.get(&permit) += 1;
        add_one(&count, permit.lend(stripe));
        affinities.leave(permit, &mut Vec::new());
    }
    assert_eq!(count.into_inner(), 10);
}

#[test]
fn a_coarse_permit_is_lent_step_by_step() {
    let (affinities, _, volume) = world();
    let count = Partitioned::new(volume.stripe(0, 0), 0);
    let permit = inside(affinities.enter(0, &volume.volume, 0));
    let whole: Lent<'_, Volume> = permit.lend(&volume.volume);
    add_one(
        &count,
        whole.lend(&volume.logical).lend(volume.stripe(0, 0)),
    );
    *count.get(&whole) += 1;
    assert_eq!(*count.get(&permit), 2);
}

#[test]
#[should_panic(expected = "does not cover")]
fn another_stripe_does_not_open_it() {
    let (affinities, _, volume) = world();
    let count = Partitioned::new(volume.stripe(0, 0), 0);
    let permit = inside(affinities.enter(0, volume.stripe(0, 1), 0));
    *count.get(&permit) += 1;
}

#[test]
#[should_panic(expected = "does not cover")]
fn a_descendant_does_not_open_it() {
    let (affinities, _, volume) = world();
    let count = Partitioned::new(&volume.logical, 0);
    let permit = inside(affinities.enter(0, volume.stripe(0, 0), 0));
    *count.get(&permit) += 1;
}

#[test]
#[should_panic(expected = "two are inside")]
fn two_guards_at_once_are_a_bug() {
    let (affinities, _, volume) = world();
    let count = Partitioned::new(volume.stripe(0, 0), 0);
    let permit = inside(affinities.enter(0, volume.stripe(0, 0), 0));
    let first = count.get(&permit);
    let second = count.get(&permit);
    assert_eq!(*first, *second);
}
