//! Each kind of damage, one at a time, in a sound image: reported once, by the right kind, naming
//! the right object, and nothing that merely follows from it.

use everglade_check::{Kind, Problem, Unreadable, check};
use everglade_env::DeviceId;
use everglade_format::label::{LABEL_BYTES, SUPERBLOCK_OFFSETS};
use everglade_format::metafile::{
    ACTIVE_MAP, CONTEXT_MAP, DIRECTORY, HIDDEN, INODE_FILE, OVERFLOW, TOP_AREAS,
};
use everglade_format::{
    BLOCK_SIZE, Block, Context, CpNumber, FileId, Indirect, IndirectMut, Inode, Kind as FileKind,
    Layer, Owner, Pointer, Pvbn, Tag, bitmap, context,
};

use crate::image::{self, Changes, Image, SUPERBLOCK_FILE, build, spoiled};
use crate::planned::Spot;
use crate::sound::report;

/// The one problem of an image.
#[track_caller]
fn only_problem(image: &Image) -> Problem {
    let report = report(image);
    assert_eq!(report.problems.len(), 1, "{report}");
    report.problems[0].clone()
}

/// The one problem must be of `kind` and its line contain each of `parts`.
#[track_caller]
fn expect(image: &Image, kind: Kind, parts: &[&str]) -> Problem {
    let problem = only_problem(image);
    let line = problem.to_string();
    assert_eq!(problem.kind, kind, "{line}");
    for part in parts {
        assert!(line.contains(part), "{part:?} is not in {line:?}");
    }
    problem
}

/// Kinds of all problems, each once.
fn kinds(image: &Image) -> Vec<Kind> {
    let report = report(image);
    report.totals.keys().copied().collect()
}

const AGGREGATE: Layer = Layer::Aggregate;
const VOLUME: Layer = Layer::Volume;

fn at(layer: Layer, file: FileId, level: u8, index: u64) -> Spot {
    Spot {
        layer,
        file: file.0,
        level,
        index,
    }
}

/// Changes one block before it is sealed.
fn spoil_at(spot: Spot, change: impl Fn(&mut Block)) -> Image {
    let mut hits = 0;
    let image = spoiled(|here, block| {
        if here == spot {
            hits += 1;
            change(block);
        }
    });
    assert_eq!(hits, 1, "{spot:?} exists");
    image
}

/// Changes one inode before its block is sealed.
fn spoil_inode(layer: Layer, id: u32, change: impl Fn(&mut Inode)) -> Image {
    let id = FileId(id);
    let (index, slot) = Inode::block_and_slot(id);
    spoil_at(at(layer, INODE_FILE, 0, index), |block| {
        let inode = Inode::decode_from(block, slot, id, layer).unwrap();
        let mut inode = inode.unwrap();
        change(&mut inode);
        inode.encode_into(block, slot, layer);
    })
}

fn change_pointer(block: &mut Block, slot: u64, layer: Layer, change: impl Fn(&mut Pointer)) {
    let mut pointer = Indirect(block).pointer(slot, layer).unwrap();
    change(&mut pointer);
    IndirectMut(block).set(slot, layer, pointer);
}

const LUN: FileId = FileId(64);
const CONTAINER: FileId = FileId(64);

#[test]
fn a_flipped_bit_of_data_names_lun_and_block() {
    let image = image::sound();
    let vvbn = image.vvbn(64, 0, 599);
    let pvbn = image.pvbn(64, 0, vvbn);
    image.flip(pvbn);
    let parts = ["volume vol0: LUN lun0 (file 64)", "fbn 599"];
    let problem = expect(&image, Kind::TagMismatch, &parts);
    assert_eq!(problem.place.pvbn, Some(Pvbn(pvbn)));
    assert_eq!(problem.place.vvbn.map(|v| v.0), Some(vvbn));
}

#[test]
fn a_flipped_bit_in_a_deleted_volume_names_its_container() {
    let image = image::sound();
    image.flip(image.pvbn(65, 0, 700));
    let parts = ["deleted container of old (file 65)", "fbn 700"];
    expect(&image, Kind::TagMismatch, &parts);
}

