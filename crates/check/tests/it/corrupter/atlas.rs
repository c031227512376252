//! The atlas of an image: every block of every tree, by file, level and index.

use std::collections::BTreeMap;

use everglade_env::{DeviceId, Storage};
use everglade_format::config::CONFIG_BYTES;
use everglade_format::label::{CONFIG_OFFSETS, LABEL_BYTES, SUPERBLOCK_OFFSETS, label_offsets};
use everglade_format::metafile::{DIRECTORY, FIRST_FILE, HIDDEN, INODE_FILE, OVERFLOW};
use everglade_format::{
    BLOCK_SIZE, Block, Config, Directory, FileId, Geometry, Indirect, Inode, Kind as FileKind,
    Layer, Pointer, Pvbn, SPAN, Superblock, TagKey, VolumeSuperblock,
};
use everglade_testing::{Rng, SimWorld};

use super::pick;

/// Names a block: of a volume or, with none, of the aggregate. File 0 of a volume is its
/// superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) volume: Option<u32>,
    pub(crate) file: u32,
    pub(crate) level: u8,
    pub(crate) index: u64,
}

/// The place of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Vvbn in the volume; 0 in the aggregate.
    pub(crate) vvbn: u64,
    pub(crate) pvbn: u64,
}

/// The tree of one file.
pub(crate) struct Tree {
    pub(crate) inode: Inode,
    pub(crate) nodes: BTreeMap<(u8, u64), Node>,
}

/// The trees of one file system.
pub(crate) struct FileSystem {
    /// The volume's id; none for the aggregate.
    pub(crate) volume: Option<u32>,
    /// The volume's name.
    pub(crate) name: String,
    pub(crate) inode_file: Tree,
    pub(crate) files: BTreeMap<u32, Tree>,
    /// Names of files that are not hidden.
    pub(crate) names: BTreeMap<u32, String>,
}

/// A volume.
pub(crate) struct Volume {
    pub(crate) fs: FileSystem,
    pub(crate) superblock: VolumeSuperblock,
    /// Pvbns by vvbn: from the volume's container or, for a clone, from its parents' too.
    pub(crate) places: BTreeMap<u64, u64>,
}

/// The whole image.
pub(crate) struct Atlas {
    pub(crate) config: Config,
    pub(crate) key: TagKey,
    pub(crate) geometry: Geometry,
    pub(crate) superblock: Superblock,
    pub(crate) aggregate: FileSystem,
    pub(crate) volumes: BTreeMap<u32, Volume>,
    /// Contents of all blocks in use, by pvbn.
    pub(crate) contents: BTreeMap<u64, Box<Block>>,
    /// Devices in the order of the members.
    pub(crate) devices: Vec<DeviceId>,
    /// Some label has the record of a change that was cut.
    pub(crate) has_cut_change: bool,
}

/// A leaf of a LUN that can be seen.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) volume: u32,
    pub(crate) file: u32,
    pub(crate) fbn: u64,
    pub(crate) vvbn: u64,
    pub(crate) pvbn: u64,
    /// The verifier's name of the LUN.
    pub(crate) lun: String,
}

impl Leaf {
    /// The level 1 block that points at it, and the slot there; none for a LUN of one block.
    pub(crate) fn parent(&self) -> (Spot, u64) {
        let spot = Spot {
            volume: Some(self.volume),
            file: self.file,
            level: 1,
            index: self.fbn / SPAN,
        };
        (spot, self.fbn % SPAN)
    }

    /// Words that name it.
    pub(crate) fn words(&self) -> [String; 2] {
        [self.lun.clone(), format!("fbn {}", self.fbn)]
    }

    /// Returns the slot in the container's level-1 block.
    pub(crate) fn container_slot(&self) -> (Spot, u64) {
        let spot = Spot {
            volume: None,
            file: self.volume,
            level: 1,
            index: self.vvbn / SPAN,
        };
        (spot, self.vvbn % SPAN)
    }
}

/// Reads trees of one image.
struct Surveyor<'s> {
    storage: &'s dyn Storage,
    devices: Vec<DeviceId>,
    geometry: Geometry,
    contents: BTreeMap<u64, Box<Block>>,
}

