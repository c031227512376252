//! Taking snapshots under half of the load that saturates, of a small volume and of one of 10 TiB
//! that was written here and there. Both get the same load: random overwrites of their first GiB.
//!
//! *Taken* is from the request to the moment whose image it is, *durable* from the request to the
//! commit, both as the daemon says in its answer. What a consistency point takes is the mean of all
//! in the same window, from `/metrics`.

use std::time::Duration;

use super::results::Results;
use super::store::{Store, Taken};
use super::{IMAGE, Plan, beside, ensure, half_load, load, ms};
use crate::Failure;
use crate::bench::Summary;
use crate::versus::Ratio;

pub(super) const KEY: &str = "create";
pub(super) const SMALL: &str = "small";
pub(super) const LARGE: &str = "large";
const LARGE_BYTES: u64 = 10 << 40;
/// From one snapshot to the next.
const PAUSE: Duration = Duration::from_millis(120);

const TITLES: [(&str, &str); 2] = [(SMALL, "1 GiB"), (LARGE, "10 TiB")];

/// Makes the volume of 10 TiB, if it is not there.
pub(super) fn ensure_large(store: &mut dyn Store, plan: &Plan) -> Result<(), Failure> {
    if store.server(LARGE, IMAGE).is_ok() {
        return Ok(());
    }
    ensure(store, LARGE, LARGE_BYTES, plan.small_bytes())?;
    let server = store.server(LARGE, IMAGE)?;
    let step = plan.pick(4 << 30, 128 << 20);
    load::sparse(&server.socket, &server.export, LARGE_BYTES, step)
        .map_err(|error| Failure::rig("write here and there", &error))
}

pub(super) fn run(
    stores: &mut [&mut dyn Store],
    plan: &Plan,
    results: &mut Results,
) -> Result<(), Failure> {
    let (rounds, takes) = plan.pick((2, 3), (7, 16));
    let mut loads = Vec::new();
    for store in stores.iter_mut() {
        ensure(*store, SMALL, plan.small_bytes(), plan.small_bytes())?;
        ensure_large(*store, plan)?;
        store.settle()?;
        // The lower of both, so that both have the same.
        let small = half_load(*store, SMALL, plan)?;
        store.settle()?;
        let large = half_load(*store, LARGE, plan)?;
        store.settle()?;
        let paces = [small.pace, large.pace].map(|pace| pace.unwrap_or(f64::MAX));
        let pace = paces[0].min(paces[1]);
        results.add((KEY, store.name()), "load", "writes/s", pace);
        loads.push(load::Load {
            pace: Some(pace),
            ..small
        });
    }
    let mut number = 0;
    for round in 0..rounds {
        for (store, load) in stores.iter_mut().zip(&loads) {
            let mut volumes = TITLES;
            if round % 2 == 1 {
                volumes.reverse();
            }
            for one in volumes {
                let names: Vec<_> = (0..takes)
                    .map(|n| format!("taken-{}", number + n))
                    .collect();
                number += takes;
                window(*store, one, load, &names, results)?;
                // The next window finds as many snapshots as this one did: none.
                store.delete(one.0, &names)?;
                store.drain()?;
                store.settle()?;
            }
        }
    }
    judge(results);
    Ok(())
}

/// Snapshots of a volume under a load.
fn window(
    store: &mut dyn Store,
    (volume, title): (&str, &str),
    load: &load::Load,
    names: &[String],
    results: &mut Results,
) -> Result<(), Failure> {
    let key = (KEY, store.name());
    let work = |store: &mut dyn Store| {
        let before = store.points()?;
        let mut all = Vec::new();
        for name in names {
            all.push(store.snapshot(volume, name)?);
            std::thread::sleep(PAUSE);
        }
        let after = store.points()?;
        let each = after
            .zip(before)
            .and_then(|(after, before)| after.each_ms_since(before));
        Ok((all, each))
    };
    let ((all, each), sample) = beside(store, volume, load, names.len() as u64, work)?;
    let summary = |value: fn(&Taken) -> Duration| {
        let values: Vec<f64> = all.iter().map(|one| ms(value(one))).collect();
        Summary::of(&values)
    };
    let (taken, durable) = (summary(|one| one.taken), summary(|one| one.durable));
    let answered = summary(|one| one.answered);
    for (what, value) in [
        ("taken", taken.median),
        ("taken, the longest", taken.max),
        ("durable", durable.median),
        ("answered, the longest", answered.max),
    ] {
        results.add(key, &format!("{title}: {what}"), "ms", value);
    }
    results.add(
        key,
        &format!("{title}: load reached"),
        "writes/s",
        sample.rate(),
    );
    if let Some(each) = each {
        results.add(key, &format!("{title}: a consistency point"), "ms", each);
        let durable: f64 = all.iter().map(|one| ms(one.durable)).sum();
        #[expect(clippy::cast_precision_loss, reason = "some snapshots")]
        let mean = durable / all.len() as f64;
        let what = format!("{title}: durable / a consistency point");
        results.add(key, &what, "", mean / each);
    }
    Ok(())
}

fn judge(results: &mut Results) {
    for (_, title) in TITLES {
        let taken = Summary::of(&results.ours(KEY, &format!("{title}: taken")));
        let what = format!("time to take a snapshot of a {title} volume, half load");
        let reached = format!("{taken:.3} ms");
        results.judge(&what, "median < 100 ms", reached, taken.median < 100.0);
    }
    let [small, large] = TITLES.map(|(_, title)| results.ours(KEY, &format!("{title}: taken")));
    let ratio = Ratio::of(&large, &small);
    let what = "time to take a snapshot, 10 TiB volume / 1 GiB volume";
    let is_met = (0.8..=1.2).contains(&ratio.median);
    results.judge(what, "within 20 %", ratio, is_met);
    for (_, title) in TITLES {
        let times = results.ours(KEY, &format!("{title}: durable / a consistency point"));
        if times.is_empty() {
            continue;
        }
        let times = Summary::of(&times);
        let what =
            format!("time until a snapshot of a {title} volume is durable / a consistency point");
        let reached = format!("{times:.2}");
        results.judge(&what, "≤ 2", reached, times.median <= 2.0);
    }
}
