//! A pool that is filled until no write goes through, and got out of that by one deletion: of a
//! snapshot, of a LUN, of a volume. The deletion must succeed, and then writes must. Afterwards the
//! pool is drained to half and overwritten for a while, beside another pool of the same size that
//! was filled to the same part and never full.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::btrfs::Btrfs;
use super::ours::Ours;
use super::results::Results;
use super::store::Store;
use super::{Plan, load};
use crate::Failure;
use crate::versus::Ratio;
use crate::versus::load::{Kind, Load, Order};

pub(super) const KEY: &str = "full";
/// Images of a pool's size by this.
const PARTS: u64 = 8;
/// More than fit.
const IMAGES: u64 = PARTS + 3;
/// Written after a deletion, to see whether anything can be.
const BLOCKS: u64 = 4096;
const WRITABLE_WITHIN: Duration = Duration::from_secs(60);
const VOLUME: &str = "fill";
const OTHER: &str = "other";

/// What is deleted.
const WAYS: [&str; 3] = ["snapshot", "LUN", "volume"];

pub(super) fn run(
    ours: &Ours,
    folder: &Path,
    plan: &Plan,
    results: &mut Results,
) -> Result<(), Failure> {
    let bytes = plan.pick(768 << 20, 2 << 30);
    let mut pools = [ours.another("full", bytes)?, ours.another("fresh", bytes)?];
    let [full, fresh] = &mut pools;
    job(full, fresh, bytes, plan, results)?;
    judge(plan, results);
    let mut peers = [
        Btrfs::make(folder, "full", bytes)?,
        Btrfs::make(folder, "fresh", bytes)?,
    ];
    let [full, fresh] = &mut peers;
    if let Err(failure) = job(full, fresh, bytes, plan, results) {
        let text = format!("{}, full pool: {failure}", full.name());
        results.about.push(("not measured", text));
    }
    Ok(())
}

fn image(number: u64) -> String {
    format!("i{number}")
}

fn job(
    full: &mut dyn Store,
    fresh: &mut dyn Store,
    bytes: u64,
    plan: &Plan,
    results: &mut Results,
) -> Result<(), Failure> {
    let part = bytes / PARTS;
    let mut is_first = true;
    for _ in 0..plan.pick(1, 2) {
        for way in WAYS {
            if !is_first {
                full.remove(VOLUME)?;
                full.drain()?;
            }
            is_first = false;
            let waited = escape(full, way, part)?;
            let key = (KEY, full.name());
            let what = format!("full, then a {way} deleted: succeeded");
            results.add(key, &what, "of 1", if waited.is_some() { 1.0 } else { 0.0 });
            if let Some(waited) = waited {
                let what = format!("full, then a {way} deleted: time to write 16 MiB");
                results.add(key, &what, "s", waited.as_secs_f64());
            }
        }
    }
    // The pool is full but for what the last deletion gave back.
    for number in (1..IMAGES).rev() {
        full.drain()?;
        full.settle()?;
        if full.used()? <= 0.5 || number == 2 {
            break;
        }
        if full.server(VOLUME, &image(number)).is_ok() {
            full.remove_image(VOLUME, &image(number))?;
        }
    }
    full.drain()?;
    full.settle()?;
    for number in 0..IMAGES {
        fresh.add(VOLUME, &image(number), part)?;
        filled(fresh, &image(number), part)?;
        fresh.settle()?;
        // As near as whole images get.
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let half_an_image = 0.5 / PARTS as f64;
        if number >= 1 && fresh.used()? + half_an_image >= full.used()? {
            break;
        }
    }
    for (store, name) in [(&*full, "drained"), (&*fresh, "fresh")] {
        let used = store.used()? * 100.0;
        results.add((KEY, store.name()), &format!("used, {name}"), "%", used);
    }
    for round in 0..plan.pick(2, 7) {
        let mut pools: [(&mut dyn Store, &str); 2] =
            [(&mut *full, "drained"), (&mut *fresh, "fresh")];
        if round % 2 == 1 {
            pools.reverse();
        }
        for (store, name) in pools {
            turn(store, name, part, plan, round, results)?;
        }
    }
    Ok(())
}