impl Atlas {
    /// Reads a clean image.
    pub(crate) fn of(world: &SimWorld) -> Atlas {
        let storage = &*world.storage();
        let Labels {
            config,
            devices,
            superblock,
            has_cut_change,
        } = Labels::of(storage, &world.devices());
        let key = TagKey::new(&config.secret);
        let geometry = config.geometry().expect("clean");
        let mut surveyor = Surveyor {
            storage,
            devices,
            geometry,
            contents: BTreeMap::new(),
        };
        let aggregate = surveyor.aggregate(&superblock.inode_file);
        let containers: Vec<(u32, String)> = aggregate.names.clone().into_iter().collect();
        let mut volumes: BTreeMap<u32, Volume> = BTreeMap::new();
        // Parents have lower ids than their clones.
        for (id, name) in containers {
            let above = |parent: u32| &volumes[&parent].places;
            let volume = surveyor.volume(id, name, &aggregate.files[&id], &config, &above);
            volumes.insert(id, volume);
        }
        Atlas {
            config,
            key,
            superblock,
            aggregate,
            volumes,
            geometry: surveyor.geometry,
            contents: surveyor.contents,
            devices: surveyor.devices,
            has_cut_change,
        }
    }

    /// Device and byte of a block.
    pub(crate) fn locate(&self, pvbn: u64) -> (DeviceId, u64) {
        locate(&self.geometry, &self.devices, pvbn)
    }

    /// Device and byte of each label of a member.
    pub(crate) fn labels(&self, member: u32) -> [(DeviceId, u64); 2] {
        let size_blocks = self.config.members[member as usize].size_blocks;
        let device = self.devices[member as usize];
        label_offsets(size_blocks * BLOCK_SIZE as u64).map(|label| (device, label))
    }

    /// Indices of the members.
    pub(crate) fn members(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.devices.len()).expect("few")
    }

    /// The file system that `volume` names.
    pub(crate) fn fs(&self, volume: Option<u32>) -> &FileSystem {
        match volume {
            None => &self.aggregate,
            Some(id) => &self.volumes[&id].fs,
        }
    }

    pub(crate) fn file_systems(&self) -> impl Iterator<Item = &FileSystem> {
        std::iter::once(&self.aggregate).chain(self.volumes.values().map(|volume| &volume.fs))
    }

    pub(crate) fn content(&self, pvbn: u64) -> &Block {
        &self.contents[&pvbn]
    }

    /// Returns all leaves of visible LUNs with at least one level of indirect blocks.
    pub(crate) fn leaves(&self) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        for (id, volume) in &self.volumes {
            for file in volume.fs.names.keys() {
                let tree = &volume.fs.files[file];
                if tree.inode.levels == 0 {
                    continue;
                }
                leaves.extend(tree.leaves().map(|(fbn, node)| Leaf {
                    volume: *id,
                    file: *file,
                    fbn,
                    vvbn: node.vvbn,
                    pvbn: node.pvbn,
                    lun: volume.fs.title(*file),
                }));
            }
        }
        leaves
    }

    /// Returns one such leaf at random.
    pub(crate) fn leaf(&self, rng: &mut Rng) -> Option<Leaf> {
        pick(rng, self.leaves())
    }

    /// An indirect block of a LUN that can be seen, of `level` or above, and what the LUN is
    /// called.
    pub(crate) fn lun_indirect(&self, rng: &mut Rng, level: u8) -> Option<(Spot, Node, String)> {
        let mut found = Vec::new();
        for (id, volume) in &self.volumes {
            for file in volume.fs.names.keys() {
                for ((at, index), node) in &volume.fs.files[file].nodes {
                    let spot = Spot {
                        volume: Some(*id),
                        file: *file,
                        level: *at,
                        index: *index,
                    };
                    if *at >= level.max(1) {
                        found.push((spot, *node, volume.fs.title(*file)));
                    }
                }
            }
        }
        pick(rng, found)
    }

    /// A file system and one of its files that can be seen: a LUN, or the container of a volume.
    pub(crate) fn named_file(&self, rng: &mut Rng) -> Option<(&FileSystem, u32)> {
        let of = |fs| {
            let fs: &FileSystem = fs;
            fs.names.keys().map(move |file| (fs, *file))
        };
        pick(rng, self.file_systems().flat_map(of).collect())
    }
}

impl Tree {
    pub(crate) fn leaves(&self) -> impl Iterator<Item = (u64, Node)> {
        self.nodes
            .range((0, 0)..(1, 0))
            .map(|((_, index), node)| (*index, *node))
    }
}

impl FileSystem {
    pub(crate) fn layer(&self) -> Layer {
        match self.volume {
            None => Layer::Aggregate,
            Some(_) => Layer::Volume,
        }
    }

    /// Returns the verifier's name of the object, as words of its lines.
    pub(crate) fn words(&self) -> String {
        match self.volume {
            None => "aggregate".into(),
            Some(id) => format!("volume {} ({id})", self.name),
        }
    }

