//! Filters of lists: `size>=1.5GiB`. One grammar for `--where` and for the parameters of
//! collections.
//!
//! A filter has a column or field, a relation and a value. The column's [`Kind`] says which values
//! and which relations there are. Everything else is refused, with what is expected, because a
//! mistyped value must never look like an empty list.
//!
//! | kind | values | relations |
//! | --- | --- | --- |
//! | text | any | all |
//! | size | `1536`, `1.5KiB` | all but `~` |
//! | count, percent | `7`, `7%` | all but `~` |
//! | duration | `90`, `1m 30s` | all but `~` |
//! | time | `2026-11-25`, `2026-11-25T18:16:04Z` | all |
//! | flag | `yes`, `no` | `=`, `!=` |
//! | word | one of a set | `=`, `!=` |
//!
//! A time without its last parts is the span that it names: `created<=2026-11-25` includes that
//! day. The value `-` with `=` or `!=` is the absence of a value, of every kind.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use jiff::{Span, SpanRelativeTo, Timestamp};

use crate::kind::Kind;
use crate::openapi;
use crate::size::{self, MILLION};

/// Characters of a value that a message shows.
const SHOWN_MAX: usize = 64;
/// Length of `2026-11-25T18:16:04`.
const SECOND_CHARS: usize = 19;

/// Relation of an item's value to the filter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `=`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `~`: the item's value contains the filter's value.
    Contains,
}

impl Relation {
    /// All relations. A relation that begins like another one comes before it.
    const ALL: [Relation; 7] = [
        Relation::Unequal,
        Relation::AtLeast,
        Relation::AtMost,
        Relation::Contains,
        Relation::Equal,
        Relation::Greater,
        Relation::Less,
    ];

    fn sign(self) -> &'static str {
        match self {
            Relation::Equal => "=",
            Relation::Unequal => "!=",
            Relation::Less => "<",
            Relation::AtMost => "<=",
            Relation::Greater => ">",
            Relation::AtLeast => ">=",
            Relation::Contains => "~",
        }
    }

    fn holds(self, order: Ordering) -> bool {
        match self {
            Relation::Equal => order.is_eq(),
            Relation::Unequal => order.is_ne(),
            Relation::Less => order.is_lt(),
            Relation::AtMost => order.is_le(),
            Relation::Greater => order.is_gt(),
            Relation::AtLeast => order.is_ge(),
            Relation::Contains => false,
        }
    }

    fn is_equality(self) -> bool {
        matches!(self, Relation::Equal | Relation::Unequal)
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.sign())
    }
}

/// Splits `NAME RELATION VALUE` at the first relation. Returns `None` if there is no relation.
#[must_use]
pub fn split(text: &str) -> Option<(&str, Relation, &str)> {
    let place = text.find(['!', '>', '<', '=', '~'])?;
    let (name, rest) = text.split_at(place);
    let mut all = Relation::ALL.into_iter();
    let (relation, value) =
        all.find_map(|relation| Some((relation, rest.strip_prefix(relation.sign())?)))?;
    Some((name.trim(), relation, value.trim()))
}

/// The value of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A text, a time, a word; `yes` or `no` for a flag.
    Text(Cow<'a, str>),
    /// Bytes, a count, percent or seconds.
    Number(u64),
    /// There is no value.
    Absent,
}

/// The filter's value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Absent,
    Text(String),
    /// Millionths.
    Number(u128),
    /// The beginning of a time as items have it.
    Time(String),
}

/// A relation and a value, both possible for their kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    relation: Relation,
    wanted: Wanted,
}

/// The reason why a relation or a value is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAFilter(String);

impl Filter {
    /// Reads the value of a filter.
    ///
    /// # Errors
    /// The kind does not have this relation, or the text is not a value of it.
    pub fn parse(kind: Kind, relation: Relation, text: &str) -> Result<Filter, NotAFilter> {
        let wanted = match kind {
            _ if text == "-" && relation.is_equality() => Wanted::Absent,
            Kind::Text => Wanted::Text(text.to_owned()),
            Kind::Time if relation == Relation::Contains => Wanted::Text(text.to_owned()),
            Kind::Flag | Kind::Word(_) if !relation.is_equality() => {
                let text = format!("'{relation}' has no meaning here; use = or !=");
                return Err(NotAFilter(text));
            }
            _ if relation == Relation::Contains => {
                let text = "'~' is for texts; use =, !=, <, <=, > or >=";
                return Err(NotAFilter(text.to_owned()));
            }
            Kind::Size => {
                let size = size::millionths(text).map_err(|error| NotAFilter(error.to_string()));
                Wanted::Number(size?)
            }
            Kind::Count => Wanted::Number(count(text, "a whole number")?),
            Kind::Percent => {
                let digits = text.strip_suffix('%').unwrap_or(text);
                Wanted::Number(count(digits.trim_end(), "a whole number of percent")?)
            }
            Kind::Duration => Wanted::Number(duration(text)?),
            Kind::Time => Wanted::Time(time(text)?),
            Kind::Flag => Wanted::Text(flag(text)?.to_owned()),
            Kind::Word(schema) => Wanted::Text(word(text, schema)?),
        };
        Ok(Filter { relation, wanted })
    }

