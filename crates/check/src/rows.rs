//! Parity groups: what a drive does not have, from the other columns of its stripe; and whether
//! parity goes with the data of each stripe that has a block in use.
//!
//! A power cut may leave parity half written. Then the RAID log says how it follows from the other
//! columns ([`everglade_format::raid_log`]), and the next start makes it right. Until then parity
//! is computed here from the log, and what the drives have as parity is not compared.

use std::collections::{BTreeMap, BTreeSet};

use everglade_env::{BLOCK_SIZE, Page, Storage};
use everglade_format::raid_log::RaidLogHeader;
use everglade_format::{Block, CpNumber, Geometry, Pvbn, Tag, TagKey};
use everglade_raid::{Code, Columns, Recovery};

use crate::labels::{Drive, Labels};

/// Stripes that are read in one go: 1 MiB of each drive.
const RUN_STRIPES: usize = 256;

/// A parity group.
pub(crate) struct Rows {
    code: Code,
    /// Members in the order of their columns.
    members: Vec<u32>,
    /// Their drives, where they are read.
    drives: Vec<Option<Drive>>,
    /// Stripes whose parity the RAID log has.
    halves: BTreeMap<u64, Half>,
}

/// A stripe that was being written.
struct Half {
    /// Data columns that stay.
    stays: u32,
    /// Parity with zeroes in the others; what no log has is absent.
    base: Vec<Option<Box<Block>>>,
}

/// The RAID log of a drive.
struct Log {
    drive: Drive,
    /// The parity column of the drive; none if it has data.
    parity: Option<usize>,
    blocks: std::ops::Range<u64>,
}

impl Half {
    /// Adds the blocks of the base, which are in this place of the logs.
    fn add_bases(
        &mut self,
        storage: &dyn Storage,
        logs: &[Log],
        place: u64,
        tags: &[Tag],
        key: &TagKey,
    ) {
        for log in logs {
            let at = log.blocks.start + place;
            if let Some(parity) = log.parity
                && log.blocks.contains(&at)
                && let Some(block) = read_block(storage, log.drive, at)
                && tags.get(parity) == Some(&key.tag(&block))
            {
                self.base[parity] = Some(block);
            }
        }
    }
}

/// A parity block that does not go with the data of its stripe, or cannot be read.
pub(crate) struct WrongParity {
    pub(crate) member: u32,
    pub(crate) stripe: u64,
}

impl Rows {
    /// Returns all parity groups.
    pub(crate) fn all(storage: &dyn Storage, labels: &Labels) -> Vec<Rows> {
        let config = &labels.config;
        let mut all: Vec<Rows> = Vec::new();
        for member in (0..).take(config.members.len()) {
            let Some(group) = config.parity_group_of(member) else {
                continue;
            };
            let members: Vec<u32> = group.all().collect();
            let code = Code::new(group.data.len(), group.parity.len());
            let (Some(code), None) = (code, all.iter().find(|it| it.members == members)) else {
                continue;
            };
            let drives = members.iter().map(|member| labels.drive_of(*member));
            let mut rows = Rows {
                code,
                drives: drives.collect(),
                members,
                halves: BTreeMap::new(),
            };
            let cp = labels.superblock.cp.next();
            let drives = rows.drives.clone();
            let logs = (0..).zip(drives).filter_map(|(column, drive)| {
                let drive = drive?;
                let first = config.raid_log_first(drive.member).0;
                let blocks = first..first + config.raid_log_blocks;
                Some(Log {
                    drive,
                    parity: usize::checked_sub(column, code.data()),
                    blocks,
                })
            });
            rows.read_logs(storage, &logs.collect::<Vec<_>>(), cp, &labels.key);
            all.push(rows);
        }
        all
    }

