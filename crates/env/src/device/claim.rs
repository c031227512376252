//! Opening files so that no second server can open them, and finding out whether the host allows
//! O_DIRECT.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::OpenError;
use crate::transfer;

/// What the opener of a device may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read and write. The opener has the device alone.
    Full,
    /// Read only, also a device that nobody may write to. Other readers may have the device as
    /// well, and no writer.
    ReadOnly,
}

impl Access {
    /// Returns the flag for opening files.
    pub(super) fn flag(self) -> OFlags {
        match self {
            Access::Full => OFlags::RDWR,
            Access::ReadOnly => OFlags::RDONLY,
        }
    }
}

/// Opens with `extra` flags; no terminal, no inheritance.
pub(super) fn open(path: &Path, access: Access, extra: OFlags) -> Result<File, OpenError> {
    let flags = access.flag() | OFlags::CLOEXEC | OFlags::NOCTTY | extra;
    rustix::fs::open(path, flags, Mode::empty())
        .map(File::from)
        .map_err(|errno| OpenError::host("open", path, errno))
}

/// Opens like [`open`], bypassing the page cache if the host allows it. Returns whether it does.
///
/// Some file systems accept the flag and refuse the I/O, so one block is read to be sure.
pub(super) fn open_direct(
    path: &Path,
    access: Access,
    extra: OFlags,
) -> Result<(File, bool), OpenError> {
    match open(path, access, extra | OFlags::DIRECT) {
        Ok(file) => match transfer::probe(&file) {
            Ok(()) => Ok((file, true)),
            Err(fault) if fault.is_refusal() => Ok((open(path, access, extra)?, false)),
            Err(fault) => Err(OpenError::host("read", path, fault.io_error())),
        },
        Err(OpenError::Host { source, .. }) if refuses_direct(&source) => {
            Ok((open(path, access, extra)?, false))
        }
        Err(error) => Err(error),
    }
}

fn refuses_direct(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error();
    errno == Some(Errno::INVAL.raw_os_error()) || errno == Some(Errno::OPNOTSUPP.raw_os_error())
}

/// Locks the file against other servers for as long as it, or a handle made from it, is open.
/// Readers lock it against writers only.
pub(super) fn lock(file: &File, path: &Path, access: Access) -> Result<(), OpenError> {
    let operation = match access {
        Access::Full => FlockOperation::NonBlockingLockExclusive,
        Access::ReadOnly => FlockOperation::NonBlockingLockShared,
    };
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(OpenError::Busy {
            path: path.to_path_buf(),
        }),
        Err(errno) => Err(OpenError::host("lock", path, errno)),
    }
}
