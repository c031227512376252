//! The capacity of halves and groups.

use everglade_journal::{Entry, Journal};

use crate::region::{Region, at, key, punch, small, write};

const MIB: u64 = 1 << 20;

fn push_all(journal: &mut Journal, entries: impl Iterator<Item = Entry>) {
    entries.for_each(|entry| {
        journal.push(entry);
    });
}

#[test]
fn a_new_journal_holds_nothing_and_has_everything_durable() {
    let mut journal = Region::new(100).journal(1, at(5, 50));
    assert_eq!((journal.last(), journal.durable()), (49, 49));
    assert_eq!((journal.unlogged_blocks(), journal.used_blocks()), (0, 0));
    assert_eq!(journal.half_blocks(), 100);
    assert!(!journal.is_stuck() && !journal.is_busy());
    assert!(journal.begin().is_none());
}

#[test]
fn one_group_is_in_flight_and_its_end_makes_it_durable() {
    let mut journal = Region::new(100).journal(1, at(1, 1));
    push_all(&mut journal, (0..3).map(small));
    assert_eq!(journal.unlogged_blocks(), 3);
    let group = journal.begin().unwrap();
    assert_eq!((journal.unlogged_blocks(), journal.used_blocks()), (0, 4));
    push_all(&mut journal, (0..2).map(small));
    assert!(journal.is_busy() && journal.begin().is_none());
    assert_eq!(journal.durable(), 0, "nothing was written yet");
    let (_, finished) = group.encode(&key(), 1);
    journal.end(finished);
    assert_eq!((journal.durable(), journal.last()), (3, 5));
    assert_eq!(journal.begin().unwrap().last(), 5);
}

#[test]
fn writes_are_at_most_a_mebibyte_and_groups_at_most_four() {
    let mut journal = Region::new(4000).journal(1, at(1, 1));
    push_all(&mut journal, (0..2000).map(small));
    let group = journal.begin().unwrap();
    let blocks = group.blocks();
    assert!((1024..1050).contains(&blocks), "{blocks}");
    let (writes, finished) = group.encode(&key(), 1);
    let lengths: Vec<usize> = writes.iter().map(|write| write.pages.len()).collect();
    assert_eq!(lengths[..4], [256; 4]);
    assert!(
        writes.windows(2).all(|two| two[0].end() == two[1].block),
        "adjacent"
    );
    assert_eq!(writes.iter().map(|w| w.bytes()).sum::<u64>(), blocks * 4096);
    assert_eq!(finished.last(), 1024);
}

#[test]
fn the_largest_unaligned_write_is_a_record_of_257_pages() {
    let mut region = Region::new(258);
    let mut journal = region.journal(1, at(1, 1));
    journal.push(write(1, 4095, MIB));
    assert_eq!(journal.unlogged_blocks(), 257);
    region.log(&mut journal);
    assert_eq!((journal.durable(), journal.used_blocks()), (1, 258));
    assert_eq!(region.scan(at(1, 1)).0[0].blocks(), 257);
}

#[test]
fn many_punches_need_few_blocks() {
    let mut region = Region::new(40);
    let mut journal = region.journal(1, at(1, 1));
    push_all(&mut journal, (0..4500).map(|_| punch(0, u64::MAX)));
    region.log(&mut journal);
    assert_eq!(journal.durable(), 4500);
    // 124 in each record; two groups.
    assert_eq!(journal.used_blocks(), 34 + 4);
    assert_eq!(region.scan(at(1, 1)).0.len(), 4500);
}

