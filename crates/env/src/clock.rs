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

    /// CPU time of the calling thread. A system call.
    pub(crate) fn thread_cpu(self) -> Nanos {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let seconds = Nanos::try_from(time.tv_sec).unwrap_or(0);
        seconds * 1_000_000_000 + Nanos::try_from(time.tv_nsec).unwrap_or(0)
    }

    /// Seconds since 1970; 0 if the host's clock says it is earlier.
    pub(crate) fn wall_seconds(self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_uses_its_processor_and_one_that_sleeps_does_not() {
        let clock = Clock::new();
        let begun = clock.thread_cpu();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let slept = clock.thread_cpu();
        assert!(slept - begun < 40_000_000, "{begun} {slept}");
        while clock.thread_cpu() < slept + 1_000_000 {
            std::hint::spin_loop();
        }
    }
}
