//! Version 1 of the format, record by record: each structure with something in every field,
//! encoded, is the bytes in `tests/golden/v1.txt`, and those bytes, decoded, are the structure.
//!
//! The file is never written again (decision 0018): a difference means that this build and another
//! one of version 1 would not understand each other's pools. A new structure gets a section of its
//! own: `EVERGLADE_GOLDEN=write` adds missing sections and changes no existing section. Whole pools
//! are in `crates/testing/fixtures/v1`.
//!
//! ```text
//! [name of a structure] bytes
//! offset: sixteen bytes that are not all zero
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use everglade_format::config::{INCOMPATIBLE_CHANGED, INCOMPATIBLE_SEATS, JournalRegion};
use everglade_format::indirect::BlockKind;
use everglade_format::journal;
use everglade_format::snapshot::{Hold, State};
use everglade_format::volume::{LunCloning, Scan, SnapshotRoots, Split, Sync};
use everglade_format::{
    BLOCK_SIZE, Block, Config, Context, CpNumber, Dbn, Directory, Entry, EntryKind, Extent, FileId,
    Header, Indirect, IndirectMut, Inode, Kind, Layer, Member, Owner, Pointer, Pvbn, Seat,
    SeatState, SnapshotId, SnapshotRecord, Superblock, Tag, TagKey, TopAreas, VolumeSuperblock,
    Vvbn, bitmap, notes, refcount, release,
};

const UUID: [u8; 16] = *b"0123456789abcdef";
const SECRET: [u8; 32] = [0x5e; 32];

fn path() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1.txt")
}

fn key() -> TagKey {
    TagKey::new(&SECRET)
}

/// Inodes besides those of LUNs, by their names in the file.
const OTHER_INODES: [(&str, Kind); 5] = [
    ("inode of a metafile", Kind::Metafile),
    ("inode of a container", Kind::Container),
    ("inode of a summary map", Kind::Summary),
    ("inode of a snapshot table", Kind::Snapshots),
    ("inode of a release file", Kind::Release),
];

fn pointer(layer: Layer) -> Pointer {
    let vvbn = match layer {
        Layer::Aggregate => Vvbn(0),
        Layer::Volume => Vvbn(0x0a_0b0c_0d0e),
    };
    Pointer {
        vvbn,
        pvbn: Pvbn(0x01_0203_0405),
        tag: Tag(0xf1f2_f3f4_f5f6),
    }
}

fn tree(id: u32, kind: Kind, layer: Layer) -> Inode {
    let mut inode = Inode::new(FileId(id), kind, CpNumber(0x1112_1314), 0x6566_6768);
    inode.levels = 3;
    inode.size_bytes = 0x0021_2223_2425;
    inode.blocks = 0x3132_3334;
    inode.root = pointer(layer);
    inode
}

fn inline() -> Inode {
    let mut inode = Inode::new(FileId(4), Kind::Metafile, CpNumber(2), 3);
    inode.inline = Some((1..=192).collect());
    inode
}

fn cut() -> Inode {
    Inode {
        is_cut: true,
        ..tree(70, Kind::Lun, Layer::Volume)
    }
}

fn config() -> Config {
    let member = |n: u8| Member {
        uuid: [n; 16],
        size_blocks: 9_000 + u64::from(n),
        data_first: Dbn(300),
        seat: everglade_format::Seat::ALONE,
    };
    let extent = |member: u32| Extent {
        base: 0x800 * u64::from(member),
        length: 0x400,
        group: 5 + member,
        column: 7 + member,
        member,
        first_dbn: Dbn(300 + u64::from(member)),
    };
    Config {
        member_index: 1,
        epoch: 0x4142_4344,
        compatible: 0x8000_0000_0000_0001,
        incompatible: 0,
        uuid: UUID,
        secret: SECRET,
        created_seconds: 0x5152_5354,
        area_blocks: 0x400,
        reserve_blocks: 0x155,
        journal: JournalRegion {
            member: 1,
            first: Dbn(0x1234),
            blocks: 0x321,
        },
        raid_log_blocks: 0,
        name: "a-name.of_an-aggregate".into(),
        members: vec![member(3), member(4)],
        extents: vec![extent(0), extent(1)],
    }
}

/// A record of a composition that was changed.
fn changed() -> Config {
    Config {
        incompatible: INCOMPATIBLE_CHANGED,
        ..config()
    }
}

