//! Asking the processor for memory before it is needed.
//!
//! A look-up that follows three addresses, each stored at the one before, waits for memory three
//! times. If several such look-ups are due, all their first lines can be prefetched, then all their
//! second lines, so that they share the waits.
#![expect(unsafe_code, reason = "the instruction has no safe wrapper")]

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for the cache line that `place` begins in. No more than a hint: nothing is read as far as
/// the program can tell, and any address will do.
#[inline]
pub fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction needs SSE, which every x86-64 has; it touches no memory and never
        // faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Prefetches the first `lines` lines from `place` on.
#[inline]
pub(crate) fn prefetch_lines(place: *const u8, lines: usize) {
    (0..lines).for_each(|line| prefetch(place.wrapping_add(line * LINE)));
}
