//! Members leave the aggregate: requests, and the end (decision 0057).
//!
//! 1. A member may leave if what is in use fits on the others, beside their reserve. From the
//!    freeze on, the aggregate has only as much space as it has without the member.
//! 2. The journal does not move, so a member that has it cannot leave.
//! 3. The config record says that a member is being evacuated, that it stays after all, or that it
//!    was removed. The consistency point of this freeze writes the record. Nobody else may write
//!    labels meanwhile.
//! 4. A member is removed in a freeze at which no committed tree has a block there, and no
//!    background work refers to one.

use everglade_env::{BLOCK_SIZE, Nanos};
use everglade_format::CpNumber;

use crate::change::Error;
use crate::home::aggregate::Home;
use crate::home::removing::Removing;
use crate::media::{Layout, Media};
use crate::pool::aggregate::Aggregate;
use crate::pool::removal::RemovalPlan;
use crate::pool::space::Space;

/// Time between two attempts to remove a member, in nanoseconds.
const RETRY: Nanos = 100_000_000;

/// Says what a removal would leave. Changes nothing.
pub(crate) fn examine(aggregate: &Aggregate, member: u32) -> Result<RemovalPlan, Error> {
    plan(aggregate, member).map(|(plan, _)| plan)
}

/// Returns what a removal would leave, and the layout in which the members are being evacuated.
fn plan(aggregate: &Aggregate, member: u32) -> Result<(RemovalPlan, Layout), Error> {
    let layout = aggregate.media.layout();
    let members = layout.config.group_of(member);
    check(&aggregate.media, &layout, (member, &members))?;
    let next = layout.with_evacuating(&members, true);
    let plan = RemovalPlan {
        total_blocks_before: aggregate.space.total(),
        total_blocks_after: next.config.staying_blocks(),
        reserve_blocks_after: next.config.reserve_blocks,
        members,
    };
    check_space(&aggregate.space, &plan)?;
    Ok((plan, next))
}

/// Begins to remove a member with its whole group. From now on nothing is allocated there.
pub(super) fn start(home: &mut Home, seconds: u64, member: u32) -> Result<(), Error> {
    let (plan, next) = plan(&home.aggregate, member)?;
    take_turn(home)?;
    // Another device would be filled for nothing.
    home.stop_rebalance();
    home.removing = Removing::begin(&next, seconds);
    home.aggregate.media.set_removal(next);
    for extent in home.removing.iter().flat_map(|it| &it.extents) {
        home.fs.shut(*extent);
    }
    let space = &home.aggregate.space;
    space.shrink(plan.total_blocks_after, plan.reserve_blocks_after);
    space.set_backed(home.backed_blocks());
    home.tell_removal();
    Ok(())
}

/// All members that are being evacuated stay. What was moved stays where it is now.
pub(super) fn stop(home: &mut Home) -> Result<(), Error> {
    let layout = home.aggregate.media.layout();
    let leaving = layout.evacuating();
    if leaving.is_empty() {
        let problem = "no device of the aggregate is being removed";
        return Err(Error::NotFound(problem.to_owned()));
    }
    take_turn(home)?;
    let next = layout.with_evacuating(&leaving, false);
    let (total, reserve) = (next.config.staying_blocks(), next.config.reserve_blocks);
    home.aggregate.media.set_removal(next);
    for extent in home.removing.take().map_or(Vec::new(), |it| it.extents) {
        home.fs.areas[extent].unshut();
    }
    home.aggregate.space.grow(total, reserve);
    home.tell_removal();
    Ok(())
}

/// Removes the members that have no block in use any more, if nothing else refers to them.
pub(crate) fn finish(home: &mut Home, cp: CpNumber) {
    let Some(removing) = &home.removing else {
        return;
    };
    let is_empty = removing.empty_in.is_some_and(|empty| empty < cp);
    if !is_empty || home.replaying.is_some() {
        return;
    }
    let layout = home.aggregate.media.layout();
    let is_busy = is_changing(&home.aggregate.media, &layout)
        || home.catching_up.device().is_some()
        || !home.derived.is_empty()
        || home.scrub.is_reading();
    if is_busy || take_turn(home).is_err() {
        let until = home.now + RETRY;
        home.removing.as_mut().expect("as above").rests_until = until;
        return;
    }
    let members = layout.evacuating();
    let groups = members.iter().filter_map(|member| layout.group_of(*member));
    for group in groups {
        home.scrub.parity.forget(group);
    }
    let devices = members
        .iter()
        .filter_map(|member| layout.device_of(*member));
    home.removed.extend(devices);
    let next = layout.without_evacuated(&members);
    home.aggregate.media.set_removal(next);
    home.removing = None;
    home.tell_removal();
}

/// Refuses a member that cannot leave.
fn check(media: &Media, layout: &Layout, (member, leaving): (u32, &[u32])) -> Result<(), Error> {
    let config = &layout.config;
    let found = config.members.get(member as usize);
    let found = found.filter(|it| !it.seat.is_removed());
    let Some(found) = found else {
        return Err(Error::NotFound("device of this aggregate".to_owned()));
    };
    if found.seat.is_evacuating() {
        return Err(Error::Busy("it is being removed already".to_owned()));
    }
    let journal = config.journal_members();
    if leaving.iter().any(|member| journal.contains(member)) {
        return Err(impossible(
            "it has the journal of the aggregate, which stays where it is; remove another one",
        ));
    }
    let mut extents = config.extents.iter();
    let stays = |member: u32| !config.is_leaving(member) && !leaving.contains(&member);
    if !extents.any(|extent| stays(extent.member)) {
        return Err(impossible(
            "it is the last one with data; delete the aggregate instead, or add another one first",
        ));
    }
    if media.is_any_behind() {
        return Err(Error::Busy(
            "a drive of the aggregate is being rebuilt; wait until it is done".to_owned(),
        ));
    }
    match is_changing(media, layout) {
        true => Err(Error::Busy(
            "another change of the aggregate's devices is under way; wait until it is done"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

fn impossible(problem: &str) -> Error {
    Error::Invalid {
        field: "device",
        problem: problem.to_owned(),
    }
}

/// True if the config record is about to change.
fn is_changing(media: &Media, layout: &Layout) -> bool {
    let is_recorded = media.epoch() == layout.config.epoch;
    !is_recorded || layout.is_unrecorded()
}

/// What is in use has to fit on those that stay.
fn check_space(space: &Space, plan: &RemovalPlan) -> Result<(), Error> {
    let used = space.committed_blocks();
    // As much as background work leaves to clients.
    let margin = plan.total_blocks_after / 100;
    let kept = plan.reserve_blocks_after + margin;
    let room = plan.total_blocks_after.saturating_sub(kept);
    if used <= room {
        return Ok(());
    }
    let mib = |blocks: u64| (blocks * BLOCK_SIZE as u64).div_ceil(1 << 20);
    Err(Error::Unavailable(format!(
        "{} MiB are in use, and without it there is room for {} MiB; delete something, or add \
         another device first",
        mib(used),
        mib(room)
    )))
}

/// Nobody else writes labels until the consistency point has written its record.
fn take_turn(home: &mut Home) -> Result<(), Error> {
    if home.turn.is_none() {
        let turn = home.aggregate.media.begin_change();
        home.turn = Some(turn.ok_or_else(|| {
            let problem = "another change of the aggregate's devices is under way; ask again";
            Error::Busy(problem.to_owned())
        })?);
    }
    Ok(())
}
