//! Transfers: single calls to the host on one open file, and the meaning of its error numbers.
//!
//! Both ways of doing I/O (`ring`, `threads`) carry transfers: a file, a position and an array of
//! memory pieces. The owner of a transfer keeps the array and the memory in place until its result
//! has been seen.
#![expect(
    unsafe_code,
    reason = "vectored I/O on memory that others keep in place"
)]

use crate::action::Action;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::{BLOCK_SIZE, DiskError, Page, PageRef};

/// One call to the host.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) action: Action,
    pub(crate) file: RawFd,
    pub(crate) offset: u64,
    pub(crate) pieces: *const libc::iovec,
    pub(crate) count: u32,
    /// Key that is returned with the result.
    pub(crate) key: u64,
}

// SAFETY: these are addresses and a number; the code that runs the transfer guarantees that they
// are valid.
unsafe impl Send for Transfer {}

/// The result of a transfer: bytes moved, or the negated error number.
pub(crate) type RawResult = i32;

impl Transfer {
    /// Makes the call and waits for its result.
    ///
    /// # Safety
    /// The file is open, and pieces and the memory they name stay in place and unshared (for reads)
    /// or unchanged (for writes) during the call.
    pub(crate) unsafe fn run(&self) -> RawResult {
        let count = self.count.cast_signed();
        let offset = self.offset.cast_signed();
        // SAFETY: as this function demands.
        let moved = unsafe {
            match self.action {
                Action::Read => libc::preadv2(self.file, self.pieces, count, offset, 0),
                Action::Write => libc::pwritev2(self.file, self.pieces, count, offset, 0),
                Action::WriteDurable => {
                    libc::pwritev2(self.file, self.pieces, count, offset, libc::RWF_DSYNC)
                }
                Action::Sync => libc::fdatasync(self.file) as isize,
            }
        };
        if moved < 0 {
            -std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO)
        } else {
            RawResult::try_from(moved).expect("a transfer is at most 1 MiB")
        }
    }
}

/// An error number of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault(Errno);

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        Fault(errno)
    }
}

impl Fault {
    /// A transfer that ended before its time: a file shorter than it was, or a host that gives up.
    pub(crate) const CUT_SHORT: Fault = Fault(Errno::IO);

    /// From a negative outcome.
    pub(crate) fn of(outcome: RawResult) -> Fault {
        assert!(outcome < 0, "only a negative outcome is a fault");
        Fault(Errno::from_raw_os_error(-outcome))
    }

    pub(crate) fn errno(self) -> i32 {
        self.0.raw_os_error()
    }

    /// Returns the outcome for the caller of an operation.
    pub(crate) fn disk_error(self) -> DiskError {
        match self.0 {
            Errno::NOSPC | Errno::DQUOT => DiskError::NoSpace,
            Errno::NODEV | Errno::NXIO | Errno::BADF => DiskError::Gone,
            errno => DiskError::Io(errno.raw_os_error()),
        }
    }

    pub(crate) fn io_error(self) -> std::io::Error {
        self.0.into()
    }

    /// Returns whether the host did not try the call, so that it must be repeated.
    pub(crate) fn is_transient(self) -> bool {
        self.0 == Errno::AGAIN || self.0 == Errno::INTR
    }

    /// Returns whether the process, or the host, has no descriptor left: the caller waits for a
    /// free one.
    pub(crate) fn is_shortage(self) -> bool {
        self.0 == Errno::MFILE || self.0 == Errno::NFILE
    }

    /// Returns whether the host does not support the call here.
    pub(crate) fn is_unsupported(self) -> bool {
        matches!(self.0, Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY)
    }

    /// Returns whether the host refuses O_DIRECT with this error.
    pub(crate) fn is_refusal(self) -> bool {
        self.0 == Errno::INVAL || self.is_unsupported()
    }
}

/// The memory of a transfer, as an array for the host.
#[derive(Debug, Default)]
pub(crate) struct Gather(Vec<libc::iovec>);

// SAFETY: these are addresses; using them is up to `Transfer::run` and its callers.
unsafe impl Send for Gather {}