/// A record of two mirrors: one of two drives, one of three, of which the data column is behind.
fn mirrored() -> Config {
    let mut config = changed();
    config.incompatible |= INCOMPATIBLE_SEATS;
    for n in 5..8 {
        let like = config.members[0].clone();
        config.members.push(Member {
            uuid: [n; 16],
            ..like
        });
    }
    let places = [
        (0x0102, 0),
        (0x0304, 0),
        (0x0102, 1),
        (0x0304, 2),
        (0x0304, 1),
    ];
    for (member, (group, drive)) in config.members.iter_mut().zip(places) {
        member.seat = Seat::of_mirror(group, drive);
    }
    config.members[1].seat.state = SeatState::Behind;
    config
}

fn superblock() -> Superblock {
    Superblock {
        cp: CpNumber(0x0102_0304_0506),
        uuid: UUID,
        epoch: 0x4142_4344,
        written_seconds: 0x6162_6364,
        clean: true,
        name: Some("another-name".into()),
        blocks_used: 0x7172_7374,
        areas_used: 0x8182_8384,
        frontiers: vec![0x9192_9394, 2, 0],
        next_file: FileId(0xa1a2_a3a4),
        inode_file: tree(1, Kind::Metafile, Layer::Aggregate),
        journal_generation: 0x7071_7273_7475_7677,
        journal_sequence: 0x3031_3233_3435_3637,
    }
}

fn volume(snapshots: SnapshotRoots) -> VolumeSuperblock {
    VolumeSuperblock {
        volume: FileId(0xb1b2_b3b4),
        cp: CpNumber(0x0102_0304_0506),
        uuid: UUID,
        blocks_used: 0xc1c2_c3c4,
        frontier: 0xd1d2_d3d4,
        next_file: FileId(0xe1e2_e3e4),
        sync: Sync::Always,
        lost: 0xf1f2_f3f4,
        inode_file: tree(1, Kind::Metafile, Layer::Volume),
        snapshots,
    }
}

/// A clone that is being split, with everything under way that can be.
fn clone_under_way() -> VolumeSuperblock {
    volume(SnapshotRoots {
        files: Some((FileId(0x1001), FileId(0x1002))),
        release: Some(FileId(0x1003)),
        parent: Some(SnapshotId(0x2001)),
        also: (1..=8).map(|id| SnapshotId(id * 3)).collect(),
        next: SnapshotId(0x2002),
        scan: Scan::Release { next: 0x3001_3002 },
        held_back: 99,
        exclusive: 0x4001_4002,
        base: Some((FileId(0x5001), SnapshotId(0x5002))),
        lun_clone: Some(LunCloning {
            source: SnapshotId(0x6001),
            from: FileId(0x6002),
            to: FileId(0x6003),
            next: 0x6004_6005,
        }),
        split: Split::Copying { next: 0x7001_7002 },
    })
}

fn with(scan: Scan, split: Split) -> VolumeSuperblock {
    let base = split.next().map(|_| (FileId(64), SnapshotId(2)));
    volume(SnapshotRoots {
        files: Some((FileId(65), FileId(66))),
        scan,
        split,
        base,
        ..SnapshotRoots::default()
    })
}

fn record(state: State) -> SnapshotRecord {
    let holds = (0..2u64).map(|n| Hold {
        tag: format!("hold{n}"),
        seconds: 0x1122_3344 + n,
    });
    let is_live = state == State::Live;
    SnapshotRecord {
        id: SnapshotId(0x0101_0102),
        state,
        name: "a-snapshot".into(),
        parent: is_live.then_some(SnapshotId(0x0101_0101)),
        also: (1..=8).map(|id| SnapshotId(id * 5)).collect(),
        is_unfolded: is_live,
        is_in_pass: !is_live,
        next_file: FileId(0x0202_0203),
        cp: CpNumber(0x0303_0304),
        seconds: 0x0404_0405,
        blocks_used: 0x0505_0506,
        exclusive: 0x0606_0607,
        pending: 0x0707_0708,
        lost: 0x0808_0809,
        deleted_seconds: 0,
        inode_file: tree(1, Kind::Metafile, Layer::Volume),
        active_map: tree(2, Kind::Metafile, Layer::Volume),
        holds: if is_live { holds.collect() } else { Vec::new() },
    }
}

fn entries() -> Vec<(usize, Entry)> {
    let entry = |file: u32, kind, name: &str| Entry::new(FileId(file), kind, name);
    vec![
        (0, entry(0x0a0b_0c0d, EntryKind::Volume, "volume")),
        (1, entry(65, EntryKind::Lun, &"l".repeat(64))),
        (30, entry(66, EntryKind::Side, "s")),
    ]
}

