//! `everglade event …` and `everglade history`.

use everglade_api::{Change, Event, Events, History};

use crate::failure::{Failure, exit};
use crate::listing::{self, Cell, Column, if_asked};
use crate::output::Output;
use crate::session::Session;
use crate::verb::{EventVerb, HistoryShow};

const EVENTS: [Column<Event>; 7] = [
    if_asked(Column::count("number", |event| Cell::Count(event.number))),
    Column::time("time", |event| Cell::text(&event.time)),
    Column::words("severity", "Severity", |event| Cell::text(event.severity)),
    Column::words("kind", "EventKind", |event| Cell::text(event.kind)),
    Column::text("code", |event| {
        event.code.as_ref().map_or(Cell::None, Cell::text)
    }),
    Column::text("object", |event| Cell::text(&event.object)),
    Column::text("text", |event| Cell::text(&event.text)),
];

const CHANGES: [Column<Change>; 6] = [
    if_asked(Column::count("number", |change| Cell::Count(change.number))),
    Column::time("time", |change| Cell::text(&change.time)),
    Column::text("who", |change| Cell::text(&change.who)),
    Column::text("what", |change| Cell::text(&change.what)),
    Column::text("object", |change| Cell::text(&change.object)),
    Column::text("detail", |change| Cell::text(&change.detail)),
];

pub(crate) fn run(verb: &EventVerb, session: &Session, output: &Output) -> Result<u8, Failure> {
    let EventVerb::Show(show) = verb;
    if show.follow {
        session.follow("/v1/events", |event: &Event, raw| {
            output.stream(raw, || line(event))
        })?;
        return Ok(exit::OK);
    }
    let told = session.get::<Events>("/v1/events")?;
    let items = ("events", told.meant.events.as_slice());
    listing::print(&told, items, &EVENTS, &show.listing, output)?;
    Ok(exit::OK)
}

pub(crate) fn run_history(
    show: &HistoryShow,
    session: &Session,
    output: &Output,
) -> Result<u8, Failure> {
    let told = session.get::<History>("/v1/history")?;
    let items = ("changes", told.meant.changes.as_slice());
    listing::print(&told, items, &CHANGES, &show.listing, output)?;
    Ok(exit::OK)
}

/// Returns one line about an event of a stream, which has no columns to align with.
fn line(event: &Event) -> String {
    let code = event.code.as_deref().unwrap_or("-");
    let text = format!(
        "{} {} {} {code} {}: {}",
        event.time, event.severity, event.kind, event.object, event.text
    );
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(clean).collect()
}
