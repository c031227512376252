//! Consistency points: the atomic transaction of an aggregate and all its volumes (C-03 … C-07,
//! C-12).
//!
//! ```text
//! freeze ─▶ plan ─▶ drain ─▶ reclaim ─▶ clean ─▶ stage ─▶ finish: volumes, aggregate ─▶ write
//!   (inside Aggregate)                                                                    │
//! publish ◀─ superblock ◀─ record of losses ◀─ device flush ◀─────────────────────────────┘
//!   (inside Aggregate)
//! ```
//!
//! | phase | file | what |
//! | --- | --- | --- |
//! | freeze | [`freeze`] | active overlays become frozen ones; administrative changes happen |
//! | plan | [`freeze`], [`rewrite`], [`scrub`] | what one drive of a mirror had wrong is written again; what a scrub reads next is listed; regions sorted by volume, LUN and place |
//! | repair | [`crate::mend::repair`] | if that was asked for, some of what can be derived is read, so that it is mended |
//! | drain | [`drain`] | blocks in the overflow files are freed for real (E-08) |
//! | reclaim | [`crate::background`] | deleted files and snapshots shrink a little (E-11, F-10); clones that are split copy a little (B-10) |
//! | clean | [`clean`], [`cleaner`] | overlay entries become blocks and pointers |
//! | stage | [`stage`] | blocks that were replaced become free in the maps (D-10) |
//! | finish | [`finish`], [`maps`] | everything changed gets a place, then tags from the leaves up |
//! | write … superblock | [`crate::media::writer`], [`stripes`], [`commit`] | nothing is committed before all of it is on stable media |
//! | publish | [`commit`] | clients see the new roots; frozen overlays are dropped |
//!
//! One consistency point of an aggregate runs at a time, on its home reactor, in slices: a step
//! returns when it must wait or has used its budget. Each step can be run again from its beginning:
//! everything that may stop comes first, and the second run finds the changes of the first run
//! done.
//!
//! 1. Membership is decided in the freeze: what an operation changed before it belongs to this
//!    consistency point, everything later to the next (C-04).
//! 2. Nothing that the last committed consistency point refers to is overwritten (Lemma 1).
//! 3. Clients never see a tree that is not committed.
//! 4. If power fails before the superblock is on media, the last consistency point is unchanged.
//! 5. A block that cannot be read is derived, if it can be ([`crate::mend`]); then the step that
//!    needed it runs again.
//! 6. A failed consistency point halts the aggregate ([`crate::pool::standing`]): no later write is
//!    acknowledged, nothing more is written, and the frozen overlays stay, so that everything
//!    acknowledged can be read. After a restart, only the operations in the journal are left of it.

use everglade_format::FileId;
use everglade_format::metafile::OVERFLOW;

use crate::background::turns;
use crate::home::aggregate::Home;
use crate::home::run::{Part, Phase};
use crate::mend;
use crate::read::load::{LoadCx, Stop};
use crate::tree::Content;

mod catch_up;
pub(crate) mod clean;
mod cleaner;
pub(crate) mod commit;
pub(crate) mod drain;
pub(crate) mod finish;
#[cfg(test)]
mod fixture;
pub(crate) mod freeze;
pub(crate) mod maps;
pub(crate) mod place;
pub(crate) mod prune;
mod rewrite;
mod scrub;
#[cfg(test)]
mod shrinking;
mod stage;
mod stripes;

/// The result of a step that did not stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepEnd {
    /// There is more to do now. Loaded pages may be let go.
    Again,
    /// The next step needs the Aggregate affinity.
    Publish,
}

/// Runs the next step of the consistency point outside any affinity (A-11). What it cannot read is
/// mended, if it can be derived; then it goes on.
pub(crate) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<StepEnd, Stop> {
    let outcome = match home.mender.is_busy() {
        true => mend(home, cx).map(|()| StepEnd::Again),
        false => change_installed(home, cx).and_then(|()| step_of_phase(home, cx)),
    };
    outcome.or_else(|stop| catch(home, stop))
}

/// What cannot be read is mended, if there is a way.
fn catch(home: &mut Home, stop: Stop) -> Result<StepEnd, Stop> {
    let is_repairing = home.under_way().phase == Phase::Repair;
    let repair = home.repair.as_ref().filter(|_| is_repairing);
    if let (Some(repair), Stop::Damaged(damaged)) = (repair, &stop)
        && let Some((place, page)) = repair.copy_of(damaged)
    {
        home.mender.put_back((**damaged).clone(), place, page);
        return Ok(StepEnd::Again);
    }
    let is_optional = home.under_way().phase == Phase::Plan && home.aggregate.media.has_groups();
    match home.mender.catch(stop) {
        Ok(()) => Ok(StepEnd::Again),
        // Catching up and rewriting end; the consistency point goes on.
        Err(Stop::Damaged(_) | Stop::Failed(_)) if is_optional && !writer_failed(home) => {
            catch_up::give_up(home);
            Ok(StepEnd::Again)
        }
        Err(Stop::Damaged(damaged)) if is_repairing => {
            let repair = home.repair.as_mut().expect("it is under way");
            repair.give_up(&damaged);
            Ok(StepEnd::Again)
        }
        // A device that does not answer ends only optional work.
        Err(Stop::Failed(error)) if is_repairing && !writer_failed(home) => {
            let repair = home.repair.take().expect("it is under way");
            repair.tell_stopped(home.wall_seconds, Some(error.to_string()));
            home.under_way().phase = Phase::Drain;
            Ok(StepEnd::Again)
        }
        Err(stop) => Err(stop),
    }
}

