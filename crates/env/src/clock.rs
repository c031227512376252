//! The clocks of a world: one monotonic clock for all its users, and the date.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::Nanos;

/// Counts from the making of the world, so that times of different reactors compare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock {
            start: Instant::now(),
        }
    }

    pub(crate) fn now(self) -> Nanos {
        // 584 years of uptime fit.
        Nanos::try_from(self.start.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }

    /// Seconds since 1970; 0 if the host's clock says it is earlier.
    pub(crate) fn wall_seconds(self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    }
}
