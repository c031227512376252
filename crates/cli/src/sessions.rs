//! `everglade session …`: who uses which LUN.

use everglade_api::{Session as Known, Sessions};
use serde_json::json;

use crate::failure::{Failure, exit};
use crate::listing::{self, Cell, Column, if_asked};
use crate::output::Output;
use crate::session::Session;
use crate::verb::SessionVerb;

const COLUMNS: [Column<Known>; 11] = [
    Column::text("lun", |it| Cell::text(&it.lun)),
    Column::text("protocol", |it| Cell::text(&it.protocol)),
    Column::text("client", |it| Cell::text(&it.client)),
    Column::text("host", |it| it.host.as_ref().map_or(Cell::None, Cell::text)),
    Column::seconds("age", |it| Cell::Seconds(it.age_seconds)),
    Column::seconds("idle", |it| Cell::Seconds(it.idle_seconds)),
    if_asked(Column::count("operations", |it| {
        Cell::Count(it.operation_count)
    })),
    Column::bytes("read", |it| Cell::Bytes(it.read_bytes)),
    Column::bytes("written", |it| Cell::Bytes(it.written_bytes)),
    if_asked(Column::bytes("sent", |it| Cell::Bytes(it.sent_bytes))),
    if_asked(Column::text("reactor", |it| Cell::text(it.reactor))),
];

pub(crate) fn run(verb: &SessionVerb, session: &Session, output: &Output) -> Result<u8, Failure> {
    let SessionVerb::Show(show) = verb;
    let mut told = session.get::<Sessions>("/v1/sessions")?;
    if let Some(name) = &show.object {
        let is_of = |lun: &str| {
            let rest = lun.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '@']))
        };
        told.meant.sessions.retain(|it| is_of(&it.lun));
        told.raw = listing::versioned(json!({ "sessions": &told.meant.sessions }));
    }
    let items = ("sessions", told.meant.sessions.as_slice());
    listing::print(&told, items, &COLUMNS, &show.listing, output)?;
    Ok(exit::OK)
}
