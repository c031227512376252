//! One reactor's io_uring.
//!
//! The ring has the first of three setups that the kernel accepts: *deferred* (completions are
//! posted only when the reactor enters the kernel, so they cause no interrupts), *cooperative*,
//! plain. Deferred needs a single submitting thread; the ring is therefore made disabled, and
//! belongs to the thread that first uses it.
//!
//! `push` only fills the submission queue. `turn` enters the kernel if there is anything to submit
//! or to collect, at most once, and takes the completions. While the reactor sleeps, the kernel
//! signals an eventfd for every completion and for deferred work, and the wait point
//! (`reactor::poller`) watches it edge-triggered, so it need not be read. (The descriptor of the
//! ring itself does not become readable for deferred work.) `has_completions` tells whether a
//! signal is for new completions, or for some that were collected already.
//!
//! Memory: from `push` until `turn` returns the key, the file, the memory and the array that names
//! the memory belong to the kernel, whatever the calls in between return. There is no cancellation,
//! and the owner waits for everything before it drops anything, or drops nothing.
#![expect(
    unsafe_code,
    reason = "the kernel takes raw memory; see the contract of `push`"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use io_uring::{IoUring, opcode, types};
use rustix::event::{EventfdFlags, eventfd};

use crate::action::Action;
use crate::transfer::{RawResult, Transfer};

/// Number of entries of the submission queue.
const ENTRIES: u32 = 256;
/// Room for completions; `reactor::IN_LANE_MAX` keeps it from overflowing.
pub(crate) const COMPLETIONS: u32 = 1024;

/// The way in which completions reach the reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingSetup {
    /// SINGLE_ISSUER | DEFER_TASKRUN (Linux 6.1).
    Deferred,
    /// COOP_TASKRUN (Linux 5.19).
    Cooperative,
    /// No option (older kernels).
    Plain,
}

pub(crate) struct Ring {
    ring: IoUring,
    setup: RingSetup,
    /// Signalled by the kernel when there is something for `turn`.
    event: OwnedFd,
    /// False until the owning thread has used the ring.
    enabled: bool,
}

impl Ring {
    /// Makes the best ring that the host allows.
    pub(crate) fn new() -> io::Result<Ring> {
        Ring::with(RingSetup::Deferred)
            .or_else(|_| Ring::with(RingSetup::Cooperative))
            .or_else(|_| Ring::with(RingSetup::Plain))
    }

    pub(crate) fn with(setup: RingSetup) -> io::Result<Ring> {
        let mut builder = IoUring::builder();
        builder
            .dontfork()
            .setup_cqsize(COMPLETIONS)
            .setup_r_disabled();
        match setup {
            RingSetup::Deferred => {
                builder
                    .setup_single_issuer()
                    .setup_defer_taskrun()
                    .setup_taskrun_flag();
                builder.setup_submit_all();
            }
            RingSetup::Cooperative => {
                builder
                    .setup_coop_taskrun()
                    .setup_taskrun_flag()
                    .setup_submit_all();
            }
            RingSetup::Plain => {}
        }
        let ring = builder.build(ENTRIES)?;
        if !ring.params().is_feature_nodrop() {
            return Err(io::Error::other("the kernel may drop completions"));
        }
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Ring {
            ring,
            setup,
            event,
            enabled: false,
        })
    }

    pub(crate) fn setup(&self) -> RingSetup {
        self.setup
    }

    /// Makes this thread the owner. Idempotent.
    pub(crate) fn enable(&mut self) {
        if !self.enabled {
            let submitter = self.ring.submitter();
            submitter
                .register_enable_rings()
                .expect("a ring made disabled can be enabled once");
            let event = self.event.as_raw_fd();
            submitter
                .register_eventfd(event)
                .expect("a new ring takes an eventfd");
            self.enabled = true;
        }
    }

    /// Queues a transfer.
    ///
    /// # Safety
    /// The file stays open, and the memory and the array naming it stay in place and unshared (for
    /// reads) or unchanged (for writes), until the key has come out of [`Ring::turn`].
    pub(crate) unsafe fn push(&mut self, transfer: &Transfer) {
        let file = types::Fd(transfer.file);
        let entry = match transfer.action {
            Action::Read => opcode::Readv::new(file, transfer.pieces, transfer.count)
                .offset(transfer.offset)
                .build(),
            Action::Write => opcode::Writev::new(file, transfer.pieces, transfer.count)
                .offset(transfer.offset)
                .build(),
            Action::WriteDurable => opcode::Writev::new(file, transfer.pieces, transfer.count)
                .offset(transfer.offset)
                .rw_flags(libc::RWF_DSYNC)
                .build(),
            Action::Sync => opcode::Fsync::new(file)
                .flags(types::FsyncFlags::DATASYNC)
                .build(),
        }
        .user_data(transfer.key);
        assert!(self.has_room(), "the caller checks for room");
        // SAFETY: as this function demands.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "a queue with room takes an entry");
    }

    /// Returns false if `push` must wait for the kernel to take queued entries.
    pub(crate) fn has_room(&mut self) -> bool {
        !self.ring.submission().is_full()
    }

    /// Passes the queued entries to the kernel. Entries that it does not take now stay queued.
    pub(crate) fn submit(&mut self) {
        self.enable();
        self.enter();
    }

    /// Returns whether something was pushed that the kernel has not taken.
    pub(crate) fn has_unsubmitted(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    /// Returns whether `turn` would find something.
    pub(crate) fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty() || self.has_deferred()
    }

    /// Returns whether the kernel has completions that it posts when it is entered.
    fn has_deferred(&mut self) -> bool {
        let submission = self.ring.submission();
        submission.taskrun() || submission.cq_overflow()
    }

    /// Submits and collects, without waiting.
    pub(crate) fn turn(&mut self, done: &mut Vec<(u64, RawResult)>) {
        self.enable();
        if self.has_unsubmitted() || self.has_deferred() {
            self.enter();
        }
        done.extend(
            self.ring
                .completion()
                .map(|entry| (entry.user_data(), entry.result())),
        );
    }

    /// Waits until something is complete, up to a second. False if this thread cannot: it does not
    /// own the ring.
    pub(crate) fn wait(&mut self) -> bool {
        self.enable();
        let second = types::Timespec::new().sec(1);
        let limit = types::SubmitArgs::new().timespec(&second);
        let result = self.ring.submitter().submit_with_args(1, &limit);
        !result.is_err_and(|error| error.raw_os_error() == Some(libc::EEXIST))
    }

    fn enter(&mut self) {
        match self.ring.submitter().submit() {
            Ok(_) => {}
            // Out of memory or of room for the moment, or a signal: the entries stay queued.
            Err(error) if is_transient(&error) => {}
            Err(error) => panic!("io_uring refuses to be entered: {error}"),
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    matches!(
        errno,
        Some(libc::EAGAIN | libc::EBUSY | libc::EINTR | libc::ENOMEM)
    )
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
