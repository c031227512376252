//! Every block of metadata of an aggregate, read with nothing of the engine.

use std::collections::BTreeMap;

use everglade_env::{BLOCK_SIZE, DeviceId, Storage};
use everglade_format::config::CONFIG_BYTES;
use everglade_format::label::{CONFIG_OFFSETS, SUPERBLOCK_OFFSETS};
use everglade_format::metafile::{INODE_FILE, OVERFLOW};
use everglade_format::volume::SUPERBLOCK_VVBN;
use everglade_format::{
    BLOCK_SIZE as BYTES, Block, Config, FileId, Geometry, Indirect, Inode, Kind, Layer, Pointer,
    Pvbn, SPAN, SnapshotRecord, Superblock, TagKey, VolumeSuperblock,
};

use crate::SimWorld;

/// A block of metadata.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    /// The volume; none of the aggregate.
    pub(super) volume: Option<u32>,
    /// The snapshot in whose image it is; none in the active one.
    pub(super) snapshot: Option<u32>,
    pub(super) file: u32,
    pub(super) kind: PartKind,
    pub(super) level: u8,
    pub(super) index: u64,
    pub(super) device: u32,
    /// Block of the device.
    pub(super) block: u64,
}

/// The kind of a block's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PartKind {
    VolumeSuperblock,
    Metafile,
    Lun,
    Container,
    Summary,
    Table,
    Release,
}

struct Reader<'r> {
    storage: &'r dyn Storage,
    /// Devices in the order of the members.
    devices: Vec<DeviceId>,
    geometry: Geometry,
    parts: Vec<Part>,
    /// Blocks that were listed, by device: images share many.
    seen: std::collections::BTreeSet<(u32, u64)>,
}

/// Returns all parts, aggregate first.
pub(super) fn of(world: &SimWorld) -> Vec<Part> {
    let storage = &*world.storage();
    let Labels {
        config,
        devices,
        superblock,
    } = Labels::of(storage, &world.devices());
    let mut reader = Reader {
        storage,
        devices,
        geometry: config.geometry().expect("clean"),
        parts: Vec::new(),
        seen: std::collections::BTreeSet::new(),
    };
    let files = reader.image(None, None, &superblock.inode_file, &|pointer| {
        Some(pointer.pvbn)
    });
    let containers = files.values().filter(|it| it.kind == Kind::Container);
    let mut places: BTreeMap<u32, BTreeMap<u64, Pvbn>> = BTreeMap::new();
    // Parents have lower ids.
    for container in containers {
        let id = container.id.0;
        let own = reader.leaves(container);
        let superblock = reader.read(own[&SUPERBLOCK_VVBN.0]);
        let superblock = VolumeSuperblock::decode(&superblock, FileId(id), &config.uuid);
        let Ok(superblock) = superblock else {
            // The file is being deleted.
            continue;
        };
        let mut all = superblock
            .snapshots
            .base
            .map(|(parent, _)| places[&parent.0].clone())
            .unwrap_or_default();
        all.extend(own);
        let (device, block) = reader.locate(all[&SUPERBLOCK_VVBN.0]);
        reader.list(Part {
            volume: Some(id),
            snapshot: None,
            file: 0,
            kind: PartKind::VolumeSuperblock,
            level: 0,
            index: 0,
            device: device.0,
            block,
        });
        let at = |pointer: &Pointer| all.get(&pointer.vvbn.0).copied();
        reader.image(Some(id), None, &superblock.inode_file, &at);
        if let Some((_, table)) = superblock.snapshots.files {
            for (_, place) in reader.leaves(&files[&table.0]) {
                let page = reader.read(place);
                for (_, record) in SnapshotRecord::decode(&page).expect("clean") {
                    if record.state != everglade_format::snapshot::State::Gone {
                        reader.image(Some(id), Some(record.id.0), &record.inode_file, &at);
                    }
                }
            }
        }
        places.insert(id, all);
    }
    reader.parts
}

struct Labels {
    config: Config,
    /// Devices in the order of the members.
    devices: Vec<DeviceId>,
    superblock: Superblock,
}

