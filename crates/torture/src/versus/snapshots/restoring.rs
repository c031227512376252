//! Restoring a volume of 10 TiB to a snapshot of it, after overwrites all over it, while clients of
//! another volume of the pool write with half of what they could.

use super::creation::{LARGE, SMALL, ensure_large};
use super::results::Results;
use super::store::Store;
use super::{IMAGE, Plan, beside, ensure, half_load, load, ms};
use crate::Failure;
use crate::bench::Summary;

pub(super) const KEY: &str = "restore";
const BLOCKS: u64 = 4096;

pub(super) fn run(
    stores: &mut [&mut dyn Store],
    plan: &Plan,
    results: &mut Results,
) -> Result<(), Failure> {
    let mut loads = Vec::new();
    for store in stores.iter_mut() {
        ensure(*store, SMALL, plan.small_bytes(), plan.small_bytes())?;
        ensure_large(*store, plan)?;
        store.settle()?;
        loads.push(half_load(*store, SMALL, plan)?);
        store.settle()?;
    }
    for round in 0..plan.pick(2, 7) {
        for (store, half) in stores.iter_mut().zip(&loads) {
            let name = format!("restored-{round}");
            store.snapshot(LARGE, &name)?;
            let server = store.server(LARGE, IMAGE)?;
            load::scatter(
                &server.socket,
                &server.export,
                plan.small_bytes(),
                BLOCKS,
                round,
            )
            .map_err(|error| Failure::rig("overwrite", &error))?;
            let key = (KEY, store.name());
            let ((took, each), _) = beside(*store, SMALL, half, round, |store| {
                let before = store.points()?;
                let took = store.restore(LARGE, &name)?;
                let after = store.points()?;
                let each = after
                    .zip(before)
                    .and_then(|(after, before)| after.each_ms_since(before));
                Ok((took, each))
            })?;
            results.add(key, "restore of a 10 TiB volume", "ms", ms(took));
            if let Some(each) = each {
                results.add(key, "a consistency point", "ms", each);
                results.add(
                    key,
                    "restore, less a consistency point",
                    "ms",
                    ms(took) - each,
                );
            }
            store.delete(LARGE, &[name])?;
            store.drain()?;
            store.settle()?;
        }
    }
    let beyond = Summary::of(&results.ours(KEY, "restore, less a consistency point"));
    let reached = format!("{beyond:.1} ms");
    let what = "longest restore of a 10 TiB volume, half load, less a consistency point";
    results.judge(what, "< 1 s", reached, beyond.max < 1000.0);
    Ok(())
}