#[test]
fn a_flipped_bit_in_an_overflow_file_names_it_at_both_layers() {
    let image = image::sound();
    image.flip(image.pvbn(OVERFLOW.0, 0, 1));
    expect(
        &image,
        Kind::TagMismatch,
        &["overflow file (file 3), fbn 1"],
    );
    let image = image::sound();
    image.flip(image.pvbn(64, 0, image.vvbn(OVERFLOW.0, 0, 0)));
    let parts = ["volume vol0: overflow file (file 3), fbn 0"];
    expect(&image, Kind::TagMismatch, &parts);
}

#[test]
fn a_flipped_bit_in_an_indirect_block_is_reported_once_for_its_level() {
    let image = image::sound();
    image.flip(image.pvbn(64, 0, image.vvbn(64, 1, 2)));
    let parts = ["LUN lun0 (file 64), level 1 block 2"];
    expect(&image, Kind::TagMismatch, &parts);
    let image = image::sound();
    image.flip(image.pvbn(64, 1, 0));
    let problem = only_problem(&image);
    assert_eq!(problem.kind, Kind::TagMismatch);
    assert!(
        problem
            .to_string()
            .contains("container of vol0 (file 64), level 1 block 0")
    );
}

#[test]
fn flipped_bits_in_maps_do_not_make_everything_seem_lost() {
    for file in [ACTIVE_MAP, CONTEXT_MAP] {
        let image = image::sound();
        let leaf = if file == CONTEXT_MAP { 4 } else { 0 };
        image.flip(image.pvbn(file.0, 0, leaf));
        expect(&image, Kind::TagMismatch, &["map", "fbn"]);
    }
    let image = image::sound();
    image.flip(image.pvbn(64, 0, image.vvbn(ACTIVE_MAP.0, 0, 0)));
    expect(&image, Kind::TagMismatch, &["volume vol0: active map"]);
}

#[test]
fn a_flipped_bit_in_the_inode_file_is_one_problem() {
    let image = image::sound();
    image.flip(image.pvbn(INODE_FILE.0, 0, 4));
    expect(&image, Kind::TagMismatch, &["inode file (file 1), fbn 4"]);
}

#[test]
fn an_unreadable_block_is_a_read_error_of_its_file() {
    let image = image::sound();
    let pvbn = image.pvbn(64, 0, image.vvbn(64, 0, 254));
    *image.memory.bad.lock() = Some(image.locate(pvbn));
    expect(&image, Kind::ReadError, &["LUN lun0", "fbn 254", "errno 5"]);
}

#[test]
fn a_block_of_another_file_is_recognised_by_its_header() {
    let image = spoil_at(at(VOLUME, LUN, 1, 1), |block| block[8] = 65);
    let parts = ["LUN lun0", "level 1 block 1", "FileId(65)"];
    expect(&image, Kind::HeaderMismatch, &parts);
    let image = spoil_at(at(AGGREGATE, CONTAINER, 1, 0), |block| block[12] = 3);
    expect(&image, Kind::HeaderMismatch, &["container of vol0"]);
}

#[test]
fn a_stamp_later_than_the_superblock_is_noticed() {
    let image = spoil_at(at(VOLUME, LUN, 2, 0), |block| block[2] = 8);
    expect(&image, Kind::StampAhead, &["LUN lun0", "found 8"]);
    let image = spoil_inode(VOLUME, 64, |inode| inode.cp_created = CpNumber(9));
    expect(&image, Kind::StampAhead, &["volume vol0", "file 64"]);
}

#[test]
fn bytes_that_are_no_pointer_are_noticed() {
    let image = spoil_at(at(VOLUME, LUN, 1, 0), |block| {
        block[16 + 5..16 + 10].fill(0xff)
    });
    expect(&image, Kind::PointerInvalid, &["LUN lun0", "fbn 0"]);
}

#[test]
fn a_pointer_between_extents_is_noticed() {
    let image = spoil_at(at(AGGREGATE, FileId(65), 1, 0), |block| {
        change_pointer(block, 9, AGGREGATE, |pointer| pointer.pvbn = Pvbn(600));
    });
    let kinds = kinds(&image);
    assert_eq!(kinds, [Kind::OutsideExtents, Kind::Leaked]);
}