    /// Adds what the logs say of a consistency point. The first record of a drive is in the first
    /// block of its log, if it has one.
    fn read_logs(&mut self, storage: &dyn Storage, logs: &[Log], cp: CpNumber, key: &TagKey) {
        let (count, group) = (self.code.parity(), self.members[0]);
        // By block and lap: they are the same on all drives.
        let mut headers = BTreeMap::new();
        for log in logs {
            for at in log.blocks.clone() {
                // A block that cannot be read may have been a record.
                let Some(block) = read_block(storage, log.drive, at) else {
                    continue;
                };
                let header = RaidLogHeader::decode(&block, key, count).ok().flatten();
                let place = at - log.blocks.start;
                match header.filter(|it| it.cp == cp && it.member == group) {
                    Some(header) => _ = headers.insert((place, header.lap), header),
                    None if place == 0 => break,
                    None => {}
                }
            }
        }
        let of_first = headers.range((0, 0)..(1, 0)).next_back();
        let lap = of_first.map(|((_, lap), _)| *lap);
        headers.retain(|(_, its), _| lap.is_none_or(|lap| *its == lap));
        for ((place, _), header) in &headers {
            let mut bases = place + 1..;
            for entry in &header.entries {
                let base = match entry.stays {
                    0 => Some(Box::new([0; BLOCK_SIZE])),
                    _ => None,
                };
                for stripe in entry.stripe..entry.stripe.saturating_add(u64::from(entry.count)) {
                    let half = || Half {
                        stays: entry.stays,
                        base: vec![base.clone(); count],
                    };
                    self.halves.entry(stripe).or_insert_with(half);
                }
                if entry.stays != 0
                    && let (Some(place), Some(half)) =
                        (bases.next(), self.halves.get_mut(&entry.stripe))
                {
                    half.add_bases(storage, logs, place, &entry.tags, key);
                }
            }
        }
    }

    /// Returns the column of a member.
    pub(crate) fn column_of(&self, member: u32) -> Option<usize> {
        self.members.iter().position(|known| *known == member)
    }

    /// Reconstructs a block, if there is a content that `is_right`.
    pub(crate) fn reconstruct(
        &self,
        storage: &dyn Storage,
        (column, stripe): (usize, u64),
        is_right: impl Fn(&Block) -> bool,
    ) -> Option<Block> {
        let all = 0..self.code.columns();
        let lost: Columns = all
            .filter(|column| self.drives[*column].is_none())
            .collect();
        let mut recovery = Recovery::new(self.code, column, lost).ok()?;
        let parity = self.parity_by_log(storage, stripe);
        for column in recovery.wants().iter() {
            let by_log = column.checked_sub(self.code.data());
            let block = match (&parity, by_log) {
                (Some(parity), Some(at)) if parity[at].is_some() => parity[at].clone(),
                _ => self.drives[column].and_then(|drive| read_block(storage, drive, stripe)),
            };
            match block {
                Some(block) => recovery.arrived(column, Page::copy_of(&block).freeze()),
                None => recovery.lose(column).ok()?,
            }
        }
        let found = recovery.solve(is_right)?;
        Some(*found.page)
    }

    /// Returns the parity of a stripe that the RAID log has, as far as it has it.
    fn parity_by_log(&self, storage: &dyn Storage, stripe: u64) -> Option<Vec<Option<Box<Block>>>> {
        let half = self.halves.get(&stripe)?;
        let zeroes = || Box::new([0; BLOCK_SIZE]);
        let base = half.base.iter();
        let mut parity: Vec<Box<Block>> = base
            .map(|block| block.clone().unwrap_or_else(zeroes))
            .collect();
        for column in 0..self.code.data() {
            let drive = self.drives[column].filter(|_| half.stays >> column & 1 == 0);
            let block = drive.and_then(|drive| read_block(storage, drive, stripe));
            if let Some(block) = block {
                let mut blocks: Vec<&mut Block> =
                    parity.iter_mut().map(|block| &mut **block).collect();
                self.code.update(column, &block, &mut blocks);
            }
        }
        let known = parity.into_iter().zip(&half.base);
        Some(
            known
                .map(|(block, base)| base.is_some().then_some(block))
                .collect(),
        )
    }

