//! One copy of the journal: the records that continue the chain, and what is wrong with them.

use everglade_env::{DiskError, Storage};
use everglade_format::journal::{self, Header};
use everglade_format::{BLOCK_SIZE, Block};

use crate::findings::Findings;
use crate::labels::{Drive, Labels};
use crate::problem::{Kind, Object, ProblemPlace};
use crate::report::Journal;

/// The region in the config record, on one drive.
pub(super) struct Region<'a> {
    storage: &'a dyn Storage,
    drive: Drive,
    /// The drive is one of a group.
    has_copies: bool,
    /// Byte of its first block.
    offset: u64,
    half_blocks: u64,
}

/// The result of reading one copy.
pub(super) struct Scan {
    pub(super) drive: Drive,
    pub(super) found: Journal,
    /// Codes of the records, in order.
    pub(super) codes: Vec<u64>,
    pub(super) findings: Findings,
}

/// The records found so far.
struct Chain {
    found: Journal,
    codes: Vec<u64>,
    last: Option<Link>,
}

/// What the next record must continue.
struct Link {
    life: u64,
    code: u64,
    epoch: u64,
}

impl<'a> Region<'a> {
    /// The region, which must exist, on a drive that has it.
    pub(super) fn new(storage: &'a dyn Storage, labels: &Labels, drive: Drive) -> Region<'a> {
        let place = &labels.config.journal;
        Region {
            storage,
            drive,
            has_copies: labels.config.journal_members().len() > 1,
            offset: place.first.0 * BLOCK_SIZE as u64,
            half_blocks: place.blocks / 2,
        }
    }

    pub(super) fn scan(&self, labels: &Labels) -> Scan {
        let superblock = &labels.superblock;
        let mut findings = Findings::new();
        let mut chain = Chain {
            found: Journal {
                blocks: labels.config.journal.blocks,
                generation: superblock.journal_generation,
                next_sequence: superblock.journal_sequence,
                ..Journal::default()
            },
            codes: Vec::new(),
            last: None,
        };
        for half in 0..2 {
            let generation = superblock.journal_generation + half;
            self.follow(generation, labels, &mut chain, &mut findings);
            self.compare_first(generation, labels, &mut findings);
        }
        Scan {
            drive: self.drive,
            found: chain.found,
            codes: chain.codes,
            findings,
        }
    }
}

impl Region<'_> {
    /// Byte on the device of a block of the half of `generation`.
    fn byte(&self, generation: u64, block: u64) -> u64 {
        let block = generation % 2 * self.half_blocks + block;
        self.offset + block * BLOCK_SIZE as u64
    }

    fn read(&self, generation: u64, block: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.storage
            .read(self.drive.device, self.byte(generation, block), buffer)
    }

    /// The place of a block of the half of `generation`, for findings.
    fn place(&self, generation: u64, block: u64) -> ProblemPlace {
        ProblemPlace {
            member: self.has_copies.then_some(self.drive.member),
            ..ProblemPlace::at_offset(self.byte(generation, block))
        }
    }

    /// Takes the records of one generation that continue the chain.
    fn follow(&self, generation: u64, labels: &Labels, chain: &mut Chain, findings: &mut Findings) {
        let mut at = 0;
        while at < self.half_blocks {
            let next = self.record(generation, at, labels, chain, findings);
            let Some((header, code)) = next else {
                return;
            };
            at += header.blocks();
            let found = &mut chain.found;
            found.records += 1;
            found.operations += header.operations.len() as u64;
            found.record_blocks += header.blocks();
            found.generation = generation;
            found.next_sequence = header.next_sequence();
            chain.codes.push(code);
            chain.last = Some(Link {
                life: header.life,
                code,
                epoch: header.epoch,
            });
        }
    }