    /// Returns whether an item with this value stays in the list.
    #[must_use]
    pub fn keeps(&self, found: &Found<'_>) -> bool {
        let relation = self.relation;
        match (&self.wanted, found) {
            (Wanted::Absent, found) => {
                (relation == Relation::Equal) == matches!(found, Found::Absent)
            }
            (_, Found::Absent) => relation == Relation::Unequal,
            (Wanted::Text(wanted), Found::Text(found)) => match relation {
                Relation::Contains => found.contains(wanted.as_str()),
                _ => relation.holds((**found).cmp(wanted.as_str())),
            },
            (Wanted::Time(wanted), Found::Text(found)) => {
                let begin = found.get(..wanted.len()).unwrap_or(found);
                relation.holds(begin.cmp(wanted.as_str()))
            }
            (Wanted::Number(wanted), Found::Number(found)) => {
                relation.holds((u128::from(*found) * MILLION).cmp(wanted))
            }
            (Wanted::Number(_), Found::Text(_))
            | (Wanted::Text(_) | Wanted::Time(_), Found::Number(_)) => false,
        }
    }
}

fn refusal(text: &str, expected: &str) -> NotAFilter {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = text.chars().take(SHOWN_MAX).map(clean).collect();
    NotAFilter(format!("'{shown}' is not possible; expected {expected}"))
}

fn count(text: &str, expected: &str) -> Result<u128, NotAFilter> {
    let found: Option<u64> = text.parse().ok();
    let number = found.ok_or_else(|| refusal(text, expected))?;
    Ok(u128::from(number) * MILLION)
}

fn duration(text: &str) -> Result<u128, NotAFilter> {
    let expected = "seconds, or a duration such as 90s, 5m or 1d 2h";
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return count(text, expected);
    }
    let span = text.parse::<Span>().ok();
    let length: Option<u128> = span.and_then(|span| {
        span.to_duration(SpanRelativeTo::days_are_24_hours())
            .ok()?
            .as_micros()
            .try_into()
            .ok()
    });
    length.ok_or_else(|| refusal(text, expected))
}

/// Returns the beginning of a time as items have it, as far as the text goes.
fn time(text: &str) -> Result<String, NotAFilter> {
    let completed = match text.len() {
        10 => format!("{text}T00:00:00Z"),
        16 => format!("{text}:00Z"),
        SECOND_CHARS => format!("{text}Z"),
        _ => text.to_owned(),
    };
    let shown = match text.len() {
        length @ (10 | 16) => length,
        _ => SECOND_CHARS,
    };
    let parsed: Option<Timestamp> = completed.parse().ok();
    let begin = parsed.and_then(|moment| Some(moment.to_string().get(..shown)?.to_owned()));
    begin.ok_or_else(|| {
        let expected = "a time in UTC such as 2026-11-25, 2026-11-25T18:16 or 2026-11-25T18:16:04Z";
        refusal(text, expected)
    })
}

fn flag(text: &str) -> Result<&'static str, NotAFilter> {
    match text {
        "yes" | "true" => Ok("yes"),
        "no" | "false" => Ok("no"),
        _ => Err(refusal(text, "yes or no")),
    }
}

