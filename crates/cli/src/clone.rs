//! `everglade clone …`: volumes that began as snapshots of others.

use everglade_api::{CreateVolume, PutVolume, SCHEMA_VERSION, Versioned, Volume, Volumes};
use serde_json::json;

use crate::failure::{Failure, exit};
use crate::listing::{self, Cell, Column, if_asked};
use crate::output::Output;
use crate::session::{Answer, Session};
use crate::split;
use crate::verb::{CloneCreate, CloneVerb, Show};

const COLUMNS: [Column<Volume>; 8] = [
    Column::text("name", |it| Cell::text(&it.name)),
    Column::text("from", |it| {
        it.clone_of.as_ref().map_or(Cell::None, Cell::text)
    }),
    Column::text("aggregate", |it| Cell::text(&it.aggregate)),
    Column::count("luns", |it| Cell::Count(it.lun_count)),
    Column::bytes("used", |it| Cell::Bytes(it.used_bytes)),
    Column::bytes("allocated", |it| Cell::Bytes(it.allocated_bytes)),
    if_asked(Column::words("sync", "Sync", |it| Cell::text(it.sync))),
    if_asked(Column::text("policy", |it| Cell::text(&it.snapshot_policy))),
];

pub(crate) fn run(verb: &CloneVerb, session: &Session, output: &Output) -> Result<u8, Failure> {
    match verb {
        CloneVerb::Create(create) => run_create(create, session, output)?,
        CloneVerb::Show(show) => run_show(show, session, output)?,
        CloneVerb::Split { verb } => return split::run(verb, session, output),
    }
    Ok(exit::OK)
}

fn run_create(create: &CloneCreate, session: &Session, output: &Output) -> Result<(), Failure> {
    let clone_of = Some(create.from.clone());
    let snapshot_policy = create.snapshot_policy.clone();
    let told = if create.if_missing {
        let request = PutVolume {
            snapshot_policy,
            clone_of,
            ..PutVolume::default()
        };
        session.put::<Volume>(&format!("/v1/volumes/{}", create.name), &request)?
    } else {
        let request = CreateVolume {
            name: create.name.clone(),
            aggregate: None,
            sync: None,
            snapshot_policy,
            clone_of,
        };
        session.post::<Volume>("/v1/volumes", &request)?
    };
    output.made(&told.raw, || listing::of_one(&told.meant, &COLUMNS))
}

fn run_show(show: &Show, session: &Session, output: &Output) -> Result<(), Failure> {
    let Some(name) = &show.name else {
        let mut meant = session.get::<Volumes>("/v1/volumes")?.meant;
        meant.volumes.retain(|volume| volume.clone_of.is_some());
        let raw = json!(Versioned {
            schema_version: SCHEMA_VERSION,
            body: &meant,
        });
        let told = Answer { raw, meant };
        let items = ("volumes", told.meant.volumes.as_slice());
        return listing::print(&told, items, &COLUMNS, &show.listing, output);
    };
    let told = session.get::<Volume>(&format!("/v1/volumes/{name}"))?;
    if told.meant.clone_of.is_none() {
        let text = format!("volume {name} is no clone; 'everglade volume show {name}' shows it");
        return Err(Failure::new(exit::NOT_FOUND, text));
    }
    listing::print_one(&told, &COLUMNS, &show.listing, output)
}