impl Gather {
    /// Names memory to be overwritten, joining neighbours.
    pub(crate) fn of_pages(pages: &mut [Page]) -> Gather {
        let mut gather = Gather(Vec::new());
        pages
            .iter_mut()
            .for_each(|page| gather.push(page.as_mut_ptr()));
        gather
    }

    /// Names memory to be read.
    pub(crate) fn of_frozen(pages: &[PageRef]) -> Gather {
        let mut gather = Gather(Vec::new());
        pages
            .iter()
            .for_each(|page| gather.push(page.as_ptr().cast_mut()));
        gather
    }

    fn push(&mut self, start: *mut u8) {
        match self.0.last_mut() {
            Some(last) if last.iov_base.addr() + last.iov_len == start.addr() => {
                last.iov_len += BLOCK_SIZE;
            }
            _ => self.0.push(libc::iovec {
                iov_base: start.cast(),
                iov_len: BLOCK_SIZE,
            }),
        }
    }

    /// Drops the first `bytes`: they have been transferred.
    pub(crate) fn advance(&mut self, mut bytes: usize) {
        let mut whole = 0;
        for piece in &mut self.0 {
            if bytes < piece.iov_len {
                piece.iov_base = piece.iov_base.wrapping_byte_add(bytes);
                piece.iov_len -= bytes;
                break;
            }
            bytes -= piece.iov_len;
            whole += 1;
        }
        self.0.drain(..whole);
    }

    /// Returns the transfer of all the memory. Valid while the gather is neither changed nor
    /// dropped.
    pub(crate) fn transfer(&self, action: Action, file: &File, offset: u64, key: u64) -> Transfer {
        Transfer {
            action,
            file: file.as_raw_fd(),
            offset,
            pieces: self.0.as_ptr(),
            count: u32::try_from(self.0.len()).expect("an operation has at most 256 pages"),
            key,
        }
    }
}

/// The effect of an outcome on a transfer that has `left` bytes to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All of it is done.
    Done,
    /// This number of bytes is done; continue with the rest.
    Rest(u64),
    /// Nothing was transferred: repeat.
    Repeat,
    Failed(Fault),
}

impl Progress {
    pub(crate) fn of(outcome: RawResult, left: u64) -> Progress {
        let Ok(moved) = u64::try_from(outcome) else {
            let fault = Fault::of(outcome);
            return if fault.is_transient() {
                Progress::Repeat
            } else {
                Progress::Failed(fault)
            };
        };
        assert!(moved <= left, "the host moved {moved} bytes of {left}");
        // A torn block is transferred again, because positions must stay aligned.
        match moved - moved % BLOCK_SIZE as u64 {
            _ if moved == left => Progress::Done,
            0 => Progress::Failed(Fault::CUT_SHORT),
            whole => Progress::Rest(whole),
        }
    }
}

/// Tries to read one block, to see whether the host allows it on this file.
pub(crate) fn probe(file: &File) -> Result<(), Fault> {
    let mut page = [Page::for_read()];
    let gather = Gather::of_pages(&mut page);
    let transfer = gather.transfer(Action::Read, file, 0, 0);
    // SAFETY: file, page and gather live until after the call.
    match unsafe { transfer.run() } {
        outcome if outcome < 0 => Err(Fault::of(outcome)),
        _ => Ok(()),
    }
}

/// Transfers all of it and waits, for blocking access.
///
/// # Safety
/// The memory named stays in place and unshared (for reads) or unchanged (for writes).
unsafe fn run_whole(
    action: Action,
    file: &File,
    mut offset: u64,
    mut gather: Gather,
    mut left: u64,
) -> Result<(), Fault> {
    loop {
        // SAFETY: the file is borrowed, the gather is ours, the memory is vouched for by the
        // caller.
        let outcome = unsafe { gather.transfer(action, file, offset, 0).run() };
        match Progress::of(outcome, left) {
            Progress::Done => return Ok(()),
            Progress::Repeat => {}
            Progress::Failed(fault) => return Err(fault),
            Progress::Rest(bytes) => {
                gather.advance(usize::try_from(bytes).expect("at most 1 MiB"));
                offset += bytes;
                left -= bytes;
            }
        }
    }
}