fn contexts() -> [Context; 2] {
    [
        Context {
            file: FileId(0x0a0b_0c0d),
            owner: Owner::Container {
                vvbn: 0x0a_0b0c_0d0e,
            },
            tag: Tag(0xf1f2_f3f4_f5f6),
        },
        Context {
            file: FileId(7),
            owner: Owner::File {
                level: 5,
                index: 0x01_0203_0405,
            },
            tag: Tag(0),
        },
    ]
}

fn operations() -> journal::Header {
    let operation = |kind, offset, length| journal::Operation {
        kind,
        volume: FileId(0x0a0b_0c0d),
        file: FileId(0x0e0f_1011),
        offset,
        length,
    };
    journal::Header {
        uuid: UUID,
        epoch: 0x4142_4344,
        life: 0x5152_5354_5556_5758,
        generation: 0x6162_6364_6566_6768,
        first_sequence: 0x7172_7374_7576_7778,
        previous: 0x8182_8384_8586_8788,
        wall_nanos: 0x9192_9394_9596_9798,
        operations: vec![
            operation(journal::Kind::Write, 0x0001_0203_0fff, 4098),
            operation(journal::Kind::Punch, 0x0001_0203_0405, 0x1_0000_0001),
        ],
        codes: vec![0x1112_1314_1516_1718, 2, 3],
    }
}

fn headed(kind: BlockKind, level: u8) -> Block {
    let mut block = [0; BLOCK_SIZE];
    let header = Header {
        kind,
        level,
        cp: CpNumber(0x0102_0304_0506),
        file: FileId(0x0708_090a),
        index: 0x0b0c_0d0e,
    };
    header.encode(&mut block);
    block
}

fn indirect(layer: Layer) -> Block {
    let mut block = headed(BlockKind::indirect(layer), 6);
    for slot in [0, 254] {
        IndirectMut(&mut block).set(slot, layer, pointer(layer));
    }
    block
}

/// Returns all structures on media, as this build writes them.
fn written() -> BTreeMap<&'static str, Vec<u8>> {
    let mut all: BTreeMap<&'static str, Vec<u8>> = BTreeMap::new();
    let mut add = |name, bytes: &[u8]| {
        let known = all.insert(name, bytes.to_vec());
        assert!(known.is_none(), "{name} twice");
    };
    let of = |kind, fill: &dyn Fn(&mut Block)| {
        let mut block = headed(kind, 0);
        fill(&mut block);
        block
    };
    add("config record", &config().encode());
    add("config record, changed", &changed().encode());
    add("config record, mirrors", &mirrored().encode());
    add("superblock", &superblock().encode(&key()));
    add("volume superblock, a clone", &clone_under_way().encode());
    for (name, scan, split) in [
        (
            "volume superblock, fold",
            Scan::Fold { next: 1 << 15 },
            Split::None,
        ),
        (
            "volume superblock, delete, split stopped",
            Scan::Delete { next: 9 },
            Split::Stopped { next: 8 },
        ),
        ("volume superblock, split done", Scan::None, Split::Done),
    ] {
        add(name, &with(scan, split).encode());
    }
    let plain = VolumeSuperblock {
        sync: Sync::Standard,
        ..volume(SnapshotRoots::default())
    };
    add("volume superblock, no snapshot ever", &plain.encode());
    add(
        "snapshot table",
        &of(BlockKind::Snapshots, &|block| {
            SnapshotRecord::encode_into(block, 0, Some(&record(State::Live)));
            SnapshotRecord::encode_into(block, 1, Some(&record(State::Deleting)));
        }),
    );
    add(
        "snapshot table, gone",
        &of(BlockKind::Snapshots, &|block| {
            let gone = SnapshotRecord {
                is_in_pass: false,
                ..record(State::Gone)
            };
            SnapshotRecord::encode_into(block, 1, Some(&gone));
        }),
    );
    add(
        "release file",
        &of(BlockKind::Releases, &|block| {
            release::encode_into(block, &[1, 0x0a_0b0c_0d0e, 0xff_ffff_ffef]);
        }),
    );
    add(
        "directory",
        &of(BlockKind::Directory, &|block| {
            for (slot, entry) in entries() {
                Directory::encode_into(block, slot, Some(&entry));
            }
        }),
    );
    add(
        "top areas",
        &of(BlockKind::TopAreas, &|block| {
            TopAreas(vec![(0x0102_0304, 0x0506_0708), (9, 10)]).encode_into(block);
        }),
    );
    add(
        "notes",
        &of(BlockKind::Notes, &|block| {
            notes::encode_into(block, b"what programs keep");
        }),
    );
    add(
        "inodes",
        &of(BlockKind::Inodes, &|block| {
            tree(65, Kind::Lun, Layer::Volume).encode_into(block, 0, Layer::Volume);
            cut().encode_into(block, 13, Layer::Volume);
        }),
    );
    for (name, kind) in OTHER_INODES {
        let inode = tree(0x0a0b_0c0d, kind, Layer::Aggregate);
        add(name, &inode.encode(Layer::Aggregate));
    }
    add("inode with its data", &inline().encode(Layer::Aggregate));
    add(
        "indirect block of the aggregate",
        &indirect(Layer::Aggregate),
    );
    add("indirect block of a volume", &indirect(Layer::Volume));
    add("lost", &Pointer::LOST.encode(Layer::Volume));
    let mut map = [0; BLOCK_SIZE];
    for (slot, context) in contexts().iter().enumerate() {
        context.encode_into(&mut map, slot * 255);
    }
    add("context map", &map);
    let mut counts = [0; BLOCK_SIZE];
    refcount::set(&mut counts, 1, 0x0102);
    refcount::set(&mut counts, 2_047, refcount::COUNT_MAX);
    add("refcount file", &counts);
    let mut bits = [0; BLOCK_SIZE];
    for bit in [0, 9, 0x7fff] {
        bitmap::set(&mut bits, bit);
    }
    add("active map", &bits);
    let mut journal = [0; BLOCK_SIZE];
    let code = operations().encode_into(&mut journal, &key());
    add("journal record", &journal);
    add("code of that", &code.to_le_bytes());
    let counting: Block = std::array::from_fn(|at| u8::try_from(at % 251).expect("small"));
    add("code of a block", &key().code(&counting).to_le_bytes());
    all
}

