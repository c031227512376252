//! Switches of planted bugs: mistakes that the product does not make, and that the rigs must find
//! (docs/design/simulation.md, "Planted bugs"; decision 0039).
//!
//! The mistakes are beside this file, in `bugs/NAME.edit`: what is wrong, which rig finds it, and
//! edits of sources. No crate of the product depends on this one. `cargo xtask planted` copies the
//! workspace to `target/planted/`, applies all edits there, lets the edited crates of the copy
//! depend on this one, and builds the rigs. So one build has all mistakes. Which one is made is
//! chosen at run time for the whole process: by [`plant`], or by the variable `EVERGLADE_PLANTED`
//! in a program that never calls it, such as the server.
//!
//! 1. The ordinary workspace has no mistakes, so [`plant`] refuses to choose one there.
//! 2. A bug is known by its name alone. Nobody notices here that no edit has that name; the rig
//!    that does not find the bug does.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The environment variable that switches a planted bug on, by its name, in a process that does not
/// call [`plant`].
const VARIABLE: &str = "EVERGLADE_PLANTED";

/// Nobody has chosen yet: the environment decides.
const OPEN: u64 = 0;
/// No mistake is made.
const NONE: u64 = 1;

static CURRENT: AtomicU64 = AtomicU64::new(OPEN);
static TICKET: AtomicUsize = AtomicUsize::new(0);

/// A mistake to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bug(u64);

impl Bug {
    /// The bug of this name. Edits call it at compile time, since [`is`] is on the data path.
    #[must_use]
    pub const fn named(name: &str) -> Bug {
        // FNV-1a.
        let bytes = name.as_bytes();
        let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
            at += 1;
        }
        assert!(hash > NONE, "a name that means something else");
        Bug(hash)
    }
}

/// True in the copy of the workspace, where the mistakes are.
#[must_use]
pub fn has_bugs() -> bool {
    // What `cargo xtask planted` makes of the version.
    env!("CARGO_PKG_VERSION").ends_with("-planted")
}

/// From now on this mistake is made, or none.
///
/// # Panics
/// If a mistake is chosen where there are none: whoever plants it would prove nothing.
pub fn plant(bug: Option<Bug>) {
    assert!(
        bug.is_none() || has_bugs(),
        "this program has no bugs to choose from; 'cargo xtask planted' builds one that has"
    );
    CURRENT.store(bug.map_or(NONE, |bug| bug.0), Ordering::Relaxed);
    TICKET.store(0, Ordering::Relaxed);
}

/// True if this mistake is to be made. Edits write it as `PLANTED`.
#[must_use]
#[inline]
pub fn is(bug: Bug) -> bool {
    match CURRENT.load(Ordering::Relaxed) {
        OPEN => chosen_outside() == bug.0,
        current => current == bug.0,
    }
}

/// True if this mistake is to be made this time: every sixteenth. Edits write it as `PLANTED_NOW`.
#[must_use]
#[inline]
pub fn is_now(bug: Bug) -> bool {
    is(bug) && TICKET.fetch_add(1, Ordering::Relaxed) % 16 == 15
}

#[cold]
fn chosen_outside() -> u64 {
    let chosen = std::env::var(VARIABLE).map_or(NONE, |name| Bug::named(&name).0);
    // Whoever calls `plant` at the same moment wins.
    let _ = CURRENT.compare_exchange(OPEN, chosen, Ordering::Relaxed, Ordering::Relaxed);
    CURRENT.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ordinary_workspace_makes_no_mistake_and_refuses_to_choose_one() {
        let bug = Bug::named("Any");
        assert_ne!(bug, Bug::named("Other"));
        assert!(!has_bugs());
        plant(None);
        assert!(!is(bug) && !is_now(bug));
        assert!(std::panic::catch_unwind(|| plant(Some(bug))).is_err());
        assert!(!is(bug));
    }
}
