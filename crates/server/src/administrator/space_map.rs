//! Space maps of aggregates, for people: areas become cells of devices.

use everglade_api::{FreeRuns, MappedDevice, Moment, Problem, SpaceMap};
use everglade_engine::{AggregateInfo, ExtentMap, SpaceMap as Counted, admin};

use super::administrator::Administrator;
use super::garden::{Way, state};
use super::units::bytes;

/// Cells of a device: as many as a screen has room for.
const CELLS_MAX: usize = 256;

impl Administrator {
    /// Returns the last space map of an aggregate, and how far the next one is.
    ///
    /// # Errors
    /// The aggregate does not exist, or could not be opened.
    pub fn space_map(&self, aggregate: &str) -> Result<SpaceMap, Problem> {
        let info = self.opened_aggregate(aggregate)?;
        let paths = self.paths_of(&info, |_| true);
        Ok(view(&info, &paths, self.now()))
    }

    /// Begins to make a space map.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn map_space(&self, aggregate: &str) -> Result<SpaceMap, Problem> {
        let info = self.opened_aggregate(aggregate)?;
        self.change(info.id, admin::Change::MapSpace)?;
        self.space_map(aggregate).map_err(Problem::after_change)
    }
}

fn view(info: &AggregateInfo, paths: &[String], now: Moment) -> SpaceMap {
    let map = &info.garden.space_map;
    let way = Way {
        state: state(map.state, info.state.reason().is_some()),
        passed: map.counted_areas,
        total: map.total_areas,
        begun_seconds: map.begun_seconds,
        ended_seconds: None,
        now,
    };
    let last = map.last.as_deref().map(|it| counted(it, paths));
    SpaceMap {
        aggregate: info.name.clone(),
        state: way.state,
        percent: way.percent(),
        ..last.unwrap_or_default()
    }
}

/// Returns a finished map. `paths`: of all members.
fn counted(map: &Counted, paths: &[String]) -> SpaceMap {
    let areas = map.extents.iter().flat_map(|extent| &extent.used);
    let used: u64 = areas.flatten().copied().map(u64::from).sum();
    let free: u64 = map.free_runs.iter().map(|it| it.blocks).sum();
    let runs = map.free_runs.iter().enumerate();
    let runs = runs.filter(|(_, it)| it.runs > 0);
    SpaceMap {
        counted: Some(Moment(map.counted_seconds).to_string()),
        area_bytes: bytes(map.area_blocks),
        used_bytes: bytes(used),
        free_bytes: bytes(free),
        devices: devices(map, paths),
        free_runs: runs
            .map(|(class, it)| FreeRuns {
                least_bytes: bytes(1 << class),
                run_count: it.runs,
                bytes: bytes(it.blocks),
            })
            .collect(),
        free_stripe_count: map.stripes.map(|it| it.free),
        whole_stripe_count: map.stripes.map(|it| it.whole),
        ..SpaceMap::default()
    }
}

fn devices(map: &Counted, paths: &[String]) -> Vec<MappedDevice> {
    let mut members: Vec<u32> = map.extents.iter().map(|it| it.member).collect();
    members.sort_unstable();
    members.dedup();
    let device = |member: u32| {
        let mut extents: Vec<&ExtentMap> = map.extents.iter().collect();
        extents.retain(|it| it.member == member && !it.used.is_empty());
        extents.sort_by_key(|it| it.first_dbn);
        let areas: Vec<Option<u32>> = extents.iter().flat_map(|it| it.used.clone()).collect();
        let of_cell = areas.len().div_ceil(CELLS_MAX).max(1);
        let path = paths.get(member as usize)?;
        let cells = areas.chunks(of_cell);
        (!areas.is_empty()).then(|| MappedDevice {
            path: path.clone(),
            cell_bytes: bytes(map.area_blocks * of_cell as u64),
            cells: cells.map(|cell| percent(cell, map.area_blocks)).collect(),
        })
    };
    members.into_iter().filter_map(device).collect()
}

/// How much of some areas is in use; 0 only if nothing is, and 100 only if all of it is.
fn percent(areas: &[Option<u32>], area_blocks: u64) -> Option<u8> {
    let used: Option<u64> = areas.iter().map(|it| it.map(u64::from)).sum();
    let (used, whole) = (used?, areas.len() as u64 * area_blocks);
    let percent = (used * 100).checked_div(whole)?;
    let percent = match used {
        0 => 0,
        _ if used >= whole => 100,
        _ => percent.clamp(1, 99),
    };
    u8::try_from(percent).ok()
}

#[cfg(test)]
mod tests {
    use everglade_engine::{FreeRuns as Runs, StripesMap};

    use super::*;

    #[test]
    fn areas_become_cells_of_their_devices() {
        let extent = |member, first_dbn, used: Vec<Option<u32>>| ExtentMap {
            member,
            first_dbn,
            used,
        };
        let map = Counted {
            counted_seconds: 0,
            area_blocks: 512,
            extents: vec![
                extent(2, 9_000, vec![Some(512)]),
                extent(0, 0, vec![Some(1); 300]),
                extent(2, 100, vec![Some(0), Some(511), None]),
                extent(3, 0, Vec::new()),
            ],
            free_runs: vec![Runs { runs: 2, blocks: 2 }, Runs::default()],
            stripes: Some(StripesMap { free: 8, whole: 2 }),
        };
        let paths = ["/d/0", "/d/1", "/d/2", "/d/3"].map(str::to_owned);
        let shown = counted(&map, &paths);
        let cells = |at: usize| shown.devices[at].cells.as_slice();
        assert_eq!(shown.devices.len(), 2, "those with areas");
        assert_eq!((cells(0).len(), cells(0)[0]), (150, Some(1)));
        assert_eq!(shown.devices[0].cell_bytes, 2 * 512 * 4096);
        assert_eq!(shown.devices[1].path, "/d/2");
        assert_eq!(cells(1), [Some(0), Some(99), None, Some(100)]);
        assert_eq!(shown.used_bytes, (512 + 300 + 511) * 4096);
        assert_eq!((shown.free_bytes, shown.free_runs.len()), (2 * 4096, 1));
        assert_eq!(shown.run_bytes(), Some(4096));
        assert_eq!(shown.whole_stripe_percent(), Some(25));
    }
}
