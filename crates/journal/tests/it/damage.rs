//! Only records of this chain are accepted: leftovers, torn records, bad blocks and forged headers
//! are rejected.

use everglade_env::{BLOCK_SIZE, Page, PageRef};
use everglade_format::journal::Header;
use everglade_journal::{End, Position};
use proptest::prelude::*;

use crate::region::{EPOCH, Region, UUID, at, index, key, punch, small};

/// Four groups of 10 small writes each, in half 1.
fn four_groups() -> Region {
    let mut region = Region::new(64);
    let mut journal = region.journal(9, at(1, 100));
    for group in 0..4 {
        for number in 0..10 {
            journal.push(small(group * 10 + number));
        }
        region.log(&mut journal);
    }
    region
}

const FROM: Position = Position {
    generation: 1,
    sequence: 100,
};

#[test]
fn any_damaged_block_ends_the_prefix_before_its_record() {
    let good = four_groups();
    for record in 0..4u64 {
        for block in 0..11u64 {
            for flip in [0, 63 * 8, 4095] {
                let mut region = good.clone();
                let at = index(64 + record * 11 + block);
                let mut page = Page::copy_of(&region.blocks[at]);
                page[flip] ^= 0x10;
                region.blocks[at] = page.freeze();
                let (entries, outcome) = region.scan(FROM);
                assert_eq!(entries.len() as u64, record * 10, "block {at}");
                // A header without its magic looks like leftovers.
                let is_header = block == 0 && flip == 0;
                let reason = if is_header { End::Stale } else { End::Torn };
                assert_eq!(outcome.reason, reason, "block {at}, byte {flip}");
            }
        }
    }
}

#[test]
fn a_bad_block_costs_the_records_from_it_on_and_is_reported() {
    let good = four_groups();
    for bad in 64..64 + 44 {
        let mut region = good.clone();
        region.bad = vec![bad];
        let (entries, outcome) = region.scan(FROM);
        assert_eq!(entries.len(), (bad - 64) / 11 * 10, "block {bad}");
        assert_eq!(outcome.reason, End::Unreadable);
    }
}

#[test]
fn a_bad_block_behind_the_end_does_not_matter_to_what_is_found() {
    let mut region = four_groups();
    region.bad = vec![64 + 50];
    let (entries, outcome) = region.scan(FROM);
    assert_eq!((entries.len(), outcome.reason), (40, End::Clean));
}

#[test]
fn records_of_another_place_epoch_or_aggregate_are_strangers() {
    let region = four_groups();
    assert_eq!(region.scan(FROM).0.len(), 40);
    for from in [at(1, 99), at(1, 101), at(1, 110), at(3, 100), at(2, 100)] {
        let (entries, outcome) = region.scan(from);
        assert!(entries.is_empty(), "{from:?}");
        assert_eq!((outcome.end, outcome.reason), (from, End::Stale));
    }
    assert!(region.scan_as([8; 16], EPOCH, FROM).0.is_empty());
    assert!(region.scan_as(UUID, EPOCH - 1, FROM).0.is_empty());
    // An empty half 0 is valid: the generation before may have logged nothing.
    assert_eq!(region.scan(at(0, 100)).0.len(), 40);
}

#[test]
fn epochs_of_records_never_decrease_and_never_exceed_the_superblocks() {
    // A consistency point that changes the composition is committed between the two groups.
    let mut region = Region::new(64);
    let mut journal = region.journal(1, at(1, 1));
    journal.push(small(0));
    region.log(&mut journal);
    journal.set_epoch(EPOCH + 1);
    journal.push(small(1));
    region.log(&mut journal);
    let (entries, outcome) = region.scan_as(UUID, EPOCH + 1, at(1, 1));
    assert_eq!((entries.len(), outcome.reason), (2, End::Clean));
    // From a superblock of the former epoch on, the second record cannot be.
    let (entries, outcome) = region.scan_as(UUID, EPOCH, at(1, 1));
    assert_eq!((entries.len(), outcome.reason), (1, End::Stale));
    assert!(outcome.has_strangers);

    let mut region = Region::new(64);
    let mut journal = region.journal(1, at(1, 1));
    journal.push(small(0));
    region.log(&mut journal);
    let header = region.blocks[64].clone();
    let mut backwards = region.journal_of(1, EPOCH - 1, at(1, 1));
    backwards.push(small(0));
    region.log(&mut backwards);
    backwards.push(small(1));
    region.log(&mut backwards);
    region.blocks[64] = header;
    let (entries, _) = region.scan(at(1, 1));
    assert_eq!(entries.len(), 1, "the second record's epoch is lower");
}

#[test]
fn a_whole_header_that_does_not_continue_leaves_traces() {
    // The younger half of a torn group, whose older half never arrived, or another life's. The
    // simulation finds it when the mount that follows takes no notice (`StrangersIgnored`), but
    // once in many minutes only.
    let region = four_groups();
    for from in [at(1, 99), at(1, 101), at(0, 7)] {
        let (_, outcome) = region.scan(from);
        assert!(outcome.has_traces(), "{from:?}");
    }
    // No later mount begins at a generation before the superblock's.
    assert!(!region.scan(at(2, 100)).1.has_traces());
    assert!(!Region::new(64).scan(FROM).1.has_traces());
}

#[test]
fn leftovers_of_a_life_that_logged_the_same_sequences_are_not_continued() {
    // Life 1 logs groups A, B; a bad block hides A from the mount, so life 2 begins at the same
    // place. Of its own, shorter group only the first reaches the media. B continues A, but not
    // what stands there.
    let mut region = Region::new(64);
    let mut first = region.journal(1, at(1, 1));
    for number in 0..2 {
        first.push(small(number));
        region.log(&mut first);
    }
    let mut second = region.journal(2, at(1, 1));
    second.push(small(77));
    region.log(&mut second);
    let (entries, outcome) = region.scan(at(1, 1));
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].offset, 77 * BLOCK_SIZE as u64);
    assert_eq!(outcome.reason, End::Stale);
}

