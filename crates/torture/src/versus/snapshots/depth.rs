//! Reads of volumes with a short and a long history. All of them are written alike: filled, then a
//! thousand times some random overwrites; they differ only in how many of these times a snapshot
//! was taken. One of the two with a single snapshot is there to say what noise is: how far the
//! ratio of these twins is from 1, at the far end of its 95 % interval, is what the other ratios
//! may differ by, but never more than [`NOISE_MAX`].
//!
//! Turns are so many reads, not so long, and before the first one all volumes are read at random
//! until what is in the caches of server and host is as much of each: otherwise who is read faster
//! has more in them, and is read faster still.

use super::results::Results;
use super::store::Store;
use super::{IMAGE, Plan, ensure, load, random};
use crate::Failure;
use crate::versus::Ratio;
use crate::versus::load::Kind;

pub(super) const KEY: &str = "depth";
/// The volume with the longest history.
pub(super) const DEEPEST: &str = "deep-all";
/// Where twins differ by more than this, the run says nothing and the goal counts as missed unless
/// others differ less.
const NOISE_MAX: f64 = 0.2;
/// Overwritten between two snapshots.
const BLOCKS: u64 = 32;

/// Name, and the part of the times at which a snapshot is taken: one in so many.
struct Arm {
    volume: &'static str,
    one_in: u64,
}

/// Size of each volume.
pub(super) fn bytes(plan: &Plan) -> u64 {
    plan.pick(96 << 20, 512 << 20)
}

fn arms(plan: &Plan) -> [Arm; 4] {
    let arm = |volume, one_in| Arm { volume, one_in };
    [
        arm("deep-one", plan.snapshots()),
        arm("deep-twin", plan.snapshots()),
        arm("deep-some", plan.pick(6, 10)),
        arm(DEEPEST, 1),
    ]
}

fn title(arm: &Arm, plan: &Plan) -> String {
    let depth = plan.snapshots() / arm.one_in;
    let twin = if arm.volume == "deep-twin" {
        ", the twin"
    } else {
        ""
    };
    format!("depth {depth}{twin}")
}

/// Overwrites some blocks.
pub(super) fn scatter(
    store: &dyn Store,
    volume: &str,
    plan: &Plan,
    seed: u64,
) -> Result<(), Failure> {
    let server = store.server(volume, IMAGE)?;
    load::scatter(&server.socket, &server.export, bytes(plan), BLOCKS, seed)
        .map_err(|error| Failure::rig("overwrite some blocks", &error))
}

/// The name of a snapshot of [`DEEPEST`].
pub(super) fn name(number: u64) -> String {
    format!("deep-{number}")
}

pub(super) fn run(
    stores: &mut [&mut dyn Store],
    plan: &Plan,
    results: &mut Results,
) -> Result<(), Failure> {
    let arms = arms(plan);
    for store in stores.iter_mut() {
        for arm in &arms {
            ensure(*store, arm.volume, bytes(plan), bytes(plan))?;
        }
        store.settle()?;
        for number in 1..=plan.snapshots() {
            for arm in &arms {
                scatter(*store, arm.volume, plan, number)?;
            }
            for arm in arms.iter().filter(|arm| number % arm.one_in == 0) {
                store.snapshot(arm.volume, &name(number))?;
            }
        }
        store.settle()?;
    }
    let (rounds, warm) = plan.pick((2, 2_000), (7, 60_000));
    let turns = plan.pick([(32, 1_000), (1, 200)], [(32, 8_000), (1, 1_000)]);
    for store in stores.iter_mut() {
        for arm in &arms {
            read(*store, arm.volume, plan, (32, warm), rounds)?;
        }
    }
    for round in 0..rounds {
        for store in stores.iter_mut() {
            for index in 0..arms.len() {
                let first = usize::try_from(round).unwrap_or(0);
                let arm = &arms[(first + index) % arms.len()];
                let key = (KEY, store.name());
                for turn in turns {
                    let rate = read(*store, arm.volume, plan, turn, round)?;
                    let what = format!("random reads q{}, {}", turn.0, title(arm, plan));
                    results.add(key, &what, "reads/s", rate);
                }
            }
        }
    }
    judge(plan, results);
    Ok(())
}

/// So many random reads of a volume, at a queue depth. Reads per second.
fn read(
    store: &dyn Store,
    volume: &str,
    plan: &Plan,
    (depth, count): (u32, u64),
    seed: u64,
) -> Result<f64, Failure> {
    let server = store.server(volume, IMAGE)?;
    let load = random(Kind::Read, depth, bytes(plan));
    load.run_count(&server.socket, &server.export, count, seed)
        .map(|sample| sample.rate())
        .map_err(|error| Failure::rig(&format!("reads of {volume} of {}", store.name()), &error))
}

fn judge(plan: &Plan, results: &mut Results) {
    let [one, twin, some, all] = arms(plan).map(|arm| title(&arm, plan));
    for words in ["random reads q32", "random reads q1"] {
        let rates = |title: &str| results.ours(KEY, &format!("{words}, {title}"));
        let base = rates(&one);
        let twins = Ratio::of(&rates(&twin), &base);
        let noise = (1.0 - twins.low).max(twins.high - 1.0).min(NOISE_MAX);
        let others = [&some, &all].map(|title| (title, Ratio::of(&rates(title), &base)));
        for (title, ratio) in others {
            let what = format!("{words}: {title} / {one}");
            let goal = format!("1 ± {noise:.2} (twins {twins})");
            let is_met = (ratio.median - 1.0).abs() <= noise;
            results.judge(&what, &goal, ratio, is_met);
        }
    }
}
