//! Repairs of aggregates, as administrators begin, stop and see them.

use everglade_api::{Code, Problem, Repair, RepairState};
use everglade_engine::{AggregateInfo, RepairState as Doing, admin};

use super::administrator::Administrator;
use crate::records::course::percent;
use crate::records::repairs::RepairProgress;

fn view(info: &AggregateInfo) -> Repair {
    let repair = &info.mended.repair;
    let failure = info.state.reason();
    let state = match repair.state {
        // The repair has failed and does not continue.
        Doing::Running if failure.is_some() => RepairState::Stopped,
        Doing::None => RepairState::None,
        Doing::Running => RepairState::Running,
        Doing::Done => RepairState::Done,
        Doing::Stopped => RepairState::Stopped,
    };
    let percent = match state {
        RepairState::Done => 100,
        // The estimate may have been too low.
        _ => percent(repair.read_blocks, repair.total_blocks).map_or(0, |percent| percent.min(99)),
    };
    Repair {
        aggregate: info.name.clone(),
        state,
        percent,
        read_blocks: repair.read_blocks,
        total_blocks: repair.total_blocks,
        mended_blocks: repair.mended_blocks,
        damaged_blocks: repair.damaged_blocks,
        damaged: repair.damaged.clone(),
        reason: repair.reason.clone().or(failure.map(str::to_owned)),
        eta_seconds: repair.eta_seconds,
    }
}

impl Administrator {
    /// Returns the progress of the last repair of an aggregate.
    ///
    /// # Errors
    /// The aggregate does not exist, or could not be opened.
    pub fn repair(&self, aggregate: &str) -> Result<Repair, Problem> {
        Ok(view(&self.opened_aggregate(aggregate)?))
    }

    /// Begins a repair. A repair that is running continues.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn start_repair(&self, aggregate: &str) -> Result<RepairProgress, Problem> {
        let id = self.opened_aggregate(aggregate)?.id;
        self.change(id, admin::Change::StartRepair)?;
        tracing::info!("aggregate {aggregate} is being repaired");
        let mut sights = self.repairs().into_iter();
        let found = sights.find(|progress| progress.id == id);
        found.ok_or_else(|| Problem::not_found("aggregate", aggregate).after_change())
    }

    /// Ends a repair early.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn stop_repair(&self, aggregate: &str) -> Result<Repair, Problem> {
        let id = self.opened_aggregate(aggregate)?.id;
        self.change(id, admin::Change::StopRepair)?;
        tracing::info!("the repair of aggregate {aggregate} was stopped");
        self.repair(aggregate).map_err(Problem::after_change)
    }

    /// Returns the repairs of all aggregates that were opened.
    #[must_use]
    pub fn repairs(&self) -> Vec<RepairProgress> {
        let progress = |info: &AggregateInfo| RepairProgress {
            id: info.id,
            repair: view(info),
            failure: info.state.reason().map(str::to_owned),
        };
        self.engine.aggregates().iter().map(progress).collect()
    }

    /// Returns the current name of an aggregate.
    pub(crate) fn name_of_aggregate(&self, id: u32) -> Result<String, Problem> {
        let mut aggregates = self.engine.aggregates().into_iter();
        let found = aggregates.find(|known| known.id == id);
        let gone = || Problem::new(Code::NotFound, "the aggregate of this job was deleted");
        found.map(|known| known.name).ok_or_else(gone)
    }
}
