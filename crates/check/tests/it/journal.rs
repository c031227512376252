//! Journals in a sound image: unreplayed ones are counted and accepted, impossible ones are named.

use everglade_check::{Journal, Kind, Report};
use everglade_env::{DeviceId, Storage};
use everglade_format::config::{INCOMPATIBLE_CHANGED, JournalRegion};
use everglade_format::journal::{Header, Kind as Did, Operation};
use everglade_format::{BLOCK_SIZE, Dbn, FileId, Superblock};

use crate::image::{Changes, Image, UUID, build, key};
use crate::sound::report;

/// Behind the extent of member 1, up to the copy of its label.
pub(crate) const REGION: JournalRegion = JournalRegion {
    member: 1,
    first: Dbn(512),
    blocks: 201,
};
const HALF: u64 = 100;

fn image() -> Image {
    with_region(REGION)
}

fn with_region(region: JournalRegion) -> Image {
    with(region, 1)
}

/// An image of an epoch.
fn with(region: JournalRegion, epoch: u64) -> Image {
    build(Changes {
        config: Some(&|config| {
            config.journal = region;
            config.epoch = epoch;
            config.incompatible = u64::from(epoch > 1) * INCOMPATIBLE_CHANGED;
        }),
        superblock: Some(&|superblock: &mut Superblock| {
            superblock.epoch = epoch;
            (superblock.journal_generation, superblock.journal_sequence) = (6, 100);
        }),
        ..Changes::default()
    })
}

/// Writes records one after the other.
pub(crate) struct Writer<'i> {
    image: &'i Image,
    pub(crate) drives: Vec<u32>,
    pub(crate) header: Header,
    /// Block of the half.
    at: u64,
}

impl<'i> Writer<'i> {
    fn new(image: &'i Image) -> Self {
        Writer::on(image, &[REGION.member])
    }

    /// Writes to some drives, which have the region in the same place.
    pub(crate) fn on(image: &'i Image, drives: &[u32]) -> Self {
        let header = Header {
            uuid: UUID,
            epoch: 1,
            life: 77,
            generation: 6,
            first_sequence: 100,
            previous: 0,
            wall_nanos: 1,
            operations: Vec::new(),
            codes: Vec::new(),
        };
        Writer {
            image,
            drives: drives.to_vec(),
            header,
            at: 0,
        }
    }

    /// A record of `writes` writes of one block each.
    pub(crate) fn record(&mut self, writes: u64) -> &mut Self {
        let payload = [9; BLOCK_SIZE];
        self.header.operations = (0..writes)
            .map(|write| Operation {
                kind: Did::Write,
                volume: FileId(64),
                file: FileId(64),
                offset: write * BLOCK_SIZE as u64,
                length: BLOCK_SIZE as u64,
            })
            .collect();
        self.header.codes = vec![key().code(&payload); usize::try_from(writes).unwrap()];
        let mut block = [0; BLOCK_SIZE];
        let code = self.header.encode_into(&mut block, &key());
        let at = self.journal_dbn(self.at);
        put_on(self.image, &self.drives, at, &block);
        for index in 1..=writes {
            let at = self.journal_dbn(self.at + index);
            put_on(self.image, &self.drives, at, &payload);
        }
        self.at += self.header.blocks();
        self.header.previous = code;
        self.header.first_sequence += writes;
        self
    }

    pub(crate) fn next_generation(&mut self) -> &mut Self {
        self.header.generation += 1;
        self.at = 0;
        self
    }

    fn journal_dbn(&self, block: u64) -> u64 {
        self.header.generation % 2 * HALF + block
    }
}

fn put(image: &Image, block: u64, bytes: &[u8]) {
    put_on(image, &[REGION.member], block, bytes);
}

/// Writes a block of the region on some drives.
pub(crate) fn put_on(image: &Image, drives: &[u32], block: u64, bytes: &[u8]) {
    let offset = (REGION.first.0 + block) * BLOCK_SIZE as u64;
    for drive in drives {
        let written = image.memory.write(DeviceId(*drive), offset, bytes);
        written.unwrap();
    }
}

