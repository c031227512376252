//! Layout: a LUN is put in order, because an administrator asked for it (H-15).
//!
//! Its regions are passed one by one, and those that are worth it are put in [`order`]. In the
//! others, pointers to former places are corrected (B-11).
//!
//! It is a job of its aggregate's gardener, in memory only. After a restart, the regions that were
//! put in order are in order.

use everglade_env::Nanos;
use everglade_format::{FileId, Pvbn, SPAN};

use crate::background::mover;
use crate::background::order::{self, Lie};
use crate::background::pass::{Budget, Pass, Room};
use crate::background::split::budget;
use crate::home::aggregate::Home;
use crate::home::ledger::{Target, Turn};
use crate::pool::garden::GardeningState;
use crate::pool::info::Progress;
use crate::pool::scattered::Region;
use crate::read::load::{LoadCx, Stop};

/// Regions that one step looks at, to find one that is worth it.
const STEP_REGIONS: usize = 32;

/// See the module's documentation.
pub(crate) struct Layouts;

impl Pass<Home> for Layouts {
    fn name(&self) -> &'static str {
        "layout"
    }

    fn has_work(&self, home: &Home, target: Target) -> bool {
        let job = home.gardener.layout();
        job.is_some_and(|job| target == Target::Volume(job.volume))
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

    /// Returns the progress in regions.
    fn progress(&self, home: &Home, target: Target) -> Option<Progress> {
        self.has_work(home, target).then_some(())?;
        let info = &home.gardener.info().layout;
        Some(Progress {
            done: info.passed_regions,
            total: info.total_regions,
            since: Some((info.begun_seconds, 0)),
        })
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
    let seconds = home.wall_seconds;
    for _ in 0..STEP_REGIONS {
        let Some(job) = home.gardener.layout().copied() else {
            return Ok(Turn::Moved(0));
        };
        if order::is_changing(home, id) {
            return Ok(Turn::Waits);
        }
        if !order::has_lun(home, id, job.lun) {
            home.gardener.end_layout(GardeningState::Stopped, seconds);
            return Ok(Turn::GaveUp);
        }
        let file = &home.volumes[&id].fs.files[&job.lun];
        if job.next >= file.inode.block_count().div_ceil(SPAN) {
            home.gardener.end_layout(GardeningState::Done, seconds);
            return Ok(Turn::Moved(0));
        }
        let region = Region {
            volume: job.volume,
            lun: job.lun,
            index: job.next,
        };
        let lie = Lie::of(home, cx, &region)?;
        let (blocks, runs) = (lie.blocks(), lie.runs);
        if job.is_estimate {
            let first = lie.first().and_then(|pvbn| device_block(home, pvbn));
            home.gardener.note_part(blocks, runs, first);
        }
        let stale = lie.stale();
        let is_worth_it = order::is_worth_it(blocks, runs);
        let changes = !job.is_estimate && (is_worth_it || stale > 0);
        let (moved, after) = match changes {
            true if is_worth_it => order::put_in_order(home, cx, &region, lie)?,
            true => {
                order::correct(home, cx, &region, &lie)?;
                (0, runs)
            }
            false => (0, runs),
        };
        home.gardener.note_stale(stale);
        home.gardener.pass_region(blocks, (runs, after), moved);
        if changes {
            return Ok(Turn::Moved(moved));
        }
    }
    Ok(Turn::Moved(0))
}

/// Returns where a block is: the member, and the block of its device.
fn device_block(home: &Home, pvbn: Pvbn) -> Option<(u32, u64)> {
    let layout = home.aggregate.media.layout();
    let mut extents = layout.config.extents.iter();
    let extent = extents.find(|it| (it.base..it.base + it.length).contains(&pvbn.0))?;
    Some((extent.member, extent.first_dbn.0 + pvbn.0 - extent.base))
}
