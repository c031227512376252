//! A small aggregate, complete: two members with a gap between their extents; volume `vol0` (64)
//! with LUN `lun0` (64: holes, two levels), a LUN being deleted (65: shrunk), directories, maps,
//! and a block in the overflow file; and a container (65) that is left of a deleted volume.

use std::collections::BTreeMap;

use everglade_format::config::JournalRegion;
use everglade_format::indirect::BlockKind;
use everglade_format::label::{
    CONFIG_OFFSETS, SUPERBLOCK_OFFSETS, config_slot, label_offsets, superblock_slot,
};
use everglade_format::metafile::{
    ACTIVE_MAP, CONTEXT_MAP, DIRECTORY, HIDDEN, INODE_FILE, OVERFLOW, TOP_AREAS,
};
use everglade_format::{
    BITS_PER_BLOCK, BLOCK_SIZE, Block, Config, Context, CpNumber, Dbn, Directory, Entry, EntryKind,
    Extent, FileId, Inode, Kind as FileKind, Layer, Member, Owner, Pvbn, Superblock, Tag, TagKey,
    TopAreas, VolumeSuperblock, bitmap, context,
};

use everglade_env::{DeviceId, Storage};

use crate::memory::Memory;
use crate::planned::{Node, Planned, Spoil, Spot, header, pointer};

pub(crate) const UUID: [u8; 16] = [0xee; 16];
const SECRET: [u8; 32] = [0x5e; 32];
pub(crate) const CP: CpNumber = CpNumber(7);
pub(crate) const DEVICE_BLOCKS: u64 = 1100;
const EMPTY: Block = [0; BLOCK_SIZE];
/// Offset of the volume superblock among spots: it belongs to no file.
pub(crate) const SUPERBLOCK_FILE: u32 = 0;

pub(crate) struct Image {
    pub(crate) memory: Memory,
    pub(crate) config: Config,
    /// Numbers of all blocks: (layer, file, level, index) to pvbn or vvbn.
    pub(crate) numbers: BTreeMap<(Layer, u32, u8, u64), u64>,
}

/// Possible changes besides blocks.
#[derive(Default)]
pub(crate) struct Changes<'c> {
    pub(crate) block: Option<Spoil<'c>>,
    pub(crate) superblock: Option<&'c dyn Fn(&mut Superblock)>,
    pub(crate) config: Option<&'c dyn Fn(&mut Config)>,
    /// True for block numbers too large for one window of the verifier.
    pub(crate) far: bool,
}

/// The positions of block numbers.
#[derive(Clone, Copy)]
struct Scale {
    /// First pvbn of the second extent.
    second_extent: u64,
    /// First vvbn of a block; 2 to 9 stay free.
    first_vvbn: u64,
    container_blocks: u64,
}

const NEAR: Scale = Scale {
    second_extent: 1024,
    first_vvbn: 10,
    container_blocks: 32_768,
};
const FAR: Scale = Scale {
    second_extent: 3 << 24,
    first_vvbn: (5 << 24) + 10,
    container_blocks: 6 << 24,
};

fn config(scale: Scale) -> Config {
    let member = |n: u8| Member {
        uuid: [n; 16],
        size_blocks: DEVICE_BLOCKS,
        data_first: Dbn(256),
        seat: everglade_format::Seat::ALONE,
    };
    let extent = |base, length, member| Extent {
        base,
        length,
        group: 0,
        column: member,
        member,
        first_dbn: Dbn(256),
    };
    Config {
        member_index: 0,
        epoch: 1,
        compatible: 0,
        incompatible: 0,
        uuid: UUID,
        secret: SECRET,
        created_seconds: 7,
        area_blocks: 256,
        reserve_blocks: 10,
        journal: JournalRegion::default(),
        raid_log_blocks: 0,
        name: "aggr0".into(),
        members: vec![member(1), member(2)],
        extents: vec![extent(0, 512, 0), extent(scale.second_extent, 256, 1)],
    }
}

pub(crate) fn key() -> TagKey {
    TagKey::new(&SECRET)
}

/// The image as it should be.
pub(crate) fn sound() -> Image {
    build(Changes::default())
}

/// Returns the image with large block numbers.
pub(crate) fn far() -> Image {
    build(Changes {
        far: true,
        ..Changes::default()
    })
}

