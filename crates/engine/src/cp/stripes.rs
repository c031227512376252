//! Stripes: the blocks that a consistency point writes to parity groups, with their parity (L-02,
//! D-16, docs/design/design.md §7).
//!
//! ```text
//! all blocks have places and contents
//!   └▶ a wave of stripes: what stays in them is read ─▶ parity, bases ─▶ RAID log ─▶ data, parity
//!                                                         └▶ the next wave ─▶ …
//! ```
//!
//! While a wave is written, the header of the next one is written to the RAID log. Meanwhile the
//! wave after that is read and computed, and its bases are written.
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
//!    group has parity, and one more. Before that, each drive with a parity column has the base of
//!    this column. What they say suffices to make parity right after a cut, even if as many drives
//!    are lost with it as the group can spare ([`crate::mount::raid_log`]).
//!    If a drive was lost meanwhile, all other drives get a record that calls it behind before
//!    anything is written: it may come back without its part of the log (decision 0041, rule 9).
//!    A block that is written again, because a drive had it wrong, stays in this sense, too.
//! 4. When the log is full, all drives are flushed. Then a header without stripes begins the next
//!    *lap*, and the log is written behind it. It does not name the earlier stripes any more then.
//!    A drive that was lost in this consistency point lacks blocks of them, which are in their
//!    parity. By then it is called behind.
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
use crate::home::stripes::{Header, Log, Room, Wave};
use crate::media::Layout;
use crate::media::layout::{Across, Rows};
use crate::media::writer::Fresh;
use crate::read::load::{Gather, LoadCx, Stop};

/// A wave has at most so many stripes, and ends with the stripe in which so many blocks stay. These
/// blocks are in memory meanwhile: about 8 MiB.
const WAVE_STRIPES: usize = 1024;
const WAVE_KEPT: usize = 2048;

/// A stripe that is planned.
struct Draft {
    number: u64,
    /// Data columns that are not written: they stay, and are not to be written again.
    kept: Columns,
    /// Data columns whose contents are as the last consistency point uses them.
    stays: Columns,
}

/// A stripe that is written.
struct Stripe {
    draft: Draft,
    /// Contents of all columns: data, then parity.
    columns: Vec<PageRef>,
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
        let run = home.run.as_ref().expect("under way");
        let (stripes, has_more) = (&run.stripes, !run.writer.stripes.is_empty());
        if has_more && !stripes.is_planned && stripes.log.room == Room::Free {
            plan(home, cx)?;
        }
        let is_done = announce_losses(home)?;
        if !is_done {
            return Ok(false);
        }
        if !advance(home) {
            return Ok(true);
        }
    }
}

/// Everything that was submitted is done: submits what comes next. False if nothing does.
fn advance(home: &mut Home) -> bool {
    let layout = home.aggregate.media.layout();
    let media = &home.aggregate.media;
    let run = home.run.as_mut().expect("under way");
    let stripes = &mut run.stripes;
    let has_more = std::mem::take(&mut stripes.is_planned) || !run.writer.stripes.is_empty();
    let mut ops = Vec::new();
    stripes.writing = std::mem::take(&mut stripes.logged);
    if !stripes.writing.is_empty() {
        media.set_writing_stripes(false);
        media.set_writing_stripes(true);
        let waves = stripes.writing.iter();
        ops.extend(waves.flat_map(|wave| wave.writes(&layout)));
    }
    if let Some((wave, headers)) = stripes.based.take() {
        ops.extend(headers.iter().flat_map(|header| written(&layout, header)));
        stripes.logged.push(wave);
    }
    if ops.is_empty() {
        let log = &mut stripes.log;
        log.room = match log.room {
            Room::Full => {
                let flush = |device| Op::Flush { device };
                ops.extend(layout.written().map(flush));
                Room::Flushing
            }
            Room::Flushing => {
                log.lap += 1;
                let emptied = emptied(run.number, log, &layout, &home.aggregate.key);
                ops.extend(emptied.iter().flat_map(|header| written(&layout, header)));
                Room::Emptying
            }
            Room::Free | Room::Emptying => Room::Free,
        };
    }
    let is_under_way = has_more || !ops.is_empty();
    ops.into_iter().for_each(|op| run.writer.submit(op));
    is_under_way
}

