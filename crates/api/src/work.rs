//! Work: reads and writes, as they are counted and compared.

use std::ops::AddAssign;

/// Reads and writes, in this order: how many, their bytes, and the time that they took together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Number of operations.
    pub counts: [u64; 2],
    /// Bytes read and written.
    pub bytes: [u64; 2],
    /// Microseconds.
    pub us: [u64; 2],
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        for index in [0, 1] {
            self.counts[index] += other.counts[index];
            self.bytes[index] += other.bytes[index];
            self.us[index] += other.us[index];
        }
    }
}

impl Work {
    /// Returns what was done since an earlier moment.
    #[must_use]
    pub fn since(&self, before: &Work) -> Work {
        let grown = |now: [u64; 2], before: [u64; 2]| {
            [0, 1].map(|index| now[index].saturating_sub(before[index]))
        };
        Work {
            counts: grown(self.counts, before.counts),
            bytes: grown(self.bytes, before.bytes),
            us: grown(self.us, before.us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_adds_up_and_what_was_done_since_is_the_difference() {
        let work = |reads: u64, writes: u64| Work {
            counts: [reads, writes],
            bytes: [reads * 4096, writes * 512],
            us: [reads * 10, writes * 20],
        };
        let mut sum = work(3, 4);
        sum += work(10, 20);
        assert_eq!(sum, work(13, 24));
        assert_eq!(sum.since(&work(3, 4)), work(10, 20));
        assert_eq!(
            work(1, 1).since(&sum),
            work(0, 0),
            "a counter that began anew"
        );
    }
}
