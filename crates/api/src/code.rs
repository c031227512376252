//! Error codes: stable for ever, the same in REST, on the command line and in
//! `docs/reference/codes/`.
//!
//! 1000s: the request cannot be understood. 2000s: it does not fit what exists. 3000s: it cannot be
//! done now. 4000s: conditions that `status` reports; such a condition may also refuse a request,
//! with its code. 9000s: the daemon's own surroundings failed.
//!
//! A number is never given a second meaning; what is retired stays retired.

use std::fmt;
use std::str::FromStr;

use crate::Outcome;

/// Error code, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The body is not one JSON object.
    NotJson,
    /// The request has an unknown field.
    UnknownField,
    /// A field that must be there is not.
    MissingField,
    /// A value of the wrong kind or out of its bounds.
    InvalidValue,
    /// The body is longer than any request can be.
    BodyTooLarge,
    /// The path does not exist.
    NoSuchPath,
    /// The path exists, but does not support this method.
    MethodNotAllowed,
    /// The request did not arrive in time.
    RequestTimeout,
    /// The caller is not authenticated.
    Unauthorized,
    /// The caller lacks permission.
    Forbidden,
    /// No object has this name.
    NotFound,
    /// The name is taken.
    Exists,
    /// The device belongs to an aggregate or to another program.
    DeviceInUse,
    /// The request would destroy data.
    WouldLoseData,
    /// A device cannot be used as it is.
    DeviceUnusable,
    /// The limit of objects is reached.
    TooMany,
    /// The object has changed since the caller read it.
    Changed,
    /// The job cannot be cancelled.
    NotCancellable,
    /// Something depends on the object.
    StillNeeded,
    /// The object is in use, or another operation on it is running.
    InUse,
    /// The idempotency key belongs to another request.
    KeyReused,
    /// The pool, or the host below it, is full.
    NoSpace,
    /// The aggregate or the daemon takes no changes now.
    Unavailable,
    /// Too many requests at once.
    Busy,
    /// The change takes longer than a request may wait, and may still succeed.
    StillUnderWay,
    /// The change may have been made or not.
    OutcomeUnknown,
    /// An aggregate has failed.
    AggregateFailed,
    /// An aggregate is nearly full.
    AggregateNearlyFull,
    /// The host has less space than the thin aggregate still promises.
    HostLow,
    /// An aggregate could not be opened at the start.
    AggregateUnavailable,
    /// Blocks of an aggregate cannot be read.
    BlocksUnreadable,
    /// A snapshot that was due was not taken.
    ScheduleFailed,
    /// Snapshots stay that their policy would have deleted.
    SnapshotsKept,
    /// An aggregate can be read and not changed.
    ReadOnly,
    /// Blocks of metadata were damaged, and derived from others.
    MetadataMended,
    /// The devices of an aggregate have an older consistency point than was seen.
    RolledBack,
    /// A copy of a device's label was lost.
    LabelCopyLost,
    /// A pattern of `nbd.allow` names nothing that exists.
    PatternUnmatched,
    /// Blocks of metadata are damaged and cannot be derived.
    MetadataDamaged,
    /// A segment file of a directory device is missing, empty or too short.
    SegmentLost,
    /// Deleted snapshots wait for a scan that is paused.
    ScanPaused,
    /// A mirror has lost drives.
    AggregateDegraded,
    /// The data directory cannot be written.
    Host,
}

impl Code {
    /// All codes, in numerical order.
    pub const ALL: [Code; 43] = [
        Code::NotJson,
        Code::UnknownField,
        Code::MissingField,
        Code::InvalidValue,
        Code::BodyTooLarge,
        Code::NoSuchPath,
        Code::MethodNotAllowed,
        Code::RequestTimeout,
        Code::Unauthorized,
        Code::Forbidden,
        Code::NotFound,
        Code::Exists,
        Code::DeviceInUse,
        Code::WouldLoseData,
        Code::DeviceUnusable,
        Code::TooMany,
        Code::Changed,
        Code::NotCancellable,
        Code::StillNeeded,
        Code::InUse,
        Code::KeyReused,
        Code::NoSpace,
        Code::Unavailable,
        Code::Busy,
        Code::StillUnderWay,
        Code::OutcomeUnknown,
        Code::AggregateFailed,
        Code::AggregateNearlyFull,
        Code::HostLow,
        Code::AggregateUnavailable,
        Code::BlocksUnreadable,
        Code::ScheduleFailed,
        Code::SnapshotsKept,
        Code::ReadOnly,
        Code::MetadataMended,
        Code::RolledBack,
        Code::LabelCopyLost,
        Code::PatternUnmatched,
        Code::MetadataDamaged,
        Code::SegmentLost,
        Code::ScanPaused,
        Code::AggregateDegraded,
        Code::Host,
    ];

