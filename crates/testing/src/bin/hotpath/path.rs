//! The counted paths: per request at a depth of 32, or per block for the paths that are documented
//! so.

use everglade_env::BLOCK_SIZE;

use crate::rig::{BLOCK, FLUSH, LUN_BYTES, READ, Rig, WRITE};

/// Requests a client has in flight.
const DEPTH: usize = 32;
/// Requests under way in a stream.
const STREAM_DEPTH: usize = 8;
/// Bytes of each.
const STREAM_BYTES: usize = 128 << 10;
/// Bytes of the LUN that cached reads use.
const CACHED_BYTES: u64 = 4 << 20;

/// A path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// 4 KiB that are in the page cache.
    CachedRead,
    /// 4 KiB that come from the device, their level-1 block from the cache.
    ReadMiss,
    /// A 4 KiB write over committed data, not logged.
    Overwrite,
    /// Eight overwrites and a flush, per overwrite.
    FlushedOverwrite,
    /// A consistency point's work for each overwritten block.
    Clean,
    /// Writes of 128 KiB in order, eight at a time, per block.
    Stream,
    /// A consistency point's work for each block written by a stream.
    StreamClean,
}

impl Path {
    pub(crate) const ALL: [Path; 7] = [
        Path::CachedRead,
        Path::ReadMiss,
        Path::Overwrite,
        Path::FlushedOverwrite,
        Path::Clean,
        Path::Stream,
        Path::StreamClean,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Path::CachedRead => "cached-read",
            Path::ReadMiss => "read-miss",
            Path::Overwrite => "overwrite",
            Path::FlushedOverwrite => "flushed-overwrite",
            Path::Clean => "clean",
            Path::Stream => "stream",
            Path::StreamClean => "stream-clean",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Path> {
        Path::ALL.into_iter().find(|path| path.name() == name)
    }

    /// The cache is half of it: all of the LUN, or a little.
    pub(crate) fn memory_bytes(self) -> u64 {
        match self {
            Path::ReadMiss => 8 << 20,
            _ => 512 << 20,
        }
    }

    /// Does the preparation that is not counted.
    pub(crate) fn prepare(self, rig: &mut Rig, count: u64) {
        match self {
            Path::CachedRead => reads(rig, count, CACHED_BYTES),
            Path::ReadMiss => reads(rig, count.min(512), LUN_BYTES),
            Path::Overwrite | Path::Stream => {}
            Path::FlushedOverwrite => flushed(rig, 64),
            Path::Clean => overwrites(rig, count),
            Path::StreamClean => stream(rig, count),
        }
    }

    /// Does the counted work. Returns the number of repetitions.
    pub(crate) fn run(self, rig: &mut Rig, count: u64) -> u64 {
        match self {
            Path::CachedRead => reads(rig, count, CACHED_BYTES),
            Path::ReadMiss => reads(rig, count, LUN_BYTES),
            Path::Overwrite => overwrites(rig, count),
            Path::FlushedOverwrite => flushed(rig, count),
            Path::Stream => stream(rig, count),
            Path::Clean | Path::StreamClean => rig.consistency_point(),
        }
        count
    }
}

fn some_offsets(rig: &mut Rig, count: usize, bytes: u64) -> Vec<u64> {
    (0..count).map(|_| rig.any_offset(bytes)).collect()
}

fn reads(rig: &mut Rig, count: u64, bytes: u64) {
    for _ in 0..count / DEPTH as u64 {
        let offsets = some_offsets(rig, DEPTH, bytes);
        rig.requests(READ, &offsets, &[], BLOCK);
    }
}

/// Neighbouring blocks at any place would be cheaper, so each is at a place of its own.
fn overwrites(rig: &mut Rig, count: u64) {
    let payload = [0xa5; BLOCK_SIZE];
    for _ in 0..count / DEPTH as u64 {
        let offsets = some_offsets(rig, DEPTH, LUN_BYTES);
        rig.requests(WRITE, &offsets, &payload, 0);
    }
}

/// Writes a stream from the LUN's start.
fn stream(rig: &mut Rig, count: u64) {
    let payload = [0x5c; STREAM_BYTES];
    let offsets: Vec<u64> = (0..count * BLOCK).step_by(STREAM_BYTES).collect();
    for some in offsets.chunks(STREAM_DEPTH) {
        rig.requests(WRITE, some, &payload, 0);
    }
}

fn flushed(rig: &mut Rig, count: u64) {
    let payload = [0xa5; BLOCK_SIZE];
    for _ in 0..count / 8 {
        let offsets = some_offsets(rig, 8, LUN_BYTES);
        rig.requests(WRITE, &offsets, &payload, 0);
        rig.requests(FLUSH, &[0], &[], 0);
    }
}