/// The image with blocks changed before they are sealed.
pub(crate) fn spoiled(mut spoil: impl FnMut(Spot, &mut Block)) -> Image {
    build(Changes {
        block: Some(&mut spoil),
        ..Changes::default()
    })
}

fn data(n: u64) -> Block {
    let mut block = [0; BLOCK_SIZE];
    for (word, bytes) in (n << 32..).zip(block.chunks_mut(8)) {
        bytes.copy_from_slice(&word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
    block
}

fn directory_leaf(file: FileId, entries: &[(u32, EntryKind, &str)]) -> Block {
    let mut block = [0; BLOCK_SIZE];
    header(BlockKind::Directory, 0, CP, file, 0).encode(&mut block);
    for (slot, (id, kind, name)) in (3..).zip(entries) {
        let entry = Entry::new(FileId(*id), *kind, name);
        Directory::encode_into(&mut block, slot, Some(&entry));
    }
    block
}

fn metafile(id: FileId, blocks: u64, leaves: &[(u64, Block)]) -> Planned {
    let mut planned = Planned::new(id.0, FileKind::Metafile, blocks);
    planned.leaves = leaves.iter().copied().collect();
    planned
}

fn top_areas_leaf() -> Block {
    let mut block = [0; BLOCK_SIZE];
    header(BlockKind::TopAreas, 0, CP, TOP_AREAS, 0).encode(&mut block);
    TopAreas(vec![(0, 17), (4, 200)]).encode_into(&mut block);
    block
}

fn volume_files(scale: Scale) -> Vec<Planned> {
    let area = scale.first_vvbn / BITS_PER_BLOCK;
    let mut lun = Planned::new(64, FileKind::Lun, 600);
    lun.leaves = [0, 1, 5, 254, 255, 599].map(|fbn| (fbn, data(fbn))).into();
    let mut hidden = Planned::new(65, FileKind::Lun, 600);
    hidden.leaves = [3, 300].map(|fbn| (fbn, data(1000 + fbn))).into();
    hidden.inode.size_bytes = 10 * BLOCK_SIZE as u64;
    let names = directory_leaf(DIRECTORY, &[(64, EntryKind::Lun, "lun0")]);
    let gone = directory_leaf(HIDDEN, &[(65, EntryKind::Lun, "lun0")]);
    vec![
        metafile(ACTIVE_MAP, area + 1, &[(0, EMPTY), (area, EMPTY)]),
        metafile(OVERFLOW, 1, &[(0, data(77))]),
        metafile(TOP_AREAS, 1, &[(0, top_areas_leaf())]),
        metafile(
            DIRECTORY,
            2,
            &[(1, {
                let mut names = names;
                header(BlockKind::Directory, 0, CP, DIRECTORY, 1).encode(&mut names);
                names
            })],
        ),
        metafile(HIDDEN, 1, &[(0, gone)]),
        lun,
        hidden,
    ]
}

fn aggregate_files(container: Planned, scale: Scale) -> Vec<Planned> {
    let names = directory_leaf(DIRECTORY, &[(64, EntryKind::Volume, "vol0")]);
    let gone = directory_leaf(HIDDEN, &[(65, EntryKind::Volume, "old")]);
    let mut hidden = metafile(HIDDEN, 1, &[]);
    hidden.inode.inline = Some(gone[16 + 3 * 128..16 + 4 * 128].to_vec());
    let mut rest = Planned::new(65, FileKind::Container, 32_768);
    rest.leaves = [9, 700].map(|vvbn| (vvbn, data(2000 + vvbn))).into();
    let bits = scale.second_extent / BITS_PER_BLOCK;
    let contexts = scale.second_extent / context::CONTEXTS_PER_BLOCK;
    vec![
        metafile(ACTIVE_MAP, bits + 1, &[(0, EMPTY), (bits, EMPTY)]),
        metafile(OVERFLOW, 2, &[(0, data(78)), (1, data(79))]),
        metafile(TOP_AREAS, 0, &[]),
        metafile(DIRECTORY, 1, &[(0, names)]),
        hidden,
        metafile(CONTEXT_MAP, contexts + 1, &[(1, EMPTY), (contexts, EMPTY)]),
        container,
        rest,
    ]
}

/// An inode file with a place for each of `files`.
fn inode_file(files: &[Planned]) -> Planned {
    let blocks = files.iter().map(|f| Inode::block_and_slot(f.inode.id).0);
    let blocks: Vec<u64> = blocks.collect();
    let size = blocks.iter().max().unwrap() + 1;
    let mut planned = Planned::new(INODE_FILE.0, FileKind::Metafile, size);
    planned.leaves = blocks.into_iter().map(|b| (b, [0; BLOCK_SIZE])).collect();
    planned
}

fn fill_inodes(planned: &mut Planned, files: &[Planned], layer: Layer) {
    for (index, block) in &mut planned.leaves {
        header(BlockKind::Inodes, 0, CP, INODE_FILE, *index).encode(block);
    }
    for file in files {
        let (block, slot) = Inode::block_and_slot(file.inode.id);
        let block = planned.leaves.get_mut(&block).unwrap();
        file.inode.encode_into(block, slot, layer);
    }
}

fn by_id(files: &mut [Planned], id: FileId) -> &mut Planned {
    files.iter_mut().find(|f| f.inode.id == id).unwrap()
}

/// Every number of `files` and of their inode file.
fn all_numbers<'f>(files: impl IntoIterator<Item = &'f Planned>) -> Vec<(u32, Node, u64)> {
    let of = |f: &'f Planned| f.numbers.iter().map(|(n, at)| (f.inode.id.0, *n, *at));
    files.into_iter().flat_map(of).collect()
}

fn mark(map: &mut Planned, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        let leaf = map.leaves.get_mut(&(number / BITS_PER_BLOCK)).unwrap();
        assert!(bitmap::set(leaf, number % BITS_PER_BLOCK), "{number} twice");
    }
}