/// Returns headers without stripes, for the first blocks of all logs.
fn emptied(cp: CpNumber, log: &mut Log, layout: &Layout, key: &TagKey) -> Vec<Header> {
    let groups = log.next.iter_mut();
    let header = |(group, next): (&usize, &mut u64)| {
        *next = 1;
        let header = RaidLogHeader {
            cp,
            member: layout.rows(*group).members[0],
            lap: log.lap,
            entries: Vec::new(),
        };
        Header {
            group: *group,
            at: 0,
            page: Page::copy_of(&header.encode(key)).freeze(),
        }
    };
    groups.map(header).collect()
}

/// Returns the writes of a header.
fn written(layout: &Layout, header: &Header) -> Vec<Op> {
    let write = |(member, device)| {
        let at = layout.config.raid_log_first(member).0 + header.at;
        Op::Write {
            device,
            offset: at * BLOCK_SIZE as u64,
            pages: vec![header.page.clone()],
            durable: true,
        }
    };
    let holders = holders(layout, layout.rows(header.group)).into_iter();
    holders.map(write).collect()
}

/// Computes the next wave, and writes its bases, while the ones before it are written. Says so if
/// the log has no room.
fn plan(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let layout = home.aggregate.media.layout();
    let run = home.run.as_ref().expect("under way");
    let stripes = &run.writer.stripes;
    let ((group, first), _) = stripes.first_key_value().expect("looked at by the caller");
    let (group, first) = (*group, *first);
    let rows = layout.rows(group);
    let next = run.stripes.log.next.get(&group).copied().unwrap_or(0);
    let room = usize::try_from(layout.config.raid_log_blocks - next).expect("small");
    let (drafts, is_full) = drafts(home, cx, &layout, (group, first), room)?;
    if drafts.is_empty() {
        assert!(is_full && next > 1, "a RAID log has room for a stripe");
        let run = home.run.as_mut().expect("under way");
        run.stripes.log.room = Room::Full;
        return Ok(());
    }
    // Everything is in memory before anything is computed.
    let mut gather = Gather::default();
    let mut contents = Vec::with_capacity(drafts.len());
    for draft in drafts {
        if let Some(data) = gather.add(data_of(home, cx, &layout, group, &draft)) {
            contents.push((draft, data));
        }
    }
    gather.finish()?;
    let contents = contents.into_iter();
    let wave: Vec<Stripe> = contents
        .map(|(draft, data)| Stripe::new(rows, draft, data))
        .collect();
    let key = &home.aggregate.key;
    let run = home.run.as_mut().expect("under way");
    let mut at = next;
    let mut headers = Vec::new();
    for (header, bases) in records(run.number, run.stripes.log.lap, rows, &wave, key) {
        for (column, bases) in bases.iter().enumerate() {
            let member = rows.members[rows.code.data() + column];
            let Some(device) = layout.full_drive(member) else {
                continue;
            };
            let first = layout.config.raid_log_first(member).0 + at + 1;
            let offset = first * BLOCK_SIZE as u64;
            run.writer.submit_copies(device, offset, bases.clone());
        }
        headers.push(Header {
            group,
            at,
            page: Page::copy_of(&header.encode(key)).freeze(),
        });
        at += 1 + header.base_blocks() as u64;
    }
    assert!(
        at - next <= room as u64,
        "the RAID log has room for the wave"
    );
    run.stripes.log.next.insert(group, at);
    let counts = &home.aggregate.media.stripes;
    for Stripe { draft, .. } in &wave {
        let written = run.writer.stripes.remove(&(group, draft.number));
        let written = written.expect("it was planned").len() as u64;
        let kept = draft.kept.count() as u64;
        let kind = match kept {
            0 => &counts.full,
            _ => &counts.partial,
        };
        kind.fetch_add(1, Ordering::Relaxed);
        counts.read.fetch_add(kept, Ordering::Relaxed);
        let filled = rows.code.data() as u64 - written - kept;
        counts.filled.fetch_add(filled, Ordering::Relaxed);
    }
    let has_bases = wave.iter().any(|stripe| !stripe.base.is_empty());
    let wave = Wave::new(group, rows, wave.into_iter().map(Stripe::into_columns));
    run.stripes.is_planned = true;
    if has_bases {
        run.stripes.based = Some((wave, headers));
    } else {
        let writes = headers.iter().flat_map(|header| written(&layout, header));
        writes.for_each(|op| run.writer.submit(op));
        run.stripes.logged.push(wave);
    }
    Ok(())
}

