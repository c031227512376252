//! The toy's memory and its log.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use everglade_env::{BLOCK_SIZE, DeviceId, Op, Outside, Page, PageRef};
use everglade_target::Error;

use super::Bug;
use super::record::{Kind, Record, check, check_of};
use crate::SimWorld;
use crate::world::SimOutside;

pub(super) const BLOCK: u64 = BLOCK_SIZE as u64;
const DEVICE: DeviceId = DeviceId(0);

/// Longest device operation, in blocks.
const PIECE: usize = 256;

/// Blocks at the end of the log that only deletions may use, because they always succeed.
const RESERVE: u64 = 1024;

/// Tokens of device flushes have this bit, those of record writes do not.
const FLUSH: u64 = 1 << 63;

/// Blocks that are not zero, of one LUN.
type Blocks = BTreeMap<u64, PageRef>;

pub(super) struct Lun {
    pub(super) size_bytes: u64,
    pub(super) blocks: Blocks,
}

/// A promised answer, sent once records are durable.
pub(super) struct Waiter {
    /// The promise is kept once all records with lower sequence numbers are durable.
    pub(super) below: u64,
    pub(super) reactor: usize,
    pub(super) token: u64,
    pub(super) is_admin: bool,
    /// Token of the device flush it waits for, once submitted.
    flush: Option<u64>,
}

pub(super) struct Core {
    pub(super) outsides: Vec<SimOutside>,
    pub(super) volumes: BTreeSet<String>,
    pub(super) luns: BTreeMap<String, Lun>,
    pub(super) bug: Option<Bug>,
    device_blocks: u64,
    tail: u64,
    number: u64,
    mount: u64,
    last_check: u64,
    /// Device writes under way, by record.
    outstanding: BTreeMap<u64, usize>,
    waiters: Vec<Waiter>,
    flushes: u64,
    /// A record could not be written, so the next mount would not find the records after it.
    pub(super) poisoned: bool,
}

impl Core {
    /// Reads the log of a world's device.
    pub(super) fn mount(world: &SimWorld, bug: Option<Bug>) -> Result<Core, String> {
        let storage = world.storage();
        let mut outsides: Vec<SimOutside> =
            (0..world.reactors()).map(|r| world.reactor(r)).collect();
        let mount = outsides[0].random();
        let mut core = Core {
            outsides,
            volumes: BTreeSet::new(),
            luns: BTreeMap::new(),
            bug,
            device_blocks: storage.size_bytes(DEVICE) / BLOCK,
            tail: 0,
            number: 0,
            mount,
            last_check: 0,
            outstanding: BTreeMap::new(),
            waiters: Vec::new(),
            flushes: 0,
            poisoned: false,
        };
        let mut block = vec![0; BLOCK_SIZE];
        while core.tail < core.device_blocks {
            storage
                .read(DEVICE, core.tail * BLOCK, &mut block)
                .map_err(|e| e.to_string())?;
            let Some(record) = Record::decode(&block) else {
                break;
            };
            let chained = record.before == core.last_check || bug == Some(Bug::NoChain);
            if record.number != core.number || !chained {
                break;
            }
            if record.payload_blocks > core.device_blocks - core.tail - 1 {
                break;
            }
            let bytes =
                usize::try_from(record.payload_blocks * BLOCK).map_err(|e| e.to_string())?;
            let mut payload = vec![0; bytes];
            storage
                .read(DEVICE, (core.tail + 1) * BLOCK, &mut payload)
                .map_err(|e| e.to_string())?;
            if check(&payload) != record.payload_check && bug != Some(Bug::NoPayloadCheck) {
                break;
            }
            let pages = payload.chunks(BLOCK_SIZE).map(page_of).collect::<Vec<_>>();
            core.perform(
                record.kind,
                &record.name,
                record.offset,
                record.length,
                &pages,
            );
            core.tail += 1 + record.payload_blocks;
            core.number += 1;
            core.last_check = check_of(&block);
        }
        Ok(core)
    }

    /// Applies a record in memory.
    pub(super) fn perform(
        &mut self,
        kind: Kind,
        name: &str,
        offset: u64,
        length: u64,
        pages: &[PageRef],
    ) {
        let inside = format!("{name}/");
        match kind {
            Kind::CreateVolume => drop(self.volumes.insert(name.to_owned())),
            Kind::DeleteVolume => {
                self.volumes.remove(name);
                self.luns.retain(|lun, _| !lun.starts_with(&inside));
            }
            Kind::CreateLun => {
                let lun = Lun {
                    size_bytes: length,
                    blocks: Blocks::new(),
                };
                self.luns.insert(name.to_owned(), lun);
            }
            Kind::DeleteLun => drop(self.luns.remove(name)),
            Kind::Grow => {
                if let Some(lun) = self.luns.get_mut(name) {
                    lun.size_bytes = length;
                }
            }
            Kind::Shrink => {
                if let Some(lun) = self.luns.get_mut(name) {
                    lun.size_bytes = length;
                    lun.blocks.retain(|block, _| *block < length / BLOCK);
                }
            }
            Kind::Write => self.store(name, offset, length, pages),
            Kind::Zeroes => self.zero(name, offset, length),
        }
    }