/// Builds the image; its contents are in the module's documentation.
pub(crate) fn build(mut changes: Changes<'_>) -> Image {
    let mut nothing = |_: Spot, _: &mut Block| {};
    let spoil: Spoil<'_> = changes.block.take().unwrap_or(&mut nothing);
    let scale = if changes.far { FAR } else { NEAR };
    let mut config = config(scale);
    if let Some(change) = changes.config {
        change(&mut config);
    }
    let bytes = |member: &Member| member.size_blocks * BLOCK_SIZE as u64;
    let memory = Memory::new(&config.members.iter().map(bytes).collect::<Vec<_>>());
    let key = key();
    let mut numbers = BTreeMap::new();

    // The volume: numbers first, contents when all numbers are known.
    let mut files = volume_files(scale);
    let mut inodes = inode_file(&files);
    let mut next_vvbn = scale.first_vvbn - 1;
    let mut next = || {
        next_vvbn += 1;
        next_vvbn
    };
    files.iter_mut().for_each(|f| f.allocate(&mut next));
    inodes.allocate(&mut next);
    let vvbns = all_numbers(files.iter().chain([&inodes]));
    let map = by_id(&mut files, ACTIVE_MAP);
    mark(map, vvbns.iter().map(|(_, _, vvbn)| *vvbn).chain([1]));
    for (file, (level, index), vvbn) in &vvbns {
        numbers.insert((Layer::Volume, *file, *level, *index), *vvbn);
    }

    // The container and the rest of the aggregate get their numbers before the volume is sealed.
    let mut container = Planned::new(64, FileKind::Container, scale.container_blocks);
    container.leaves = vvbns
        .iter()
        .map(|(_, _, v)| (*v, [0; BLOCK_SIZE]))
        .collect();
    container.leaves.insert(1, [0; BLOCK_SIZE]);
    let mut aggregate = aggregate_files(container, scale);
    let mut aggregate_inodes = inode_file(&aggregate);
    // Every other block, in both extents, beginning near the end of the first.
    let mut next_pvbn = 489;
    let mut next = || {
        next_pvbn = match next_pvbn {
            509 => scale.second_extent + 2,
            before => before + 2,
        };
        next_pvbn
    };
    aggregate.iter_mut().for_each(|f| f.allocate(&mut next));
    aggregate_inodes.allocate(&mut next);
    let pvbns = all_numbers(aggregate.iter().chain([&aggregate_inodes]));
    for (file, (level, index), pvbn) in &pvbns {
        numbers.insert((Layer::Aggregate, *file, *level, *index), *pvbn);
    }

    // Seal the volume into the leaves of the container.
    let container = by_id(&mut aggregate, FileId(64));
    let homes = container.numbers.clone();
    let leaves = &mut container.leaves;
    let mut put = |_: Node, vvbn: u64, block: &Block| {
        leaves.insert(vvbn, *block);
        let mut hint = homes[&(0, vvbn)];
        if vvbn == numbers[&(Layer::Volume, 64, 0, 5)] {
            hint += 1;
        }
        pointer(&key, vvbn, hint, block)
    };
    let layer = Layer::Volume;
    files
        .iter_mut()
        .for_each(|f| f.seal(layer, CP, spoil, &mut put));
    fill_inodes(&mut inodes, &files, layer);
    inodes.seal(layer, CP, spoil, &mut put);
    let superblock = VolumeSuperblock {
        volume: FileId(64),
        cp: CP,
        uuid: UUID,
        blocks_used: vvbns.len() as u64 + 1,
        frontier: scale.first_vvbn / BITS_PER_BLOCK + 1,
        next_file: FileId(66),
        sync: Default::default(),
        lost: 0,
        inode_file: inodes.inode,
        snapshots: Default::default(),
    };
    let mut block = superblock.encode();
    let spot = Spot {
        layer,
        file: SUPERBLOCK_FILE,
        level: 0,
        index: 0,
    };
    spoil(spot, &mut block);
    container.leaves.insert(1, block);

    // Maps of the aggregate.
    let used: Vec<u64> = pvbns.iter().map(|(_, _, pvbn)| *pvbn).collect();
    let map = by_id(&mut aggregate, ACTIVE_MAP);
    mark(map, used.iter().copied());
    let tags: BTreeMap<(u32, u64), Tag> = aggregate
        .iter()
        .filter(|f| f.inode.kind == FileKind::Container)
        .flat_map(|f| {
            f.leaves
                .iter()
                .map(|(v, b)| ((f.inode.id.0, *v), key.tag(b)))
        })
        .collect();
    let contexts = &mut by_id(&mut aggregate, CONTEXT_MAP).leaves;
    for (file, (level, index), pvbn) in &pvbns {
        let (file, level, index) = (*file, *level, *index);
        let of_file = Owner::File { level, index };
        let (file, owner, tag) = match level {
            0 if file >= 64 => {
                let owner = Owner::Container { vvbn: index };
                (file, owner, tags[&(file, index)])
            }
            // Blocks in the overflow file keep the context of their old owner.
            0 if file == OVERFLOW.0 => (ACTIVE_MAP.0, of_file, Tag(0)),
            _ => (file, of_file, Tag(0)),
        };
        let (leaf, slot) = context::block_and_slot(Pvbn(*pvbn));
        let file = FileId(file);
        let context = Context { file, owner, tag };
        context.encode_into(contexts.get_mut(&leaf).unwrap(), slot);
    }

    // Seal the aggregate.
    let layer = Layer::Aggregate;
    let mut put = |_: Node, pvbn: u64, block: &Block| {
        write(&memory, &config, pvbn, block);
        pointer(&key, 0, pvbn, block)
    };
    aggregate
        .iter_mut()
        .for_each(|f| f.seal(layer, CP, spoil, &mut put));
    fill_inodes(&mut aggregate_inodes, &aggregate, layer);
    aggregate_inodes.seal(layer, CP, spoil, &mut put);
    let areas: std::collections::BTreeSet<u64> = used.iter().map(|p| p / 256).collect();
    let mut superblock = Superblock {
        cp: CP,
        uuid: UUID,
        epoch: 1,
        name: None,
        written_seconds: 8,
        clean: true,
        blocks_used: used.len() as u64,
        areas_used: areas.len() as u64,
        frontiers: vec![2, 1],
        next_file: FileId(66),
        inode_file: aggregate_inodes.inode,
        journal_generation: 1,
        journal_sequence: 1,
    };
    if let Some(change) = changes.superblock {
        change(&mut superblock);
    }
    let image = Image {
        memory,
        config,
        numbers,
    };
    image.write_labels(&superblock);
    image
}

