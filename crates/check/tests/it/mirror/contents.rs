//! Blocks that are wrong on some drives of their group.

use everglade_check::{Kind, describe};
use everglade_format::metafile::CONTEXT_MAP;
use everglade_format::{BLOCK_SIZE, Dbn, Pvbn};

use super::{behind, blocks, drives, expect, expect_part, mirror, of_epoch};
use crate::image::Image;

fn dbn(image: &Image, pvbn: u64) -> u64 {
    image.locate(pvbn).1 / BLOCK_SIZE as u64
}

/// A block of a LUN, and a block of metadata.
fn samples(image: &Image) -> [u64; 2] {
    let data = image.pvbn(64, 0, image.vvbn(64, 0, 599));
    [data, image.pvbn(CONTEXT_MAP.0, 1, 0)]
}

#[test]
fn each_block_that_is_wrong_on_one_drive_is_repairable() {
    let image = mirror();
    for (pvbn, drives) in blocks(&image) {
        for drive in drives {
            image.flip_on(*drive, pvbn);
            let report = expect(&image, &[(Kind::CopyWrong, 1)]);
            let place = report.problems[0].place;
            let found = (place.pvbn, place.member, place.dbn);
            let dbn = Dbn(dbn(&image, pvbn));
            assert_eq!(
                found,
                (Some(Pvbn(pvbn)), Some(*drive), Some(dbn)),
                "{report}"
            );
            let right = drives.iter().find(|other| *other != drive).unwrap();
            let part = format!("which member {right} has, so this is repairable");
            expect_part(&report, &part);
            expect_part(&report, &format!("pvbn {pvbn}, member {drive}, dbn {dbn}"));
            let json = &report.to_json()["problems"][0];
            assert_eq!(
                (&json["member"], &json["dbn"]),
                (&(*drive).into(), &dbn.0.into())
            );
            image.flip_on(*drive, pvbn);
        }
    }
    expect(&image, &[]);
}

#[test]
fn each_block_that_one_drive_cannot_read_is_repairable() {
    let image = mirror();
    for pvbn in samples(&image) {
        let (_, at) = image.locate(pvbn);
        for drive in drives(&image, pvbn) {
            *image.memory.bad.lock() = Some((*drive, at));
            let report = expect(&image, &[(Kind::CopyWrong, 1)]);
            expect_part(&report, "errno 5");
            let place = report.problems[0].place;
            assert_eq!((place.pvbn, place.member), (Some(Pvbn(pvbn)), Some(*drive)));
        }
    }
}

#[test]
fn each_wrong_drive_is_named_while_another_is_right() {
    let image = mirror();
    let all = samples(&image);
    let pvbn = all
        .into_iter()
        .find(|pvbn| drives(&image, *pvbn).len() == 3);
    let pvbn = pvbn.expect("a block of the second group");
    image.flip_on(1, pvbn);
    image.flip_on(4, pvbn);
    let report = expect(&image, &[(Kind::CopyWrong, 2)]);
    expect_part(&report, "which member 3 has");
}

#[test]
fn a_block_that_no_drive_has_is_not_repairable() {
    let image = mirror();
    for pvbn in samples(&image) {
        for drive in drives(&image, pvbn) {
            image.flip_on(*drive, pvbn);
        }
        let report = expect(&image, &[(Kind::TagMismatch, 1)]);
        assert_eq!(report.problems[0].place.member, None);
        for drive in drives(&image, pvbn) {
            image.flip_on(*drive, pvbn);
        }
    }
    // One drive fails, all others have something else.
    for pvbn in samples(&image) {
        let (_, at) = image.locate(pvbn);
        let [first, rest @ ..] = drives(&image, pvbn) else {
            panic!("a group has drives");
        };
        rest.iter().for_each(|drive| image.flip_on(*drive, pvbn));
        *image.memory.bad.lock() = Some((*first, at));
        expect(&image, &[(Kind::ReadError, 1)]);
        *image.memory.bad.lock() = None;
        rest.iter().for_each(|drive| image.flip_on(*drive, pvbn));
    }
    expect(&image, &[]);
}

#[test]
fn a_drive_that_is_behind_or_absent_makes_nothing_repairable() {
    let image = behind(&[2, 3, 4]);
    for (pvbn, drives) in blocks(&image) {
        let current = drives[0];
        image.flip_on(current, pvbn);
        let report = super::report(&image);
        assert!(report.totals.contains_key(&Kind::TagMismatch), "{report}");
        assert!(!report.totals.contains_key(&Kind::CopyWrong), "{report}");
        image.flip_on(current, pvbn);
    }
    let image = mirror();
    let pvbn = samples(&image)[0];
    let [first, rest @ ..] = drives(&image, pvbn) else {
        panic!("a group has drives");
    };
    image.flip_on(*first, pvbn);
    let is_given = |device: &u32| !rest.contains(device);
    let report = super::check_with(&image, (0..5).filter(is_given)).expect("readable");
    assert_eq!(report.totals[&Kind::TagMismatch], 1, "{report}");
    assert_eq!(
        report.totals[&Kind::CopyAbsent],
        rest.len() as u64,
        "{report}"
    );
}

#[test]
fn a_wrong_copy_is_reported_once_in_spaces_of_several_windows() {
    let image = of_epoch(1, true, &|_| {});
    expect(&image, &[]);
    for pvbn in samples(&image) {
        let drive = drives(&image, pvbn)[1];
        image.flip_on(drive, pvbn);
        expect(&image, &[(Kind::CopyWrong, 1)]);
        image.flip_on(drive, pvbn);
    }
}

#[test]
fn a_block_is_described_on_each_drive() {
    let image = mirror();
    let pvbn = samples(&image)[0];
    let describe = |pvbn| {
        let all = image.memory.ids();
        describe::block(&image.memory, &all, Pvbn(pvbn)).expect("readable")
    };
    let sound = describe(pvbn);
    let drives = drives(&image, pvbn);
    assert_eq!(sound.parts.len(), drives.len(), "{sound}");
    for (part, drive) in sound.parts.iter().zip(drives) {
        let dbn = dbn(&image, pvbn);
        assert_eq!(
            part.title,
            format!("member {drive} (device {drive}), dbn {dbn}")
        );
        assert_eq!(part.facts, sound.parts[0].facts);
    }
    image.flip_on(drives[1], pvbn);
    let harmed = describe(pvbn);
    assert_eq!(harmed.parts[0], sound.parts[0]);
    assert_ne!(harmed.parts[1], sound.parts[1]);
}
