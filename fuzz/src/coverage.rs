//! Coverage: one byte per place in the code, counted up by the code itself.
//!
//! LLVM's pass `sancov-module` puts the counters in and, before `main`, tells where those of each
//! crate are (`__sanitizer_cov_8bit_counters_init`). Built without the pass, there are none, and
//! every question is answered with nothing.
//!
//! Single-threaded: counters are read and cleared only between executions, on the thread that runs
//! them.
#![expect(
    unsafe_code,
    reason = "the compiler hands over raw memory and wants a symbol by name"
)]

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counters that are next to each other, and which ranges of counts each of them has had.
struct Section {
    counters: &'static [AtomicU8],
    seen: Vec<u8>,
}

static SECTIONS: Mutex<Vec<Section>> = Mutex::new(Vec::new());

fn sections() -> MutexGuard<'static, Vec<Section>> {
    SECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

// SAFETY: no other symbol has this name; LLVM's pass calls it with the bounds of its own section.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(start: *const AtomicU8, stop: *const AtomicU8) {
    // SAFETY: both are bounds of one section of static bytes, which are only ever counted up, by
    // code that does not mind; an atomic byte has the layout of a byte.
    let counters = unsafe {
        let length = usize::try_from(stop.offset_from(start)).unwrap_or(0);
        std::slice::from_raw_parts(start, length)
    };
    // Each crate announces the section, which the linker has joined into one.
    let is_known = |section: &Section| std::ptr::eq(section.counters, counters);
    let mut sections = sections();
    if !sections.iter().any(is_known) {
        let seen = vec![0; counters.len()];
        sections.push(Section { counters, seen });
    }
}

/// Ranges of counts that are told apart, as bits: 1, 2, 3, 4–7, 8–15, 16–31, 32–127, more.
fn range(count: u8) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..=7 => 8,
        8..=15 => 16,
        16..=31 => 32,
        32..=127 => 64,
        _ => 128,
    }
}

/// Forgets what was counted since the last time.
pub(crate) fn clear() {
    for section in sections().iter() {
        for counter in section.counters {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// Takes over and clears what was counted. True if any of it is new.
pub(crate) fn take() -> bool {
    let mut is_new = false;
    for section in sections().iter_mut() {
        for (counter, seen) in section.counters.iter().zip(&mut section.seen) {
            let count = counter.load(Ordering::Relaxed);
            if count != 0 {
                counter.store(0, Ordering::Relaxed);
                let range = range(count);
                is_new |= *seen & range == 0;
                *seen |= range;
            }
        }
    }
    is_new
}

/// Places in the code.
pub(crate) fn places() -> usize {
    sections()
        .iter()
        .map(|section| section.counters.len())
        .sum()
}

/// Places that were reached.
pub(crate) fn reached() -> usize {
    let sections = sections();
    let seen = sections.iter().flat_map(|section| &section.seen);
    seen.filter(|seen| **seen != 0).count()
}
