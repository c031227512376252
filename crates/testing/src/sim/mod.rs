//! Simulations: a seed becomes a world, a workload and a verdict.
//!
//! - [`long`]: one world lives through many power cuts and restarts; what each leaves is judged and
//!   lived on with. Finds what takes time.
//! - [`cuts`]: one run is cut at every write in many ways; each is judged and thrown away. Finds
//!   what takes luck.
//! - [`creation`]: preparing the devices is cut at every write.
//! - [`growth`]: the pool grows while clients work; everything of it is cut.
//! - [`compared`]: clients count by compare-and-write; no update is lost.
//! - [`mirror`]: drives of mirrors break, lie, are away and come back; everything of it is cut.
//! - [`small`], [`exhaustive`]: [`cuts`] for every short sequence over a small alphabet, from one
//!   and from several start states. Finds unexpected combinations.
//!
//! - [`snapshots`]: one volume with snapshots, restores and deletions, against a list of states.
//! - [`histories`]: all short sequences with snapshot verbs, cut at each write.
//! - [`clonings`]: the same with clones of volumes and splits.
//! - `corrupted`: every block of metadata is damaged, one at a time.
//! - [`moments`]: many concurrent clients, and snapshots of their work; devices that fail.
//!
//! `trouble` draws the loud faults of a life, `silent` lives through the silent ones. [`driver`]
//! carries actions to the system and replies to the model; [`judge`] checks a system that has just
//! started.

mod asker;
mod background;
mod changes;
pub mod clonings;
pub mod compared;
mod corrupted;
mod cost;
pub mod creation;
pub mod cuts;
pub mod driver;
pub mod exhaustive;
mod grown;
pub mod growth;
pub mod histories;
pub mod judge;
mod judged;
mod kind;
pub mod long;
pub mod mirror;
mod mirrored;
pub mod moments;
mod recoveries;
mod report;
mod silent;
pub mod small;
pub mod snapshots;
mod story;
mod trouble;
mod words;

use std::fmt;

pub use background::{Background, PerBackground};
pub use cost::Cost;
pub use grown::{Growth, PerGrowth};
pub use kind::{Beside, Kind};
pub use mirrored::{Mirrored, PerMirrored};
pub use report::Report;
pub use words::Cases;

/// A simulation that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Failure {
    /// The broken promise.
    pub what: String,
    /// The last events of the world, oldest first.
    pub trace: Vec<String>,
}

impl Failure {
    pub(crate) fn new(what: impl fmt::Display) -> Failure {
        Failure {
            what: what.to_string(),
            trace: Vec::new(),
        }
    }

    /// The code under test stopped at one of its own assertions.
    #[must_use]
    pub fn panicked() -> Failure {
        Failure::new("panicked; see the message above")
    }

    /// The checker that failed: a rule of the model, the offline check, a client's expectation …
    #[must_use]
    pub fn checker(&self) -> &'static str {
        let rules = [
            "ReadAfterWrite",
            "TornRead",
            "Foreign",
            "Durable",
            "Whole",
            "Prefix",
            "ConsistencyPoint",
            "Unreadable",
            "Exports",
            "Leak",
            "Counters",
            "Changes",
            "Growth",
            "Mirror",
        ];
        // The cause is nearest to the end; the place stands before it.
        let has = |words: &str| self.what.contains(words);
        if let Some(rule) = rules.iter().find(|rule| has(&format!("{rule}: "))) {
            return rule;
        }
        let others = [
            ("panicked", "assertion of the engine"),
            ("stuck", "progress"),
            ("check found nothing", "check against reads"),
            ("check: ", "offline check"),
            ("mount: ", "start"),
            ("does not start", "start"),
            ("cannot be read", "readable"),
            ("a valid request failed", "clients' errors"),
            ("was refused", "admission"),
            ("under way that nobody", "nothing left over"),
            ("answered", "one answer for each request"),
        ];
        let known = others.iter().find(|(words, _)| has(words));
        known.map_or("other", |(_, checker)| checker)
    }

    pub(crate) fn within(mut self, where_: impl fmt::Display) -> Failure {
        self.what = format!("{where_}: {}", self.what);
        self
    }
}