#[test]
fn a_clear_bit_of_a_block_in_use_is_noticed_at_both_layers() {
    let sound = image::sound();
    let pvbn = sound.pvbn(64, 0, sound.vvbn(64, 0, 1));
    let image = spoil_at(at(AGGREGATE, ACTIVE_MAP, 0, 0), |block| {
        bitmap::clear(block, pvbn);
    });
    let report = report(&image);
    assert_eq!(report.problems[0].kind, Kind::NotMarked);
    let line = report.problems[0].to_string();
    assert!(line.contains("container of vol0") && line.contains(&format!("pvbn {pvbn}")));
    assert_eq!(kinds(&image), [Kind::NotMarked, Kind::UsedCount]);

    let vvbn = sound.vvbn(64, 0, 1);
    let image = spoil_at(at(VOLUME, ACTIVE_MAP, 0, 0), |block| {
        bitmap::clear(block, vvbn);
    });
    assert_eq!(kinds(&image), [Kind::NotMarked, Kind::UsedCount]);
    let line = crate::sound::report(&image).problems[0].to_string();
    assert!(line.contains("LUN lun0 (file 64), fbn 1, "), "{line}");
}

#[test]
fn a_set_bit_without_a_reference_is_a_leak() {
    let image = spoil_at(at(AGGREGATE, ACTIVE_MAP, 0, 0), |block| {
        bitmap::set(block, 440);
    });
    let line = report(&image).problems[0].to_string();
    assert_eq!(
        line,
        "leaked: aggregate, pvbn 440: expected a reference, found none"
    );
    assert_eq!(kinds(&image), [Kind::Leaked, Kind::UsedCount]);
    let image = spoil_at(at(VOLUME, ACTIVE_MAP, 0, 0), |block| {
        bitmap::set(block, 5);
    });
    assert_eq!(
        kinds(&image),
        [Kind::Leaked, Kind::UsedCount, Kind::ContainerHole]
    );
}

#[test]
fn a_set_bit_where_there_is_no_block_is_noticed() {
    for number in [0, 600, 5000] {
        let image = spoil_at(at(AGGREGATE, ACTIVE_MAP, 0, 0), |block| {
            bitmap::set(block, number);
        });
        let kinds = kinds(&image);
        assert!(kinds.contains(&Kind::MarkedOutside), "{number}: {kinds:?}");
        assert!(!kinds.contains(&Kind::Leaked), "{number}: {kinds:?}");
    }
}

#[test]
fn a_block_with_two_references_names_both() {
    let sound = image::sound();
    let first = sound.vvbn(64, 0, 0);
    let orphan = sound.vvbn(64, 0, 1);
    let image = spoil_at(at(VOLUME, LUN, 1, 0), |block| {
        let pointer = Indirect(block).pointer(0, VOLUME).unwrap();
        IndirectMut(block).set(1, VOLUME, pointer);
    });
    let report = report(&image);
    let of = |kind| report.problems.iter().find(|p| p.kind == kind).cloned();
    let double = of(Kind::DoubleReference)
        .expect("two references")
        .to_string();
    assert!(
        double.contains("fbn 1") && double.contains("fbn 0"),
        "{double}"
    );
    assert!(double.contains(&format!("vvbn {first}")), "{double}");
    let leak = of(Kind::Leaked).expect("the other block has none");
    assert_eq!(leak.place.vvbn.map(|v| v.0), Some(orphan));
    assert_eq!(report.problems.len(), 2, "{report}");
}

#[test]
fn two_containers_that_share_a_block_are_noticed() {
    let sound = image::sound();
    let taken = sound.pvbn(65, 0, 9);
    let mut pointer = Pointer::HOLE;
    let image = spoiled(|spot, block| {
        if spot == at(AGGREGATE, FileId(65), 1, 2) {
            pointer.pvbn = Pvbn(taken);
            pointer.tag = image::key().tag(&image_leaf(9));
            IndirectMut(block).set(200, AGGREGATE, pointer);
        }
    });
    let report = report(&image);
    let double = report
        .problems
        .iter()
        .find(|p| p.kind == Kind::DoubleReference);
    let line = double.expect("two references").to_string();
    assert!(line.contains(&format!("pvbn {taken}")), "{line}");
}

/// Returns the image's content of a leaf of the deleted volume's container.
fn image_leaf(vvbn: u64) -> Block {
    let mut found = [0; BLOCK_SIZE];
    spoiled(|spot, block| {
        if spot == at(AGGREGATE, FileId(65), 0, vvbn) {
            found = *block;
        }
    });
    found
}