fn locate(config: &Config, pvbn: u64) -> (u32, u64) {
    let place = config.geometry().unwrap().locate(Pvbn(pvbn)).unwrap();
    (place.member, place.dbn.0 * BLOCK_SIZE as u64)
}

/// Writes a block to each drive that has it.
fn write(memory: &Memory, config: &Config, pvbn: u64, block: &Block) {
    let (member, offset) = locate(config, pvbn);
    for drive in config.copies_of(member) {
        memory.write(DeviceId(drive), offset, block).unwrap();
    }
}

impl Image {
    fn write_labels(&self, superblock: &Superblock) {
        for member in (0..).take(self.config.members.len()) {
            self.put_records(member, &self.config);
            self.put_superblocks(member, superblock);
        }
    }

    /// Bytes of the labels of a member.
    pub(crate) fn labels(&self, member: u32) -> [u64; 2] {
        let size_blocks = self.config.members[member as usize].size_blocks;
        label_offsets(size_blocks * BLOCK_SIZE as u64)
    }

    /// Writes a config record into both labels of a member.
    pub(crate) fn put_records(&self, member: u32, config: &Config) {
        for label in self.labels(member) {
            self.put_record(member, label, config);
        }
    }

    /// Writes a config record into a label.
    pub(crate) fn put_record(&self, member: u32, label: u64, config: &Config) {
        let mut config = config.clone();
        config.member_index = member;
        let at = label + CONFIG_OFFSETS[config_slot(config.epoch)];
        let written = self.memory.write(DeviceId(member), at, &config.encode());
        written.unwrap();
    }

