//! Makes the parity of stripes right that a power cut left half written (docs/design/design.md §7).
//!
//! ```text
//! records of the consistency point after the superblock's ─▶ stripes ─▶ parity from the base and
//! from what the other columns have ─▶ flush ─▶ the records are erased
//! ```
//!
//! This happens when the aggregate is opened, before any of its blocks is reconstructed.
//!
//! 1. Columns that do not stay have nothing that the superblock's consistency point uses. Whatever
//!    a drive has there goes into parity. A column whose drive is missing counts as zeroes.
//! 2. A drive that is missing may have a newer superblock, whose blocks are not zeroes. So before
//!    parity is changed without it, all other drives get a record in which it is behind (decision
//!    0041, rule 9). From then on that superblock does not count.
//! 3. Records are erased when parity is on stable media, the first block of the log last: it says
//!    whether there are records. So after a cut in here everything is done again.
//! 4. A drive that fails here is lost, if it can be spared, and all of this begins anew without it.
//! 5. Records of the log are written from its first block on. No stripe is written before the first
//!    block is. So a drive without a record in the first block has none that is needed.
//! 6. A block of a log that cannot be read counts as one without a record: other drives have the
//!    same. If all of them have lost it, or if it is the block of a base, which one drive has, then
//!    parity of some stripes stays wrong until they are written or scrubbed. Nothing wrong is read
//!    because of that, as tags tell, and the aggregate starts.
//! 7. Such a block is not erased. If it is read again at a later start, before the next superblock,
//!    what it says is right then, too: no column that stays changes before that.

use std::collections::BTreeMap;

use everglade_env::{BLOCK_SIZE, DeviceId, DiskError, Storage};
use everglade_format::label::{CONFIG_OFFSETS, config_slot, label_offsets};
use everglade_format::raid_log::{RaidLogEntry, RaidLogHeader};
use everglade_format::{Block, CpNumber, Superblock, TagKey};

use crate::media::layout::Rows;
use crate::media::{Layout, Media};
use crate::mount::refusal::Refusal;

/// A stripe to make right: the columns that stay, and the base, by parity column. It is zeroes if
/// no column stays; a block is absent if no log has it.
struct Half {
    stays: u32,
    base: Vec<Option<Box<Block>>>,
}

impl Half {
    /// Of a group with so many parity columns.
    fn new(entry: &RaidLogEntry, parity: usize) -> Half {
        let base = match entry.stays {
            0 => Some(Box::new([0; BLOCK_SIZE])),
            _ => None,
        };
        Half {
            stays: entry.stays,
            base: vec![base; parity],
        }
    }
}

/// What the drives of a group have in their logs.
#[derive(Default)]
struct Found {
    /// By stripe.
    stripes: BTreeMap<u64, Half>,
    /// Blocks with headers of the consistency point, by drive and byte, the first ones of the logs
    /// last.
    headers: Vec<(DeviceId, u64)>,
}

/// Makes parity right. Returns the epoch of the highest record that the labels have then, if
/// `highest` was that before. Drives that fail are taken out of the layout.
///
/// # Errors
/// A drive that cannot be spared fails, or a log is of another build.
pub(crate) fn recover(
    storage: &dyn Storage,
    layout: &mut Layout,
    superblock: &Superblock,
    highest: u64,
) -> Result<u64, Refusal> {
    let mut reached = highest;
    loop {
        match recover_all(storage, layout, superblock, &mut reached) {
            Ok(()) => return Ok(reached),
            Err(Trouble::Refused(refusal)) => return Err(*refusal),
            Err(Trouble::Drive(device, error)) => match layout.without(device) {
                Some(next) => *layout = next,
                None => return Err(failed(storage, device, &error)),
            },
        }
    }
}

/// Looks whether the aggregate can be read without that: reads need parity only of drives that are
/// missing. Writes nothing.
///
/// # Errors
/// A drive is missing or fails, and parity is to be made right.
pub(crate) fn check(
    storage: &dyn Storage,
    layout: &Layout,
    superblock: &Superblock,
) -> Result<(), Refusal> {
    if !layout.has_losses() {
        return Ok(());
    }
    let key = TagKey::new(&layout.config.secret);
    for rows in staying_rows(layout) {
        match find(storage, layout, rows, superblock.cp.next(), &key) {
            Ok(found) if found.headers.is_empty() => {}
            Ok(_) => {
                return Err(Refusal::new(
                    "a drive is missing, and the last writes to the others were cut off",
                    "parity of all stripes, to read what the missing drive has",
                    "Attach the missing drive, or import the aggregate without --read-only, which \
                     writes to it. Nothing was changed",
                ));
            }
            Err(Trouble::Drive(device, error)) => return Err(failed(storage, device, &error)),
            Err(Trouble::Refused(refusal)) => return Err(*refusal),
        }
    }
    Ok(())
}

/// Why parity is not made right.
enum Trouble {
    /// A drive fails.
    Drive(DeviceId, DiskError),
    Refused(Box<Refusal>),
}

