//! Tests: the steps of a consistency point that shrink deleted files.

use everglade_format::{Entry, EntryKind, FileId, Inode, Kind, Layer};

use super::fixture::Scene;
use crate::background::pass::{Pass, Room};
use crate::background::shrink::Shrink;
use crate::home::ledger::{Target, Turn};
use crate::tree::{Content, File};

const ROOM: Room = Room {
    changed: 0,
    changed_max: 100,
    blocks: u64::MAX,
};

/// Adds a deleted file to the aggregate. Its leaves are changed and have no places yet, as those of
/// a release file are that was filled in this consistency point.
fn delete_unplaced(scene: &mut Scene) -> FileId {
    let cp = scene.site().cp;
    let fs = &mut scene.home.fs;
    let id = fs.new_file_id();
    let mut file = File::new(Inode::new(id, Kind::Release, cp, 0), Layer::Aggregate);
    file.grow(2);
    let (outcome, _) = scene
        .shelf
        .load(|cx| file.modify(cx, 0, 0, Content::Fresh).map(|_| ()));
    outcome.expect("a new block needs no load");
    fs.files.insert(id, file);
    fs.hidden.add(Entry::new(id, EntryKind::Side, "vol0"));
    id
}

fn step(scene: &mut Scene) -> Turn {
    let Scene { home, shelf, .. } = scene;
    assert_eq!(Shrink.wants(home), [Target::Aggregate]);
    let (outcome, _) = shelf.load(|cx| Shrink.step(home, cx, Target::Aggregate, ROOM));
    outcome.expect("all blocks are in memory")
}

#[test]
fn a_file_whose_leaves_have_no_places_waits_and_takes_nothing_from_others() {
    let mut scene = Scene::new();
    let id = delete_unplaced(&mut scene);
    let before = scene.digest();
    assert_eq!(step(&mut scene), Turn::Waits);
    assert!(scene.home.fs.files.contains_key(&id));
    assert!(scene.digest() == before, "the step changed something");
}

#[test]
fn an_empty_file_is_erased_in_a_step() {
    let mut scene = Scene::new();
    let id = delete_unplaced(&mut scene);
    let mut inode = Inode::new(id, Kind::Release, scene.site().cp, 0);
    inode.levels = 1;
    *scene.home.fs.file(id) = File::new(inode, Layer::Aggregate);
    assert!(matches!(step(&mut scene), Turn::Moved(_)));
    assert!(!scene.home.fs.files.contains_key(&id));
}
