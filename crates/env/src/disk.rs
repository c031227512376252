//! Device operations and their completions.
//!
//! Buffers are owned: the operation takes them, and the completion returns them. Once submitted,
//! memory belongs to the device until the completion has been seen; there is no cancellation. All
//! offsets and lengths are multiples of [`crate::BLOCK_SIZE`].

use crate::{Page, PageRef};

/// Index of a device in the table of the world that opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub u32);

/// One device operation.
#[derive(Debug)]
pub enum Op {
    /// Fills `pages`, which are consecutive on the device from `offset` (bytes). At most 1 MiB.
    Read {
        /// Device to read from.
        device: DeviceId,
        /// First byte.
        offset: u64,
        /// Pages to fill, one per block.
        pages: Vec<Page>,
    },
    /// Writes `pages` consecutively from `offset` (bytes). At most 1 MiB.
    Write {
        /// Device to write to.
        device: DeviceId,
        /// First byte.
        offset: u64,
        /// Pages to write, one per block.
        pages: Vec<PageRef>,
        /// Complete only when this write (not others) is on stable storage.
        durable: bool,
    },
    /// Completes when every write completed before the submission is on stable storage.
    Flush {
        /// Device to flush.
        device: DeviceId,
    },
    /// Makes the host reserve real space for the range, so that later writes there cannot fail for
    /// lack of space. Contents are kept, unless this completes with [`DiskError::NoSpace`] because
    /// the host is full: then the whole range is free again, and its contents are undefined.
    Allocate {
        /// Device on which space is allocated.
        device: DeviceId,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Gives the range back to the host. Contents become undefined (zeroes or the old bytes).
    Punch {
        /// Device on which the range is freed.
        device: DeviceId,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

impl Op {
    /// Returns the device that it is for.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        match self {
            Op::Read { device, .. }
            | Op::Write { device, .. }
            | Op::Flush { device }
            | Op::Allocate { device, .. }
            | Op::Punch { device, .. } => *device,
        }
    }

    /// Returns the same operation for another device. Written pages are shared.
    ///
    /// # Panics
    /// If it is a read: its pages have one owner.
    #[must_use]
    pub fn on(&self, device: DeviceId) -> Op {
        match self {
            Op::Read { .. } => panic!("a read is for one device"),
            Op::Write {
                offset,
                pages,
                durable,
                ..
            } => Op::Write {
                device,
                offset: *offset,
                pages: pages.clone(),
                durable: *durable,
            },
            Op::Flush { .. } => Op::Flush { device },
            Op::Allocate { offset, length, .. } => Op::Allocate {
                device,
                offset: *offset,
                length: *length,
            },
            Op::Punch { offset, length, .. } => Op::Punch {
                device,
                offset: *offset,
                length: *length,
            },
        }
    }
}

/// The end of an operation.
#[derive(Debug)]
pub struct Completion {
    /// The token given at submission.
    pub token: u64,
    /// The outcome. A short transfer is an error here, never a partial success.
    pub result: Result<(), DiskError>,
    /// The pages of a read, filled if `result` is `Ok`; empty for other operations.
    pub pages: Vec<Page>,
}

/// The reasons why a device operation failed, one for each reaction of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// The host has no room; retry when there is. Some blocks of a longer write may have been
    /// written.
    #[error("the host has no space left")]
    NoSpace,
    /// The device reports that it cannot do this (media error, bad sector, I/O error).
    #[error("device I/O error (errno {0})")]
    Io(i32),
    /// The device has vanished or was closed.
    #[error("the device is gone")]
    Gone,
}

impl DiskError {
    /// Returns whether the error is about the blocks themselves (they cannot be read), not about
    /// how they were reached: EIO, ENODATA, EILSEQ.
    #[must_use]
    pub fn is_about_the_medium(self) -> bool {
        use rustix::io::Errno;
        let about = [Errno::IO, Errno::NODATA, Errno::ILSEQ].map(Errno::raw_os_error);
        matches!(self, DiskError::Io(errno) if about.contains(&errno))
    }
}
