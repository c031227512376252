//! Areas that are lent to the gardener ([`crate::home::gardener`]), which empties them (O-14).
//!
//! A lent area is open for the sets of areas ([`everglade_freespace::Areas`]), so no cursor finds
//! it. When nothing else is left to allocate from, a cursor takes a lent area over: what is free in
//! it counts as free in all accounts of space, so it must be found.

use everglade_format::BITS_PER_BLOCK;
use everglade_format::metafile::ACTIVE_MAP;
use everglade_freespace::Standing;

use crate::alloc::blocks::Purpose;
use crate::alloc::filesystem::FileSystem;
use crate::read::load::{LoadCx, Stop};
use crate::tree::file::Leaf;

impl FileSystem {
    /// True for an extent that is filled by itself, and for the first column of a parity group.
    pub(crate) fn is_leader(&self, extent: usize) -> bool {
        self.rows[extent].is_none_or(|first| first == extent)
    }

    /// Areas below the frontier of an extent and of those that are filled together with it.
    pub(crate) fn areas_in_use_of(&self, extent: usize) -> u64 {
        let columns = self.columns_with(extent).into_iter();
        let frontiers = columns.map(|column| self.areas[column].frontier());
        frontiers.max().unwrap_or(0)
    }

    /// For each extent that leads, how many areas a pass over all of them looks at; 0 for the
    /// others.
    pub(crate) fn areas_to_pass(&self) -> Vec<u64> {
        let end = |extent| match self.is_leader(extent) {
            true => self.areas_in_use_of(extent),
            false => 0,
        };
        (0..self.areas.len()).map(end).collect()
    }

    /// The areas that are filled together with an area of an extent and that could be lent; none if
    /// a cursor has one of them.
    pub(crate) fn lendable(&self, extent: usize, area: u64) -> Vec<(usize, u64)> {
        let mut columns = self.columns_of(extent, area);
        let is_open = |(column, area): &(usize, u64)| self.areas[*column].is_open(*area);
        if columns.iter().any(is_open) {
            return Vec::new();
        }
        columns.retain(|(column, area)| self.areas[*column].standing(*area) != Standing::Withheld);
        columns
    }

    /// The areas that are filled together with an area of an extent, and are below the frontiers of
    /// their extents.
    pub(crate) fn columns_of(&self, extent: usize, area: u64) -> Vec<(usize, u64)> {
        let columns = self.columns_with(extent).into_iter();
        let there = columns.filter(|column| area < self.areas[*column].frontier());
        there.map(|column| (column, area)).collect()
    }

    /// The first number of an area.
    pub(crate) fn first_of(&self, (extent, area): (usize, u64)) -> u64 {
        self.bases[extent] + area * self.area_blocks
    }

    /// The block of the active map that describes an area.
    pub(crate) fn map_block_of(&self, column: (usize, u64)) -> u64 {
        self.first_of(column) / BITS_PER_BLOCK
    }

    /// The bits of an area in the active map, with the first of them; `None` if the map does not
    /// reach there, because nothing of the area was ever used.
    pub(crate) fn bits_of(
        &self,
        cx: &mut LoadCx<'_>,
        column: (usize, u64),
    ) -> Result<Option<(Leaf<'_>, u64)>, Stop> {
        let map = &self.files[&ACTIVE_MAP];
        let block = self.map_block_of(column);
        if block >= map.inode.block_count() {
            return Ok(None);
        }
        let leaf = map.leaf(cx, block)?;
        Ok(Some((leaf, self.first_of(column) % BITS_PER_BLOCK)))
    }

    /// Lends areas: no cursor opens them.
    pub(crate) fn lend(&mut self, columns: &[(usize, u64)]) {
        for (extent, area) in columns {
            self.areas[*extent].open(*area);
            self.lent.insert((*extent, *area));
        }
    }

    /// Takes a lent area back, if no cursor has taken it over. It is scored when its map block is
    /// sealed, so that must be a changed block.
    pub(crate) fn close_lent(&mut self, (extent, area): (usize, u64)) {
        if self.lent.remove(&(extent, area)) {
            self.areas[extent].close(area);
        }
    }