/// The file's text of a section.
fn text(name: &str, bytes: &[u8]) -> String {
    let mut text = format!("[{name}] {}\n", bytes.len());
    for (row, part) in bytes.chunks(16).enumerate() {
        if part.iter().any(|byte| *byte != 0) {
            let hex: Vec<String> = part.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{}: {}", row * 16, hex.join(" ")).expect("memory");
        }
    }
    text
}

/// Sections of the file by name: their text, and their bytes.
fn frozen() -> BTreeMap<String, (String, Vec<u8>)> {
    let whole = std::fs::read_to_string(path()).unwrap_or_default();
    let mut all = BTreeMap::new();
    for section in whole.split_inclusive("\n\n") {
        let section = section.trim_end_matches('\n');
        let (head, rows) = section.split_once('\n').expect("a section has rows");
        let (name, length) = head
            .strip_prefix('[')
            .and_then(|head| head.split_once("] "))
            .expect("a name and a length");
        let mut bytes = vec![0; length.parse().expect("a number")];
        for row in rows.lines() {
            let (at, hex) = row.split_once(": ").expect("an offset");
            let at: usize = at.parse().expect("a number");
            for (index, byte) in hex.split(' ').enumerate() {
                bytes[at + index] = u8::from_str_radix(byte, 16).expect("a byte");
            }
        }
        all.insert(name.to_owned(), (format!("{section}\n"), bytes));
    }
    all
}

/// The bytes of a section that is as long as a block.
fn block(name: &str) -> Block {
    let (_, bytes) = &frozen()[name];
    bytes.as_slice().try_into().expect("a block")
}

#[test]
fn every_structure_is_written_as_version_1_has_it() {
    let (written, mut known) = (written(), frozen());
    if std::env::var("EVERGLADE_GOLDEN").is_ok_and(|wish| wish == "write") {
        for (name, bytes) in &written {
            known
                .entry((*name).to_owned())
                .or_insert_with(|| (text(name, bytes), bytes.clone()));
        }
        let sections: Vec<&str> = known.values().map(|(text, _)| text.as_str()).collect();
        std::fs::create_dir_all(path().parent().expect("a folder")).expect("a folder");
        std::fs::write(path(), sections.join("\n")).expect("written");
    }
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    let expected: Vec<&str> = written.keys().copied().collect();
    assert_eq!(
        names, expected,
        "sections that nobody writes, or that are missing"
    );
    for (name, bytes) in &written {
        let (frozen, _) = &known[*name];
        assert_eq!(
            &text(name, bytes),
            frozen,
            "{name} is not what version 1 has"
        );
    }
}

