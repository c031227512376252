//! Error values (proto "Error values"), and the error value for each operating error of the target.

use everglade_target::Error;

/// Errors a reply may carry. Only those the protocol allows us to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// Writing to a read-only export.
    Perm,
    /// Data cannot be read or written.
    Io,
    /// The request makes no sense.
    Invalid,
    /// The pool is full, or a write ends beyond the export.
    NoSpace,
    /// The request is possible, but not as fast as the client demands.
    NotSupported,
    /// The export or the server is going away; the client must disconnect.
    Shutdown,
}

impl Errno {
    /// Returns the number on the wire.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Errno::Perm => 1,
            Errno::Io => 5,
            Errno::Invalid => 22,
            Errno::NoSpace => 28,
            Errno::NotSupported => 95,
            Errno::Shutdown => 108,
        }
    }
}

impl From<&Error> for Errno {
    fn from(error: &Error) -> Self {
        match error {
            Error::Invalid(_) | Error::NotFound(_) => Errno::Invalid,
            Error::ReadOnly => Errno::Perm,
            Error::NoSpace => Errno::NoSpace,
            // NBD has no command that compares.
            Error::Io(_) | Error::Miscompare { .. } => Errno::Io,
            Error::Gone => Errno::Shutdown,
        }
    }
}
