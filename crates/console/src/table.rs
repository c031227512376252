//! Pieces that several pages use: numbers, badges, lists of links.

use everglade_api::{AggregateState, Health, JobState, Severity, Size};
use maud::{Markup, html};

use crate::frame::Visitor;

/// A size in a cell.
pub(crate) fn size(bytes: u64) -> Markup {
    html! { td class="number" { (Size(bytes)) } }
}

/// A number in a cell.
pub(crate) fn number(value: impl std::fmt::Display) -> Markup {
    html! { td class="number" { (value) } }
}

/// The heading of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Head {
    Text(&'static str),
    /// Above numbers, which are at the right.
    Number(&'static str),
}

/// A table that can be scrolled sideways, also by keyboard. `what`: what its rows are.
pub(crate) fn table(what: &str, heads: &[Head], rows: &Markup) -> Markup {
    with_caption(what, None, heads, rows)
}

/// The same with a line above it.
pub(crate) fn captioned(what: &str, caption: &str, heads: &[Head], rows: &Markup) -> Markup {
    with_caption(what, Some(caption), heads, rows)
}

fn with_caption(what: &str, caption: Option<&str>, heads: &[Head], rows: &Markup) -> Markup {
    html! {
        div class="scroll" role="region" aria-label={ "Table of " (what) } tabindex="0" {
            table {
                @if let Some(caption) = caption { caption { (caption) } }
                thead { tr {
                    @for head in heads {
                        @match head {
                            Head::Text(text) => th scope="col" { (text) },
                            Head::Number(text) => th scope="col" class="number" { (text) },
                        }
                    }
                } }
                tbody { (rows) }
            }
        }
    }
}

/// A word with the colour of its meaning.
pub(crate) fn badge(word: impl std::fmt::Display, tone: &str) -> Markup {
    html! { span class={ "badge " (tone) } { (word) } }
}

pub(crate) fn health(health: Health) -> Markup {
    let tone = match health {
        Health::Healthy => "good",
        Health::Warning => "warn",
        Health::Unhealthy => "bad",
    };
    badge(health, tone)
}

pub(crate) fn state(state: AggregateState) -> Markup {
    let tone = match state {
        AggregateState::Online => "good",
        AggregateState::Failed | AggregateState::Unavailable => "bad",
        _ => "warn",
    };
    badge(state, tone)
}

pub(crate) fn job_state(state: JobState) -> Markup {
    let tone = match state {
        JobState::Running => "warn",
        JobState::Done => "good",
        JobState::Failed => "bad",
    };
    badge(state, tone)
}

pub(crate) fn severity(severity: Severity) -> Markup {
    let tone = match severity {
        Severity::Info => "good",
        Severity::Warning => "warn",
        Severity::Error => "bad",
    };
    badge(severity, tone)
}

/// Links to forms, for visitors who may send them.
pub(crate) fn actions(visitor: &Visitor, links: &[(String, &str)]) -> Markup {
    html! {
        @if visitor.may_change() {
            ul class="actions" {
                @for (path, title) in links {
                    li { a class="button" href=(path) { (title) } }
                }
            }
        }
    }
}

/// The page of an object: `vol0`, `vol0/lun0`, `vol0@s` or the name of an aggregate. Events and
/// jobs name objects without their kind, so only names that say it become links.
pub(crate) fn object(name: &str) -> Markup {
    let volume = match name.split_once('@') {
        Some((volume, _)) => volume.split('/').next(),
        None => None,
    };
    let path = match (volume, name.split_once('/')) {
        (Some(volume), _) => Some(format!("/volumes/{volume}")),
        (None, Some((volume, lun))) => Some(format!("/volumes/{volume}/luns/{lun}")),
        (None, None) => None,
    };
    let is_plain = |path: &String| path.bytes().all(|c| c.is_ascii_graphic() && c != b'%');
    html! {
        @match path.filter(is_plain) {
            Some(path) => a href=(path) { (name) },
            None => (name),
        }
    }
}

/// A duration in the largest units that tell it: `3 d 4 h`, `5 min 2 s`.
#[must_use]
pub fn duration(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes} min {rest} s"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_lead_to_their_pages() {
        let link = |name: &str| object(name).into_string();
        assert!(link("v/l").contains("href=\"/volumes/v/luns/l\""));
        assert!(link("v@s").contains("href=\"/volumes/v\""));
        assert!(link("v/l@s").contains("href=\"/volumes/v\""));
        assert_eq!(link("aggr0"), "aggr0");
        assert_eq!(link("a b/c"), "a b/c", "no path is made of other names");
    }

    #[test]
    fn durations_have_two_units() {
        let said = [5, 65, 3_725, 90_061].map(duration);
        assert_eq!(said, ["5 s", "1 min 5 s", "1 h 2 min", "1 d 1 h"]);
    }
}
