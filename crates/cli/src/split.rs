//! `everglade clone split …`: clones on their way to blocks of their own.

use everglade_api::{Job, Size, Split, SplitState, Volume, Volumes};
use serde_json::json;

use crate::failure::{Failure, exit};
use crate::job;
use crate::listing::{self, Cell, Column};
use crate::output::Output;
use crate::session::{Answer, Session};
use crate::verb::{SplitStart, SplitVerb};

const COLUMNS: [Column<Split>; 8] = [
    Column::text("volume", |it| Cell::text(&it.volume)),
    Column::text("clone-of", |it| {
        it.clone_of.as_ref().map_or(Cell::None, Cell::text)
    }),
    Column::words("split", "SplitState", |it| Cell::text(it.state)),
    Column::text("waits-for", |it| {
        it.waits_for.as_ref().map_or(Cell::None, Cell::text)
    }),
    Column::percent("percent", |it| Cell::Percent(it.percent)),
    Column::bytes("total", |it| Cell::Bytes(it.total_bytes)),
    Column::bytes("copied", |it| Cell::Bytes(it.done_bytes)),
    Column::seconds("eta", |it| Cell::seconds(it.eta_seconds)),
];

pub(crate) fn run(verb: &SplitVerb, session: &Session, output: &Output) -> Result<u8, Failure> {
    match verb {
        SplitVerb::Start(start) => return run_start(start, session, output),
        SplitVerb::Stop(one) => {
            listing::for_one(&COLUMNS, &one.listing)?;
            let path = format!("/v1/volumes/{}/actions/stop-split", one.name);
            let told = session.act::<Split>(&path)?;
            listing::print_one(&told, &COLUMNS, &one.listing, output)?;
        }
        SplitVerb::Show(show) => match &show.name {
            Some(name) => {
                let told = session.get::<Split>(&format!("/v1/volumes/{name}/split"))?;
                listing::print_one(&told, &COLUMNS, &show.listing, output)?;
            }
            None => {
                let meant = of_clones(session)?;
                let raw = listing::versioned(json!({ "splits": &meant }));
                let told = Answer { raw, meant };
                let items = ("splits", told.meant.as_slice());
                listing::print(&told, items, &COLUMNS, &show.listing, output)?;
            }
        },
    }
    Ok(exit::OK)
}

/// Returns the splits of all volumes that are clones now.
fn of_clones(session: &Session) -> Result<Vec<Split>, Failure> {
    let volumes = session.get::<Volumes>("/v1/volumes")?.meant.volumes;
    let clones = volumes.iter().filter(|volume| volume.clone_of.is_some());
    let split = |clone: &Volume| session.get::<Split>(&format!("/v1/volumes/{}/split", clone.name));
    let told = clones.map(split);
    told.map(|told| Ok(told?.meant)).collect()
}

fn run_start(start: &SplitStart, session: &Session, output: &Output) -> Result<u8, Failure> {
    let name = &start.name;
    if start.dry_run {
        let told = session.get::<Split>(&format!("/v1/volumes/{name}/split"))?;
        output.data(&told.raw, || format!("{}\n", forecast(&told.meant)))?;
        return Ok(exit::OK);
    }
    let told = session.act::<Job>(&format!("/v1/volumes/{name}/actions/split"))?;
    let what = format!("copies {}", Size(told.meant.total_bytes));
    job::follow_work(session, output, told, start.wait, &what)
}

/// Describes the effect of starting the split.
fn forecast(split: &Split) -> String {
    let name = &split.volume;
    let left = Size(split.total_bytes.saturating_sub(split.done_bytes));
    match (&split.clone_of, split.state) {
        (None, _) => format!("{name} is no clone; nothing would be copied"),
        (Some(_), SplitState::Copying | SplitState::Waiting) => {
            format!("{name} is being split already; {left} are left to copy")
        }
        (Some(base), _) => format!("would copy {left}, and {name} would not need {base} any more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_says_how_much_would_be_copied() {
        let split = Split {
            volume: "c".to_owned(),
            clone_of: Some("v@s".to_owned()),
            state: SplitState::Stopped,
            waits_for: None,
            percent: 25,
            total_bytes: 4 << 30,
            done_bytes: 1 << 30,
            eta_seconds: None,
        };
        assert_eq!(
            forecast(&split),
            "would copy 3.0 GiB, and c would not need v@s any more"
        );
        let ordinary = Split {
            clone_of: None,
            ..split
        };
        assert!(forecast(&ordinary).contains("no clone"));
    }
}
