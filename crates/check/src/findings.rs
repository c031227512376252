//! Findings: the problems found so far, with a limit for each kind.

use std::collections::BTreeMap;
use std::fmt::Display;

use everglade_format::Damage;

use crate::problem::{Kind, Object, Problem, ProblemPlace};

/// Problems of one kind that are kept whole; further ones are only counted. Enough to see a
/// pattern, and little enough memory when a whole map is wrong.
const KEPT_PER_KIND: u64 = 100;

pub(crate) struct Findings {
    muted: bool,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    pub(crate) totals: BTreeMap<Kind, u64>,
}

impl Findings {
    pub(crate) fn new() -> Self {
        Findings {
            muted: false,
            problems: Vec::new(),
            warnings: Vec::new(),
            totals: BTreeMap::new(),
        }
    }

    /// Findings that keep nothing, for a second read of blocks whose problems were reported before.
    pub(crate) fn deaf() -> Self {
        Findings {
            muted: true,
            ..Findings::new()
        }
    }

    /// Stops or resumes listening.
    pub(crate) fn mute(&mut self, muted: bool) {
        self.muted = muted;
    }

    pub(crate) fn add(
        &mut self,
        kind: Kind,
        object: &Object,
        place: ProblemPlace,
        expected: impl Display,
        found: impl Display,
    ) {
        if self.count(kind) {
            self.keep(Problem {
                kind,
                object: object.clone(),
                place,
                expected: expected.to_string(),
                found: found.to_string(),
            });
        }
    }

    /// Adds a finding that was made elsewhere.
    pub(crate) fn push(&mut self, problem: Problem) {
        if self.count(problem.kind) {
            self.keep(problem);
        }
    }

    /// Counts a finding; true if it is kept.
    fn count(&mut self, kind: Kind) -> bool {
        if self.muted {
            return false;
        }
        let total = self.totals.entry(kind).or_default();
        *total += 1;
        *total <= KEPT_PER_KIND
    }

    fn keep(&mut self, problem: Problem) {
        if problem.kind.is_warning() {
            self.warnings.push(problem);
        } else {
            self.problems.push(problem);
        }
    }

    pub(crate) fn damage(
        &mut self,
        kind: Kind,
        object: &Object,
        place: ProblemPlace,
        damage: &Damage,
    ) {
        let expected = format_args!("{} {}", damage.what, damage.expected);
        self.add(kind, object, place, expected, &damage.found);
    }
}
