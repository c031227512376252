//! Waiting for what the daemon does on its own time: with a limit, and with words for the one who
//! reads the failure.

use std::thread;
use std::time::{Duration, Instant};

use crate::running::TestDir;

/// Looks often, and fails if the condition is not met in time.
#[track_caller]
pub(crate) fn within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < limit, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for an event with this in its line. The daemon looks once a second whether all is well, so
/// what has just happened may have none yet.
#[track_caller]
pub(crate) fn event(dir: &TestDir, part: &str) {
    within(Duration::from_secs(30), part, || {
        crate::manage::ask(dir, &["event", "show"]).contains(part)
    });
}