/// Returns the stripes of the next wave: those of a group from stripe `first` on. The log has room
/// for `room` blocks. The flag is true if the wave ends because the next stripe would need more.
fn drafts(
    home: &Home,
    cx: &mut LoadCx<'_>,
    layout: &Layout,
    (group, first): (usize, u64),
    room: usize,
) -> Result<(Vec<Draft>, bool), Stop> {
    let run = home.run.as_ref().expect("under way");
    let stripes = run.writer.stripes.range((group, first)..(group + 1, 0));
    let mut gather = Gather::default();
    let mut drafts: Vec<Draft> = Vec::new();
    let (mut kept, mut bases, mut entries) = (0, 0, 0_usize);
    for ((_, number), written) in stripes {
        if drafts.len() >= WAVE_STRIPES || kept >= WAVE_KEPT {
            break;
        }
        let at = Across {
            group,
            column: 0,
            stripe: *number,
        };
        let Some(draft) = gather.add(draft_of(home, cx, layout, at, written)) else {
            // It may be all that the wave has memory for.
            kept += layout.rows(group).code.data();
            continue;
        };
        entries += usize::from(!draft.follows(drafts.last()));
        bases += usize::from(!draft.stays.is_empty());
        if entries.div_ceil(ENTRIES_MAX) + bases > room {
            gather.finish()?;
            return Ok((drafts, true));
        }
        kept += draft.kept.count();
        drafts.push(draft);
    }
    gather.finish()?;
    Ok((drafts, false))
}

/// The drives in full use that get the log: as many as there is parity, and one more. Parity drives
/// come first.
fn holders(layout: &Layout, rows: &Rows) -> Vec<(u32, DeviceId)> {
    let members = rows.members.iter().rev().copied();
    let full = members.filter_map(|member| Some((member, layout.full_drive(member)?)));
    full.take(rows.code.parity() + 1).collect()
}

/// Returns the records of a wave. Each is a header, with the blocks of the bases for each parity
/// column.
fn records(
    cp: CpNumber,
    lap: u32,
    rows: &Rows,
    wave: &[Stripe],
    key: &TagKey,
) -> Vec<(RaidLogHeader, Vec<Vec<PageRef>>)> {
    let mut entries: Vec<RaidLogEntry> = Vec::new();
    let mut before = None;
    for stripe in wave {
        let draft = &stripe.draft;
        match entries.last_mut() {
            Some(last) if draft.follows(before) => last.count += 1,
            _ => entries.push(RaidLogEntry {
                stripe: draft.number,
                count: 1,
                stays: draft.stays.iter().map(|column| 1 << column).sum(),
                tags: stripe.base.iter().map(|page| key.tag(page)).collect(),
            }),
        }
        before = Some(draft);
    }
    let bases = wave.iter().map(|stripe| &stripe.base);
    let mut bases = bases.filter(|base| !base.is_empty());
    let record = |entries: &[RaidLogEntry]| {
        let header = RaidLogHeader {
            cp,
            member: rows.members[0],
            lap,
            entries: entries.to_vec(),
        };
        let of_record: Vec<&Vec<PageRef>> = bases.by_ref().take(header.base_blocks()).collect();
        let columns = 0..if of_record.is_empty() {
            0
        } else {
            rows.code.parity()
        };
        let of_column = |column: usize| {
            let blocks = of_record.iter().map(|base| base[column].clone());
            blocks.collect()
        };
        let by_column = columns.map(of_column).collect();
        (header, by_column)
    };
    entries.chunks(ENTRIES_MAX).map(record).collect()
}

