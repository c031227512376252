//! Labels, seats and extents of mirrors.

use everglade_check::{Kind, Unreadable};
use everglade_format::config::CONFIG_BYTES;
use everglade_format::label::{CONFIG_OFFSETS, SUPERBLOCK_OFFSETS, superblock_slot};
use everglade_format::{Config, Dbn, Seat, SeatState, Superblock};

use super::{MEMBERS, behind, check_with, expect, expect_part, fill};
use super::{mirror, of_epoch, record_before};
use crate::image::{CP, Image};

#[test]
fn labels_of_every_current_member_are_compared() {
    for member in 0..MEMBERS {
        for label in 0..2 {
            let at = |image: &Image| image.labels(member)[label];
            let image = mirror();
            let record = at(&image) + CONFIG_OFFSETS[1];
            fill(&image, member, record, record + CONFIG_BYTES as u64);
            let report = expect(&image, &[(Kind::LabelDamaged, 1)]);
            expect_part(
                &report,
                &format!("label-damaged: device {member}, byte {record}"),
            );

            // A record in the front label of the last member is the one that the verifier takes.
            if (member, label) != (MEMBERS - 1, 0) {
                let image = mirror();
                let mut other = image.config.clone();
                other.reserve_blocks += 1;
                image.put_record(member, at(&image), &other);
                expect(&image, &[(Kind::LabelCopiesDiffer, 1)]);
            }

            let image = mirror();
            let superblock = Superblock {
                written_seconds: 99,
                ..image.superblock()
            };
            image.put_superblocks_at(member, &[at(&image)], &superblock);
            expect(&image, &[(Kind::SuperblockCopiesDiffer, 1)]);

            let image = mirror();
            let place = at(&image) + SUPERBLOCK_OFFSETS[superblock_slot(CP)];
            fill(&image, member, place, place + 4096);
            expect(&image, &[(Kind::SuperblockDamaged, 1)]);
        }
        let image = mirror();
        image.erase_superblocks(member, CP);
        expect(
            &image,
            &[(Kind::SuperblockStale, 2), (Kind::MemberBehind, 1)],
        );
    }
}

#[test]
fn the_members_that_are_left_are_compared_as_ever() {
    for member in [1, 2, 4] {
        let image = behind(&[0, 3]);
        image.erase_superblocks(member, CP);
        let found = [
            (Kind::SuperblockStale, 2),
            (Kind::MemberBehind, 1),
            (Kind::CopyBehind, 2),
        ];
        expect(&image, &found);
    }
}

#[test]
fn a_record_that_was_cut_says_nothing_of_members() {
    // The record says that member 2 is behind, and no superblock names it.
    let image = mirror();
    let mut next = image.config.clone();
    next.epoch = 2;
    next.incompatible |= super::flag_of(2);
    next.members[2].seat.state = SeatState::Behind;
    for member in [0, 1, 3] {
        image.put_records(member, &next);
    }
    let report = expect(&image, &[(Kind::ChangeCut, 6)]);
    assert!(
        report.members.iter().all(|member| member.is_read),
        "{report}"
    );
    let pvbn = image.pvbn(1, 1, 0);
    let (member, _) = image.locate(pvbn);
    image.flip_on(member, pvbn);
    expect(&image, &[(Kind::ChangeCut, 6), (Kind::CopyWrong, 1)]);
}

#[test]
fn a_change_keeps_the_places_in_groups() {
    let changed = |change: &dyn Fn(&mut Config)| {
        let image = of_epoch(2, false, &|_| {});
        let mut before = record_before(&image);
        change(&mut before);
        for member in 0..MEMBERS {
            image.put_records(member, &before);
        }
        image
    };
    expect(&changed(&|_| {}), &[]);
    // A member may have become current.
    expect(
        &changed(&|it| it.members[2].seat.state = SeatState::Behind),
        &[],
    );
    let swapped = changed(&|it| {
        it.members[3].seat = Seat::of_mirror(2, 1);
        it.members[4].seat = Seat::of_mirror(2, 2);
    });
    let report = expect(&swapped, &[(Kind::ChangeWrong, 2)]);
    expect_part(&report, "member 3 as before");
    let moved = changed(&|it| it.members[4].seat = Seat::of_mirror(1, 2));
    let report = expect(&moved, &[(Kind::ChangeWrong, 1)]);
    expect_part(&report, "member 4 as before");
}

#[test]
fn the_record_of_a_member_that_is_behind_is_not_the_one_before() {
    let image = behind(&[0]);
    let mut other = record_before(&image);
    other.created_seconds += 1;
    image.put_records(0, &other);
    expect(&image, &[(Kind::CopyBehind, 1)]);
}

#[test]
fn extents_and_journal_are_clear_of_the_labels_of_each_copy() {
    let with = |change: &dyn Fn(&mut Config)| of_epoch(1, false, change);
    for copy in [2, 3, 4] {
        let image = with(&|config| config.members[copy].data_first = Dbn(300));
        let report = expect(&image, &[(Kind::ExtentsCollide, 1)]);
        let part = format!("extent of member {copy} from dbn 300 on, found from dbn 256 on");
        expect_part(&report, &part);
        // Also while the copy is behind.
        let image = with(&|config| {
            config.members[copy].data_first = Dbn(300);
            config.members[copy].seat.state = SeatState::Behind;
        });
        expect(&image, &[(Kind::ExtentsCollide, 1), (Kind::CopyBehind, 1)]);
    }
    // A journal in the front labels is told of each drive, one in an extent once.
    let image = with(&|config| config.journal.first = Dbn(20));
    let report = expect(&image, &[(Kind::ExtentsCollide, 3)]);
    for drive in [1, 3, 4] {
        let part = format!("journal of member {drive} from dbn 256 on, found from dbn 20 on");
        expect_part(&report, &part);
    }
    let image = with(&|config| config.journal.first = Dbn(500));
    let report = expect(&image, &[(Kind::ExtentsCollide, 1)]);
    expect_part(&report, "journal of member 1 from dbn 512 on");
}

#[test]
fn a_copy_without_room_for_its_column_makes_the_record_no_record() {
    let image = of_epoch(1, false, &|config| config.members[3].size_blocks = 968);
    let found = check_with(&image, 0..MEMBERS).expect_err("no record");
    assert!(matches!(found, Unreadable::NoLabel { .. }), "{found}");
    assert!(found.to_string().contains("size of a copy"), "{found}");
    let image = of_epoch(1, false, &|config| config.members[3].size_blocks = 969);
    expect(&image, &[]);
}
