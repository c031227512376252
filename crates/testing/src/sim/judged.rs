//! Recoveries known from earlier ones of the same run.
//!
//! A system's result on media depends only on the blocks it reads ([`Footprint`]). So media with a
//! known footprint need not be checked, mounted and read again; and a view that was compared with
//! the model at one moment need not be compared again as long as the model is the same.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::Failure;
use super::judge::View;
use crate::system::Geometry;
use crate::world::{Footprint, Images};

/// Footprints kept: enough for the cuts of one run, few enough for a linear search.
const KNOWN_MAX: usize = 256;

/// The result of one recovery.
struct Recovery {
    mark: Footprint,
    view: View,
    /// The model's state when this result was accepted: operations issued and ended, marks.
    right_at: BTreeSet<[usize; 3]>,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Judged {
    checks: RefCell<Vec<Footprint>>,
    recoveries: RefCell<Vec<Recovery>>,
}

impl Judged {
    /// True if media with this footprint were found clean.
    pub(super) fn is_clean(&self, images: &Images) -> bool {
        let mut checks = self.checks.borrow_mut();
        let found = checks.iter().position(|mark| mark.fits(images));
        // The next cut is most like the last one.
        if let Some(place) = found {
            checks[..=place].rotate_right(1);
        }
        found.is_some()
    }

    pub(super) fn note_clean(&self, mark: Footprint) {
        let mut checks = self.checks.borrow_mut();
        checks.insert(0, mark);
        checks.truncate(KNOWN_MAX);
    }

    /// Judges a recovery from `images` by `compare` if its view is known, and returns the pool's
    /// geometry. `moment` is what the model knows.
    pub(super) fn judge(
        &self,
        images: &Images,
        moment: [usize; 3],
        compare: impl FnOnce(&View) -> Result<(), Failure>,
    ) -> Option<Result<Option<Geometry>, Failure>> {
        let mut recoveries = self.recoveries.borrow_mut();
        let place = recoveries.iter().position(|one| one.mark.fits(images))?;
        recoveries[..=place].rotate_right(1);
        let one = &mut recoveries[0];
        if one.right_at.contains(&moment) {
            return Some(Ok(one.view.geometry));
        }
        let verdict = compare(&one.view);
        if verdict.is_ok() {
            one.right_at.insert(moment);
        }
        Some(verdict.map(|()| one.view.geometry))
    }

    /// Remembers a recovery that was found right at `moment`.
    pub(super) fn remember(&self, mark: Footprint, view: View, moment: [usize; 3]) {
        let mut recoveries = self.recoveries.borrow_mut();
        let right_at = BTreeSet::from([moment]);
        recoveries.insert(
            0,
            Recovery {
                mark,
                view,
                right_at,
            },
        );
        recoveries.truncate(KNOWN_MAX);
    }
}