/// True if writes of the consistency point may be missing on the devices.
fn writer_failed(home: &mut Home) -> bool {
    home.under_way().writer.check().is_err()
}

/// Mends a little of what the consistency point stopped for.
fn mend(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let pointer = home.mender.pointer();
    let writer = &mut home.run.as_mut().expect("under way").writer;
    if home.mender.is_writing() {
        writer.finish(&home.aggregate.media)?;
        home.mender.written(cx);
        if let Some(repair) = &mut home.repair {
            repair.note_written(pointer);
        }
        return Ok(());
    }
    match home.mender.step(cx)? {
        mend::MendStep::Again => {}
        mend::MendStep::Write(pvbn, page) => writer.put(&home.aggregate.media, pvbn, page),
        mend::MendStep::Install(place, page) => {
            if let Some(repair) = &mut home.repair {
                repair.note_installed(pointer);
            }
            let position = (place.level, place.index);
            if let Some(id) = place.volume {
                // The drain empties overflow files, so their volume must be part of this
                // consistency point.
                let run = home.run.as_mut().expect("under way");
                let is_due = run.phase == Phase::Repair && home.volumes.contains_key(&id);
                run.active.extend(is_due.then_some(id));
            }
            let known = match place.volume {
                None => Some(&mut home.fs),
                Some(id) => home.volumes.get_mut(&id).map(|volume| &mut volume.fs),
            };
            let file = known.and_then(|fs| fs.files.get_mut(&place.file));
            if let Some(file) = file {
                file.install(position, page);
            }
            // The drain empties overflow files anyway, so there is nothing to write for one.
            if place.file != OVERFLOW {
                home.installed.push(place);
            }
        }
    }
    Ok(())
}

/// Makes blocks changed that were derived and cannot be put where they were.
fn change_installed(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    while let Some(place) = home.installed.last() {
        if let Some(file) = home.fs.files.get_mut(&place.file) {
            file.modify(cx, place.level, place.index, Content::Keep)?;
        }
        home.installed.pop();
    }
    Ok(())
}

fn step_of_phase(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<StepEnd, Stop> {
    let run = home.run.as_mut().expect("a consistency point is under way");
    run.writer.check()?;
    let next = match run.phase {
        Phase::Plan => {
            // Background work runs only if no client waits for this consistency point, and not in
            // the last one.
            let is_due = home.ledger.purse() > 0 && !run.last;
            let blocks = home.ledger.regions();
            if home.aggregate.media.has_groups() && !commit::announce(home)? {
                return Ok(StepEnd::Again);
            }
            rewrite::step(home, cx)?;
            if !home.mender.is_busy() {
                catch_up::step(home, cx)?;
                scrub::step(home, cx)?;
            }
            freeze::plan(home).map(|()| match &mut home.repair {
                Some(repair) if is_due => {
                    repair.begin_slice(home.mender.committed().clone(), blocks);
                    Some(Phase::Repair)
                }
                _ => Some(Phase::Drain),
            })
        }
        Phase::Repair => {
            let repair = home.repair.as_mut().expect("it was asked for");
            repair
                .step(cx)
                .map(|is_over| is_over.then_some(Phase::Drain))
        }
        Phase::Drain => drain::step(home, cx).map(|()| Some(Phase::Reclaim)),
        Phase::Reclaim => turns::step(home, cx).map(|done| done.then_some(Phase::Clean)),
        Phase::Clean => clean::step(home, cx).map(|done| done.then_some(Phase::Stage)),
        Phase::Stage => stage::step(home, cx).map(|done| done.then(|| first_finish(home))),
        Phase::FinishVolume(volume, part) => {
            let next = finish::volume(home, cx, volume, part)?;
            Ok(Some(match next {
                Some(part) => Phase::FinishVolume(volume, part),
                None => next_finish(home, volume),
            }))
        }
        Phase::FinishAggregate(part) => {
            let next = finish::aggregate(home, cx, part)?;
            Ok(Some(next.map_or(Phase::Write, Phase::FinishAggregate)))
        }
        Phase::Write => {
            if !stripes::step(home, cx)? {
                return Ok(StepEnd::Again);
            }
            commit::write(home).map(|()| Some(Phase::Flush))
        }
        Phase::Flush => commit::flush(home),
        Phase::Record => commit::record(home),
        Phase::Superblock => commit::superblock(home),
        Phase::Publish => return Ok(StepEnd::Publish),
    }?;
    if let Some(phase) = next {
        home.under_way().phase = phase;
    }
    Ok(StepEnd::Again)
}

fn first_finish(home: &mut Home) -> Phase {
    let run = home.run.as_mut().expect("under way");
    let changed = home
        .volumes
        .iter()
        .filter(|(_, volume)| volume.fs.is_changed());
    for (id, _) in changed {
        assert!(
            run.active.contains(id),
            "volume {id} changed without being planned, or drained"
        );
    }
    match run.active.first() {
        Some(volume) => Phase::FinishVolume(*volume, Part::first()),
        None => Phase::FinishAggregate(Part::first()),
    }
}

fn next_finish(home: &Home, done: FileId) -> Phase {
    let run = home.run.as_ref().expect("under way");
    match run
        .active
        .range((std::ops::Bound::Excluded(done), std::ops::Bound::Unbounded))
        .next()
    {
        Some(volume) => Phase::FinishVolume(*volume, Part::first()),
        None => Phase::FinishAggregate(Part::first()),
    }
}