/// Syncs the data of a file and waits.
pub(crate) fn sync(file: &File) -> Result<(), Fault> {
    again(|| rustix::fs::fdatasync(file))
}

/// Reads into `pages` and waits.
pub(crate) fn read_whole(file: &File, offset: u64, pages: &mut [Page]) -> Result<(), Fault> {
    let left = (pages.len() * BLOCK_SIZE) as u64;
    // SAFETY: the pages are borrowed mutably until after the call.
    unsafe { run_whole(Action::Read, file, offset, Gather::of_pages(pages), left) }
}

/// Writes `pages` and waits.
pub(crate) fn write_whole(file: &File, offset: u64, pages: &[PageRef]) -> Result<(), Fault> {
    let left = (pages.len() * BLOCK_SIZE) as u64;
    // SAFETY: frozen pages do not change, and are borrowed until after the call.
    unsafe { run_whole(Action::Write, file, offset, Gather::of_frozen(pages), left) }
}

/// Reserves host space, keeping size and contents.
pub(crate) fn allocate(file: &File, offset: u64, bytes: u64) -> Result<(), Fault> {
    again(|| rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, offset, bytes))
}

/// Gives host space back.
pub(crate) fn punch(file: &File, offset: u64, bytes: u64) -> Result<(), Fault> {
    let flags = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE;
    again(|| rustix::fs::fallocate(file, flags, offset, bytes))
}

/// Makes a range zeroes, keeping the size. A disk without a command for this is written.
pub(crate) fn zero(file: &File, offset: u64, bytes: u64) -> Result<(), Fault> {
    let flags = FallocateFlags::KEEP_SIZE | FallocateFlags::ZERO_RANGE;
    again(|| rustix::fs::fallocate(file, flags, offset, bytes))
}

fn again(mut call: impl FnMut() -> rustix::io::Result<()>) -> Result<(), Fault> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result.map_err(Fault::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: i32 = 4096;

    #[test]
    fn a_short_transfer_goes_on_at_a_whole_block() {
        let left = 4 * BLOCK_SIZE as u64;
        assert_eq!(Progress::of(4 * BLOCK, left), Progress::Done);
        assert_eq!(
            Progress::of(2 * BLOCK, left),
            Progress::Rest(2 * BLOCK_SIZE as u64)
        );
        assert_eq!(
            Progress::of(2 * BLOCK + 512, left),
            Progress::Rest(2 * BLOCK_SIZE as u64)
        );
        assert_eq!(Progress::of(512, left), Progress::Failed(Fault::CUT_SHORT));
        assert_eq!(Progress::of(0, left), Progress::Failed(Fault::CUT_SHORT));
        assert_eq!(Progress::of(-libc::EINTR, left), Progress::Repeat);
        assert_eq!(Progress::of(0, 0), Progress::Done);
    }

    #[test]
    fn errors_are_told_apart_by_what_can_be_done() {
        let told = |errno: i32| Fault::of(-errno).disk_error();
        assert_eq!(told(libc::ENOSPC), DiskError::NoSpace);
        assert_eq!(told(libc::EDQUOT), DiskError::NoSpace);
        assert_eq!(told(libc::ENODEV), DiskError::Gone);
        assert_eq!(told(libc::ENXIO), DiskError::Gone);
        assert_eq!(told(libc::EIO), DiskError::Io(libc::EIO));
    }

    #[test]
    fn the_rest_of_a_gather_begins_where_the_transfer_ended() {
        let mut pages: Vec<Page> = (0..5).map(|_| Page::for_read()).collect();
        for at in 0..5 {
            let mut gather = Gather::of_pages(&mut pages);
            gather.advance(at * BLOCK_SIZE);
            let first = gather.0[0].iov_base.addr();
            assert_eq!(first, pages[at].as_ptr().addr());
            let bytes: usize = gather.0.iter().map(|piece| piece.iov_len).sum();
            assert_eq!(bytes, (5 - at) * BLOCK_SIZE);
        }
    }
}
