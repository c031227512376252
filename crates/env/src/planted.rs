//! Bugs that tests must find. They are compiled only with the feature `planted`, which no release
//! has, and are active only if `EVERGLADE_PLANTED` names one:
//!
//! * `flush-skipped`: durable writes and flushes are reported without anything being durable.
//!
//! An unknown name ends the process, because a test that plants it would pass for the wrong reason.

use std::sync::LazyLock;

use crate::action::Action;

static SKIPS_FLUSHES: LazyLock<bool> = LazyLock::new(|| match std::env::var("EVERGLADE_PLANTED") {
    Ok(name) if name == "flush-skipped" => true,
    Ok(name) => panic!("no bug '{name}' is planted"),
    Err(_) => false,
});

/// The action to take in place of this one.
pub(crate) fn instead_of(action: Action) -> Action {
    match action {
        Action::WriteDurable if *SKIPS_FLUSHES => Action::Write,
        // Its gather is empty, so nothing is read.
        Action::Sync if *SKIPS_FLUSHES => Action::Read,
        action => action,
    }
}