#[test]
fn a_torn_header_of_another_life_hides_nothing() {
    // A life is cut with a header on media and no payload. The next mount begins at the same place,
    // has nothing to log until its first freeze, and logs then. Found by
    // `what_is_durable_survives_every_cut`.
    let mut region = Region::new(64);
    let mut journal = region.journal(1, at(1, 1));
    journal.push(small(7));
    region.log(&mut journal);
    region.blocks[65] = PageRef::zero();
    let (entries, outcome) = region.scan(at(1, 1));
    assert!(entries.is_empty() && outcome.has_traces());
    let mut journal = region.journal(2, at(1, 1));
    journal.freeze();
    journal.push(small(8));
    region.log(&mut journal);
    let (entries, outcome) = region.scan(at(1, 1));
    assert_eq!((entries.len(), outcome.end), (1, at(2, 2)));
}

#[test]
fn older_generations_of_a_half_are_not_continued() {
    let mut region = Region::new(64);
    let mut journal = region.journal(1, at(1, 1));
    for generation in 0..9 {
        // Shorter and shorter, so that each leaves leftovers of the one before.
        for number in 0..20 - generation * 2 {
            journal.push(small(number));
            region.log(&mut journal);
        }
        let (entries, _) = region.scan(at(
            1 + generation,
            journal.last() + 1 - (20 - generation * 2),
        ));
        assert_eq!(entries.len() as u64, 20 - generation * 2);
        let position = journal.freeze();
        assert!(region.scan(position).0.is_empty(), "nothing was logged yet");
        journal.commit(position);
    }
}

#[test]
fn a_record_that_claims_more_than_its_half_is_not_read() {
    let mut region = four_groups();
    // The last block of half 1 gets the first header, resealed for that place: ten pages do not
    // follow.
    let key = key();
    let (header, _) = Header::decode(&region.blocks[64], &key).unwrap().unwrap();
    let last = region.blocks.len() - 1;
    let mut filler = region.journal(9, FROM);
    (0..62).for_each(|_| {
        filler.push(punch(0, 1));
        region.log(&mut filler);
    });
    let before = Header::decode(&region.blocks[last - 1], &key);
    assert!(matches!(before, Ok(None)), "62 records leave two blocks");
    filler.push(punch(0, 1));
    region.log(&mut filler);
    let (_, code) = Header::decode(&region.blocks[last - 1], &key)
        .unwrap()
        .unwrap();
    let forged = Header {
        first_sequence: filler.last() + 1,
        previous: code,
        ..header
    };
    let mut page = Page::zeroed();
    forged.encode_into(&mut page, &key);
    region.blocks[last] = page.freeze();
    let (entries, outcome) = region.scan(FROM);
    assert_eq!((entries.len(), outcome.reason), (63, End::Torn));
}

#[test]
fn a_record_of_the_same_life_that_names_another_before_it_is_a_stranger() {
    // No writer makes such a record; two mounts that drew the same number for their lives would.
    let mut region = four_groups();
    let (header, _) = Header::decode(&region.blocks[75], &key()).unwrap().unwrap();
    let mut page = Page::zeroed();
    let previous = header.previous ^ 1;
    Header { previous, ..header }.encode_into(&mut page, &key());
    region.blocks[75] = page.freeze();
    let (entries, outcome) = region.scan(FROM);
    assert_eq!((entries.len(), outcome.reason), (10, End::Stale));
}

#[test]
fn a_region_without_blocks_has_nothing_to_read() {
    let (entries, outcome) = Region::new(0).scan(FROM);
    assert!(entries.is_empty());
    assert_eq!(outcome.end, FROM);
}

proptest! {
    #[test]
    fn resealed_garbage_never_panics(
        damage in prop::collection::vec(
            (0..44usize, 8..BLOCK_SIZE - 8, any::<u8>(), any::<bool>()),
            1..30,
        ),
    ) {
        let key = key();
        let mut region = four_groups();
        for (block, offset, byte, is_early) in damage {
            // Headers more often than payload, and their fields more often than their codes.
            let block = 64 + if is_early { block / 11 * 11 } else { block };
            let offset = if is_early { 8 + offset % 160 } else { offset };
            let mut page = Page::copy_of(&region.blocks[block]);
            page[offset] = byte;
            page[BLOCK_SIZE - 8..].fill(0);
            let code = key.code(&page);
            page[BLOCK_SIZE - 8..].copy_from_slice(&code.to_le_bytes());
            region.blocks[block] = page.freeze();
        }
        for from in [FROM, at(0, 100), at(2, 100), at((1 << 63) - 1, (1 << 63) - 1)] {
            let (entries, outcome) = region.scan(from);
            prop_assert!(entries.len() <= 124 * 64);
            prop_assert!(outcome.end.sequence >= from.sequence);
        }
    }

    #[test]
    fn a_region_of_noise_holds_nothing(bytes in prop::collection::vec(any::<u8>(), 64)) {
        let mut region = Region::new(8);
        for block in &mut region.blocks {
            let mut page = Page::zeroed();
            for (at, byte) in page.iter_mut().enumerate() {
                *byte = bytes[at % 64];
            }
            *block = PageRef::clone(&page.freeze());
        }
        prop_assert!(region.scan(at(1, 1)).0.is_empty());
    }
}
