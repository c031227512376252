//! Numbers are taken and freed, against a set of numbers.

use std::collections::BTreeSet;

use everglade_format::{BITS_PER_BLOCK, BLOCK_SIZE, Layer, Vvbn, bitmap};
use everglade_freespace::Areas;
use everglade_target::Error;
use proptest::prelude::*;

use super::{Purpose, free_virtual, prepare_free_virtual};
use crate::alloc::filesystem::FileSystem;
use crate::alloc::fixture::{CONTAINER, Pair, end_cp, file_system, full_host, is_used, load};
use crate::media::host::Host;
use crate::read::load::Stop;

fn take(fs: &mut FileSystem, purpose: Purpose, count: usize) -> Result<Vec<u64>, Stop> {
    load(|cx| fs.ensure(None, cx, &mut full_host(), purpose, count))?;
    Ok((0..count).map(|_| fs.take(purpose)).collect())
}

fn free(fs: &mut FileSystem, number: u64) {
    load(|cx| fs.prepare_free(cx, number)).expect("it is in use");
    fs.free(number);
}

fn reason(stop: Result<(), Stop>) -> String {
    match stop {
        Err(Stop::Damaged(damaged)) => damaged.to_string(),
        other => panic!("damage was expected, not {other:?}"),
    }
}

#[test]
fn a_full_aggregate_has_given_out_every_number_but_0_once() {
    let mut fs = file_system(Layer::Aggregate, 512, &[(0, 4)]);
    let mut taken = BTreeSet::new();
    let mut numbers = 0;
    // The two purposes leave each other nothing at the end.
    for purpose in [Purpose::Data, Purpose::Metadata].into_iter().cycle() {
        match take(&mut fs, purpose, 1) {
            Ok(more) => {
                taken.extend(more);
                numbers += 1;
            }
            Err(Stop::Failed(Error::NoSpace)) => break,
            Err(stop) => panic!("{stop:?}"),
        }
    }
    // Stock of one purpose is not used for the other.
    let rest = [Purpose::Data, Purpose::Metadata].map(|purpose| {
        let mut count = 0;
        while let Ok(more) = take(&mut fs, purpose, 1) {
            taken.extend(more);
            count += 1;
        }
        count
    });
    numbers += rest.iter().sum::<usize>();
    assert_eq!(taken, (1..2048).collect());
    assert_eq!(numbers, 2047, "no number was given out twice");
    assert_eq!(fs.used, 2047);
}

#[test]
fn data_and_metadata_have_areas_of_their_own_while_there_are_two() {
    let mut fs = file_system(Layer::Aggregate, 512, &[(0, 4)]);
    let data = take(&mut fs, Purpose::Data, 600).expect("there is space");
    let metadata = take(&mut fs, Purpose::Metadata, 600).expect("there is space");
    let areas = |numbers: &[u64]| numbers.iter().map(|it| it / 512).collect::<BTreeSet<_>>();
    assert!(areas(&data).is_disjoint(&areas(&metadata)));
}

#[test]
fn extents_take_turns_by_the_chunk() {
    let mut fs = file_system(Layer::Aggregate, 1024, &[(0, 2), (8192, 2)]);
    let numbers = take(&mut fs, Purpose::Data, 4 * 256 - 1).expect("there is space");
    let extents: Vec<u64> = numbers.chunks(256).map(|chunk| chunk[0] / 8192).collect();
    // The first chunk is one short, because number 0 is never given out.
    assert_eq!(numbers[254..256], [255, 8192]);
    assert_eq!(extents, [0, 1, 0, 1]);
}

#[test]
fn what_was_freed_behind_a_cursor_is_found_before_the_aggregate_is_full() {
    let mut fs = file_system(Layer::Aggregate, 1024, &[(0, 1)]);
    let first = take(&mut fs, Purpose::Data, 300).expect("there is space");
    for number in &first[10..30] {
        free(&mut fs, *number);
    }
    end_cp(&mut fs);
    let rest = take(&mut fs, Purpose::Data, 723 + 20).expect("the area is looked through again");
    assert_eq!(rest[723..], first[10..30]);
    free(&mut fs, 500);
    let full = take(&mut fs, Purpose::Data, 1);
    assert!(
        matches!(full, Err(Stop::Failed(Error::NoSpace))),
        "not in this consistency point"
    );
    end_cp(&mut fs);
    let again = take(&mut fs, Purpose::Metadata, 1).expect("it is free now");
    assert_eq!(again, [500]);
}

#[test]
fn a_host_is_asked_before_an_area_is_used_and_a_full_one_is_not() {
    let mut fs = file_system(Layer::Aggregate, 512, &[(0, 1)]);
    fs.areas = vec![Areas::new(2, 512, 0)];
    let mut host = Host::default();
    let asked = load(|cx| fs.ensure(None, cx, &mut host, Purpose::Data, 1));
    assert!(matches!(asked, Err(Stop::Io)));
    assert_eq!(host.wanted, Some((0, 0)));
    let refused = take(&mut fs, Purpose::Data, 1);
    assert!(matches!(refused, Err(Stop::Failed(Error::NoSpace))));
    assert!(fs.areas[0].prepared(0));
    assert_eq!(
        take(&mut fs, Purpose::Data, 2).expect("it gave some"),
        [1, 2]
    );
}