    fn store(&mut self, name: &str, offset: u64, length: u64, pages: &[PageRef]) {
        let Some(lun) = self.luns.get_mut(name) else {
            return;
        };
        for (index, part) in everglade_target::span::parts(offset, length_of(length)) {
            let block = offset / BLOCK + index as u64;
            let Some(new) = pages.get(index) else { return };
            let mut page = lun
                .blocks
                .get(&block)
                .map_or_else(Page::zeroed, |old| Page::copy_of(old));
            page[part.clone()].copy_from_slice(&new[part]);
            lun.blocks.insert(block, page.freeze());
        }
    }

    fn zero(&mut self, name: &str, offset: u64, length: u64) {
        let Some(lun) = self.luns.get_mut(name) else {
            return;
        };
        let end = offset + length;
        let touched: Vec<u64> = lun
            .blocks
            .range(offset / BLOCK..end.div_ceil(BLOCK))
            .map(|(&block, _)| block)
            .collect();
        for block in touched {
            let part = part_of(block, offset, end);
            let mut page = Page::copy_of(&lun.blocks[&block]);
            page[part].fill(0);
            lun.blocks.insert(block, page.freeze());
        }
    }

    /// Appends a record and applies it in memory.
    pub(super) fn log(
        &mut self,
        reactor: usize,
        kind: Kind,
        name: &str,
        (offset, length): (u64, u64),
        pages: Vec<PageRef>,
    ) -> Result<(), Error> {
        if self.poisoned {
            return Err(Error::Io("a record could not be written".to_owned()));
        }
        let blocks = 1 + pages.len() as u64;
        let is_deletion = matches!(kind, Kind::DeleteLun | Kind::DeleteVolume | Kind::Shrink);
        let reserve = if is_deletion { 0 } else { RESERVE };
        if blocks + reserve > self.device_blocks - self.tail {
            return Err(Error::NoSpace);
        }
        self.perform(kind, name, offset, length, &pages);
        let forgotten = kind == Kind::Grow && self.bug == Some(Bug::ForgetsGrowth);
        if forgotten {
            return Ok(());
        }
        let payload: Vec<u8> = pages.iter().flat_map(|page| page.iter().copied()).collect();
        let header = Record {
            number: self.number,
            mount: self.mount,
            before: self.last_check,
            kind,
            offset,
            length,
            payload_blocks: pages.len() as u64,
            payload_check: check(&payload),
            name: name.to_owned(),
        }
        .encode();
        self.last_check = check_of(&header[..]);
        let mut all = vec![header.freeze()];
        all.extend(pages);
        let mut place = self.tail;
        for piece in all.chunks(PIECE) {
            let (offset, pages) = (place * BLOCK, piece.to_vec());
            let op = Op::Write {
                device: DEVICE,
                offset,
                pages,
                durable: false,
            };
            self.outsides[reactor].submit(op, self.number);
            *self.outstanding.entry(self.number).or_default() += 1;
            place += piece.len() as u64;
        }
        self.tail = place;
        self.number += 1;
        Ok(())
    }

    /// Promises an answer once everything logged so far is durable.
    pub(super) fn wait(&mut self, reactor: usize, token: u64, is_admin: bool) {
        let below = self.number;
        self.waiters.push(Waiter {
            below,
            reactor,
            token,
            is_admin,
            flush: None,
        });
    }

    /// Takes in what devices completed on `reactor`, and returns the promises now kept, with the
    /// error for those that cannot be.
    pub(super) fn advance(&mut self, reactor: usize) -> Vec<(Waiter, Option<Error>)> {
        let mut done = Vec::new();
        self.outsides[reactor].poll(&mut done);
        let mut flushed = Vec::new();
        for completion in done {
            self.poisoned |= completion.result.is_err();
            if completion.token & FLUSH != 0 {
                flushed.push(completion.token);
            } else if let Some(pieces) = self.outstanding.get_mut(&completion.token) {
                *pieces -= 1;
                if *pieces == 0 {
                    self.outstanding.remove(&completion.token);
                }
            }
        }
        let first = self
            .outstanding
            .keys()
            .next()
            .copied()
            .unwrap_or(self.number);
        let (mut kept, mut waiting) = (Vec::new(), Vec::new());
        for mut waiter in std::mem::take(&mut self.waiters) {
            let written = waiter.below <= first || self.bug == Some(Bug::FlushTooEarly);
            let is_flushed = waiter.flush.is_some_and(|flush| flushed.contains(&flush));
            if self.poisoned {
                kept.push((waiter, Some(Error::Io("the log is broken".to_owned()))));
            } else if is_flushed || written && self.bug == Some(Bug::FlushWithoutFlush) {
                kept.push((waiter, None));
            } else {
                if written && waiter.flush.is_none() {
                    self.flushes += 1;
                    let token = FLUSH | self.flushes;
                    self.outsides[reactor].submit(Op::Flush { device: DEVICE }, token);
                    waiter.flush = Some(token);
                }
                waiting.push(waiter);
            }
        }
        self.waiters = waiting;
        kept
    }
}

/// The part of `block` inside the bytes `from..to`.
fn part_of(block: u64, from: u64, to: u64) -> Range<usize> {
    let (low, high) = (from.max(block * BLOCK), to.min((block + 1) * BLOCK));
    length_of(low - block * BLOCK) as usize..length_of(high - block * BLOCK) as usize
}

fn length_of(length: u64) -> u32 {
    u32::try_from(length).expect("one operation is at most 1 MiB")
}

fn page_of(bytes: &[u8]) -> PageRef {
    let mut page = Page::zeroed();
    page[..bytes.len()].copy_from_slice(bytes);
    page.freeze()
}