    /// Compares the parity of stripes with their data; `wrong` hears of each parity block that
    /// differs. A stripe is left out if a data column is not read, or if the RAID log has it.
    fn verify(
        &self,
        storage: &dyn Storage,
        stripes: &BTreeSet<u64>,
        wrong: &mut impl FnMut(WrongParity),
    ) {
        let (data, parity) = self.drives.split_at(self.code.data());
        let data: Option<Vec<Drive>> = data.iter().copied().collect();
        let Some(data) = data else { return };
        let mut left = stripes
            .iter()
            .copied()
            .filter(|stripe| !self.halves.contains_key(stripe))
            .peekable();
        while let Some(first) = left.next() {
            let mut count = 1;
            while count < RUN_STRIPES && left.next_if_eq(&(first + count as u64)).is_some() {
                count += 1;
            }
            let read = |drive: Drive| read_run(storage, drive, first, count);
            let blocks: Vec<Vec<Option<Box<Block>>>> = data.iter().copied().map(read).collect();
            let found: Vec<_> = parity.iter().map(|drive| drive.map(read)).collect();
            for index in 0..count {
                let stripe: Option<Vec<&Block>> =
                    blocks.iter().map(|of| of[index].as_deref()).collect();
                // A block that cannot be read is reported where it is in use.
                let Some(stripe) = stripe else { continue };
                let mut expected = vec![Box::new([0; BLOCK_SIZE]); self.code.parity()];
                let mut out: Vec<&mut Block> =
                    expected.iter_mut().map(|block| &mut **block).collect();
                self.code.encode(&stripe, &mut out);
                for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let is_right = found
                        .as_ref()
                        .is_none_or(|found| found[index].as_ref() == Some(expected));
                    if !is_right {
                        wrong(WrongParity {
                            member: self.members[self.code.data() + at],
                            stripe: first + index as u64,
                        });
                    }
                }
            }
        }
    }
}

/// Compares the parity of all stripes that have one of these blocks, which are in use.
pub(crate) fn verify(
    storage: &dyn Storage,
    all: &[Rows],
    geometry: &Geometry,
    in_use: impl Iterator<Item = Pvbn>,
    mut wrong: impl FnMut(WrongParity),
) {
    if all.is_empty() {
        return;
    }
    let mut stripes: Vec<BTreeSet<u64>> = all.iter().map(|_| BTreeSet::new()).collect();
    for pvbn in in_use {
        let Some(place) = geometry.locate(pvbn) else {
            continue;
        };
        let group = all
            .iter()
            .position(|it| it.column_of(place.member).is_some());
        if let Some(group) = group {
            stripes[group].insert(place.dbn.0);
        }
    }
    for (rows, stripes) in all.iter().zip(&stripes) {
        rows.verify(storage, stripes, &mut wrong);
    }
}

fn read_block(storage: &dyn Storage, drive: Drive, block: u64) -> Option<Box<Block>> {
    let mut out = Box::new([0; BLOCK_SIZE]);
    let read = storage.read(drive.device, block * BLOCK_SIZE as u64, &mut *out);
    read.ok().map(|()| out)
}

/// Reads blocks, each alone if they cannot be read together.
fn read_run(
    storage: &dyn Storage,
    drive: Drive,
    first: u64,
    count: usize,
) -> Vec<Option<Box<Block>>> {
    let mut bytes = vec![0; count * BLOCK_SIZE];
    if storage
        .read(drive.device, first * BLOCK_SIZE as u64, &mut bytes)
        .is_err()
    {
        let blocks = (first..).take(count);
        return blocks.map(|at| read_block(storage, drive, at)).collect();
    }
    let (blocks, _) = bytes.as_chunks::<BLOCK_SIZE>();
    blocks.iter().map(|block| Some(Box::new(*block))).collect()
}