pub(crate) fn found(report: &Report) -> (u64, u64, u64, u64, u64) {
    let Journal {
        records,
        operations,
        record_blocks,
        generation,
        next_sequence,
        ..
    } = report.journal.expect("there is one");
    (
        records,
        operations,
        record_blocks,
        generation,
        next_sequence,
    )
}

#[track_caller]
fn expect(image: &Image, kind: Kind, part: &str) {
    let report = report(image);
    let all: Vec<_> = report.problems.iter().chain(&report.warnings).collect();
    assert_eq!(all.len(), 1, "{report}");
    assert_eq!(all[0].kind, kind, "{report}");
    assert_eq!(report.is_clean(), kind.is_warning());
    assert!(all[0].to_string().contains(part), "{report}");
}

#[test]
fn an_aggregate_without_a_journal_says_so() {
    let report = report(&crate::image::sound());
    assert_eq!(report.journal, None);
    assert!(report.to_json()["journal"].is_null());
}

#[test]
fn an_empty_journal_is_clean() {
    let report = report(&image());
    assert!(report.is_clean() && report.warnings.is_empty(), "{report}");
    assert_eq!(found(&report), (0, 0, 0, 6, 100));
    assert!(!report.to_string().contains("replay"), "{report}");
}

#[test]
fn an_unreplayed_journal_is_clean_and_counted() {
    let image = image();
    let mut writer = Writer::new(&image);
    writer.record(3).record(20).next_generation().record(2);
    let report = report(&image);
    assert!(report.is_clean() && report.warnings.is_empty(), "{report}");
    assert_eq!(found(&report), (3, 25, 28, 7, 125));
    let text = report.to_string();
    assert!(
        text.contains("journal: 25 operations in 3 records"),
        "{text}"
    );
    let json = report.to_json();
    assert_eq!(json["journal"]["operations"], 25);
    assert_eq!(json["journal"]["blocks"], 201);
}

#[test]
fn a_generation_that_logged_nothing_is_passed_over() {
    let image = image();
    Writer::new(&image).next_generation().record(5);
    assert_eq!(found(&report(&image)), (1, 5, 6, 7, 105));
}

#[test]
fn halves_full_to_the_last_block_are_clean() {
    let image = image();
    let mut writer = Writer::new(&image);
    writer.record(98).next_generation();
    writer.record(49).record(49);
    assert_eq!(found(&report(&image)), (3, 196, 199, 7, 296));
}

#[test]
fn leftovers_are_not_counted() {
    let image = image();
    let mut writer = Writer::new(&image);
    // Generation 4 of the same life, longer than what follows; then another life in generation 6.
    writer.header.generation = 4;
    writer.header.first_sequence = 40;
    writer.record(10).record(10).record(10);
    writer.header.generation = 6;
    writer.header.first_sequence = 100;
    writer.at = 0;
    writer.record(10);
    writer.header.life = 78;
    writer.record(10);
    let report = report(&image);
    assert!(report.is_clean() && report.warnings.is_empty(), "{report}");
    assert_eq!(found(&report), (1, 10, 11, 6, 110));
}

#[test]
fn what_a_power_cut_leaves_of_a_record_is_a_warning() {
    let image = image();
    let mut writer = Writer::new(&image);
    writer.record(3).record(3);
    put(&image, 6, &[0; BLOCK_SIZE]);
    expect(&image, Kind::JournalTorn, "payload");
    assert_eq!(found(&report(&image)).1, 3);
    let mut half_a_header = [0; BLOCK_SIZE];
    half_a_header[..8].copy_from_slice(b"EVGLJRNL");
    put(&image, 4, &half_a_header);
    expect(&image, Kind::JournalTorn, "whole header");
}

#[test]
fn a_block_that_cannot_be_read_is_a_problem_only_where_records_may_be() {
    let image = image();
    let mut writer = Writer::new(&image);
    writer.record(3).record(3);
    let bad = |block: u64| {
        let at = (REGION.first.0 + block) * BLOCK_SIZE as u64;
        *image.memory.bad.lock() = Some((1, at));
    };
    for block in [0, 2, 4, 7, 8] {
        bad(block);
        expect(&image, Kind::ReadError, "journal, byte");
    }
    bad(9);
    assert!(report(&image).is_clean());
}

