//! Why a verb did not succeed, and its exit code (CONVENTIONS, "exit"): one table for all codes of the daemon.

use std::fmt;
use std::io;
use std::path::Path;

use everglade_api::{Code, Problem};

/// Exit codes. Scripts depend on them; none is ever given a second meaning.
pub mod exit {
    /// Done.
    pub const OK: u8 = 0;
    /// It failed.
    pub const FAILED: u8 = 1;
    /// It was asked for wrongly.
    pub const USAGE: u8 = 2;
    /// Nobody answers.
    pub const UNREACHABLE: u8 = 3;
    /// There is no such object.
    pub const NOT_FOUND: u8 = 4;
    /// The name or the device is taken, or somebody is busy.
    pub const CONFLICT: u8 = 5;
    /// Needs `--yes`, or would lose data.
    pub const NOT_CONFIRMED: u8 = 6;
    /// No space.
    pub const NO_SPACE: u8 = 7;
    /// `status` found something that does not work.
    pub const UNHEALTHY: u8 = 8;
}

/// Why a verb did not succeed: one line for a person, one number for a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What happened and what to do.
    pub message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Failure {
        Failure {
            code,
            message: message.into(),
        }
    }

    /// Nobody answers on the socket.
    pub(crate) fn unreachable(socket: &Path, error: &io::Error) -> Failure {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => "run this as the user the daemon runs as",
            _ => "start it with 'everglade serve', or name its place with --data-dir or --socket",
        };
        let message = format!(
            "cannot reach the daemon at {}: {error}; {hint}",
            socket.display()
        );
        Failure::new(exit::UNREACHABLE, message)
    }

    /// The daemon answered something that this program does not understand.
    pub(crate) fn not_understood(what: impl fmt::Display) -> Failure {
        let message =
            format!("the daemon's answer is not understood: {what}; are both of the same version?");
        Failure::new(exit::FAILED, message)
    }

    /// Something would be lost, and nobody said that this is fine.
    pub(crate) fn not_confirmed(what: impl fmt::Display) -> Failure {
        let message = format!("{what} would be lost for good; add --yes if that is meant");
        Failure::new(exit::NOT_CONFIRMED, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        let code = exit_code(problem.code);
        let hint = match problem.code {
            Code::WouldLoseData if problem.field.as_deref() == Some("discard_volumes") => {
                "; add --discard-volumes if that is meant"
            }
            Code::WouldLoseData
                if matches!(
                    problem.field.as_deref(),
                    Some("devices" | "journal_device" | "discard_beyond")
                ) =>
            {
                "; add --yes if that is meant"
            }
            _ => "",
        };
        // The field's name in a request is not that of an option; the detail says enough.
        let detail = match problem.field.as_deref() {
            Some("size_bytes") => format!("--size: {}", problem.detail),
            Some("journal_device") => format!("--journal-device: {}", problem.detail),
            Some("journal_half_bytes") => format!("--journal-half: {}", problem.detail),
            Some(field @ ("hourly" | "daily" | "weekly" | "at" | "weekday")) => {
                format!("--{field}: {}", problem.detail)
            }
            Some("time_zone") => format!("--time-zone: {}", problem.detail),
            Some("discard_volumes" | "discard_beyond") => problem.detail.clone(),
            Some(field @ ("devices" | "aggregate")) => format!("--{field}: {}", problem.detail),
            _ => problem.to_string(),
        };
        Failure::new(code, format!("{detail}{hint} ({})", problem.code))
    }
}

fn exit_code(code: Code) -> u8 {
    match code {
        Code::UnknownField | Code::MissingField | Code::InvalidValue => exit::USAGE,
        Code::NotFound => exit::NOT_FOUND,
        Code::Exists
        | Code::DeviceInUse
        | Code::TooMany
        | Code::Changed
        | Code::NotCancellable
        | Code::StillNeeded
        | Code::InUse
        | Code::Busy => exit::CONFLICT,
        Code::WouldLoseData => exit::NOT_CONFIRMED,
        Code::NoSpace => exit::NO_SPACE,
        Code::NotJson
        | Code::BodyTooLarge
        | Code::NoSuchPath
        | Code::MethodNotAllowed
        | Code::RequestTimeout
        | Code::Unauthorized
        | Code::Forbidden
        | Code::DeviceUnusable
        | Code::Unavailable
        | Code::StillUnderWay
        | Code::AggregateFailed
        | Code::AggregateNearlyFull
        | Code::HostLow
        | Code::AggregateUnavailable
        | Code::BlocksUnreadable
        | Code::ScheduleFailed
        | Code::SnapshotsKept
        | Code::MetadataMended
        | Code::Host => exit::FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_says_the_same_exit_codes() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        for code in Code::ALL {
            let Some(status) = code.http_status() else {
                continue;
            };
            let page = std::fs::read_to_string(format!("{root}{}", code.page()));
            let wanted = format!("\n\nHTTP {status}, exit {}. ", exit_code(code));
            assert!(page.expect("a page").contains(&wanted), "{code}: {wanted}");
        }
    }

    #[test]
    fn a_field_is_called_as_its_option_is() {
        let failure = Failure::from(Problem::invalid("size_bytes", "5 is odd"));
        assert_eq!(failure.message, "--size: 5 is odd (EVG-1004)");
        assert_eq!(failure.code, exit::USAGE);
        let problem = Problem::of_field(Code::WouldLoseData, "devices", "/f holds data");
        let failure = Failure::from(problem);
        assert!(failure.message.contains("--yes"), "{failure}");
        assert_eq!(failure.code, exit::NOT_CONFIRMED);
    }
}
