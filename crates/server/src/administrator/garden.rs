//! The garden of aggregates, as administrators see and direct it.

use everglade_api::{
    AfterRead, Clean, Cleaning, Garden, GardeningState, LayoutPart, LunLayout, Moment, Problem,
    PutInOrder, Rebalance,
};
use everglade_engine::{
    AfterReadInfo, AggregateInfo, CleaningInfo, GardeningState as Doing, LayoutInfo,
    LayoutPart as PartInfo, RebalanceInfo, admin,
};
use everglade_format::SPAN;

use super::administrator::{Administrator, host};
use super::units::bytes;
use crate::datadir::Uuid;

/// How far a job is.
pub(super) struct Way {
    pub(super) state: GardeningState,
    pub(super) passed: u64,
    pub(super) total: u64,
    pub(super) begun_seconds: u64,
    pub(super) ended_seconds: Option<u64>,
    pub(super) now: Moment,
}

impl Way {
    pub(super) fn percent(&self) -> u64 {
        let percent = (self.passed * 100).checked_div(self.total);
        match self.state {
            GardeningState::None => 0,
            GardeningState::Done => 100,
            GardeningState::Running | GardeningState::Stopped => percent.unwrap_or(0).min(99),
        }
    }

    fn started(&self) -> Option<String> {
        let is_begun = self.state != GardeningState::None;
        is_begun.then(|| Moment(self.begun_seconds).to_string())
    }

    fn ended(&self) -> Option<String> {
        let ended = self.ended_seconds;
        ended.map(|seconds| Moment(seconds).to_string())
    }

    fn eta_seconds(&self) -> Option<u64> {
        let took = self.now.0.saturating_sub(self.begun_seconds);
        let left = self.total.saturating_sub(self.passed);
        let eta = u128::from(took) * u128::from(left);
        let eta = eta.checked_div(u128::from(self.passed));
        let is_running = self.state == GardeningState::Running;
        eta.filter(|_| is_running)
            .and_then(|eta| u64::try_from(eta).ok())
    }
}

/// A halted aggregate does not go on.
pub(super) fn state(doing: Doing, is_halted: bool) -> GardeningState {
    match doing {
        Doing::Never => GardeningState::None,
        Doing::Running if is_halted => GardeningState::Stopped,
        Doing::Running => GardeningState::Running,
        Doing::Stopped => GardeningState::Stopped,
        Doing::Done => GardeningState::Done,
    }
}

fn cleaning(info: &CleaningInfo, is_halted: bool, now: Moment) -> Cleaning {
    let way = Way {
        state: state(info.state, is_halted),
        passed: info.passed_areas,
        total: info.total_areas,
        begun_seconds: info.begun_seconds,
        ended_seconds: info.ended_seconds,
        now,
    };
    Cleaning {
        state: way.state,
        least_free_percent: info.least_free_percent,
        passed_area_count: info.passed_areas,
        total_area_count: info.total_areas,
        percent: way.percent(),
        cleaned_area_count: info.cleaned_areas,
        moved_bytes: bytes(info.moved_blocks),
        left_block_count: info.left_blocks,
        started: way.started(),
        ended: way.ended(),
        eta_seconds: way.eta_seconds(),
    }
}

fn rebalance(info: &RebalanceInfo, is_halted: bool, now: Moment) -> Rebalance {
    let way = Way {
        state: state(info.state, is_halted),
        passed: info.moved_blocks.min(info.total_blocks),
        total: info.total_blocks,
        begun_seconds: info.begun_seconds,
        ended_seconds: info.ended_seconds,
        now,
    };
    let is_surveyed = info.surveyed_areas >= info.total_areas && info.total_areas > 0;
    let known = |number: u64| is_surveyed.then_some(number);
    Rebalance {
        state: way.state,
        total_bytes: known(bytes(info.total_blocks)),
        moved_bytes: bytes(info.moved_blocks),
        percent: way.percent(),
        fullest_percent: known(info.fullest_percent),
        emptiest_percent: known(info.emptiest_percent),
        left_block_count: info.left_blocks,
        started: way.started(),
        ended: way.ended(),
        eta_seconds: way.eta_seconds(),
    }
}

