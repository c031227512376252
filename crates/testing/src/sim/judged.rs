//! Recoveries known from earlier ones of the same run.
//!
//! What a system makes of media depends on the blocks it reads ([`Footprint`]). So media whose
//! footprint is known need not be checked, mounted and looked at again; and a view that was
//! compared with what the model says at one moment need not be compared again as long as the model
//! says the same.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::Failure;
use super::judge::View;
use crate::world::{Footprint, Images};

/// Footprints kept: enough for what one run makes of its cuts, few enough to look through.
const KNOWN_MAX: usize = 256;

/// What came of one recovery.
struct Recovery {
    mark: Footprint,
    view: View,
    /// What the model knew when this was found right: operations issued and ended, marks.
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

    /// Judges a recovery from `images` by `compare` if its view is known. `moment` is what the
    /// model knows.
    pub(super) fn judge(
        &self,
        images: &Images,
        moment: [usize; 3],
        compare: impl FnOnce(&View) -> Result<(), Failure>,
    ) -> Option<Result<(), Failure>> {
        let mut recoveries = self.recoveries.borrow_mut();
        let place = recoveries.iter().position(|one| one.mark.fits(images))?;
        recoveries[..=place].rotate_right(1);
        let one = &mut recoveries[0];
        if one.right_at.contains(&moment) {
            return Some(Ok(()));
        }
        let verdict = compare(&one.view);
        if verdict.is_ok() {
            one.right_at.insert(moment);
        }
        Some(verdict)
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
