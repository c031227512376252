//! `everglade snapshot scan`.

use everglade_api::{Scan, SetScan};

use crate::failure::Failure;
use crate::listing::{self, Cell, Column, if_asked};
use crate::output::Output;
use crate::session::Session;
use crate::verb::SnapshotScan;

const COLUMNS: [Column<Scan>; 12] = [
    Column::text("volume", |it| Cell::text(&it.volume)),
    Column::text("scan", |it| Cell::text(&it.kind)),
    Column::percent("done", |it| Cell::Percent(it.percent)),
    Column::seconds("eta", |it| Cell::seconds(it.eta_seconds)),
    Column::text("way", |it| it.way.as_ref().map_or(Cell::None, Cell::text)),
    Column::count("deleted", |it| Cell::Count(it.deleted_count)),
    Column::count("waiting", |it| Cell::Count(it.waiting_count)),
    Column::bytes("pending", |it| Cell::Bytes(it.pending_free_bytes)),
    Column::percent("pace", |it| Cell::Percent(u64::from(it.pace_percent))),
    if_asked(Column::count("subtracted", |it| {
        Cell::Count(it.subtracted_maps)
    })),
    if_asked(Column::count("added", |it| Cell::Count(it.added_maps))),
    if_asked(Column::count("skipped", |it| Cell::Count(it.skipped_maps))),
];

pub(crate) fn run(verb: &SnapshotScan, session: &Session, output: &Output) -> Result<(), Failure> {
    listing::for_one(&COLUMNS, &verb.listing)?;
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
