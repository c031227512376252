//! Operations as plain values, which can be kept, compared and submitted twice.

use crate::{Op, WriteSpan};

/// An [`Op`] with its bytes in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of `Op`")]
pub enum Action {
    /// See [`Op::Read`].
    Read { offset: u64, length: u32 },
    /// See [`Op::Write`].
    Write {
        offset: u64,
        bytes: Vec<u8>,
        durable: bool,
    },
    /// See [`Op::CompareAndWrite`].
    CompareAndWrite {
        offset: u64,
        compare: Vec<u8>,
        bytes: Vec<u8>,
        durable: bool,
    },
    /// See [`Op::Flush`].
    Flush,
    /// See [`Op::Discard`].
    Discard {
        offset: u64,
        length: u64,
        durable: bool,
    },
    /// See [`Op::WriteZeroes`].
    WriteZeroes {
        offset: u64,
        length: u64,
        allocate: bool,
        durable: bool,
    },
    /// See [`Op::Extents`].
    Extents {
        offset: u64,
        length: u64,
        count_max: u32,
    },
}

impl Action {
    /// Makes a write that need not be durable.
    #[must_use]
    pub fn write(offset: u64, bytes: Vec<u8>) -> Self {
        Action::Write {
            offset,
            bytes,
            durable: false,
        }
    }

    /// Makes a discard that need not be durable.
    #[must_use]
    pub fn discard(offset: u64, length: u64) -> Self {
        Action::Discard {
            offset,
            length,
            durable: false,
        }
    }

    /// Zeroes that may become a hole and need not be durable.
    #[must_use]
    pub fn zeroes(offset: u64, length: u64) -> Self {
        Action::WriteZeroes {
            offset,
            length,
            allocate: false,
            durable: false,
        }
    }

    /// Returns the operation to submit.
    #[must_use]
    pub fn op(&self) -> Op {
        match *self {
            Action::Read { offset, length } => Op::Read { offset, length },
            Action::Write {
                offset,
                ref bytes,
                durable,
            } => Op::Write {
                data: WriteSpan::copy_of(offset, bytes),
                durable,
            },
            Action::CompareAndWrite {
                offset,
                ref compare,
                ref bytes,
                durable,
            } => Op::CompareAndWrite {
                compare: WriteSpan::copy_of(offset, compare),
                data: WriteSpan::copy_of(offset, bytes),
                durable,
            },
            Action::Flush => Op::Flush,
            Action::Discard {
                offset,
                length,
                durable,
            } => Op::Discard {
                offset,
                length,
                durable,
            },
            Action::WriteZeroes {
                offset,
                length,
                allocate,
                durable,
            } => Op::WriteZeroes {
                offset,
                length,
                allocate,
                durable,
            },
            Action::Extents {
                offset,
                length,
                count_max,
            } => Op::Extents {
                offset,
                length,
                count_max,
            },
        }
    }

    /// Returns the bytes concerned; a flush concerns none.
    #[must_use]
    pub fn range(&self) -> std::ops::Range<u64> {
        let (offset, length) = match *self {
            Action::Read { offset, length } => (offset, u64::from(length)),
            Action::Write {
                offset, ref bytes, ..
            }
            | Action::CompareAndWrite {
                offset, ref bytes, ..
            } => (offset, bytes.len() as u64),
            Action::Flush => (0, 0),
            Action::Discard { offset, length, .. }
            | Action::WriteZeroes { offset, length, .. }
            | Action::Extents { offset, length, .. } => (offset, length),
        };
        offset..offset.saturating_add(length)
    }

    /// Returns whether the action may change the contents.
    #[must_use]
    pub fn changes(&self) -> bool {
        !matches!(
            self,
            Action::Read { .. } | Action::Flush | Action::Extents { .. }
        )
    }
}
