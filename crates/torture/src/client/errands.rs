//! What a server asks for while it answers: data of a write, or a command again. The receiver must
//! not send it itself: a server that waits until its answers are read may not read either, and then
//! both would wait for ever. So another thread sends it.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Errand<W> = Box<dyn FnOnce(&mut W) -> io::Result<()> + Send>;

/// The outgoing half of a connection, and who sends on it beside the sender of requests.
pub(super) struct Errands<W> {
    jobs: Sender<Errand<W>>,
}

/// What two threads use in turn. Whoever panicked while holding it has failed the run already.
pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<W: Send + 'static> Errands<W> {
    /// Errands end with this, or with the first that fails.
    pub(super) fn new(outgoing: &Arc<Mutex<W>>) -> Errands<W> {
        let (jobs, given) = channel::<Errand<W>>();
        let outgoing = Arc::clone(outgoing);
        std::thread::spawn(move || {
            for job in given {
                if job(&mut lock(&outgoing)).is_err() {
                    return;
                }
            }
        });
        Errands { jobs }
    }

    /// Sends something soon. If the connection has failed, the receiver will see it by itself.
    pub(super) fn run(&self, job: impl FnOnce(&mut W) -> io::Result<()> + Send + 'static) {
        let _ = self.jobs.send(Box::new(job));
    }
}
