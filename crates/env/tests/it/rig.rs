//! A world with one reactor and a scratch directory, driven one operation at a time.

use std::path::PathBuf;
use std::time::Duration;

use everglade_env::{
    BLOCK_SIZE, Completion, DeviceId, DiskError, Geometry, IoMode, Op, Outside, Page, PageRef,
    Real, RingSetup, World, WorldOptions,
};

/// Small enough for operations to cross several.
pub(crate) const SEGMENT: u64 = 64 << 10;
pub(crate) const BLOCK: u64 = BLOCK_SIZE as u64;

pub(crate) struct Rig {
    pub(crate) name: String,
    pub(crate) options: WorldOptions,
    pub(crate) world: World,
    pub(crate) real: Real,
    scratch: tempfile::TempDir,
}

/// The place of a rig's files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// On the disk of the build: O_DIRECT is likely, and making a segment takes as long as the disk
    /// needs for two flushes.
    Disk,
    /// Memory, for tests that make many segments; the disk if there is no file system in memory.
    Memory,
}

/// Runs the test once for every way of doing I/O; says which it could not run.
pub(crate) fn everywhere(storage: Storage, test: impl Fn(Rig)) {
    let ring = |setup| WorldOptions {
        io: IoMode::Uring,
        ring: Some(setup),
        ..one_reactor()
    };
    let ways = [
        ("deferred ring", ring(RingSetup::Deferred)),
        ("cooperative ring", ring(RingSetup::Cooperative)),
        ("plain ring", ring(RingSetup::Plain)),
        (
            "threads",
            WorldOptions {
                io: IoMode::Threads,
                ..one_reactor()
            },
        ),
    ];
    for (name, options) in ways {
        match World::new(&options) {
            Ok(_) => test(Rig::of(name, options, storage)),
            Err(error) => println!("skipped {name}: {error}"),
        }
    }
}

/// One rig with the best way of doing I/O.
pub(crate) fn any_way(storage: Storage) -> Rig {
    Rig::of("any", one_reactor(), storage)
}

pub(crate) fn one_reactor() -> WorldOptions {
    WorldOptions {
        reactors: 1,
        ..WorldOptions::default()
    }
}

impl Rig {
    pub(crate) fn of(name: &str, options: WorldOptions, storage: Storage) -> Rig {
        let world = World::new(&options).unwrap();
        println!("{name}: {}", world.io());
        let real = world.reactor(0).unwrap();
        let memory = std::path::Path::new("/dev/shm");
        let scratch = if storage == Storage::Memory && memory.is_dir() {
            tempfile::tempdir_in(memory).unwrap()
        } else {
            tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
        };
        Rig {
            name: name.to_owned(),
            options,
            world,
            real,
            scratch,
        }
    }

    /// A file device.
    pub(crate) fn file(&self, size_bytes: u64) -> DeviceId {
        let path = self.path("file");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(size_bytes)
            .unwrap();
        self.world.open(&path).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// A directory device of small segments.
    pub(crate) fn directory(&self, size_bytes: u64) -> DeviceId {
        let geometry = Geometry {
            size_bytes,
            segment_bytes: SEGMENT,
        };
        self.world
            .create_directory(&self.path("device"), geometry)
            .unwrap()
    }

    pub(crate) fn run(&mut self, op: Op) -> Completion {
        self.real.submit(op, 77);
        let mut done = self.finish(1);
        assert_eq!(done[0].token, 77);
        done.remove(0)
    }

    /// Drives the reactor until this number of completions has come.
    pub(crate) fn finish(&mut self, count: usize) -> Vec<Completion> {
        let mut done = Vec::new();
        let mut ready = Vec::new();
        let give_up = std::time::Instant::now() + Duration::from_secs(30);
        loop {
            self.real.poll(&mut done);
            if done.len() >= count {
                assert_eq!(done.len(), count, "{}", self.name);
                return done;
            }
            assert!(
                std::time::Instant::now() < give_up,
                "{}: {} of {count}",
                self.name,
                done.len()
            );
            self.real.wait(Some(Duration::from_secs(30)), &mut ready);
        }
    }

    pub(crate) fn write(
        &mut self,
        device: DeviceId,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), DiskError> {
        let pages = pages_of(bytes);
        self.run(Op::Write {
            device,
            offset,
            pages,
            durable: false,
        })
        .result
    }

    pub(crate) fn read(
        &mut self,
        device: DeviceId,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>, DiskError> {
        let done = self.run(Op::Read {
            device,
            offset,
            pages: dirty_pages(length / BLOCK_SIZE),
        });
        assert_eq!(done.pages.len() * BLOCK_SIZE, length, "the pages come back");
        done.result
            .map(|()| done.pages.iter().flat_map(|page| page.to_vec()).collect())
    }

    pub(crate) fn flush(&mut self, device: DeviceId) -> Result<(), DiskError> {
        self.run(Op::Flush { device }).result
    }
}

/// Pages with something in them that must not be mistaken for data.
pub(crate) fn dirty_pages(count: usize) -> Vec<Page> {
    let dirty = |_| {
        let mut page = Page::for_read();
        page.fill(0xdd);
        page
    };
    (0..count).map(dirty).collect()
}

pub(crate) fn pages_of(bytes: &[u8]) -> Vec<PageRef> {
    bytes
        .chunks_exact(BLOCK_SIZE)
        .map(|c| Page::copy_of(c.try_into().unwrap()).freeze())
        .collect()
}

/// Bytes in which every block is different, and different for every seed.
pub(crate) fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| next()).collect();
    bytes.truncate(length);
    bytes
}
