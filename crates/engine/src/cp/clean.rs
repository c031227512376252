//! Clean: overlay entries become blocks and pointers (C-07, D-25). No other module writes client
//! data.
//!
//! A step works on a few dozen regions (level-1 blocks) of one LUN at a time. Load: the level-1
//! blocks, then everything that freeing the replaced blocks changes, then enough numbers. Modify:
//! for each entry a vvbn and a pvbn, the pointer, the container slot, the context; then the level-1
//! block itself is placed and sealed at once, since a region is cleaned once per consistency point.

use std::collections::HashMap;

use everglade_env::PageRef;
use everglade_format::planted::{self, Bug};
use everglade_format::{FileId, Pointer, SPAN};

use crate::alloc::blocks::{Purpose, free_virtual, prepare_free_virtual};
use crate::alloc::references::{prepare_release, release};
use crate::background::shrink::leaves_of;
use crate::home::aggregate::Home;
use crate::home::run::Job;
use crate::home::site::{record, store, take_virtual};
use crate::pool::overlay::{Change, Region};
use crate::read::load::{Gather, LoadCx, Stop};
use crate::tree::{Content, File, Lost};

/// Regions cleaned in one step.
const STEP_REGIONS: usize = 32;
/// Data blocks after which a step takes no further region.
const STEP_BLOCKS: usize = 128;

/// Cleans the next few regions. True when nothing is left.
pub(crate) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
    let run = home.run.as_mut().expect("under way");
    run.writer.throttle(&home.aggregate.media)?;
    let Some(job) = run.plan.pop_front() else {
        return Ok(true);
    };
    // Put back whatever happens: a stopped step runs again from here.
    let outcome = clean_some(home, cx, &job);
    let run = home.run.as_mut().expect("under way");
    let mut job = job;
    match outcome {
        Ok(done) => {
            let lun = job.lun;
            for (region, overlay) in job.regions.drain(..done) {
                let weight = overlay.regions[&(lun, region)].weight();
                run.cleaned += u64::try_from(weight).unwrap_or(0);
            }
            if !job.regions.is_empty() {
                run.plan.push_front(job);
            }
            Ok(false)
        }
        Err(stop) => {
            run.plan.push_front(job);
            Err(stop)
        }
    }
}

fn clean_some(home: &mut Home, cx: &mut LoadCx<'_>, job: &Job) -> Result<usize, Stop> {
    let regions = some_regions(job);
    let count = regions.len();
    let volume = home
        .volumes
        .get_mut(&job.volume)
        .expect("planned volumes exist");

    // Load: the level-1 blocks. A region that only punches what is not there needs none.
    let file = volume.fs.file(job.lun);
    let mut gather = Gather::default();
    let mut wanted = Vec::with_capacity(count);
    for (region, changes) in regions {
        let pointer = match file.pointer(cx, 1, region) {
            // A damaged block on the way: whether it becomes lost is decided below.
            Err(Stop::Damaged(_) | Stop::Failed(_)) => Pointer::LOST,
            found => match gather.add(found) {
                Some(pointer) => pointer,
                None => continue,
            },
        };
        let end = file.inode.block_count();
        let has_data = within(region, changes, end).any(|(_, change)| change.is_block());
        if !has_data && pointer.is_hole() && file.peek(1, region).is_none() {
            continue;
        }
        if gather
            .add(file.modify(cx, 1, region, Content::Keep).map(|_| ()))
            .is_some()
        {
            wanted.push((region, changes, Vec::new()));
        }
    }
    let lost = std::mem::take(&mut file.lost);
    volume.note_lost(&home.aggregate, job.lun, lost);
    gather.finish()?;

    // Load: what freeing changes.
    let mut gather = Gather::default();
    let (mut leaves, mut placed) = (0, 0);
    let mut merged: HashMap<u64, PageRef> = HashMap::new();
    let mut unreadable = Vec::new();
    for (region, changes, olds) in &mut wanted {
        let file = volume.fs.file(job.lun);
        *olds = replaced(file, *region, changes)?;
        let above = file.path(1, *region).next().filter(Pointer::has_block);
        for old in olds.iter() {
            gather.add(prepare_release(
                &mut home.fs,
                &mut volume.fs,
                job.volume,
                cx,
                old.vvbn,
            ));
        }
        if let Some(old) = above {
            gather.add(prepare_free_virtual(
                &mut home.fs,
                &mut volume.fs,
                job.volume,
                cx,
                old.vvbn,
            ));
        }
        let end = volume.fs.file(job.lun).inode.block_count();
        let blocks = within(*region, changes, end).filter(|(_, change)| change.is_block());
        leaves += blocks.count();
        placed += 1;
        // Fragments that were not merged in time go over the blocks they belong to.
        for (leaf, change) in within(*region, changes, end) {
            let Change::Fragment(fragment) = change else {
                continue;
            };
            let pointer = match changes.punched_whole {
                true => Pointer::HOLE,
                false => volume.fs.file(job.lun).leaf_pointer(leaf)?,
            };
            if pointer.is_hole() {
                merged.insert(leaf, fragment.over(&PageRef::zero()));
                continue;
            }
            match gather.add(cx.page_or_damage(pointer)) {
                Some(Ok(base)) => {
                    merged.insert(leaf, fragment.over(&base));
                }
                // The block is lost: what it had beside the fragment is not known.
                Some(Err(reason)) if !pointer.is_lost() => unreadable.push(Lost {
                    level: 0,
                    index: leaf,
                    reason,
                }),
                _ => {}
            }
        }
    }
    gather.finish()?;

    // Load: numbers.
    let needed = leaves + placed;
    let below = Some(&mut home.fs);
    volume
        .fs
        .ensure(below, cx, &mut home.host, Purpose::Data, needed)?;
    home.fs
        .ensure(None, cx, &mut home.host, Purpose::Data, needed)?;

    let volume = home
        .volumes
        .get_mut(&job.volume)
        .expect("planned volumes exist");
    volume.note_lost(&home.aggregate, job.lun, unreadable);
    for (region, changes, olds) in wanted {
        clean_region(home, cx, job, (region, changes, olds), &merged)?;
    }
    Ok(count)
}