/// Returns which columns of a stripe stay.
fn draft_of(
    home: &Home,
    cx: &mut LoadCx<'_>,
    layout: &Layout,
    at: Across,
    written: &BTreeMap<usize, Fresh>,
) -> Result<Draft, Stop> {
    let mut gather = Gather::default();
    let (mut stays, mut kept) = (Columns::NONE, Columns::NONE);
    for (column, pvbn) in layout.pvbns_of(at).enumerate() {
        let is_kept = match written.get(&column) {
            Some(fresh) if fresh.is_again => false,
            Some(_) => continue,
            None => match gather.add(is_held(&home.fs, cx, pvbn)) {
                Some(true) => true,
                Some(false) | None => continue,
            },
        };
        stays.insert(column);
        if is_kept {
            kept.insert(column);
        }
    }
    gather.finish()?;
    Ok(Draft {
        number: at.stripe,
        kept,
        stays,
    })
}

/// Returns the contents of all data columns of a stripe.
fn data_of(
    home: &Home,
    cx: &mut LoadCx<'_>,
    layout: &Layout,
    group: usize,
    draft: &Draft,
) -> Result<Vec<PageRef>, Stop> {
    let run = home.run.as_ref().expect("under way");
    let written = &run.writer.stripes[&(group, draft.number)];
    let at = Across {
        group,
        column: 0,
        stripe: draft.number,
    };
    let mut gather = Gather::default();
    let mut data = vec![PageRef::zero(); layout.rows(group).code.data()];
    for ((column, content), pvbn) in data.iter_mut().enumerate().zip(layout.pvbns_of(at)) {
        if let Some(fresh) = written.get(&column) {
            *content = fresh.page.clone();
        } else if draft.kept.has(column)
            && let Some(page) = gather.add(held(&home.fs, cx, pvbn))
        {
            *content = page;
        }
    }
    gather.finish()?;
    Ok(data)
}

/// Returns the content of a block that the last consistency point or this one uses; `None` if
/// neither does.
pub(super) fn staying(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    pvbn: Pvbn,
) -> Result<Option<PageRef>, Stop> {
    match is_held(fs, cx, pvbn)? {
        true => held(fs, cx, pvbn).map(Some),
        false => Ok(None),
    }
}

/// Returns the content of a block that the last consistency point or this one uses.
fn held(fs: &FileSystem, cx: &mut LoadCx<'_>, pvbn: Pvbn) -> Result<PageRef, Stop> {
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
            return Ok(page);
        }
    }
    // What a medium has lost cannot be kept. If a drive does not answer, this does not get here.
    Ok(cx.content(pvbn)?.unwrap_or_else(PageRef::zero))
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

impl Draft {
    /// True if nothing stays in it, nor in the stripe directly before it: both are one entry of the
    /// RAID log.
    fn follows(&self, before: Option<&Draft>) -> bool {
        let is_next = |before: &Draft| before.stays.is_empty() && before.number + 1 == self.number;
        self.stays.is_empty() && before.is_some_and(is_next)
    }
}

impl Stripe {
    /// Computes its parity.
    fn new(rows: &Rows, draft: Draft, mut data: Vec<PageRef>) -> Stripe {
        let stays = draft.stays;
        let parity = rows.parity_of(&data);
        let base = match stays.is_empty() {
            true => Vec::new(),
            false => {
                let only = |(column, page): (usize, &PageRef)| match stays.has(column) {
                    true => page.clone(),
                    false => PageRef::zero(),
                };
                let data: Vec<PageRef> = data.iter().enumerate().map(only).collect();
                rows.parity_of(&data)
            }
        };
        data.extend(parity);
        Stripe {
            draft,
            columns: data,
            base,
        }
    }

    /// Its number, with the columns that are written.
    fn into_columns(self) -> (u64, Vec<Option<PageRef>>) {
        let Draft { number, kept, .. } = self.draft;
        let columns = self.columns.into_iter().enumerate();
        let written = columns.map(|(column, page)| (!kept.has(column)).then_some(page));
        (number, written.collect())
    }
}
