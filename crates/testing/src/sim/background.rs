//! Background work under way when the power fails: proof that a simulation's cuts interrupted it.

use everglade_engine::SplitState;

use crate::counts::counts;
use crate::engine::EngineSystem;
use crate::system::System;

/// Background work that takes many consistency points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// Blocks of a safety snapshot go into the summary map.
    Fold,
    /// Deleted snapshots' blocks leave the summary map.
    Subtraction,
    /// The summary map is made anew from the snapshots that stay.
    Addition,
    /// Blocks without holders are freed.
    Release,
    /// A LUN is cloned.
    LunClone,
    /// A clone of a volume gets blocks of its own.
    Split,
    /// Areas are emptied.
    Cleaning,
    /// A LUN is put in order.
    Layout,
    /// What was read in order is put in order.
    AfterRead,
    /// Members are evacuated.
    Removal,
    /// Devices are made about equally full.
    Rebalance,
}

impl Background {
    /// All kinds of background work.
    pub const ALL: [Background; 11] = [
        Background::Fold,
        Background::Subtraction,
        Background::Addition,
        Background::Release,
        Background::LunClone,
        Background::Split,
        Background::Cleaning,
        Background::Layout,
        Background::AfterRead,
        Background::Removal,
        Background::Rebalance,
    ];

    /// Returns the name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Background::Fold => "fold",
            Background::Subtraction => "subtraction",
            Background::Addition => "addition",
            Background::Release => "release",
            Background::LunClone => "lun_clone",
            Background::Split => "split",
            Background::Cleaning => "cleaning",
            Background::Layout => "layout",
            Background::AfterRead => "after_read",
            Background::Removal => "removal",
            Background::Rebalance => "rebalance",
        }
    }

    /// Returns the background work under way.
    pub(super) fn of(system: &EngineSystem) -> Vec<Background> {
        let mut all = Vec::new();
        all.extend(system.is_cleaning().then_some(Background::Cleaning));
        all.extend(system.is_ordering().then_some(Background::Layout));
        all.extend(system.writes_after_read().then_some(Background::AfterRead));
        all.extend(system.is_evacuating().then_some(Background::Removal));
        all.extend(system.is_rebalancing().then_some(Background::Rebalance));
        for volume in system.volumes().unwrap_or_default() {
            let scan = system.scan(&volume);
            all.extend(match (scan.kind, scan.way) {
                ("fold", _) => Some(Background::Fold),
                ("delete", Some("addition")) => Some(Background::Addition),
                ("delete", _) => Some(Background::Subtraction),
                ("release", _) => Some(Background::Release),
                _ => None,
            });
            let clone = system.lun_clone(&volume);
            let is_cloning = clone.is_some_and(|clone| clone.failed.is_none());
            all.extend(is_cloning.then_some(Background::LunClone));
            let is_copying = system.split(&volume).state == SplitState::Copying;
            all.extend(is_copying.then_some(Background::Split));
        }
        all
    }
}

counts! {
    /// Number of cuts during each kind of background work.
    PerBackground of Background
}

impl PerBackground {
    pub(super) fn count(&mut self, met: Vec<Background>) {
        for one in met {
            self[one] += 1;
        }
    }
}
