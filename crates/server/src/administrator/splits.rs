//! Splits of clones, as administrators begin, stop and see them (B-10).

use everglade_api::{Problem, Split, SplitState};
use everglade_engine::{SplitInfo, SplitState as Doing, VolumeInfo, admin};

use super::administrator::Administrator;
use super::units::bytes;
use crate::records::course::percent;
use crate::records::splits::Splitting;

/// Returns the state of a split in the interface's terms, and the reason why it waits.
fn state_of(info: &SplitInfo) -> (SplitState, Option<&'static str>) {
    match info.state {
        Doing::None => (SplitState::None, None),
        Doing::Copying => (SplitState::Copying, None),
        Doing::WaitingForSpace => (SplitState::Waiting, Some("space")),
        Doing::WaitingForOther => (SplitState::Waiting, Some("another split")),
        Doing::Stopped => (SplitState::Stopped, None),
        Doing::Done => (SplitState::Done, None),
    }
}

fn view(info: VolumeInfo) -> Split {
    let split = info.split;
    let (state, waits_for) = state_of(&split);
    let percent = match percent(split.done_blocks, split.total_blocks) {
        Some(percent) => percent,
        None if state == SplitState::Done => 100,
        None => 0,
    };
    Split {
        volume: info.name,
        clone_of: info.base,
        state,
        waits_for: waits_for.map(str::to_owned),
        percent,
        total_bytes: bytes(split.total_blocks),
        done_bytes: bytes(split.done_blocks),
        eta_seconds: split.eta_seconds,
    }
}

impl Administrator {
    /// Returns the progress of a volume's split.
    ///
    /// # Errors
    /// No volume has this name.
    pub fn split(&self, volume: &str) -> Result<Split, Problem> {
        let volumes = self.engine.volumes();
        let info = volumes.into_iter().find(|known| known.name == volume);
        info.map(view)
            .ok_or_else(|| Problem::not_found("volume", volume))
    }

    /// Begins a split, or continues a split that was stopped.
    ///
    /// # Errors
    /// If the split could not begin. Then nothing was changed.
    pub fn start_split(&self, volume: &str) -> Result<Splitting, Problem> {
        let id = self.id_of(volume)?;
        // A small split may be done already; then its total is unknown.
        let total_bytes = self.split(volume)?.total_bytes;
        let name = volume.to_owned();
        self.change(id.aggregate, admin::Change::StartSplit { volume: name })?;
        tracing::info!("clone {volume} is being split");
        let mut splits = self.splits().into_iter();
        let found = splits.find(|known| known.id == id);
        let mut begun = found.ok_or_else(|| Problem::not_found("volume", volume).after_change())?;
        begun.split.total_bytes = total_bytes;
        Ok(begun)
    }

    /// Stops a split. Blocks that it has copied stay copied.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn stop_split(&self, volume: &str) -> Result<Split, Problem> {
        let name = volume.to_owned();
        self.change_in(volume, admin::Change::StopSplit { volume: name })?;
        tracing::info!("the split of clone {volume} was stopped");
        self.split(volume).map_err(Problem::after_change)
    }

    /// Splits that were ever begun.
    #[must_use]
    pub fn splits(&self) -> Vec<Splitting> {
        let aggregates = self.engine.aggregates();
        let failure = |name: &str| {
            let found = aggregates.iter().find(|known| known.name == name)?;
            found.state.reason().map(str::to_owned)
        };
        let volumes = self.engine.volumes().into_iter();
        let begun = volumes.filter(|known| known.split.state != Doing::None);
        let splitting = |known: VolumeInfo| Splitting {
            id: known.id,
            failure: failure(&known.aggregate),
            split: view(known),
        };
        begun.map(splitting).collect()
    }
}
