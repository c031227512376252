//! Removal of members from a layout (decision 0057).
//!
//! ```text
//! stays ──begin──▶ evacuating ──all of its blocks are free──▶ removed
//!   ▲                  │
//!   └─────cancel───────┘
//! ```
//!
//! 1. All members of a group go together; a member in no group goes alone.
//! 2. A removal is in the layout before it is in a config record, like an expansion: the
//!    consistency point that executes it writes the record.
//! 3. A member that is being evacuated is read and written like any other. Nothing is allocated on
//!    it.
//! 4. A removed member has no device, and its extents are vacant.

use everglade_format::Removal;
use everglade_format::config::INCOMPATIBLE_REMOVAL;

use super::{Layout, Use};
use crate::media::reserve::reserve_for;

impl Layout {
    /// Returns the members that are being evacuated.
    pub(crate) fn evacuating(&self) -> Vec<u32> {
        let members = (0..).zip(&self.config.members);
        let meant = members.filter(|(_, member)| member.seat.is_evacuating());
        meant.map(|(index, _)| index).collect()
    }

    /// Returns the layout in which members are being evacuated, or stay again, for the next record.
    /// Its reserve is computed from the space of the members that stay.
    ///
    /// # Panics
    /// If one of them was removed.
    pub(crate) fn with_evacuating(&self, members: &[u32], is_evacuating: bool) -> Layout {
        let mut next = self.clone();
        for member in members {
            let seat = &mut next.config.members[*member as usize].seat;
            assert!(!seat.is_removed(), "member {member} was removed");
            seat.removal = match is_evacuating {
                true => Removal::Evacuating,
                false => Removal::None,
            };
        }
        let blocks = next.config.staying_areas_blocks();
        next.config.reserve_blocks = reserve_for(blocks, next.config.area_blocks);
        next.with_new_removal()
    }

    /// Returns the layout without members that were evacuated; the next record has that.
    ///
    /// # Panics
    /// If one of them was not.
    pub(crate) fn without_evacuated(&self, members: &[u32]) -> Layout {
        let mut next = self.clone();
        for member in members {
            let index = *member as usize;
            let seat = &mut next.config.members[index].seat;
            assert!(seat.is_evacuating(), "member {member} was not evacuated");
            seat.removal = Removal::Removed;
            (next.devices[index], next.uses[index]) = (None, Use::Out);
        }
        let geometry = next.config.geometry();
        next.geometry = geometry.expect("the extents are those of before");
        next.with_new_removal()
    }

    fn with_new_removal(mut self) -> Layout {
        match self.config.has_removals() {
            true => self.config.incompatible |= INCOMPATIBLE_REMOVAL,
            false => self.config.incompatible &= !INCOMPATIBLE_REMOVAL,
        }
        self.has_new_removal = true;
        self.with_drives()
    }

    /// True if the layout has a removal, or an end of one, that no record has.
    pub(crate) fn has_new_removal(&self) -> bool {
        self.has_new_removal
    }
}
