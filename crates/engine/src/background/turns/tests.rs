//! The scheduler with passes that only count.

use std::collections::{BTreeMap, BTreeSet};

use everglade_format::{FileId, SPAN};
use proptest::prelude::*;

use super::{Now, turn};
use crate::background::pass::{Budget, Pass, Room};
use crate::home::ledger::{Ledger, Target, Turn};
use crate::pool::info::Progress;
use crate::read::fixture::Shelf;
use crate::read::load::{LoadCx, Stop};

/// The behaviour of a fake pass.
#[derive(Clone, Copy)]
enum Manner {
    Moves(u64),
    Waits,
    /// Gives up, but stays in the list of passes with work.
    GivesUp,
    /// Waits for a page that is never loaded.
    Stops,
}

struct Fake {
    name: &'static str,
    manner: Manner,
    volumes: Vec<u32>,
    budget: fn(u64) -> Budget,
    /// Pace of each volume in percent; 100 by default.
    paces: BTreeMap<u32, u8>,
    frees: bool,
}

fn fake(name: &'static str, manner: Manner, volumes: &[u32]) -> Fake {
    Fake {
        name,
        manner,
        volumes: volumes.to_vec(),
        budget: |_| Budget::Purse,
        paces: BTreeMap::new(),
        frees: true,
    }
}

/// Returns a pass whose steps cost `regions` regions each.
fn working(name: &'static str, regions: u64, volumes: &[u32]) -> Fake {
    fake(name, Manner::Moves(regions * SPAN), volumes)
}

fn volume(id: u32) -> Target {
    Target::Volume(FileId(id))
}

#[derive(Default)]
struct World {
    ledger: Ledger,
    /// Volumes with nothing left to do.
    finished: BTreeSet<u32>,
    steps: Vec<(&'static str, Target, Room)>,
}

impl AsRef<Ledger> for World {
    fn as_ref(&self) -> &Ledger {
        &self.ledger
    }
}

impl AsMut<Ledger> for World {
    fn as_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}

impl Pass<World> for Fake {
    fn name(&self) -> &'static str {
        self.name
    }

    fn has_work(&self, world: &World, target: Target) -> bool {
        self.wants(world).contains(&target)
    }

    fn wants(&self, world: &World) -> Vec<Target> {
        let left = self
            .volumes
            .iter()
            .filter(|id| !world.finished.contains(id));
        left.map(|id| volume(*id)).collect()
    }

    fn step(
        &self,
        world: &mut World,
        _cx: &mut LoadCx<'_>,
        target: Target,
        room: Room,
    ) -> Result<Turn, Stop> {
        if matches!(self.manner, Manner::Stops) {
            return Err(Stop::Load);
        }
        world.steps.push((self.name, target, room));
        Ok(match self.manner {
            Manner::Moves(blocks) => Turn::Moved(blocks.min(room.blocks)),
            Manner::Waits => Turn::Waits,
            Manner::GivesUp | Manner::Stops => Turn::GaveUp,
        })
    }

    fn progress(&self, _world: &World, _target: Target) -> Option<Progress> {
        None
    }

    fn budget(&self, _world: &World, regions: u64) -> Budget {
        (self.budget)(regions)
    }

    fn pace(&self, _world: &World, target: Target) -> u8 {
        let id = target.volume().expect("fakes have volumes only").0;
        self.paces.get(&id).copied().unwrap_or(100)
    }

    fn frees(&self) -> bool {
        self.frees
    }
}

const CALM: Now = Now {
    changed: 0,
    changed_max: 100,
    is_short: false,
};

fn one_turn(world: &mut World, passes: &[Fake], now: Now) -> Result<bool, Stop> {
    let passes: Vec<&dyn Pass<World>> = passes.iter().map(|pass| pass as _).collect();
    Shelf::new().load(|cx| turn(&passes, world, cx, now)).0
}

