//! Blocks on media. Beyond not panicking: what a decoder accepts, the encoder writes, and the
//! decoder reads as the same again.

use everglade_format::config::{CONFIG_BYTES, JournalRegion};
use everglade_format::indirect::{BlockKind, Header};
use everglade_format::volume::Sync;
use everglade_format::{
    BLOCK_SIZE, Block, Config, Context, CpNumber, Dbn, Directory, Entry, EntryKind, Extent, FileId,
    Indirect, IndirectMut, Inode, Kind, Layer, Member, Owner, Pointer, Pvbn, Superblock, Tag,
    TagKey, TopAreas, VolumeSuperblock, Vvbn,
};

use super::Target;

const UUID: [u8; 16] = [7; 16];
const SECRET: [u8; 32] = [9; 32];
const CODE_AT: usize = BLOCK_SIZE - 8;

thread_local! {
    static KEY: TagKey = TagKey::new(&SECRET);
}

/// With the key of the seeds, which takes long to make.
pub(super) fn with_key<T>(run: impl FnOnce(&TagKey) -> T) -> T {
    KEY.with(run)
}

/// The input as a block, cut or padded with zeroes.
fn block(input: &[u8]) -> Block {
    let mut block = [0; BLOCK_SIZE];
    let count = input.len().min(BLOCK_SIZE);
    block[..count].copy_from_slice(&input[..count]);
    block
}

/// Sets the code at the end of a block right.
pub(super) fn seal(block: &mut Block, key: &TagKey) {
    block[CODE_AT..].fill(0);
    let code = key.code(block);
    block[CODE_AT..].copy_from_slice(&code.to_le_bytes());
}

fn both_layers(run: impl Fn(Layer)) {
    run(Layer::Aggregate);
    run(Layer::Volume);
}

fn pointer(number: u64) -> Pointer {
    Pointer {
        vvbn: Vvbn(number + 1),
        pvbn: Pvbn(number + 2),
        tag: Tag(number + 3),
    }
}

fn inode() -> Inode {
    let mut inode = Inode::new(FileId(64), Kind::Lun, CpNumber(5), 1_700_000_000);
    inode.levels = 2;
    inode.size_bytes = 1 << 30;
    inode.blocks = 77;
    inode.root = pointer(40);
    inode
}

pub(super) const CONFIG: Target = Target {
    name: "config-record",
    bytes_max: CONFIG_BYTES - 32,
    seeds: || {
        let member = |number: u8| Member {
            uuid: [number; 16],
            size_blocks: 50_000,
            data_first: Dbn(256),
            seat: everglade_format::Seat::ALONE,
        };
        let extent = |base, number| Extent {
            base,
            length: 1024,
            group: 0,
            column: number,
            member: number,
            first_dbn: Dbn(256),
        };
        let config = Config {
            member_index: 1,
            epoch: 3,
            uuid: UUID,
            secret: SECRET,
            created_seconds: 77,
            compatible: 0,
            incompatible: 0,
            area_blocks: 256,
            reserve_blocks: 100,
            raid_log_blocks: 0,
            journal: JournalRegion::default(),
            name: "aggr0".to_owned(),
            members: vec![member(3), member(4)],
            extents: vec![extent(0, 0), extent(1024, 1)],
        };
        // What follows the tables is zero, and the checksum is set by the harness.
        let bytes = config.encode();
        vec![bytes[..1024].to_vec(), bytes[..300].to_vec()]
    },
    run: |input| {
        let mut record = vec![0; CONFIG_BYTES];
        let count = input.len().min(CONFIG_BYTES - 32);
        record[..count].copy_from_slice(&input[..count]);
        let (body, check) = record.split_at_mut(CONFIG_BYTES - 32);
        check.copy_from_slice(blake3::hash(body).as_bytes());
        if let Ok(Some(config)) = Config::decode(&record) {
            let again = Config::decode(&config.encode());
            assert!(again.is_ok_and(|again| again == Some(config)), "lost");
        }
    },
};

pub(super) const SUPERBLOCK: Target = Target {
    name: "superblock",
    bytes_max: BLOCK_SIZE,
    seeds: || {
        let mut inode_file = Inode::new(FileId(1), Kind::Metafile, CpNumber(1), 0);
        inode_file.levels = 1;
        inode_file.size_bytes = 1 << 20;
        inode_file.root = Pointer {
            vvbn: Vvbn(0),
            ..pointer(40)
        };
        let superblock = Superblock {
            cp: CpNumber(12),
            uuid: UUID,
            epoch: 3,
            name: Some("pool".to_owned()),
            written_seconds: 99,
            clean: true,
            blocks_used: 1000,
            areas_used: 10,
            frontiers: vec![3, 4],
            next_file: FileId(70),
            inode_file,
            journal_generation: 13,
            journal_sequence: 1001,
        };
        vec![with_key(|key| superblock.encode(key)).to_vec()]
    },
    run: |input| {
        with_key(|key| {
            let mut block = block(input);
            seal(&mut block, key);
            if let Ok(Some(superblock)) = Superblock::decode(&block, key, &UUID) {
                let again = Superblock::decode(&superblock.encode(key), key, &UUID);
                assert!(again.is_ok_and(|again| again == Some(superblock)), "lost");
            }
        });
    },
};