#[test]
fn volume_and_container_must_agree() {
    let sound = image::sound();
    let vvbn = sound.vvbn(64, 0, 0);
    // The container lost the block: the volume has it, and its old place has no owner.
    let image = spoil_at(at(AGGREGATE, CONTAINER, 1, 0), |block| {
        IndirectMut(block).set(vvbn, AGGREGATE, Pointer::HOLE);
    });
    let kinds_found = kinds(&image);
    assert!(
        kinds_found.contains(&Kind::ContainerHole),
        "{kinds_found:?}"
    );
    assert!(kinds_found.contains(&Kind::BlockCount), "{kinds_found:?}");
    let report = report(&image);
    let hole = report
        .problems
        .iter()
        .find(|p| p.kind == Kind::ContainerHole);
    let line = hole.expect("reported").to_string();
    assert!(line.contains("LUN lun0 (file 64), fbn 0"), "{line}");

    // The volume expects other content than the container.
    let image = spoil_at(at(VOLUME, LUN, 1, 0), |block| {
        change_pointer(block, 0, VOLUME, |pointer| pointer.tag = Tag(1));
    });
    expect(
        &image,
        Kind::ContainerTag,
        &["LUN lun0", "fbn 0", "000000000001"],
    );

    // The volume forgot the block altogether.
    let image = spoiled(|spot, block| {
        if spot == at(VOLUME, LUN, 1, 0) {
            IndirectMut(block).set(0, VOLUME, Pointer::HOLE);
        }
        if spot == at(VOLUME, ACTIVE_MAP, 0, 0) {
            bitmap::clear(block, vvbn);
        }
    });
    let expected = [Kind::BlockCount, Kind::UsedCount, Kind::ContainerExtra];
    assert_eq!(kinds(&image), expected);
}

fn spoil_context(pvbn: u64, change: impl Fn(&mut Context)) -> Image {
    let (leaf, slot) = context::block_and_slot(Pvbn(pvbn));
    spoil_at(at(AGGREGATE, CONTEXT_MAP, 0, leaf), |block| {
        let mut context = Context::decode_from(block, slot).unwrap();
        change(&mut context);
        context.encode_into(block, slot);
    })
}

#[test]
fn contexts_must_name_owner_and_content() {
    let sound = image::sound();
    let pvbn = sound.pvbn(64, 0, sound.vvbn(64, 0, 255));
    let image = spoil_context(pvbn, |context| context.owner = Owner::Container { vvbn: 3 });
    let problem = expect(&image, Kind::ContextOwner, &["container of vol0", "vvbn 3"]);
    assert_eq!(problem.place.pvbn, Some(Pvbn(pvbn)));
    let image = spoil_context(pvbn, |context| context.tag = Tag(1));
    expect(
        &image,
        Kind::ContextTag,
        &["container of vol0", "000000000001"],
    );
    let (leaf, slot) = context::block_and_slot(Pvbn(pvbn));
    let image = spoil_at(at(AGGREGATE, CONTEXT_MAP, 0, leaf), |block| {
        block[slot * 16..slot * 16 + 16].fill(0);
    });
    expect(&image, Kind::ContextMissing, &["container of vol0"]);
    let indirect = sound.pvbn(64, 1, 0);
    let image = spoil_context(indirect, |context| {
        context.owner = Owner::File { level: 2, index: 0 };
    });
    expect(&image, Kind::ContextOwner, &["level 1 block 0", "level 2"]);
}

