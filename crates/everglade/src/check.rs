//! `everglade check`: the independent verifier, run while no daemon has the directory open.
//!
//! 0 clean, 1 problems found, 2 cannot read. Reports are data and go to stdout; why something
//! cannot be read, and progress, go to stderr. Nothing is written anywhere.

use std::process::ExitCode;

use everglade_check::{Phase as Walk, Progress, Report};
use everglade_cli::progress::Progress as Line;
use everglade_server::datadir::{AggregateState, Phase};
use everglade_server::offline::Offline;
use everglade_server::{Config, Settings};
use serde_json::json;

use crate::args::{Check, Global};
use crate::exit::{self, Failure};

pub(crate) fn run(global: &Global, check: &Check) -> Result<ExitCode, Failure> {
    let settings = Settings {
        data_dir: global.data_dir.clone(),
        ..Settings::default()
    };
    let config = Config::resolve(settings, global.config.as_deref()).map_err(cannot_read)?;
    let directory = Offline::open(&config.data_dir).map_err(cannot_read)?;
    let mut reports = Vec::new();
    for aggregate in chosen(&directory, &check.aggregates)? {
        let report = verify(&directory, aggregate, global.quiet)?;
        if !global.json {
            println!("{report}");
        }
        let seen = aggregate.uuid.and_then(|uuid| directory.seen().of(uuid));
        if let Some(seen) = seen.filter(|seen| report.cp < *seen) {
            eprintln!(
                "everglade: aggregate {} is at consistency point {}, and {seen} was seen before: \
                its devices are an older copy, which the daemon refuses",
                report.name, report.cp
            );
        }
        reports.push(report);
    }
    if global.json {
        let aggregates: Vec<_> = reports.iter().map(Report::to_json).collect();
        println!(
            "{:#}",
            json!({ "schema_version": 1, "aggregates": aggregates })
        );
    }
    let is_clean = reports.iter().all(Report::is_clean);
    Ok(ExitCode::from(if is_clean {
        exit::OK
    } else {
        exit::FAILED
    }))
}

fn cannot_read(error: impl std::fmt::Display) -> Failure {
    let mut failure = Failure::new(exit::CANNOT_READ, error);
    // The code has another meaning for other verbs.
    failure.document["title"] = json!("cannot read");
    failure
}

/// The aggregates asked for, all if none was.
fn chosen<'a>(
    directory: &'a Offline,
    names: &[String],
) -> Result<Vec<&'a AggregateState>, Failure> {
    let state = directory.state();
    let known = || {
        let names: Vec<_> = state
            .aggregates
            .iter()
            .map(|known| known.name.as_str())
            .collect();
        names.join(", ")
    };
    let find = |name: &String| {
        state.aggregate(name).ok_or_else(|| {
            cannot_read(format!(
                "no aggregate '{name}'; this data directory has {}",
                known()
            ))
        })
    };
    let ready = |aggregate: &&AggregateState| aggregate.phase == Phase::Ready;
    let chosen: Vec<_> = if names.is_empty() && state.aggregates.iter().any(|known| ready(&known)) {
        // Others were never finished, or are deleted, and the next start takes them back.
        state.aggregates.iter().filter(ready).collect()
    } else if names.is_empty() {
        state.aggregates.iter().collect()
    } else {
        names.iter().map(find).collect::<Result<_, _>>()?
    };
    match chosen
        .iter()
        .find(|aggregate| aggregate.phase != Phase::Ready)
    {
        None => Ok(chosen),
        Some(deleted) if deleted.phase == Phase::Deleting => Err(cannot_read(format!(
            "aggregate '{}' was deleted and holds nothing; expected one that is served; start \
             'everglade serve' once, which clears what is left",
            deleted.name
        ))),
        Some(unfinished) => Err(cannot_read(format!(
            "aggregate '{}' was never finished and holds nothing; expected one that was served; \
             start 'everglade serve' once, which takes it back",
            unfinished.name
        ))),
    }
}

/// Verifies one aggregate.
fn verify(directory: &Offline, aggregate: &AggregateState, quiet: bool) -> Result<Report, Failure> {
    let opened = directory.open_devices(aggregate).map_err(cannot_read)?;
    let mut shown = Shown::new(quiet);
    let (world, devices) = (&opened.world, &opened.devices);
    let outcome = everglade_check::check(world, devices, &mut |progress| shown.show(progress));
    shown.line.clear();
    let report = outcome.map_err(|error| {
        // What is missing explains more than what is wrong with the rest.
        let missing = opened.unusable.iter().map(|error| format!("{error}; "));
        cannot_read(format!(
            "{}aggregate '{}' cannot be verified: {error}",
            missing.collect::<String>(),
            aggregate.name
        ))
    })?;
    for error in &opened.unusable {
        eprintln!(
            "everglade: aggregate {} is verified without a device: {error}",
            aggregate.name
        );
    }
    if aggregate
        .uuid
        .is_some_and(|recorded| recorded.0 != report.uuid)
    {
        return Err(cannot_read(format!(
            "the devices recorded for aggregate '{}' hold another one, '{}'; expected the uuid in \
             state.toml; correct the paths there",
            aggregate.name, report.name
        )));
    }
    Ok(report)
}

/// Progress, at every whole percent.
struct Shown {
    line: Line,
    last: Option<(Walk, u64)>,
}

impl Shown {
    fn new(quiet: bool) -> Shown {
        Shown {
            line: Line::new(quiet),
            last: None,
        }
    }

    fn show(&mut self, progress: Progress) {
        let percent = (u128::from(progress.done) * 100)
            .checked_div(u128::from(progress.total))
            .map_or(100, |percent| {
                u64::try_from(percent.min(100)).unwrap_or(100)
            });
        let now = Some((progress.phase, percent));
        if self.last != now {
            self.last = now;
            let what = match progress.phase {
                Walk::Trees => "walking trees",
                Walk::Contents => "reading contents",
                Walk::Volumes => "walking volumes",
            };
            self.line.show(&format!("{what}: {percent} %"));
        }
    }
}