    /// Returns number, HTTP status (0: never an answer) and title.
    fn row(self) -> (u16, u16, &'static str) {
        match self {
            Code::NotJson => (1001, 400, "the body is not a JSON object"),
            Code::UnknownField => (1002, 400, "unknown field"),
            Code::MissingField => (1003, 400, "missing field"),
            Code::InvalidValue => (1004, 422, "invalid value"),
            Code::BodyTooLarge => (1005, 413, "the body is too large"),
            Code::NoSuchPath => (1006, 404, "no such path"),
            Code::MethodNotAllowed => (1007, 405, "method not allowed"),
            Code::RequestTimeout => (1008, 408, "the request did not arrive in time"),
            Code::Unauthorized => (1009, 401, "not authenticated"),
            Code::Forbidden => (1010, 403, "not allowed"),
            Code::NotFound => (2001, 404, "not found"),
            Code::Exists => (2002, 409, "the name is taken"),
            Code::DeviceInUse => (2003, 409, "a device is in use"),
            Code::WouldLoseData => (2004, 409, "data would be lost"),
            Code::DeviceUnusable => (2005, 422, "a device cannot be used"),
            Code::TooMany => (2006, 409, "too many objects"),
            Code::Changed => (2007, 412, "the object has changed"),
            Code::NotCancellable => (2008, 409, "the job cannot be cancelled"),
            Code::StillNeeded => (2009, 409, "still needed"),
            Code::InUse => (2010, 409, "the object is in use"),
            Code::KeyReused => (2011, 409, "the idempotency key belongs to another request"),
            Code::NoSpace => (3001, 507, "no space"),
            Code::Unavailable => (3002, 503, "unavailable"),
            Code::Busy => (3003, 503, "too many requests at once"),
            Code::StillUnderWay => (3004, 504, "still under way"),
            Code::OutcomeUnknown => (3005, 503, "the outcome is unknown"),
            Code::AggregateFailed => (4001, 0, "an aggregate has failed"),
            Code::AggregateNearlyFull => (4002, 0, "an aggregate is nearly full"),
            Code::HostLow => (4003, 0, "the host is short of space"),
            Code::AggregateUnavailable => (4004, 0, "an aggregate cannot be opened"),
            Code::BlocksUnreadable => (4005, 0, "blocks cannot be read"),
            Code::ScheduleFailed => (4006, 0, "a snapshot that was due was not taken"),
            Code::SnapshotsKept => (4007, 0, "snapshots stay longer than their policy says"),
            Code::ReadOnly => (4008, 503, "an aggregate is read-only"),
            Code::MetadataMended => (4010, 0, "metadata was mended"),
            Code::RolledBack => (4011, 0, "an aggregate is older than what was seen"),
            Code::LabelCopyLost => (4012, 0, "a copy of a label was lost"),
            Code::PatternUnmatched => (4013, 0, "nbd.allow names what does not exist"),
            Code::MetadataDamaged => (4014, 0, "metadata is damaged"),
            Code::SegmentLost => (4015, 0, "a segment file is missing or too short"),
            Code::ScanPaused => (4016, 0, "a paused scan holds deletions"),
            Code::AggregateDegraded => (4017, 0, "an aggregate has lost drives"),
            Code::Host => (9001, 500, "the host refused"),
        }
    }

    /// Returns the number in `EVG-NNNN`.
    #[must_use]
    pub fn number(self) -> u16 {
        self.row().0
    }

    /// Returns the HTTP status of an answer with this code; `None` if only `status` reports the
    /// code.
    #[must_use]
    pub fn http_status(self) -> Option<u16> {
        Some(self.row().1).filter(|status| *status != 0)
    }

    /// Returns the outcome of a change answered with this code, if the code alone determines it.
    #[must_use]
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Code::StillUnderWay | Code::OutcomeUnknown => Some(Outcome::Unknown),
            _ => None,
        }
    }

    /// Returns the path of the code's page, below the project's root and the package's
    /// documentation.
    #[must_use]
    pub fn page(self) -> String {
        format!("docs/reference/codes/{self}.md")
    }

    /// Returns the title of all problems with this code.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().2
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EVG-{:04}", self.number())
    }
}

impl FromStr for Code {
    type Err = String;

    fn from_str(text: &str) -> Result<Code, String> {
        let known = Code::ALL.into_iter().find(|code| code.to_string() == text);
        known.ok_or_else(|| format!("{text:?} is not a code of this version"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distinct_and_in_order() {
        let numbers: Vec<_> = Code::ALL.iter().map(|code| code.number()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        for code in Code::ALL {
            assert_eq!(code.to_string().parse(), Ok(code));
        }
        assert!("EVG-0000".parse::<Code>().is_err());
    }

    #[test]
    fn every_code_has_a_page_and_is_in_the_list() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        let read = |page: &str| {
            let path = format!("{root}{page}");
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let list = read("docs/reference/codes/README.md");
        for code in Code::ALL {
            let heading = format!("# {code} {}\n\n", code.title());
            assert!(read(&code.page()).starts_with(&heading), "{heading}");
            let line = format!("[{code}]({code}.md) {}", code.title());
            assert!(list.contains(&line), "{line}");
        }
        assert_eq!(list.matches("[EVG-").count(), Code::ALL.len());
    }
}
