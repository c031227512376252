//! Aggregates whose devices were changed: the superblock decides which config record counts, and
//! what a change leaves when it is cut is no problem.

use std::collections::BTreeSet;

use everglade_check::{Kind, Report, Unreadable, check, describe};
use everglade_env::{DeviceId, Storage};
use everglade_format::config::{CONFIG_BYTES, INCOMPATIBLE_CHANGED};
use everglade_format::label::{
    CONFIG_OFFSETS, SUPERBLOCK_OFFSETS, config_slot, label_offsets, superblock_slot,
};
use everglade_format::{BLOCK_SIZE, Config, CpNumber, Dbn, Extent, Member, Superblock};

use crate::image::{self, CP, Changes, DEVICE_BLOCKS, Image, build};
use crate::sound::report;

/// Blocks of a device that became larger.
const LARGER_BLOCKS: u64 = 1_800;

/// A change to a config record.
type Change<'c> = &'c dyn Fn(&mut Config);

/// An aggregate of epoch 2. The record before has only its first member, with its first extent.
fn of_epoch_2(change: Change<'_>) -> Image {
    let image = build(Changes {
        config: Some(&|config| {
            (config.epoch, config.incompatible) = (2, INCOMPATIBLE_CHANGED);
            change(config);
        }),
        superblock: Some(&|superblock| superblock.epoch = 2),
        ..Changes::default()
    });
    image.put_records(0, &before(&image));
    image
}

/// The record of epoch 1.
fn before(image: &Image) -> Config {
    let mut before = image.config.clone();
    (before.epoch, before.incompatible) = (1, 0);
    before.members.truncate(1);
    before.members[0].size_blocks = DEVICE_BLOCKS;
    before.extents.truncate(1);
    before
}

/// Member 1, which has most blocks, joined in epoch 2.
fn added() -> Image {
    of_epoch_2(&|_| {})
}

/// Member 0 became larger in epoch 2: most blocks are behind its former end.
fn resized() -> Image {
    resized_to(Dbn(DEVICE_BLOCKS), &|_| {})
}

/// The same with another place for the new extent, and another record of epoch 1.
fn resized_to(first_dbn: Dbn, change: Change<'_>) -> Image {
    let image = of_epoch_2(&|config| {
        config.members.truncate(1);
        config.members[0].size_blocks = LARGER_BLOCKS;
        let second = &mut config.extents[1];
        (second.member, second.column, second.first_dbn) = (0, 0, first_dbn);
    });
    let mut before = before(&image);
    change(&mut before);
    image.put_records(0, &before);
    // What is left at the former end.
    let [_, end] = bytes_of_labels(DEVICE_BLOCKS);
    image.put_record(0, end, &before);
    image
}

fn bytes_of_labels(size_blocks: u64) -> [u64; 2] {
    label_offsets(size_blocks * BLOCK_SIZE as u64)
}

/// The superblock before the one that names epoch 2.
fn superblock_before(image: &Image) -> Superblock {
    Superblock {
        cp: CpNumber(CP.0 - 1),
        epoch: 1,
        frontiers: vec![2],
        ..image.superblock()
    }
}

/// Kinds of all findings, each once.
fn kinds(report: &Report) -> Vec<Kind> {
    report.totals.keys().copied().collect()
}

/// The image is clean, with warnings of these kinds.
#[track_caller]
fn expect_clean(image: &Image, warnings: &[Kind]) -> Report {
    let report = report(image);
    assert!(report.is_clean(), "{report}");
    assert_eq!(kinds(&report), warnings, "{report}");
    report
}

/// All findings are of this kind, which is a problem, and one has this part.
#[track_caller]
fn expect_wrong(image: &Image, kind: Kind, part: &str) {
    let report = report(image);
    assert_eq!(kinds(&report), [kind], "{report}");
    assert!(!report.is_clean(), "{report}");
    assert!(report.to_string().contains(part), "{part:?}: {report}");
}

fn unreadable(image: &Image, devices: &[u32]) -> Unreadable {
    let ids: Vec<_> = devices.iter().copied().map(DeviceId).collect();
    check(&image.memory, &ids, &mut |_| {}).expect_err("unreadable")
}