#[test]
fn counters_of_the_superblocks_are_compared() {
    let change = |change: &dyn Fn(&mut everglade_format::Superblock)| {
        build(Changes {
            superblock: Some(change),
            ..Changes::default()
        })
    };
    let image = change(&|s| s.blocks_used += 1);
    expect(&image, Kind::UsedCount, &["aggregate"]);
    let image = change(&|s| s.areas_used = 1);
    expect(&image, Kind::AreasUsed, &["aggregate", "found 1"]);
    let image = change(&|s| s.frontiers = vec![1, 1]);
    expect(&image, Kind::Frontier, &["area 1", "pvbn"]);
    let image = change(&|s| s.frontiers = vec![2, 2]);
    expect(&image, Kind::Frontier, &["at most 1 areas in extent 1"]);
    let image = change(&|s| s.next_file = FileId(65));
    expect(&image, Kind::NextFile, &["file 65"]);
    let image = change(&|s| s.epoch = 2);
    expect(&image, Kind::EpochAhead, &["aggregate"]);
    let volume = at(VOLUME, FileId(SUPERBLOCK_FILE), 0, 0);
    let image = spoil_at(volume, |block| block[40] += 1);
    expect(&image, Kind::UsedCount, &["volume vol0 (64)"]);
    let image = spoil_at(volume, |block| block[48] = 0);
    expect(&image, Kind::Frontier, &["volume vol0 (64)"]);
    let image = spoil_at(volume, |block| block[48] = 2);
    assert_eq!(kinds(&image), [Kind::MapTooShort]);
    assert_eq!(report(&image).problems.len(), 2, "active map and container");
    let image = change(&|s| s.frontiers = vec![2]);
    assert_eq!(kinds(&image), [Kind::Frontier]);
    let image = spoil_at(volume, |block| block[56] = 65);
    expect(&image, Kind::NextFile, &["volume vol0", "65"]);
    let image = spoil_at(volume, |block| block[0] = b'x');
    expect(
        &image,
        Kind::VolumeSuperblockDamaged,
        &["volume vol0 (64), vvbn 1"],
    );
    let image = spoil_at(volume, |block| block[16] = 200);
    expect(&image, Kind::StampAhead, &["volume vol0 (64), vvbn 1"]);
}

#[test]
fn inodes_must_make_sense() {
    let image = spoil_inode(VOLUME, 64, |inode| inode.blocks += 1);
    expect(&image, Kind::BlockCount, &["LUN lun0"]);
    let image = spoil_inode(VOLUME, 64, |inode| inode.size_bytes = 599 * 4096);
    expect(&image, Kind::BeyondEnd, &["LUN lun0", "fbn 599"]);
    let image = spoil_inode(VOLUME, 64, |inode| inode.size_bytes = 1 << 40);
    expect(&image, Kind::LevelsTooFew, &["LUN lun0", "found 2"]);
    let image = spoil_inode(AGGREGATE, 65, |inode| inode.kind = FileKind::Lun);
    expect(&image, Kind::InodeUnexpected, &["file 65"]);
    let image = spoil_at(at(VOLUME, INODE_FILE, 0, 0), |block| {
        Inode::erase(block, 4);
    });
    let kinds = kinds(&image);
    assert!(kinds.contains(&Kind::MetafileMissing), "{kinds:?}");
    let image = spoil_at(at(VOLUME, INODE_FILE, 0, 4), |block| {
        block[16 + 8 * 288 + 4] = 99;
    });
    expect(&image, Kind::InodeDamaged, &["volume vol0", "file 64"]);
}

#[test]
fn directories_and_inodes_must_match() {
    let entry = 16 + 3 * 128;
    let leaf = at(VOLUME, DIRECTORY, 0, 1);
    let image = spoil_at(leaf, |block| block[entry..entry + 128].fill(0));
    expect(&image, Kind::Unnamed, &["volume vol0", "file 64"]);
    let image = spoil_at(leaf, |block| {
        block.copy_within(entry..entry + 128, entry + 128);
        block[entry + 128] = 70;
        block[entry + 128 + 8] = b'x';
    });
    expect(
        &image,
        Kind::EntryWithoutFile,
        &["volume vol0: directory", "xun0"],
    );
    let image = spoil_at(leaf, |block| {
        block.copy_within(entry..entry + 128, entry + 128);
        block[entry + 128 + 8] = b'x';
    });
    expect(
        &image,
        Kind::NamedTwice,
        &["volume vol0: directory", "file 64"],
    );
    let image = spoil_at(leaf, |block| {
        block.copy_within(entry..entry + 128, entry + 128);
        block[entry + 128] = 70;
    });
    assert_eq!(kinds(&image), [Kind::EntryWithoutFile, Kind::NameTwice]);
    let image = spoil_at(leaf, |block| block[entry + 4] = 1);
    expect(&image, Kind::EntryKind, &["volume vol0: directory"]);
    let image = spoil_at(leaf, |block| block[entry + 8] = b'/');
    expect(&image, Kind::DirectoryDamaged, &["volume vol0: directory"]);
    let hidden = at(VOLUME, HIDDEN, 0, 0);
    let image = spoil_at(hidden, |block| block[entry] = 64);
    assert_eq!(kinds(&image), [Kind::NamedTwice, Kind::Unnamed]);
}