#[test]
fn every_structure_of_version_1_is_read() {
    let known = frozen();
    let bytes = |name: &str| known[name].1.clone();
    for (name, expected) in [
        ("config record", config()),
        ("config record, changed", changed()),
        ("config record, mirrors", mirrored()),
    ] {
        assert_eq!(Config::decode(&bytes(name)), Ok(Some(expected)));
    }
    let found = Superblock::decode(&block("superblock"), &key(), &UUID);
    assert_eq!(found, Ok(Some(superblock())));
    let volumes = [
        ("volume superblock, a clone", clone_under_way()),
        (
            "volume superblock, fold",
            with(Scan::Fold { next: 1 << 15 }, Split::None),
        ),
        (
            "volume superblock, delete, split stopped",
            with(Scan::Delete { next: 9 }, Split::Stopped { next: 8 }),
        ),
        (
            "volume superblock, split done",
            with(Scan::None, Split::Done),
        ),
    ];
    for (name, expected) in volumes {
        let found = VolumeSuperblock::decode(&block(name), expected.volume, &UUID);
        assert_eq!(found, Ok(expected), "{name}");
    }
    let records = vec![(0, record(State::Live)), (1, record(State::Deleting))];
    assert_eq!(
        SnapshotRecord::decode(&block("snapshot table")),
        Ok(records)
    );
    let vvbns = vec![1, 0x0a_0b0c_0d0e, 0xff_ffff_ffef];
    assert_eq!(release::decode(&block("release file")), Ok(vvbns));
    assert_eq!(Directory::decode(&block("directory")), Ok(entries()));
    let areas = TopAreas(vec![(0x0102_0304, 0x0506_0708), (9, 10)]);
    assert_eq!(TopAreas::decode(&block("top areas")), Ok(areas));
    assert_eq!(
        notes::decode(&block("notes")),
        Ok(&b"what programs keep"[..])
    );
    for (slot, inode) in [(0, tree(65, Kind::Lun, Layer::Volume)), (13, cut())] {
        let found = Inode::decode_from(&block("inodes"), slot, inode.id, Layer::Volume);
        assert_eq!(found, Ok(Some(inode)));
    }
    for (name, kind) in OTHER_INODES {
        let bytes = bytes(name).try_into().expect("an inode");
        let expected = tree(0x0a0b_0c0d, kind, Layer::Aggregate);
        assert_eq!(Inode::decode(&bytes, Layer::Aggregate), Ok(expected));
    }
    let bytes_of_one = bytes("inode with its data").try_into().expect("an inode");
    assert_eq!(Inode::decode(&bytes_of_one, Layer::Aggregate), Ok(inline()));
    for (name, layer) in [
        ("indirect block of the aggregate", Layer::Aggregate),
        ("indirect block of a volume", Layer::Volume),
    ] {
        let block = block(name);
        let header = Header::decode(&block).expect("a header");
        let expected = Header::decode(&headed(BlockKind::indirect(layer), 6));
        assert_eq!(Ok(header), expected);
        for slot in [0, 254] {
            let found = Indirect(&block).pointer(slot, layer);
            assert_eq!(found, Ok(pointer(layer)), "{name}");
        }
        assert_eq!(Indirect(&block).pointer(1, layer), Ok(Pointer::HOLE));
    }
    let lost = bytes("lost").try_into().expect("a pointer");
    assert_eq!(Pointer::decode(lost, Layer::Volume), Ok(Pointer::LOST));
    for (slot, context) in contexts().into_iter().enumerate() {
        let found = Context::decode_from(&block("context map"), slot * 255);
        assert_eq!(found, Ok(context));
    }
    let counts: Vec<_> = refcount::counts(&block("refcount file")).collect();
    assert_eq!(counts, [(1, 0x0102), (2_047, refcount::COUNT_MAX)]);
    let bits: Vec<u64> = bitmap::ones(&block("active map")).collect();
    assert_eq!(bits, [0, 9, 0x7fff]);
    let found = journal::Header::decode(&block("journal record"), &key()).expect("whole");
    let code = u64::from_le_bytes(bytes("code of that").try_into().expect("a word"));
    assert_eq!(found, Some((operations(), code)));
}
