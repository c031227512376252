//! I/O by threads, where io_uring is forbidden: each transfer is one blocking call on a worker.
//!
//! The contract is that of `ring`: from `push` until `turn` returns the key, file and memory belong
//! to the worker.
#![expect(
    unsafe_code,
    reason = "runs transfers on memory that the pusher keeps in place"
)]

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};

use crate::transfer::{RawResult, Transfer};
use crate::waker::Waker;
use crate::workers::Workers;

/// Longest wait for a completion.
const WAIT: Duration = Duration::from_secs(1);

/// One reactor's access to the crew of I/O threads.
pub(crate) struct Threads {
    crew: Arc<Workers>,
    waker: Arc<Waker>,
    sender: Sender<(u64, RawResult)>,
    receiver: Receiver<(u64, RawResult)>,
}

impl Threads {
    pub(crate) fn new(crew: Arc<Workers>, waker: Arc<Waker>) -> Threads {
        let (sender, receiver) = crossbeam_channel::unbounded();
        Threads {
            crew,
            waker,
            sender,
            receiver,
        }
    }

    /// Starts a transfer.
    ///
    /// # Safety
    /// The file stays open, and the memory and the array naming it stay in place and unshared (for
    /// reads) or unchanged (for writes), until the key has come out of [`Threads::turn`].
    pub(crate) unsafe fn push(&mut self, transfer: Transfer) {
        let sender = self.sender.clone();
        let waker = Arc::clone(&self.waker);
        self.crew.run(move || {
            // SAFETY: the pusher vouches for it until the key below has been received.
            let outcome = unsafe { transfer.run() };
            // A reactor waits for all its transfers before it ends, unless a device hangs.
            let _ = sender.send((transfer.key, outcome));
            waker.wake();
        });
    }

    pub(crate) fn has_completions(&self) -> bool {
        !self.receiver.is_empty()
    }

    pub(crate) fn turn(&mut self, done: &mut Vec<(u64, RawResult)>) {
        done.extend(self.receiver.try_iter());
    }

    /// Waits for a completion, up to [`WAIT`], and takes it.
    pub(crate) fn wait(&mut self, done: &mut Vec<(u64, RawResult)>) {
        done.extend(self.receiver.recv_timeout(WAIT));
    }
}
