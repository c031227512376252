//! One line per round.

use std::fmt;
use std::time::Duration;

use crate::load::Counts;

/// Above the rows.
pub const HEADER: &str =
    "round  load ms  answered  flushes  unanswered  failed  undecided  ready ms  sectors  crash";

/// What a round did.
#[derive(Debug)]
pub struct Row {
    /// From 1.
    pub round: u64,
    /// How long the load ran.
    pub load: Duration,
    /// What the clients saw.
    pub counts: Counts,
    /// Sectors in which a crash might leave one of several contents.
    pub undecided: u64,
    /// How long the restart took.
    pub ready: Duration,
    /// Sectors read afterwards.
    pub sectors: u64,
    /// What happened.
    pub crash: String,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row {
            round,
            load,
            counts,
            undecided,
            ready,
            sectors,
            crash,
        } = self;
        write!(
            f,
            "{round:>5}  {:>7}  {:>8}  {:>7}  {:>10}  {:>6}  {undecided:>9}  {:>8}  {sectors:>7}  \
            {crash}",
            load.as_millis(),
            counts.answered(),
            counts.flushes,
            counts.unanswered,
            counts.errors,
            ready.as_millis(),
        )
    }
}
