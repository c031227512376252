//! `planted`: each mistake of `everglade_format::planted` must be found by the simulation.
//!
//! For each there is a kind of simulation and a seed to begin with, by which it was once found; if
//! the product has moved on, the search goes on from there until the time for one bug is up. No
//! check is made for a bug's sake: whatever finds it runs in every simulation. Before the bug is
//! planted the same seed must pass, or nothing is proven. `--search` looks for good seeds in all
//! kinds.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use everglade_env::lock::Mutex;
use everglade_format::planted::{Bug, plant};
use everglade_testing::Seed;
use everglade_testing::sim::Kind;

const USAGE: &str = "usage: planted [--bug NAME] [--kind KIND [--from N]] [--search] [--seconds S]

  --bug NAME     only this one
  --kind KIND    by this kind of simulation, from seed N on, 0 by default
  --search       try all kinds of simulation from seed 0 on, and print what finds it first
  --seconds S    time for one bug, and one kind when searching; 60 by default
";

/// A bug, the kind of simulation that finds it, and the first seed to try.
type Row = (Bug, Kind, u64);

/// Where to look first.
const TABLE: &[Row] = &[
    (Bug::FlushSkipped, Kind::Exhaustive, 0),
    (Bug::SuperblockBeforeFlush, Kind::Exhaustive, 8),
    (Bug::SuperblockOneCopy, Kind::Silent, 3),
    (Bug::OldSuperblockWins, Kind::Exhaustive, 0),
    (Bug::HealingSkipped, Kind::Cuts, 4),
    (Bug::LabelCopyForgotten, Kind::Creation, 0),
    (Bug::SameCpReuse, Kind::Exhaustive, 26),
    (Bug::SafeCopyDroppedEarly, Kind::Exhaustive, 33),
    (Bug::OverflowDrainedEarly, Kind::Long, 4),
    (Bug::OverflowForgotten, Kind::Exhaustive, 1),
    (Bug::PunchBeforeCommit, Kind::Exhaustive, 34),
    (Bug::AcknowledgedBeforeCommit, Kind::Exhaustive, 26),
    (Bug::GroupAcknowledgedEarly, Kind::Exhaustive, 2),
    (Bug::JournalNotDurable, Kind::Exhaustive, 2),
    (Bug::ForceUnitAccessIgnored, Kind::Exhaustive, 2),
    (Bug::SyncAlwaysIgnored, Kind::Small, 4),
    (Bug::FlushAnsweredAtOnce, Kind::Cuts, 0),
    (Bug::DiscardNotLogged, Kind::Faults, 1),
    (Bug::JournalFrozenLate, Kind::Cuts, 0),
    (Bug::HalfReusedEarly, Kind::Long, 5),
    (Bug::TornTailAccepted, Kind::Cuts, 3),
    (Bug::StaleRecordAccepted, Kind::Faults, 0),
    (Bug::StrangersIgnored, Kind::Cuts, 354),
    (Bug::ReplayedTwice, Kind::Cuts, 0),
    (Bug::ReplayDropsLast, Kind::Exhaustive, 2),
    (Bug::ReplayIgnoresPunches, Kind::Cuts, 1),
    (Bug::ContextWrong, Kind::Exhaustive, 1),
    (Bug::ContainerSlotWrong, Kind::Exhaustive, 1),
    (Bug::CountersOff, Kind::Exhaustive, 1),
    (Bug::AdmissionIgnored, Kind::Exhaustive, 0),
    (Bug::GrowthLost, Kind::Exhaustive, 27),
    (Bug::HiddenEntryLost, Kind::Exhaustive, 24),
    // The only letter of its sequence.
    (Bug::RenameForgotten, Kind::Histories, 48),
    (Bug::NotesForgotten, Kind::Snapshots, 0),
    (Bug::DeletedFileLeaks, Kind::Exhaustive, 25),
    (Bug::FreezeLosesOverlay, Kind::Exhaustive, 1),
    (Bug::FreezeSkipsStripe, Kind::Cuts, 0),
    (Bug::FrozenNotRead, Kind::Cuts, 0),
    (Bug::StalePointerAccepted, Kind::Exhaustive, 71),
    (Bug::TagNotChecked, Kind::Silent, 0),
    (Bug::LostWithoutReason, Kind::Cuts, 0),
    (Bug::MendedByHalf, Kind::Corrupted, 882),
    (Bug::RepairForgetsRest, Kind::Corrupted, 90),
    (Bug::EdgesDiscarded, Kind::Cuts, 0),
    (Bug::DiscardSeenInParts, Kind::Cuts, 110),
    (Bug::ChangeAnsweredEarly, Kind::Exhaustive, 21),
    (Bug::PartLosesRest, Kind::Cuts, 0),
    (Bug::WaiterForgotten, Kind::Exhaustive, 11),
    (Bug::WriteForgotten, Kind::Exhaustive, 1),
    (Bug::FoldSkipped, Kind::Moments, 0),
    (Bug::SummaryIgnored, Kind::Moments, 0),
    (Bug::FreedThoughHeld, Kind::Moments, 0),
    (Bug::ScanCursorAhead, Kind::Moments, 1),
    (Bug::SnapmapReleasedEarly, Kind::Moments, 0),
    (Bug::GhostDropped, Kind::Moments, 2),
    (Bug::ExclusiveNotCounted, Kind::Moments, 0),
    (Bug::UnfoldedForgotten, Kind::Moments, 0),
    (Bug::RestoreForgetsParent, Kind::Moments, 1),
    (Bug::DiscardedStays, Kind::Snapshots, 0),
    (Bug::ChangesForgetEnd, Kind::Snapshots, 30),
    (Bug::ChangesSkipOverlays, Kind::Snapshots, 13),
    (Bug::PauseMissing, Kind::Moments, 0),
    (Bug::RestoreShowsOldRoots, Kind::Moments, 0),
    (Bug::HoldIgnored, Kind::Moments, 1),
    (Bug::RecordSlotReused, Kind::Moments, 0),
    (Bug::ImageShowsOverlays, Kind::Moments, 0),
    (Bug::HeldNotRefreshed, Kind::Moments, 0),
    (Bug::SharedSubtreeSkipped, Kind::Moments, 49),
    (Bug::OwnedStaysInSummary, Kind::Moments, 1),
    (Bug::BaseNotLocked, Kind::Clonings, 25),
    (Bug::CloneForgetsBase, Kind::Moments, 0),
    (Bug::SplitCursorAhead, Kind::Clonings, 2),
    (Bug::SplitLetsGoEarly, Kind::Clonings, 2),
    (Bug::SplitLeavesHoles, Kind::Clonings, 2),
    (Bug::RedirectMissing, Kind::Moments, 0),
    (Bug::LunRestoreForgetsEdge, Kind::Moments, 0),
    (Bug::LunRestoreNotCounted, Kind::Moments, 0),
    (Bug::VictimNotFolded, Kind::Snapshots, 8),
    (Bug::SurvivorForgotten, Kind::Moments, 0),
    (Bug::CountNotTaken, Kind::Moments, 1),
    (Bug::FreedAtFirst, Kind::Moments, 1),
    (Bug::RestoreForgetsCounts, Kind::Moments, 1),
    (Bug::LunRestoreIgnoresCounts, Kind::Moments, 1),
    (Bug::CloneSourceReleased, Kind::Snapshots, 8),
    (Bug::LunCloneForgetsEdge, Kind::Snapshots, 52),
    (Bug::LunCloneCursorAhead, Kind::Snapshots, 1),
    (Bug::ReadOnlyForgetsFrozen, Kind::Faults, 8),
    (Bug::ReadOnlyFlushAnswered, Kind::Faults, 1),
];

