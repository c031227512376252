//! Scrubs of aggregates, as administrators begin, pause and see them.

use everglade_api::{CatchingUp, Moment, Problem, Scrub, ScrubState};
use everglade_engine::{AggregateInfo, ScrubState as Doing, admin};

use super::administrator::Administrator;
use super::units::bytes;

fn view(info: &AggregateInfo, now: Moment) -> Scrub {
    let scrub = &info.scrub;
    let state = match scrub.state {
        Doing::Never => ScrubState::None,
        // A halted aggregate does not go on.
        Doing::Running if info.state.reason().is_some() => ScrubState::Paused,
        Doing::Running => ScrubState::Running,
        Doing::Paused => ScrubState::Paused,
        Doing::Done => ScrubState::Done,
    };
    let until = scrub.ended_seconds.unwrap_or(now.0);
    let (passed, total) = (bytes(scrub.passed_blocks), bytes(scrub.total_blocks));
    let progress = CatchingUp::of(passed, total, until.saturating_sub(scrub.begun_seconds));
    let is_running = state == ScrubState::Running;
    Scrub {
        aggregate: info.name.clone(),
        state,
        passed_bytes: passed,
        total_bytes: total,
        percent: match state {
            ScrubState::Done => 100,
            _ => progress.percent.min(99),
        },
        read_copy_count: scrub.read_copies,
        wrong_block_count: scrub.wrong_blocks,
        lost_block_count: scrub.lost_blocks,
        started: (state != ScrubState::None).then(|| Moment(scrub.begun_seconds).to_string()),
        ended: scrub
            .ended_seconds
            .map(|seconds| Moment(seconds).to_string()),
        bytes_per_second: progress.bytes_per_second,
        eta_seconds: progress.eta_seconds.filter(|_| is_running),
    }
}

impl Administrator {
    /// Returns the progress of the last scrub of an aggregate.
    ///
    /// # Errors
    /// The aggregate does not exist, or could not be opened.
    pub fn scrub(&self, aggregate: &str) -> Result<Scrub, Problem> {
        self.refuse_unavailable(aggregate)?;
        let info = self.find_aggregate(aggregate);
        let info = info.ok_or_else(|| Problem::not_found("aggregate", aggregate))?;
        Ok(view(&info, self.now()))
    }

    /// Begins a scrub; one that is paused or under way goes on.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn start_scrub(&self, aggregate: &str) -> Result<Scrub, Problem> {
        self.change_scrub(aggregate, admin::Change::StartScrub)
    }

    /// Lets a scrub wait.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn pause_scrub(&self, aggregate: &str) -> Result<Scrub, Problem> {
        self.change_scrub(aggregate, admin::Change::PauseScrub)
    }

    fn change_scrub(&self, aggregate: &str, change: admin::Change) -> Result<Scrub, Problem> {
        self.scrub(aggregate)?;
        let info = self.find_aggregate(aggregate);
        let info = info.ok_or_else(|| Problem::not_found("aggregate", aggregate))?;
        self.change(info.id, change)?;
        let scrub = self.scrub(aggregate).map_err(Problem::after_change)?;
        tracing::info!("the scrub of aggregate {aggregate} is {}", scrub.state);
        Ok(scrub)
    }
}