/// Fills a pool, and deletes one thing. How long until as much as 16 MiB could be written again;
/// nothing if the deletion failed or did not help.
fn escape(store: &mut dyn Store, way: &str, part: u64) -> Result<Option<Duration>, Failure> {
    if way == "volume" {
        store.add(OTHER, &image(0), part)?;
        let server = store.server(OTHER, &image(0))?;
        load::fill(&server.socket, &server.export, part).map_err(|e| Failure::rig("fill", &e))?;
    }
    store.add(VOLUME, &image(0), part)?;
    filled(store, &image(0), part)?;
    store.add(VOLUME, &image(1), part)?;
    filled(store, &image(1), part)?;
    if way == "snapshot" {
        store.snapshot(VOLUME, "kept")?;
    }
    // Overwriting what the snapshot has takes new space too.
    let again = (0..2).filter(|_| way == "snapshot");
    let mut is_full = false;
    for number in again.chain(2..IMAGES) {
        if number >= 2 {
            store.add(VOLUME, &image(number), part)?;
        }
        if !filled(store, &image(number), part)? {
            is_full = true;
            break;
        }
    }
    if !is_full {
        let text = format!("{} does not get full", store.name());
        return Err(Failure::Rig(text));
    }
    scattered_until_full(store, part)?;
    let begun = Instant::now();
    let deleted = match way {
        "snapshot" => store.delete(VOLUME, &["kept".to_owned()]),
        "LUN" => store.remove_image(VOLUME, &image(0)),
        _ => store.remove(OTHER),
    };
    if let Err(failure) = deleted {
        eprintln!(
            "{} is full, a {way} cannot be deleted: {failure}",
            store.name()
        );
        return Ok(None);
    }
    while begun.elapsed() < WRITABLE_WITHIN {
        if scattered(store, part)? {
            return Ok(Some(begun.elapsed()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(None)
}

/// False if the pool was full before all was written.
fn went(written: io::Result<()>) -> Result<bool, Failure> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(false),
        Err(error) => Err(Failure::rig("fill", &error)),
    }
}

fn filled(store: &dyn Store, image: &str, bytes: u64) -> Result<bool, Failure> {
    let server = store.server(VOLUME, image)?;
    went(load::fill(&server.socket, &server.export, bytes))
}

/// Writes at random places of the second image.
fn scattered(store: &dyn Store, part: u64) -> Result<bool, Failure> {
    let server = store.server(VOLUME, &image(1))?;
    went(load::scatter(
        &server.socket,
        &server.export,
        part,
        BLOCKS,
        3,
    ))
}

/// Small writes may go on where a large one did not fit, and overwrites give old blocks back: until
/// one of many does not go through, or for so long.
fn scattered_until_full(store: &dyn Store, part: u64) -> Result<(), Failure> {
    let server = store.server(VOLUME, &image(1))?;
    for seed in 0..16 {
        let more = load::scatter(&server.socket, &server.export, part, 4 * BLOCKS, seed);
        if !went(more)? {
            break;
        }
    }
    Ok(())
}

fn turn(
    store: &mut dyn Store,
    name: &str,
    part: u64,
    plan: &Plan,
    seed: u64,
    results: &mut Results,
) -> Result<(), Failure> {
    let load = |order, block, depth| Load {
        kind: Kind::Write,
        order,
        block,
        depth,
        jobs: 1,
        bytes: part,
        pace: None,
    };
    let loads = [
        ("random overwrites q32", load(Order::Random, 4096, 32)),
        (
            "sequential writes 128 KiB q8",
            load(Order::Sequential, 128 << 10, 8),
        ),
    ];
    for (what, load) in loads {
        let server = store.server(VOLUME, &image(1))?;
        let time = Duration::from_secs_f64(plan.pick(0.3, 1.2));
        let sample = load.run(&server.socket, &server.export, time, seed);
        let sample = sample.map_err(|error| Failure::rig(what, &error))?;
        let key = (KEY, store.name());
        results.add(key, &format!("{what}, {name}"), "writes/s", sample.rate());
        store.settle()?;
    }
    Ok(())
}

fn judge(plan: &Plan, results: &mut Results) {
    let mut all = Vec::new();
    for way in WAYS {
        all.extend(results.ours(KEY, &format!("full, then a {way} deleted: succeeded")));
    }
    let worked: f64 = all.iter().sum();
    let tries = WAYS.len() * plan.pick(1, 2);
    let reached = format!("{worked} of {tries}");
    #[expect(clippy::cast_precision_loss, reason = "some")]
    let is_met = worked == tries as f64;
    let what = "full pool: after a snapshot, LUN or volume is deleted, writes succeed";
    results.judge(what, "always", reached, is_met);
    for what in ["random overwrites q32", "sequential writes 128 KiB q8"] {
        let [drained, fresh] =
            ["drained", "fresh"].map(|name| results.ours(KEY, &format!("{what}, {name}")));
        let ratio = Ratio::of(&drained, &fresh);
        let what = format!("{what}, pool drained after it was full / fresh pool at the same level");
        results.judge(&what, "≥ 0.9", ratio, ratio.median >= 0.9);
    }
}
