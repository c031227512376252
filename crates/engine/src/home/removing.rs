//! A removal under way: which members leave, and how far their blocks have moved (decision 0057).
//!
//! ```text
//! survey: which areas have blocks in use ─▶ evacuate them, in passes ─▶ empty ─▶ removed
//! ```
//!
//! 1. Extents of members that leave are shut ([`everglade_freespace::Areas::shut`]), so blocks in
//!    use only become fewer there. An area that was found empty stays empty.
//! 2. Blocks of the aggregate's own files leave their places at the end of a consistency point. So
//!    there are several passes.
//! 3. A pass that could move nothing is followed by another one after a while: what cannot be moved
//!    may be deleted.
//! 4. The config record says which members are being evacuated. Everything else is in memory, so
//!    the survey begins again after a restart.

use std::collections::BTreeMap;
use std::ops::Bound;

use everglade_env::Nanos;
use everglade_format::CpNumber;

use crate::media::Layout;
use crate::pool::removal::RemovalInfo;

/// An area: extent, and index in it.
pub(crate) type Column = (usize, u64);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Removing {
    /// Extents of the members that leave.
    pub(crate) extents: Vec<usize>,
    /// The next area to survey; `None` when all were.
    pub(crate) survey: Option<Column>,
    /// Areas with blocks in use, and their number when the area was looked at last.
    pub(crate) pending: BTreeMap<Column, u64>,
    /// The area that is evacuated, and its next block.
    pub(crate) at: Option<(Column, u64)>,
    /// Blocks that the pass under way has moved.
    pub(crate) moved: u64,
    /// Blocks that it could not move.
    pub(crate) left: u64,
    /// The last consistency point that moved something.
    pub(crate) moved_in: Option<CpNumber>,
    /// The consistency point that found no block in use on the members.
    pub(crate) empty_in: Option<CpNumber>,
    /// Nothing is tried before.
    pub(crate) rests_until: Nanos,
    pub(crate) info: RemovalInfo,
}

impl Removing {
    /// Begins; `None` if the layout has no members that are being evacuated.
    pub(crate) fn begin(layout: &Layout, seconds: u64) -> Option<Removing> {
        let members = layout.evacuating();
        if members.is_empty() {
            return None;
        }
        let extents = layout.config.extents.iter().enumerate();
        let own = extents.filter(|(_, extent)| members.contains(&extent.member));
        let extents: Vec<usize> = own.map(|(index, _)| index).collect();
        Some(Removing {
            survey: extents.first().map(|extent| (*extent, 0)),
            info: RemovalInfo {
                begun_seconds: seconds,
                ..RemovalInfo::default()
            },
            extents,
            pending: BTreeMap::new(),
            at: None,
            moved: 0,
            left: 0,
            moved_in: None,
            empty_in: None,
            rests_until: 0,
        })
    }

    /// The area that follows one of the areas to survey, of extents with so many areas in use.
    pub(crate) fn after(&self, (extent, area): Column, areas: u64) -> Option<Column> {
        if area + 1 < areas {
            return Some((extent, area + 1));
        }
        let next = self.extents.iter().find(|other| **other > extent)?;
        Some((*next, 0))
    }

    /// An area was looked at: so many of its blocks are in use.
    pub(crate) fn note(&mut self, column: Column, used: u64) {
        let before = match used {
            0 => self.pending.remove(&column),
            used => self.pending.insert(column, used),
        };
        self.info.left_blocks = self.info.left_blocks + used - before.unwrap_or(0);
    }

    /// The first area to evacuate after `column`, or of all.
    pub(crate) fn next_pending(&self, column: Option<Column>) -> Option<Column> {
        let from = column.map_or(Bound::Unbounded, Bound::Excluded);
        let mut pending = self.pending.range((from, Bound::Unbounded));
        pending.next().map(|(column, _)| *column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::layout::tests::two_devices;

    #[test]
    fn areas_are_evacuated_in_order_until_none_is_in_use() {
        let layout = two_devices();
        assert!(Removing::begin(&layout, 7).is_none());
        let leaving = layout.with_evacuating(&[1], true);
        let mut removing = Removing::begin(&leaving, 7).expect("a member leaves");
        assert_eq!(removing.survey, Some((1, 0)));
        assert_eq!(removing.after((1, 0), 2), Some((1, 1)));
        assert_eq!(removing.after((1, 1), 2), None);
        removing.note((1, 0), 30);
        removing.note((1, 1), 12);
        assert_eq!(removing.info.left_blocks, 42);
        assert_eq!(removing.next_pending(None), Some((1, 0)));
        assert_eq!(removing.next_pending(Some((1, 0))), Some((1, 1)));
        assert_eq!(removing.next_pending(Some((1, 1))), None);
        removing.note((1, 0), 0);
        assert_eq!(removing.next_pending(None), Some((1, 1)));
    }
}
