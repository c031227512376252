//! An image without damage has no problems.

use everglade_check::{Report, check};

use everglade_format::metafile::INODE_FILE;
use everglade_format::{CpNumber, Inode, Kind};

use crate::image::{self, Changes, Image};

pub(crate) fn report(image: &Image) -> Report {
    check(&image.memory, &image.memory.ids(), &mut |_| {}).expect("labels are readable")
}

#[test]
fn a_sound_image_is_clean_and_counted() {
    let image = image::sound();
    let report = report(&image);
    assert!(report.is_clean(), "{report}");
    assert!(report.warnings.is_empty(), "{report}");
    let counts = report.counts;
    assert_eq!((counts.devices, counts.volumes, counts.luns), (2, 1, 1));
    assert_eq!((counts.lun_blocks, counts.lun_holes), (6, 594));
    assert_eq!(counts.hidden_files, 2, "a LUN and a container");
    assert_eq!(counts.overflow_blocks, 3);
    assert_eq!(counts.stale_hints, 1);
    assert_eq!(counts.blocks, 767);
    assert_eq!(report.name, "aggr0");
    assert_eq!(report.cp, 7);
    let json = report.to_json();
    assert_eq!(json["clean"], true);
    assert_eq!(json["counts"]["lun_blocks"], 6);
}

#[test]
fn devices_may_be_given_in_any_order() {
    let image = image::sound();
    let mut ids = image.memory.ids();
    ids.reverse();
    let report = check(&image.memory, &ids, &mut |_| {}).expect("readable");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn progress_ends_with_the_volumes() {
    let image = image::sound();
    let mut seen = Vec::new();
    check(&image.memory, &image.memory.ids(), &mut |p| {
        seen.push(p.phase)
    })
    .expect("readable");
    assert_eq!(seen.last(), Some(&everglade_check::Phase::Volumes));
}

#[test]
fn spaces_of_several_windows_are_clean_too() {
    let report = report(&image::far());
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.counts.lun_blocks, 6);
    assert_eq!(report.counts.stale_hints, 1);
}

#[test]
fn an_aggregate_just_created_is_empty_and_clean() {
    let image = image::build(Changes {
        superblock: Some(&|superblock| {
            superblock.cp = CpNumber(0);
            (superblock.blocks_used, superblock.areas_used) = (0, 0);
            superblock.frontiers = vec![0, 0];
            superblock.inode_file = Inode::new(INODE_FILE, Kind::Metafile, CpNumber(0), 0);
        }),
        ..Changes::default()
    });
    let report = report(&image);
    assert!(report.is_clean() && report.warnings.is_empty(), "{report}");
    assert_eq!(report.counts.blocks_used, 0);
    assert_eq!(report.counts.files, 0);
}
