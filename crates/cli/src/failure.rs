//! Failures of verbs, and their exit codes (docs/reference/conventions.md#exit-codes): one
//! table for all codes of the daemon. With `--json` a failure is a problem document (RFC 9457) on
//! stderr: the daemon's own where the daemon refused, else one without a code.

use std::fmt;

use everglade_api::{Code, Outcome, Problem, SCHEMA_VERSION};
use serde_json::{Value, json};

/// Exit codes. Scripts depend on them, so no code ever changes its meaning.
pub mod exit {
    /// Done.
    pub const OK: u8 = 0;
    /// The request failed.
    pub const FAILED: u8 = 1;
    /// The command line is invalid.
    pub const USAGE: u8 = 2;
    /// The daemon does not answer.
    pub const UNREACHABLE: u8 = 3;
    /// The object does not exist.
    pub const NOT_FOUND: u8 = 4;
    /// The name or the device is taken, or the object is in use.
    pub const CONFLICT: u8 = 5;
    /// Needs `--yes`, or would lose data.
    pub const NOT_CONFIRMED: u8 = 6;
    /// The pool, or the host, is full.
    pub const NO_SPACE: u8 = 7;
    /// `status` found something that does not work.
    pub const UNHEALTHY: u8 = 8;
    /// The outcome of the change is unknown.
    pub const UNKNOWN: u8 = 9;
    /// Ctrl-C ended a wait; 128 and the number of the signal, as shells say it.
    pub const INTERRUPTED: u8 = 130;

    /// Returns the title of failures with an exit code.
    pub(super) fn title(code: u8) -> &'static str {
        match code {
            OK => "done",
            USAGE => "wrong usage",
            UNREACHABLE => "the daemon does not answer",
            NOT_FOUND => "not found",
            CONFLICT => "conflict",
            NOT_CONFIRMED => "not confirmed",
            NO_SPACE => "no space",
            UNHEALTHY => "unhealthy",
            UNKNOWN => "the outcome is unknown",
            INTERRUPTED => "interrupted",
            _ => "failed",
        }
    }
}

/// Returns the problem document of a failure that is not the daemon's refusal.
#[must_use]
pub fn document(code: u8, message: &str) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "type": "about:blank",
        "title": exit::title(code),
        "detail": message,
        "exit_code": code,
    })
}