pub(super) const VOLUME: Target = Target {
    name: "volume-superblock",
    bytes_max: BLOCK_SIZE,
    seeds: || {
        let volume = VolumeSuperblock {
            volume: FileId(64),
            cp: CpNumber(12),
            uuid: UUID,
            blocks_used: 100,
            frontier: 2,
            next_file: FileId(66),
            sync: Sync::Always,
            lost: 1,
            inode_file: Inode {
                kind: Kind::Metafile,
                id: FileId(1),
                ..inode()
            },
            snapshots: everglade_format::volume::SnapshotRoots::default(),
        };
        vec![volume.encode().to_vec()]
    },
    run: |input| {
        let block = block(input);
        if let Ok(volume) = VolumeSuperblock::decode(&block, FileId(64), &UUID) {
            let again = VolumeSuperblock::decode(&volume.encode(), FileId(64), &UUID);
            assert!(again.is_ok_and(|again| again == volume), "lost");
        }
    },
};

pub(super) const INODE: Target = Target {
    name: "inode",
    bytes_max: BLOCK_SIZE,
    seeds: || {
        let mut inodes = [0; BLOCK_SIZE];
        inode().encode_into(&mut inodes, 1, Layer::Volume);
        vec![inode().encode(Layer::Volume).to_vec(), inodes.to_vec()]
    },
    run: |input| {
        let block = block(input);
        both_layers(|layer| {
            let Some(bytes) = block.first_chunk() else {
                return;
            };
            if let Ok(inode) = Inode::decode(bytes, layer) {
                let again = Inode::decode(&inode.encode(layer), layer);
                assert!(again.is_ok_and(|again| again == inode), "lost");
                let _ = (inode.block_count(), Inode::levels_for(inode.block_count()));
            }
            for slot in 0..14 {
                let _ = Inode::decode_from(&block, slot, FileId(64), layer);
            }
        });
    },
};

pub(super) const INDIRECT: Target = Target {
    name: "indirect",
    bytes_max: BLOCK_SIZE,
    seeds: || {
        let seed = |kind, layer| {
            let mut block = [0; BLOCK_SIZE];
            let header = Header {
                kind,
                level: 1,
                cp: CpNumber(9),
                file: FileId(64),
                index: 3,
            };
            header.encode(&mut block);
            let mut pointer = pointer(17);
            if layer == Layer::Aggregate {
                pointer.vvbn = Vvbn(0);
            }
            IndirectMut(&mut block).set(4, layer, pointer);
            block.to_vec()
        };
        vec![
            seed(BlockKind::AggregateIndirect, Layer::Aggregate),
            seed(BlockKind::VolumeIndirect, Layer::Volume),
        ]
    },
    run: |input| {
        let block = block(input);
        if let Ok(header) = Header::decode(&block) {
            let mut again = block;
            header.encode(&mut again);
            assert!(
                Header::decode(&again).is_ok_and(|again| again == header),
                "lost"
            );
        }
        let indirect = Indirect(&block);
        let _ = (indirect.is_empty(), indirect.next_used(0));
        both_layers(|layer| {
            for slot in 0..255 {
                if let Ok(pointer) = indirect.pointer(slot, layer) {
                    let again = Pointer::decode(pointer.encode(layer), layer);
                    assert!(again.is_ok_and(|again| again == pointer), "lost");
                }
            }
        });
    },
};

pub(super) const DIRECTORY: Target = Target {
    name: "directory",
    bytes_max: BLOCK_SIZE,
    seeds: || {
        let mut block = [0; BLOCK_SIZE];
        for (slot, name) in ["vol0", "a-long.name_42"].into_iter().enumerate() {
            let mut entry = Entry::new(FileId(64), EntryKind::Volume, name);
            entry.deleted_seconds = slot as u64;
            Directory::encode_into(&mut block, slot, Some(&entry));
        }
        vec![block.to_vec()]
    },
    run: |input| {
        let block = block(input);
        if let Ok(entries) = Directory::decode(&block) {
            let mut again = [0; BLOCK_SIZE];
            for (slot, entry) in &entries {
                Directory::encode_into(&mut again, *slot, Some(entry));
            }
            assert!(
                Directory::decode(&again).is_ok_and(|again| again == entries),
                "lost"
            );
        }
    },
};

pub(super) const CONTEXT: Target = Target {
    name: "context",
    bytes_max: BLOCK_SIZE,
    seeds: || {
        let mut block = [0; BLOCK_SIZE];
        let owners = [
            Owner::File { level: 1, index: 9 },
            Owner::Container { vvbn: 77 },
        ];
        for (slot, owner) in owners.into_iter().enumerate() {
            let tag = match owner {
                Owner::File { .. } => Tag(0),
                Owner::Container { .. } => Tag(5),
            };
            let context = Context {
                file: FileId(64),
                owner,
                tag,
            };
            context.encode_into(&mut block, slot);
        }
        vec![block[..64].to_vec()]
    },
    run: |input| {
        let block = block(input);
        for slot in 0..256 {
            if let Ok(context) = Context::decode_from(&block, slot) {
                let mut again = [0; BLOCK_SIZE];
                context.encode_into(&mut again, slot);
                let again = Context::decode_from(&again, slot);
                assert!(again.is_ok_and(|again| again == context), "lost");
            }
        }
    },
};

pub(super) const TOP_AREAS: Target = Target {
    name: "top-areas",
    bytes_max: BLOCK_SIZE,
    seeds: || {
        let mut block = [0; BLOCK_SIZE];
        TopAreas(vec![(3, 100), (9, 50)]).encode_into(&mut block);
        vec![block.to_vec()]
    },
    run: |input| {
        if let Ok(areas) = TopAreas::decode(&block(input)) {
            let mut again = [0; BLOCK_SIZE];
            areas.encode_into(&mut again);
            assert!(
                TopAreas::decode(&again).is_ok_and(|again| again == areas),
                "lost"
            );
        }
    },
};
