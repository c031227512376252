//! Stripes: the blocks that a consistency point writes to parity groups, with their parity (L-02,
//! D-16, docs/design/design.md §7).
//!
//! ```text
//! all blocks have places and contents
//!   └▶ a wave of stripes: what stays in them is read ─▶ parity ─▶ RAID log ─▶ data and parity
//! ```
//!
//! The columns of a stripe that the consistency point does not write are of two kinds. Those with a
//! block that the last consistency point or this one uses *stay*: their contents are read. The
//! others are free, and get zeroes. So parity is always computed from all of the stripe, and what
//! an unused block had does not matter.
//!
//! 1. A stripe is written once in a consistency point, when all of its blocks are known.
//! 2. What stays is compared with its tag before it goes into parity, so an error of a drive does
//!    not become part of it. No pointer has the tags of blocks of the aggregate's own files that
//!    this consistency point has freed. Such a block goes into parity without a comparison.
//! 3. Before the first block of a stripe is written, the RAID log says so, on as many drives as the
//!    group has parity, and one more. What it says suffices to make parity right after a cut, even
//!    if a drive is lost with it ([`crate::mount::raid_log`]).
//!    A block that is written again, because a drive had it wrong, stays in this sense, too.
//! 4. When the log is full, all drives are flushed, and the log is written from its beginning
//!    again. It does not name the earlier stripes any more then. A drive that was lost in this
//!    consistency point lacks blocks of them, which are in their parity. So this drive must not be
//!    used after a cut: before the log is overwritten, all other drives get a record that calls it
//!    behind (decision 0041, rule 9).
//! 5. If more drives fail while a stripe is written than the group can spare, the aggregate becomes
//!    read-only, and what a missing drive has in this stripe cannot be read until the next start
//!    has made parity right.
//! 6. A drive that catches up is written like the others. It is not read.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use everglade_env::{BLOCK_SIZE, DeviceId, Op, Page, PageRef};
use everglade_format::metafile::ACTIVE_MAP;
use everglade_format::raid_log::{ENTRIES_MAX, RaidLogEntry, RaidLogHeader};
use everglade_format::{BITS_PER_BLOCK, CpNumber, Pointer, Pvbn, TagKey, Vvbn, bitmap};
use everglade_raid::Columns;

use crate::alloc::filesystem::FileSystem;
use crate::alloc::tags::recorded_tag;
use crate::cp::commit::announce_losses;
use crate::home::aggregate::Home;
use crate::home::stripes::{Stage, Wave};
use crate::media::Layout;
use crate::media::layout::{Across, Rows};
use crate::media::writer::{Fresh, RUN_BLOCKS};
use crate::read::load::{Gather, LoadCx, Stop};

/// Stripes of a wave, and those of them in which something stays, whose blocks are in memory then.
const WAVE_STRIPES: usize = 2048;
const WAVE_PARTIAL: usize = 256;

/// A stripe that is written.
struct Stripe {
    number: u64,
    /// Contents of all columns: data, then parity.
    columns: Vec<PageRef>,
    /// Data columns whose contents are as the last consistency point uses them.
    stays: Columns,
    /// Data columns that are not written: they stay, and are not to be written again.
    kept: Columns,
    /// Parity with zeroes in all data columns that do not stay; none if none stays.
    base: Vec<PageRef>,
}

/// Writes all stripes, wave by wave. Stops while something has to be waited for. True when all are
/// written; false if somebody else writes labels.
pub(super) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
    if !home.aggregate.media.has_parity() {
        return Ok(true);
    }
    loop {
        let run = home.run.as_mut().expect("under way");
        let media = &home.aggregate.media;
        match std::mem::take(&mut run.stripes.stage) {
            Stage::Idle if run.writer.stripes.is_empty() => return Ok(true),
            Stage::Idle => {
                run.writer.throttle(media)?;
                plan(home, cx)?;
            }
            Stage::Full => {
                run.stripes.stage = Stage::Full;
                run.writer.finish(media)?;
                if !announce_losses(home)? {
                    return Ok(false);
                }
                let run = home.run.as_mut().expect("under way");
                for device in home.aggregate.media.layout().written() {
                    run.writer.submit(Op::Flush { device });
                }
                run.stripes.stage = Stage::Emptying;
            }
            Stage::Emptying => {
                run.stripes.stage = Stage::Emptying;
                run.writer.finish(media)?;
                run.stripes.log_next.clear();
                run.stripes.stage = Stage::Idle;
            }
            Stage::Logging(wave) => {
                if let Err(stop) = run.writer.finish(media) {
                    run.stripes.stage = Stage::Logging(wave);
                    return Err(stop);
                }
                media.set_writing_stripes(true);
                for op in wave.writes(&media.layout()) {
                    run.writer.submit(op);
                }
                run.stripes.stage = Stage::Writing;
            }
            Stage::Writing => {
                run.stripes.stage = Stage::Writing;
                run.writer.finish(media)?;
                media.set_writing_stripes(false);
                run.stripes.stage = Stage::Idle;
            }
        }
    }
}

