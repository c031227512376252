//! TopAA: the best allocation areas, so that start-up does not scan the active map (E-26,
//! docs/design/design.md §7).
//!
//! One block: a [`crate::indirect::Header`], the number of entries (4 bytes at 16), then 8 bytes
//! each from 24 on: area 4 · free blocks 4. A cache: areas and counts are checked against the map
//! before use.

use crate::bytes::{put, u32_at};
use crate::{BLOCK_SIZE, Block, Damage};

const COUNT_AT: usize = 16;
const ENTRIES_AT: usize = 24;
/// Entries that fit.
pub const TOP_AREAS_MAX: usize = (BLOCK_SIZE - ENTRIES_AT) / 8;

/// The best areas with their free blocks, best first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopAreas(pub Vec<(u32, u32)>);

impl TopAreas {
    /// Writes the entries into a block that already has its header.
    pub fn encode_into(&self, block: &mut Block) {
        let entries = &self.0[..self.0.len().min(TOP_AREAS_MAX)];
        block[COUNT_AT..].fill(0);
        put(
            block,
            COUNT_AT,
            u32::try_from(entries.len()).expect("bounded").to_le_bytes(),
        );
        for (index, (area, free)) in entries.iter().enumerate() {
            put(block, ENTRIES_AT + index * 8, area.to_le_bytes());
            put(block, ENTRIES_AT + index * 8 + 4, free.to_le_bytes());
        }
    }

    /// Reads the entries.
    ///
    /// # Errors
    /// A count that does not fit.
    pub fn decode(block: &Block) -> Result<TopAreas, Damage> {
        let count = u32_at(block, COUNT_AT) as usize;
        if count > TOP_AREAS_MAX {
            return Err(Damage::new(
                "number of top areas",
                format!("at most {TOP_AREAS_MAX}"),
                count,
            ));
        }
        let entry = |index| ENTRIES_AT + index * 8;
        Ok(TopAreas(
            (0..count)
                .map(|i| (u32_at(block, entry(i)), u32_at(block, entry(i) + 4)))
                .collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_areas_survive_the_round_trip() {
        let areas = TopAreas((0..509).map(|i| (i, 32_768 - i)).collect());
        let mut block = [0xff; BLOCK_SIZE];
        areas.encode_into(&mut block);
        assert_eq!(TopAreas::decode(&block), Ok(areas));
    }
}
