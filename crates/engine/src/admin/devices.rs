//! Changes of an aggregate's devices, executed in the freeze (decision 0040).
//!
//! The config records of the next epoch are on all devices already ([`crate::mount::growth`]). From
//! the freeze on, blocks have their places by the next layout, and the superblock of this
//! consistency point names the next epoch. So the change is durable with the commit, or it never
//! was.

use everglade_freespace::Areas;

use crate::change::Error;
use crate::home::aggregate::Home;
use crate::media::next::NextGeometry;

/// Appends the extents that the next layout adds.
pub(crate) fn grow(home: &mut Home, next: &NextGeometry) -> Result<(), Error> {
    let (next, present) = (next.layout(), home.aggregate.media.layout());
    if !next.follows(&present) {
        let problem = "the devices of the aggregate were changed meanwhile; ask again";
        return Err(Error::Busy(problem.to_owned()));
    }
    let area_blocks = home.fs.area_blocks;
    for extent in &next.config.extents[present.config.extents.len()..] {
        let areas = Areas::new(extent.length / area_blocks, area_blocks, 0);
        home.fs.add_extent(extent.base, areas);
    }
    let (blocks, reserve) = (next.geometry.block_count(), next.config.reserve_blocks);
    home.aggregate.space.grow(blocks, reserve);
    home.aggregate.media.set_layout(next.clone());
    Ok(())
}