/// The reason why a verb failed: one line for a person, one number for a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// The error, and its remedy.
    pub message: String,
    /// The daemon's refusal, if that is the reason.
    problem: Option<Problem>,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Failure {
        Failure {
            code,
            message: message.into(),
            problem: None,
        }
    }

    /// Names an option of the verb instead of the field of the request.
    pub(crate) fn of_option(mut self, field: &str, option: &str) -> Failure {
        let field = format!("{field}: ");
        self.message = self.message.replacen(&field, &format!("{option}: "), 1);
        self
    }

    /// Names an argument of the verb instead of the option that other verbs have for it.
    pub(crate) fn of_argument(mut self, option: &str, argument: &str) -> Failure {
        let option = format!("{option}: ");
        let argument = format!("{argument}: ");
        self.message = self.message.replacen(&option, &argument, 1);
        self
    }

    /// Returns the problem document: of the daemon's refusal with the words of the command line.
    #[must_use]
    pub fn document(&self) -> Value {
        let Some(problem) = &self.problem else {
            return document(self.code, &self.message);
        };
        let suffix = format!(" ({})", problem.code);
        let detail = self.message.strip_suffix(&suffix);
        let mut document = problem.to_json();
        document["detail"] = json!(detail.unwrap_or(&self.message));
        document["exit_code"] = json!(self.code);
        document["schema_version"] = json!(SCHEMA_VERSION);
        document
    }

    /// Returns the failure for a wait that Ctrl-C ended.
    pub(crate) fn interrupted(job: u64) -> Failure {
        let message = format!(
            "interrupted; job {job} continues. Wait for it with 'everglade job wait {job}', or \
            look at it with 'everglade job show {job}'"
        );
        Failure::new(exit::INTERRUPTED, message)
    }

    /// Returns the failure for an answer that this program does not understand.
    pub(crate) fn not_understood(what: impl fmt::Display) -> Failure {
        let message =
            format!("the daemon's answer is not understood: {what}; are both of the same version?");
        Failure::new(exit::FAILED, message)
    }

    /// Returns the failure for a change of unknown outcome.
    pub(crate) fn unknown(what: impl fmt::Display) -> Failure {
        let message = format!(
            "outcome unknown: {what}; the change may have been made or not, so look before \
            repeating it"
        );
        Failure::new(exit::UNKNOWN, message)
    }

    /// Returns the failure for a change that was made, but whose result cannot be shown.
    pub(crate) fn done(what: impl fmt::Display) -> Failure {
        Failure::new(exit::OK, format!("done: {what}"))
    }

    /// Returns the failure for a request that would destroy data and was not confirmed.
    pub(crate) fn not_confirmed(what: impl fmt::Display) -> Failure {
        Failure::not_confirmed_by("--yes", what, None)
    }

    /// As [`Failure::not_confirmed`], for a deletion of something that may stay in the trash for a
    /// while: `kept` says how long.
    pub(crate) fn not_confirmed_deletion(
        what: impl fmt::Display,
        kept: Option<&str>,
        obstacle: Option<&str>,
    ) -> Failure {
        let Some(kept) = kept else {
            return Failure::not_confirmed_by("--yes", what, obstacle);
        };
        let not_now = obstacle.map_or_else(String::new, |text| format!("not now: {text}; then "));
        let message =
            format!("{what} would be deleted, and {kept}; {not_now}add --yes if that is meant");
        Failure::new(exit::NOT_CONFIRMED, message)
    }

    /// As [`Failure::not_confirmed`], for a request that needs these options, and that something
    /// else prevents as well: the text says what to do about it.
    pub(crate) fn not_confirmed_by(
        options: &str,
        what: impl fmt::Display,
        obstacle: Option<&str>,
    ) -> Failure {
        let remedy = match obstacle {
            None => format!("add {options} if that is meant"),
            Some(obstacle) => format!("not now: {obstacle}; then add {options} if that is meant"),
        };
        let message = format!("{what} would be lost for good; {remedy}");
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
        let code = match problem.outcome {
            Some(Outcome::Done) => exit::OK,
            Some(Outcome::Unknown) => exit::UNKNOWN,
            Some(Outcome::NotDone) | None => exit_code(problem.code),
        };
        let prefix = match problem.outcome {
            Some(Outcome::Done) => "done: ",
            Some(Outcome::Unknown) => "outcome unknown: ",
            Some(Outcome::NotDone) | None => "",
        };
        let hint = match problem.code {
            Code::WouldLoseData if problem.field.as_deref() == Some("discard_volumes") => {
                "; add --discard-volumes if that is meant"
            }
            Code::WouldLoseData
                if matches!(
                    problem.field.as_deref(),
                    Some("discard_contents" | "discard_beyond")
                ) =>
            {
                "; add --yes if that is meant"
            }
            Code::InUse if problem.field.as_deref() == Some("disconnect") => {
                ", or add --disconnect"
            }
            _ => "",
        };
        // The field's name in a request is not that of an option; the detail says enough.
        let detail = match problem.field.as_deref() {
            Some("size_bytes") => format!("--size: {}", problem.detail),
            Some("journal_device") => format!("--journal-device: {}", problem.detail),
            Some("bytes_per_second") => format!("--bandwidth: {}", problem.detail),
            Some("burst_milliseconds") => format!("--burst: {}", problem.detail),
            Some("group_size") => format!("--group-size: {}", problem.detail),
            Some("area_bytes") => format!("--area-size: {}", problem.detail),
            Some("journal_half_bytes") => format!("--journal-half: {}", problem.detail),
            Some(
                field @ ("hourly" | "daily" | "weekly" | "at" | "weekday" | "iops" | "weight"),
            ) => {
                format!("--{field}: {}", problem.detail)
            }
            Some("time_zone") => format!("--time-zone: {}", problem.detail),
            Some("discard_contents" | "discard_volumes" | "discard_beyond" | "disconnect") => {
                problem.detail.clone()
            }
            Some("snapshot_policy") => format!("--snapshot-policy: {}", problem.detail),
            Some("safety_snapshot") => format!("--safety-snapshot: {}", problem.detail),
            Some(field @ ("devices" | "device" | "group" | "parity" | "aggregate")) => {
                format!("--{field}: {}", problem.detail)
            }
            _ => problem.to_string(),
        };
        let message = format!("{prefix}{detail}{hint} ({})", problem.code);
        Failure {
            problem: Some(problem),
            ..Failure::new(code, message)
        }
    }
}