#[test]
fn a_search_finds_what_is_not_known_though_an_area_is_ready() {
    let mut fs = file_system(Layer::Aggregate, 512, &[(0, 4)]);
    fs.areas = vec![Areas::new(4, 512, 3)];
    assert!(fs.areas[0].prepared(3), "the last one is ready");
    assert!(!fs.areas[0].is_complete());
    load(|cx| fs.search(cx, &full_host())).expect("the map is readable");
    assert_eq!(fs.areas[0].empty(), Some(1));
    assert!(fs.areas[0].is_complete());
}

#[test]
fn a_volume_grows_by_an_area_when_none_is_half_free() {
    let Pair { mut aggregate, .. } = Pair::new();
    let mut volume = file_system(Layer::Volume, 512, &[(0, 1)]);
    let mut taken = BTreeSet::new();
    for _ in 0..3 * 512 {
        let below = Some(&mut aggregate);
        load(|cx| volume.ensure(below, cx, &mut full_host(), Purpose::Data, 1))
            .expect("virtual space does not run out");
        assert!(taken.insert(volume.take(Purpose::Data)));
    }
    assert_eq!(taken.first(), Some(&1));
    assert_eq!(
        volume.areas[0].count(),
        4,
        "1,536 numbers without the first"
    );
}

#[test]
fn freeing_what_the_map_calls_free_is_damage() {
    let mut fs = file_system(Layer::Aggregate, 1024, &[(0, 2)]);
    let taken = take(&mut fs, Purpose::Data, 3).expect("there is space");
    let unused = load(|cx| fs.prepare_free(cx, taken[2] + 1));
    assert!(reason(unused).contains("block 4 is free, but it is in use"));
    let beyond = load(|cx| fs.prepare_free(cx, BITS_PER_BLOCK * 9));
    assert!(reason(beyond).contains("is free"));
    assert_eq!(fs.used, 3);
}

#[test]
fn punching_what_the_container_does_not_have_is_damage() {
    let mut pair = Pair::new();
    let vvbn = pair.store();
    let hole = load(|cx| pair.aggregate.prepare_punch(cx, CONTAINER, vvbn.0 + 1));
    assert!(reason(hole).contains("its container has no block for it"));
    let beyond = load(|cx| {
        pair.aggregate
            .prepare_punch(cx, CONTAINER, u64::from(u32::MAX))
    });
    assert!(reason(beyond).contains("beyond the end of its container"));
}

#[test]
fn a_freed_block_of_a_volume_is_punched_and_both_its_numbers_come_back() {
    let mut pair = Pair::new();
    let (vvbn, other) = (pair.store(), pair.store());
    let pvbn = pair.slot(vvbn).pvbn;
    let Pair { aggregate, volume } = &mut pair;
    load(|cx| prepare_free_virtual(aggregate, volume, CONTAINER, cx, vvbn)).expect("it is there");
    free_virtual(aggregate, volume, CONTAINER, vvbn);
    assert!(pair.slot(vvbn).is_hole());
    assert!(pair.slot(other).has_block(), "its neighbour stays");
    assert!(!is_used(&mut pair.volume, vvbn.0) && !is_used(&mut pair.aggregate, pvbn.0));
    assert_eq!((pair.volume.used, pair.aggregate.used), (1, 1));
    let next = pair.store();
    assert_ne!(next, vvbn, "not in this consistency point");
    assert_ne!(pair.slot(next).pvbn, pvbn);
}

#[test]
fn an_area_counts_as_used_from_its_first_block_to_its_last() {
    let mut fs = file_system(Layer::Aggregate, 1024, &[(0, 4)]);
    let block = |used: &[u64]| {
        let mut bits = Box::new([0; BLOCK_SIZE]);
        used.iter().for_each(|bit| _ = bitmap::set(&mut bits, *bit));
        bits
    };
    let mut account = |before: &[u64], after: &[u64]| {
        let count = |area: u64| before.iter().filter(|bit| *bit / 1024 == area).count() as u64;
        fs.used_before.insert(0, (0..32).map(count).collect());
        fs.account_map_block(0, &block(after));
        (fs.areas_used, fs.areas[0].ready().collect::<Vec<_>>())
    };
    assert_eq!(account(&[], &[5, 1024, 1025]), (2, vec![2, 3]));
    let later = account(&[5, 1024, 1025], &[5, 1025, 3072]);
    assert_eq!(later, (3, vec![2]), "one area more");
    let emptied = account(&[5, 1025, 3072], &[5]);
    assert_eq!(
        emptied,
        (1, vec![1, 2, 3]),
        "the host has given their space"
    );
}