/// The first regions of a job that fit one step.
fn some_regions(job: &Job) -> Vec<(u64, &Region)> {
    let mut blocks = 0;
    let mut regions = Vec::new();
    for (region, overlay) in job.regions.iter().take(STEP_REGIONS) {
        let changes = overlay
            .regions
            .get(&job.key(*region))
            .expect("planned from this overlay");
        regions.push((*region, changes));
        blocks += changes.entries().len();
        if blocks >= STEP_BLOCKS {
            break;
        }
    }
    regions
}

/// The changes of a region, without those beyond the file's end: the file was cut short after they
/// were made.
fn within(region: u64, changes: &Region, end: u64) -> impl Iterator<Item = (u64, &Change)> {
    let leaf = move |slot: u8| region * SPAN + u64::from(slot);
    let entries = changes.entries().iter();
    entries
        .map(move |(slot, change)| (leaf(*slot), change))
        .filter(move |(leaf, _)| *leaf < end)
}

/// The blocks that the changes of a region replace.
fn replaced(file: &File, region: u64, changes: &Region) -> Result<Vec<Pointer>, Stop> {
    let mut pointers = Vec::new();
    if changes.punched_whole {
        let leaves = leaves_of(file, region)?;
        pointers.extend(leaves.into_iter().map(|(_, pointer)| pointer));
    } else {
        // A few of 255: only those are looked at.
        for (leaf, _) in within(region, changes, file.inode.block_count()) {
            pointers.push(file.leaf_pointer(leaf)?);
        }
    }
    pointers.retain(Pointer::has_block);
    Ok(pointers)
}

/// Modify phase for one region and the blocks that its changes replace; everything it needs was
/// ensured.
fn clean_region(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    job: &Job,
    (region, changes, olds): (u64, &Region, Vec<Pointer>),
    merged: &HashMap<u64, PageRef>,
) -> Result<(), Stop> {
    let volume = home
        .volumes
        .get_mut(&job.volume)
        .expect("planned volumes exist");
    if changes.punched_whole {
        for (leaf, _) in leaves_of(volume.fs.file(job.lun), region)? {
            volume.fs.file(job.lun).set_leaf(leaf, Pointer::HOLE)?;
        }
    }
    let end = volume.fs.file(job.lun).inode.block_count();
    let mut stored = Vec::with_capacity(changes.entries().len());
    for (leaf, change) in within(region, changes, end) {
        match change {
            Change::Data(_) | Change::Fragment(_) => {
                let page = match change {
                    Change::Data(page) => Some(page),
                    _ => merged
                        .get(&leaf)
                        .filter(|_| !planted::is_now(Bug::LostWithoutReason)),
                };
                let pointer = match page {
                    Some(page) => {
                        let pointer = store(home, job.volume, Purpose::Data, page);
                        stored.push((pointer, page.clone()));
                        pointer
                    }
                    None => Pointer::LOST,
                };
                let volume = home
                    .volumes
                    .get_mut(&job.volume)
                    .expect("planned volumes exist");
                volume.fs.file(job.lun).set_leaf(leaf, pointer)?;
            }
            Change::Punched => {
                let volume = home
                    .volumes
                    .get_mut(&job.volume)
                    .expect("planned volumes exist");
                volume.fs.file(job.lun).set_leaf(leaf, Pointer::HOLE)?;
            }
        }
    }
    cx.keep_data(stored);
    let volume = home
        .volumes
        .get_mut(&job.volume)
        .expect("planned volumes exist");
    let file = volume.fs.file(job.lun);
    file.inode_changed = true;
    let old = match file.remove_if_empty(1, region) {
        Some(old) => old,
        None => place_and_seal(home, cx, job.volume, job.lun, region),
    };
    let volume = home
        .volumes
        .get_mut(&job.volume)
        .expect("planned volumes exist");
    for old in olds {
        release(&mut home.fs, &mut volume.fs, job.volume, old.vvbn);
    }
    if old.has_block() {
        free_virtual(&mut home.fs, &mut volume.fs, job.volume, old.vvbn);
    }
    Ok(())
}

/// Gives the level-1 block of a cleaned region its place and writes it. Returns its old place.
fn place_and_seal(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    volume_id: FileId,
    lun: FileId,
    region: u64,
) -> Pointer {
    let volume = home
        .volumes
        .get_mut(&volume_id)
        .expect("planned volumes exist");
    let new = take_virtual(&mut home.fs, &mut volume.fs, Purpose::Data);
    let file = volume.fs.file(lun);
    let old = file.place((1, region), new);
    cx.replaced(old);
    let cp = home.run.as_ref().expect("under way").number;
    let (pointer, page) = file.seal((1, region), cp, &home.aggregate.key);
    record(home, cx, volume_id, pointer, page);
    old
}