/// What came of a hunt.
struct Found {
    seed: u64,
    seeds: u64,
    time: Duration,
    checker: String,
    what: String,
}

/// The last panic, for the table.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

fn main() -> ExitCode {
    let (mut only, mut kind, mut search) = (None, None, false);
    let (mut seconds, mut from) = (60, 0);
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        match (option.as_str(), option.as_str() != "--search") {
            ("--search", _) => search = true,
            (name @ ("--bug" | "--kind" | "--from" | "--seconds"), _) => {
                let Some(value) = arguments.next() else {
                    eprint!("planted: {name} needs a value\n{USAGE}");
                    return ExitCode::from(2);
                };
                match (name, value.parse()) {
                    ("--bug", _) => only = Some(value),
                    ("--kind", _) if Kind::named(&value).is_some() => kind = Kind::named(&value),
                    ("--kind", _) => {
                        eprint!("planted: there is no kind {value}\n{USAGE}");
                        return ExitCode::from(2);
                    }
                    ("--from", Ok(number)) => from = number,
                    (_, Ok(number)) => seconds = number,
                    _ => {
                        eprint!("planted: {name}: not a number\n{USAGE}");
                        return ExitCode::from(2);
                    }
                }
            }
            _ => {
                eprint!("planted: what is {option}?\n{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    // A failed assertion is a way of being found; it goes into the table instead of onto the
    // terminal.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map_or(String::new(), |at| format!("{}:{}", at.file(), at.line()));
        let text = panic.payload_as_str().unwrap_or("");
        *PANIC.lock() = Some(format!("{place}: {text}"));
    }));
    let limit = Duration::from_secs(seconds);
    let wanted = |bug: &&Bug| only.as_ref().is_none_or(|name| format!("{bug:?}") == *name);
    let bugs: Vec<Bug> = Bug::ALL.iter().filter(wanted).copied().collect();
    if bugs.is_empty() {
        eprint!("planted: there is no such bug\n{USAGE}");
        return ExitCode::from(2);
    }
    if search {
        bugs.into_iter().for_each(|bug| search_for(bug, limit));
        return ExitCode::SUCCESS;
    }
    prove(&bugs, kind.map(|kind| (kind, from)), limit)
}