/// Returns the exit code for a request, or a job, that failed with this code.
pub(crate) fn exit_code(code: Code) -> u8 {
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
        | Code::KeyReused
        | Code::Busy => exit::CONFLICT,
        Code::WouldLoseData => exit::NOT_CONFIRMED,
        Code::NoSpace => exit::NO_SPACE,
        Code::StillUnderWay | Code::OutcomeUnknown => exit::UNKNOWN,
        Code::NotJson
        | Code::BodyTooLarge
        | Code::NoSuchPath
        | Code::MethodNotAllowed
        | Code::RequestTimeout
        | Code::Unauthorized
        | Code::Forbidden
        | Code::DeviceUnusable
        | Code::Unavailable
        | Code::AggregateFailed
        | Code::AggregateNearlyFull
        | Code::HostLow
        | Code::AggregateUnavailable
        | Code::BlocksUnreadable
        | Code::ScheduleFailed
        | Code::SnapshotsKept
        | Code::ReadOnly
        | Code::RolledBack
        | Code::LabelCopyLost
        | Code::PatternUnmatched
        | Code::MetadataDamaged
        | Code::SegmentLost
        | Code::ScanPaused
        | Code::AggregateDegraded
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
    fn the_three_outcomes_have_words_and_exit_codes_of_their_own() {
        let refused = Failure::from(Problem::not_found("volume", "v"));
        assert_eq!(
            (refused.code, &*refused.message),
            (4, "there is no volume v (EVG-2001)")
        );
        let made = Failure::from(Problem::not_found("volume", "v").after_change());
        assert_eq!(made.code, exit::OK);
        assert!(made.message.starts_with("done: "), "{made}");
        let unknown = Failure::from(Problem::new(Code::OutcomeUnknown, "it failed"));
        assert_eq!(unknown.code, exit::UNKNOWN);
        assert_eq!(unknown.message, "outcome unknown: it failed (EVG-3005)");
    }

    #[test]
    fn a_document_has_the_daemons_code_and_the_words_of_the_command_line() {
        let failure = Failure::from(Problem::invalid("size_bytes", "5 is odd"));
        let document = failure.document();
        for (field, expected) in [
            ("schema_version", json!(1)),
            ("type", json!("urn:everglade:problem:EVG-1004")),
            ("title", json!("invalid value")),
            ("status", json!(422)),
            ("code", json!("EVG-1004")),
            ("field", json!("size_bytes")),
            ("detail", json!("--size: 5 is odd")),
            ("exit_code", json!(2)),
        ] {
            assert_eq!(document[field], expected, "{document}");
        }
        let document = Failure::new(exit::UNREACHABLE, "nobody").document();
        assert_eq!(document["type"], "about:blank");
        assert_eq!(document["title"], "the daemon does not answer");
        assert_eq!(document["detail"], "nobody");
        assert!(document["code"].is_null() && document["exit_code"] == 3);
    }

    #[test]
    fn a_field_is_called_as_its_option_is() {
        let failure = Failure::from(Problem::invalid("size_bytes", "5 is odd"));
        assert_eq!(failure.message, "--size: 5 is odd (EVG-1004)");
        assert_eq!(failure.code, exit::USAGE);
        let problem = Problem::of_field(Code::WouldLoseData, "discard_contents", "/f holds data");
        let failure = Failure::from(problem);
        assert!(failure.message.contains("--yes"), "{failure}");
        assert_eq!(failure.code, exit::NOT_CONFIRMED);
    }

    /// `--yes` was proposed for a directory that is not empty, and changed nothing.
    #[test]
    fn an_option_is_proposed_only_where_it_helps() {
        for field in ["devices", "journal_device"] {
            let problem = Problem::of_field(Code::WouldLoseData, field, "/d is not empty");
            let failure = Failure::from(problem);
            assert!(!failure.message.contains("--yes"), "{failure}");
        }
        let failure = Failure::not_confirmed_by("--yes", "volume v", Some("release the hold"));
        assert_eq!(
            failure.message,
            "volume v would be lost for good; not now: release the hold; then add --yes if that \
            is meant"
        );
    }
}