    /// Writes a superblock into both labels of a member.
    pub(crate) fn put_superblocks(&self, member: u32, superblock: &Superblock) {
        self.put_superblocks_at(member, &self.labels(member), superblock);
    }

    /// Writes a superblock into some labels of a device.
    pub(crate) fn put_superblocks_at(&self, member: u32, labels: &[u64], superblock: &Superblock) {
        let block = superblock.encode(&key());
        for label in labels {
            let at = label + SUPERBLOCK_OFFSETS[superblock_slot(superblock.cp)];
            self.memory.write(DeviceId(member), at, &block).unwrap();
        }
    }

    /// Erases the superblocks of a consistency point from both labels of a member.
    pub(crate) fn erase_superblocks(&self, member: u32, cp: CpNumber) {
        for label in self.labels(member) {
            let at = label + SUPERBLOCK_OFFSETS[superblock_slot(cp)];
            self.memory.write(DeviceId(member), at, &EMPTY).unwrap();
        }
    }

    /// The superblock in the front label of member 0.
    pub(crate) fn superblock(&self) -> Superblock {
        self.superblock_on(0).unwrap()
    }

    /// The superblock of the consistency point in the front label of a member, if it is there.
    pub(crate) fn superblock_on(&self, member: u32) -> Option<Superblock> {
        let mut block = EMPTY;
        let at = SUPERBLOCK_OFFSETS[superblock_slot(CP)];
        self.memory.read(DeviceId(member), at, &mut block).unwrap();
        Superblock::decode(&block, &key(), &UUID).unwrap()
    }

    /// Returns the place of a block of the aggregate: device and byte.
    pub(crate) fn locate(&self, pvbn: u64) -> (u32, u64) {
        locate(&self.config, pvbn)
    }

    /// Number of a block of a volume's file.
    pub(crate) fn vvbn(&self, file: u32, level: u8, index: u64) -> u64 {
        self.numbers[&(Layer::Volume, file, level, index)]
    }

    /// Number of a block of a file of the aggregate.
    pub(crate) fn pvbn(&self, file: u32, level: u8, index: u64) -> u64 {
        self.numbers[&(Layer::Aggregate, file, level, index)]
    }

    /// Flips one bit of a block of the aggregate, sealing nothing.
    pub(crate) fn flip(&self, pvbn: u64) {
        self.flip_on(self.locate(pvbn).0, pvbn);
    }

    /// Flips one bit of a block of the aggregate on one drive that has it.
    pub(crate) fn flip_on(&self, member: u32, pvbn: u64) {
        let (_, offset) = self.locate(pvbn);
        let at = usize::try_from(offset).unwrap() + 1234;
        self.memory.lock()[member as usize][at] ^= 4;
    }
}