/// The rows of groups that were not removed.
fn staying_rows(layout: &Layout) -> impl Iterator<Item = &Rows> {
    let all = layout.all_rows().iter();
    all.filter(|rows| !layout.config.is_removed(rows.members[0]))
}

fn recover_all(
    storage: &dyn Storage,
    layout: &Layout,
    superblock: &Superblock,
    reached: &mut u64,
) -> Result<(), Trouble> {
    let key = TagKey::new(&layout.config.secret);
    let mut is_announced = false;
    for rows in staying_rows(layout) {
        let cp = superblock.cp.next();
        let found = find(storage, layout, rows, cp, &key)?;
        if found.headers.is_empty() {
            continue;
        }
        if layout.has_losses() && !is_announced {
            *reached = announce(storage, layout, *reached)?;
            is_announced = true;
        }
        for (stripe, half) in &found.stripes {
            // An expansion that was cut may have written behind all extents.
            if !layout.has_stripe(rows, *stripe) {
                continue;
            }
            mend(storage, layout, rows, *stripe, half)?;
        }
        flush(storage, layout, rows)?;
        erase(storage, layout, rows, &found.headers)?;
    }
    Ok(())
}

/// Reads the logs of a group.
fn find(
    storage: &dyn Storage,
    layout: &Layout,
    rows: &Rows,
    cp: CpNumber,
    key: &TagKey,
) -> Result<Found, Trouble> {
    let count = rows.code.parity();
    let mut found = Found::default();
    let mut firsts = Vec::new();
    // By block and lap: they are the same on all drives.
    let mut headers = BTreeMap::new();
    let mut logs = Vec::new();
    for (column, member) in rows.members.iter().enumerate() {
        let Some(device) = layout.full_drive(*member) else {
            continue;
        };
        let first = layout.config.raid_log_first(*member).0 * BLOCK_SIZE as u64;
        let blocks = layout.config.raid_log_blocks;
        let log = Log {
            storage,
            device,
            first,
            blocks,
        };
        let decode = |block: &Block| {
            let header = RaidLogHeader::decode(block, key, count).map_err(Fault::Damage)?;
            Ok(header.filter(|it| it.cp == cp && it.member == rows.members[0]))
        };
        let read = log.headers(decode).map_err(|fault| fault.of(&log))?;
        for (at, header) in read {
            match at {
                0 => firsts.push((device, first)),
                _ => found.headers.push((device, log.offset(at))),
            }
            headers.insert((at, header.lap), header);
        }
        logs.push((column.checked_sub(rows.code.data()), log));
    }
    found.headers.extend(firsts);
    let of_first = headers.range((0, 0)..(1, 0)).next_back();
    let lap = of_first.map(|((_, lap), _)| *lap);
    // The first blocks of all logs may be unreadable.
    headers.retain(|(_, its), _| lap.is_none_or(|lap| *its == lap));
    for entry in headers.values().flat_map(|header| &header.entries) {
        let end = entry.stripe.saturating_add(u64::from(entry.count));
        for stripe in entry.stripe..end {
            found.stripes.insert(stripe, Half::new(entry, count));
        }
    }
    for (parity, log) in &logs {
        let Some(parity) = *parity else { continue };
        for ((at, _), header) in &headers {
            let added = log.add_bases(at + 1, header, parity, key, &mut found.stripes);
            added.map_err(|fault| fault.of(log))?;
        }
    }
    Ok(found)
}

/// Why a log is not read.
enum Fault {
    /// The drive does not answer any more.
    Gone,
    Damage(everglade_format::Damage),
}

impl Fault {
    fn of(self, log: &Log<'_>) -> Trouble {
        match self {
            Fault::Gone => Trouble::Drive(log.device, DiskError::Gone),
            Fault::Damage(damage) => Trouble::Refused(Box::new(Refusal::new(
                format!("device {}: {damage}", log.storage.name(log.device)),
                "a RAID log that makes sense",
                "It was written by another build: use that one. Nothing was changed",
            ))),
        }
    }
}

/// The log of one drive.
struct Log<'a> {
    storage: &'a dyn Storage,
    device: DeviceId,
    /// Its first byte.
    first: u64,
    blocks: u64,
}

impl Log<'_> {
    /// Returns the headers that `decode` knows, with their blocks. There are none if the first
    /// block has none.
    fn headers(
        &self,
        decode: impl Fn(&Block) -> Result<Option<RaidLogHeader>, Fault>,
    ) -> Result<Vec<(u64, RaidLogHeader)>, Fault> {
        let mut headers = Vec::new();
        for at in 0..self.blocks {
            let Some(block) = self.block(at)? else {
                continue;
            };
            match decode(&block)? {
                Some(header) => headers.push((at, header)),
                None if at == 0 => break,
                None => {}
            }
        }
        Ok(headers)
    }

    /// Adds the blocks of bases from `first` on: those of a parity column.
    fn add_bases(
        &self,
        first: u64,
        header: &RaidLogHeader,
        parity: usize,
        key: &TagKey,
        stripes: &mut BTreeMap<u64, Half>,
    ) -> Result<(), Fault> {
        let with_base = header.entries.iter().filter(|entry| entry.stays != 0);
        for (at, entry) in (first..self.blocks).zip(with_base) {
            if let Some(block) = self.block(at)?
                && entry.tags.get(parity) == Some(&key.tag(&block))
                && let Some(half) = stripes.get_mut(&entry.stripe)
            {
                half.base[parity] = Some(block);
            }
        }
        Ok(())
    }

    fn offset(&self, at: u64) -> u64 {
        self.first + at * BLOCK_SIZE as u64
    }

    /// Reads a block; `None` if the medium has lost it.
    fn block(&self, at: u64) -> Result<Option<Box<Block>>, Fault> {
        let mut block = Box::new([0; BLOCK_SIZE]);
        match self.storage.read(self.device, self.offset(at), &mut *block) {
            Ok(()) => Ok(Some(block)),
            Err(DiskError::Gone) => Err(Fault::Gone),
            Err(_) => Ok(None),
        }
    }
}

