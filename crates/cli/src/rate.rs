//! Rates of counters.

/// What a counter has grown by in a second.
pub(crate) fn per_second(before: u64, now: u64, ms: u64) -> u64 {
    let grown = u128::from(now.saturating_sub(before)) * 1000 / u128::from(ms);
    u64::try_from(grown).unwrap_or(u64::MAX)
}

/// The mean duration of operations, for people; `-` if there were none.
pub(crate) fn mean(us: u64, count: u64) -> String {
    let mean = us.checked_div(count);
    mean.map_or_else(|| "-".to_owned(), |us| format!("{us} us"))
}
