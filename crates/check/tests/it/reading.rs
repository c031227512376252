//! Client reads of an image through the engine: every block of every LUN, active and in all
//! snapshots.

use std::collections::BTreeMap;

use everglade_target::{Op, Reply};
use everglade_testing::SimWorld;
use everglade_testing::engine::{EngineMaker, EngineSystem};
use everglade_testing::system::{Maker, System};
use everglade_testing::world::Turn;

const TURNS_MAX: u64 = 1_000_000;
const BLOCK: u64 = 4096;
/// Blocks that are read at once.
const STEP: u64 = 64;

/// Bytes by LUN and first block; nothing where the answer is an error.
pub(crate) type Sight = BTreeMap<(String, u64), Option<Vec<u8>>>;

/// Reads all contents; returns nothing if the engine refuses to start.
pub(crate) fn all(maker: &EngineMaker, world: &SimWorld) -> Option<Sight> {
    let mut system = maker.mount(world).ok()?;
    let mut names: Vec<(String, u64)> = Vec::new();
    for export in system.target(0).exports() {
        names.push((export.name, export.size_bytes));
    }
    for volume in system.volumes().unwrap_or_default() {
        for info in system.snapshots(&volume) {
            let luns = info.luns.iter();
            let full = luns.map(|lun| format!("{volume}/{lun}@{}", info.name));
            let sized = full.filter_map(|name| {
                let (handle, export) = system.target(0).open(&name).ok()?;
                system.target(0).close(handle);
                Some((name, export.size_bytes))
            });
            names.extend(sized.collect::<Vec<_>>());
        }
    }
    let mut sight = Sight::new();
    for (name, size_bytes) in names {
        let blocks = size_bytes / BLOCK;
        for first in (0..blocks).step_by(usize::try_from(STEP).expect("small")) {
            let length = STEP.min(blocks - first) * BLOCK;
            let bytes = read(world, &mut system, &name, first * BLOCK, length);
            sight.insert((name.clone(), first), bytes);
        }
    }
    Some(sight)
}

fn read(
    world: &SimWorld,
    system: &mut EngineSystem,
    name: &str,
    offset: u64,
    length: u64,
) -> Option<Vec<u8>> {
    let (handle, _) = system.target(0).open(name).ok()?;
    let length = u32::try_from(length).expect("small");
    system
        .target(0)
        .submit(handle, Op::Read { offset, length }, 1);
    let mut done = Vec::new();
    world.wake(0);
    world.run(TURNS_MAX, &mut |reactor| {
        let said = system.turn(reactor);
        system.target(0).poll(&mut done);
        if done.is_empty() { said } else { Turn::Stop }
    });
    system.target(0).close(handle);
    match done.pop().expect("it is answered").result {
        Ok(Reply::Data(span)) => Some(span.pages.iter().flat_map(|page| page.to_vec()).collect()),
        _ => None,
    }
}

/// Returns the blocks that read differently than before, except for errors.
pub(crate) fn wrong<'a>(before: &'a Sight, now: &Sight) -> Vec<&'a (String, u64)> {
    let is_wrong = |(place, bytes): &(&'a (String, u64), &Option<Vec<u8>>)| {
        now.get(*place)
            .is_some_and(|now| now.is_some() && now != *bytes)
    };
    let places = before.iter().filter(is_wrong);
    places.map(|(place, _)| place).collect()
}
