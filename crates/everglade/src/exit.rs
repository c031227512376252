//! Exit codes (docs/reference/conventions.md#exit-codes). Scripts depend on them; none is ever
//! given a second meaning.
//!
//! A panic is one of our own invariants broken: the process ends at once
//! with 70, from whichever thread, because going on could damage data.

use std::fmt::Display;

use serde_json::Value;

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

/// Why a verb did not succeed: one line for a person, one number for a script, and a document for a
/// program.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
    pub(crate) document: Value,
}

impl Failure {
    pub(crate) fn new(code: u8, error: impl Display) -> Failure {
        let message = error.to_string();
        Failure {
            document: everglade_cli::document(code, &message),
            code,
            message,
        }
    }

    /// Says it on stderr; `as_json` is what `--json` asks for.
    pub(crate) fn say(&self, as_json: bool) {
        match as_json {
            true => eprintln!("{}", self.document),
            false => eprintln!("everglade: {}", self.message),
        }
    }
}

impl From<everglade_cli::Failure> for Failure {
    fn from(failure: everglade_cli::Failure) -> Failure {
        Failure {
            document: failure.document(),
            code: failure.code,
            message: failure.message,
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
