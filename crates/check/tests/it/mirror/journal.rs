//! The journal of a mirror, which is on each drive of its group.

use everglade_check::Kind;
use everglade_format::BLOCK_SIZE;

use super::{behind, expect, expect_part, mirror};
use crate::image::Image;
use crate::journal::{REGION, Writer, found, put_on};

/// Drives of the journal's group.
const DRIVES: [u32; 3] = [1, 4, 3];

fn bad(image: &Image, drive: u32, block: u64) {
    let at = (REGION.first.0 + block) * BLOCK_SIZE as u64;
    *image.memory.bad.lock() = Some((drive, at));
}

#[test]
fn a_journal_on_all_drives_is_counted_once() {
    let image = mirror();
    let mut writer = Writer::on(&image, &DRIVES);
    writer.record(3).record(20).next_generation().record(2);
    let report = expect(&image, &[]);
    assert_eq!(found(&report), (3, 25, 28, 7, 125));
}

#[test]
fn the_copy_that_reaches_furthest_counts() {
    for furthest in DRIVES {
        for middle in DRIVES {
            if middle == furthest {
                continue;
            }
            let image = mirror();
            let mut writer = Writer::on(&image, &DRIVES);
            writer.record(3);
            writer.drives = vec![middle, furthest];
            writer.record(2);
            writer.drives = vec![furthest];
            writer.next_generation().record(1);
            let report = expect(&image, &[]);
            assert_eq!(found(&report), (3, 6, 9, 7, 106));
        }
    }
}

#[test]
fn a_record_that_is_whole_on_one_drive_may_be_torn_on_the_others() {
    let image = mirror();
    let mut writer = Writer::on(&image, &DRIVES);
    writer.record(3).record(3);
    for drive in [1, 3] {
        put_on(&image, &[drive], 6, &[0; BLOCK_SIZE]);
    }
    let report = expect(&image, &[]);
    assert_eq!(found(&report).1, 6);
    // It is torn everywhere.
    put_on(&image, &[4], 6, &[0; BLOCK_SIZE]);
    let report = expect(&image, &[(Kind::JournalTorn, 1)]);
    assert_eq!(found(&report).1, 3);
    assert!(report.warnings[0].place.member.is_some(), "{report}");
}

#[test]
fn copies_with_different_records_are_a_problem() {
    let image = mirror();
    let mut writer = Writer::on(&image, &DRIVES);
    writer.record(3).record(1);
    let mut other = Writer::on(&image, &[4]);
    other.record(3);
    other.header.wall_nanos += 1;
    other.record(1);
    let report = expect(&image, &[(Kind::JournalCopiesDiffer, 1)]);
    expect_part(&report, "journal, member 4: expected record 2 of code");
    // A record of another life, in the place of a longer chain.
    let image = mirror();
    Writer::on(&image, &DRIVES).record(3).record(1).record(1);
    let mut other = Writer::on(&image, &[1]);
    other.header.life += 1;
    other.record(4);
    let report = expect(&image, &[(Kind::JournalCopiesDiffer, 1)]);
    expect_part(&report, "journal, member 1: expected record 1 of code");
}

#[test]
fn a_block_that_one_drive_cannot_read_is_repairable() {
    let image = mirror();
    Writer::on(&image, &DRIVES).record(3).record(3);
    for drive in DRIVES {
        // Header and payload of both records, and the block behind them.
        for block in [0, 2, 4, 7, 8] {
            bad(&image, drive, block);
            let report = expect(&image, &[(Kind::CopyWrong, 1)]);
            assert_eq!(found(&report).1, 6, "{report}");
            assert_eq!(report.problems[0].place.member, Some(drive));
            expect_part(&report, "copy-wrong: journal, byte");
            expect_part(&report, "so this is repairable");
        }
        bad(&image, drive, 9);
        expect(&image, &[]);
    }
}

#[test]
fn a_block_that_no_other_drive_has_is_not_repairable() {
    let image = behind(&[3, 4]);
    Writer::on(&image, &DRIVES).record(3).record(3);
    bad(&image, 1, 4);
    let report = expect(&image, &[(Kind::CopyBehind, 2), (Kind::ReadError, 1)]);
    assert_eq!(found(&report).1, 3, "{report}");
    // The only copy of the last record.
    let image = mirror();
    let mut writer = Writer::on(&image, &DRIVES);
    writer.record(3);
    writer.drives = vec![4];
    writer.record(3);
    bad(&image, 4, 8);
    let report = expect(&image, &[(Kind::ReadError, 1)]);
    assert_eq!(found(&report).1, 6, "{report}");
    assert_eq!(report.problems[0].place.member, Some(4));
}

#[test]
fn what_no_power_cut_leaves_is_a_problem_on_any_copy() {
    for drive in DRIVES {
        let image = mirror();
        Writer::on(&image, &DRIVES).record(3);
        let mut writer = Writer::on(&image, &[drive]);
        writer.header.generation = 9;
        writer.record(1);
        let report = expect(&image, &[(Kind::JournalAhead, 1)]);
        assert_eq!(report.problems[0].place.member, Some(drive));
        assert_eq!(found(&report).1, 3);

        // A sealed record that is longer than its half.
        let image = mirror();
        let mut writer = Writer::on(&image, &DRIVES);
        writer.record(3);
        writer.drives = vec![drive];
        writer.record(96);
        let report = expect(&image, &[(Kind::JournalDamaged, 1)]);
        assert_eq!(report.problems[0].place.member, Some(drive));
    }
}

#[test]
fn the_journal_of_a_member_that_is_behind_is_not_read() {
    let image = behind(&[1]);
    Writer::on(&image, &[4, 3]).record(3);
    let mut writer = Writer::on(&image, &[1]);
    writer.header.generation = 8;
    writer.record(5);
    let report = expect(&image, &[(Kind::CopyBehind, 1)]);
    assert_eq!(found(&report).1, 3);
}