fn bytes_in_a_run(blocks: u64, runs: u64) -> u64 {
    bytes(blocks).checked_div(runs).unwrap_or(0)
}

fn after_read(info: &AfterReadInfo) -> AfterRead {
    AfterRead {
        waiting_bytes: bytes(info.waiting_blocks),
        passed_bytes: bytes(info.blocks),
        run_count_before: info.runs_before,
        run_count_after: info.runs_after,
        run_bytes_before: bytes_in_a_run(info.blocks, info.runs_before),
        run_bytes_after: bytes_in_a_run(info.blocks, info.runs_after),
        moved_bytes: bytes(info.moved_blocks),
    }
}

fn layout(info: &LayoutInfo, paths: &[String], is_halted: bool, now: Moment) -> LunLayout {
    let way = Way {
        state: state(info.state, is_halted),
        passed: info.passed_regions,
        total: info.total_regions,
        begun_seconds: info.begun_seconds,
        ended_seconds: info.ended_seconds,
        now,
    };
    let in_a_run = |runs| bytes_in_a_run(info.blocks, runs);
    let is_begun = way.state != GardeningState::None;
    LunLayout {
        state: way.state,
        lun: is_begun.then(|| format!("{}/{}", info.volume, info.lun)),
        estimate: info.is_estimate,
        percent: way.percent(),
        stale_pointer_count: info.stale_pointers,
        part_bytes: bytes(info.part_regions * SPAN),
        parts: info.parts.iter().map(|it| part(it, paths)).collect(),
        passed_bytes: bytes(info.blocks),
        run_count_before: info.runs_before,
        run_count_after: info.runs_after,
        run_bytes_before: in_a_run(info.runs_before),
        run_bytes_after: in_a_run(info.runs_after),
        moved_bytes: bytes(info.moved_blocks),
        started: way.started(),
        ended: way.ended(),
        eta_seconds: way.eta_seconds(),
    }
}

/// Returns a part of a LUN for people. `paths`: of all members.
fn part(part: &PartInfo, paths: &[String]) -> LayoutPart {
    let path = |member: u32| paths.get(member as usize).cloned();
    LayoutPart {
        bytes: bytes(part.blocks),
        run_count: part.runs,
        device: part.first.and_then(|(member, _)| path(member)),
        device_offset_bytes: part.first.map(|(_, dbn)| bytes(dbn)),
    }
}

fn view(info: &AggregateInfo, paths: &[String], now: Moment) -> Garden {
    let (garden, is_halted) = (&info.garden, info.state.reason().is_some());
    Garden {
        aggregate: info.name.clone(),
        paused: false,
        window: None,
        waits_for_window: false,
        moved_bytes: bytes(garden.moved_blocks),
        cleaned_area_count: garden.cleaned_areas,
        after_read: after_read(&garden.after_read),
        cleaning: cleaning(&garden.cleaning, is_halted, now),
        rebalance: rebalance(&garden.rebalance, is_halted, now),
        layout: layout(&garden.layout, paths, is_halted, now),
    }
}

