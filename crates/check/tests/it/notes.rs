//! Notes that cannot be read, or lie: the aggregate serves all of its data without them, and says
//! why (decision 0017).
//!
//! Damage of a disk changes blocks without their tags; damage of a bug includes the tags. No damage
//! may cost a LUN a byte or end the process, neither at the mount nor when the notes are replaced.

use std::collections::BTreeMap;

use everglade_engine::State;
use everglade_engine::admin::{Change, Error};
use everglade_target::{Op, Reply};
use everglade_testing::engine::EngineSystem;
use everglade_testing::system::{Maker, System};
use everglade_testing::world::{Cut, Keep, Turn};
use everglade_testing::{Rng, Seed, SimWorld};

use crate::corrupter::Atlas;
use crate::corrupter::notes::{Effect, WAYS};
use crate::lived::{Lived, report};
use crate::snapped;

const TURNS_MAX: u64 = 1_000_000;
/// Images, each damaged in every way.
const IMAGES: usize = 3;

/// An image with notes of two blocks, and nothing in its journal that may fill space.
fn image(seed: u64) -> Option<Lived> {
    let lived = snapped::cloned(seed);
    let atlas = Atlas::of(&lived.world());
    let notes = atlas.aggregate.files.get(&9)?;
    let is_whole = [(1, 0), (0, 0), (0, 1)]
        .iter()
        .all(|at| notes.nodes.contains_key(at));
    is_whole.then_some(lived)
}

/// Runs the system until it is idle.
fn run(
    world: &SimWorld,
    system: &mut EngineSystem,
    is_done: &mut dyn FnMut(&mut EngineSystem) -> bool,
) {
    world.wake(0);
    let mut done = false;
    world.run(TURNS_MAX, &mut |reactor| {
        let said = system.turn(reactor);
        done |= is_done(system);
        if done { Turn::Stop } else { said }
    });
    assert!(done, "it is answered");
}

fn set_notes(world: &SimWorld, system: &mut EngineSystem, text: &[u8]) -> Result<(), Error> {
    let text = text.to_vec();
    system.core(0).change(0, Change::SetNotes { text }, 1);
    let mut done = Vec::new();
    run(world, system, &mut |system| {
        system.core(0).poll_admin(&mut done);
        !done.is_empty()
    });
    done.remove(0).result
}

/// All contents that clients can read, by export and place.
type Contents = BTreeMap<(String, u64), Vec<u8>>;

fn contents(world: &SimWorld, system: &mut EngineSystem) -> Contents {
    let mut all = BTreeMap::new();
    for export in system.target(0).exports() {
        let (handle, _) = system.target(0).open(&export.name).expect("it is exported");
        for offset in (0..export.size_bytes).step_by(1 << 20) {
            let length = (export.size_bytes - offset).min(1 << 20);
            let length = u32::try_from(length).expect("at most a MiB");
            let op = Op::Read { offset, length };
            system.target(0).submit(handle, op, 1);
            let mut done = Vec::new();
            run(world, system, &mut |system| {
                system.target(0).poll(&mut done);
                !done.is_empty()
            });
            let Ok(Reply::Data(span)) = done.remove(0).result else {
                panic!("{} at {offset} cannot be read", export.name);
            };
            let bytes = span.pages.iter().flat_map(|page| page.iter().copied());
            all.insert((export.name.clone(), offset), bytes.collect());
        }
        system.target(0).close(handle);
    }
    all
}

/// Mounts an image with damaged notes, reads all LUNs, replaces the notes, and reads all LUNs again
/// after a power cut. Returns the errors.
fn try_way(
    lived: &Lived,
    expected: &Contents,
    (name, effect): (&str, Effect),
    world: SimWorld,
) -> Result<(), String> {
    let wrong = |what: String| format!("image {}, {name}: {what}", lived.seed);
    let mut system = match lived.maker.mount(&world) {
        Ok(system) => system,
        Err(error) => {
            let text = error.to_string();
            let is_clear = text.contains("damaged metadata: inode");
            return match effect == Effect::Inode && is_clear {
                true => Ok(()),
                false => Err(wrong(text)),
            };
        }
    };
    if contents(&world, &mut system) != *expected {
        return Err(wrong("other data".to_owned()));
    }
    if matches!(system.state(), State::ReadOnly(_)) {
        // An inode that does not decode: everything can be read, and nothing is written.
        return match effect == Effect::Inode {
            true => Ok(()),
            false => Err(wrong(format!("it is {:?}", system.state()))),
        };
    }
    let found = system.read_notes();
    let replaced = set_notes(&world, &mut system, b"new");
    let is_refused = matches!(replaced, Err(Error::Unavailable(_)));
    let is_right = match effect {
        Effect::Text => found.is_ok() && replaced.is_ok(),
        Effect::Unreadable => found.is_err() && replaced.is_ok(),
        Effect::Stuck => found.is_err() && is_refused,
        Effect::Replaceable => replaced.is_ok(),
        Effect::Inode => replaced.is_ok() || found.is_err() && is_refused,
    };
    if !is_right {
        return Err(wrong(format!("read: {found:?}; replaced: {replaced:?}")));
    }
    if system.state() != State::Online {
        return Err(wrong(format!("after that it is {:?}", system.state())));
    }
    drop(system);
    let images = world.after_cut(Cut::whole(Keep::Nothing));
    let world = SimWorld::restart(images, Seed(lived.seed + 1), 1);
    // Blocks below the spoiled tree have no owner now.
    if matches!(effect, Effect::Text | Effect::Unreadable) {
        let report = report(&world);
        if !report.is_clean() {
            return Err(wrong(format!("{report}")));
        }
    }
    let mut system = lived
        .maker
        .mount(&world)
        .map_err(|error| wrong(error.to_string()))?;
    match replaced {
        Ok(()) if system.read_notes().as_deref() != Ok(b"new") => {
            return Err(wrong(format!("after a restart: {:?}", system.read_notes())));
        }
        Ok(()) => {}
        Err(_) if system.read_notes().is_ok() => return Err(wrong("they came back".to_owned())),
        Err(_) => {}
    }
    match contents(&world, &mut system) == *expected {
        true => Ok(()),
        false => Err(wrong("other data after a restart".to_owned())),
    }
}

#[test]
fn notes_that_are_damaged_or_lie_cost_nobody_any_data() {
    let mut wrong = Vec::new();
    for lived in (0..).filter_map(image).take(IMAGES) {
        let sound = lived.world();
        let mut system = lived.maker.mount(&sound).expect("it mounts");
        let expected = contents(&sound, &mut system);
        let atlas = Atlas::of(&lived.world());
        let mut rng = Rng::for_part(lived.seed, "notes");
        for (name, effect, make) in WAYS {
            let world = lived.world();
            make(&atlas, &mut rng).apply(&atlas, &world);
            wrong.extend(try_way(&lived, &expected, (name, *effect), world).err());
        }
    }
    assert!(
        wrong.is_empty(),
        "{} times: {}",
        wrong.len(),
        wrong.join("\n")
    );
}