/// Runs a consistency point with so much in the purse. Returns the steps.
fn cp(world: &mut World, passes: &[Fake], regions: u64, now: Now) -> Vec<(&'static str, u32)> {
    world.ledger.begin(regions, regions);
    rest_of_cp(world, passes, now)
}

fn rest_of_cp(world: &mut World, passes: &[Fake], now: Now) -> Vec<(&'static str, u32)> {
    world.steps.clear();
    for _ in 0..10_000 {
        if one_turn(world, passes, now).expect("fakes do not stop here") {
            let steps = world.steps.iter();
            let steps =
                steps.map(|(name, target, _)| (*name, target.volume().expect("as above").0));
            return steps.collect();
        }
    }
    panic!("the consistency point does not end");
}

fn count(steps: &[(&'static str, u32)], name: &str) -> usize {
    steps.iter().filter(|(pass, _)| *pass == name).count()
}

#[test]
fn a_pass_alone_has_the_whole_purse() {
    let mut world = World::default();
    let passes = [working("shrink", 1, &[7]), working("scan", 2, &[])];
    assert_eq!(cp(&mut world, &passes, 10, CALM).len(), 10);
}

#[test]
fn passes_that_compete_share_the_purse_by_cost_and_not_by_steps() {
    let mut world = World::default();
    let passes = [working("shrink", 1, &[7]), working("scan", 3, &[7])];
    let steps = cp(&mut world, &passes, 60, CALM);
    assert_eq!((count(&steps, "shrink"), count(&steps, "scan")), (30, 10));
    assert_eq!(
        steps[..2],
        [("shrink", 7), ("scan", 7)],
        "the first comes first"
    );
}

#[test]
fn volumes_share_what_their_pass_has() {
    let mut world = World::default();
    let passes = [working("shrink", 1, &[7, 8, 9]), working("split", 1, &[7])];
    let steps = cp(&mut world, &passes, 12, CALM);
    assert_eq!(
        count(&steps, "split"),
        6,
        "volumes do not add to a pass's part"
    );
    for id in [7, 8, 9] {
        let of_it = steps.iter().filter(|step| **step == ("shrink", id));
        assert_eq!(of_it.count(), 2, "volume {id}");
    }
}

#[test]
fn turns_rotate_although_a_consistency_point_has_budget_for_one_step() {
    let mut world = World::default();
    let passes = [working("shrink", 1, &[7, 8]), working("scan", 1, &[9])];
    let steps: Vec<_> = (0..8)
        .flat_map(|_| cp(&mut world, &passes, 1, CALM))
        .collect();
    assert_eq!(steps.len(), 8);
    assert_eq!(count(&steps, "scan"), 4);
    let of_seven = steps.iter().filter(|step| **step == ("shrink", 7));
    assert_eq!(of_seven.count(), 2);
}

#[test]
fn a_pass_that_comes_back_has_saved_nothing_up() {
    let mut world = World::default();
    let passes = [working("shrink", 1, &[7]), working("scan", 1, &[8])];
    world.finished.insert(8);
    cp(&mut world, &passes, 100, CALM);
    world.finished.clear();
    let steps = cp(&mut world, &passes, 10, CALM);
    assert_eq!(count(&steps, "scan"), 5);
}

#[test]
fn a_pass_that_gives_up_takes_no_turn_from_others() {
    let mut world = World::default();
    let passes = [
        fake("split", Manner::GivesUp, &[7]),
        working("scan", 1, &[7]),
    ];
    let steps = cp(&mut world, &passes, 10, CALM);
    assert_eq!((count(&steps, "split"), count(&steps, "scan")), (1, 9));
    let of_its_own = Fake {
        budget: |regions| Budget::Own { regions },
        ..fake("clone", Manner::GivesUp, &[7, 8])
    };
    let steps = cp(
        &mut world,
        &[of_its_own, working("scan", 1, &[7])],
        10,
        CALM,
    );
    assert_eq!((count(&steps, "clone"), count(&steps, "scan")), (2, 10));
}

#[test]
fn a_pass_that_waits_costs_nothing_and_tries_again_in_the_next_consistency_point() {
    let mut world = World::default();
    let passes = [fake("split", Manner::Waits, &[7]), working("scan", 1, &[7])];
    for _ in 0..2 {
        let steps = cp(&mut world, &passes, 10, CALM);
        assert_eq!((count(&steps, "split"), count(&steps, "scan")), (1, 10));
    }
}

#[test]
fn a_pass_that_waits_for_one_volume_goes_on_with_others() {
    let mut world = World::default();
    world.ledger.begin(10, 10);
    world.ledger.record("scan", volume(7), true, Turn::Waits);
    let steps = rest_of_cp(&mut world, &[working("scan", 1, &[7, 8])], CALM);
    assert_eq!(steps, [("scan", 8); 10]);
}

#[test]
fn a_pass_that_makes_no_progress_ends_with_the_purse() {
    let mut world = World::default();
    let steps = cp(
        &mut world,
        &[fake("scan", Manner::Moves(0), &[7])],
        10,
        CALM,
    );
    assert_eq!(steps.len(), 10);
}

#[test]
fn a_step_that_stops_is_not_charged_and_stays_next() {
    let mut world = World::default();
    world.ledger.begin(10, 10);
    let passes = [
        fake("shrink", Manner::Stops, &[7]),
        working("scan", 1, &[7]),
    ];
    for _ in 0..3 {
        let stopped = one_turn(&mut world, &passes, CALM);
        assert!(matches!(stopped, Err(Stop::Load)));
    }
    assert_eq!(world.ledger.purse(), 10);
    assert_eq!(world.steps.len(), 0, "no other pass was tried instead");
}

#[test]
fn at_pace_0_a_pass_rests_and_at_1_it_does_one_step() {
    let mut world = World::default();
    let scan = Fake {
        paces: BTreeMap::from([(7, 0), (8, 1), (9, 25)]),
        ..working("scan", 1, &[7, 8, 9])
    };
    let passes = [scan, working("split", 1, &[7])];
    let steps = cp(&mut world, &passes, 40, CALM);
    let of = |id: u32| steps.iter().filter(|step| **step == ("scan", id)).count();
    assert_eq!((of(7), of(8), of(9)), (0, 1, 10));
    assert_eq!(count(&steps, "split"), 29, "others have the rest");
}

#[test]
fn a_pace_is_a_share_of_the_whole_and_of_regions() {
    let mut world = World::default();
    let scan = Fake {
        paces: BTreeMap::from([(7, 50)]),
        ..fake("scan", Manner::Moves(SPAN + 1), &[7])
    };
    assert_eq!(
        cp(&mut world, &[scan], 20, CALM).len(),
        5,
        "two regions each"
    );
}

#[test]
fn while_space_is_short_passes_that_free_some_come_first() {
    let mut world = World::default();
    let split = Fake {
        frees: false,
        ..working("split", 1, &[7])
    };
    let passes = [split, working("shrink", 1, &[8]), working("scan", 1, &[9])];
    let short = Now {
        is_short: true,
        ..CALM
    };
    let steps = cp(&mut world, &passes, 10, short);
    let counts = ["split", "shrink", "scan"].map(|name| count(&steps, name));
    assert_eq!(counts, [0, 5, 5]);
    world.finished.extend([8, 9]);
    assert_eq!(
        cp(&mut world, &passes, 10, short).len(),
        10,
        "nothing else is left"
    );
    world.finished.clear();
    let counts = count(&cp(&mut world, &passes, 9, CALM), "split");
    assert_eq!(counts, 3, "no more than its part afterwards");
}

#[test]
fn a_budget_of_its_own_comes_first_and_leaves_the_purse_alone() {
    let mut world = World::default();
    let clone = || Fake {
        budget: |regions| Budget::Own {
            regions: regions / 2,
        },
        ..working("clone", 2, &[7])
    };
    let passes = [working("shrink", 1, &[7]), clone()];
    let steps = cp(&mut world, &passes, 8, CALM);
    assert_eq!(steps[..2], [("clone", 7); 2]);
    assert_eq!(steps[2..], [("shrink", 7); 8]);
    world.ledger.begin(8, 0);
    let steps = rest_of_cp(&mut world, &passes, CALM);
    assert_eq!(steps, [("clone", 7); 2], "also when the others rest");
}

#[test]
fn changed_blocks_end_the_turns_but_for_the_first_step_of_each_budget() {
    let mut world = World::default();
    let clone = Fake {
        budget: |regions| Budget::Own { regions },
        ..working("clone", 1, &[7])
    };
    let passes = [clone, working("shrink", 1, &[7]), working("scan", 1, &[7])];
    let full = Now {
        changed: 100,
        ..CALM
    };
    let steps = cp(&mut world, &passes, 8, full);
    assert_eq!(steps, [("clone", 7), ("shrink", 7)]);
    let half = Now {
        changed: 50,
        ..CALM
    };
    let steps = cp(&mut world, &passes, 8, half);
    assert_eq!(count(&steps, "clone"), 1, "half of them are for the purse");
    assert_eq!(steps.len(), 9);
}

#[test]
fn a_pass_with_a_limit_in_blocks_is_told_what_is_left_of_it() {
    let mut world = World::default();
    let split = Fake {
        budget: |_| Budget::PurseUpTo { blocks: 700 },
        ..fake("split", Manner::Moves(300), &[7])
    };
    cp(&mut world, &[split], 100, CALM);
    let left: Vec<u64> = world.steps.iter().map(|(_, _, room)| room.blocks).collect();
    assert_eq!(left, [700, 400, 100]);
    assert_eq!(world.ledger.purse(), 100 - 2 - 2 - 1);
}

proptest! {
    #[test]
    fn no_pass_starves_and_the_purse_is_exceeded_by_less_than_one_step(
        costs in prop::collection::vec(1..20_u64, 1..5),
        volumes in prop::collection::vec(1..4_u32, 4),
        regions in 1..200_u64,
        cps in 1..8_usize,
    ) {
        const NAMES: [&str; 4] = ["a", "b", "c", "d"];
        let mut world = World::default();
        let mut passes = Vec::new();
        for ((name, cost), volumes) in NAMES.into_iter().zip(&costs).zip(&volumes) {
            let ids: Vec<u32> = (0..*volumes).collect();
            passes.push(working(name, *cost, &ids));
        }
        let most = *costs.iter().max().expect("at least one");
        let mut done: BTreeMap<(&str, u32), u64> = BTreeMap::new();
        for _ in 0..cps {
            let steps = cp(&mut world, &passes, regions, CALM);
            let mut spent = 0;
            for (name, id) in steps {
                prop_assert!(spent < regions, "a step began with an empty purse");
                let pass = passes.iter().position(|pass| pass.name == name).expect("one of them");
                spent += costs[pass];
                *done.entry((name, id)).or_default() += costs[pass];
            }
            prop_assert!(spent >= regions, "something is left although all want");
            prop_assert!(spent < regions + most);
        }
        let of_pass = |pass: usize| {
            let of_it = done.iter().filter(|((name, _), _)| *name == NAMES[pass]);
            of_it.map(|(_, spent)| *spent).sum::<u64>()
        };
        for (a, cost) in costs.iter().enumerate() {
            for (b, other) in costs.iter().enumerate() {
                prop_assert!(of_pass(a).abs_diff(of_pass(b)) <= cost + other);
            }
            let of = |id: u32| done.get(&(NAMES[a], id)).copied().unwrap_or(0);
            for id in 0..volumes[a] {
                prop_assert!(of(id).abs_diff(of(0)) <= 2 * cost, "between volumes");
            }
        }
    }
}
