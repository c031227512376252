//! `everglade df`: where the space is, as of the last consistency point.

use everglade_api::{Aggregate, Aggregates, Volume, Volumes};

use crate::failure::{Failure, exit};
use crate::listing::{self, Cell, Column, if_asked};
use crate::output::Output;
use crate::session::Session;
use crate::verb::Df;

const COLUMNS: [Column<Aggregate>; 14] = [
    Column::text("aggregate", |it| Cell::text(&it.name)),
    Column::bytes("size", |it| Cell::Bytes(it.size_bytes)),
    Column::bytes("used", |it| Cell::Bytes(it.used_bytes)),
    Column::bytes("free", |it| Cell::Bytes(it.free_bytes)),
    Column::percent("use%", |it| {
        Cell::Percent(percent(it.used_bytes, it.free_bytes))
    }),
    Column::bytes("logical", |it| Cell::Bytes(it.logical_bytes)),
    Column::bytes("shared", |it| Cell::Bytes(it.shared_bytes)),
    Column::bytes("reserve", |it| Cell::Bytes(it.reserve_bytes)),
    Column::bytes("pending", |it| Cell::Bytes(it.pending_free_bytes)),
    if_asked(Column::bytes("snap-own", |it| {
        Cell::Bytes(it.snapshot_exclusive_bytes)
    })),
    if_asked(Column::bytes("trash", |it| Cell::Bytes(it.trash_bytes))),
    Column::bytes("from-host", |it| Cell::Bytes(it.host_backed_bytes)),
    Column::bytes("host-free", |it| Cell::bytes(it.host_free_bytes)),
    if_asked(Column::words("state", "AggregateState", |it| {
        Cell::text(it.state)
    })),
];

const VOLUMES: [Column<Volume>; 9] = [
    Column::text("volume", |it| Cell::text(&it.name)),
    Column::text("aggregate", |it| Cell::text(&it.aggregate)),
    Column::bytes("logical", |it| Cell::Bytes(it.logical_bytes)),
    Column::bytes("active", |it| Cell::Bytes(it.used_bytes)),
    Column::bytes("allocated", |it| Cell::Bytes(it.allocated_bytes)),
    Column::count("snapshots", |it| Cell::Count(it.snapshot_count)),
    Column::bytes("snap-own", |it| Cell::Bytes(it.snapshot_exclusive_bytes)),
    Column::bytes("pending", |it| Cell::Bytes(it.pending_free_bytes)),
    if_asked(Column::text("clone-of", |it| {
        it.clone_of.as_ref().map_or(Cell::None, Cell::text)
    })),
];

pub(crate) fn run(df: &Df, session: &Session, output: &Output) -> Result<u8, Failure> {
    if df.volumes {
        let told = session.get::<Volumes>("/v1/volumes")?;
        let items = ("volumes", told.meant.volumes.as_slice());
        listing::print(&told, items, &VOLUMES, &df.listing, output)?;
        return Ok(exit::OK);
    }
    let told = session.get::<Aggregates>("/v1/aggregates")?;
    let items = ("aggregates", told.meant.aggregates.as_slice());
    listing::print(&told, items, &COLUMNS, &df.listing, output)?;
    Ok(exit::OK)
}

/// Returns the used share of the usable space in percent, rounded up, so that 0 % means unused.
fn percent(used: u64, free: u64) -> u64 {
    let all = u128::from(used) + u128::from(free);
    let percent = (u128::from(used) * 100).div_ceil(all.max(1));
    u64::try_from(percent).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_have_no_accidents() {
        for (used, free, expected) in [
            (0, 0, 0),
            (0, 5, 0),
            (1, 999, 1),
            (5, 0, 100),
            (u64::MAX, u64::MAX, 50),
        ] {
            assert_eq!(percent(used, free), expected);
        }
    }
}