    /// Ends all allocation in an extent. To be called between consistency points, when no cursor
    /// has numbers in stock.
    pub(crate) fn shut(&mut self, extent: usize) {
        self.leave(extent);
        let lent = self.lent.iter().copied();
        let own: Vec<_> = lent.filter(|(other, _)| *other == extent).collect();
        for column in own {
            self.close_lent(column);
        }
        self.areas[extent].shut();
    }

    /// Cursors leave the areas of an extent that they have open. No cursor may have numbers in
    /// stock.
    pub(crate) fn leave(&mut self, extent: usize) {
        for cursor in [&mut self.data, &mut self.meta] {
            assert!(cursor.stock.is_empty(), "a cursor has numbers in stock");
            if let Some(open) = cursor.open[extent].take() {
                self.areas[extent].close(open.area);
            }
        }
    }

    /// Takes a lent area over for a cursor, because there is no other. True if there was one.
    pub(super) fn take_lent(&mut self, purpose: Purpose) -> bool {
        let mut lent = self.lent.iter().copied();
        let fits = |extent: usize| self.cursor_of(purpose).open[extent].is_none();
        let Some((extent, area)) = lent.find(|(extent, _)| fits(*extent)) else {
            return false;
        };
        self.lent.remove(&(extent, area));
        self.begin_area(purpose, extent, area);
        true
    }
}

#[cfg(test)]
mod tests {
    use everglade_format::Layer;

    use super::*;
    use crate::alloc::fixture::{end_cp, file_system, full_host, load};
    use crate::read::load::Stop;

    fn take(fs: &mut FileSystem, count: usize) -> Result<Vec<u64>, Stop> {
        let purpose = Purpose::Data;
        load(|cx| fs.ensure(None, cx, &mut full_host(), purpose, count))?;
        Ok((0..count).map(|_| fs.take(purpose)).collect())
    }

    #[test]
    fn a_lent_area_is_filled_only_when_nothing_else_is_left() {
        let mut fs = file_system(Layer::Aggregate, 512, &[(0, 4)]);
        let areas = [(0, 1), (0, 2)];
        fs.lend(&areas);
        let first = take(&mut fs, 1023).expect("two areas are left");
        assert!(first.iter().all(|number| !(512..1536).contains(number)));
        let more = take(&mut fs, 600).expect("it is free");
        assert!(more.iter().all(|number| (512..1536).contains(number)));
        assert!(fs.lent.is_empty(), "both were taken over: {:?}", fs.lent);
    }

    #[test]
    fn an_area_that_went_back_is_filled_like_any_other() {
        let mut fs = file_system(Layer::Aggregate, 512, &[(0, 2)]);
        // Only areas below the frontier are lent.
        let taken = take(&mut fs, 600).expect("there is space");
        end_cp(&mut fs);
        assert_eq!(fs.areas_in_use_of(0), 2);
        for number in taken.iter().take(300) {
            load(|cx| fs.prepare_free(cx, *number)).expect("it is in use");
            fs.free(*number);
        }
        assert_eq!(fs.lendable(0, 1), [], "a cursor has it");
        let lendable = fs.lendable(0, 0);
        fs.lend(&lendable);
        assert_eq!(fs.lendable(0, 0), [], "it is lent");
        for column in lendable {
            fs.close_lent(column);
        }
        end_cp(&mut fs);
        let again = take(&mut fs, 700).expect("as much is free");
        assert!(again.iter().any(|number| *number < 512));
    }

    #[test]
    fn columns_of_a_parity_group_are_lent_together() {
        let mut fs = file_system(Layer::Aggregate, 512, &[(0, 2), (1024, 2), (2048, 2)]);
        fs.rows = vec![None, Some(1), Some(1)];
        assert_eq!(
            [0, 1, 2].map(|extent| fs.is_leader(extent)),
            [true, true, false]
        );
        take(&mut fs, 2400).expect("there is space");
        fs.put_back();
        assert_eq!(fs.areas_in_use_of(1), fs.areas_in_use_of(2));
        let together = fs.lendable(1, 0);
        assert_eq!(together.iter().map(|it| it.0).collect::<Vec<_>>(), [1, 2]);
        fs.lend(&together);
        assert!(fs.areas[1].is_open(0) && fs.areas[2].is_open(0));
    }
}
