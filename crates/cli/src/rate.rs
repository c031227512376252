//! Rates of counters.

/// What a counter has grown by in a second.
pub(crate) fn per_second(before: u64, now: u64, ms: u64) -> u64 {
    let grown = u128::from(now.saturating_sub(before)) * 1000 / u128::from(ms);
    u64::try_from(grown).unwrap_or(u64::MAX)
}
