//! Restores of a volume or of one of its LUNs: when they happened, and what must be there after
//! them.
//!
//! asked for ─▶ answered ─▶ clients end what they began ─▶ the safety snapshot is looked at, if
//! there is one ─▶ the image is looked at ─▶ what came before it is forgotten; where no snapshot
//! tells that, after a consistency point

use super::Life;
use super::tasks::Asked;
use super::track::{Seen, least_consistent};
use super::volume::{Before, Goal, Task};

impl Life<'_> {
    /// Records a restore that happened after at least this many changes of each client.
    pub(super) fn restored(&mut self, volume: usize, goal: &Goal, least: &[usize]) {
        let from = self.known.volumes[volume].clients.clone().zip(least);
        let from = from.map(|(client, least)| (*least..=self.known.most_before(client)).collect());
        let from = from.collect();
        self.known.volumes[volume].from = from;
        match &goal.before {
            Before::Safety(name) => self.add_shot(volume, name, least),
            Before::Discarded(newer) => {
                self.set_floor(volume, least);
                newer.iter().for_each(|name| self.gone(volume, name));
            }
        }
        if goal.lun.is_none() {
            self.take_names_of(volume, &goal.target);
        }
    }

    /// Compares the image after a restore with its expected content, which determines the changes
    /// that count.
    pub(super) fn after_restore(
        &mut self,
        volume: usize,
        goal: Goal,
        seen: &[Vec<Seen>],
    ) -> Result<Task, String> {
        let from = self.known.volumes[volume].from.clone();
        let chosen = self.judge_active(volume, Some((&goal, &from)), true, seen)?;
        if goal.lun.is_none() {
            self.judge_moment(volume, &goal, seen)?;
        }
        if let Before::Safety(_) = &goal.before {
            self.move_base(volume, &goal, &chosen);
            return Ok(Task::None);
        }
        // A change that was overwritten since may have come before or after it, which shows only if
        // power fails.
        self.ask(volume, Asked::Task, None);
        let seen = seen.to_vec();
        Ok(Task::Seal { goal, seen })
    }

    /// A restore of all of a volume is one moment for all of its clients.
    fn judge_moment(&self, volume: usize, goal: &Goal, seen: &[Vec<Seen>]) -> Result<(), String> {
        let it = &self.known.volumes[volume];
        let image = it.snapshots[&goal.target].image.as_ref();
        let image = image.ok_or("a target that nobody looked at")?;
        let clients = it.clients.clone();
        let tracks: Vec<_> = clients
            .map(|client| &self.known.clients[client].track)
            .collect();
        let fits = tracks.iter().enumerate().map(|(index, track)| {
            let all = track.changes.len();
            let is_so = |from: &usize| {
                let fits = track.fits(&image[index], *from, (all, all), &seen[index]);
                !fits.is_empty()
            };
            it.from[index].iter().copied().filter(is_so).collect()
        });
        let fits: Vec<Vec<usize>> = fits.collect();
        least_consistent(&tracks, &fits).map(drop).map_err(|what| {
            let name = &it.name;
            format!("Prefix: the restore of {name} to {goal:?} is no moment: {what}")
        })
    }

    /// Records a restore after this many changes of each client: only later ones count, and not all
    /// of them are durable.
    pub(super) fn move_base(&mut self, volume: usize, goal: &Goal, from: &[usize]) {
        let it = &self.known.volumes[volume];
        let image = it.snapshots[&goal.target].image.as_ref();
        let image = image.expect("only what was looked at is restored");
        for (index, client) in it.clients.clone().enumerate() {
            if !goal.covers(self.known.clients[client].lun) {
                continue;
            }
            let track = &mut self.known.clients[client].track;
            track.base.clone_from(&image[index]);
            track.changes.drain(..from[index]);
            track.floor = track.floor.saturating_sub(from[index]);
        }
    }

    /// Snapshots that are newer than one.
    pub(super) fn newer(&mut self, volume: usize, target: &str) -> Vec<String> {
        let name = &self.known.volumes[volume].name;
        let all = self.system.snapshots(name);
        let target = all.iter().find(|info| info.name == target);
        let Some(target) = target.map(|info| info.id) else {
            return Vec::new();
        };
        let newer = all.into_iter().filter(|info| info.id > target);
        newer.map(|info| info.name).collect()
    }
}