#[test]
fn an_aggregate_that_got_a_device_is_clean() {
    let image = added();
    let report = expect_clean(&image, &[]);
    assert_eq!((report.epoch, report.counts.devices), (2, 2));
    assert_eq!(report.to_json()["epoch"], 2);
    // A block of the device that joined is found by the new record.
    image.flip(image.pvbn(64, 0, image.vvbn(64, 0, 599)));
    expect_wrong(&image, Kind::TagMismatch, "LUN lun0");
}

#[test]
fn an_aggregate_whose_device_became_larger_is_clean() {
    let image = resized();
    let report = expect_clean(&image, &[]);
    assert_eq!((report.epoch, report.counts.devices), (2, 1));
    assert_eq!(report.counts.blocks, 767);
    // The former copy of the label has no meaning any more.
    let [_, end] = bytes_of_labels(DEVICE_BLOCKS);
    let from = usize::try_from(end).unwrap();
    image.memory.lock()[0][from..from + (1 << 20)].fill(7);
    expect_clean(&image, &[]);
    image.flip(image.pvbn(64, 0, image.vvbn(64, 0, 599)));
    expect_wrong(&image, Kind::TagMismatch, "LUN lun0");
}

#[test]
fn a_device_that_is_larger_than_its_record_says_is_as_good() {
    let image = image::sound();
    let bytes = usize::try_from(LARGER_BLOCKS).unwrap() * BLOCK_SIZE;
    image.memory.lock()[0].resize(bytes, 0);
    expect_clean(&image, &[]);
    // Without the front label nothing says where the copy is.
    image.memory.lock()[0][..1 << 20].fill(0);
    let found = unreadable(&image, &[0, 1]);
    assert!(matches!(found, Unreadable::NoLabel { .. }), "{found}");
}

/// An aggregate of epoch 1 that is about to change: the labels to write, and the record.
struct Cut {
    image: Image,
    next: Config,
    labels: Vec<(u32, u64)>,
}

/// A third device is to join.
fn adding() -> Cut {
    let image = image::sound();
    image.memory.add(DEVICE_BLOCKS * BLOCK_SIZE as u64);
    let mut next = next(&image);
    next.members.push(Member {
        uuid: [3; 16],
        size_blocks: DEVICE_BLOCKS,
        data_first: Dbn(256),
        seat: everglade_format::Seat::ALONE,
    });
    next.extents.push(Extent {
        base: 1280,
        length: 512,
        group: 0,
        column: 2,
        member: 2,
        first_dbn: Dbn(256),
    });
    let ends = bytes_of_labels(DEVICE_BLOCKS);
    let labels = (0..3).flat_map(|member| ends.map(|label| (member, label)));
    Cut {
        labels: labels.collect(),
        image,
        next,
    }
}

/// The first device became larger.
fn extending() -> Cut {
    let image = image::sound();
    let bytes = usize::try_from(LARGER_BLOCKS).unwrap() * BLOCK_SIZE;
    image.memory.lock()[0].resize(bytes, 0);
    let mut next = next(&image);
    next.members[0].size_blocks = LARGER_BLOCKS;
    next.extents.push(Extent {
        base: 1280,
        length: 256,
        group: 0,
        column: 0,
        member: 0,
        first_dbn: Dbn(DEVICE_BLOCKS),
    });
    let [front, end] = bytes_of_labels(LARGER_BLOCKS);
    // The label at the new end has the present record, too.
    image.put_record(0, end, &image.config);
    let [_, other] = bytes_of_labels(DEVICE_BLOCKS);
    Cut {
        labels: vec![(0, front), (0, end), (1, front), (1, other)],
        image,
        next,
    }
}

fn next(image: &Image) -> Config {
    let mut next = image.config.clone();
    (next.epoch, next.incompatible) = (2, INCOMPATIBLE_CHANGED);
    next
}

/// Overwrites a part of the record of epoch 2 in a label.
fn tear(image: &Image, member: u32, label: u64) {
    let at = label + CONFIG_OFFSETS[config_slot(2)] + CONFIG_BYTES as u64 / 2;
    let zeroes = vec![0; CONFIG_BYTES / 2];
    image.memory.write(DeviceId(member), at, &zeroes).unwrap();
}

