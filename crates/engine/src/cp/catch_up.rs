//! Catching up: a drive that missed writes gets them (L-03, decision 0041).
//!
//! 1. Blocks are copied before the consistency point gives any block a new place. So the maps say
//!    what the last one uses, and none of these blocks is written by this one.
//! 2. A block is copied if a current drive has it right. If none has, the drive keeps what it has.
//! 3. The hosts of the other drives have space for areas that are in use or will be next. The drive
//!    asks its host for the same areas.
//! 4. A drive of a parity group gets its blocks of all stripes in which a block of any column is in
//!    use, also those that are not in use themselves: parity goes with what they have.
//! 5. The RAID log of a drive of a parity group is erased first: it may be that of another time.
//! 6. The drive is read only after a superblock names a record in which it is current
//!    ([`super::commit`]). An error of the drive, or a block of metadata that cannot be read, ends
//!    this, and nothing else.

use everglade_env::{BLOCK_SIZE, DeviceId, Op, PageRef};
use everglade_format::metafile::ACTIVE_MAP;
use everglade_format::{BITS_PER_BLOCK, Config, Extent, Pointer, Pvbn, Vvbn, bitmap};

use crate::alloc::tags::tag_of;
use crate::cp::stripes::{is_held, staying};
use crate::home::aggregate::Home;
use crate::home::catching_up::CatchUp;
use crate::home::sweep::Chunk;
use crate::media::Layout;
use crate::media::layout::Across;
use crate::media::pace::Job;
use crate::media::writer::Writer;
use crate::pool::aggregate::State;
use crate::read::load::{Gather, LoadCx, Stop};

/// Blocks in one device write: 1 MiB.
const CHUNK_BLOCKS: u64 = 256;

/// Copies some blocks, or begins with a drive that is there and behind.
pub(super) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let run = home.run.as_ref().expect("under way");
    let has_groups = home.aggregate.media.has_groups();
    // Clients do not wait for it.
    let is_online = home.aggregate.state() == State::Online;
    if !has_groups || !is_online || run.last {
        return Ok(());
    }
    let (number, media) = (run.number, &home.aggregate.media);
    let device = home.catching_up.device();
    if device.is_some_and(|device| !media.is_catching_up(device)) {
        home.catching_up.end();
    }
    // An area that the other drives' hosts are asked for now would be missing on this one.
    let is_asking = home.preparing.is_some() || home.host.wanted.is_some();
    if home.catching_up.device().is_none() && is_asking {
        return Ok(());
    }
    if home.catching_up.device().is_none() {
        let Some((member, device)) = media.returned() else {
            tell(home);
            return Ok(());
        };
        let layout = media.layout();
        let config = &layout.config;
        // One column stands for all of a parity group: their stripes have the same numbers.
        let first = config.parity_group_of(member).map(|group| group.data[0]);
        let is_its = |extent: &&Extent| match first {
            Some(first) => extent.member == first,
            None => config.copies_of(extent.member).contains(&member),
        };
        let extents = layout.config.extents.iter().filter(is_its);
        let stamp = (number, home.wall_seconds);
        home.catching_up = CatchUp::begin(device, extents.copied().collect(), stamp);
        media.begin_catching_up(device);
        if first.is_some() {
            let run = home.run.as_mut().expect("under way");
            erase_log(&mut run.writer, config, (member, device));
        }
    }
    let media = &home.aggregate.media;
    home.catching_up.begin_share(number, &media.pace, home.now);
    loop {
        let chunks = home.catching_up.next_chunks();
        let Some(device) = home.catching_up.device().filter(|_| !chunks.is_empty()) else {
            break;
        };
        home.aggregate.media.pace.set_busy(Job::CatchUp, true);
        let run = home.run.as_mut().expect("under way");
        run.writer.throttle(&home.aggregate.media)?;
        let mut gather = Gather::default();
        let contents = chunks.iter();
        let contents = contents.map(|chunk| gather.add(contents_of(home, cx, device, *chunk)));
        let contents: Vec<_> = contents.collect();
        gather.finish()?;
        for (chunk, contents) in chunks.into_iter().zip(contents.into_iter().flatten()) {
            let used = copy(home, device, chunk, contents);
            home.catching_up.advance(chunk, used);
        }
    }
    let pace = &home.aggregate.media.pace;
    home.catching_up.end_share(pace, home.now);
    tell(home);
    Ok(())
}

