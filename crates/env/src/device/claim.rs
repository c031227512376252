//! Opening files so that no second server can open them, and finding out whether the host allows
//! O_DIRECT.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::OpenError;
use crate::transfer;

/// Opens for reading and writing, with `extra` flags; no terminal, no inheritance.
pub(super) fn open(path: &Path, extra: OFlags) -> Result<File, OpenError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | extra;
    rustix::fs::open(path, flags, Mode::empty())
        .map(File::from)
        .map_err(|errno| OpenError::host("open", path, errno))
}

/// Opens like [`open`], bypassing the page cache if the host allows it. Returns whether it does.
///
/// Some file systems accept the flag and refuse the I/O, so one block is read to be sure.
pub(super) fn open_direct(path: &Path, extra: OFlags) -> Result<(File, bool), OpenError> {
    match open(path, extra | OFlags::DIRECT) {
        Ok(file) => match transfer::probe(&file) {
            Ok(()) => Ok((file, true)),
            Err(fault) if fault.is_refusal() => Ok((open(path, extra)?, false)),
            Err(fault) => Err(OpenError::host("read", path, fault.io_error())),
        },
        Err(OpenError::Host { source, .. }) if refuses_direct(&source) => {
            Ok((open(path, extra)?, false))
        }
        Err(error) => Err(error),
    }
}

fn refuses_direct(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error();
    errno == Some(Errno::INVAL.raw_os_error()) || errno == Some(Errno::OPNOTSUPP.raw_os_error())
}

/// Locks the file against other servers for as long as it, or a handle made from it, is open.
pub(super) fn lock(file: &File, path: &Path) -> Result<(), OpenError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(OpenError::Busy {
            path: path.to_path_buf(),
        }),
        Err(errno) => Err(OpenError::host("lock", path, errno)),
    }
}