#[test]
fn a_change_that_is_cut_at_any_write_before_its_superblock_leaves_the_aggregate_clean() {
    for make in [adding, extending] {
        let mut seen = BTreeSet::new();
        for written in 0..=make().labels.len() {
            for is_torn in [false, true] {
                let cut = make();
                for (member, label) in &cut.labels[..written] {
                    cut.image.put_record(*member, *label, &cut.next);
                }
                if let (true, Some((member, label))) = (is_torn, cut.labels[..written].last()) {
                    tear(&cut.image, *member, *label);
                }
                let report = report(&cut.image);
                assert!(report.is_clean(), "{written} {is_torn}: {report}");
                assert_eq!(report.epoch, 1);
                seen.extend(kinds(&report));
            }
        }
        let joins = make().next.members.len() == 3;
        let mut expected = BTreeSet::from([Kind::ChangeCut]);
        expected.extend(joins.then_some(Kind::NoMember));
        assert_eq!(seen, expected);
    }
}

#[test]
fn a_device_that_was_about_to_join_is_told_from_the_members() {
    let cut = adding();
    for (member, label) in &cut.labels {
        cut.image.put_record(*member, *label, &cut.next);
    }
    let report = report(&cut.image);
    assert_eq!(report.totals[&Kind::ChangeCut], 4, "two members: {report}");
    assert_eq!(report.totals[&Kind::NoMember], 1, "{report}");
    let text = report.to_string();
    assert!(
        text.contains("no-member: device 2: expected a member in epoch 1"),
        "{text}"
    );
    assert!(
        text.contains("epoch 2, which no superblock names"),
        "{text}"
    );
    assert_eq!(report.counts.devices, 2);
    let text = describe::labels(&cut.image.memory, &cut.image.memory.ids()).expect("readable");
    assert!(text.to_string().contains("device 2 is no member"), "{text}");
    // It is not needed either.
    let members = [DeviceId(0), DeviceId(1)];
    let report = check(&cut.image.memory, &members, &mut |_| {}).expect("readable");
    assert_eq!(kinds(&report), [Kind::ChangeCut], "{report}");
    assert_eq!(
        unreadable(&cut.image, &[0, 2]),
        Unreadable::Missing { member: 1 }
    );
}

#[test]
fn a_member_that_keeps_only_the_record_of_a_change_that_was_cut_has_lost_its_label() {
    let cut = adding();
    for (member, label) in &cut.labels {
        cut.image.put_record(*member, *label, &cut.next);
    }
    for label in cut.image.labels(1) {
        let at = label + CONFIG_OFFSETS[config_slot(1)];
        let zeroes = vec![0; CONFIG_BYTES];
        cut.image.memory.write(DeviceId(1), at, &zeroes).unwrap();
    }
    let report = report(&cut.image);
    assert_eq!(report.totals[&Kind::LabelDamaged], 2, "{report}");
    assert_eq!(report.problems.len(), 2, "{report}");
}

