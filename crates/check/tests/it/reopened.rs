//! The engine on media that no engine wrote, with valid tags: it refuses them, or serves what is
//! valid. The content of media does not stop the process.

use std::collections::BTreeMap;

use everglade_engine::State;
use everglade_testing::engine::EngineSystem;
use everglade_testing::system::{Maker, System};
use everglade_testing::{Rng, SimWorld};

use crate::corrupter::{Atlas, of_clones_under_way};
use crate::snapped::image_with_clones;

/// Runs the engine for some seconds.
fn rest(world: &SimWorld, system: &mut EngineSystem) {
    let until = world.now() + 5_000_000_000;
    world.wake(0);
    while world.now() < until {
        let before = world.now();
        world.run(256, &mut |reactor| system.turn(reactor));
        if world.now() == before {
            world.pass(until - before);
        }
    }
}

#[test]
fn a_clone_that_does_not_fit_what_is_said_of_it_is_refused_or_ends_and_says_why() {
    let mut met: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..120 {
        let ways = of_clones_under_way();
        if ways.iter().all(|(name, _)| met.get(name) >= Some(&3)) {
            break;
        }
        let image = image_with_clones(seed);
        let atlas = Atlas::of(&image.world());
        for (name, way) in ways {
            let mut rng = Rng::for_part(seed, name);
            let Some(damage) = way(&atlas, &mut rng) else {
                continue;
            };
            let world = image.world();
            damage.apply(&atlas, &world);
            let Ok(mut system) = image.maker.mount(&world) else {
                // The engine refuses before it serves anything.
                *met.entry(name).or_default() += 1;
                continue;
            };
            if matches!(system.state(), State::ReadOnly(_)) {
                // The engine reports the damage, and writes nothing.
                *met.entry(name).or_default() += 1;
                continue;
            }
            rest(&world, &mut system);
            assert_eq!(system.state(), State::Online, "{name}, image {seed}");
            let clone = system.lun_clone("v");
            let failed = clone.and_then(|clone| clone.failed);
            assert!(failed.is_some(), "{name}, image {seed}: it is not told");
            *met.entry(name).or_default() += 1;
        }
    }
    println!("{met:?}");
    for (name, _) in of_clones_under_way() {
        assert!(met.contains_key(name), "{name} was never tried: {met:?}");
    }
}
