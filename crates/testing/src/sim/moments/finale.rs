//! The end: deletions free all their space, and the counters predicted how much.
//!
//! Half of the times all clones are split first, and their parents are emptied before the clones
//! are read. The remaining clones are deleted, clones of clones first. All clients' blocks are
//! discarded, and of each volume all snapshots but one are deleted. The last snapshot alone holds
//! its data, so it must count all of that as exclusive. After its deletion only the blocks of empty
//! volumes remain: a leaked block shows here.

use everglade_engine::SplitState;
use everglade_engine::admin::Change;
use everglade_env::BLOCK_SIZE;
use everglade_target::Op;

use super::tasks::Asked;
use super::{Failure, LUNS, Life, Pending, lun_bytes};
use crate::system::System;

/// Blocks of metadata that a volume may keep for good: maps, tables and directories that grew.
const KEPT_MAX: u64 = 64;

/// Rests within which all deleted blocks must be free.
const POINTS_MAX: usize = 100;
/// Rest in nanoseconds, longer than any time between consistency points.
const REST: u64 = 11_000_000_000;

impl Life<'_> {
    /// See the module's documentation. Nothing else may be under way. False when the power failed.
    pub(super) fn end(&mut self) -> Result<bool, Failure> {
        self.actions = 0;
        if !self.pump(&|life| life.is_quiet())? {
            return Ok(false);
        }
        self.see_splits();
        if self.splits.one_in(2) && !self.split_clones()? {
            return Ok(false);
        }
        if !self.delete_clones()? {
            return Ok(false);
        }
        if !self.delete_lun_clones()? {
            return Ok(false);
        }
        let volumes = self.known.volumes.len();
        for volume in 0..volumes {
            self.discard_all(volume);
        }
        if !self.pump(&|life| life.is_quiet())? {
            return Ok(false);
        }
        let mut kept = Vec::new();
        for volume in 0..volumes {
            let shots = &self.known.volumes[volume].snapshots;
            let mut names: Vec<String> = shots.keys().cloned().collect();
            self.rng.shuffle(&mut names);
            let last = names.pop();
            self.delete_all(volume, &names);
            kept.push(last);
        }
        if !self.rest()? {
            return Ok(false);
        }
        for (volume, last) in kept.into_iter().enumerate() {
            if let Some(name) = last {
                self.judge_exclusive(volume, &name)?;
                self.delete_all(volume, &[name]);
            }
        }
        if !self.rest()? {
            return Ok(false);
        }
        let usage = self.system.usage();
        let used = usage.used_blocks;
        // The context map grows with the areas that were ever used, up to 16 bytes for each block.
        let most = KEPT_MAX * (1 + volumes as u64) + usage.total_blocks / 256;
        if used > most {
            return Err(Failure::new(format!(
                "Leak: everything was deleted, but {used} blocks are in use, more than {most}"
            )));
        }
        Ok(true)
    }

    /// Splits all clones, empties their parents, and reads the clones. Returns false when the power
    /// failed.
    fn split_clones(&mut self) -> Result<bool, Failure> {
        let all = 0..self.known.volumes.len();
        let clones: Vec<usize> = all
            .clone()
            .filter(|it| self.known.volumes[*it].base.is_some())
            .collect();
        for clone in &clones {
            self.known.volumes[*clone].may_be_split = true;
            let volume = self.known.volumes[*clone].name.clone();
            self.ask(*clone, Asked::Split, Some(Change::StartSplit { volume }));
        }
        if !clones.is_empty() && !self.rest()? {
            return Ok(false);
        }
        let parents: Vec<Option<usize>> = self
            .known
            .volumes
            .iter()
            .map(|it| it.base.as_ref().map(|base| base.parent))
            .collect();
        self.see_splits();
        let is_left = |it: usize| {
            self.known
                .volumes
                .iter()
                .any(|v| v.base.as_ref().is_some_and(|b| b.parent == it))
        };
        let bare: Vec<usize> = all
            .filter(|it| parents.contains(&Some(*it)) && !clones.contains(it) && !is_left(*it))
            .collect();
        for parent in &bare {
            self.discard_all(*parent);
            let names: Vec<String> = self.known.volumes[*parent]
                .snapshots
                .keys()
                .cloned()
                .collect();
            self.known.volumes[*parent].snapshots.clear();
            self.delete_all(*parent, &names);
        }
        if !bare.is_empty() && !self.rest()? {
            return Ok(false);
        }
        for clone in clones {
            if !self.judge_quiet(clone)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Deletes all clones, each after those that are cloned from it. False when the power failed.
    fn delete_clones(&mut self) -> Result<bool, Failure> {
        loop {
            if !self.pump(&|life| life.is_quiet())? {
                return Ok(false);
            }
            let all = &self.known.volumes;
            let is_parent = |index: usize| {
                let mut bases = all.iter().filter_map(|it| it.base.as_ref());
                bases.any(|base| base.parent == index)
            };
            let last = (0..all.len()).find(|it| all[*it].base.is_some() && !is_parent(*it));
            let Some(last) = last else {
                return Ok(true);
            };
            let it = &mut self.known.volumes[last];
            it.base = None;
            it.is_gone = true;
            it.snapshots.clear();
            let name = it.name.clone();
            for info in self.system.snapshots(&name) {
                self.release(last, &info.name, info.holds);
            }
            self.ask(last, Asked::Last, Some(Change::DeleteVolume { name }));
        }
    }

    fn discard_all(&mut self, volume: usize) {
        if self.known.volumes[volume].is_gone {
            return;
        }
        for lun in 0..LUNS {
            let name = self.known.volumes[volume].full_name(lun, None);
            let (handle, _) = match self.system.target(0).open(&name) {
                Ok(opened) => opened,
                Err(error) => return self.excuse(&format!("{name} cannot be opened"), &error),
            };
            let token = self.new_token(Pending::Last);
            let op = Op::Discard {
                offset: 0,
                length: lun_bytes(self.plan),
                durable: false,
            };
            self.system.target(0).submit(handle, op, token);
            self.system.target(0).close(handle);
        }
    }

    fn delete_all(&mut self, volume: usize, names: &[String]) {
        let name = self.known.volumes[volume].name.clone();
        let infos = self.system.snapshots(&name);
        for info in infos.into_iter().filter(|info| names.contains(&info.name)) {
            self.release(volume, &info.name, info.holds);
            let change = Change::DeleteSnapshot {
                volume: name.clone(),
                name: info.name,
            };
            self.ask(volume, Asked::Last, Some(change));
        }
    }

    /// Releases the holds of a snapshot.
    fn release(&mut self, volume: usize, snapshot: &str, tags: Vec<String>) {
        for tag in tags {
            let change = Change::ReleaseSnapshot {
                volume: self.known.volumes[volume].name.clone(),
                name: snapshot.to_owned(),
                tag,
            };
            self.ask(volume, Asked::Last, Some(change));
        }
    }

    /// Lets time pass until all deleted blocks are free.
    fn rest(&mut self) -> Result<bool, Failure> {
        for _ in 0..POINTS_MAX {
            if !self.pump(&|life| life.is_quiet())? {
                return Ok(false);
            }
            let before = self.system.usage();
            let until = self.world.now() + REST;
            self.rests_until = Some(until);
            let rested = self.pump(&|life| life.world.now() >= until)?;
            self.rests_until = None;
            if !rested {
                return Ok(false);
            }
            let after = self.system.usage();
            let is_copying = self.known.volumes.iter().any(|it| {
                let state = self.system.split(&it.name).state;
                state == SplitState::Copying
            });
            if before.used_blocks == after.used_blocks && after.pending_blocks == 0 && !is_copying {
                return Ok(true);
            }
        }
        Err(Failure::new("stuck: deletions do not end"))
    }

    /// Checks a snapshot that shares no data.
    fn judge_exclusive(&mut self, volume: usize, name: &str) -> Result<(), Failure> {
        let it = &self.known.volumes[volume];
        let Some(image) = &it.snapshots[name].image else {
            return Ok(());
        };
        let data = image.iter().flatten().filter(|value| **value != 0).count() as u64;
        let infos = self.system.snapshots(&it.name);
        let info = infos.iter().find(|info| info.name == name);
        let Some(info) = info else {
            return Err(Failure::new(format!("Exports: {}@{name} is gone", it.name)));
        };
        let bytes = data * BLOCK_SIZE as u64;
        if info.exclusive_bytes < bytes || info.exclusive_bytes > info.logical_bytes {
            return Err(Failure::new(format!(
                "Counters: {}@{name} alone has {bytes} bytes of data, but counts {} of {} as \
                exclusive",
                it.name, info.exclusive_bytes, info.logical_bytes
            )));
        }
        Ok(())
    }
}
