//! What one session was answered: counters for each client and each LUN.

use everglade_env::Nanos;

/// Reads and writes of a session that were answered without an error, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reads.
    pub reads: Answered,
    /// Writes.
    pub writes: Answered,
}

/// Requests of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// How many.
    pub count: u64,
    /// Bytes of their ranges.
    pub bytes: u64,
    /// Sum of their durations.
    pub duration: Nanos,
}

impl Answered {
    /// Counts a request that took this time.
    #[inline]
    pub fn add(&mut self, duration: Nanos, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
        self.duration += duration;
    }
}