/// Computes the next wave, and logs it. Begins to empty the log if it has no room.
fn plan(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let layout = home.aggregate.media.layout();
    let run = home.run.as_ref().expect("under way");
    let stripes = &run.writer.stripes;
    let ((group, first), _) = stripes.first_key_value().expect("looked at by the caller");
    let (group, first) = (*group, *first);
    let rows = layout.rows(group);
    let log_blocks = layout.config.raid_log_blocks;
    let next = run.stripes.log_next.get(&group).copied().unwrap_or(0);
    let room = usize::try_from(log_blocks - next).expect("small");
    let mut gather = Gather::default();
    let mut wave: Vec<Stripe> = Vec::new();
    let mut partial = 0;
    let mut entries = Vec::new();
    let mut is_full = false;
    for ((_, number), written) in stripes.range((group, first)..(group + 1, 0)) {
        if wave.len() >= WAVE_STRIPES || partial >= WAVE_PARTIAL {
            break;
        }
        let at = Across {
            group,
            column: 0,
            stripe: *number,
        };
        let Some(stripe) = gather.add(stripe_of(home, cx, &layout, at, written)) else {
            partial += 1;
            continue;
        };
        // It may have joined an entry, which is undone likewise.
        add_entry(&mut entries, &stripe, &home.aggregate.key);
        if blocks_of(&entries) > room {
            remove_last(&mut entries);
            is_full = true;
            break;
        }
        partial += usize::from(!stripe.stays.is_empty());
        wave.push(stripe);
    }
    gather.finish()?;
    let run = home.run.as_mut().expect("under way");
    if wave.is_empty() {
        assert!(is_full && next > 0, "a RAID log has room for a stripe");
        run.stripes.stage = Stage::Full;
        return Ok(());
    }
    let taken = blocks_of(&entries);
    let cp = run.number;
    let pages = records(cp, rows.members[0], &entries, &wave, &home.aggregate.key);
    assert_eq!(pages.len(), taken, "blocks of the records");
    for (member, device) in holders(&layout, rows) {
        let first = (layout.config.raid_log_first(member).0 + next) * BLOCK_SIZE as u64;
        for (chunk, pages) in pages.chunks(RUN_BLOCKS).enumerate() {
            let offset = first + (chunk * RUN_BLOCKS * BLOCK_SIZE) as u64;
            run.writer.submit_copies(device, offset, pages.to_vec());
        }
    }
    run.stripes.log_next.insert(group, next + taken as u64);
    let counts = &home.aggregate.media.stripes;
    for stripe in &wave {
        let written = run.writer.stripes.remove(&(group, stripe.number));
        let written = written.expect("it was planned").len() as u64;
        let kept = stripe.kept.count() as u64;
        let kind = match kept {
            0 => &counts.full,
            _ => &counts.partial,
        };
        kind.fetch_add(1, Ordering::Relaxed);
        counts.read.fetch_add(kept, Ordering::Relaxed);
        let filled = rows.code.data() as u64 - written - kept;
        counts.filled.fetch_add(filled, Ordering::Relaxed);
    }
    run.stripes.stage = Stage::Logging(Wave::new(rows, wave.into_iter().map(Stripe::into_columns)));
    Ok(())
}

/// The drives in full use that get the log: as many as there is parity, and one more. Parity drives
/// come first.
fn holders(layout: &Layout, rows: &Rows) -> Vec<(u32, DeviceId)> {
    let members = rows.members.iter().rev().copied();
    let full = members.filter_map(|member| Some((member, layout.full_drive(member)?)));
    full.take(rows.code.parity() + 1).collect()
}

/// Blocks of the records with these entries.
fn blocks_of(entries: &[RaidLogEntry]) -> usize {
    let bases: usize = entries.iter().map(|entry| entry.tags.len()).sum();
    entries.len().div_ceil(ENTRIES_MAX) + bases
}

/// Adds a stripe to the entries; one in which nothing stays joins the last entry, if it follows.
fn add_entry(entries: &mut Vec<RaidLogEntry>, stripe: &Stripe, key: &TagKey) {
    if let Some(last) = entries.last_mut()
        && stripe.stays.is_empty()
        && last.stays == 0
        && last.stripe + u64::from(last.count) == stripe.number
    {
        last.count += 1;
        return;
    }
    entries.push(RaidLogEntry {
        stripe: stripe.number,
        count: 1,
        stays: stripe.stays.iter().map(|column| 1 << column).sum(),
        tags: stripe.base.iter().map(|page| key.tag(page)).collect(),
    });
}

