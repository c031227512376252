//! The outcome of a change that was answered with a problem.
//!
//! Most problems say why nothing was changed. Two kinds do not: the daemon may have made the change
//! and then failed to show it, or it may not know. A client repeats what was not done, does not
//! repeat what was done, and asks again about what is unknown (decision 0030).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Change;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The change was made and is durable.
    Done,
    /// Nothing was changed, and nothing will be changed later.
    NotDone,
    /// The change may have been made, or may still be made: ask again.
    Unknown,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Outcome; 3] = [Outcome::Done, Outcome::NotDone, Outcome::Unknown];

    /// Returns the outcome's name on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::NotDone => "not-done",
            Outcome::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Outcome {
    type Err = String;

    fn from_str(text: &str) -> Result<Outcome, String> {
        let known = Outcome::ALL.into_iter().find(|known| known.word() == text);
        known.ok_or_else(|| format!("{text:?} is not an outcome; use done, not-done or unknown"))
    }
}

/// The answer to a repetition of a change of which only the history remains: the daemon has
/// restarted since, or the client did not wait for the first answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Remembered {
    /// Always `done`.
    pub outcome: Outcome,
    /// Time at which the change was durable, RFC 3339 in UTC.
    #[schema(format = DateTime)]
    pub time: String,
    /// Action: `volume create`.
    pub what: String,
    /// Object: `vol0`, `vol0/lun0`.
    pub object: String,
    /// Settings of the change.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Remembered {
    /// Converts a change from the history.
    #[must_use]
    pub fn of(change: &Change) -> Remembered {
        Remembered {
            outcome: Outcome::Done,
            time: change.time.clone(),
            what: change.what.clone(),
            object: change.object.clone(),
            detail: change.detail.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_the_same_word_everywhere() {
        for outcome in Outcome::ALL {
            assert_eq!(outcome.word().parse(), Ok(outcome));
            let json = serde_json::to_value(outcome).expect("JSON");
            assert_eq!(json, outcome.word());
        }
        assert!("maybe".parse::<Outcome>().is_err());
    }
}
