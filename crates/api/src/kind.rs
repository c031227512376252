//! Kinds of the values of a list's columns: they decide what filters can compare.

/// Kind of the values of a column or field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// Bytes.
    Size,
    /// A whole number.
    Count,
    /// A whole number of percent.
    Percent,
    /// Seconds.
    Duration,
    /// A time, RFC 3339 in UTC.
    Time,
    /// Yes or no.
    Flag,
    /// One of the words of this schema in the description of the interface.
    Word(&'static str),
}