fn word(text: &str, schema: &str) -> Result<String, NotAFilter> {
    let words = openapi::words_of(schema);
    if words.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(refusal(text, &format!("one of {}", words.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps(kind: Kind, condition: &str, found: &Found<'_>) -> Result<bool, NotAFilter> {
        let (_, relation, value) = split(condition).expect("a relation");
        Ok(Filter::parse(kind, relation, value)?.keeps(found))
    }

    fn text(text: &str) -> Found<'_> {
        Found::Text(Cow::Borrowed(text))
    }

    #[test]
    fn a_condition_is_split_at_its_first_relation() {
        for (condition, expected) in [
            ("a=b", ("a", Relation::Equal, "b")),
            ("a != b", ("a", Relation::Unequal, "b")),
            ("a>=1", ("a", Relation::AtLeast, "1")),
            ("a>b=c", ("a", Relation::Greater, "b=c")),
            ("a<=1", ("a", Relation::AtMost, "1")),
            ("a<1", ("a", Relation::Less, "1")),
            ("a~=", ("a", Relation::Contains, "=")),
            ("a=", ("a", Relation::Equal, "")),
        ] {
            assert_eq!(split(condition), Some(expected), "{condition}");
        }
        for none in ["", "a", "a!b"] {
            assert_eq!(split(none), None, "{none}");
        }
    }

    #[test]
    fn values_are_compared_as_what_they_are() {
        let gib = 1 << 30;
        for (kind, condition, found, expected) in [
            (Kind::Size, "x>=1.5GiB", Found::Number(3 * gib / 2), true),
            (Kind::Size, "x>1.5GiB", Found::Number(3 * gib / 2), false),
            (Kind::Size, "x>1.1GiB", Found::Number(1_181_116_006), false),
            (Kind::Size, "x>1.1GiB", Found::Number(1_181_116_007), true),
            (Kind::Size, "x=1073741824", Found::Number(gib), true),
            (Kind::Size, "x=-", Found::Absent, true),
            (Kind::Size, "x!=1", Found::Absent, true),
            (Kind::Size, "x<1", Found::Absent, false),
            (Kind::Count, "x<10", Found::Number(9), true),
            (Kind::Percent, "x=7%", Found::Number(7), true),
            (Kind::Duration, "x>1m 30s", Found::Number(90), false),
            (Kind::Duration, "x>=90", Found::Number(90), true),
            (Kind::Duration, "x<1d", Found::Number(86_399), true),
            (
                Kind::Time,
                "x=2026-11-25",
                text("2026-11-25T18:16:04Z"),
                true,
            ),
            (
                Kind::Time,
                "x<=2026-11-25",
                text("2026-11-25T18:16:04Z"),
                true,
            ),
            (
                Kind::Time,
                "x<2026-11-25",
                text("2026-11-25T18:16:04Z"),
                false,
            ),
            (
                Kind::Time,
                "x>2026-11-25",
                text("2026-11-26T00:00:00Z"),
                true,
            ),
            (
                Kind::Time,
                "x<2026-11-25T18:17",
                text("2026-11-25T18:16:04Z"),
                true,
            ),
            (
                Kind::Time,
                "x=2026-11-25T18:16:04Z",
                text("2026-11-25T18:16:04Z"),
                true,
            ),
            (
                Kind::Time,
                "x=2026-11-25T19:16:04+01:00",
                text("2026-11-25T18:16:04Z"),
                true,
            ),
            (Kind::Time, "x~T18", text("2026-11-25T18:16:04Z"), true),
            (Kind::Text, "x~b", text("abc"), true),
            (Kind::Text, "x<b", text("a"), true),
            (Kind::Text, "x=-", text("a"), false),
            (Kind::Text, "x~-", text("a-b"), true),
            (Kind::Flag, "x=true", text("yes"), true),
            (Kind::Word("JobState"), "x!=done", text("running"), true),
        ] {
            assert_eq!(
                keeps(kind, condition, &found),
                Ok(expected),
                "{condition} {found:?}"
            );
        }
    }

    #[test]
    fn what_is_not_a_value_is_refused_with_what_is_expected() {
        for (kind, condition, part) in [
            (Kind::Size, "x>bla", "not a size"),
            (Kind::Size, "x>1.5GB", "GiB"),
            (Kind::Size, "x~1", "texts"),
            (Kind::Size, "x>-", "not a size"),
            (Kind::Count, "x=1.5", "a whole number"),
            (Kind::Count, "x=-1", "a whole number"),
            (Kind::Percent, "x>half", "percent"),
            (Kind::Duration, "x>soon", "90s"),
            (Kind::Duration, "x>-5m", "90s"),
            (Kind::Duration, "x>", "seconds"),
            (Kind::Time, "x<yesterday", "2026-11-25"),
            (Kind::Time, "x<2026-13-25", "2026-11-25"),
            (Kind::Time, "x<2026", "2026-11-25"),
            (Kind::Flag, "x=perhaps", "yes or no"),
            (Kind::Flag, "x<yes", "= or !="),
            (Kind::Word("JobState"), "x=runing", "running, done, failed"),
            (Kind::Word("JobState"), "x~run", "= or !="),
        ] {
            let refusal = keeps(kind, condition, &Found::Absent);
            let refusal = refusal.expect_err(condition).to_string();
            assert!(refusal.contains(part), "{condition}: {refusal}");
        }
    }
}
