//! The order of requests (N-10): each stream asks at random times, as many independent users do.
//!
//! The users of a stream are independent of each other, so the times of its requests are a Poisson
//! process: the time from one to the next is exponential. Users come in groups of up to
//! 100 units (BSU), and the streams of a group have their places in common.
//!
//! 1. The rate sets only the times. The requests of a stream are the same at any rate.

use std::time::Duration;

use super::stream::{BLOCK_BYTES, BSU_RATE, Place, Request, STREAMS};
use crate::Random;

/// Units that have places in common.
const GROUP_BSUS: f64 = 100.0;
/// Below this the walks have no room.
pub const BYTES_MIN: u64 = 256 << 20;

/// A stream of a group, and when it asks next.
struct Source {
    place: Place,
    /// Requests per second.
    rate: f64,
    /// Seconds from the beginning.
    due: f64,
    random: Random,
}

/// All streams of all groups, by time.
pub struct Generator {
    sources: Vec<Source>,
}

impl Generator {
    /// Requests to `bytes` bytes, at least [`BYTES_MIN`], at this rate per second.
    #[must_use]
    pub fn new(bytes: u64, rate: f64, seed: u64) -> Generator {
        let blocks = bytes.max(BYTES_MIN) / BLOCK_BYTES;
        let groups = (rate / BSU_RATE / GROUP_BSUS).ceil().max(1.0);
        let mut sources = Vec::new();
        let mut group = 0.0;
        while group < groups {
            for (index, stream) in STREAMS.iter().enumerate() {
                let mut random = Random::new(seed ^ (sources.len() as u64 + 1) << 40);
                #[expect(clippy::cast_precision_loss, reason = "it is below 1000")]
                let share = stream.share as f64 / 1000.0;
                let rate = rate * share / groups;
                sources.push(Source {
                    place: Place::new(index, blocks, &mut random),
                    rate,
                    due: exponential(&mut random, rate),
                    random,
                });
            }
            group += 1.0;
        }
        Generator { sources }
    }

    /// When the next request is due.
    #[must_use]
    pub fn due(&self) -> Duration {
        let due = self.sources.iter().map(|source| source.due);
        Duration::from_secs_f64(due.fold(f64::INFINITY, f64::min).min(1e9))
    }

    /// The next request, and when it is due.
    pub fn take(&mut self) -> (Duration, Request) {
        let first = self
            .sources
            .iter_mut()
            .min_by(|a, b| a.due.total_cmp(&b.due));
        let source = first.expect("there are always some");
        let due = source.due;
        source.due += exponential(&mut source.random, source.rate);
        let request = source.place.next(&mut source.random);
        (Duration::from_secs_f64(due.min(1e9)), request)
    }
}

/// Seconds until something happens that happens `rate` times in a second.
fn exponential(random: &mut Random, rate: f64) -> f64 {
    // 53 bits, and never zero.
    #[expect(clippy::cast_precision_loss, reason = "as many bits as fit")]
    let uniform = ((random.number() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -uniform.ln() / rate
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known of the load, from runs of the public description.
    #[test]
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn reads_sizes_and_skew_are_as_described() {
        const COUNT: u32 = 2_000_000;
        let bytes = 2u64 << 30;
        let mut generator = Generator::new(bytes, 5000.0, 7);
        let mut touched = vec![[0u32; 2]; usize::try_from(bytes / BLOCK_BYTES).unwrap()];
        let (mut reads, mut read_blocks, mut written_blocks) = (0u64, 0u64, 0u64);
        let mut last = Duration::ZERO;
        for _ in 0..COUNT {
            let (due, request) = generator.take();
            assert!(due >= last, "in the order of time");
            last = due;
            reads += u64::from(request.is_read);
            let sum = match request.is_read {
                true => &mut read_blocks,
                false => &mut written_blocks,
            };
            *sum += request.blocks;
            for block in request.block..request.block + request.blocks {
                touched[usize::try_from(block).unwrap()][usize::from(request.is_read)] += 1;
            }
        }
        let rate = f64::from(COUNT) / last.as_secs_f64();
        assert!((rate / 5000.0 - 1.0).abs() < 0.01, "{rate}");
        let share = reads as f64 / f64::from(COUNT);
        assert!((share - 0.394).abs() < 0.005, "reads {share}");
        let mean = read_blocks as f64 / reads as f64;
        assert!((mean - 1.69).abs() < 0.05, "blocks of a read {mean}");
        let mean = written_blocks as f64 / (u64::from(COUNT) - reads) as f64;
        assert!((mean - 2.21).abs() < 0.05, "blocks of a write {mean}");
        // Of 16 GiB and ten times as many requests, 5 % of the space have 39 and 68 %.
        for (kind, wanted) in [(1, 0.39), (0, 0.68)] {
            let mut counts: Vec<u32> = touched.iter().map(|both| both[kind]).collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
            let hot = counts[..counts.len() / 20].iter();
            let hot: u64 = hot.map(|count| u64::from(*count)).sum();
            let share = hot as f64 / all as f64;
            assert!((share - wanted).abs() < 0.08, "{kind}: {share}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_requests_and_many_users_have_several_groups() {
        let two = || Generator::new(BYTES_MIN, 12_000.0, 3);
        let (mut one, mut other) = (two(), two());
        assert_eq!(one.sources.len(), 24);
        for _ in 0..1000 {
            assert_eq!(one.due(), other.due());
            assert_eq!(one.take(), other.take());
        }
    }
}
