//! Memory that the hot paths touch, in cache lines, by callgrind's model of caches.
//!
//! What a line costs depends on where it comes from. So a request's accesses to data are put
//! through two caches: one as large as a processor's first, and one of [`FAR_BYTES`], after which
//! next to nothing of a server's working set is left; what misses that was touched for the first
//! time in a while. The kernel's part is not in it: of a read the 64 lines of the page that it
//! copies, of a write those that it fills.

use super::instructions::{PATHS, counted, is_ready, put, this_ground};
use crate::step::{begin, end};
use crate::tally::Tally;

/// Bytes of the first cache, and of the last: eight and sixteen ways, lines of 64 bytes.
const NEAR_BYTES: u64 = 32 << 10;
const FAR_BYTES: u64 = 1 << 20;

/// What one request does, in tenths.
#[derive(Debug, PartialEq, Eq)]
struct Touched {
    accesses: u64,
    /// Lines that were not in the first cache.
    near: u64,
    /// Lines that were in neither.
    far: u64,
}

/// Counts, and writes the file.
pub(super) fn write(tally: &mut Tally) {
    if !is_ready(tally) {
        return;
    }
    let near = format!("--D1={NEAR_BYTES},8,64");
    let far = format!("--LL={FAR_BYTES},16,64");
    let begun = begin("counting cache lines");
    let mut text = format!(
        "# Memory that one request of each hot path touches, without the kernel's part: accesses \
        to data, lines that were\n\
        # not in a cache of {} KiB, and lines that were not in one of {} KiB either.\n\
        # Written by `cargo xtask bench lines`; see xtask/src/bench/lines.rs.\n\
        ground {}\n",
        NEAR_BYTES >> 10,
        FAR_BYTES >> 10,
        this_ground()
    );
    for (path, times) in PATHS {
        let counts = counted(path, times, &["--cache-sim=yes", &near, &far]);
        let Some(touched) = counts.and_then(|counts| touched(&counts, times)) else {
            end("counting cache lines", begun, false);
            return tally.fail("counting cache lines");
        };
        let tenths = |count: u64| format!("{}.{}", count / 10, count % 10);
        let line = format!(
            "{path:<20} {:>8} {:>8} {:>8}",
            touched.accesses / 10,
            tenths(touched.near),
            tenths(touched.far)
        );
        println!("{line}");
        text.push_str(&line);
        text.push('\n');
    }
    end("counting cache lines", begun, true);
    put(tally, "lines.txt", &text);
}

/// Of callgrind's `Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw`.
fn touched(counts: &[u64], times: u64) -> Option<Touched> {
    let &[
        _,
        reads,
        writes,
        _,
        near_reads,
        near_writes,
        _,
        far_reads,
        far_writes,
    ] = counts
    else {
        return None;
    };
    let tenths = |count: u64| count * 10 / times;
    Some(Touched {
        accesses: tenths(reads + writes),
        near: tenths(near_reads + near_writes),
        far: tenths(far_reads + far_writes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_apart() {
        let counts = [900, 200, 100, 7, 30, 10, 5, 4, 2];
        let expected = Touched {
            accesses: 300,
            near: 40,
            far: 6,
        };
        assert_eq!(touched(&counts, 10), Some(expected));
        assert_eq!(touched(&[900], 10), None, "no caches");
    }
}
