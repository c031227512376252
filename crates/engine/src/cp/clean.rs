//! Clean: overlay entries become blocks and pointers (C-07, D-25). No other module writes client
//! data.
//!
//! Works on a few dozen regions (level-1 blocks) of one volume at a time. Load: the level-1 blocks,
//! then what fragments go over, then enough numbers. Clean: each region is turned into blocks and
//! pointers ([`super::cleaner`]), from its inputs only. Apply: the results go into the trees and
//! maps of the volume and of the aggregate, and to the writer. Blocks that were replaced go to the
//! volume's stage ([`super::stage`]), and become free later in the same consistency point.
//!
//! LUNs with few changed regions are cleaned together (D-23): a step takes the next ones until it
//! has enough regions. So their blocks are loaded together, and what a step costs is shared. With
//! [`crate::Options::luns_together`] a step takes fewer LUNs, for comparison.

use std::collections::{HashMap, VecDeque};

use everglade_env::PageRef;
use everglade_format::{FileId, Pointer};

use crate::alloc::blocks::Purpose;
use crate::alloc::supply::Supply;
use crate::background::shrink::leaves_of;
use crate::cp::cleaner::{Cleaned, Cleaner, Dirty, within};
use crate::cp::stage;
use crate::home::aggregate::Home;
use crate::home::run::Job;
use crate::home::site::Site;
use crate::pool::overlay::{Change, Region};
use crate::pool::trigger::CpBlock;
use crate::read::load::{Gather, LoadCx, Stop};
use crate::tree::{Content, File, Lost};

/// Regions cleaned in one step.
const STEP_REGIONS: usize = 32;
/// Data blocks after which a step takes no further region.
const STEP_BLOCKS: usize = 128;

/// Cleans the next few regions. True when nothing is left.
pub(crate) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
    let run = home.run.as_mut().expect("under way");
    let Some(volume) = run.plan.front().map(|job| job.volume) else {
        return Ok(true);
    };
    let throttled = run.writer.throttle(&home.aggregate.media);
    let stage = run.stages.entry(volume).or_default();
    if stage.is_full(run.stage_blocks) || throttled.is_err() && stage.is_worth_it() {
        return stage::release_some(home, cx, volume).map(|()| false);
    }
    throttled?;
    let mut plan = std::mem::take(&mut run.plan);
    let luns_max = run.luns_together;
    let outcome = clean_some(&mut home.site(volume).0, cx, taken(&plan, luns_max));
    let run = home.under_way();
    // Only the last of the jobs may have more regions.
    for done in outcome.iter().flatten() {
        let job = plan.front_mut().expect("it was taken from");
        for (region, overlay) in job.regions.drain(..*done) {
            let weight = overlay.regions[&(job.lun, region)].weight();
            run.cleaned += u64::try_from(weight).unwrap_or(0);
        }
        if job.regions.is_empty() {
            plan.pop_front();
        }
    }
    // Put back whatever happens: a stopped step runs again from here.
    run.plan = plan;
    let done = outcome?;
    let counts = &home.aggregate.counts;
    counts.count_cleaned(done.len(), done.iter().sum());
    Ok(false)
}

/// Changed regions of a LUN.
type Regions<'a> = (FileId, Vec<(u64, &'a Region)>);

/// Returns what one step takes: regions of the first jobs, all of one volume.
fn taken(plan: &VecDeque<Job>, luns_max: usize) -> Vec<Regions<'_>> {
    let mut room = Room::default();
    let mut taken = Vec::new();
    let first = plan.front().map(|job| job.volume);
    for job in plan.iter().take(luns_max) {
        if Some(job.volume) != first || room.is_over() {
            break;
        }
        taken.push((job.lun, room.take(job)));
    }
    taken
}

/// What a step can still take.
#[derive(Default)]
struct Room {
    regions: usize,
    blocks: usize,
}

impl Room {
    fn is_over(&self) -> bool {
        self.regions >= STEP_REGIONS || self.blocks >= STEP_BLOCKS
    }