    /// Returns the verifier's name of one of its files.
    pub(crate) fn title(&self, file: u32) -> String {
        let name = self.names.get(&file);
        match (file, name) {
            (1, _) => "inode file (file 1)".into(),
            (2, _) => "active map (file 2)".into(),
            (3, _) => "overflow file (file 3)".into(),
            (4, _) => "top areas (file 4)".into(),
            (5, _) => "directory (file 5)".into(),
            (6, _) => "hidden namespace (file 6)".into(),
            (7, _) => "context map (file 7)".into(),
            (9, _) => "notes (file 9)".into(),
            (_, Some(name)) if self.volume.is_some() => format!("LUN {name} (file {file})"),
            (_, Some(name)) => format!("container of {name} (file {file})"),
            (_, None) => format!("(file {file})"),
        }
    }

    pub(crate) fn tree(&self, file: u32) -> &Tree {
        if file == INODE_FILE.0 {
            &self.inode_file
        } else {
            &self.files[&file]
        }
    }

    /// The leaf of the inode file with the inode of `file`, and the slot there.
    pub(crate) fn inode_spot(&self, file: u32) -> (Spot, usize) {
        let (index, slot) = Inode::block_and_slot(FileId(file));
        (self.spot(INODE_FILE.0, 0, index), slot)
    }

    pub(crate) fn spot(&self, file: u32, level: u8, index: u64) -> Spot {
        Spot {
            volume: self.volume,
            file,
            level,
            index,
        }
    }

    /// Blocks of all trees but leaves of LUNs, containers and the overflow file: metadata.
    pub(crate) fn metadata(&self) -> Vec<(Spot, Node)> {
        let files = self.files.iter().map(|(id, tree)| (*id, tree));
        let all = files.chain([(INODE_FILE.0, &self.inode_file)]);
        let mut found = Vec::new();
        for (file, tree) in all {
            for ((level, index), node) in &tree.nodes {
                if *level > 0 || file < FIRST_FILE.0 && file != OVERFLOW.0 {
                    found.push((self.spot(file, *level, *index), *node));
                }
            }
        }
        found
    }
}

/// The consistency point that was committed last.
pub(crate) fn committed(world: &SimWorld) -> u64 {
    Labels::of(&*world.storage(), &world.devices())
        .superblock
        .cp
        .0
}

fn locate(geometry: &Geometry, devices: &[DeviceId], pvbn: u64) -> (DeviceId, u64) {
    let place = geometry.locate(Pvbn(pvbn)).expect("a block of the image");
    (
        devices[place.member as usize],
        place.dbn.0 * BLOCK_SIZE as u64,
    )
}

/// The labels of a clean image.
struct Labels {
    config: Config,
    /// Devices in the order of the members.
    devices: Vec<DeviceId>,
    superblock: Superblock,
    has_cut_change: bool,
}

impl Labels {
    /// The newest superblock names the epoch of the record. In the front label of each member are
    /// both, unless a power cut left the superblock of the consistency point before.
    fn of(storage: &dyn Storage, devices: &[DeviceId]) -> Labels {
        let mut records = Vec::new();
        for device in devices {
            for slot in CONFIG_OFFSETS {
                let mut bytes = vec![0; CONFIG_BYTES];
                storage.read(*device, slot, &mut bytes).expect("no faults");
                if let Ok(Some(config)) = Config::decode(&bytes) {
                    records.push((*device, config));
                }
            }
        }
        let (_, any) = records.first().expect("a label");
        let (key, uuid) = (TagKey::new(&any.secret), any.uuid);
        let mut superblocks = Vec::new();
        for (device, config) in &records {
            let own = &config.members[config.member_index as usize];
            for label in label_offsets(own.size_blocks * BLOCK_SIZE as u64) {
                if label + LABEL_BYTES > storage.size_bytes(*device) {
                    continue;
                }
                for slot in SUPERBLOCK_OFFSETS {
                    let mut block = [0; BLOCK_SIZE];
                    let read = storage.read(*device, label + slot, &mut block);
                    read.expect("no faults");
                    let decoded = Superblock::decode(&block, &key, &uuid);
                    superblocks.extend(decoded.ok().flatten());
                }
            }
        }
        let superblock = superblocks.into_iter().max_by_key(|it| it.cp);
        let superblock = superblock.expect("a superblock");
        let mut epochs = records.iter().map(|(_, it)| it.epoch);
        let has_cut_change = epochs.any(|epoch| epoch > superblock.epoch);
        // No change replaces member 0. A device of a change that was cut may have another record.
        let is_first = |it: &Config| it.epoch == superblock.epoch && it.member_index == 0;
        let first = records.iter().find(|(_, it)| is_first(it));
        let config = first.expect("a whole label").1.clone();
        let seat = |(device, record): (DeviceId, Config)| {
            let member_index = record.member_index;
            let own = Config {
                member_index,
                ..config.clone()
            };
            (own == record).then_some((member_index, device))
        };
        let seats: BTreeMap<u32, DeviceId> = records.into_iter().filter_map(seat).collect();
        assert_eq!(seats.len(), config.members.len(), "all members");
        Labels {
            config,
            devices: seats.into_values().collect(),
            superblock,
            has_cut_change,
        }
    }
}

