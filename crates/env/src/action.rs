//! The actions of a thread on a file descriptor.

/// The action of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Write,
    /// A write that is on stable storage when it completes.
    WriteDurable,
    /// fdatasync; has no pieces.
    Sync,
}
