//! The places of blocks: pvbn space as a table of extents, cut into allocation areas
//! (docs/design/design.md §4, D-12).
//!
//! 1. Extents do not overlap, start and end at area boundaries, and are only ever appended.
//! 2. Every pvbn that may be allocated lies in exactly one extent; pvbn 0 is never allocated.
//! 3. An extent of a member that was removed is *vacant*: its numbers have no place, and nothing
//!    has them. It stays in the table, so that no extent is renumbered.

use crate::number::NUMBER_END;
use crate::{BITS_PER_BLOCK, Damage, Dbn, Extent, Pvbn};

/// Blocks in an allocation area unless an aggregate says otherwise: 128 MiB, one block of the
/// active map, so that an area's score is the count of clear bits of that block.
pub const AREA_BLOCKS: u64 = BITS_PER_BLOCK;
/// Smallest area of an aggregate, in blocks (small areas serve tests with tiny devices).
pub const AREA_BLOCKS_MIN: u64 = 256;

/// The checked extent table of an aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    area_blocks: u64,
    extents: Vec<Extent>,
    /// True for each extent that has no blocks any more.
    vacant: Vec<bool>,
}

/// A run of blocks on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRun {
    /// Index in the member table.
    pub member: u32,
    /// Block on the member.
    pub dbn: Dbn,
    /// Blocks from here to the end of the extent.
    pub run: u64,
}

impl Geometry {
    /// Checks an extent table.
    ///
    /// # Errors
    /// Extents that overlap, are out of order, or do not fit areas.
    pub fn new(area_blocks: u64, extents: Vec<Extent>) -> Result<Self, Damage> {
        if !area_blocks.is_power_of_two() || !(AREA_BLOCKS_MIN..=AREA_BLOCKS).contains(&area_blocks)
        {
            return Err(Damage::new(
                "area size",
                "a power of two, 256 to 32,768 blocks",
                area_blocks,
            ));
        }
        let mut end = 0;
        for extent in &extents {
            let aligned = extent.base.is_multiple_of(area_blocks)
                && extent.length.is_multiple_of(area_blocks);
            if !aligned || extent.length == 0 || extent.base < end {
                return Err(Damage::new(
                    "extent",
                    format!("whole areas of {area_blocks} blocks from {end} on"),
                    format!("{} + {}", extent.base, extent.length),
                ));
            }
            end = match extent.base.checked_add(extent.length) {
                Some(end) if end < NUMBER_END => end,
                _ => return Err(Damage::new("extent", "an end below 2^40 - 16", extent.base)),
            };
        }
        Ok(Geometry {
            area_blocks,
            vacant: vec![false; extents.len()],
            extents,
        })
    }

    /// Returns the table with the extents vacant that are meant.
    #[must_use]
    pub fn with_vacant(mut self, is_meant: impl Fn(&Extent) -> bool) -> Geometry {
        self.vacant = self.extents.iter().map(is_meant).collect();
        self
    }

    /// True if an extent has no blocks any more.
    ///
    /// # Panics
    /// If there is no extent of this index.
    #[must_use]
    pub fn is_vacant(&self, extent: usize) -> bool {
        self.vacant[extent]
    }

    /// Blocks in an allocation area.
    #[must_use]
    pub fn area_blocks(&self) -> u64 {
        self.area_blocks
    }

    /// The extents, ascending; vacant ones included.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Returns the largest pvbn plus 1.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.extents
            .last()
            .map_or(0, |extent| extent.base + extent.length)
    }

    /// Blocks that may be allocated.
    #[must_use]
    pub fn block_count(&self) -> u64 {
        let extents = self.extents.iter().zip(&self.vacant);
        let there = extents.filter(|(_, is_vacant)| !**is_vacant);
        let blocks = there.map(|(extent, _)| extent.length - u64::from(extent.base == 0));
        blocks.sum()
    }

    /// The extent that holds `pvbn`; `None` for a vacant one.
    #[must_use]
    pub fn extent_of(&self, pvbn: Pvbn) -> Option<usize> {
        let index = self
            .extents
            .partition_point(|extent| extent.base <= pvbn.0)
            .checked_sub(1)?;
        let extent = &self.extents[index];
        let is_there = pvbn.0 != 0 && pvbn.0 < extent.base + extent.length;
        (is_there && !self.vacant[index]).then_some(index)
    }

    /// Returns the place of a block; `None` if the pvbn is outside this aggregate.
    #[must_use]
    pub fn locate(&self, pvbn: Pvbn) -> Option<MemberRun> {
        let extent = &self.extents[self.extent_of(pvbn)?];
        let offset = pvbn.0 - extent.base;
        Some(MemberRun {
            member: extent.member,
            dbn: Dbn(extent.first_dbn.0 + offset),
            run: extent.length - offset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(base: u64, length: u64, member: u32) -> Extent {
        Extent {
            base,
            length,
            group: 0,
            column: member,
            member,
            first_dbn: Dbn(512),
        }
    }

    #[test]
    fn blocks_are_found_in_their_extent_and_nowhere_else() {
        let geometry =
            Geometry::new(256, vec![extent(0, 512, 0), extent(1024, 256, 1)]).expect("valid");
        assert_eq!(geometry.locate(Pvbn(0)), None);
        let place = geometry.locate(Pvbn(1)).expect("first block");
        assert_eq!((place.member, place.dbn, place.run), (0, Dbn(513), 511));
        assert_eq!(geometry.locate(Pvbn(512)), None, "between extents");
        assert_eq!(
            geometry.locate(Pvbn(1279)).map(|p| (p.member, p.run)),
            Some((1, 1))
        );
        assert_eq!(geometry.locate(Pvbn(1280)), None);
        assert_eq!(geometry.block_count(), 767);
    }

    #[test]
    fn blocks_of_a_vacant_extent_have_no_place() {
        let extents = vec![extent(0, 512, 0), extent(512, 256, 1), extent(768, 256, 2)];
        let geometry = Geometry::new(256, extents).expect("valid");
        let geometry = geometry.with_vacant(|extent| extent.member == 1);
        let members = [511, 512, 767, 768].map(|pvbn| geometry.locate(Pvbn(pvbn)));
        let members = members.map(|place| place.map(|place| place.member));
        assert_eq!(members, [Some(0), None, None, Some(2)]);
        assert_eq!((geometry.block_count(), geometry.end()), (767, 1024));
        let first = geometry.with_vacant(|extent| extent.member == 0);
        assert_eq!(first.block_count(), 512);
    }

    #[test]
    fn overlapping_extents_are_refused() {
        assert!(Geometry::new(256, vec![extent(0, 512, 0), extent(256, 256, 1)]).is_err());
        assert!(Geometry::new(256, vec![extent(0, 100, 0)]).is_err());
        assert!(Geometry::new(100, vec![]).is_err());
        assert!(Geometry::new(256, vec![extent(u64::MAX - 255, 256, 0)]).is_err());
    }
}
