//! The request to stop, shared by all threads that must react to it.
//!
//! asked → every waker is called once → each reactor sees [`Stop::is_asked`] on its next turn,
//! refuses new work, finishes a consistency point and returns.
//!
//! A waker that is registered after the request is called at once, so the request is never lost,
//! whatever the order of start and stop. The lock protects the list of wakers, and orders the
//! request against registrations; wakers run outside of the lock and must not block.

use everglade_env::lock::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes one sleeper. Called at most once, from any thread.
type Waker = Box<dyn FnOnce() + Send>;

/// The request to stop. Cheap to clone; all clones share one state.
#[derive(Clone, Default)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    asked: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Stop {
    /// Makes the shared state, without a request yet.
    #[must_use]
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Requests the stop. Idempotent.
    pub fn ask(&self) {
        let wakers = {
            let mut wakers = self.shared.wakers.lock();
            self.shared.asked.store(true, Ordering::SeqCst);
            std::mem::take(&mut *wakers)
        };
        for wake in wakers {
            wake();
        }
    }

    /// Returns whether a stop is requested. One relaxed-cost load; fit for every turn of a reactor.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// Calls `wake` once when a stop is requested, or now if it is requested already.
    pub fn on_ask(&self, wake: impl FnOnce() + Send + 'static) {
        {
            let mut wakers = self.shared.wakers.lock();
            if !self.is_asked() {
                wakers.push(Box::new(wake));
                return;
            }
        }
        wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn wakers_registered_before_and_after_the_wish_are_called_once() {
        let stop = Stop::new();
        let (sender, receiver) = mpsc::channel();
        let early = sender.clone();
        stop.on_ask(move || early.send("early").expect("receiver lives"));
        assert!(!stop.is_asked());
        assert!(receiver.try_recv().is_err());

        stop.clone().ask();
        stop.ask();
        assert!(stop.is_asked());
        stop.on_ask(move || sender.send("late").expect("receiver lives"));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), ["early", "late"]);
    }
}
