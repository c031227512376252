//! Write after read: what a client has read in order, and does not lie in order, is written anew in
//! order (H-16).
//!
//! ```text
//! client reads in order ──▶ reads ahead, from devices, many runs in a region ──▶ noted
//! consistency point ──noted region, not worth it, or gone──▶ forgotten
//!                   └─worth it──▶ put in order; what was read just now is in memory still
//! ```
//!
//! The published rule is only "if processor and drives have room for it", and that it is off on
//! flash (H-17). Here it is on for all media, because beside clients it gives way:
//!
//! 1. Only the active image is put in order, and only what was read from devices: who reads from
//!    memory gains nothing.
//! 2. Beside clients it rests as all gardening does ([`crate::home::gardener`]), and it never takes
//!    space that clients need.
//! 3. If one region after another does not lie better afterwards, free space is scattered, too:
//!    then nothing is noted for a while ([`Scattered::pause`]).
//!
//! [`Scattered::pause`]: crate::pool::scattered::Scattered::pause

use everglade_env::Nanos;
use everglade_format::FileId;

use crate::background::mover;
use crate::background::order::{self, Lie};
use crate::background::pass::{Budget, Pass, Room};
use crate::background::split::budget;
use crate::home::aggregate::Home;
use crate::home::ledger::{Target, Turn};
use crate::pool::info::Progress;
use crate::read::load::{LoadCx, Stop};

/// Regions that one step looks at, to find one that is worth it.
const STEP_REGIONS: usize = 32;

/// See the module's documentation.
pub(crate) struct AfterReads;

impl Pass<Home> for AfterReads {
    fn name(&self) -> &'static str {
        "after_read"
    }

    fn has_work(&self, home: &Home, target: Target) -> bool {
        let waiting = |volume| home.aggregate.scattered.first_of(volume);
        target.volume().and_then(waiting).is_some()
    }

    fn has_space(&self, home: &Home) -> bool {
        mover::has_room(home)
    }

    fn due(&self, home: &Home) -> Nanos {
        home.gardener.rests_until()
    }

    fn wants(&self, home: &Home) -> Vec<Target> {
        mover::targets(home, self)
    }

    fn step(
        &self,
        home: &mut Home,
        cx: &mut LoadCx<'_>,
        target: Target,
        _room: Room,
    ) -> Result<Turn, Stop> {
        let id = target.volume().expect("it wants volumes only");
        let turn = step(home, cx, id);
        home.tell_garden();
        turn
    }

    fn progress(&self, _home: &Home, _target: Target) -> Option<Progress> {
        None
    }

    fn budget(&self, _home: &Home, regions: u64) -> Budget {
        let blocks = budget(regions);
        Budget::PurseUpTo { blocks }
    }

    fn frees(&self) -> bool {
        false
    }
}

fn step(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) -> Result<Turn, Stop> {
    if order::is_changing(home, id) {
        return Ok(Turn::Waits);
    }
    for _ in 0..STEP_REGIONS {
        let Some(region) = home.aggregate.scattered.first_of(id) else {
            break;
        };
        let is_there = order::has_lun(home, id, region.lun);
        let lie = match is_there {
            true => Some(Lie::of(home, cx, &region)?),
            false => None,
        };
        let worth = lie.filter(|lie| order::is_worth_it(lie.blocks(), lie.runs));
        let Some(lie) = worth else {
            home.aggregate.scattered.remove(&region);
            continue;
        };
        let (blocks, before) = (lie.blocks(), lie.runs);
        let (moved, after) = order::put_in_order(home, cx, &region, lie)?;
        home.aggregate.scattered.remove(&region);
        let is_vain = home
            .gardener
            .note_after_read(blocks, (before, after), moved);
        if is_vain {
            home.aggregate.scattered.pause(home.now);
        }
        return Ok(Turn::Moved(moved));
    }
    Ok(Turn::Moved(0))
}
