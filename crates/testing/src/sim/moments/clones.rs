//! Clones of LUNs, made while clients and administrators go on.
//!
//! Each clone is made from a snapshot that was read before, or from an existing clone, which may be
//! deleted in the same freeze. The name of a clone is never used again, and no client writes to the
//! clone. So in the volume, after restores, or in a clone of the volume, its content is known from
//! the beginning; only the time of its appearance is unknown.

use everglade_engine::admin::{self, Change};

use super::tasks::Asked;
use super::track::Seen;
use super::volume::{After, Task};
use super::{Failure, LUNS, Life};
use crate::system::System;

/// Clones in a volume at which no more are made.
const CLONES_MAX: usize = 3;

/// True for the name of a clone, without its volume.
pub(super) fn is_clone(lun: &str) -> bool {
    lun.starts_with('c')
}

impl Life<'_> {
    /// Clones of LUNs that a volume shows, without the volume's name.
    pub(super) fn lun_clones(&mut self, volume: usize) -> Vec<String> {
        let prefix = format!("{}/", self.known.volumes[volume].name);
        let exports = self.system.target(0).exports();
        let names = exports
            .iter()
            .filter_map(|it| it.name.strip_prefix(&prefix));
        names
            .filter(|name| is_clone(name))
            .map(str::to_owned)
            .collect()
    }

    /// Draws a request about clones of LUNs. `known` are snapshots that were read before.
    pub(super) fn draw_lun_clone(&mut self, volume: usize, known: &[String]) -> Option<Task> {
        let there = self.lun_clones(volume);
        let name = self.known.volumes[volume].name.clone();
        let any = |life: &mut Self| there.get(life.rng.index(there.len().max(1))).cloned();
        let change = match self.rng.below(8) {
            0..2 => {
                let clone = any(self)?;
                return Some(self.look_at_clone(volume, clone));
            }
            2..4 => Change::DeleteLun {
                volume: name,
                name: any(self)?,
            },
            4 => Change::CancelLunClone {
                name: self.system.lun_clone(&name)?.name,
                volume: name,
            },
            _ if there.len() >= CLONES_MAX => return None,
            7 if !there.is_empty() => {
                let of = any(self)?;
                self.clone_a_clone(volume, of)
            }
            _ if known.is_empty() => return None,
            _ => {
                let from = known[self.rng.index(known.len())].clone();
                let lun = self.rng.index(LUNS);
                let it = &mut self.known.volumes[volume];
                let image = it.snapshots[&from].image.clone()?;
                let its_name = it.snapshots[&from].luns[lun].clone();
                let clone = format!("c{}", self.known.next_name);
                self.known.next_name += 1;
                it.clones.insert(clone.clone(), (lun, image));
                Change::CloneLun {
                    volume: name,
                    lun: its_name,
                    name: clone,
                    from: Some(from),
                }
            }
        };
        self.ask(volume, Asked::LunClone, Some(change));
        Some(Task::LunClone)
    }

    /// Clones a clone as it is, and now and then asks at once for the end of the one it is of, so
    /// that both come into one freeze.
    fn clone_a_clone(&mut self, volume: usize, of: String) -> Change {
        let clone = format!("c{}", self.known.next_name);
        self.known.next_name += 1;
        let it = &mut self.known.volumes[volume];
        let name = it.name.clone();
        if let Some(known) = it.clones.get(&of).cloned() {
            it.clones.insert(clone.clone(), known);
        }
        let begin = Change::CloneLun {
            volume: name.clone(),
            lun: of.clone(),
            name: clone,
            from: None,
        };
        if !self.rng.one_in(2) {
            return begin;
        }
        self.ask(volume, Asked::LunClone, Some(begin));
        Change::DeleteLun {
            volume: name,
            name: of,
        }
    }

    /// Handles the answer to a request about a clone: the clone may exist, be deleted, or be
    /// impossible now.
    pub(super) fn answered_lun_clone(&mut self, volume: usize, result: Result<(), admin::Error>) {
        use admin::Error::{Busy, Limit, NoSpace, NotFound};
        match result {
            Ok(()) | Err(Busy(_) | Limit(_) | NoSpace | NotFound(_)) => {}
            Err(error) => self.excuse("a clone of a LUN", &error),
        }
        if matches!(self.known.volumes[volume].task, Task::LunClone) {
            self.known.volumes[volume].task = Task::None;
        }
    }

    /// Begins to read a clone.
    fn look_at_clone(&mut self, volume: usize, clone: String) -> Task {
        let it = &mut self.known.volumes[volume];
        it.seen = vec![None; it.clients.len()];
        it.reads = 0;
        self.read_clone(volume, &clone);
        Task::Look {
            after: After::LunClone(clone),
        }
    }

    /// Reads, of a clone, the blocks that clients have in the LUN it is of.
    fn read_clone(&mut self, volume: usize, clone: &str) {
        let Some((of, _)) = self.known.volumes[volume].clones.get(clone) else {
            return self.fail(format!("Exports: nobody asked for clone {clone}"));
        };
        let of = *of;
        let name = format!("{}/{clone}", self.known.volumes[volume].name);
        for client in self.known.volumes[volume].clients.clone() {
            let it = &self.known.clients[client];
            if it.lun == of {
                self.read_as(volume, client, &name);
            } else {
                let nothing = vec![None; it.track.base.len()];
                self.looked_at(volume, client, nothing);
            }
        }
    }

    /// Compares a clone with its expected content.
    pub(super) fn judge_clone(
        &self,
        volume: usize,
        clone: &str,
        seen: &[Vec<Seen>],
    ) -> Result<(), String> {
        let it = &self.known.volumes[volume];
        let Some((_, image)) = it.clones.get(clone) else {
            return Err(format!("Exports: nobody asked for clone {clone}"));
        };
        for (client, (image, seen)) in image.iter().zip(seen).enumerate() {
            for (slot, (block, seen)) in image.iter().zip(seen).enumerate() {
                if seen.is_some_and(|seen| seen != *block) {
                    return Err(format!(
                        "Foreign: clone {}/{clone}: client {client} block {slot} was {block}, is \
                        {seen:?}",
                        it.name
                    ));
                }
            }
        }
        Ok(())
    }

    /// Reads all clones that a volume shows after a start. Returns false when the power failed.
    pub(super) fn see_clones(&mut self, volume: usize) -> Result<bool, Failure> {
        for clone in self.lun_clones(volume) {
            self.look_at_clone(volume, clone.clone());
            if !self.pump(&|life| life.known.volumes[volume].reads == 0)? {
                return Ok(false);
            }
            let seen = self.sight(volume).expect("all reads were answered");
            self.judge_clone(volume, &clone, &seen)
                .map_err(Failure::new)?;
        }
        Ok(true)
    }

    /// Cancels clones under way and deletes existing clones. Returns false when the power failed.
    pub(super) fn delete_lun_clones(&mut self) -> Result<bool, Failure> {
        let volumes = 0..self.known.volumes.len();
        for volume in volumes.clone() {
            let name = self.known.volumes[volume].name.clone();
            if let Some(info) = self.system.lun_clone(&name) {
                let change = Change::CancelLunClone {
                    volume: name,
                    name: info.name,
                };
                self.ask(volume, Asked::LunClone, Some(change));
            }
        }
        if !self.pump(&|life| life.is_quiet())? {
            return Ok(false);
        }
        for volume in volumes {
            let of = self.known.volumes[volume].name.clone();
            for name in self.lun_clones(volume) {
                let volume_name = of.clone();
                let change = Change::DeleteLun {
                    volume: volume_name,
                    name,
                };
                self.ask(volume, Asked::Last, Some(change));
            }
        }
        self.pump(&|life| life.is_quiet())
    }
}