#[test]
fn a_sealed_record_that_says_what_cannot_be_is_a_problem() {
    let image = image();
    let mut writer = Writer::new(&image);
    writer.record(3);
    // Ninety-six blocks are left; the payload would end in the other half.
    writer.record(96);
    expect(&image, Kind::JournalDamaged, "at most 96 blocks");

    let image = self::image();
    let mut writer = Writer::new(&image);
    writer.header.operations = vec![Operation {
        kind: Did::Punch,
        volume: FileId(64),
        file: FileId(2),
        offset: 0,
        length: 1,
    }];
    let mut block = [0; BLOCK_SIZE];
    writer.header.encode_into(&mut block, &key());
    put(&image, 0, &block);
    expect(&image, Kind::JournalDamaged, "from 64 on");
}

#[test]
fn records_of_a_consistency_point_nobody_knows_are_a_problem() {
    let image = image();
    let mut writer = Writer::new(&image);
    writer.header.generation = 8;
    writer.record(1);
    expect(&image, Kind::JournalAhead, "generation 8");

    let image = self::image();
    let mut writer = Writer::new(&image);
    writer.header.first_sequence = 103;
    writer.record(1);
    expect(&image, Kind::JournalAhead, "operation 103");
}

#[test]
fn a_region_that_does_not_exist_is_a_problem() {
    let of = |member, first, blocks| JournalRegion {
        member,
        first: Dbn(first),
        blocks,
    };
    for region in [
        of(2, 512, 200),
        of(1, 1000, 200),
        of(1, 512, 1),
        of(1, u64::MAX, 9),
    ] {
        let image = with_region(region);
        let report = report(&image);
        assert!(
            report.totals.contains_key(&Kind::JournalRegion),
            "{region:?}: {report}"
        );
        assert_eq!(report.journal, None);
    }
    let image = with_region(of(1, 500, 200));
    expect(&image, Kind::ExtentsCollide, "journal of member 1");
}

#[test]
fn a_journal_of_two_epochs_is_clean_and_counted() {
    let image = with(REGION, 3);
    let mut writer = Writer::new(&image);
    writer.header.epoch = 2;
    writer.record(3);
    writer.header.epoch = 3;
    writer.record(4).next_generation().record(5);
    let report = report(&image);
    assert!(report.is_clean() && report.warnings.is_empty(), "{report}");
    assert_eq!(found(&report), (3, 12, 15, 7, 112));
    // All records may be of epochs before.
    let image = with(REGION, 3);
    Writer::new(&image).record(3).next_generation().record(2);
    let report = self::report(&image);
    assert!(report.is_clean() && report.warnings.is_empty(), "{report}");
    assert_eq!(found(&report).1, 5);
}

#[test]
fn epochs_that_decrease_or_are_above_the_superblocks_are_problems() {
    let image = with(REGION, 3);
    let mut writer = Writer::new(&image);
    writer.header.epoch = 3;
    writer.record(3);
    writer.header.epoch = 2;
    writer.record(1);
    expect(
        &image,
        Kind::JournalDamaged,
        "a record of epoch 3 or later, found epoch 2",
    );
    assert_eq!(found(&report(&image)).1, 3, "the chain ends there");

    // A superblock of epoch 4 was lost.
    let image = with(REGION, 3);
    let mut writer = Writer::new(&image);
    writer.record(3);
    writer.header.epoch = 4;
    writer.record(1);
    expect(
        &image,
        Kind::JournalAhead,
        "a record of epoch 3 at most, found epoch 4",
    );
    assert_eq!(found(&report(&image)).1, 3, "the chain ends there");

    let image = with(REGION, 3);
    let mut writer = Writer::new(&image);
    writer.header.epoch = 4;
    writer.record(1);
    expect(&image, Kind::JournalAhead, "found epoch 4");
    assert_eq!(found(&report(&image)).1, 0);
}