#[test]
fn a_full_half_is_stuck_until_its_consistency_point_is_committed() {
    let mut region = Region::new(10);
    let mut journal = region.journal(1, at(1, 1));
    push_all(&mut journal, (0..12).map(small));
    region.log(&mut journal);
    assert_eq!((journal.durable(), journal.used_blocks()), (9, 10));
    assert!(journal.is_stuck() && journal.begin().is_none());
    let position = journal.freeze();
    assert_eq!(position, at(2, 13));
    journal.push(small(12));
    assert!(journal.is_stuck(), "the other half must not overtake");
    assert_eq!(
        region.scan(at(1, 1)).0.len(),
        9,
        "the half is used to its end"
    );
    let dropped = journal.commit(position);
    assert_eq!(dropped.len(), 3, "never logged, and no longer needed");
    assert_eq!((journal.durable(), journal.unlogged_blocks()), (12, 1));
    assert!(!journal.is_stuck());
    region.log(&mut journal);
    assert_eq!((journal.durable(), journal.used_blocks()), (13, 2));
    assert_eq!(region.scan(position).0.len(), 1);
}

#[test]
fn what_joined_a_consistency_point_is_not_coming_to_the_half_being_filled() {
    let mut region = Region::new(4000);
    let mut journal = region.journal(1, at(1, 1));
    push_all(&mut journal, (0..1500).map(small));
    assert_eq!(journal.coming_blocks(), 1500);
    let position = journal.freeze();
    push_all(&mut journal, (0..100).map(small));
    assert_eq!(
        (journal.coming_blocks(), journal.unlogged_blocks()),
        (100, 1600)
    );
    // A group takes 1,024 of the old ones, the next the rest of them and all young ones.
    let (_, finished) = journal.begin().unwrap().encode(&key(), 1);
    journal.end(finished);
    assert_eq!(
        (journal.coming_blocks(), journal.unlogged_blocks()),
        (100, 576)
    );
    let mut other = region.journal(1, at(1, 1));
    push_all(&mut other, (0..10).map(small));
    let earlier = other.freeze();
    push_all(&mut other, (0..10).map(small));
    other.commit(earlier);
    assert_eq!((other.coming_blocks(), other.unlogged_blocks()), (10, 10));
    region.log(&mut journal);
    assert_eq!((journal.coming_blocks(), journal.unlogged_blocks()), (0, 0));
    journal.commit(position);
    assert_eq!(journal.coming_blocks(), 0);
}

#[test]
fn a_commit_during_a_flight_lets_the_group_end() {
    let mut region = Region::new(20);
    let mut journal = region.journal(1, at(1, 1));
    push_all(&mut journal, (0..2).map(small));
    let position = journal.freeze();
    push_all(&mut journal, (2..4).map(small));
    let group = journal.begin().unwrap();
    push_all(&mut journal, (4..5).map(small));
    assert!(
        journal.commit(position).is_empty(),
        "all of it is in flight"
    );
    assert_eq!(journal.durable(), 2);
    let (writes, finished) = group.encode(&key(), 1);
    writes.iter().for_each(|write| region.apply(write));
    journal.end(finished);
    assert_eq!(journal.durable(), 4);
    region.log(&mut journal);
    assert_eq!(region.scan(position).1.end, at(2, 6));
}

#[test]
fn both_halves_full_are_read_in_order() {
    let mut region = Region::new(300);
    let mut journal = region.journal(1, at(8, 1));
    push_all(&mut journal, (0..297).map(small));
    region.log(&mut journal);
    journal.freeze();
    push_all(&mut journal, (297..594).map(small));
    region.log(&mut journal);
    assert_eq!(journal.durable(), 594);
    let (entries, outcome) = region.scan(at(8, 1));
    assert!(
        (0..)
            .zip(&entries)
            .all(|(n, entry)| entry.offset == n * 4096)
    );
    assert_eq!((outcome.end, outcome.operations), (at(9, 595), 594));
}

#[test]
#[should_panic(expected = "a freeze before the last consistency point was committed")]
fn a_third_generation_is_refused() {
    let mut journal = Region::new(10).journal(1, at(1, 1));
    journal.freeze();
    journal.freeze();
}

#[test]
#[should_panic(expected = "one page for each block")]
fn an_entry_without_its_pages_is_refused() {
    let mut entry = small(1);
    entry.length = 4097;
    Region::new(10).journal(1, at(1, 1)).push(entry);
}