/// Ends catching up until the next start, and forgets what was to be rewritten: something that they
/// need cannot be read.
pub(super) fn give_up(home: &mut Home) {
    let media = &home.aggregate.media;
    if let Some(device) = home.catching_up.device() {
        media.lose(device);
        home.catching_up.end();
    }
    media.copies.forget_all();
    tell(home);
}

/// Tells how far the drive is, and that this consistency point copies no more.
fn tell(home: &Home) {
    home.aggregate.media.pace.set_busy(Job::CatchUp, false);
    let progress = home.catching_up.progress();
    home.aggregate.media.copies.set_catching_up(progress);
}

/// Queues writes of zeroes over the RAID log of a drive.
fn erase_log(writer: &mut Writer, config: &Config, (member, device): (u32, DeviceId)) {
    let (first, blocks) = (config.raid_log_first(member).0, config.raid_log_blocks);
    let mut next = 0;
    while next < blocks {
        let count = CHUNK_BLOCKS.min(blocks - next);
        let pages = (0..count).map(|_| PageRef::zero()).collect();
        writer.submit_copies(device, (first + next) * BLOCK_SIZE as u64, pages);
        next += count;
    }
}

/// Returns the blocks of a chunk that the drive gets, and the number of those that cannot be read.
fn contents_of(
    home: &Home,
    cx: &mut LoadCx<'_>,
    device: DeviceId,
    chunk: Chunk,
) -> Result<(Pages, u64), Stop> {
    let layout = home.aggregate.media.layout();
    match layout.across_first(chunk.first, chunk.count) {
        None => used(home, cx, chunk),
        Some(first) => Ok((column(home, cx, &layout, first, device, chunk)?, 0)),
    }
}

/// Queues the writes of a chunk's blocks. Returns the number of blocks.
fn copy(home: &mut Home, device: DeviceId, chunk: Chunk, (pages, not_copied): (Pages, u64)) -> u64 {
    if not_copied > 0 {
        let copies = &home.aggregate.media.copies;
        copies.count(device, |it| it.not_copied += not_copied);
    }
    let area = area_to_allocate(home, chunk);
    let run = home.run.as_mut().expect("under way");
    let bytes = |blocks: u64| blocks * BLOCK_SIZE as u64;
    if area {
        run.writer.submit(Op::Allocate {
            device,
            offset: bytes(chunk.dbn),
            length: bytes(home.fs.area_blocks),
        });
    }
    let count = pages.len() as u64;
    let mut pages = pages.into_iter().peekable();
    while let Some((first, page)) = pages.next() {
        let mut run_pages = vec![page];
        while let Some((_, next)) =
            pages.next_if(|(pvbn, _)| pvbn.0 == first.0 + run_pages.len() as u64)
        {
            run_pages.push(next);
        }
        run.writer.submit(Op::Write {
            device,
            offset: bytes(chunk.dbn + first.0 - chunk.first),
            pages: run_pages,
            durable: false,
        });
    }
    count
}

