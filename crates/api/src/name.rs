//! Names of objects (docs/reference/conventions.md#names).
//!
//! A name is made of characters that mean nothing in a path, a URL or a shell, so wherever one was
//! checked it can be used as it is.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::Problem;
use crate::fields::only;

/// Longest name.
const BYTES_MAX: usize = 64;
/// Characters shown of a text that is not a name.
const SHOWN_MAX: usize = 80;

/// The name of an aggregate, a volume, or a LUN or snapshot in its volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, ToSchema)]
#[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", example = "vol0")]
pub struct Name(String);

/// The reason why a text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} is not {expected}")]
pub struct NotAName {
    found: String,
    expected: &'static str,
}

impl NotAName {
    pub(crate) fn new(found: &str, expected: &'static str) -> NotAName {
        let shown: String = found.chars().take(SHOWN_MAX).collect();
        let more = if shown.len() < found.len() { "…" } else { "" };
        let found = format!("{shown:?}{more}");
        NotAName { found, expected }
    }
}

fn is_valid(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    text.len() <= BYTES_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(inside)
}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Name, NotAName> {
        if is_valid(text) {
            return Ok(Name(text.to_owned()));
        }
        Err(NotAName::new(
            text,
            "a name: use 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or \
            digit",
        ))
    }
}

impl Name {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for LunName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// `POST /v1/aggregates/{a}/actions/rename`, and the same for volumes and LUNs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Rename {
    /// The new name, unique where the old one is.
    pub name: Name,
}

impl Rename {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<Rename, Problem> {
        Ok(Rename {
            name: only(body, "name")?,
        })
    }
}

/// `volume/lun`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LunName {
    /// Name of the volume.
    pub volume: Name,
    /// Its name there.
    pub lun: Name,
}

impl FromStr for LunName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<LunName, NotAName> {
        let Some((volume, lun)) = text.split_once('/') else {
            return Err(NotAName::new(text, "a LUN: write VOLUME/LUN"));
        };
        Ok(LunName {
            volume: volume.parse()?,
            lun: lun.parse()?,
        })
    }
}

impl fmt::Display for LunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.volume, self.lun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_conventions_say() {
        let long = "a".repeat(64);
        for good in ["a", "0", "vol0", "A.b_c-d", "a..", &long] {
            assert_eq!(good.parse::<Name>().expect(good).as_str(), good);
        }
        let longer = "a".repeat(65);
        for bad in [
            "", ".", "..", "-a", "_a", "a/b", "a b", "é", "a\0", "a%41", &longer,
        ] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_lun_has_a_volume() {
        let name: LunName = "vol0/lun0".parse().expect("a LUN");
        assert_eq!(name.to_string(), "vol0/lun0");
        for bad in ["vol0", "vol0/", "/lun0", "a/b/c", "../b"] {
            assert!(bad.parse::<LunName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_new_name_is_all_that_a_rename_says() {
        let good = Rename::parse(b"{\"name\": \"v\"}").expect("a name");
        assert_eq!(good.name.as_str(), "v");
        for bad in [
            "{}",
            "{\"name\": \"../v\"}",
            "{\"name\": 7}",
            "{\"name\": \"v\", \"to\": \"w\"}",
        ] {
            assert!(Rename::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refusal_is_short_and_printable() {
        let refusal = "\u{1b}[2J"
            .repeat(10_000)
            .parse::<Name>()
            .expect_err("not a name");
        let text = refusal.to_string();
        assert!(text.len() < 1000 && !text.contains('\u{1b}'), "{text}");
    }
}
