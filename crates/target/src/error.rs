//! Errors of operations, by what a protocol must tell its client.

/// An operating error. Each protocol maps these to wire codes in one `match` at its edge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request makes no sense here: range beyond the end, too long, misaligned.
    #[error("invalid request: {0}")]
    Invalid(&'static str),
    /// The export is read-only.
    #[error("the export is read-only")]
    ReadOnly,
    /// The pool, or the host below it, is full. Nothing was changed.
    #[error("no space left in the pool")]
    NoSpace,
    /// The contents were not the expected ones, and nothing was written.
    #[error("the contents differ from the expected ones at byte {offset} of the range")]
    Miscompare {
        /// The first byte that differs, from the beginning of the range.
        offset: u32,
    },
    /// Data cannot be read or written: media error, failed checksum, poisoned aggregate.
    #[error("input/output error: {0}")]
    Io(String),
    /// The LUN was deleted or the server is stopping; the session should end.
    #[error("the export is gone")]
    Gone,
    /// No LUN has this name.
    #[error("no such export: {0}")]
    NotFound(String),
}
