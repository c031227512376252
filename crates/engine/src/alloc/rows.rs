//! Rows: the data columns of a parity group are filled together (D-12, D-16).
//!
//! An area of a parity group is the same range of stripes on all data columns. A cursor opens it in
//! all columns at once, and takes short chunks from that column whose next chunk lies lowest. So
//! stripes that were free are written whole, as long as the area lasts. The next area is opened
//! when no column has an open one.
//!
//! 1. A column takes part only if its area may be written: its host has given the space, and
//!    another cursor does not have it. The others are filled without it.
//! 2. The column that is asked first chooses the area, by its own score. Columns take turns in
//!    this, so an area that is full in one of them only is found, too.

use everglade_freespace::Standing;

use crate::alloc::blocks::Purpose;
use crate::alloc::filesystem::FileSystem;
use crate::media::host::Host;
use crate::read::load::{LoadCx, Stop};

impl FileSystem {
    /// Returns the extent of a parity group that is filled from next; `None` if no area is open.
    pub(super) fn lowest_in_rows(&self, group: usize, purpose: Purpose) -> Option<usize> {
        let open = self.cursor_of(purpose).open.iter().flatten();
        let of_group = open.filter(|area| self.rows[area.extent] == Some(group));
        let lowest = of_group.min_by_key(|area| (area.next - self.bases[area.extent], area.extent));
        lowest.map(|area| area.extent)
    }

    /// Opens an area in all columns of the parity group that `leader` is a column of. False if the
    /// leader has none.
    pub(super) fn open_rows(
        &mut self,
        cx: &mut LoadCx<'_>,
        host: &mut Host,
        purpose: Purpose,
        leader: usize,
    ) -> Result<bool, Stop> {
        let Some(area) = self.choose_area(None, cx, host, leader)? else {
            return Ok(false);
        };
        let group = self.rows[leader];
        let mut columns = vec![leader];
        for extent in 0..self.rows.len() {
            let is_mate = extent != leader && self.rows[extent] == group;
            if is_mate && self.may_open(cx, host, extent, area)? {
                columns.push(extent);
            }
        }
        for extent in columns {
            self.areas[extent].open(area);
            self.begin_area(purpose, extent, area);
        }
        Ok(true)
    }

    /// True if an area of an extent has free blocks that may be written. Stops if its space has to
    /// be asked for.
    fn may_open(
        &mut self,
        cx: &mut LoadCx<'_>,
        host: &mut Host,
        extent: usize,
        area: u64,
    ) -> Result<bool, Stop> {
        if self.areas[extent].standing(area) == Standing::Unknown {
            let block = self.map_block_of((extent, area));
            self.score_block(None, cx, block, true)?;
        }
        match self.areas[extent].standing(area) {
            Standing::Writable => Ok(true),
            Standing::Unprepared if !host.full || self.areas[extent].empty() == Some(area) => {
                host.wanted.get_or_insert((extent, area));
                Err(Stop::Io)
            }
            Standing::Unprepared | Standing::Unknown | Standing::Withheld => Ok(false),
        }
    }

    /// Returns the extents whose columns are filled together with one, that one included.
    pub(crate) fn columns_with(&self, extent: usize) -> Vec<usize> {
        match self.rows[extent] {
            None => vec![extent],
            group => {
                let all = 0..self.rows.len();
                all.filter(|other| self.rows[*other] == group).collect()
            }
        }
    }
}
