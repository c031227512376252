//! Ctrl-C while a verb waits for a job. The job goes on, and a person who does not know that may
//! repeat the verb; so the verb says so before it ends. A second Ctrl-C ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::failure::exit;

/// Longest time until Ctrl-C is noticed.
const NOTICE_WITHIN: Duration = Duration::from_millis(20);

/// See the module's documentation.
pub(crate) struct Interrupt {
    is_asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// Watches for Ctrl-C from now on. Where the system refuses that, Ctrl-C ends the program.
    pub(crate) fn watch() -> Interrupt {
        let is_asked = Arc::new(AtomicBool::new(false));
        let status = i32::from(exit::INTERRUPTED);
        // The order matters: the first signal must find the flag unset.
        let watched = flag::register_conditional_shutdown(SIGINT, status, Arc::clone(&is_asked))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&is_asked)));
        // If this failed, Ctrl-C ends the program as usual.
        drop(watched);
        Interrupt { is_asked }
    }

    /// Sleeps this long. Returns false at once when Ctrl-C was pressed.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.is_asked.load(Ordering::SeqCst) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            sleep(left.min(NOTICE_WITHIN));
        }
        false
    }
}
