//! Members that are behind, absent or unfit.

use everglade_check::{Kind, Unreadable};
use everglade_env::DeviceId;
use everglade_format::{SeatState, Superblock};

use super::{
    GROUPS, MEMBERS, behind, check_with, erase_records, expect, expect_part, fill, fill_labels,
    mirror, totals,
};
use crate::image::CP;

const BEHIND: (Kind, u64) = (Kind::CopyBehind, 1);
const UNFIT: (Kind, u64) = (Kind::CopyUnfit, 1);

#[test]
fn a_member_that_is_behind_is_no_damage() {
    for member in 0..MEMBERS {
        let report = expect(&behind(&[member]), &[BEHIND]);
        let group = super::PLACES[member as usize].0;
        let part = format!(
            "copy-behind: member {member} (device {member}): expected a current copy of group \
            {group}, found one that missed writes: consistency point 6"
        );
        expect_part(&report, &part);
        assert_eq!(report.epoch, 2);
    }
    expect(&behind(&[0, 1, 3]), &[(Kind::CopyBehind, 3)]);
}

#[test]
fn a_member_that_is_behind_may_be_absent() {
    for member in 0..MEMBERS {
        let others = (0..MEMBERS).filter(|other| *other != member);
        let report = check_with(&behind(&[member]), others).expect("readable");
        assert_eq!(totals(&report), [BEHIND], "{report}");
        expect_part(&report, &format!("copy-behind: member {member}: "));
        expect_part(&report, "no device was given");
    }
}

#[test]
fn the_label_of_a_member_that_is_behind_may_have_anything() {
    for member in 0..MEMBERS {
        // Nothing but its front label says who it is.
        let image = behind(&[member]);
        let [_, end] = image.labels(member);
        fill(&image, member, end, end + (1 << 20));
        fill(&image, member, 256 << 10, 1 << 20);
        let report = expect(&image, &[BEHIND]);
        expect_part(&report, "missed writes: no superblock");
        // The device became smaller.
        image.memory.lock()[member as usize].truncate(600 << 12);
        expect(&image, &[BEHIND]);
        // A change that was cut says that another member is behind.
        let image = behind(&[member]);
        let newest = super::newest_superblock(&image);
        let mut cut = image.config.clone();
        for (index, member) in (0..).zip(&mut cut.members) {
            member.seat.state = match index == MEMBERS - 1 {
                true => SeatState::Behind,
                false => SeatState::Current,
            };
        }
        cut.reserve_blocks += 1;
        image.put_records(member, &cut);
        expect(&image, &[BEHIND]);
        // It was the only one that got the superblock of such a change.
        let superblock = Superblock {
            written_seconds: 99,
            ..newest
        };
        image.put_superblocks(member, &superblock);
        expect(&image, &[BEHIND]);
        // Without a label, it is not known.
        fill_labels(&image, member);
        expect(&image, &[(Kind::NoMember, 1), BEHIND]);
    }
}

#[test]
fn a_member_that_went_on_by_itself_is_a_problem() {
    let split = |alone: &[u32]| {
        let image = behind(&[0, 3, 4]);
        let mut own = image.config.clone();
        for (index, member) in (0..).zip(&mut own.members) {
            member.seat.state = match alone.contains(&index) {
                true => SeatState::Current,
                false => SeatState::Behind,
            };
        }
        image.put_records(3, &own);
        let mut superblock = super::newest_superblock(&image);
        superblock.cp.0 -= 1;
        image.put_superblocks(3, &superblock);
        image
    };
    let report = expect(
        &split(&[0, 3, 4]),
        &[(Kind::CopyBehind, 2), (Kind::CopySplit, 1)],
    );
    expect_part(&report, "copy-split: member 3 (device 3)");
    expect_part(&report, "went on by itself: consistency point 6 of epoch 2");
    // Member 2 is on both sides. It lacks the superblock, so nothing was acknowledged with it.
    expect(&split(&[2, 3]), &[(Kind::CopyBehind, 3)]);
}