/// Returns the blocks of a column of a parity group, in those stripes of a chunk of the first
/// column in which a block is in use: by the numbers of the first column, with their contents.
fn column(
    home: &Home,
    cx: &mut LoadCx<'_>,
    layout: &Layout,
    first: Across,
    device: DeviceId,
    chunk: Chunk,
) -> Result<Pages, Stop> {
    let rows = layout.rows(first.group);
    let mut members = rows.members.iter();
    let own = members.position(|member| layout.own_written(*member) == Some(device));
    let own = own.expect("it catches up in this group");
    let data = rows.code.data();
    let (mut gather, mut pages) = (Gather::default(), Pages::new());
    for index in 0..chunk.count {
        let at = Across {
            stripe: first.stripe + index,
            ..first
        };
        let blocks: Vec<Pvbn> = layout.pvbns_of(at).collect();
        let mut is_used = false;
        for block in &blocks {
            is_used |= gather.add(is_held(&home.fs, cx, *block)) == Some(true);
        }
        if !is_used {
            continue;
        }
        let pvbn = Pvbn(chunk.first + index);
        if own < data {
            let page = gather.add(as_it_is(home, cx, blocks[own]));
            pages.extend(page.map(|page| (pvbn, page)));
            continue;
        }
        let all = blocks.iter();
        let all = all.map(|block| gather.add(as_it_is(home, cx, *block)));
        let all: Vec<Option<PageRef>> = all.collect();
        if let Some(all) = all.into_iter().collect::<Option<Vec<PageRef>>>() {
            let parity = rows.parity_of(&all);
            pages.push((pvbn, parity[own - data].clone()));
        }
    }
    gather.finish()?;
    Ok(pages)
}

/// Returns the content of a block, in use or not, that goes with the parity of its stripe.
fn as_it_is(home: &Home, cx: &mut LoadCx<'_>, pvbn: Pvbn) -> Result<PageRef, Stop> {
    match staying(&home.fs, cx, pvbn)? {
        Some(page) => Ok(page),
        None => Ok(cx.content(pvbn)?.unwrap_or_else(PageRef::zero)),
    }
}

/// Blocks with their contents.
type Pages = Vec<(Pvbn, PageRef)>;

/// Returns the used blocks of a chunk that can be read, with their contents, and the number of the
/// others.
fn used(home: &Home, cx: &mut LoadCx<'_>, chunk: Chunk) -> Result<(Pages, u64), Stop> {
    let fs = &home.fs;
    let map = &fs.files[&ACTIVE_MAP];
    let block = chunk.first / BITS_PER_BLOCK;
    if block >= map.inode.block_count() {
        return Ok((Vec::new(), 0));
    }
    let bits = map.leaf(cx, block)?.to_page();
    let first = chunk.first % BITS_PER_BLOCK;
    let in_use = (0..chunk.count).filter(|index| bitmap::is_set(&bits, first + index));
    let in_use = in_use.map(|index| Pvbn(chunk.first + index));
    let (mut gather, mut pages) = (Gather::default(), Vec::new());
    let mut not_copied = 0;
    for pvbn in in_use.filter(|pvbn| pvbn.0 > 0) {
        let Some(Some(tag)) = gather.add(tag_of(fs, cx, pvbn)) else {
            continue;
        };
        let pointer = Pointer {
            vvbn: Vvbn(0),
            pvbn,
            tag,
        };
        match gather.add(cx.data_or_damage(pointer)) {
            Some(Ok(page)) => pages.push((pvbn, page)),
            Some(Err(_)) => not_copied += 1,
            None => {}
        }
    }
    gather.finish()?;
    Ok((pages, not_copied))
}

/// True if an area begins with this chunk for which the other drives' hosts have given space, or
/// may have.
fn area_to_allocate(home: &Home, chunk: Chunk) -> bool {
    let area_blocks = home.fs.area_blocks;
    let index = home.fs.bases.partition_point(|base| *base <= chunk.first);
    let Some(extent) = index.checked_sub(1) else {
        return false;
    };
    let within = chunk.first - home.fs.bases[extent];
    let area = within / area_blocks;
    let columns = home.fs.columns_with(extent).into_iter();
    let mut columns = columns.map(|column| &home.fs.areas[column]);
    within.is_multiple_of(area_blocks)
        && columns.any(|areas| {
            area < areas.frontier() || areas.is_open(area) || areas.ready().any(|it| it == area)
        })
}