#[test]
fn a_device_of_a_change_that_was_cut_does_not_pass_for_one_of_the_next_change() {
    let image = added();
    image.memory.add(DEVICE_BLOCKS * BLOCK_SIZE as u64);
    // It would have been member 1 of another epoch 2.
    let mut other = image.config.clone();
    other.members[1].uuid = [9; 16];
    for label in bytes_of_labels(DEVICE_BLOCKS) {
        let mut config = other.clone();
        config.member_index = 1;
        let at = label + CONFIG_OFFSETS[config_slot(2)];
        image
            .memory
            .write(DeviceId(2), at, &config.encode())
            .unwrap();
    }
    expect_clean(&image, &[Kind::NoMember]);
    let order = [2, 0, 1].map(DeviceId);
    let report = check(&image.memory, &order, &mut |_| {}).expect("readable");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_superblock_that_only_a_device_has_without_which_the_aggregate_went_on_does_not_count() {
    let labels = bytes_of_labels(DEVICE_BLOCKS);
    // The commit of the change was cut when only device 2 had its superblock. The aggregate was
    // opened without that device, which erased the records of the change.
    let left = |cp: u64| {
        let cut = adding();
        for label in labels {
            cut.image.put_record(2, label, &cut.next);
        }
        let superblock = Superblock {
            cp: CpNumber(cp),
            epoch: 2,
            frontiers: vec![2, 1, 0],
            ..cut.image.superblock()
        };
        cut.image.put_superblocks_at(2, &labels, &superblock);
        cut
    };
    for cp in [CP.0 - 1, CP.0, CP.0 + 1] {
        let report = expect_clean(&left(cp).image, &[Kind::NoMember]);
        assert_eq!((report.epoch, report.cp), (1, CP.0));
    }
    // If the members have the record, everything that the superblock needs is there.
    let cut = left(CP.0 + 1);
    for member in [0, 1] {
        cut.image.put_records(member, &cut.next);
    }
    let report = expect_clean(&cut.image, &[Kind::SuperblockStale]);
    assert_eq!((report.epoch, report.cp), (2, CP.0 + 1));
}

#[test]
fn a_superblock_on_one_member_is_enough_for_the_change() {
    // Only the device that joined has it.
    let image = added();
    image.put_superblocks(0, &superblock_before(&image));
    image.erase_superblocks(0, CP);
    assert_eq!(expect_clean(&image, &[Kind::SuperblockStale]).epoch, 2);
    // Only the former member has it.
    let image = added();
    image.put_superblocks(0, &superblock_before(&image));
    image.erase_superblocks(1, CP);
    assert_eq!(expect_clean(&image, &[Kind::SuperblockStale]).epoch, 2);
    // Only the new end of a larger device has it, or only the front.
    for place in [0, 1] {
        let image = resized();
        image.put_superblocks(0, &superblock_before(&image));
        let at = image.labels(0)[place] + SUPERBLOCK_OFFSETS[superblock_slot(CP)];
        let nothing = [0; BLOCK_SIZE];
        image.memory.write(DeviceId(0), at, &nothing).unwrap();
        let report = expect_clean(&image, &[Kind::SuperblockStale]);
        assert_eq!((report.epoch, report.warnings.len()), (2, 1));
    }
}

#[test]
fn a_member_that_missed_consistency_points_is_a_problem() {
    let behind = |image: &Image, part: &str| {
        let report = report(image);
        assert_eq!(
            kinds(&report),
            [Kind::SuperblockStale, Kind::MemberBehind],
            "{report}"
        );
        assert_eq!(report.problems.len(), 1, "{report}");
        assert!(report.to_string().contains(part), "{report}");
    };
    // A superblock of the epoch is older than the newest, so the member had one.
    let image = added();
    let mut earlier = image.superblock();
    earlier.cp.0 -= 1;
    image.put_superblocks(0, &earlier);
    image.erase_superblocks(1, CP);
    behind(
        &image,
        "member-behind: device 1: expected consistency point 7",
    );
    earlier.cp.0 -= 1;
    image.put_superblocks(1, &earlier);
    behind(&image, "found consistency point 5");
    // Member 0 was a member in the epoch before, so it must have a superblock.
    let image = added();
    image.erase_superblocks(0, CP);
    behind(&image, "device 0");
    let image = image::sound();
    image.erase_superblocks(1, CP);
    behind(&image, "found no superblock");
}

#[test]
fn a_member_that_missed_a_change_is_refused() {
    let image = build(Changes {
        config: Some(&|config| {
            (config.epoch, config.incompatible) = (2, INCOMPATIBLE_CHANGED);
            config.members.push(Member {
                uuid: [3; 16],
                ..config.members[0].clone()
            });
        }),
        superblock: Some(&|superblock| superblock.epoch = 2),
        ..Changes::default()
    });
    let mut before = image.config.clone();
    (before.epoch, before.incompatible) = (1, 0);
    before.members.truncate(2);
    image.put_records(0, &before);
    image.put_records(1, &before);
    expect_clean(&image, &[]);
    assert_eq!(
        unreadable(&image, &[0, 1]),
        Unreadable::Missing { member: 2 }
    );
    for label in image.labels(1) {
        let at = label + CONFIG_OFFSETS[config_slot(2)];
        image
            .memory
            .write(DeviceId(1), at, &vec![0; CONFIG_BYTES])
            .unwrap();
    }
    let stale = Unreadable::Stale {
        device: DeviceId(1),
        expected: 2,
        found: 1,
    };
    assert_eq!(unreadable(&image, &[0, 1, 2]), stale);
    assert!(stale.to_string().contains("last a member in epoch 1"));
}

#[test]
fn a_record_of_the_epoch_that_is_lost_older_or_different_is_a_problem() {
    let [_, end] = bytes_of_labels(DEVICE_BLOCKS);
    let image = added();
    tear(&image, 1, end);
    expect_wrong(&image, Kind::LabelDamaged, "device 1");
    let image = added();
    let mut other = image.config.clone();
    other.reserve_blocks += 1;
    image.put_record(1, end, &other);
    expect_wrong(&image, Kind::LabelCopiesDiffer, "device 1");
    let image = build(Changes {
        config: Some(&|config| (config.epoch, config.incompatible) = (3, INCOMPATIBLE_CHANGED)),
        superblock: Some(&|superblock| superblock.epoch = 3),
        ..Changes::default()
    });
    expect_clean(&image, &[]);
    image.put_record(0, end, &before(&image));
    expect_wrong(&image, Kind::LabelStale, "epoch 1");
}

#[test]
fn records_and_superblocks_that_prove_that_something_newer_is_lost_are_problems() {
    let image = image::sound();
    let mut later = next(&image);
    later.epoch = 3;
    image.put_record(0, image.labels(0)[1], &later);
    expect_wrong(
        &image,
        Kind::EpochBehind,
        "epoch 3, which no superblock names",
    );
    let image = added();
    let ahead = Superblock {
        epoch: 3,
        ..image.superblock()
    };
    image.put_superblocks(0, &ahead);
    image.put_superblocks(1, &ahead);
    expect_wrong(&image, Kind::EpochAhead, "a config record of epoch 3");
}

#[test]
fn the_feature_bit_and_the_epoch_must_agree() {
    let with = |epoch: u64, flags: u64| {
        build(Changes {
            config: Some(&|config| (config.epoch, config.incompatible) = (epoch, flags)),
            superblock: Some(&|superblock| superblock.epoch = epoch),
            ..Changes::default()
        })
    };
    expect_wrong(
        &with(2, 0),
        Kind::ChangeWrong,
        "flags 0x1 in epoch 2, found 0x0",
    );
    expect_wrong(
        &with(1, INCOMPATIBLE_CHANGED),
        Kind::ChangeWrong,
        "flags 0x0 in epoch 1, found 0x1",
    );
    let found = unreadable(&with(2, 16), &[0, 1]);
    assert!(matches!(found, Unreadable::Version { .. }), "{found}");
}

#[test]
fn a_change_that_does_not_only_append_is_a_problem() {
    let place = Dbn(DEVICE_BLOCKS);
    let wrong = |change: Change<'_>, part: &str| {
        expect_wrong(&resized_to(place, change), Kind::ChangeWrong, part);
    };
    wrong(
        &|before| before.members[0].uuid = [8; 16],
        "member 0 as before",
    );
    wrong(
        &|before| before.members[0].data_first = Dbn(255),
        "member 0 as before",
    );
    wrong(
        &|before| before.members[0].size_blocks = 1_801,
        "member 0 as before",
    );
    wrong(
        &|before| before.extents[0].first_dbn = Dbn(257),
        "extent 0 as before",
    );
    wrong(
        &|before| before.extents[0].length = 256,
        "extent 0 as before",
    );
    wrong(&|before| before.area_blocks = 512, "area size");
    wrong(&|before| before.created_seconds = 1, "time of creation");
}

#[test]
fn a_new_extent_begins_behind_the_former_end_of_its_member() {
    let image = resized_to(Dbn(1_024), &|_| {});
    expect_wrong(&image, Kind::ChangeWrong, "behind its former end 1100");
    let image = resized_to(Dbn(900), &|_| {});
    let report = report(&image);
    let expected = [Kind::ChangeWrong, Kind::ExtentsCollide];
    assert_eq!(kinds(&report), expected, "{report}");
    assert!(
        report.to_string().contains("where a label's copy was"),
        "{report}"
    );
    let image = resized_to(Dbn(LARGER_BLOCKS - 511), &|_| {});
    expect_wrong(&image, Kind::ExtentsCollide, "label's copy");
}

#[test]
fn a_superblock_has_frontiers_for_the_extents_of_its_epoch() {
    let image = added();
    let superblock = Superblock {
        frontiers: vec![2],
        ..image.superblock()
    };
    image.put_superblocks(0, &superblock);
    image.put_superblocks(1, &superblock);
    expect_wrong(&image, Kind::Frontier, "2 frontiers, one for each extent");
}