#[test]
fn an_aggregate_is_readable_exactly_if_each_group_has_a_current_drive() {
    let image = mirror();
    for subset in 1u32..1 << MEMBERS {
        let is_given = |member: &u32| subset >> member & 1 == 1;
        let result = check_with(&image, (0..MEMBERS).filter(is_given));
        let lost = GROUPS.iter().find(|group| !group.iter().any(is_given));
        match (result, lost) {
            (Ok(report), None) => {
                let absent = u64::from(MEMBERS - subset.count_ones());
                let found = report.totals.get(&Kind::CopyAbsent).copied();
                assert_eq!(found.unwrap_or_default(), absent, "{report}");
                assert_eq!(report.totals.len(), usize::from(absent > 0), "{report}");
                assert!(report.is_clean(), "{report}");
                for member in (0..MEMBERS).filter(|member| !is_given(member)) {
                    expect_part(&report, &format!("copy-absent: member {member}: "));
                }
            }
            (Err(error), Some(group)) => {
                let first = *group.iter().min().unwrap();
                assert_eq!(error, Unreadable::Missing { member: first });
            }
            (Ok(report), Some(_)) => panic!("{subset:b}: {report}"),
            (Err(error), None) => panic!("{subset:b}: {error}"),
        }
    }
}

#[test]
fn a_member_that_is_behind_does_not_replace_a_current_one() {
    let image = behind(&[0, 3, 4]);
    let found = |devices: &[u32]| check_with(&image, devices.iter().copied()).map(|_| ());
    assert_eq!(found(&[1, 2]), Ok(()));
    assert_eq!(found(&[0, 1, 3, 4]), Err(Unreadable::Missing { member: 2 }));
    assert_eq!(found(&[0, 2, 3, 4]), Err(Unreadable::Missing { member: 1 }));
}

#[test]
fn a_current_member_that_missed_a_change_is_a_problem_and_not_read() {
    let image = behind(&[0]);
    erase_records(&image, 3, 2);
    let [_, end] = image.labels(3);
    fill(&image, 3, 1 << 20, end);
    image.erase_superblocks(3, CP);
    let report = expect(&image, &[BEHIND, UNFIT]);
    expect_part(&report, "copy-unfit: member 3 (device 3)");
    expect_part(&report, "was last a member in epoch 1");
    // Without the others of its group it is refused.
    let stale = Unreadable::Stale {
        device: DeviceId(3),
        expected: 2,
        found: 1,
    };
    assert_eq!(check_with(&image, [0, 2, 3]).expect_err("stale"), stale);
}

#[test]
fn a_current_member_that_became_smaller_or_lost_its_label_is_a_problem_and_not_read() {
    let image = mirror();
    image.memory.lock()[4].truncate(1_000 << 12);
    let report = expect(&image, &[UNFIT]);
    expect_part(&report, "device 4 has 1000 blocks, it had 1100");
    assert!(matches!(
        check_with(&image, [0, 4]),
        Err(Unreadable::Shrunk { .. })
    ));
    image.memory.lock()[4].truncate(1 << 20);
    let report = expect(&image, &[(Kind::NoMember, 1), UNFIT]);
    expect_part(&report, "too few for two labels");

    let image = mirror();
    fill_labels(&image, 2);
    let report = expect(&image, &[(Kind::NoMember, 1), UNFIT]);
    expect_part(
        &report,
        "copy-unfit: member 2: expected a current copy of group 1",
    );
    expect_part(&report, "device 2 has no label of ours");
    let found = check_with(&image, [1, 2]).expect_err("no drive of group 1");
    assert!(matches!(found, Unreadable::NoLabel { .. }), "{found}");
}

#[test]
fn two_devices_of_one_member_are_refused_even_if_it_is_behind() {
    let image = behind(&[3]);
    let found = check_with(&image, [0, 1, 2, 3, 4, 3]).expect_err("twice");
    assert!(
        matches!(found, Unreadable::Member { member: 3, .. }),
        "{found}"
    );
}
