//! `everglade qos …`.

use everglade_api::{Limit, Limits, LunName, SetLimit};

use crate::failure::{Failure, exit};
use crate::listing::{self, Cell, Column};
use crate::output::Output;
use crate::session::Session;
use crate::verb::QosVerb;

const LIMITS: [Column<Limit>; 5] = [
    Column::text("lun", |it| Cell::text(&it.lun)),
    Column::count("iops", |it| it.iops.map_or(Cell::None, Cell::Count)),
    Column::<Limit>::bytes("bandwidth", |it| {
        it.bytes_per_second.map_or(Cell::None, Cell::Bytes)
    })
    .called("bytes_per_second"),
    Column::<Limit>::count("held", |it| Cell::Count(it.held_count)).called("held_count"),
    Column::<Limit>::count("held-ms", |it| Cell::Count(it.held_milliseconds))
        .called("held_milliseconds"),
];

pub(crate) fn run(verb: &QosVerb, session: &Session, output: &Output) -> Result<u8, Failure> {
    match verb {
        QosVerb::Set(set) => {
            let request = SetLimit {
                iops: set.iops,
                bytes_per_second: set.bandwidth.map(|bandwidth| bandwidth.0),
            };
            let told = session.post::<Limit>(&path(&set.name), &request)?;
            output.made(&told.raw, || listing::of_one(&told.meant, &LIMITS))?;
        }
        QosVerb::Clear(of) => {
            session.post::<Limit>(&path(&of.name), &SetLimit::default())?;
            output.done(&format!("LUN {} has no limit", of.name));
        }
        QosVerb::Show(show) => {
            let told = session.get::<Limits>("/v1/limits")?;
            let items = ("limits", told.meant.limits.as_slice());
            listing::print(&told, items, &LIMITS, &show.listing, output)?;
        }
    }
    Ok(exit::OK)
}

fn path(name: &LunName) -> String {
    format!(
        "/v1/volumes/{}/luns/{}/actions/limit",
        name.volume, name.lun
    )
}
