//! Removal: all blocks of members that leave move to the others (decision 0057).
//!
//! [`crate::home::removing`] has the state, and the order of things. The blocks of an area move as
//! in [`super::evacuation`]. The areas need not be lent, because nothing is allocated there.
//!
//! 1. The freeze after the consistency point in which nothing was in use any more removes the
//!    members ([`crate::admin::removal`]): then no committed tree has a block there.
//! 2. Clients come first: it rests like all gardening, and takes no space that they may use.

use everglade_env::Nanos;

use crate::background::evacuation::{move_out, used_in};
use crate::background::mover::{self, unless_damaged};
use crate::background::pass::{Budget, Pass, Room};
use crate::background::split::budget;
use crate::home::aggregate::Home;
use crate::home::ledger::{Target, Turn};
use crate::pool::info::Progress;
use crate::read::load::{LoadCx, Stop};

/// Areas that a step surveys.
const STEP_AREAS: usize = 64;
/// Time between two passes that moved nothing, in nanoseconds.
const RETRY: Nanos = 10_000_000_000;

/// See the module's documentation.
pub(crate) struct Removal;

impl Pass<Home> for Removal {
    fn name(&self) -> &'static str {
        "removal"
    }

    fn has_work(&self, home: &Home, target: Target) -> bool {
        target == Target::Aggregate && home.removing.is_some()
    }

    fn has_space(&self, home: &Home) -> bool {
        let removing = home.removing.as_ref();
        let needs_none = removing.is_some_and(|it| it.survey.is_some() || it.empty_in.is_some());
        !home.aggregate.garden_is_paused() && (needs_none || mover::has_room(home))
    }

    fn due(&self, home: &Home) -> Nanos {
        let Some(removing) = &home.removing else {
            return 0;
        };
        match removing.survey.is_some() || removing.empty_in.is_some() {
            true => removing.rests_until,
            false => removing.rests_until.max(home.gardener.rests_until()),
        }
    }

    fn wants(&self, home: &Home) -> Vec<Target> {
        let wants = home.removing.as_ref().is_some_and(|removing| {
            let may_move = || mover::may_move(home) && mover::is_in_share(home, self.name());
            let is_paused = home.aggregate.garden_is_paused();
            let is_rested = removing.rests_until <= home.now && !is_paused;
            let is_awake = is_rested && removing.empty_in.is_none();
            is_awake && (removing.survey.is_some() || may_move())
        });
        match wants {
            true => vec![Target::Aggregate],
            false => Vec::new(),
        }
    }

    fn step(
        &self,
        home: &mut Home,
        cx: &mut LoadCx<'_>,
        _target: Target,
        room: Room,
    ) -> Result<Turn, Stop> {
        let turn = match home.removing.as_ref().is_some_and(|it| it.survey.is_some()) {
            true => survey(home, cx),
            false => evacuate(home, cx, room.blocks),
        };
        home.tell_removal();
        turn
    }

    /// Returns the progress in blocks.
    fn progress(&self, home: &Home, _target: Target) -> Option<Progress> {
        let info = &home.removing.as_ref()?.info;
        Some(Progress {
            done: info.total_blocks.saturating_sub(info.left_blocks),
            total: info.total_blocks,
            since: Some((info.begun_seconds, 0)),
        })
    }

    fn budget(&self, _home: &Home, regions: u64) -> Budget {
        Budget::PurseUpTo {
            blocks: budget(regions),
        }
    }

    fn frees(&self) -> bool {
        false
    }
}

/// Looks at the next areas, and says how many of their blocks are in use.
fn survey(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<Turn, Stop> {
    for _ in 0..STEP_AREAS {
        let removing = home.removing.as_ref().expect("it has work");
        let Some(column) = removing.survey else {
            break;
        };
        let (extent, area) = column;
        let areas = home.fs.areas[extent].frontier();
        let mut used = 0;
        if area < areas {
            let block = home.fs.map_block_of(column);
            let found = home.fs.score_block(None, cx, block, false);
            let found = found.and_then(|()| used_in(&home.fs, cx, column));
            // What the map does not say may be in use.
            used = unless_damaged(found)?.unwrap_or(home.fs.area_blocks);
        }
        let removing = home.removing.as_mut().expect("as above");
        removing.note(column, used);
        removing.survey = removing.after(column, areas);
    }
    let backed = home.backed_blocks();
    home.aggregate.space.set_backed(backed);
    let (number, seconds) = (home.under_way().number, home.wall_seconds);
    let removing = home.removing.as_mut().expect("as above");
    // When the aggregate was opened, the time of day was not known.
    if removing.info.begun_seconds == 0 {
        removing.info.begun_seconds = seconds;
    }
    if removing.survey.is_none() {
        removing.info.is_surveyed = true;
        removing.info.total_blocks = removing.info.left_blocks;
        removing.at = removing.next_pending(None).map(|column| (column, 0));
        if removing.at.is_none() {
            removing.empty_in = Some(number);
        }
    }
    Ok(Turn::Moved(0))
}

/// Moves some blocks.
fn evacuate(home: &mut Home, cx: &mut LoadCx<'_>, most: u64) -> Result<Turn, Stop> {
    let number = home.under_way().number;
    let removing = home.removing.as_ref().expect("it has work");
    let Some((column, from)) = removing.at else {
        return begin_pass(home);
    };
    let out = move_out(home, cx, column, from, most)?;
    if out.moved > 0 {
        home.begin_bite();
    }
    home.gardener.count_moved(out.moved);
    let removing = home.removing.as_mut().expect("as above");
    removing.moved += out.moved;
    removing.left += out.left;
    if out.moved > 0 {
        removing.moved_in = Some(number);
    }
    removing.at = match out.next {
        Some(next) => Some((column, next)),
        None => removing.next_pending(Some(column)).map(|next| (next, 0)),
    };
    if out.next.is_none() {
        // Nothing can stop now: the map block was read a moment ago, or cannot be read.
        let used = unless_damaged(used_in(&home.fs, cx, column));
        if let Ok(Some(used)) = used {
            home.removing.as_mut().expect("as above").note(column, used);
        }
    }
    Ok(Turn::Moved(out.moved))
}

/// The pass is over: there is another one, or nothing is in use any more.
fn begin_pass(home: &mut Home) -> Result<Turn, Stop> {
    let (number, now) = (home.under_way().number, home.now);
    let removing = home.removing.as_mut().expect("it has work");
    if removing.pending.is_empty() {
        removing.empty_in = Some(number);
        removing.info.stuck_blocks = 0;
        return Ok(Turn::Moved(0));
    }
    if removing.moved_in == Some(number) {
        // Blocks of the aggregate's files leave their places at the end.
        return Ok(Turn::Waits);
    }
    if removing.moved == 0 {
        removing.rests_until = now + RETRY;
    }
    removing.info.stuck_blocks = removing.left;
    (removing.moved, removing.left) = (0, 0);
    removing.at = removing.next_pending(None).map(|column| (column, 0));
    Ok(Turn::Moved(0))
}