impl Labels {
    /// Reads the front labels. The newest superblock names the epoch of the record.
    fn of(storage: &dyn Storage, devices: &[DeviceId]) -> Labels {
        let read = |device: DeviceId, at: u64, bytes: &mut [u8]| {
            storage.read(device, at, bytes).expect("no faults");
        };
        let mut configs = Vec::new();
        for (device, slot) in everywhere(devices, CONFIG_OFFSETS) {
            let mut bytes = vec![0; CONFIG_BYTES];
            read(device, slot, &mut bytes);
            configs.extend(Config::decode(&bytes).ok().flatten().map(|it| (it, device)));
        }
        let (any, _) = configs.first().expect("a label");
        let key = TagKey::new(&any.secret);
        let superblocks = everywhere(devices, SUPERBLOCK_OFFSETS).filter_map(|(device, slot)| {
            let mut block = [0; BYTES];
            read(device, slot, &mut block);
            Superblock::decode(&block, &key, &any.uuid).ok().flatten()
        });
        let superblock = superblocks.max_by_key(|it| it.cp).expect("a superblock");
        configs.retain(|(it, _)| it.epoch == superblock.epoch);
        configs.sort_by_key(|(it, _)| it.member_index);
        Labels {
            config: configs[0].0.clone(),
            devices: configs.into_iter().map(|(_, device)| device).collect(),
            superblock,
        }
    }
}

/// Each of `offsets` on each device.
fn everywhere(devices: &[DeviceId], offsets: [u64; 2]) -> impl Iterator<Item = (DeviceId, u64)> {
    let of = move |device: &DeviceId| offsets.map(|offset| (*device, offset));
    devices.iter().flat_map(of)
}

impl Reader<'_> {
    /// Device, and block of the device.
    fn locate(&self, pvbn: Pvbn) -> (DeviceId, u64) {
        let place = self.geometry.locate(pvbn).expect("clean");
        (self.devices[place.member as usize], place.dbn.0)
    }

    fn read(&self, pvbn: Pvbn) -> Block {
        let mut block = [0; BYTES];
        let (device, at) = self.locate(pvbn);
        let at = at * BLOCK_SIZE as u64;
        self.storage
            .read(device, at, &mut block)
            .expect("no faults");
        block
    }

    fn list(&mut self, part: Part) {
        if self.seen.insert((part.device, part.block)) {
            self.parts.push(part);
        }
    }

    /// Returns the places of a file's leaves in the aggregate.
    fn leaves(&self, inode: &Inode) -> BTreeMap<u64, Pvbn> {
        let mut found = BTreeMap::new();
        let mut left = vec![(inode.levels, 0, inode.root)];
        while let Some((level, index, pointer)) = left.pop() {
            if !pointer.has_block() {
                continue;
            }
            if level == 0 {
                found.insert(index, pointer.pvbn);
                continue;
            }
            let page = self.read(pointer.pvbn);
            for slot in 0..SPAN {
                let child = Indirect(&page).pointer(slot, Layer::Aggregate);
                left.push((level - 1, index * SPAN + slot, child.expect("clean")));
            }
        }
        found
    }

    /// Lists the metadata of an image. Its inodes.
    fn image(
        &mut self,
        volume: Option<u32>,
        snapshot: Option<u32>,
        inode_file: &Inode,
        at: &dyn Fn(&Pointer) -> Option<Pvbn>,
    ) -> BTreeMap<u32, Inode> {
        let layer = volume.map_or(Layer::Aggregate, |_| Layer::Volume);
        let mut files = BTreeMap::new();
        let mut todo = vec![inode_file.clone()];
        while let Some(inode) = todo.pop() {
            let kind = match inode.kind {
                Kind::Metafile => PartKind::Metafile,
                Kind::Lun => PartKind::Lun,
                Kind::Container => PartKind::Container,
                Kind::Summary => PartKind::Summary,
                Kind::Snapshots => PartKind::Table,
                Kind::Release => PartKind::Release,
            };
            let is_data =
                [Kind::Lun, Kind::Container].contains(&inode.kind) || inode.id == OVERFLOW;
            let mut left = vec![(inode.levels, 0, inode.root)];
            while let Some((level, index, pointer)) = left.pop() {
                if !pointer.has_block() || level == 0 && is_data {
                    continue;
                }
                let pvbn = at(&pointer).expect("clean");
                let (device, block) = self.locate(pvbn);
                self.list(Part {
                    volume,
                    snapshot,
                    file: inode.id.0,
                    kind,
                    level,
                    index,
                    device: device.0,
                    block,
                });
                let page = self.read(pvbn);
                for slot in (0..SPAN).filter(|_| level > 0) {
                    let child = Indirect(&page).pointer(slot, layer).expect("clean");
                    left.push((level - 1, index * SPAN + slot, child));
                }
                if inode.id == INODE_FILE && level == 0 {
                    for (slot, id) in (0..14).zip(index * 14..) {
                        let id = FileId(u32::try_from(id).expect("few"));
                        let found = Inode::decode_from(&page, slot, id, layer).expect("clean");
                        if let Some(found) = found {
                            files.insert(id.0, found.clone());
                            todo.push(found);
                        }
                    }
                }
            }
        }
        files
    }
}
