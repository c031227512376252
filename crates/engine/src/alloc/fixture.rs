//! File systems for unit tests that nothing was ever written of: no step of theirs loads anything.

use everglade_format::{
    BITS_PER_BLOCK, CpNumber, FileId, Inode, Kind, Layer, Owner, Pointer, Tag, Vvbn,
};
use everglade_freespace::Areas;

use crate::alloc::blocks::Purpose;
use crate::alloc::filesystem::FileSystem;
use crate::media::host::Host;
use crate::read::fixture::Shelf;
use crate::read::load::{LoadCx, Stop};

/// The container of the volume that [`Pair::new`] makes.
pub(crate) const CONTAINER: FileId = FileId(64);

/// Runs a load phase.
pub(crate) fn load<R>(run: impl FnOnce(&mut LoadCx<'_>) -> Result<R, Stop>) -> Result<R, Stop> {
    Shelf::new().load(run).0
}

/// A host that gives nothing more, and needs not to.
pub(crate) fn full_host() -> Host {
    Host {
        full: true,
        ..Host::default()
    }
}

/// Builds a file system whose extents have `areas` areas each, all of them ready.
pub(crate) fn file_system(layer: Layer, area_blocks: u64, extents: &[(u64, u64)]) -> FileSystem {
    let bases = extents.iter().map(|(base, _)| *base).collect();
    let areas = extents.iter().map(|(_, count)| {
        let mut areas = Areas::new(*count, area_blocks, 0);
        for area in 0..*count {
            assert!(areas.prepared(area));
        }
        areas
    });
    let inode_file = FileSystem::empty_inode_file(CpNumber(1), 0);
    let mut fs = FileSystem::new(layer, area_blocks, bases, areas.collect(), inode_file);
    if layer == Layer::Volume {
        fs.set_container(CONTAINER);
    }
    fs.create_metafiles(CpNumber(1), 0);
    fs
}

/// Ends a consistency point as far as allocation is concerned. The maps stay changed.
pub(crate) fn end_cp(fs: &mut FileSystem) {
    fs.put_back();
    for block in 0..fs.map().inode.block_count() {
        load(|cx| fs.score_block(None, cx, block, false)).expect("maps are in memory");
    }
    fs.safe.drop_all();
}

/// An aggregate and a volume in it.
pub(crate) struct Pair {
    pub(crate) aggregate: FileSystem,
    pub(crate) volume: FileSystem,
}

impl Pair {
    pub(crate) fn new() -> Pair {
        let mut aggregate = file_system(Layer::Aggregate, 1024, &[(0, 4)]);
        let inode = Inode::new(CONTAINER, Kind::Container, CpNumber(1), 0);
        let mut container = aggregate.file_of(inode);
        container.grow(2);
        aggregate.files.insert(CONTAINER, container);
        let volume = file_system(Layer::Volume, BITS_PER_BLOCK, &[(0, 1)]);
        Pair { aggregate, volume }
    }

    /// Stores a block in the volume.
    pub(crate) fn store(&mut self) -> Vvbn {
        let (mut host, purpose) = (full_host(), Purpose::Data);
        load(|cx| {
            let below = Some(&mut self.aggregate);
            self.volume.ensure(below, cx, &mut host, purpose, 1)?;
            self.aggregate.ensure(None, cx, &mut host, purpose, 1)
        })
        .expect("there is space");
        let vvbn = Vvbn(self.volume.take(purpose));
        let owner = Owner::Container { vvbn: vvbn.0 };
        let pvbn = self.aggregate.take_physical(purpose, (CONTAINER, owner));
        let slot = Pointer {
            vvbn: Vvbn(0),
            pvbn,
            tag: Tag(77),
        };
        let container = self.aggregate.file(CONTAINER);
        let old = container.set_leaf(vvbn.0, slot).expect("it is a hole");
        assert!(old.is_hole());
        vvbn
    }

    /// The slot of a vvbn in the container.
    pub(crate) fn slot(&mut self, vvbn: Vvbn) -> Pointer {
        let container = self.aggregate.file(CONTAINER);
        container.leaf_pointer(vvbn.0).expect("changed by a store")
    }
}

/// True if a number is in use as of now.
pub(crate) fn is_used(fs: &mut FileSystem, number: u64) -> bool {
    let page = fs.map().peek(0, number / BITS_PER_BLOCK);
    page.is_some_and(|page| everglade_format::bitmap::is_set(page, number % BITS_PER_BLOCK))
}