/// Makes the parity of a stripe right.
fn mend(
    storage: &dyn Storage,
    layout: &Layout,
    rows: &Rows,
    stripe: u64,
    half: &Half,
) -> Result<(), Trouble> {
    let code = rows.code;
    let offset = stripe * BLOCK_SIZE as u64;
    // What no log has is computed like the others, and not written.
    let base = half.base.iter();
    let mut parity: Vec<Box<Block>> = base
        .map(|block| block.clone().unwrap_or_else(|| Box::new([0; BLOCK_SIZE])))
        .collect();
    let (data, with_parity) = rows.members.split_at(code.data());
    for (column, member) in data.iter().enumerate() {
        let is_missing = layout.full_drive(*member);
        let (0, Some(device)) = (half.stays >> column & 1, is_missing) else {
            continue;
        };
        let mut block = Box::new([0; BLOCK_SIZE]);
        if storage.read(device, offset, &mut *block).is_err() {
            // Nothing that is used is here.
            block.fill(0);
            let written = storage.write(device, offset, &*block);
            written.map_err(|error| Trouble::Drive(device, error))?;
        }
        let mut blocks: Vec<&mut Block> = parity.iter_mut().map(|block| &mut **block).collect();
        code.update(column, &block, &mut blocks);
    }
    for ((member, block), base) in with_parity.iter().zip(&parity).zip(&half.base) {
        if let Some(device) = layout.full_drive(*member)
            && base.is_some()
        {
            let written = storage.write(device, offset, &**block);
            written.map_err(|error| Trouble::Drive(device, error))?;
        }
    }
    Ok(())
}

/// Erases the headers, those at the beginning of a log after all others.
fn erase(
    storage: &dyn Storage,
    layout: &Layout,
    rows: &Rows,
    headers: &[(DeviceId, u64)],
) -> Result<(), Trouble> {
    let is_first = |(device, offset): &&(DeviceId, u64)| {
        let mut members = rows.members.iter();
        members.any(|member| {
            let first = layout.config.raid_log_first(*member).0 * BLOCK_SIZE as u64;
            layout.full_drive(*member) == Some(*device) && first == *offset
        })
    };
    let (first, others): (Vec<_>, Vec<_>) = headers.iter().partition(is_first);
    for headers in [others, first] {
        for (device, offset) in headers.iter().copied() {
            let written = storage.write(device, offset, &[0; BLOCK_SIZE]);
            written.map_err(|error| Trouble::Drive(device, error))?;
        }
        flush(storage, layout, rows)?;
    }
    Ok(())
}

fn flush(storage: &dyn Storage, layout: &Layout, rows: &Rows) -> Result<(), Trouble> {
    for device in rows.members.iter().filter_map(|it| layout.full_drive(*it)) {
        let flushed = storage.flush(device);
        flushed.map_err(|error| Trouble::Drive(device, error))?;
    }
    Ok(())
}

/// Writes a record to all drives in use in which the missing ones are behind: first to all front
/// labels, then to the others. Returns its epoch.
fn announce(storage: &dyn Storage, layout: &Layout, highest: u64) -> Result<u64, Trouble> {
    let media = Media::new(layout.clone()).after_change(highest);
    let Some(recorded) = media.unrecorded() else {
        return Ok(highest);
    };
    let slot = CONFIG_OFFSETS[config_slot(recorded.config.epoch)];
    for copy in 0..2 {
        for (index, member, device) in recorded.members() {
            let label = label_offsets(member.size_blocks * BLOCK_SIZE as u64)[copy];
            let record = recorded.record_of(index).encode();
            let written = storage.write(device, label + slot, &record);
            let written = written.and_then(|()| storage.flush(device));
            written.map_err(|error| Trouble::Drive(device, error))?;
        }
    }
    Ok(recorded.config.epoch)
}

fn failed(storage: &dyn Storage, device: DeviceId, error: &DiskError) -> Refusal {
    Refusal::new(
        format!(
            "parity was not made right after a crash: device {}: {error}",
            storage.name(device)
        ),
        "drives that can be written, of all groups",
        "Take that device away, if the others suffice; else repair it, then start again",
    )
}