/// Removes the last stripe from the entries.
fn remove_last(entries: &mut Vec<RaidLogEntry>) {
    match entries.last_mut() {
        Some(last) if last.count > 1 => last.count -= 1,
        _ => _ = entries.pop(),
    }
}

/// Returns the blocks of the records.
fn records(
    cp: CpNumber,
    member: u32,
    entries: &[RaidLogEntry],
    wave: &[Stripe],
    key: &TagKey,
) -> Vec<PageRef> {
    let mut bases = wave.iter().flat_map(|stripe| stripe.base.iter().cloned());
    let mut pages = Vec::new();
    for entries in entries.chunks(ENTRIES_MAX) {
        let header = RaidLogHeader {
            cp,
            member,
            entries: entries.to_vec(),
        };
        pages.push(Page::copy_of(&header.encode(key)).freeze());
        pages.extend(bases.by_ref().take(header.base_blocks()));
    }
    pages
}

/// Reads what stays in a stripe, and computes its parity.
fn stripe_of(
    home: &Home,
    cx: &mut LoadCx<'_>,
    layout: &Layout,
    at: Across,
    written: &BTreeMap<usize, Fresh>,
) -> Result<Stripe, Stop> {
    let rows = layout.rows(at.group);
    let code = rows.code;
    let mut gather = Gather::default();
    let mut columns = vec![PageRef::zero(); code.data()];
    let (mut stays, mut kept) = (Columns::NONE, Columns::NONE);
    let pvbns = layout.pvbns_of(at);
    for ((column, content), pvbn) in columns.iter_mut().enumerate().zip(pvbns) {
        if let Some(fresh) = written.get(&column) {
            *content = fresh.page.clone();
            if fresh.is_again {
                stays.insert(column);
            }
            continue;
        }
        if let Some(Some(page)) = gather.add(staying(&home.fs, cx, pvbn)) {
            stays.insert(column);
            kept.insert(column);
            *content = page;
        }
    }
    gather.finish()?;
    let parity = rows.parity_of(&columns);
    let base = match stays.is_empty() {
        true => Vec::new(),
        false => {
            let only = |(column, page): (usize, &PageRef)| match stays.has(column) {
                true => page.clone(),
                false => PageRef::zero(),
            };
            let data: Vec<PageRef> = columns.iter().enumerate().map(only).collect();
            rows.parity_of(&data)
        }
    };
    columns.extend(parity);
    Ok(Stripe {
        number: at.stripe,
        columns,
        stays,
        kept,
        base,
    })
}

/// Returns the content of a block that the last consistency point or this one uses; `None` if
/// neither does.
pub(super) fn staying(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    pvbn: Pvbn,
) -> Result<Option<PageRef>, Stop> {
    if !is_held(fs, cx, pvbn)? {
        return Ok(None);
    }
    let tag = match recorded_tag(fs, cx, pvbn) {
        Err(Stop::Damaged(_)) => None,
        tag => tag?,
    };
    if let Some(tag) = tag {
        let pointer = Pointer {
            vvbn: Vvbn(0),
            pvbn,
            tag,
        };
        if let Ok(page) = cx.data_or_damage(pointer)? {
            return Ok(Some(page));
        }
    }
    // What a medium has lost cannot be kept. If a drive does not answer, this does not get here.
    Ok(Some(cx.content(pvbn)?.unwrap_or_else(PageRef::zero)))
}

/// True if the last consistency point or this one uses a block.
pub(super) fn is_held(fs: &FileSystem, cx: &mut LoadCx<'_>, pvbn: Pvbn) -> Result<bool, Stop> {
    let (block, bit) = (pvbn.0 / BITS_PER_BLOCK, pvbn.0 % BITS_PER_BLOCK);
    if let Some(is_held) = fs.safe.is_held(pvbn.0) {
        return Ok(is_held);
    }
    let map = &fs.files[&ACTIVE_MAP];
    Ok(block < map.inode.block_count() && bitmap::is_set(map.leaf(cx, block)?.bytes(), bit))
}

impl Stripe {
    /// Its number, with the columns that are written.
    fn into_columns(self) -> (u64, Vec<Option<PageRef>>) {
        let columns = self.columns.into_iter().enumerate();
        let written = columns.map(|(column, page)| (!self.kept.has(column)).then_some(page));
        (self.number, written.collect())
    }
}
