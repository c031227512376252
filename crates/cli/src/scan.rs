//! `everglade snapshot scan`.

use everglade_api::{Scan, SetScan};

use crate::failure::Failure;
use crate::listing::{self, Cell, Column, if_asked};
use crate::output::Output;
use crate::session::Session;
use crate::verb::SnapshotScan;

const COLUMNS: [Column<Scan>; 12] = [
    Column::left("volume", |it| Cell::text(&it.volume)),
    Column::left("scan", |it| Cell::text(&it.kind)),
    Column::right("done", |it| Cell::Percent(it.percent)),
    Column::right("seconds-left", |it| {
        it.eta_seconds.map_or(Cell::None, Cell::Count)
    }),
    Column::left("way", |it| it.way.as_ref().map_or(Cell::None, Cell::text)),
    Column::right("deleted", |it| Cell::Count(it.deleted_count)),
    Column::right("waiting", |it| Cell::Count(it.waiting_count)),
    Column::right("pending", |it| Cell::Bytes(it.pending_free_bytes)),
    Column::right("pace", |it| Cell::Percent(u64::from(it.pace_percent))),
    if_asked(Column::right("subtracted", |it| {
        Cell::Count(it.subtracted_maps)
    })),
    if_asked(Column::right("added", |it| Cell::Count(it.added_maps))),
    if_asked(Column::right("skipped", |it| Cell::Count(it.skipped_maps))),
];

pub(crate) fn run(verb: &SnapshotScan, session: &Session, output: &Output) -> Result<(), Failure> {
    let path = format!("/v1/volumes/{}/scan", verb.volume);
    let pace = match (verb.pause, verb.resume) {
        (true, _) => Some(0),
        (_, true) => Some(100),
        _ => verb.pace,
    };
    let told = match pace {
        None => session.get::<Scan>(&path)?,
        Some(pace_percent) => session.put::<Scan>(&path, &SetScan { pace_percent })?,
    };
    listing::print_one(&told, &COLUMNS, &verb.listing, output)
}
