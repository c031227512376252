//! The images of a volume, reduced to what their active maps say about holders: the active image
//! and its snapshots.

use everglade_env::PageRef;
use everglade_format::{FileId, Pointer};

use crate::holders::table::Snapshots;
use crate::read::load::{LoadCx, Stop};
use crate::tree::File;

/// See the module's documentation.
#[derive(Clone, Copy)]
pub(crate) struct Images<'a> {
    /// The volume that they are of.
    pub(crate) volume: Option<FileId>,
    pub(crate) snapshots: &'a Snapshots,
    /// The active image's own map.
    pub(crate) active_map: &'a File,
}

impl Images<'_> {
    /// Bits of a block of the active map, as of now.
    pub(crate) fn active_bits(self, cx: &mut LoadCx<'_>, block: u64) -> Result<PageRef, Stop> {
        Ok(self.active_map.leaf(cx, block)?.to_page())
    }

    /// The pointer to a block of the active map in the last committed tree.
    pub(crate) fn map_place(self, cx: &mut LoadCx<'_>, block: u64) -> Result<Pointer, Stop> {
        self.active_map.pointer(cx, 0, block)
    }
}
