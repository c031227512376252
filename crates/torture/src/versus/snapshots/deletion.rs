//! Deleting a thousand snapshots while clients overwrite the volume at random, as fast as they can.
//!
//! A turn with the deletion goes on until all space is back, the one without for about as long as
//! such a turn takes; both begin after everything before has settled. Every round takes its own
//! snapshots.

use std::time::{Duration, Instant};

use super::depth::{self, DEEPEST};
use super::results::{OURS, Results};
use super::store::Store;
use super::{Plan, beside, drive, ensure, random};
use crate::Failure;
use crate::bench::Summary;
use crate::versus::Ratio;
use crate::versus::load::Kind;

pub(super) const KEY: &str = "delete";
/// A deletion that takes longer is cut off from the measurement.
const WATCHED: Duration = Duration::from_secs(25);
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) fn run(
    stores: &mut [&mut dyn Store],
    plan: &Plan,
    results: &mut Results,
) -> Result<(), Failure> {
    let bytes = depth::bytes(plan);
    let load = random(Kind::Write, 32, bytes);
    for round in 0..plan.pick(1u64, 5) {
        for store in stores.iter_mut() {
            // What is judged is the ratio of ours to ours; the peer is only printed, and slow to
            // get a thousand.
            if round > 0 && store.name() != OURS {
                continue;
            }
            let is_there = round == 0 && store.server(DEEPEST, super::IMAGE).is_ok();
            ensure(*store, DEEPEST, bytes, bytes)?;
            let mut names = Vec::new();
            for number in 1..=plan.snapshots() {
                names.push(depth::name(number));
                if !is_there {
                    depth::scatter(*store, DEEPEST, plan, number)?;
                    store.snapshot(DEEPEST, &depth::name(number))?;
                }
            }
            store.settle()?;
            let key = (KEY, store.name());
            if round % 2 == 0 {
                without(*store, &load, plan, round, results)?;
            }
            let (times, sample) = beside(*store, DEEPEST, &load, round, |store| {
                let begun = Instant::now();
                store.delete(DEEPEST, &names)?;
                let answered = begun.elapsed();
                let least = Duration::from_secs_f64(plan.pick(1.0, 3.0));
                while (store.is_draining()? || begun.elapsed() < least) && begun.elapsed() < WATCHED
                {
                    std::thread::sleep(LOOK_EVERY);
                }
                Ok((answered, begun.elapsed()))
            })?;
            let points = sample.latencies.points();
            results.add(key, "writes while deleting, p50", "µs", us(points.p50));
            results.add(key, "writes while deleting, p99", "µs", us(points.p99));
            results.add(key, "writes while deleting, longest", "µs", us(points.max));
            results.add(key, "writes while deleting", "writes/s", sample.rate());
            results.add(key, "all deletions answered", "s", times.0.as_secs_f64());
            results.add(key, "turn with the deletion", "s", times.1.as_secs_f64());
            store.drain()?;
            store.settle()?;
            if round % 2 == 1 {
                without(*store, &load, plan, round, results)?;
            }
        }
    }
    judge(results);
    Ok(())
}

fn without(
    store: &mut dyn Store,
    load: &crate::versus::load::Load,
    plan: &Plan,
    seed: u64,
    results: &mut Results,
) -> Result<(), Failure> {
    let sample = drive(store, DEEPEST, load, plan.pick(1.5, 8.0), seed + 70)?;
    store.settle()?;
    let key = (KEY, store.name());
    let points = sample.latencies.points();
    results.add(key, "writes without, p50", "µs", us(points.p50));
    results.add(key, "writes without, p99", "µs", us(points.p99));
    results.add(key, "writes without, longest", "µs", us(points.max));
    results.add(key, "writes without", "writes/s", sample.rate());
    Ok(())
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn judge(results: &mut Results) {
    let with = results.ours(KEY, "writes while deleting, p99");
    let ratio = Ratio::of(&with, &results.ours(KEY, "writes without, p99"));
    let what = "p99 of random overwrites q32 while 1,000 snapshots are deleted / without";
    results.judge(what, "≤ 1.25", ratio, ratio.median <= 1.25);
    let longest = Summary::of(&results.ours(KEY, "writes while deleting, longest"));
    let reached = format!("{:.0} ms", longest.max / 1e3);
    let what = "longest wait of a write while 1,000 snapshots are deleted";
    results.judge(what, "≤ 1 s", reached, longest.max <= 1e6);
}
