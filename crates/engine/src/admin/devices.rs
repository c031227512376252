//! Changes of an aggregate's devices, executed in the freeze (decisions 0040 and 0044).
//!
//! A growth: the config records of the next epoch are on all devices already
//! ([`crate::mount::growth`]). From the freeze on, blocks have their places by the next layout, and
//! the superblock of this consistency point names the next epoch. So the change is durable with the
//! commit, or it never was.
//!
//! An aggregate of groups is expanded: new drives have empty labels already
//! ([`crate::mount::expansion`]). This consistency point writes the record with the new members and
//! extents to all drives, as it writes those of losses, and its superblock names the epoch of that
//! record. Blocks may be written to the new extents before. Without the superblock nothing refers
//! to them.
//!
//! A drive is taken out: from the freeze on it is lost, and this consistency point records that as
//! it records any loss.
//!
//! A drive gets a seat: the label of the new drive is on it ([`crate::mount::replacement`]). This
//! consistency point writes the record that names it, as it writes those of losses, and its
//! superblock names the epoch of that record.

use everglade_env::DeviceId;
use everglade_freespace::Areas;

use crate::change::Error;
use crate::home::aggregate::Home;
use crate::media::Layout;
use crate::media::layout::expansion::Expansion;
use crate::media::next::{Kind, NextGeometry};

/// Makes a change that was prepared.
pub(crate) fn change(home: &mut Home, next: &NextGeometry) -> Result<(), Error> {
    match next.kind() {
        Kind::Grown(next) => grow(home, next),
        Kind::Expanded(expansion) => expand(home, expansion),
        Kind::Replaced(successor, epoch) => match home.aggregate.media.put_in(successor, *epoch) {
            true => Ok(()),
            false => Err(changed()),
        },
    }
}

/// Appends the extents that the next layout adds.
fn grow(home: &mut Home, next: &std::sync::Arc<Layout>) -> Result<(), Error> {
    let present = home.aggregate.media.layout();
    if !next.follows(&present) {
        return Err(changed());
    }
    home.aggregate.media.set_layout(next.clone());
    append(home, next, present.config.extents.len());
    Ok(())
}

/// Appends the extents that an expansion adds.
fn expand(home: &mut Home, expansion: &Expansion) -> Result<(), Error> {
    let next = home.aggregate.media.expand(expansion).ok_or_else(changed)?;
    append(home, &next, expansion.former_extents);
    Ok(())
}

/// Makes the extents of a layout from the `former` ones on usable.
fn append(home: &mut Home, next: &Layout, former: usize) {
    let area_blocks = home.fs.area_blocks;
    let rows = next.rows_of_extents();
    for (extent, rows) in next.config.extents.iter().zip(rows).skip(former) {
        let areas = Areas::new(extent.length / area_blocks, area_blocks, 0);
        home.fs.add_extent(extent.base, areas, rows);
    }
    let (blocks, reserve) = (next.config.staying_blocks(), next.config.reserve_blocks);
    home.aggregate.space.grow(blocks, reserve);
}

/// Takes a drive out of its mirror.
pub(crate) fn take_out(home: &mut Home, device: DeviceId) -> Result<(), Error> {
    let media = &home.aggregate.media;
    if !media.layout().has_device(device) {
        return Err(Error::NotFound("drive of this aggregate".to_owned()));
    }
    match media.take_out(device) {
        true => Ok(()),
        false => Err(Error::Busy(
            "no other drive of the mirror has everything; wait until one has caught up, or bring \
             one back"
                .to_owned(),
        )),
    }
}

fn changed() -> Error {
    let problem = "the devices of the aggregate were changed meanwhile; ask again";
    Error::Busy(problem.to_owned())
}
