//! Space map: the areas of an aggregate are counted, because an administrator asked for it (H-01).
//!
//! It reads the active map and changes nothing, so it needs no space, and a pause of the gardening
//! does not stop it. It is in memory only.

use crate::alloc::filesystem::FileSystem;
use crate::background::mover::unless_damaged;
use crate::background::pass::{Pass, Room};
use crate::home::aggregate::Home;
use crate::home::ledger::{Target, Turn};
use crate::home::space_map::Bits;
use crate::pool::info::Progress;
use crate::read::load::{Gather, LoadCx, Stop};

/// Areas that one step counts.
const STEP_AREAS: usize = 4;

/// See the module's documentation.
pub(crate) struct SpaceMaps;

impl Pass<Home> for SpaceMaps {
    fn name(&self) -> &'static str {
        "space map"
    }

    fn has_work(&self, home: &Home, target: Target) -> bool {
        target == Target::Aggregate && home.gardener.to_count().is_some()
    }

    fn wants(&self, home: &Home) -> Vec<Target> {
        let target = Target::Aggregate;
        self.has_work(home, target)
            .then_some(target)
            .into_iter()
            .collect()
    }

    fn step(
        &self,
        home: &mut Home,
        cx: &mut LoadCx<'_>,
        _target: Target,
        _room: Room,
    ) -> Result<Turn, Stop> {
        for _ in 0..STEP_AREAS {
            let Some(at) = home.gardener.to_count() else {
                break;
            };
            let mut gather = Gather::default();
            let mut columns = Vec::new();
            for column in home.fs.columns_with(at.extent) {
                let bits = gather.add(bits_of(&home.fs, cx, (column, at.area)));
                columns.extend(bits.map(|bits| (column, bits)));
            }
            gather.finish()?;
            home.gardener.counted(at, &columns, home.wall_seconds);
        }
        home.tell_garden();
        Ok(Turn::Moved(0))
    }

    /// Returns the progress in areas.
    fn progress(&self, home: &Home, target: Target) -> Option<Progress> {
        self.has_work(home, target).then_some(())?;
        let info = &home.gardener.info().space_map;
        Some(Progress {
            done: info.counted_areas,
            total: info.total_areas,
            since: Some((info.begun_seconds, 0)),
        })
    }

    fn frees(&self) -> bool {
        false
    }
}

/// Returns what the active map says of an area.
fn bits_of(fs: &FileSystem, cx: &mut LoadCx<'_>, column: (usize, u64)) -> Result<Bits, Stop> {
    let (extent, area) = column;
    if area >= fs.areas[extent].frontier() {
        return Ok(Bits::Unused);
    }
    Ok(match unless_damaged(fs.bits_of(cx, column))? {
        None => Bits::Unreadable,
        Some(None) => Bits::Unused,
        Some(Some((leaf, from))) => Bits::Known(Box::new(*leaf.bytes()), from),
    })
}