    /// The record at a block of a half, if it is whole and continues the chain.
    fn record(
        &self,
        generation: u64,
        at: u64,
        labels: &Labels,
        chain: &Chain,
        findings: &mut Findings,
    ) -> Option<(Header, u64)> {
        let object = Object::Journal;
        let place = self.place(generation, at);
        let mut block = [0; BLOCK_SIZE];
        if let Err(error) = self.read(generation, at, &mut block) {
            findings.add(Kind::ReadError, &object, place, "a readable block", error);
            return None;
        }
        if journal::has_magic(&block) && !journal::is_sealed(&block, &labels.key) {
            findings.add(
                Kind::JournalTorn,
                &object,
                place,
                "a whole header",
                "another code",
            );
            return None;
        }
        let (header, code) = match Header::decode(&block, &labels.key) {
            Ok(decoded) => decoded?,
            Err(damage) => {
                findings.damage(Kind::JournalDamaged, &object, place, &damage);
                return None;
            }
        };
        if !continues(&header, generation, labels, chain) {
            return None;
        }
        let newest = labels.superblock.epoch;
        if header.epoch > newest {
            // `compare_first` reports the first record of a half.
            if at > 0 {
                report_epoch(newest, header.epoch, place, findings);
            }
            return None;
        }
        let oldest = chain.last.as_ref().map_or(0, |last| last.epoch);
        if header.epoch < oldest {
            let expected = format_args!("a record of epoch {oldest} or later");
            let found = format_args!("epoch {}", header.epoch);
            findings.add(Kind::JournalDamaged, &object, place, expected, found);
            return None;
        }
        let room = self.half_blocks - at;
        if header.blocks() > room {
            let expected = format_args!("a record of at most {room} blocks");
            findings.add(
                Kind::JournalDamaged,
                &object,
                place,
                expected,
                header.blocks(),
            );
            return None;
        }
        self.has_payload(at, &header, labels, findings)
            .then_some((header, code))
    }

    /// True if the payload of the record at `at` is what its header says.
    fn has_payload(
        &self,
        at: u64,
        header: &Header,
        labels: &Labels,
        findings: &mut Findings,
    ) -> bool {
        if header.codes.is_empty() {
            return true;
        }
        let object = Object::Journal;
        let mut payload = vec![0; header.codes.len() * BLOCK_SIZE];
        let place = self.place(header.generation, at + 1);
        if let Err(error) = self.read(header.generation, at + 1, &mut payload) {
            findings.add(Kind::ReadError, &object, place, "a readable payload", error);
            return false;
        }
        let (blocks, _) = payload.as_chunks::<BLOCK_SIZE>();
        let codes = header.codes.iter().zip(blocks);
        let wrong = codes
            .zip(1..)
            .find(|((code, block), _)| **code != labels.key.code(block));
        if let Some(((code, block), index)) = wrong {
            let place = self.place(header.generation, at + index);
            let expected = format_args!("payload of code {code:016x}");
            let found = format_args!("{:016x}", labels.key.code(block));
            findings.add(Kind::JournalTorn, &object, place, expected, found);
        }
        wrong.is_none()
    }

    /// Compares what a half begins with, whatever it is, with what the superblock knows.
    fn compare_first(&self, generation: u64, labels: &Labels, findings: &mut Findings) {
        let mut block: Block = [0; BLOCK_SIZE];
        let read = self.read(generation, 0, &mut block);
        let decoded = Header::decode(&block, &labels.key);
        let (Ok(()), Ok(Some((header, _)))) = (read, decoded) else {
            return;
        };
        if header.uuid != labels.config.uuid {
            return;
        }
        let superblock = &labels.superblock;
        let (first, sequence) = (superblock.journal_generation, superblock.journal_sequence);
        let place = self.place(generation, 0);
        let (found, number) = (header.generation, header.first_sequence);
        if header.epoch > superblock.epoch {
            report_epoch(superblock.epoch, header.epoch, place, findings);
        } else if found > first + 1 {
            let expected = format_args!("a record of generation {} at most", first + 1);
            let found = format_args!("generation {found}");
            findings.add(Kind::JournalAhead, &Object::Journal, place, expected, found);
        } else if found == first && number != sequence {
            let expected = format_args!("generation {first} to begin with operation {sequence}");
            let found = format_args!("operation {number}");
            findings.add(Kind::JournalAhead, &Object::Journal, place, expected, found);
        }
    }
}

fn continues(header: &Header, generation: u64, labels: &Labels, chain: &Chain) -> bool {
    let is_next = chain
        .last
        .as_ref()
        .is_none_or(|last| (last.life, last.code) == (header.life, header.previous));
    header.uuid == labels.config.uuid
        && header.generation == generation
        && header.first_sequence == chain.found.next_sequence
        && is_next
}

/// Reports a record that was written after a newer superblock than there is.
fn report_epoch(newest: u64, found: u64, place: ProblemPlace, findings: &mut Findings) {
    let expected = format_args!("a record of epoch {newest} at most");
    let found = format_args!("epoch {found}");
    findings.add(Kind::JournalAhead, &Object::Journal, place, expected, found);
}
