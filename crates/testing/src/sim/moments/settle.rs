//! The state after a start: all durable changes whole, and each change under way whole or not at
//! all.

use std::collections::BTreeSet;

use super::track::{Seen, Track};
use super::volume::{After, Before, Goal, Task};
use super::{Failure, LUNS, Life};
use crate::system::System;

impl Life<'_> {
    /// Compares all volumes with the known states after a start, and takes the states that it finds
    /// as known. Returns false if the power failed.
    pub(super) fn settle(&mut self) -> Result<bool, Failure> {
        self.actions = 0;
        // Tasks under way end with the life.
        let volumes = self.known.volumes.iter_mut();
        let tasks: Vec<Task> = volumes
            .map(|volume| {
                (volume.asked, volume.reads) = (0, 0);
                std::mem::take(&mut volume.task)
            })
            .collect();
        for (volume, task) in tasks.into_iter().enumerate() {
            if !self.settle_volume(volume, task)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn settle_volume(&mut self, volume: usize, task: Task) -> Result<bool, Failure> {
        let all = self.system.volumes().unwrap_or_default();
        if let Task::Rename { to } = &task
            && all.contains(to)
        {
            // Clients with the volume open use its handle; in the next life there are none.
            self.known.volumes[volume].name.clone_from(to);
        }
        let name = self.known.volumes[volume].name.clone();
        let exists = all.contains(&name);
        let infos = self.system.snapshots(&name);
        let listed: BTreeSet<String> = infos.into_iter().map(|info| info.name).collect();
        self.settle_names(volume, &task, &listed);
        let kept = match &task {
            Task::Keep { snapshot, tag, .. } => Some((snapshot.clone(), tag.clone())),
            _ => None,
        };
        let restored = match task {
            Task::Rebuild { .. } => return Ok(self.begin_anew(volume)),
            Task::Clone(_) if !exists => return Ok(self.begin_anew(volume)),
            Task::Clone(base) => {
                self.begin_clone(volume, base);
                None
            }
            Task::Raze { .. } if !exists => {
                self.expect_no_holds(volume);
                return Ok(self.begin_anew(volume));
            }
            Task::Raze { restore: Some(it) } if listed.contains(&it.1) => {
                self.add_shot(volume, &it.1, &it.2);
                self.take_names_of(volume, &it.0);
                Some(Goal {
                    target: it.0,
                    before: Before::Safety(it.1),
                    lun: None,
                })
            }
            Task::Restore { goal, least } if goal.is_reached(&listed) => {
                self.restored(volume, &goal, &least);
                Some(goal)
            }
            Task::Restore { .. } if self.known.volumes[volume].shown.is_some() => {
                return Err(Failure::new(format!(
                    "Durable: a client saw the target of a restore of {name}, which has not \
                    happened"
                )));
            }
            Task::Drain(goal)
            | Task::Seal { goal, .. }
            | Task::Look {
                after: After::Safety(goal) | After::Restored(goal),
            } => Some(goal),
            Task::Create { name, least } if listed.contains(&name) => {
                self.add_shot(volume, &name, &least);
                None
            }
            Task::Delete { names } => {
                let gone = names.iter().filter(|name| !listed.contains(*name));
                for name in gone {
                    self.known.volumes[volume].snapshots.remove(name);
                }
                None
            }
            _ => None,
        };
        if !exists {
            // The first life builds it.
            return match self.known.clients.iter().all(|it| it.track.floor == 0) {
                true if self.known.volumes[volume].snapshots.is_empty() => {
                    Ok(self.begin_anew(volume))
                }
                _ => Err(Failure::new(format!("Exports: volume {name} is gone"))),
            };
        }
        let expected: BTreeSet<String> = self.known.volumes[volume]
            .snapshots
            .keys()
            .cloned()
            .collect();
        if listed != expected {
            return Err(Failure::new(format!(
                "Exports: {name} has snapshots {listed:?}, not {expected:?}"
            )));
        }
        self.judge_holds(volume, kept.as_ref())?;
        if !self.see_clones(volume)? {
            return Ok(false);
        }
        self.see_splits();
        self.judge_all(volume, restored)
    }

    fn judge_all(&mut self, volume: usize, restored: Option<Goal>) -> Result<bool, Failure> {
        let mut from = match &restored {
            Some(goal) if matches!(goal.before, Before::Discarded(_)) => {
                Some((goal.clone(), self.known.volumes[volume].from.clone()))
            }
            _ => None,
        };
        let names: Vec<String> = self.known.volumes[volume]
            .snapshots
            .keys()
            .cloned()
            .collect();
        for name in names {
            let Some(seen) = self.see(volume, Some(&name))? else {
                return Ok(false);
            };
            let counts = self
                .judge_shot(volume, &name, &seen)
                .map_err(Failure::new)?;
            if let Some(goal) = &restored
                && goal.is_safety(&name)
            {
                // A safety snapshot that was read before belongs to a restore that is over.
                let counts = match counts.is_empty() {
                    true => self.known.volumes[volume].from.clone(),
                    false => counts,
                };
                from = Some((goal.clone(), counts));
            }
            if seen.iter().flatten().any(Option::is_none) {
                self.is_failed = true;
            }
        }
        let Some(seen) = self.see(volume, None)? else {
            return Ok(false);
        };
        let restored = from.as_ref().map(|(goal, from)| (goal, from.as_slice()));
        if self.is_failed || seen.iter().flatten().any(Option::is_none) {
            // Unreadable blocks prove nothing; readable blocks must be right.
            self.is_failed = true;
            if restored.is_none() {
                self.judge_active(volume, restored, false, &seen)
                    .map_err(Failure::new)?;
            }
            return Ok(true);
        }
        self.judge_active(volume, restored, false, &seen)
            .map_err(Failure::new)?;
        self.new_era(volume, &seen);
        Ok(true)
    }

    /// Compares a volume without requests under way with the model. Returns false when the power
    /// failed.
    pub(super) fn judge_quiet(&mut self, volume: usize) -> Result<bool, Failure> {
        let names = self.known.volumes[volume].snapshots.keys();
        let names: Vec<Option<String>> = names.cloned().map(Some).chain([None]).collect();
        for name in names {
            let Some(seen) = self.see(volume, name.as_deref())? else {
                return Ok(false);
            };
            let judged = match &name {
                Some(name) => self.judge_shot(volume, name, &seen),
                None => self
                    .judge_active(volume, None, true, &seen)
                    .map(|_| Vec::new()),
            };
            judged.map_err(Failure::new)?;
        }
        Ok(true)
    }

    /// Reads all blocks of a snapshot or of the active image. Returns nothing when the power
    /// failed.
    fn see(
        &mut self,
        volume: usize,
        snapshot: Option<&str>,
    ) -> Result<Option<Vec<Vec<Seen>>>, Failure> {
        let count = self.known.volumes[volume].clients.len();
        self.known.volumes[volume].seen = vec![None; count];
        self.read_all(volume, snapshot);
        if !self.pump(&|life| life.known.volumes[volume].reads == 0)? {
            return Ok(None);
        }
        let seen = self.sight(volume);
        Ok(Some(seen.expect("all reads were answered")))
    }

    /// Forgets a volume that no longer exists, or whose content is lost.
    fn begin_anew(&mut self, volume: usize) -> bool {
        for client in self.known.volumes[volume].clients.clone() {
            self.known.clients[client].track = Track::new(vec![0; self.plan.width]);
        }
        self.known.volumes[volume].clones.clear();
        self.known.volumes[volume].luns = super::volume::first_names();
        self.known.volumes[volume].snapshots.clear();
        self.known.volumes[volume].base = None;
        true
    }

    /// Makes what volumes and LUNs are missing. False when the power failed.
    pub(super) fn build(&mut self) -> Result<bool, Failure> {
        self.plan_building();
        self.pump(&|life| life.is_quiet())
    }

    /// Plans the creation of missing volumes and LUNs. Until then they may be missing after a
    /// start.
    pub(super) fn plan_building(&mut self) {
        let exports = self.system.target(0).exports();
        let names = self.system.volumes().unwrap_or_default();
        for volume in &mut self.known.volumes {
            let prefix = format!("{}/", volume.name);
            let luns = exports
                .iter()
                .filter_map(|one| one.name.strip_prefix(&prefix))
                .filter(|lun| !super::clones::is_clone(lun))
                .count();
            let luns = match names.contains(&volume.name) {
                true => 1 + luns,
                false => 0,
            };
            if luns <= LUNS {
                volume.task = Task::Rebuild {
                    is_asked: false,
                    luns,
                };
            }
        }
    }
}
