//! The description for people has the contents of the media.

use everglade_check::describe;
use everglade_format::{FileId, Pvbn};

use crate::image;

#[test]
fn labels_are_shown_without_the_secret() {
    let image = image::sound();
    let text = describe::labels(&image.memory, &image.memory.ids()).expect("readable");
    let text = text.to_string();
    assert!(
        text.contains("aggregate aggr0") && text.contains("extent 1"),
        "{text}"
    );
    assert!(text.contains("superblock of consistency point 7"), "{text}");
    assert!(!text.contains("5e5e5e5e"), "{text}");
}

#[test]
fn the_superblock_shows_files_and_volumes() {
    let image = image::sound();
    let out = describe::superblock(&image.memory, &image.memory.ids()).expect("readable");
    let text = out.to_string();
    for part in [
        "context map",
        "container of vol0",
        "volume vol0: LUN lun0 (file 64)",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert_eq!(out.to_json()["next_file"], "66");
}

#[test]
fn a_tree_is_listed_block_by_block() {
    let image = image::sound();
    let ids = image.memory.ids();
    let tree = |volume, file, limit| {
        describe::tree(&image.memory, &ids, volume, FileId(file), limit).expect("readable")
    };
    let lun = tree(Some(FileId(64)), 64, 100);
    assert_eq!(
        lun.parts.len(),
        10,
        "six leaves and four indirect blocks: {lun}"
    );
    assert!(
        tree(Some(FileId(64)), 64, 3)
            .to_string()
            .contains("and 7 more")
    );
    assert!(tree(None, 1, 100).to_string().contains("inode file"));
    assert!(tree(None, 99, 100).to_string().contains("no file 99"));
    assert!(
        tree(Some(FileId(65)), 64, 9)
            .to_string()
            .contains("no volume 65")
    );
}

#[test]
fn a_block_is_traced_to_its_lun() {
    let image = image::sound();
    let pvbn = image.pvbn(64, 0, image.vvbn(64, 0, 254));
    let block = |pvbn| {
        describe::block(&image.memory, &image.memory.ids(), Pvbn(pvbn))
            .expect("readable")
            .to_string()
    };
    let text = block(pvbn);
    assert!(text.contains("in use: yes"), "{text}");
    assert!(text.contains("container of vol0 (file 64)"), "{text}");
    assert!(
        text.contains("volume vol0: LUN lun0 (file 64), fbn 254"),
        "{text}"
    );
    assert!(block(600).contains("in no extent"));
    assert!(block(440).contains("in use: no"));
}

#[test]
fn snapshots_are_shown_with_their_history_and_what_scans_do() {
    let images = (0..60).map(crate::snapped::image);
    let shown = images.map(|image| {
        let world = image.world();
        let out = describe::superblock(&*world.storage(), &world.devices()).expect("readable");
        out.to_string()
    });
    let parts = [
        "summary map: file",
        "scan: Delete",
        "state: Live",
        "state: Deleting",
        "in the delete pass: true",
        "unfolded: true",
        "holds: h",
        "volume v@s",
    ];
    let mut missing = parts.to_vec();
    for text in shown {
        missing.retain(|part| !text.contains(part));
        if missing.is_empty() {
            return;
        }
    }
    panic!("no image shows {missing:?}");
}
