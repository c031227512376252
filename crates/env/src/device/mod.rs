//! Devices, on which an aggregate stores its blocks. A device is a directory of segment files, an
//! existing regular file, or a block device (docs/reference/conventions.md#devices,
//! docs/design/design.md §7).
//!
//! All three are a row of *segments*; a segment is one file. A directory has as many segments as
//! its size needs, the other kinds have one. So splitting, opening, flushing and counting are
//! written once.
//!
//! absent --`open_segment(create)`: file, its size, fsync of both file and directory--> open
//! open --budget needs a descriptor--> closed --`open_segment`--> open
//!
//! 1. A segment file is made on a worker and survives a power cut before the first write into it is
//!    started. It gets its full length at once, so no later write changes the size of a file.
//! 2. Absent segments read as zeroes without a call to the host. The list of absent segments is
//!    read once, when the device is opened, and stays right because no other server uses the device
//!    (`claim`). An empty file counts as absent: a power cut came between making it and giving it
//!    its length, so nothing was written into it.
//! 3. A segment is *soiled* when `written > synced`. `written` grows when a write that was not
//!    durable by itself completes, before its completion is reported; `synced` grows to the value
//!    `written` had when a successful fdatasync was submitted. A flush syncs all soiled segments,
//!    also those another reactor is syncing, so it never reports success before all of them are
//!    durable.
//! 4. Segments that exist when the device is opened count as soiled: a server that was killed may
//!    have written them without a flush.
//! 5. After a failed flush every later flush fails: the kernel drops pages that it could not write,
//!    so a second flush would report success wrongly.
//!
//! 6. A durable write is one call with RWF_DSYNC where this call is known to work and to be fast;
//!    elsewhere it is a write and then an fdatasync. FUSE (also virtiofs) ignores the flag for
//!    asynchronous direct writes, such as those of io_uring, and reports success. So the flag is
//!    used only on file systems that are known to honour it. If a disk has no forced writes (FUA),
//!    the kernel flushes it from a worker thread, which on a busy machine takes five times as long
//!    as an fdatasync.
//!
//! 7. A device may become larger while it is used, and never smaller (`growth`).
//!
//! 8. A segment that was written, and whose file is absent, empty or too short when the device is
//!    opened, is *lost* (`presence`) for as long as the device is open. What is there can be read.
//!    All else in it is EIO, and its file is neither made nor changed. So the next opening finds it
//!    lost again, and putting the right file back loses nothing.
//!
//! Elsewhere on purpose: operations of reactors (`reactor`), and blocking access (`storage`).

mod block;
mod budget;
mod claim;
mod directory;
mod error;
mod file;
mod growth;
mod presence;
mod segment;
mod segments;
#[cfg(test)]
mod tests;
mod traffic;

pub(crate) use block::open as open_block;
pub(crate) use budget::Budget;
use budget::Wait;
pub(crate) use claim::Access;
use directory::Directory;
pub use directory::Geometry;
pub(crate) use directory::{create as create_directory, open as open_directory};
pub use error::OpenError;
pub(crate) use file::open as open_file;
pub(crate) use segment::{Handle, Segment};
use segments::Segments;
pub(crate) use traffic::Begun;
use traffic::Traffic;
pub use traffic::{DEVICE_DURATION_BOUNDS, RUN_BOUNDS, TrafficInfo};

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use rustix::io::Errno;

use crate::lock::RwLock;
use crate::transfer::{self, Fault};
use crate::{BLOCK_SIZE, DiskError, Nanos};

/// Devices by number; closed ones leave `None`.
pub(crate) type Table = Arc<RwLock<Vec<Option<Arc<Device>>>>>;

/// Opens whatever is at the path.
pub(crate) fn open(path: &Path, access: Access) -> Result<Device, OpenError> {
    let metadata = std::fs::metadata(path).map_err(|error| OpenError::host("stat", path, error))?;
    match metadata.file_type() {
        kind if kind.is_dir() => open_directory(path, access),
        kind if kind.is_file() => open_file(path, access),
        kind if kind.is_block_device() => open_block(path, access),
        kind => {
            let expected = "a directory, a regular file or a block device";
            Err(OpenError::unexpected(
                path,
                expected,
                directory::describe(kind),
            ))
        }
    }
}

/// Limit of a device, in bytes: no aggregate addresses more than 2^40 blocks.
pub(crate) const SIZE_MAX: u64 = (1 << 40) * BLOCK_SIZE as u64;

