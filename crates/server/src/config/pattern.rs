//! Patterns: the exports that a line of `[nbd.allow]` matches.
//!
//! ```text
//! VOLUME/LUN            a LUN, and its snapshots unless another line names them
//! VOLUME/LUN@SNAPSHOT   the LUN as it was in a snapshot
//! BEGINNING*            all exports whose names begin like this:
//!                       *, VOLUME/*, VOLUME/db*, vm*, VOLUME/LUN@*
//! ```
//!
//! A pattern that can never match says nothing about the exports that it was for. Therefore every
//! part of a pattern must be a possible name; otherwise the daemon refuses to start. A pattern that
//! could match, but matches no existing export, is a warning (`administrator::patterns`), because
//! the LUN may be created later.

use std::fmt;
use std::str::FromStr;

use everglade_format::config::name_is_valid;

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// A name, or how names begin.
    stem: String,
    /// Whether the pattern ended with a star.
    is_prefix: bool,
}

impl Pattern {
    /// Returns whether the pattern matches this export. A client that may not read a LUN may not
    /// read its snapshots either, unless a longer pattern allows it.
    #[must_use]
    pub fn fits(&self, export: &str) -> bool {
        if self.is_prefix {
            return export.starts_with(&self.stem);
        }
        let lun = export.split_once('@').map(|(lun, _)| lun);
        self.stem == export || Some(self.stem.as_str()) == lun
    }

    /// Returns the rank of the pattern. Of the patterns that match, the one with the highest rank
    /// decides: the longest one, and a whole name before a prefix of the same length.
    #[must_use]
    pub fn rank(&self) -> (usize, bool) {
        (self.stem.len(), !self.is_prefix)
    }

    /// Returns whether the pattern matches the LUN of this name or a snapshot of it: `vol0/lun0@*`
    /// concerns `vol0/lun0`.
    #[must_use]
    pub fn concerns(&self, lun: &str) -> bool {
        let named = self.stem.split_once('@').map(|(lun, _)| lun);
        named.map_or_else(|| self.fits(lun), |named| named == lun)
    }

    /// Returns whether the pattern may match LUNs of this volume.
    #[must_use]
    pub fn may_fit_in(&self, volume: &str) -> bool {
        match self.stem.split_once('/') {
            Some((named, _)) => named == volume,
            None => volume.starts_with(&self.stem),
        }
    }

    /// Fits whatever there is.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.stem.is_empty()
    }
}

/// The reasons why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' names no exports: {problem}; expected VOLUME/LUN, VOLUME/LUN@SNAPSHOT, or how such \
    names begin and then *, such as VOLUME/* or *"
)]
pub struct NotAPattern {
    text: String,
    problem: String,
}

impl FromStr for Pattern {
    type Err = NotAPattern;

    fn from_str(text: &str) -> Result<Pattern, NotAPattern> {
        let refuse = |problem: String| NotAPattern {
            text: text.to_owned(),
            problem,
        };
        let (stem, is_prefix) = match text.strip_suffix('*') {
            Some(stem) => (stem, true),
            None => (text, false),
        };
        if stem.contains('*') {
            return Err(refuse("* is possible at its end only".to_owned()));
        }
        let mut parts = Vec::new();
        match stem.split_once('/') {
            None => parts.push(("volume", stem)),
            Some((volume, rest)) => {
                parts.push(("volume", volume));
                match rest.split_once('@') {
                    None => parts.push(("LUN", rest)),
                    Some((lun, snapshot)) => parts.extend([("LUN", lun), ("snapshot", snapshot)]),
                }
            }
        }
        if parts.len() == 1 && !is_prefix {
            return Err(refuse("it has no LUN".to_owned()));
        }
        let last = parts.len() - 1;
        for (index, (what, part)) in parts.into_iter().enumerate() {
            // The beginning of a name must be a name itself, or empty.
            let may_be_empty = is_prefix && index == last;
            if !(name_is_valid(part) || part.is_empty() && may_be_empty) {
                return Err(refuse(format!("'{part}' is not the name of a {what}")));
            }
        }
        Ok(Pattern {
            stem: stem.to_owned(),
            is_prefix,
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.is_prefix { "*" } else { "" };
        write!(f, "{}{star}", self.stem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().expect(text)
    }

    #[test]
    fn what_can_never_fit_is_refused() {
        let long = format!("v/{}", "l".repeat(65));
        for text in [
            "",
            "v",
            "v/",
            "/l",
            "v/l/",
            "/v/l",
            "v//l",
            "v/l/m",
            "v/l/*",
            "/*",
            "v/l@",
            "v/l@s@t",
            "v/@s",
            "v/@*",
            "v@s",
            "v@*",
            " v/l",
            "v/l ",
            "v /l",
            "v/ l",
            "v/l *",
            "v/\u{00e4}",
            "v/-l",
            "v/.*",
            "v/l\n",
            "v/**",
            "*/l",
            "v*/l",
            "v/l*m",
            "v/l?",
            "v/[a-z]",
            &long,
        ] {
            assert!(text.parse::<Pattern>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_and_beginnings_fit_what_they_say() {
        for (text, export, fits) in [
            ("v/l", "v/l", true),
            ("v/l", "v/l@s", true),
            ("v/l", "v/lx", false),
            ("v/l", "v/lx@s", false),
            ("v/l", "V/L", false),
            ("v/l@s", "v/l@s", true),
            ("v/l@s", "v/l", false),
            ("v/l@s", "v/l@st", false),
            ("v/l@*", "v/l@s", true),
            ("v/l@*", "v/l", false),
            ("v/*", "v/l", true),
            ("v/*", "v/l@s", true),
            ("v/*", "vx/l", false),
            ("v*", "vx/l", true),
            ("*", "x/y@z", true),
        ] {
            assert_eq!(pattern(text).fits(export), fits, "{text} {export}");
            assert_eq!(pattern(text).to_string(), text);
        }
    }

    #[test]
    fn a_pattern_concerns_the_lun_of_the_snapshots_it_is_about() {
        for (text, lun, concerns) in [
            ("v/l", "v/l", true),
            ("v/l@nightly", "v/l", true),
            ("v/l@*", "v/l", true),
            ("v/l@*", "v/lx", false),
            ("v/*", "v/l", true),
            ("v/db*", "v/l", false),
            ("w*", "v/l", false),
        ] {
            assert_eq!(pattern(text).concerns(lun), concerns, "{text} {lun}");
        }
        assert!(pattern("v/*").may_fit_in("v") && !pattern("v/*").may_fit_in("vx"));
        assert!(pattern("v*").may_fit_in("vx") && !pattern("v*").may_fit_in("w"));
    }
}
