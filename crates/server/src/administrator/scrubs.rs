//! Scrubs of aggregates, as administrators begin, pause and see them.
//!
//! The engine forgets a scrub when an aggregate is closed. What is kept in the aggregate's notes
//! ([`Scrubbed`]) says then how far it was; [`super::scrub_rounds`] keeps that.

use everglade_api::{CatchingUp, Moment, Problem, Scrub, ScrubState};
use everglade_engine::{AggregateInfo, ScrubInfo, ScrubState as Doing, admin};

use super::administrator::Administrator;
use super::units::bytes;
use crate::schedule::{Scrubbed, Stage};

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
    let total = bytes(scrub.total_blocks);
    let all = CatchingUp::of(bytes(scrub.passed_blocks), total, 0);
    // A rest in between says nothing of the pace.
    let resumed = bytes(scrub.resumed_blocks);
    let pace = CatchingUp::of(
        all.passed_bytes.saturating_sub(resumed),
        total.saturating_sub(resumed),
        until.saturating_sub(scrub.resumed_seconds),
    );
    let is_running = state == ScrubState::Running;
    Scrub {
        aggregate: info.name.clone(),
        state,
        passed_bytes: all.passed_bytes,
        total_bytes: total,
        percent: match state {
            ScrubState::Done => 100,
            _ => all.percent.min(99),
        },
        read_copy_count: scrub.read_copies,
        wrong_block_count: scrub.wrong_blocks,
        lost_block_count: scrub.lost_blocks,
        started: (state != ScrubState::None).then(|| Moment(scrub.begun_seconds).to_string()),
        ended: scrub
            .ended_seconds
            .map(|seconds| Moment(seconds).to_string()),
        next: None,
        bytes_per_second: pace.bytes_per_second,
        eta_seconds: pace.eta_seconds.filter(|_| is_running),
    }
}

impl Scrubbed {
    /// Returns what is to be kept of a scrub; `None` if there was none since the aggregate was
    /// opened.
    pub(super) fn of(info: &AggregateInfo) -> Option<Scrubbed> {
        let scrub = &info.scrub;
        let stage = match scrub.state {
            Doing::Never => return None,
            Doing::Running => Stage::Running,
            Doing::Paused => Stage::Paused,
            Doing::Done => Stage::Done,
        };
        Some(Scrubbed {
            stage,
            begun: scrub.begun_seconds,
            ended: scrub.ended_seconds,
            read_blocks: scrub.read_blocks,
            total_blocks: scrub.total_blocks,
            read_copies: scrub.read_copies,
            wrong_blocks: scrub.wrong_blocks,
            lost_blocks: scrub.lost_blocks,
            home: Some(info.id),
        })
    }

    /// Returns the scrub as the engine has it.
    fn info(&self) -> ScrubInfo {
        ScrubInfo {
            state: match self.stage {
                Stage::None => Doing::Never,
                Stage::Running => Doing::Running,
                Stage::Paused => Doing::Paused,
                Stage::Done => Doing::Done,
            },
            passed_blocks: self.read_blocks,
            total_blocks: self.total_blocks,
            read_blocks: self.read_blocks,
            read_copies: self.read_copies,
            wrong_blocks: self.wrong_blocks,
            lost_blocks: self.lost_blocks,
            begun_seconds: self.begun,
            ended_seconds: self.ended,
            ..ScrubInfo::default()
        }
    }

    /// Returns when the next scrub is due; `None` if one is under way or paused.
    pub(super) fn next(&self, interval: u64) -> Option<u64> {
        let is_over = matches!(self.stage, Stage::None | Stage::Done);
        is_over.then(|| self.begun.saturating_add(interval))
    }
}

impl Administrator {
    /// Returns the progress of the last scrub of an aggregate.
    ///
    /// # Errors
    /// The aggregate does not exist, or could not be opened.
    pub fn scrub(&self, aggregate: &str) -> Result<Scrub, Problem> {
        let mut info = self.opened_aggregate(aggregate)?;
        let known = Scrubbed::of(&info).or_else(|| self.schedule().scrubbed(info.id));
        if info.scrub.state == Doing::Never
            && let Some(kept) = &known
        {
            info.scrub = kept.info();
        }
        let interval = self.scrub_interval;
        let next = known.filter(|_| interval > 0);
        let next = next.and_then(|known| known.next(interval));
        Ok(Scrub {
            next: next.map(|seconds| Moment(seconds).to_string()),
            ..view(&info, self.now())
        })
    }

    /// Begins a scrub; one that is paused, under way, or was so at the last stop goes on.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn start_scrub(&self, aggregate: &str) -> Result<Scrub, Problem> {
        let info = self.find_aggregate(aggregate);
        let kept = info.and_then(|info| self.schedule().scrubbed(info.id));
        let unfinished = kept.filter(|kept| matches!(kept.stage, Stage::Running | Stage::Paused));
        let earlier = unfinished.map(|kept| admin::EarlierScrub {
            read_blocks: kept.read_blocks,
            read_copies: kept.read_copies,
            wrong_blocks: kept.wrong_blocks,
            lost_blocks: kept.lost_blocks,
            begun_seconds: kept.begun,
        });
        self.change_scrub(aggregate, admin::Change::StartScrub { earlier })
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