/// File systems on which RWF_DSYNC holds for asynchronous direct writes (statfs(2)): ext2 to ext4,
/// XFS, Btrfs, F2FS, and tmpfs, which forgets everything anyway.
const KEEPS_DSYNC: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// Stands for an unknown number of free bytes.
const UNKNOWN: u64 = u64::MAX;

/// The parts of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A directory of segment files.
    Directory,
    /// An existing regular file.
    File,
    /// A block device.
    Block,
}

/// Facts about an opened device, for operators.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Path given at the opening.
    pub path: PathBuf,
    /// Usable bytes, a multiple of the block size.
    pub size_bytes: u64,
    /// Bytes of one segment; the size of the device if it is not a directory.
    pub segment_bytes: u64,
    /// True if I/O bypasses the host's page cache. False where the host refuses O_DIRECT: then
    /// durability costs an fdatasync of cached data and memory is used twice.
    pub direct: bool,
    /// False once the host has refused to reserve space, which makes `Allocate` a wish.
    pub preallocates: bool,
    /// Bytes the host could still give; `None` for block devices, and where the host does not say.
    pub host_free_bytes: Option<u64>,
    /// Number of operations that failed since the device was opened, for each cause.
    pub errors: [(&'static str, u64); 3],
    /// Reads, writes and flushes since it was opened.
    pub traffic: [TrafficInfo; 3],
}

/// An opened device, shared by all reactors and workers.
pub(crate) struct Device {
    kind: DeviceKind,
    path: PathBuf,
    /// Grows (`growth`), and then the segments are there already.
    size_bytes: AtomicU64,
    /// [`SIZE_MAX`] if the device is not a directory, so that it has one segment at any size.
    segment_bytes: u64,
    direct: bool,
    /// See invariant 6.
    forces_in_one: bool,
    segments: Segments,
    /// The directory of the segment files; `None` for other kinds of device.
    directory: Option<Directory>,
    preallocates: AtomicBool,
    closed: AtomicBool,
    /// Free bytes of the host; [`UNKNOWN`] until the host has answered.
    host_free: AtomicU64,
    /// The errno of the first flush that failed, 0 if none did.
    flush_failed: AtomicI32,
    errors: Errors,
    traffic: Traffic,
}

/// Number of operations that failed, for each cause.
#[derive(Default)]
struct Errors {
    no_space: AtomicU64,
    io: AtomicU64,
    gone: AtomicU64,
}

/// A run of bytes within one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) segment: usize,
    /// First byte within the segment.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Device {
    /// Makes a device of one segment that is open from the start.
    fn of_one(kind: DeviceKind, path: &Path, file: File, size_bytes: u64, direct: bool) -> Device {
        let segment = Segment::existing();
        segment.set(Arc::new(file));
        Device::new(
            kind,
            path,
            size_bytes,
            SIZE_MAX,
            direct,
            vec![segment],
            None,
        )
    }

    fn new(
        kind: DeviceKind,
        path: &Path,
        size_bytes: u64,
        segment_bytes: u64,
        direct: bool,
        segments: Vec<Segment>,
        directory: Option<Directory>,
    ) -> Device {
        assert!(size_bytes > 0, "a device has blocks");
        assert!(
            size_bytes.is_multiple_of(BLOCK_SIZE as u64),
            "a device is whole blocks"
        );
        assert!(
            segment_bytes.is_multiple_of(BLOCK_SIZE as u64),
            "a segment is whole blocks"
        );
        assert_eq!(segments.len() as u64, size_bytes.div_ceil(segment_bytes));
        let device = Device {
            kind,
            path: path.to_path_buf(),
            size_bytes: AtomicU64::new(size_bytes),
            segment_bytes,
            direct,
            forces_in_one: (kind == DeviceKind::Block || keeps_dsync(path)) && forces(path),
            segments: Segments::new(segments),
            directory,
            preallocates: AtomicBool::new(true),
            closed: AtomicBool::new(false),
            host_free: AtomicU64::new(UNKNOWN),
            flush_failed: AtomicI32::new(0),
            errors: Errors::default(),
            traffic: Traffic::default(),
        };
        device.measure_host();
        device
    }

    /// Closes the device, and every file that no operation in flight needs. Operations in flight
    /// end as usual; the claim ends with the last of them. Returns the files, which stay open until
    /// then.
    pub(crate) fn close(&self) -> Vec<Weak<File>> {
        self.closed.store(true, Ordering::Release);
        let mut files = Vec::new();
        for segment in self.segments.iter() {
            let _turn = segment.turn();
            files.extend(segment.unset().as_ref().map(Arc::downgrade));
        }
        if let Some(directory) = &self.directory {
            files.extend(directory.close());
        }
        files
    }

    /// Returns false if a durable write needs an fdatasync after it.
    pub(crate) fn forces_in_one(&self) -> bool {
        self.forces_in_one
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    /// Makes the device this large, if it is smaller. Its segments are there already.
    fn publish_size(&self, size_bytes: u64) {
        self.size_bytes.fetch_max(size_bytes, Ordering::AcqRel);
    }

    pub(crate) fn info(&self) -> DeviceInfo {
        let size_bytes = self.size_bytes();
        DeviceInfo {
            kind: self.kind,
            path: self.path.clone(),
            size_bytes,
            segment_bytes: match self.kind {
                DeviceKind::Directory => self.segment_bytes,
                DeviceKind::File | DeviceKind::Block => size_bytes,
            },
            direct: self.direct,
            preallocates: self.preallocates.load(Ordering::Relaxed),
            host_free_bytes: self.host_free_bytes(),
            errors: {
                let Errors { no_space, io, gone } = &self.errors;
                let named = [("no_space", no_space), ("io", io), ("gone", gone)];
                named.map(|(name, count)| (name, count.load(Ordering::Relaxed)))
            },
            traffic: self.traffic.info(),
        }
    }

    /// Counts an operation that is done.
    pub(crate) fn note_end(&self, begun: Begun, now: Nanos) {
        self.traffic.end(begun, now);
    }

    /// Counts a failed operation.
    pub(crate) fn note_error(&self, error: DiskError) {
        let counter = match error {
            DiskError::NoSpace => &self.errors.no_space,
            DiskError::Io(_) => &self.errors.io,
            DiskError::Gone => &self.errors.gone,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Stops the process if the range is not whole blocks of this device. The caller must have
    /// checked the range.
    pub(crate) fn assert_range(&self, offset: u64, length: u64) {
        assert!(
            offset.is_multiple_of(BLOCK_SIZE as u64),
            "offset {offset} is not a whole block"
        );
        assert!(
            length.is_multiple_of(BLOCK_SIZE as u64),
            "length {length} is not whole blocks"
        );
        assert!(length > 0, "an operation covers at least one block");
        let size_bytes = self.size_bytes();
        let fits = offset
            .checked_add(length)
            .is_some_and(|end| end <= size_bytes);
        assert!(
            fits,
            "{offset}+{length} is beyond the end of the device, {size_bytes}"
        );
    }

    /// Cuts the range at the boundaries of segments, in order.
    pub(crate) fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = Piece> + use<> {
        let segment_bytes = self.segment_bytes;
        let end = offset + length;
        let mut at = offset;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let within = at % segment_bytes;
            let bytes = (segment_bytes - within).min(end - at);
            let segment = usize::try_from(at / segment_bytes).expect("segments are few");
            at += bytes;
            Some(Piece {
                segment,
                offset: within,
                bytes,
            })
        })
    }

    pub(crate) fn segment(&self, index: usize) -> &Segment {
        self.segments.get(index)
    }

    /// Returns the segments that a flush must sync, each with the value of its `written`.
    pub(crate) fn soiled(&self) -> Vec<(usize, u64)> {
        let soiled = |(index, segment): (usize, &Segment)| Some((index, segment.soiled()?));
        self.segments
            .iter()
            .enumerate()
            .filter_map(soiled)
            .collect()
    }

    /// Returns the length of a segment's file: the last one may be shorter than the others.
    fn segment_length(&self, index: usize) -> u64 {
        (self.size_bytes() - index as u64 * self.segment_bytes).min(self.segment_bytes)
    }

    /// Opens a segment, making it if it is absent and `create`. `None` if it is absent and stays
    /// so. An error if it is lost, and is absent or is to be written. Blocks, for as long as there
    /// is no descriptor for it (decision 0029): not for reactors, and not for callers that hold
    /// another segment.
    pub(crate) fn open_segment(
        self: &Arc<Self>,
        index: usize,
        create: bool,
        budget: &Budget,
    ) -> Result<Option<Handle>, DiskError> {
        let segment = self.segment(index);
        let _turn = segment.turn();
        if self.is_closed() {
            return Err(DiskError::Gone);
        }
        if segment.is_lost() && (create || !segment.exists()) {
            return Err(Fault::from(Errno::IO).disk_error());
        }
        if let Some(handle) = segment.handle(budget) {
            return Ok(Some(handle));
        }
        // Only directories have closed segments.
        let Some(directory) = &self.directory else {
            return Err(DiskError::Gone);
        };
        if !segment.exists() && !create {
            return Ok(None);
        }
        let file = self.open_within(budget, directory, index)?;
        let handle = Arc::new(file);
        segment.set(Arc::clone(&handle));
        Ok(Some(handle))
    }

    /// Opens or makes the file of a segment. Waits while the budget, or the host, has no
    /// descriptor.
    fn open_within(
        self: &Arc<Self>,
        budget: &Budget,
        directory: &Directory,
        index: usize,
    ) -> Result<File, DiskError> {
        let length = self.segment_length(index);
        let mut wait = Wait::default();
        while !self.is_closed() {
            if !budget.enter(self, index) {
                if budget.rest(&mut wait) {
                    continue;
                }
                return Err(Fault::from(Errno::MFILE).disk_error());
            }
            let file = if self.segment(index).exists() {
                directory.open_segment(index)
            } else {
                directory.make_segment(index, length)
            };
            let fault = match file {
                Ok(file) => return Ok(file),
                Err(fault) => fault,
            };
            budget.leave(self, index);
            if !fault.is_shortage() {
                return Err(fault.disk_error());
            }
            // Another opening that waits may take the descriptor freed here, so this one may have
            // to try again.
            if !budget.close_one() && !budget.rest(&mut wait) {
                return Err(fault.disk_error());
            }
        }
        Err(DiskError::Gone)
    }

    /// Returns the error for a device that the budget has no descriptors for.
    pub(crate) fn refused_for_files(&self) -> OpenError {
        OpenError::host("open", &self.path, Errno::MFILE)
    }

    /// Descriptors that the device keeps as long as it is open, beside those of segment files.
    pub(crate) fn pinned_files(&self) -> usize {
        match self.kind {
            // The directory itself, and the card with the lock.
            DeviceKind::Directory => 2,
            DeviceKind::File | DeviceKind::Block => 1,
        }
    }

    /// Notes the outcome of an fdatasync and returns the result that its flush may report.
    pub(crate) fn synced(
        &self,
        index: usize,
        written: u64,
        result: Result<(), Fault>,
    ) -> Result<(), DiskError> {
        match result {
            Ok(()) => self.segment(index).synced(written),
            Err(fault) => {
                let _ = self.flush_failed.compare_exchange(
                    0,
                    fault.errno(),
                    Ordering::AcqRel,
                    Ordering::Acquire,
                );
            }
        }
        self.flushable()
    }

    /// Syncs a segment that a flush found soiled. Waits for the host.
    pub(crate) fn sync_segment(
        self: &Arc<Self>,
        index: usize,
        written: u64,
        budget: &Budget,
    ) -> Result<(), DiskError> {
        let Some(handle) = self.open_segment(index, false, budget)? else {
            return Err(DiskError::Gone);
        };
        self.synced(index, written, transfer::sync(&handle))
    }

    /// Returns an error if an earlier flush of this device failed (invariant 5).
    pub(crate) fn flushable(&self) -> Result<(), DiskError> {
        match self.flush_failed.load(Ordering::Acquire) {
            0 => Ok(()),
            // Not `NoSpace`, even if the host reported that: a retry is impossible.
            errno => Err(DiskError::Io(errno)),
        }
    }

    /// Reserves host space for a range, whole or not at all: if the host becomes full halfway, the
    /// part that it gave is freed again, because a part is of no use. Waits for the host, which may
    /// take long.
    pub(crate) fn allocate(
        self: &Arc<Self>,
        offset: u64,
        length: u64,
        budget: &Budget,
    ) -> Result<(), DiskError> {
        if self.kind == DeviceKind::Block {
            return Ok(());
        }
        let mut pieces = self.pieces(offset, length);
        let outcome = pieces.try_for_each(|piece| self.allocate_piece(piece, budget));
        if outcome == Err(DiskError::NoSpace) {
            // A piece that cannot be punched stays allocated; the caller must get the refusal.
            let pieces = self.pieces(offset, length);
            pieces.for_each(|piece| _ = self.punch(piece, budget));
        }
        self.measure_host();
        outcome
    }

    fn allocate_piece(self: &Arc<Self>, piece: Piece, budget: &Budget) -> Result<(), DiskError> {
        let Some(handle) = self.open_segment(piece.segment, true, budget)? else {
            return Err(DiskError::Gone);
        };
        match transfer::allocate(&handle, piece.offset, piece.bytes) {
            Ok(()) => {
                // The reservation is metadata of the host and becomes durable with the next flush.
                self.segment(piece.segment).soil();
                Ok(())
            }
            Err(fault) if fault.is_unsupported() => {
                self.preallocates.store(false, Ordering::Relaxed);
                Ok(())
            }
            Err(fault) => Err(fault.disk_error()),
        }
    }

    /// Gives a piece back to the host. Waits for the host.
    pub(crate) fn punch(self: &Arc<Self>, piece: Piece, budget: &Budget) -> Result<(), DiskError> {
        if self.segment(piece.segment).is_lost() {
            return Err(Fault::from(Errno::IO).disk_error());
        }
        let Some(handle) = self.open_segment(piece.segment, false, budget)? else {
            return Ok(());
        };
        let result = if self.kind == DeviceKind::Block {
            block::discard(&handle, piece.offset, piece.bytes)
        } else {
            transfer::punch(&handle, piece.offset, piece.bytes)
        };
        self.measure_host();
        match result {
            // The old bytes may stay, so a host that cannot punch does nothing wrong.
            Err(fault) if fault.is_unsupported() => Ok(()),
            other => other.map_err(Fault::disk_error),
        }
    }

    /// Makes a piece read as zeroes, without writing it if the host can do that. Waits for the
    /// host.
    pub(crate) fn zero(self: &Arc<Self>, piece: Piece, budget: &Budget) -> Result<(), Fault> {
        let opened = self.open_segment(piece.segment, false, budget);
        // A segment that is not there reads as zeroes.
        let Some(handle) = opened.map_err(|_| Fault::from(Errno::IO))? else {
            return Ok(());
        };
        let result = match transfer::punch(&handle, piece.offset, piece.bytes) {
            // A disk that cannot forget a range with zeroes as the result has it zeroed in place.
            Err(fault) if fault.is_unsupported() && self.kind == DeviceKind::Block => {
                transfer::zero(&handle, piece.offset, piece.bytes)
            }
            result => result,
        };
        self.segment(piece.segment).soil();
        self.measure_host();
        result
    }

    pub(crate) fn host_free_bytes(&self) -> Option<u64> {
        let free = self.host_free.load(Ordering::Relaxed);
        (self.kind != DeviceKind::Block && free != UNKNOWN).then_some(free)
    }

    /// Asks the host how much it could still give. Blocks. A host that does not answer leaves the
    /// last number standing.
    pub(crate) fn measure_host(&self) {
        if self.kind == DeviceKind::Block {
            return;
        }
        // Some file systems of user space have no answer and say that they have no blocks at all.
        if let Ok(stat) = rustix::fs::statvfs(&self.path)
            && stat.f_blocks > 0
        {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            self.host_free.store(free, Ordering::Relaxed);
        }
    }
}

/// Returns whether the file system is known to honour the flag.
fn keeps_dsync(path: &Path) -> bool {
    let magic = rustix::fs::statfs(path).map(|stat| stat.f_type);
    magic.is_ok_and(|magic| u64::try_from(magic).is_ok_and(|magic| KEEPS_DSYNC.contains(&magic)))
}

/// Returns whether the disk below needs no flush to make a write durable: it has forced writes, or
/// no volatile cache. A disk that the host does not describe is flushed.
fn forces(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else {
        return false;
    };
    let number = if metadata.file_type().is_block_device() {
        metadata.rdev()
    } else {
        metadata.dev()
    };
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let disk = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    // A partition has no queue of its own.
    let says = |name: &str, answer: &str| {
        ["queue", "../queue"].iter().any(|queue| {
            let said = std::fs::read_to_string(disk.join(queue).join(name));
            said.is_ok_and(|said| said.trim() == answer)
        })
    };
    says("fua", "1") || says("write_cache", "write through")
}
