//! `everglade repair` on a running daemon, and the report of a repair, also of an offline one.

use everglade_api::{Aggregates, Job, Name, Repair, RepairState, counted};
use serde_json::json;

use crate::Options;
use crate::failure::{Failure, exit};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::session::Session;
use crate::status::duration;
use crate::wait::LOOK_EVERY;

/// The outcome for one aggregate, with its name.
pub type Repaired = (String, Result<Repair, Failure>);

/// Asks the daemon to repair these aggregates, or all, one after the other; prints the outcomes,
/// and returns the exit code.
///
/// # Errors
/// The daemon does not answer, or an aggregate does not exist.
pub fn repair(wanted: &[Name], is_awaited: bool, options: &Options) -> Result<u8, Failure> {
    let session = Session::new(options.daemon.clone());
    let output = Output::new(options.json, options.quiet);
    let names = match wanted {
        [] => {
            let all = session.get::<Aggregates>("/v1/aggregates")?.meant;
            all.aggregates.into_iter().map(|it| it.name).collect()
        }
        wanted => wanted.iter().map(ToString::to_string).collect::<Vec<_>>(),
    };
    let mut progress = Progress::new(options.quiet);
    let interrupt = Interrupt::watch();
    let mut repaired = Vec::new();
    for name in names {
        let outcome = repair_one(&session, &name, is_awaited, &mut progress, &interrupt);
        if let Err(failure) = &outcome
            && failure.code == exit::INTERRUPTED
        {
            progress.clear();
            return outcome.map(|_| exit::INTERRUPTED);
        }
        repaired.push((name, outcome));
    }
    progress.clear();
    report(&repaired, is_awaited, &output)
}

fn repair_one(
    session: &Session,
    name: &str,
    is_awaited: bool,
    progress: &mut Progress,
    interrupt: &Interrupt,
) -> Result<Repair, Failure> {
    let job = session.act::<Job>(&format!("/v1/aggregates/{name}/actions/repair"))?;
    loop {
        let repair = session.get::<Repair>(&format!("/v1/aggregates/{name}/repair"))?;
        let repair = repair.meant;
        if repair.state != RepairState::Running || !is_awaited {
            return Ok(repair);
        }
        progress.show(&line(&repair));
        if !interrupt.sleep(LOOK_EVERY) {
            return Err(Failure::interrupted(job.meant.id));
        }
    }
}

/// Prints the outcome for each aggregate, and returns the exit code: 0 if no damage is left, 1 if
/// some is or may be left, that of the first failure if there was one.
///
/// # Errors
/// The reader of the output is gone.
pub fn report(repaired: &[Repaired], is_awaited: bool, output: &Output) -> Result<u8, Failure> {
    let repairs: Vec<&Repair> = repaired
        .iter()
        .filter_map(|(_, it)| it.as_ref().ok())
        .collect();
    let errors: Vec<_> = repaired
        .iter()
        .filter_map(|(name, outcome)| Some((name, outcome.as_ref().err()?)))
        .collect();
    let raw = json!({
        "schema_version": everglade_api::SCHEMA_VERSION,
        "repairs": repairs,
        "errors": errors
            .iter()
            .map(|(name, failure)| {
                let mut document = failure.document();
                document["aggregate"] = json!(name);
                document
            })
            .collect::<Vec<_>>(),
    });
    output.data(&raw, || repairs.iter().map(|it| text(it)).collect())?;
    for (name, failure) in errors.iter().filter(|_| !output.is_json()) {
        eprintln!("everglade: aggregate {name} was not repaired: {failure}");
    }
    let is_whole = |it: &&Repair| match it.state {
        RepairState::Done => it.damaged_blocks == 0,
        RepairState::Running => !is_awaited,
        // The daemon may have been restarted meanwhile.
        RepairState::None | RepairState::Stopped => false,
    };
    Ok(match errors.first() {
        Some((_, failure)) => failure.code,
        None if repairs.iter().all(is_whole) => exit::OK,
        None => exit::FAILED,
    })
}

/// Returns one line, and one more for each damaged block.
fn text(repair: &Repair) -> String {
    let Repair {
        aggregate,
        read_blocks,
        mended_blocks,
        damaged_blocks,
        ..
    } = repair;
    let how = match repair.state {
        RepairState::Running => format!("being repaired, {} % done; ", repair.percent),
        RepairState::Stopped => match &repair.reason {
            Some(reason) => format!("stopped at {} %, because {reason}; ", repair.percent),
            None => format!("stopped at {} %; ", repair.percent),
        },
        RepairState::None => "not repaired, the daemon was restarted; ".to_owned(),
        RepairState::Done => String::new(),
    };
    let mut text = format!(
        "{aggregate}: {how}{} of metadata read, {mended_blocks} mended, {damaged_blocks} cannot be \
        mended\n",
        counted(*read_blocks, "block")
    );
    for line in &repair.damaged {
        text += &format!("  {line}\n");
    }
    let more = damaged_blocks.saturating_sub(repair.damaged.len() as u64);
    if more > 0 {
        text += &format!("  and {more} more\n");
    }
    text
}

/// Returns a line about a repair's progress, for [`Progress`].
#[must_use]
pub fn line(repair: &Repair) -> String {
    let eta = match repair.eta_seconds {
        Some(eta) => format!(", {} left", duration(eta)),
        None => String::new(),
    };
    format!(
        "repairing {}: {} % of {}{eta}",
        repair.aggregate,
        repair.percent,
        counted(repair.total_blocks, "block")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_damaged_is_listed() {
        let repair = Repair {
            aggregate: "a".to_owned(),
            state: RepairState::Done,
            read_blocks: 100,
            mended_blocks: 2,
            damaged_blocks: 3,
            damaged: vec!["directory (file 5) of the aggregate".to_owned()],
            ..Repair::default()
        };
        assert_eq!(
            text(&repair),
            "a: 100 blocks of metadata read, 2 mended, 3 cannot be mended\n  \
             directory (file 5) of the aggregate\n  and 2 more\n"
        );
        let stopped = Repair {
            state: RepairState::Stopped,
            percent: 40,
            damaged: Vec::new(),
            damaged_blocks: 0,
            ..repair
        };
        assert!(text(&stopped).starts_with("a: stopped at 40 %; "));
    }
}
