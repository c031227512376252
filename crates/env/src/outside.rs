//! The two views of the world: one per reactor for the data path, one blocking for start-up.

use std::ops::Range;
use std::path::PathBuf;

use crate::{Completion, DeviceId, DiskError, Op};

/// Monotonic time in nanoseconds since an arbitrary start (virtual in simulation).
pub type Nanos = u64;

/// The services of the outside world for one reactor. Never blocks.
pub trait Outside {
    /// Starts `op`. Exactly one [`Completion`] with `token` follows from [`Outside::poll`], also
    /// for operations that fail at once. Never fails, never completes inside the call.
    fn submit(&mut self, op: Op, token: u64);

    /// Appends the completions that are ready. Does not wait.
    fn poll(&mut self, done: &mut Vec<Completion>);

    /// Returns monotonic time.
    fn now(&self) -> Nanos;

    /// Returns the CPU time that the calling thread has used. A reactor calls this on its thread.
    fn thread_cpu(&self) -> Nanos;

    /// Seconds since 1970-01-01 UTC, for timestamps shown to people.
    fn wall_seconds(&self) -> u64;

    /// Returns a random number (from the seed in simulation).
    fn random(&mut self) -> u64;

    /// Makes reactor `reactor` poll soon, wherever it waits. May be called for oneself.
    fn wake(&self, reactor: usize);

    /// Returns the bytes that the host could still allocate to this device; `None` if the device
    /// owns its space (block devices), or if its host does not report this. May be a second old.
    fn host_free_bytes(&self, device: DeviceId) -> Option<u64>;
}

/// Blocking access to opened devices, for labels, mounting, formatting and offline tools.
///
/// Not for the data path. Offsets and lengths are multiples of [`crate::BLOCK_SIZE`].
pub trait Storage: Send + Sync {
    /// Returns the name of the device for people: its path, if it has one.
    fn name(&self, device: DeviceId) -> String {
        format!("{}", device.0)
    }

    /// Returns the usable size of the device in bytes, a multiple of the block size.
    fn size_bytes(&self, device: DeviceId) -> u64;

    /// Reads exactly `buffer.len()` bytes. Parts never written read as zeroes.
    ///
    /// # Errors
    /// The device's error.
    fn read(&self, device: DeviceId, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError>;

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// The device's error; the range then holds old, new or torn contents.
    fn write(&self, device: DeviceId, offset: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Returns when all completed writes are on stable storage.
    ///
    /// # Errors
    /// The device's error; nothing may be assumed durable.
    fn flush(&self, device: DeviceId) -> Result<(), DiskError>;

    /// Reserves host space for the range (see [`Op::Allocate`]).
    ///
    /// # Errors
    /// [`DiskError::NoSpace`] if the host is full; it has the range back.
    fn allocate(&self, device: DeviceId, offset: u64, length: u64) -> Result<(), DiskError>;

    /// Makes a range of a device read as zeroes. Waits for the host, which may have to write all
    /// of it.
    ///
    /// # Errors
    /// The device's error; the range then holds old contents, zeroes, or both.
    fn zero(&self, device: DeviceId, offset: u64, length: u64) -> Result<(), DiskError> {
        write_zeroes(self, device, offset, length)
    }

    /// Says which ranges of a device were written, in bytes, and returns the segment files that are
    /// missing, empty or too short although a part of them was written. From then on these are
    /// *lost*: a read of what is not there is an error, and so is every write and allocation in
    /// them, so that the right file can be put back at any time. Called after the device was opened
    /// and before anything is written. Returns none if the device has no segment files.
    fn find_lost(&self, _device: DeviceId, _written: &[Range<u64>]) -> Vec<SegmentFault> {
        Vec::new()
    }
}

/// Writes zeroes to a range.
pub(crate) fn write_zeroes<S: Storage + ?Sized>(
    storage: &S,
    device: DeviceId,
    offset: u64,
    length: u64,
) -> Result<(), DiskError> {
    const CHUNK: usize = 1 << 20;
    let zeroes = vec![0; CHUNK];
    for at in (0..length).step_by(CHUNK) {
        let bytes = usize::try_from(length - at).map_or(CHUNK, |left| left.min(CHUNK));
        storage.write(device, offset + at, &zeroes[..bytes])?;
    }
    Ok(())
}

/// A segment file that is absent, empty or too short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFault {
    /// The device it is a part of.
    pub device: DeviceId,
    /// The file.
    pub path: PathBuf,
    /// Its length when the device was opened; `None` if it is absent.
    pub found_bytes: Option<u64>,
    /// The length that it should have.
    pub expected_bytes: u64,
    /// The bytes of the device that are in this file.
    pub range: Range<u64>,
}

impl SegmentFault {
    /// Returns the command that makes the file anew, full of zeroes, with its whole length.
    #[must_use]
    pub fn making(&self) -> String {
        let path = self.path.display().to_string().replace('\'', "'\\''");
        format!("truncate -s {} '{path}'", self.expected_bytes)
    }
}