#[test]
fn a_number_belongs_to_an_area_only_within_its_extent() {
    let fs = file_system(Layer::Aggregate, 512, &[(1024, 2), (8192, 1)]);
    assert_eq!(fs.area_of(1023), None, "before the first extent");
    assert_eq!(fs.area_of(1024), Some((0, 0)));
    assert_eq!(fs.area_of(2047), Some((0, 1)));
    assert_eq!(fs.area_of(2048), None, "between two extents");
    assert_eq!(fs.area_of(8703), Some((1, 0)));
    assert_eq!(fs.area_of(8704), None, "after the last");
}

#[test]
fn a_scan_scores_an_area_by_what_neither_map_holds() {
    let Pair { mut volume, .. } = Pair::new();
    let (mut active, mut summary) = (Box::new([0; BLOCK_SIZE]), Box::new([0; BLOCK_SIZE]));
    (1..10).for_each(|bit| _ = bitmap::set(&mut active, bit));
    (5..20).for_each(|bit| _ = bitmap::set(&mut summary, bit));
    volume.score_after_scan(0, &active, &summary);
    let free = BITS_PER_BLOCK - 19 - 1;
    assert_eq!(
        volume.areas[0].top(1),
        [(0, free)],
        "number 0 is never free"
    );
}

#[derive(Clone, Debug)]
enum Event {
    Take(bool, usize),
    /// Frees this many blocks in use, starting at this index.
    Free(usize, usize),
    Commit,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (any::<bool>(), 1..400_usize).prop_map(|(data, count)| Event::Take(data, count)),
        3 => (any::<usize>(), 1..300_usize).prop_map(|(from, count)| Event::Free(from, count)),
        2 => Just(Event::Commit),
    ];
    prop::collection::vec(event, 1..40)
}

proptest! {
    /// Lemma 1, and nothing is lost: a number is given out only if it is free and was free at the
    /// last commit, and space is refused only if there is no such number.
    #[test]
    fn numbers_are_given_out_if_and_only_if_they_are_free(events in events()) {
        let total = 3 * 512;
        let mut fs = file_system(Layer::Aggregate, 512, &[(0, 2), (4096, 1)]);
        let (mut used, mut freed) = (BTreeSet::new(), BTreeSet::new());
        for event in events {
            match event {
                Event::Take(data, count) => {
                    let purpose = if data { Purpose::Data } else { Purpose::Metadata };
                    match take(&mut fs, purpose, count) {
                        Ok(numbers) => for number in numbers {
                            prop_assert!(number != 0 && fs.area_of(number).is_some());
                            prop_assert!(!freed.contains(&number), "{} was freed just now", number);
                            prop_assert!(used.insert(number), "{} is in use", number);
                        },
                        Err(Stop::Failed(Error::NoSpace)) => {
                            let other = if data { &fs.meta } else { &fs.data };
                            let left = total - 1 - used.len() - freed.len() - other.stock.len();
                            prop_assert!(left < count, "{} of {} are free", left, count);
                        }
                        Err(stop) => prop_assert!(false, "{:?}", stop),
                    }
                }
                Event::Free(from, count) if !used.is_empty() => {
                    let from = from % used.len();
                    let some: Vec<u64> = used.iter().copied().skip(from).take(count).collect();
                    for number in some {
                        free(&mut fs, number);
                        used.remove(&number);
                        freed.insert(number);
                    }
                }
                Event::Free(..) => {}
                Event::Commit => {
                    end_cp(&mut fs);
                    freed.clear();
                }
            }
            prop_assert_eq!(fs.used, used.len() as u64);
        }
    }

    /// Blocks of a volume: those that are stored and not freed are in the container, at places of
    /// their own.
    #[test]
    fn a_container_has_exactly_the_blocks_that_its_volume_holds(
        steps in prop::collection::vec((any::<bool>(), any::<usize>()), 1..60),
    ) {
        let mut pair = Pair::new();
        let mut held: BTreeSet<u64> = BTreeSet::new();
        for (is_store, which) in steps {
            if is_store || held.is_empty() {
                prop_assert!(held.insert(pair.store().0));
            } else {
                let vvbn = *held.iter().nth(which % held.len()).expect("below the length");
                held.remove(&vvbn);
                let Pair { aggregate, volume } = &mut pair;
                load(|cx| prepare_free_virtual(aggregate, volume, CONTAINER, cx, Vvbn(vvbn)))
                    .expect("it is there");
                free_virtual(aggregate, volume, CONTAINER, Vvbn(vvbn));
            }
            let mut places = BTreeSet::new();
            for vvbn in 1..200 {
                let slot = pair.slot(Vvbn(vvbn));
                prop_assert_eq!(slot.has_block(), held.contains(&vvbn));
                if slot.has_block() {
                    prop_assert!(places.insert(slot.pvbn));
                    prop_assert!(is_used(&mut pair.aggregate, slot.pvbn.0));
                }
            }
            prop_assert_eq!(pair.aggregate.used, held.len() as u64);
        }
    }
}
