//! Operations, completions, and the trait that joins protocols to storage.

use crate::{Error, Export, Extent, Image, ReadSpan, WriteSpan};

/// Longest read or write submitted as one operation, in bytes (K-06, docs/design/design.md §5).
pub const OP_BYTES_MAX: u32 = 1 << 20;

/// Longest range of a [`Op::CompareAndWrite`], in bytes.
pub const COMPARE_BYTES_MAX: u32 = 64 << 10;

/// Chosen by the submitter, returned with the completion. Unique among its operations in flight.
pub type Token = u64;

/// An open LUN. Valid until closed; names nothing else afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LunHandle(pub u64);

/// One operation on a LUN. Offsets and lengths are in bytes and may have any alignment.
#[derive(Debug)]
pub enum Op {
    /// Returns the bytes.
    Read {
        /// First byte.
        offset: u64,
        /// 1 ..= [`OP_BYTES_MAX`].
        length: u32,
    },
    /// Stores bytes.
    Write {
        /// Range and contents, at most [`OP_BYTES_MAX`] long.
        data: WriteSpan,
        /// Complete only when durable (FUA).
        durable: bool,
    },
    /// Stores bytes if the range has the expected contents, and fails with
    /// [`Error::Miscompare`] otherwise. Comparing and storing are one step: no change by another
    /// operation, of any session, comes between them.
    CompareAndWrite {
        /// The expected contents, 1 ..= [`COMPARE_BYTES_MAX`] bytes.
        compare: WriteSpan,
        /// The new contents, of the same range.
        data: WriteSpan,
        /// Complete only when durable (FUA).
        durable: bool,
    },
    /// See contract 3.
    Flush,
    /// The range is no longer needed: it reads as zeroes afterwards and its space is freed. Partial
    /// blocks at the edges keep their contents.
    Discard {
        /// First byte.
        offset: u64,
        /// Bytes, any length.
        length: u64,
        /// Complete only when durable.
        durable: bool,
    },
    /// The range reads as zeroes afterwards, to the byte. A block that is zeroed in part may take
    /// space afterwards although it did not before.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Bytes, any length.
        length: u64,
        /// Keep space allocated for the range instead of freeing it.
        allocate: bool,
        /// Complete only when durable.
        durable: bool,
    },
    /// Returns which parts of the range take space. The answer covers at least the first byte, and
    /// may end before the range does; the caller then asks for the rest. Each extent is right at
    /// some moment, not all at one moment.
    Extents {
        /// First byte.
        offset: u64,
        /// Bytes, at least 1, any length.
        length: u64,
        /// Most extents wanted, at least 1.
        count_max: u32,
    },
    /// Returns which parts of the range may read differently than in another LUN, usually an
    /// earlier image of the same LUN. The answer has the form of [`Op::Extents`]:
    /// [`Allocation::Data`](crate::Allocation::Data) may differ,
    /// [`Allocation::Hole`](crate::Allocation::Hole) does not. Bytes beyond the end of the other
    /// LUN are compared with zeroes.
    Changes {
        /// First byte.
        offset: u64,
        /// Bytes, at least 1, any length.
        length: u64,
        /// Most extents wanted, at least 1.
        count_max: u32,
        /// The LUN to compare with, one of the LUN's [images](Target::images); open on the same
        /// reactor.
        since: LunHandle,
    },
}

/// The result of a successful operation.
#[derive(Debug)]
pub enum Reply {
    /// The bytes of a read.
    Data(ReadSpan),
    /// The extents from the requested offset on; neighbours differ.
    Extents(Vec<Extent>),
    /// Everything else.
    Done,
}

/// The end of an operation.
#[derive(Debug)]
pub struct Completion {
    /// The token given at submission.
    pub token: Token,
    /// The outcome. A failure has its reason.
    pub result: Result<Reply, Error>,
}

/// Storage as the sessions of one reactor use it. Never blocks.
pub trait Target {
    /// Returns all exports, sorted by name.
    fn exports(&self) -> Vec<Export>;

    /// Returns the images that the LUN of this name can be compared with, sorted by label; none if
    /// the LUN does not exist, or if the target keeps no images.
    fn images(&self, name: &str) -> Vec<Image> {
        let _ = name;
        Vec::new()
    }

    /// Opens a LUN by name (`volume/lun`).
    ///
    /// # Errors
    /// [`Error::NotFound`] or [`Error::Gone`].
    fn open(&mut self, name: &str) -> Result<(LunHandle, Export), Error>;

    /// Closes a handle. Operations in flight still complete.
    fn close(&mut self, lun: LunHandle);

    /// Returns the current size of an open LUN in bytes; `None` when the LUN is gone.
    fn size_bytes(&self, lun: LunHandle) -> Option<u64>;

    /// Starts an operation. Exactly one [`Completion`] with `token` follows from [`Target::poll`],
    /// possibly already by the next call.
    fn submit(&mut self, lun: LunHandle, op: Op, token: Token);

    /// Announces reads of an open LUN that will be submitted soon: (offset, length) in bytes, in
    /// the order of their submission. This is a hint, so that a target can allocate the memory for
    /// all of them at once. Nothing is checked yet.
    fn expect_reads(&mut self, lun: LunHandle, reads: &[(u64, u32)]) {
        let _ = (lun, reads);
    }

    /// Appends finished operations, in the order in which they finished. Does not wait.
    fn poll(&mut self, done: &mut Vec<Completion>);
}
