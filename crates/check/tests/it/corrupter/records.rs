//! Journals with records that no power cut leaves, and with those that one does.

use everglade_check::Kind;
use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::journal::{Header, Kind as Did, Operation};
use everglade_format::{Block, FileId};
use everglade_testing::Rng;

use super::atlas::Atlas;
use super::{Damage, Way};

pub(super) const WAYS: &[Way] = &[
    ("journal-of-a-later-generation", later_generation),
    ("journal-of-another-sequence", another_sequence),
    ("journal-of-a-later-epoch", later_epoch),
    ("journal-operation-impossible", impossible),
    ("journal-record-too-long", too_long),
    ("journal-torn", torn),
    ("journal-header-torn", header_torn),
    ("journal-unreadable", unreadable),
];

/// The first block of the half of the superblock's generation, and of the other: device and byte.
fn half(atlas: &Atlas, generation: u64) -> Option<(DeviceId, u64)> {
    let region = atlas.config.journal;
    if region.blocks == 0 {
        return None;
    }
    let block = region.first.0 + generation % 2 * (region.blocks / 2);
    let device = atlas.devices[region.member as usize];
    Some((device, block * BLOCK_SIZE as u64))
}

fn header(atlas: &Atlas) -> Header {
    Header {
        uuid: atlas.config.uuid,
        epoch: atlas.config.epoch,
        life: 4711,
        generation: atlas.superblock.journal_generation,
        first_sequence: atlas.superblock.journal_sequence,
        previous: 0,
        wall_nanos: 0,
        operations: vec![Operation {
            kind: Did::Punch,
            volume: FileId(64),
            file: FileId(64),
            offset: 0,
            length: 4096,
        }],
        codes: Vec::new(),
    }
}

/// Puts a record's header where the chain of its generation begins.
fn put_header(atlas: &Atlas, kind: Kind, header: &Header) -> Option<Damage> {
    let (device, offset) = half(atlas, header.generation)?;
    let mut block: Block = [0; BLOCK_SIZE];
    header.encode_into(&mut block, &atlas.key);
    let words = ["journal".into(), format!("byte {offset}")];
    Some(Damage::new(kind, words).after(move |world| {
        world
            .storage()
            .write(device, offset, &block)
            .expect("no faults");
    }))
}

fn later_generation(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let mut header = header(atlas);
    header.generation += rng.between(2, 9);
    put_header(atlas, Kind::JournalAhead, &header)
}

fn another_sequence(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let mut header = header(atlas);
    header.first_sequence += rng.between(1, 9);
    put_header(atlas, Kind::JournalAhead, &header)
}

fn later_epoch(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let mut header = header(atlas);
    header.epoch += rng.between(1, 9);
    put_header(atlas, Kind::JournalAhead, &header)
}

fn impossible(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let mut header = header(atlas);
    let operation = &mut header.operations[0];
    match rng.below(4) {
        0 => operation.file = FileId(2),
        1 => operation.volume = FileId(0),
        2 => operation.length = 0,
        _ => operation.offset = u64::MAX,
    }
    put_header(atlas, Kind::JournalDamaged, &header)
}

/// A write of 257 blocks.
fn long(atlas: &Atlas) -> Header {
    let mut header = header(atlas);
    header.operations[0].kind = Did::Write;
    header.operations[0].offset = 1;
    header.operations[0].length = 1 << 20;
    header.codes = vec![1; 257];
    header
}

fn too_long(atlas: &Atlas, _: &mut Rng) -> Option<Damage> {
    // No half of these images has 258 blocks.
    put_header(atlas, Kind::JournalDamaged, &long(atlas))
}

fn torn(atlas: &Atlas, _: &mut Rng) -> Option<Damage> {
    let mut header = long(atlas);
    header.operations[0].length = 4096;
    header.codes = vec![1; 2];
    let mut damage = put_header(atlas, Kind::JournalTorn, &header)?;
    let (_, offset) = half(atlas, header.generation)?;
    // The first payload block is named.
    damage.words[1] = format!("byte {}", offset + BLOCK_SIZE as u64);
    Some(damage)
}

fn header_torn(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let header = header(atlas);
    let (device, offset) = half(atlas, header.generation)?;
    let mut block: Block = [0; BLOCK_SIZE];
    header.encode_into(&mut block, &atlas.key);
    // The magic arrived.
    block[512 * rng.index(8).max(1)..].fill(0x55);
    let words = ["journal".into(), format!("byte {offset}")];
    Some(Damage::new(Kind::JournalTorn, words).after(move |world| {
        world
            .storage()
            .write(device, offset, &block)
            .expect("no faults");
    }))
}

fn unreadable(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let generation = atlas.superblock.journal_generation + rng.below(2);
    let (device, offset) = half(atlas, generation)?;
    let words = ["journal".into(), format!("byte {offset}")];
    Some(Damage::new(Kind::ReadError, words).after(move |world| {
        world.fail_block(device, offset / BLOCK_SIZE as u64);
    }))
}