    /// Takes the first regions of a job that there is room for.
    fn take<'a>(&mut self, job: &'a Job) -> Vec<(u64, &'a Region)> {
        let mut taken = Vec::new();
        for (region, overlay) in &job.regions {
            if self.is_over() {
                break;
            }
            let changes = overlay.regions.get(&job.key(*region));
            let changes = changes.expect("planned from this overlay");
            self.regions += 1;
            self.blocks += changes.entries().len();
            taken.push((*region, changes));
        }
        taken
    }
}

/// A region whose level-1 block is loaded, and the blocks that its changes replace.
struct Loaded<'a> {
    region: u64,
    changes: &'a Region,
    replaced: Vec<Pointer>,
}

/// Regions of one LUN of which everything is loaded and prepared that cleaning them takes.
struct Ready<'a> {
    lun: FileId,
    regions: Vec<Loaded<'a>>,
    fragments: Fragments,
    /// Places that they need at most. So many are in stock.
    places: usize,
}

/// Returns how many regions of each LUN are done: all that are taken.
fn clean_some(
    site: &mut Site<'_>,
    cx: &mut LoadCx<'_>,
    taken: Vec<Regions<'_>>,
) -> Result<Vec<usize>, Stop> {
    let done = taken.iter().map(|(_, regions)| regions.len()).collect();
    for ready in load(site, cx, taken)? {
        clean_all(site, cx, ready);
    }
    Ok(done)
}

/// Load phase of [`clean_all`], for several LUNs.
fn load<'a>(
    site: &mut Site<'_>,
    cx: &mut LoadCx<'_>,
    luns: Vec<Regions<'a>>,
) -> Result<Vec<Ready<'a>>, Stop> {
    let mut gather = Gather::default();
    let mut ready = Vec::with_capacity(luns.len());
    for (lun, regions) in luns {
        ready.push(Ready {
            lun,
            regions: load_blocks(site, cx, &mut gather, lun, regions),
            fragments: Fragments::default(),
            places: 0,
        });
    }
    gather.finish()?;
    let mut gather = Gather::default();
    let mut places = 0;
    for ready in &mut ready {
        load_replaced(site, cx, &mut gather, ready)?;
        // One block for each leaf with content, and one for each level-1 block.
        let end = site.file(ready.lun).inode.block_count();
        let leaves = |it: &Loaded<'_>| {
            let changes = within(it.region, it.changes, end);
            changes.filter(|(_, change)| change.is_block()).count()
        };
        ready.places = ready.regions.len() + ready.regions.iter().map(leaves).sum::<usize>();
        places += ready.places;
    }
    gather.finish()?;
    site.ensure(cx, Purpose::Data, places)?;
    Ok(ready)
}

/// Cleans regions of a LUN, and applies what comes of it.
fn clean_all(site: &mut Site<'_>, cx: &mut LoadCx<'_>, ready: Ready<'_>) {
    let Ready {
        lun,
        regions,
        fragments,
        places,
    } = ready;
    site.note_lost(lun, fragments.unreadable);
    let end = site.file(lun).inode.block_count();
    let mut cleaner = Cleaner {
        cp: site.cp,
        key: &site.aggregate.key,
        file: lun,
        supply: Supply::draw(&mut site.volume.fs, site.below, Purpose::Data, places),
    };
    for Loaded {
        region,
        changes,
        replaced,
    } in regions
    {
        let (page, old) = site.file(lun).take_out((1, region));
        let dirty = Dirty {
            region,
            changes,
            end,
            page,
            old,
            replaced,
        };
        apply(site, cx, lun, cleaner.clean(dirty, &fragments.merged));
    }
    let rest = cleaner.supply;
    rest.put_back(&mut site.volume.fs, site.below, Purpose::Data);
}

