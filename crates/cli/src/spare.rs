//! `everglade aggregate spare …`.

use std::path::Path;

use everglade_api::{Spare, SpareDrive, Spares};

use crate::failure::Failure;
use crate::listing::{self, Cell, Column};
use crate::output::Output;
use crate::path::absolute;
use crate::session::Session;
use crate::verb::SpareVerb;

const SPARES: [Column<Spare>; 3] = [
    Column::text("device", |it| Cell::text(&it.device)),
    Column::text("kind", |it| match it.kind {
        Some(kind) => Cell::text(kind),
        None => Cell::text("missing"),
    }),
    Column::bytes("size", |it| it.size_bytes.map_or(Cell::None, Cell::Bytes)),
];

pub(crate) fn spare(verb: &SpareVerb, session: &Session, output: &Output) -> Result<(), Failure> {
    match verb {
        SpareVerb::Add(one) => {
            let told = session.post::<Spare>("/v1/spares", &request(&one.device)?)?;
            output.made(&told.raw, || listing::of_one(&told.meant, &SPARES))
        }
        SpareVerb::Show(show) => {
            let told = session.get::<Spares>("/v1/spares")?;
            let items = ("spares", told.meant.spares.as_slice());
            listing::print(&told, items, &SPARES, &show.listing, output)
        }
        SpareVerb::Remove(one) => {
            let request = request(&one.device)?;
            session.post_for_nothing("/v1/spares/actions/remove", &request)?;
            output.done(&format!("{} is no spare drive any more", request.device));
            Ok(())
        }
    }
}

fn request(device: &Path) -> Result<SpareDrive, Failure> {
    Ok(SpareDrive {
        device: absolute(device, "PATH")?,
    })
}