#[test]
fn small_metafiles_are_read_too() {
    let image = spoil_at(at(VOLUME, TOP_AREAS, 0, 0), |block| block[17] = 0xff);
    expect(&image, Kind::TopAreasDamaged, &["volume vol0: top areas"]);
    let image = spoil_inode(AGGREGATE, OVERFLOW.0, |inode| inode.size_bytes = 4096);
    expect(&image, Kind::BeyondEnd, &["overflow file", "fbn 1"]);
    let image = spoil_at(at(AGGREGATE, OVERFLOW, 1, 0), |block| {
        let pointer = Indirect(block).pointer(0, AGGREGATE).unwrap();
        IndirectMut(block).set(2, AGGREGATE, pointer);
        IndirectMut(block).set(0, AGGREGATE, Pointer::HOLE);
    });
    assert!(kinds(&image).contains(&Kind::OverflowGap));
}

#[test]
fn a_tree_that_points_back_at_itself_ends() {
    // The second indirect block of the LUN is its first one once more.
    let image = spoil_at(at(VOLUME, LUN, 2, 0), |block| {
        let pointer = Indirect(block).pointer(0, VOLUME).unwrap();
        for slot in 1..255 {
            IndirectMut(block).set(slot, VOLUME, pointer);
        }
    });
    let report = report(&image);
    assert!(report.totals[&Kind::HeaderMismatch] >= 250, "{report}");
    assert!(report.totals[&Kind::DoubleReference] >= 250, "{report}");
    assert!(report.problems.len() < 400, "kept problems are bounded");
    assert!(report.to_string().contains("more of the same kinds"));
    assert!(report.problem_count() > report.problems.len() as u64);
}

#[test]
fn extents_must_not_collide() {
    let image = build(Changes {
        config: Some(&|config| {
            config.members[0].data_first.0 = 100;
            config.extents[0].first_dbn.0 = 100;
        }),
        ..Changes::default()
    });
    expect(&image, Kind::ExtentsCollide, &["member 0", "label"]);
}

