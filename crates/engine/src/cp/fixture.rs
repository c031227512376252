//! An aggregate with a volume and a LUN, all in memory: for unit tests of the consistency point.
//!
//! No block of the fixture is on media. Written blocks are found in the cache of a [`Shelf`].

use std::sync::Arc;

use everglade_affinity::{Affinities, AggregateAffinities, RANGES};
use everglade_env::{DeviceId, Op, SegmentFault};
use everglade_format::volume::{Sync, VOLUME_AREA_BLOCKS};
use everglade_format::{
    Config, CpNumber, Dbn, Entry, EntryKind, Extent, FileId, Inode, Kind, Layer, Member, SPAN,
    Superblock,
};
use everglade_freespace::Areas;
use everglade_journal::Position;

use crate::admin::volume::{new_volume, volume_affinities};
use crate::alloc::filesystem::FileSystem;
use crate::home::aggregate::Home;
use crate::home::run::Run;
use crate::home::site::Site;
use crate::home::volume::VolumeHome;
use crate::media::Layout;
use crate::media::layout::tests::config;
use crate::mend::Mender;
use crate::pool::aggregate::Aggregate;
use crate::pool::space::Space;
use crate::read::fixture::Shelf;
use crate::tree::File;

const AREAS: u64 = 16;
const AREA_BLOCKS: u64 = 256;
/// The LUN's level-1 blocks; those of level 2 are one.
pub(super) const REGIONS: u64 = 3;

/// See the module's documentation.
pub(super) struct Scene {
    pub(super) home: Home,
    pub(super) shelf: Shelf,
    pub(super) volume: FileId,
    pub(super) lun: FileId,
}

fn aggregate(affinities: &Affinities<u64>, lost: Vec<SegmentFault>) -> Arc<Aggregate> {
    let member = Member {
        uuid: [3; 16],
        size_blocks: AREAS * AREA_BLOCKS + 512,
        data_first: Dbn(256),
        seat: everglade_format::Seat::ALONE,
    };
    let extent = Extent {
        base: 0,
        length: AREAS * AREA_BLOCKS,
        group: 0,
        column: 0,
        member: 0,
        first_dbn: Dbn(256),
    };
    let config = Config {
        area_blocks: AREA_BLOCKS,
        reserve_blocks: 64,
        ..config(vec![member], vec![extent])
    };
    let superblock = Superblock {
        cp: CpNumber(0),
        uuid: config.uuid,
        epoch: config.epoch,
        written_seconds: 0,
        clean: true,
        name: None,
        blocks_used: 0,
        areas_used: 0,
        frontiers: vec![0],
        next_file: FileId(64),
        inode_file: FileSystem::empty_inode_file(CpNumber(0), 0),
        journal_generation: 1,
        journal_sequence: 1,
    };
    let shape = AggregateAffinities::add(affinities, RANGES).expect("room for one aggregate");
    let space = Space::new(AREAS * AREA_BLOCKS, 64, 0, AREAS * AREA_BLOCKS);
    let layout = Layout::new(config, vec![Some(DeviceId(0))]).expect("a sound table");
    let mut aggregate = Aggregate::new(0, layout, 1, shape, 0, &superblock, space);
    aggregate.lost_segments = lost;
    Arc::new(aggregate)
}

fn file_system(layer: Layer, area_blocks: u64, areas: Areas) -> FileSystem {
    let inode = FileSystem::empty_inode_file(CpNumber(1), 0);
    FileSystem::new(layer, area_blocks, vec![0], vec![areas], inode)
}

impl Scene {
    /// Returns an empty file system whose areas are all ready, with a consistency point under way.
    pub(super) fn new() -> Scene {
        Scene::without(Vec::new())
    }

    /// The same where these segment files are lost.
    pub(super) fn without(lost: Vec<SegmentFault>) -> Scene {
        let affinities = Affinities::new(1);
        let aggregate = aggregate(&affinities, lost);
        let mut areas = Areas::new(AREAS, AREA_BLOCKS, 0);
        assert!((0..AREAS).all(|area| areas.prepared(area)));
        let mut fs = file_system(Layer::Aggregate, AREA_BLOCKS, areas);
        fs.create_metafiles(CpNumber(1), 0);
        let id = fs.new_file_id();
        let inode = Inode::new(id, Kind::Container, CpNumber(1), 0);
        let mut container = File::new(inode, Layer::Aggregate);
        container.grow(VOLUME_AREA_BLOCKS);
        fs.files.insert(id, container);
        let inodes = FileSystem::empty_inode_file(CpNumber(1), 0);
        let mender = Mender::new(&aggregate, inodes, CpNumber(0));
        let mut home = Home::new(aggregate, fs, mender);

        let areas = Areas::new(1, VOLUME_AREA_BLOCKS, 1);
        let mut fs = file_system(Layer::Volume, VOLUME_AREA_BLOCKS, areas);
        fs.set_container(id);
        fs.create_metafiles(CpNumber(1), 0);
        let lun = fs.new_file_id();
        let mut file = fs.file_of(Inode::new(lun, Kind::Lun, CpNumber(1), 0));
        file.grow(REGIONS * SPAN);
        fs.files.insert(lun, file);
        fs.directory.add(Entry::new(lun, EntryKind::Lun, "lun0"));
        let shape = volume_affinities(&affinities, &home).expect("room for one volume");
        let shared = new_volume(&home, shape, id, "vol0", Sync::Standard);
        let volume = VolumeHome {
            shared,
            fs,
            is_new: false,
            next: None,
            discarding: Vec::new(),
        };
        home.volumes.insert(id, volume);
        home.run = Some(Run::new(CpNumber(1), Position::FIRST));
        Scene {
            home,
            shelf: Shelf::new(),
            volume: id,
            lun,
        }
    }

    pub(super) fn site(&mut self) -> Site<'_> {
        self.home.site(self.volume).0
    }

    /// Begins the next consistency point: freed blocks may be used.
    pub(super) fn next_cp(&mut self) {
        self.home.under_way().number.0 += 1;
        let site = self.site();
        site.volume.fs.safe.drop_all();
        site.below.safe.drop_all();
    }

    /// Returns all state that a step may change: inodes, changed blocks, counts, stock, and written
    /// blocks.
    pub(super) fn digest(&mut self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        let site = self.site();
        for (name, fs) in [("volume", &site.volume.fs), ("aggregate", &*site.below)] {
            let facts = format!("{name}: used {}, stock {:?}", fs.used, fs.data.stock);
            all.push((facts, Vec::new()));
            for file in fs.files.values() {
                all.push((
                    format!("{:?} {}", file.inode, file.inode_changed),
                    Vec::new(),
                ));
                for (level, index) in file.unplaced() {
                    let page = file.peek(level, index).expect("it is changed");
                    let name = format!("{name} {} ({level}, {index})", file.id());
                    all.push((name, page.to_vec()));
                }
            }
        }
        let media = &site.aggregate.media;
        drop(site.writer.finish(media));
        for (op, _) in site.writer.take_ready(u64::MAX) {
            let Op::Write { offset, pages, .. } = op else {
                panic!("only writes are expected");
            };
            let bytes = pages.iter().flat_map(|page| page.to_vec()).collect();
            all.push((format!("written at {offset}"), bytes));
        }
        all
    }
}
