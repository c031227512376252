//! Problems: errors as RFC 9457 has them, with our code and, where one is to blame, the field.
//!
//! ```json
//! {"type": "urn:everglade:problem:EVG-1004", "title": "invalid value", "status": 422,
//!  "detail": "size_bytes: …", "code": "EVG-1004", "field": "size_bytes", "outcome": "not-done"}
//! ```

use std::fmt;

use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{Code, Outcome};

/// `Content-Type` of a problem.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// The reason of a refusal: one line for people, a code for programs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problem {
    /// Error code, for programs.
    pub code: Code,
    /// For people: what happened, what was expected, what to do. One line, without the field.
    pub detail: String,
    /// The field of the request that is to blame.
    pub field: Option<String>,
    /// Whether the change was made. `None`: unspecified; for a refused change, the server then
    /// answers [`Outcome::NotDone`].
    pub outcome: Option<Outcome>,
}

/// A problem in the form of a body.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// `urn:everglade:problem:EVG-NNNN`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Title of all problems with this code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Description for people, one line that begins with the field.
    pub detail: String,
    /// Error code for programs; see `docs/reference/codes/`.
    pub code: String,
    /// The field, parameter or header of the request that is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Outcome of the change; present in answers to all methods but GET.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

impl Problem {
    /// Makes a problem without a field.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            code,
            detail: detail.into(),
            field: None,
            outcome: code.outcome(),
        }
    }

    /// Makes a problem of one field.
    pub fn of_field(code: Code, field: &str, detail: impl fmt::Display) -> Problem {
        Problem {
            field: Some(field.to_owned()),
            ..Problem::new(code, detail.to_string())
        }
    }

    /// Makes the problem of an invalid value.
    pub fn invalid(field: &str, detail: impl fmt::Display) -> Problem {
        Problem::of_field(Code::InvalidValue, field, detail)
    }

    /// Returns the problem that no object has this name.
    pub fn not_found(what: &str, name: impl fmt::Display) -> Problem {
        Problem::new(Code::NotFound, format!("there is no {what} {name}"))
    }

    /// Marks a problem that occurred after the change was made.
    #[must_use]
    pub fn after_change(self) -> Problem {
        let detail = format!("the change was made and is durable, but {}", self.detail);
        Problem {
            detail,
            outcome: Some(Outcome::Done),
            ..self
        }
    }

    /// Returns the HTTP status to answer with.
    #[must_use]
    pub fn http_status(&self) -> u16 {
        self.code.http_status().unwrap_or(500)
    }

    /// Returns the problem as a body.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!(ProblemBody {
            kind: format!("urn:everglade:problem:{}", self.code),
            title: self.code.title().to_owned(),
            status: self.http_status(),
            detail: self.to_string(),
            code: self.code.to_string(),
            field: self.field.clone(),
            outcome: self.outcome,
        })
    }

    /// Parses a body. Returns `None` if it is no problem, or its code is of another version.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Problem> {
        let code = value.get("code")?.as_str()?.parse().ok()?;
        let text = value.get("detail")?.as_str()?;
        let field = value
            .get("field")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let detail = match &field {
            Some(field) => text
                .strip_prefix(field.as_str())
                .and_then(|rest| rest.strip_prefix(": "))
                .unwrap_or(text),
            None => text,
        };
        Some(Problem {
            code,
            detail: detail.to_owned(),
            field,
            outcome: value
                .get("outcome")
                .and_then(Value::as_str)
                .and_then(|word| word.parse().ok()),
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_survives_the_wire() {
        for problem in [
            Problem::invalid("size_bytes", "5 is not a multiple of 4096"),
            Problem::not_found("volume", "v"),
            Problem::not_found("volume", "v").after_change(),
            Problem::new(Code::OutcomeUnknown, "the aggregate failed"),
        ] {
            assert_eq!(Problem::from_json(&problem.to_json()), Some(problem));
        }
        let json = Problem::not_found("volume", "v").to_json();
        assert_eq!(json["status"], 404);
        assert_eq!(json["code"], "EVG-2001");
        assert_eq!(json["detail"], "there is no volume v");
    }

    #[test]
    fn what_is_not_a_problem_is_not_taken_for_one() {
        for text in [
            "null",
            "{}",
            "{\"code\": 7, \"detail\": \"\"}",
            "{\"code\": \"EVG-0000\", \"detail\": \"\"}",
        ] {
            let value: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(Problem::from_json(&value), None, "{text}");
        }
    }
}
