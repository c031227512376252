//! A layout that is about to become the present one.
//!
//! An aggregate changes its devices one change at a time. Who prepares a change holds the *turn* of
//! the aggregate until the change is done or given up.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::media::layout::expansion::Expansion;
use crate::media::layout::{Layout, Successor};

/// The right to change the devices of an aggregate; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Arc<AtomicBool>);

impl Turn {
    /// Takes the turn that `taken` stands for; `None` if somebody has it.
    pub(crate) fn take(taken: &Arc<AtomicBool>) -> Option<Turn> {
        let was_taken = taken.swap(true, Ordering::AcqRel);
        (!was_taken).then(|| Turn(taken.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The devices of an aggregate after a change that is prepared: config records are on all devices,
/// or new drives have labels. The change takes effect with the consistency point that executes it
/// (decision 0040). As long as a copy of this value exists, no other change of devices can begin.
#[derive(Clone)]
pub struct NextGeometry(Arc<Prepared>);

struct Prepared {
    kind: Kind,
    _turn: Turn,
}

/// What changes.
pub(crate) enum Kind {
    /// There are more extents.
    Grown(Arc<Layout>),
    /// An aggregate of groups gets members or extents.
    Expanded(Expansion),
    /// A drive gets the seat of another one, in a record of this epoch.
    Replaced(Successor, u64),
}

impl NextGeometry {
    pub(crate) fn new(kind: Kind, turn: Turn) -> NextGeometry {
        NextGeometry(Arc::new(Prepared { kind, _turn: turn }))
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.0.kind
    }
}

impl PartialEq for NextGeometry {
    fn eq(&self, other: &NextGeometry) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for NextGeometry {}

impl fmt::Debug for NextGeometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Kind::Grown(layout) => write!(f, "NextGeometry({:?})", layout.config),
            Kind::Expanded(expansion) => write!(f, "NextGeometry({expansion:?})"),
            Kind::Replaced(successor, epoch) => {
                write!(f, "NextGeometry({successor:?} in epoch {epoch})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::layout::tests::three_devices;

    #[test]
    fn a_turn_ends_with_the_last_copy_of_what_was_prepared() {
        let taken = Arc::new(AtomicBool::new(false));
        let turn = Turn::take(&taken).expect("free");
        assert!(Turn::take(&taken).is_none());
        let next = NextGeometry::new(Kind::Grown(Arc::new(three_devices())), turn);
        let copy = next.clone();
        assert_eq!(next, copy);
        drop(next);
        assert!(Turn::take(&taken).is_none(), "a copy is left");
        drop(copy);
        assert!(Turn::take(&taken).is_some());
    }
}