impl Administrator {
    /// Pauses gardening in an aggregate, or lets it go on, also after restarts.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn pause_garden(&self, aggregate: &str, is_paused: bool) -> Result<Garden, Problem> {
        self.garden(aggregate)?;
        let mut directory = self.directory();
        let mut state = directory.state().clone();
        let mut recorded = state.aggregates.iter_mut();
        let found = recorded.find(|it| it.name == aggregate);
        let found = found.ok_or_else(|| Problem::not_found("aggregate", aggregate))?;
        found.garden_paused = is_paused;
        let uuid = found.uuid;
        directory.record(state).map_err(|error| host(&error))?;
        drop(directory);
        let mut paused = self.garden_paused.lock();
        if let Some(uuid) = uuid {
            match is_paused {
                true => paused.insert(uuid),
                false => paused.remove(&uuid),
            };
        }
        drop(paused);
        self.settle_gardens();
        let word = if is_paused { "is paused" } else { "goes on" };
        tracing::info!("gardening in aggregate {aggregate} {word}");
        self.garden(aggregate).map_err(Problem::after_change)
    }

    /// Pauses gardening, or lets it go on, as administrators and the time of day want it.
    pub(crate) fn settle_gardens(&self) {
        let is_outside = !self.garden_window.contains(self.now().0);
        let mut is_changed = false;
        for info in self.engine.aggregates() {
            let is_paused = is_outside || self.is_garden_paused(&info);
            is_changed |= self.engine.pause_garden(info.id, is_paused);
        }
        if is_changed {
            self.plane.wake_all();
        }
    }

    /// True if an administrator has paused gardening in an aggregate.
    fn is_garden_paused(&self, info: &AggregateInfo) -> bool {
        let paused = self.garden_paused.lock();
        paused.contains(&Uuid(info.uuid))
    }

    fn view_garden(&self, info: &AggregateInfo) -> Garden {
        let is_limited = self.garden_window.is_limited();
        Garden {
            paused: self.is_garden_paused(info),
            window: is_limited.then(|| self.garden_window.to_string()),
            waits_for_window: !self.garden_window.contains(self.now().0),
            ..view(info, &self.paths_of(info, |_| true), self.now())
        }
    }

    /// Returns what the garden of an aggregate is like.
    ///
    /// # Errors
    /// The aggregate does not exist, or could not be opened.
    pub fn garden(&self, aggregate: &str) -> Result<Garden, Problem> {
        let info = self.opened_aggregate(aggregate)?;
        Ok(self.view_garden(&info))
    }

    /// Begins to empty areas, or goes on with another limit.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn clean(&self, aggregate: &str, request: Clean) -> Result<Garden, Problem> {
        let least_free_percent = request.percent();
        let change = admin::Change::StartCleaning { least_free_percent };
        let garden = self.change_garden(aggregate, change)?;
        tracing::info!(
            "areas of aggregate {aggregate} are emptied of which {least_free_percent} % are free"
        );
        Ok(garden)
    }

    /// Begins to make the devices of an aggregate about equally full.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn rebalance(&self, aggregate: &str) -> Result<Garden, Problem> {
        let garden = self.change_garden(aggregate, admin::Change::StartRebalance)?;
        tracing::info!("blocks of aggregate {aggregate} move to its emptier devices");
        Ok(garden)
    }

    /// Ends all work in the garden of an aggregate.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn stop_gardening(&self, aggregate: &str) -> Result<Garden, Problem> {
        let garden = self.change_garden(aggregate, admin::Change::StopGardening)?;
        tracing::info!("gardening in aggregate {aggregate} was stopped");
        Ok(garden)
    }

    /// Begins to put a LUN in order.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn put_in_order(
        &self,
        (volume, lun): (&str, &str),
        request: PutInOrder,
    ) -> Result<Garden, Problem> {
        self.lun(volume, lun)?;
        let home = self.volume(volume)?.aggregate;
        let change = admin::Change::StartLayout {
            volume: volume.to_owned(),
            lun: lun.to_owned(),
            is_estimate: request.estimate,
        };
        let garden = self.change_garden(&home, change)?;
        tracing::info!("LUN {volume}/{lun} is put in order");
        Ok(garden)
    }

    fn change_garden(&self, aggregate: &str, change: admin::Change) -> Result<Garden, Problem> {
        let info = self.opened_aggregate(aggregate)?;
        self.change(info.id, change)?;
        self.garden(aggregate).map_err(Problem::after_change)
    }
}