#[test]
fn a_lost_label_copy_is_a_problem_and_missing_superblock_copies_are_warnings() {
    let image = image::sound();
    let end = image.memory.lock()[0].len();
    let label = usize::try_from(LABEL_BYTES).unwrap();
    image.memory.lock()[0][end - label..].fill(0);
    image.memory.lock()[1][usize::try_from(SUPERBLOCK_OFFSETS[1]).unwrap()] ^= 1;
    let report = report(&image);
    let found: Vec<Kind> = report.problems.iter().map(|it| it.kind).collect();
    assert_eq!(found, [Kind::LabelDamaged], "{report}");
    let kinds: Vec<Kind> = report.totals.keys().copied().collect();
    let expected = [
        Kind::LabelDamaged,
        Kind::SuperblockDamaged,
        Kind::SuperblockStale,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn copies_of_one_age_that_differ_are_problems() {
    let sound = image::sound();
    let other = build(Changes {
        superblock: Some(&|s| s.written_seconds += 1),
        ..Changes::default()
    });
    let at = usize::try_from(SUPERBLOCK_OFFSETS[1]).unwrap();
    let block = other.memory.lock()[0][at..at + 4096].to_vec();
    sound.memory.lock()[1][at..at + 4096].copy_from_slice(&block);
    let report = report(&sound);
    assert!(!report.problems.is_empty());
    let differ = |p: &Problem| p.kind == Kind::SuperblockCopiesDiffer;
    assert!(report.problems.iter().all(differ), "{report}");

    let sound = image::sound();
    let mut config = sound.config.clone();
    config.reserve_blocks += 1;
    let at = 128 << 10;
    sound.memory.lock()[0][at..at + (64 << 10)].copy_from_slice(&config.encode());
    let report = crate::sound::report(&sound);
    let differ = |p: &Problem| p.kind == Kind::LabelCopiesDiffer;
    assert!(
        !report.problems.is_empty() && report.problems.iter().all(differ),
        "{report}"
    );
}

#[test]
fn devices_that_do_not_lead_to_a_superblock_are_unreadable() {
    let run = |image: &Image, ids: &[u32]| {
        let ids: Vec<DeviceId> = ids.iter().copied().map(DeviceId).collect();
        check(&image.memory, &ids, &mut |_| {}).expect_err("unreadable")
    };
    let image = image::sound();
    assert_eq!(run(&image, &[]), Unreadable::NoDevices);
    assert_eq!(run(&image, &[0]), Unreadable::Missing { member: 1 });
    assert!(matches!(run(&image, &[0, 0]), Unreadable::Member { .. }));
    image.memory.lock()[1].truncate(1 << 20);
    assert!(matches!(run(&image, &[0, 1]), Unreadable::TooSmall { .. }));
    image.memory.lock()[1] = vec![0; 1050 * 4096];
    assert!(matches!(run(&image, &[0, 1]), Unreadable::NoLabel { .. }));
    let image = image::sound();
    let mut config = image.config.clone();
    config.uuid = [1; 16];
    for at in [128 << 10, (844 << 12) + (128 << 10)] {
        image.memory.lock()[1][at..at + (64 << 10)].copy_from_slice(&config.encode());
    }
    assert!(matches!(run(&image, &[0, 1]), Unreadable::Foreign { .. }));
    let image = image::sound();
    // One newer record decides, because an upgrade may have been interrupted; a torn record does
    // not.
    let at = (844 << 12) + (128 << 10);
    image.memory.lock()[0][at + 8] = 9;
    check(&image.memory, &[DeviceId(0), DeviceId(1)], &mut |_| {}).expect("readable");
    let end = at + (64 << 10) - 32;
    let seal = *blake3::hash(&image.memory.lock()[0][at..end]).as_bytes();
    image.memory.lock()[0][end..end + 32].copy_from_slice(&seal);
    assert!(matches!(run(&image, &[0, 1]), Unreadable::Version { .. }));
    let image = image::sound();
    for device in 0..2 {
        for at in [512 << 10, (844 << 12) + (512 << 10)] {
            image.memory.lock()[device][at] ^= 1;
        }
    }
    assert!(matches!(
        run(&image, &[0, 1]),
        Unreadable::NoSuperblock { .. }
    ));
}

#[test]
fn damage_beyond_the_first_window_is_found_and_what_lies_before_is_reported_once() {
    let sound = image::far();
    let far_data = sound.pvbn(64, 0, sound.vvbn(64, 0, 599));
    assert!(far_data > 1 << 24 && sound.vvbn(64, 0, 599) > 1 << 24);
    sound.flip(far_data);
    expect(&sound, Kind::TagMismatch, &["LUN lun0", "fbn 599"]);
    let first_window = image::far();
    first_window.flip(first_window.pvbn(ACTIVE_MAP.0, 1, 0));
    expect(&first_window, Kind::TagMismatch, &["active map", "level 1"]);
    let image = build(Changes {
        far: true,
        block: Some(&mut |spot, block| {
            if spot.file == ACTIVE_MAP.0 && spot.level == 0 && spot.index > 0 {
                bitmap::set(block, 200);
            }
        }),
        ..Changes::default()
    });
    let leaks: Vec<String> = report(&image)
        .problems
        .iter()
        .filter(|problem| problem.kind == Kind::Leaked)
        .map(Problem::to_string)
        .collect();
    assert_eq!(leaks.len(), 2, "{leaks:?}");
    assert!(leaks[0].contains("leaked: aggregate, pvbn"), "{leaks:?}");
    assert!(
        leaks[1].contains("leaked: volume vol0 (64), vvbn"),
        "{leaks:?}"
    );
}

#[test]
fn copies_in_the_slot_of_another_age_are_problems() {
    let image = image::sound();
    {
        let device = &mut image.memory.lock()[0];
        let record = device[128 << 10..192 << 10].to_vec();
        device[64 << 10..128 << 10].copy_from_slice(&record);
        let superblock = device[512 << 10..(512 << 10) + 4096].to_vec();
        device[256 << 10..(256 << 10) + 4096].copy_from_slice(&superblock);
    }
    assert_eq!(kinds(&image), [Kind::LabelSlot, Kind::SuperblockSlot]);
}

#[test]
fn names_of_kinds_are_unique() {
    let names: std::collections::BTreeSet<&str> =
        Kind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), Kind::ALL.len());
    assert!(names.len() >= 20);
}