impl Surveyor<'_> {
    fn read(&mut self, pvbn: u64) -> Block {
        let (device, offset) = locate(&self.geometry, &self.devices, pvbn);
        let mut block = [0; BLOCK_SIZE];
        self.storage
            .read(device, offset, &mut block)
            .expect("no faults");
        self.contents.insert(pvbn, Box::new(block));
        block
    }

    fn tree(&mut self, layer: Layer, inode: &Inode, pvbn_of: &dyn Fn(&Pointer) -> u64) -> Tree {
        let mut tree = Tree {
            inode: inode.clone(),
            nodes: BTreeMap::new(),
        };
        let mut rest = vec![(inode.levels, 0, inode.root)];
        while let Some((level, index, pointer)) = rest.pop() {
            if pointer.is_hole() {
                continue;
            }
            let (vvbn, pvbn) = (pointer.vvbn.0, pvbn_of(&pointer));
            tree.nodes.insert((level, index), Node { vvbn, pvbn });
            let block = self.read(pvbn);
            for slot in (0..SPAN).filter(|_| level > 0) {
                let child = Indirect(&block).pointer(slot, layer).expect("clean");
                rest.push((level - 1, index * SPAN + slot, child));
            }
        }
        tree
    }

    fn file_system(
        &mut self,
        volume: Option<u32>,
        name: String,
        root: &Inode,
        pvbn_of: &dyn Fn(&Pointer) -> u64,
    ) -> FileSystem {
        let layer = volume.map_or(Layer::Aggregate, |_| Layer::Volume);
        let mut fs = FileSystem {
            volume,
            name,
            inode_file: self.tree(layer, root, pvbn_of),
            files: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        let leaves: Vec<_> = fs.inode_file.leaves().collect();
        for (index, node) in leaves {
            let block = *self.contents[&node.pvbn];
            for (slot, id) in (0..14).zip(index * 14..) {
                let id = FileId(u32::try_from(id).expect("few files"));
                let inode = Inode::decode_from(&block, slot, id, layer).expect("clean");
                if let Some(inode) = inode {
                    fs.files.insert(id.0, self.tree(layer, &inode, pvbn_of));
                }
            }
        }
        for (_, node) in fs
            .files
            .get(&DIRECTORY.0)
            .iter()
            .flat_map(|tree| tree.leaves())
        {
            let entries = Directory::decode(&self.contents[&node.pvbn]).expect("clean");
            fs.names
                .extend(entries.into_iter().map(|(_, e)| (e.file.0, e.name)));
        }
        assert!(
            fs.files
                .get(&HIDDEN.0)
                .is_none_or(|tree| tree.inode.inline.is_none()),
            "directories are blocks"
        );
        fs
    }

    fn aggregate(&mut self, root: &Inode) -> FileSystem {
        self.file_system(None, String::new(), root, &|pointer| pointer.pvbn.0)
    }

    fn volume<'v>(
        &mut self,
        id: u32,
        name: String,
        container: &Tree,
        config: &Config,
        above: &dyn Fn(u32) -> &'v BTreeMap<u64, u64>,
    ) -> Volume {
        assert_eq!(container.inode.kind, FileKind::Container);
        let mut places: BTreeMap<u64, u64> = container
            .leaves()
            .map(|(vvbn, node)| (vvbn, node.pvbn))
            .collect();
        let block = *self.contents[&places[&1]];
        let superblock = VolumeSuperblock::decode(&block, FileId(id), &config.uuid).expect("clean");
        if let Some((parent, _)) = superblock.snapshots.base {
            for (vvbn, pvbn) in above(parent.0) {
                places.entry(*vvbn).or_insert(*pvbn);
            }
        }
        let pvbn_of = |pointer: &Pointer| places[&pointer.vvbn.0];
        let fs = self.file_system(Some(id), name, &superblock.inode_file, &pvbn_of);
        Volume {
            fs,
            superblock,
            places,
        }
    }
}