/// Loads the level-1 blocks. A region is left out if all its changes are punches and it has no
/// level-1 block: there is nothing to punch.
fn load_blocks<'a>(
    site: &mut Site<'_>,
    cx: &mut LoadCx<'_>,
    gather: &mut Gather,
    lun: FileId,
    regions: Vec<(u64, &'a Region)>,
) -> Vec<Loaded<'a>> {
    let file = site.file(lun);
    let end = file.inode.block_count();
    let mut loaded = Vec::with_capacity(regions.len());
    for (region, changes) in regions {
        let pointer = match file.pointer(cx, 1, region) {
            // A damaged block on the way: whether it becomes lost is decided below.
            Err(Stop::Damaged(_) | Stop::Failed(_)) => Pointer::LOST,
            found => match gather.add(found) {
                Some(pointer) => pointer,
                None => continue,
            },
        };
        let has_data = within(region, changes, end).any(|(_, change)| change.is_block());
        if !has_data && pointer.is_hole() && file.peek(1, region).is_none() {
            continue;
        }
        if gather
            .add(file.modify(cx, 1, region, Content::Keep).map(|_| ()))
            .is_some()
        {
            loaded.push(Loaded {
                region,
                changes,
                replaced: Vec::new(),
            });
        }
    }
    let lost = std::mem::take(&mut file.lost);
    site.note_lost(lun, lost);
    loaded
}

/// Fragments that were not merged in time.
#[derive(Default)]
struct Fragments {
    /// Merged fragments replace their blocks: whole leaves.
    merged: HashMap<u64, PageRef>,
    /// Leaves of which the rest cannot be read.
    unreadable: Vec<Lost>,
}

/// Finds what the changes replace, and loads what fragments go over.
fn load_replaced(
    site: &mut Site<'_>,
    cx: &mut LoadCx<'_>,
    gather: &mut Gather,
    ready: &mut Ready<'_>,
) -> Result<(), Stop> {
    let Ready {
        lun,
        regions,
        fragments,
        ..
    } = ready;
    let lun = *lun;
    for Loaded {
        region,
        changes,
        replaced,
    } in regions
    {
        let file = site.file(lun);
        *replaced = blocks_replaced(file, *region, changes)?;
        for (leaf, change) in within(*region, changes, file.inode.block_count()) {
            let Change::Fragment(fragment) = change else {
                continue;
            };
            let pointer = match changes.punched_whole {
                true => Pointer::HOLE,
                false => file.leaf_pointer(leaf)?,
            };
            if pointer.is_hole() {
                let whole = fragment.over(&PageRef::zero());
                fragments.merged.insert(leaf, whole);
                continue;
            }
            match gather.add(cx.page_or_damage(pointer)) {
                Some(Ok(base)) => {
                    fragments.merged.insert(leaf, fragment.over(&base));
                }
                // The block is lost, so the content beside the fragment is unknown.
                Some(Err(reason)) if !pointer.is_lost() => fragments.unreadable.push(Lost {
                    level: 0,
                    index: leaf,
                    reason,
                }),
                _ => {}
            }
        }
    }
    Ok(())
}

/// The blocks that the changes of a region replace. Every slot that changes can be decoded.
fn blocks_replaced(file: &File, region: u64, changes: &Region) -> Result<Vec<Pointer>, Stop> {
    let mut pointers = Vec::new();
    if changes.punched_whole {
        let leaves = leaves_of(file, region)?;
        pointers.extend(leaves.into_iter().map(|(_, pointer)| pointer));
    } else {
        // Only these few of 255 leaves are checked.
        for (leaf, _) in within(region, changes, file.inode.block_count()) {
            pointers.push(file.leaf_pointer(leaf)?);
        }
    }
    pointers.retain(Pointer::has_block);
    Ok(pointers)
}

/// Makes it so: everything was ensured and prepared, so nothing stops.
fn apply(site: &mut Site<'_>, cx: &mut LoadCx<'_>, lun: FileId, cleaned: Cleaned) {
    let Cleaned {
        region,
        data,
        block,
        old,
        replaced,
    } = cleaned;
    let file = site.file(lun);
    file.inode.blocks += data.len() as u64;
    file.inode.blocks -= replaced.len() as u64;
    file.put_in((1, region), block.as_ref().map(|(pointer, _)| *pointer));
    site.aggregate
        .counts
        .count_blocks(CpBlock::Data, data.len());
    for (pointer, page) in &data {
        site.mark_used(*pointer);
        site.enter(*pointer, page.clone());
    }
    cx.keep_data(data);
    if let Some((pointer, page)) = block {
        site.mark_used(pointer);
        cx.replaced(old);
        site.record(cx, pointer, page);
    }
    for old in replaced {
        site.stage.let_go(old.vvbn);
    }
    if old.has_block() {
        site.stage.let_go(old.vvbn);
    }
}

#[cfg(test)]
mod tests;
