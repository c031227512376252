//! Other names for LUNs and snapshots, and holds that stay.
//!
//! A LUN is its file, not its name: a snapshot keeps the name that it had, a restored LUN the one
//! that it has, and a restored volume has the names of its snapshot again.

use std::collections::BTreeSet;

use everglade_engine::admin::Change;

use super::tasks::Asked;
use super::volume::Task;
use super::{Failure, LUNS, Life, SNAPSHOTS_MAX};
use crate::system::System;

/// Holds on a snapshot at which there are no more.
const HOLDS_MAX: usize = 3;
/// The tag of holds that are made in vain, and may be left by a power cut.
const FLEETING: &str = "t";

impl Life<'_> {
    /// Asks for another name, a hold or its end, now and then. True if it did.
    pub(super) fn draw_name(&mut self, volume: usize) -> bool {
        if !self.plan.names || self.actions == 0 || !self.names.one_in(60) {
            return false;
        }
        let it = &self.known.volumes[volume];
        let name = it.name.clone();
        let snapshots: Vec<String> = it.snapshots.keys().cloned().collect();
        let number = self.known.next_name;
        let kind = self.names.below(8);
        let lun = self.names.index(LUNS);
        let any = self.names.index(snapshots.len().max(1));
        let snapshot = snapshots.get(any).cloned();
        let (task, change, asked) = match (kind, snapshot) {
            (0..3, _) => {
                let to = format!("l{lun}n{number}");
                let change = Change::RenameLun {
                    volume: name,
                    name: it.luns[lun].clone(),
                    to: to.clone(),
                };
                (Task::RenameLun { lun, to }, change, Asked::Task)
            }
            (3..5, Some(from)) if !self.is_being_cloned(volume) => {
                let to = format!("q{number}");
                let change = Change::RenameSnapshot {
                    volume: name,
                    name: from.clone(),
                    to: to.clone(),
                };
                (Task::RenameSnapshot { from, to }, change, Asked::Task)
            }
            (5..7, Some(snapshot)) => {
                let holds = &it.snapshots[&snapshot].holds;
                let last = holds.iter().next_back().cloned();
                let is_end = holds.len() >= HOLDS_MAX || !holds.is_empty() && kind == 6;
                let tag = last
                    .filter(|_| is_end)
                    .unwrap_or_else(|| format!("h{number}"));
                let (of, to) = (snapshot.clone(), tag.clone());
                let change = match is_end {
                    true => Change::ReleaseSnapshot {
                        volume: name,
                        name: of,
                        tag: to,
                    },
                    false => Change::HoldSnapshot {
                        volume: name,
                        name: of,
                        tag: to,
                    },
                };
                let task = Task::Keep {
                    snapshot,
                    tag,
                    is_end,
                };
                (task, change, Asked::Task)
            }
            // Restores the LUN by its name in the snapshot.
            (7, Some(snapshot)) if snapshots.len() < SNAPSHOTS_MAX => {
                let old = it.snapshots[&snapshot].luns[lun].clone();
                if old == it.luns[lun] {
                    return false;
                }
                let change = Change::RestoreLun {
                    volume: name,
                    snapshot,
                    lun: old,
                    safety: format!("s{number}"),
                };
                (Task::Vain, change, Asked::Vain)
            }
            _ => return false,
        };
        self.known.next_name += 1;
        self.known.volumes[volume].task = task;
        self.ask(volume, asked, Some(change));
        true
    }

    /// Records that a request about names succeeded.
    pub(super) fn named(&mut self, volume: usize, task: Task) {
        match task {
            Task::RenameLun { lun, to } => self.known.volumes[volume].luns[lun] = to,
            Task::RenameSnapshot { from, to } => self.rename_shot(volume, &from, to),
            Task::Keep {
                snapshot,
                tag,
                is_end,
            } => {
                let shots = &mut self.known.volumes[volume].snapshots;
                let holds = &mut shots.get_mut(&snapshot).expect("known").holds;
                let is_news = match is_end {
                    true => holds.remove(&tag),
                    false => holds.insert(tag),
                };
                assert!(is_news, "a tag is used once");
            }
            _ => unreachable!("no name"),
        }
    }

    fn rename_shot(&mut self, volume: usize, from: &str, to: String) {
        for (index, other) in self.known.volumes.iter_mut().enumerate() {
            let Some(base) = &mut other.base else {
                continue;
            };
            if base.parent == volume && base.snapshot == from {
                base.snapshot.clone_from(&to);
            }
            if index == volume && base.own == from {
                base.own.clone_from(&to);
            }
        }
        let shots = &mut self.known.volumes[volume].snapshots;
        let shot = shots.remove(from).expect("known");
        shots.insert(to, shot);
    }

    /// A volume was restored: its LUNs are called as they were.
    pub(super) fn take_names_of(&mut self, volume: usize, snapshot: &str) {
        let it = &mut self.known.volumes[volume];
        it.luns.clone_from(&it.snapshots[snapshot].luns);
    }

    /// Determines after a start whether a requested name exists.
    pub(super) fn settle_names(&mut self, volume: usize, task: &Task, listed: &BTreeSet<String>) {
        let is_so = match task {
            Task::RenameLun { to, .. } => {
                let full = format!("{}/{to}", self.known.volumes[volume].name);
                let exports = self.system.target(0).exports();
                exports.iter().any(|export| export.name == full)
            }
            Task::RenameSnapshot { to, .. } => listed.contains(to),
            _ => false,
        };
        if is_so {
            self.named(volume, task.clone());
        }
    }

    /// Checks holds after a start: snapshots are held as before; for a change under way (snapshot
    /// and tag) both states are right.
    pub(super) fn judge_holds(
        &mut self,
        volume: usize,
        under_way: Option<&(String, String)>,
    ) -> Result<(), Failure> {
        let name = self.known.volumes[volume].name.clone();
        for info in self.system.snapshots(&name) {
            let mut there: BTreeSet<String> = info.holds.into_iter().collect();
            there.remove(FLEETING);
            let shot = self.known.volumes[volume].snapshots.get_mut(&info.name);
            let Some(shot) = shot else { continue };
            if let Some((snapshot, tag)) = under_way
                && *snapshot == info.name
            {
                match there.contains(tag) {
                    true => shot.holds.insert(tag.clone()),
                    false => shot.holds.remove(tag),
                };
            }
            if there != shot.holds {
                return Err(Failure::new(format!(
                    "Exports: {name}@{} is held by {there:?}, not {:?}",
                    info.name, shot.holds
                )));
            }
        }
        Ok(())
    }
}