/// Every bug is found by its row, and its seed passes without it.
fn prove(bugs: &[Bug], by: Option<(Kind, u64)>, limit: Duration) -> ExitCode {
    println!(
        "{:<26} {:<11} {:>19} {:>5} {:>7}  found by",
        "bug", "kind", "seed", "seeds", "seconds"
    );
    let (mut passed, mut failed) = (0, 0);
    for bug in bugs {
        let Some((_, kind, seed)) = TABLE.iter().find(|(known, ..)| known == bug) else {
            println!("{:<26} has no row", format!("{bug:?}"));
            failed += 1;
            continue;
        };
        let (kind, seed) = match &by {
            Some((kind, from)) => (kind, from),
            None => (kind, seed),
        };
        plant(None);
        if let Err(failure) = kind.run(Seed(*seed), 0) {
            println!(
                "{bug:?}: seed {seed} of kind {} fails without it: {failure}",
                kind.name()
            );
            failed += 1;
            continue;
        }
        match hunt(*bug, *kind, *seed, limit) {
            Some(found) => {
                passed += 1;
                println!(
                    "{:<26} {:<11} {:>19} {:>5} {:>7.2}  {}",
                    format!("{bug:?}"),
                    kind.name(),
                    found.seed,
                    found.seeds,
                    found.time.as_secs_f64(),
                    found.checker
                );
            }
            None => {
                failed += 1;
                println!(
                    "{:<26} {:<11} was not found in {} s",
                    format!("{bug:?}"),
                    kind.name(),
                    limit.as_secs()
                );
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn search_for(bug: Bug, limit: Duration) {
    let kinds = [
        Kind::Exhaustive,
        Kind::Cuts,
        Kind::Long,
        Kind::Faults,
        Kind::Silent,
        Kind::Tight,
        Kind::Fill,
        Kind::Small,
        Kind::Creation,
        Kind::Snapshots,
        Kind::Moments,
        Kind::Histories,
    ];
    let mut best: Option<(Kind, Found)> = None;
    for kind in kinds {
        let Some(found) = hunt(bug, kind, 0, limit) else {
            continue;
        };
        // What it costs once the seed is known.
        let begin = Instant::now();
        plant(Some(bug));
        let _ = kind.run(Seed(found.seed), 0);
        plant(None);
        let time = begin.elapsed();
        println!(
            "  {bug:?} {} seed {} after {} seeds, alone {:.2} s: {} | {}",
            kind.name(),
            found.seed,
            found.seeds,
            time.as_secs_f64(),
            found.checker,
            found
                .what
                .chars()
                .take(160)
                .collect::<String>()
                .replace('\n', " ")
        );
        let found = Found { time, ..found };
        if best
            .as_ref()
            .is_none_or(|(_, known)| found.time < known.time)
        {
            best = Some((kind, found));
        }
        if best
            .as_ref()
            .is_some_and(|(_, known)| known.time < Duration::from_millis(300))
        {
            break;
        }
    }
    match best {
        Some((kind, found)) => println!("    (Bug::{bug:?}, Kind::{kind:?}, {}),", found.seed),
        None => println!("    // {bug:?} was not found"),
    }
}

/// Runs seeds with the bug planted until one fails or the time is up.
fn hunt(bug: Bug, kind: Kind, first: u64, limit: Duration) -> Option<Found> {
    plant(Some(bug));
    let begin = Instant::now();
    let mut found = None;
    let mut seeds = 0;
    while found.is_none() && (seeds == 0 || begin.elapsed() < limit) {
        let seed = first + seeds;
        seeds += 1;
        if let Err(failure) = kind.run(Seed(seed), 0) {
            let panic = PANIC.lock().take();
            plant(None);
            let alone = kind.run(Seed(seed), 0);
            plant(Some(bug));
            if let Err(failure) = alone {
                // It proves nothing about this bug, and something else.
                println!(
                    "seed {seed} of kind {} fails without a bug: {failure}",
                    kind.name()
                );
                continue;
            }
            let assertion = panic.filter(|_| failure.checker().starts_with("assertion"));
            found = Some(Found {
                seed,
                seeds,
                time: begin.elapsed(),
                checker: match assertion {
                    Some(place) => {
                        format!("assertion {}", place.chars().take(90).collect::<String>())
                    }
                    None => failure.checker().to_owned(),
                },
                what: failure.what,
            });
        }
    }
    plant(None);
    found
}
