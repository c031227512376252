//! Exit codes (docs/reference/conventions.md#exit-codes). Scripts depend on them; none is ever
//! given a second meaning.
//!
//! A panic is one of our own invariants broken: the process ends at once
//! with 70, from whichever thread, because going on could damage data.

use std::fmt::Display;

/// Done, or stopped cleanly.
pub(crate) const OK: u8 = 0;
/// The verb failed; for `serve`, the start was refused; for `check`, problems were found.
pub(crate) const FAILED: u8 = 1;
/// The command line cannot be understood.
pub(crate) const USAGE: u8 = 2;
/// `check` could not read what it was to check.
pub(crate) const CANNOT_READ: u8 = 2;
/// One of our own invariants is broken (`EX_SOFTWARE`).
const INVARIANT_BROKEN: i32 = 70;

/// Why a verb did not succeed: one line for a person, one number for a script.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, error: impl Display) -> Failure {
        Failure {
            code,
            message: error.to_string(),
        }
    }
}

/// From now on a panic on any thread ends the process, after saying what and where.
pub(crate) fn stop_on_broken_invariants() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        eprintln!(
            "everglade: stopped, because continuing could damage data; what was flushed is safe; \
             please report the lines above"
        );
        std::process::exit(INVARIANT_BROKEN);
    }));
}
