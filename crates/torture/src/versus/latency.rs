//! Times of requests in buckets less than 2 % wide, so that minutes of them take no memory.

use std::time::Duration;

/// Buckets for each doubling.
const PARTS: u64 = 64;
/// Up to 2⁴⁰ ns, which is 18 minutes.
const BUCKETS: usize = 40 * 64;

/// Times of requests.
#[derive(Debug)]
pub struct Latencies {
    counts: Box<[u64]>,
    count: u64,
    sum: u64,
    longest: u64,
}

/// Some points of their distribution.
#[derive(Clone, Copy, Debug, Default)]
pub struct Points {
    /// Half took less.
    pub p50: Duration,
    /// One in a hundred took more.
    pub p99: Duration,
    /// One in a thousand took more.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
}

impl Points {
    /// Of rounds whose distributions are not known: the median of each point, and the longest of
    /// all.
    pub(super) fn of_rounds(rounds: &[Points]) -> Option<Points> {
        let median = |point: fn(&Points) -> Duration| {
            let mut all: Vec<Duration> = rounds.iter().map(point).collect();
            all.sort();
            all.get(all.len() / 2).copied()
        };
        Some(Points {
            p50: median(|points| points.p50)?,
            p99: median(|points| points.p99)?,
            p999: median(|points| points.p999)?,
            max: rounds.iter().map(|points| points.max).max()?,
        })
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
            sum: 0,
            longest: 0,
        }
    }
}

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(PARTS);
    let doubling = u64::from(nanos.ilog2());
    // The bits after the leading one.
    let part = (nanos >> (doubling - 6)) & (PARTS - 1);
    let index = usize::try_from((doubling - 6) * PARTS + part).unwrap_or(BUCKETS);
    index.min(BUCKETS - 1)
}

/// The upper end of a bucket.
fn end(bucket: usize) -> u64 {
    let (doubling, part) = (bucket as u64 / PARTS, bucket as u64 % PARTS);
    (PARTS + part + 1) << doubling
}

impl Latencies {
    pub(crate) fn push(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(nanos);
        self.longest = self.longest.max(nanos);
    }

    pub(crate) fn append(&mut self, other: &Latencies) {
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.longest = self.longest.max(other.longest);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// All times together, in nanoseconds.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// Looks at the distribution.
    #[must_use]
    pub fn points(&self) -> Points {
        let at = |of_1000: u64| {
            let rank = self.count * of_1000 / 1000;
            let mut before = 0;
            let found = self.counts.iter().position(|count| {
                before += count;
                before > rank
            });
            let nanos = found.map_or(self.longest, |bucket| end(bucket).min(self.longest));
            Duration::from_nanos(nanos)
        };
        Points {
            p50: at(500),
            p99: at(990),
            p999: at(999),
            max: Duration::from_nanos(self.longest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_right_within_two_in_a_hundred() {
        let mut latencies = Latencies::default();
        (1..=10_000).for_each(|micros| latencies.push(micros * 1000));
        let points = latencies.points();
        for (point, exact) in [(points.p50, 5.0), (points.p99, 9.9), (points.p999, 9.99)] {
            let error = point.as_secs_f64() * 1e3 / exact - 1.0;
            assert!((-0.001..0.02).contains(&error), "{point:?}");
        }
        assert_eq!(points.max, Duration::from_millis(10));
    }

    #[test]
    fn nothing_is_too_short_or_too_long() {
        let mut latencies = Latencies::default();
        latencies.push(0);
        latencies.push(u64::MAX);
        assert_eq!(latencies.points().max, Duration::from_nanos(u64::MAX));
        assert_eq!(Latencies::default().points().p99, Duration::ZERO);
    }
}
