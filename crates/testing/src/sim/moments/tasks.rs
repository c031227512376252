//! Requests of administrators while clients work.

use std::collections::BTreeSet;

use everglade_engine::admin::{self, Change};
use everglade_target::Op;

use super::track::{Seen, least_consistent};
use super::volume::{After, Base, Before, Goal, Image, Shot, Task};
use super::{BLOCK, LUNS, Life, Pending, SNAPSHOTS_MAX, lun_bytes};
use crate::system::System;

/// The purpose of an administrator's request.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// The volume's task.
    Task,
    /// One of several deletions.
    Delete(String),
    /// A restore of a volume that is deleted meanwhile; any answer is right.
    InVain,
    /// A snapshot is held, deleted in vain, and released.
    Hold,
    DeleteHeld,
    Release,
    /// Something about a clone of a LUN.
    LunClone,
    /// An impossible request: only a refusal is right.
    Vain,
    /// The begin or stop of a split; whether it is possible now is unknown.
    Split,
    /// A request at the end: only success is right.
    Last,
}

impl Life<'_> {
    /// Continues every volume's task.
    pub(super) fn administer(&mut self) {
        let mut done = Vec::new();
        self.system.poll_changes(0, &mut done);
        for one in done {
            let Some((volume, asked)) = self.asked.remove(&one.token) else {
                return self.fail(format!(
                    "administrator's token {} was answered twice",
                    one.token
                ));
            };
            self.known.volumes[volume].asked -= 1;
            self.tick();
            self.trace(format!(
                "v{volume}: {asked:?} token {}: {:?}",
                one.token, one.result
            ));
            self.answered(volume, asked, one.result);
        }
        for volume in 0..self.known.volumes.len() {
            self.go_on(volume);
        }
    }

    pub(super) fn ask(&mut self, volume: usize, asked: Asked, change: Option<Change>) {
        self.token += 1;
        let token = self.token;
        self.tick();
        self.trace(format!("v{volume}: ask {change:?} token {token}"));
        self.known.volumes[volume].asked += 1;
        self.asked.insert(token, (volume, asked));
        let core = self.system.core(0);
        match change {
            Some(change) => core.change(0, change, token),
            None => core.consistency_point(0, token),
        }
        self.world.wake(0);
    }

    /// Changes of each client of a volume that were answered.
    fn ended(&self, volume: usize) -> Vec<usize> {
        let clients = self.known.volumes[volume].clients.clone();
        clients
            .map(|client| self.known.clients[client].track.ended())
            .collect()
    }

    fn answered(&mut self, volume: usize, asked: Asked, result: Result<(), admin::Error>) {
        let name = self.known.volumes[volume].name.clone();
        if matches!(asked, Asked::LunClone) {
            return self.answered_lun_clone(volume, result);
        }
        if matches!(asked, Asked::Vain) {
            self.known.volumes[volume].task = Task::None;
            if result.is_ok() {
                self.fail(format!("Exports: {name}: what cannot be was done"));
            }
            return;
        }
        match (&asked, &result) {
            (Asked::InVain, _) | (Asked::Last | Asked::Split, Ok(())) => return,
            (
                Asked::Split,
                Err(
                    admin::Error::Busy(_)
                    | admin::Error::Invalid { .. }
                    | admin::Error::NotFound(_),
                ),
            ) => return,
            (Asked::Split, Err(error)) => return self.excuse(&name, error),
            (Asked::Last, Err(error)) => return self.excuse(&name, error),
            (Asked::DeleteHeld, Ok(())) => {
                return self.fail(format!("Exports: a held snapshot of {name} was deleted"));
            }
            // The tag of an earlier life may be there.
            (Asked::Hold, Err(admin::Error::Exists(_))) | (Asked::Hold | Asked::DeleteHeld, _) => {
                return;
            }
            _ => {}
        }
        if let Err(error) = &result
            && !matches!(error, admin::Error::NoSpace | admin::Error::Busy(_))
            && !(matches!(error, admin::Error::NotFound(_)) && self.may_lack_base(volume))
        {
            return self.excuse(&format!("{name}: {asked:?}"), error);
        }
        if let Asked::Delete(snapshot) = asked {
            if result.is_ok() {
                self.expect_no_clone(volume, Some(&snapshot));
                self.gone(volume, &snapshot);
            }
            if self.known.volumes[volume].asked == 0 {
                self.known.volumes[volume].task = Task::None;
            }
            return;
        }
        let task = std::mem::take(&mut self.known.volumes[volume].task);
        let is_done = result.is_ok();
        self.known.volumes[volume].task = match task {
            Task::Create { name, least } if is_done => {
                self.add_shot(volume, &name, &least);
                self.begin_verify(volume, After::Shot(name))
            }
            Task::Restore { goal, least } if is_done => {
                if let Before::Discarded(newer) = &goal.before {
                    let newer = newer.iter();
                    newer.for_each(|name| self.expect_no_clone(volume, Some(name)));
                }
                self.restored(volume, &goal, &least);
                Task::Drain(goal)
            }
            Task::Clone(base) if is_done => {
                let name = base.snapshot.clone();
                self.begin_clone(volume, base);
                self.begin_verify(volume, After::Shot(name))
            }
            Task::Clone(_) => Task::Rebuild {
                is_asked: false,
                luns: 0,
            },
            Task::Raze { .. } if is_done => {
                self.expect_no_clone(volume, None);
                self.expect_no_holds(volume);
                self.known.volumes[volume].base = None;
                self.known.volumes[volume].luns = super::volume::first_names();
                self.known.volumes[volume].clones.clear();
                self.known.volumes[volume].snapshots.clear();
                Task::Rebuild {
                    is_asked: false,
                    luns: 0,
                }
            }
            Task::Rebuild { luns, .. } => Task::Rebuild {
                is_asked: false,
                luns: luns + usize::from(is_done),
            },
            Task::Point { least } if is_done => {
                self.set_floor(volume, &least);
                Task::None
            }
            Task::Rename { to } if is_done => {
                self.known.volumes[volume].name = to;
                Task::None
            }
            task @ (Task::RenameLun { .. } | Task::RenameSnapshot { .. } | Task::Keep { .. })
                if is_done =>
            {
                self.named(volume, task);
                Task::None
            }
            Task::Seal { seen, .. } if is_done => {
                self.new_era(volume, &seen);
                Task::None
            }
            Task::Restore { .. } => {
                // The restore did not happen: reads meanwhile show the former image.
                if self.known.volumes[volume].shown.is_some() {
                    self.fail(format!(
                        "Exports: {name}: a restore was refused, but a client saw its target"
                    ));
                }
                for client in self.known.volumes[volume].clients.clone() {
                    self.known.clients[client].reading.after.clear();
                }
                Task::None
            }
            // Refused for lack of space, or because a client has the LUN open.
            _ => Task::None,
        };
    }

    /// True if a requested clone may be refused because its base is deleted by another request.
    fn may_lack_base(&self, volume: usize) -> bool {
        let Task::Clone(base) = &self.known.volumes[volume].task else {
            return false;
        };
        let parent = &self.known.volumes[base.parent];
        let is_doomed = match &parent.task {
            Task::Delete { names } => names.contains(&base.snapshot),
            Task::Raze { .. } | Task::Rebuild { .. } | Task::Clone(_) => true,
            _ => false,
        };
        is_doomed || !parent.snapshots.contains_key(&base.snapshot)
    }

    /// True if a clone of a volume was requested, by its name.
    pub(super) fn is_being_cloned(&self, volume: usize) -> bool {
        let mut all = self.known.volumes.iter();
        all.any(|other| matches!(&other.task, Task::Clone(base) if base.parent == volume))
    }

    /// True if another volume is a clone of this one, or may be soon.
    fn has_clones(&self, volume: usize) -> bool {
        self.known.volumes.iter().any(|other| {
            let asked = match &other.task {
                Task::Clone(base) => Some(base.parent),
                _ => None,
            };
            let base = other.base.as_ref().map(|base| base.parent);
            [asked, base].contains(&Some(volume))
        })
    }

    /// Checks after the deletion of a snapshot, or of a whole volume, that no clone can depend on
    /// it.
    fn expect_no_clone(&mut self, volume: usize, snapshot: Option<&str>) {
        let needs = |base: &Base| {
            base.parent == volume && snapshot.is_none_or(|known| known == base.snapshot)
        };
        // A clone whose own deletion was requested may have been deleted first.
        let mut others = self.known.volumes.iter();
        let clone = others.find(|other| {
            other.base.as_ref().is_some_and(needs)
                && !other.may_be_split
                && !matches!(other.task, Task::Raze { .. })
        });
        let own = &self.known.volumes[volume];
        let own = own.base.as_ref().filter(|_| !own.may_be_split);
        let is_own = snapshot.is_some() && own.is_some_and(|base| Some(&*base.own) == snapshot);
        let clone = clone.map(|clone| clone.name.clone());
        if is_own || clone.is_some() {
            let name = &self.known.volumes[volume].name;
            self.fail(format!(
                "Exports: {name} {snapshot:?} was deleted though clone {clone:?} needs it"
            ));
        }
    }

    /// A snapshot was deleted, which had to be possible.
    pub(super) fn gone(&mut self, volume: usize, snapshot: &str) {
        let it = &mut self.known.volumes[volume];
        let (name, gone) = (it.name.clone(), it.snapshots.remove(snapshot));
        if gone.is_some_and(|shot| !shot.holds.is_empty()) {
            self.fail(format!(
                "Exports: {name}@{snapshot} was deleted though it is held"
            ));
        }
    }

    /// Checks after the deletion of a volume that no snapshot of it can have been held.
    pub(super) fn expect_no_holds(&mut self, volume: usize) {
        let it = &self.known.volumes[volume];
        let held = it.snapshots.iter().find(|(_, shot)| !shot.holds.is_empty());
        if let Some((snapshot, shot)) = held {
            let name = &it.name;
            let text = format!(
                "Exports: {name} was deleted though {snapshot} is held by {:?}",
                shot.holds
            );
            self.fail(text);
        }
    }

    /// A volume is a clone now, and nothing was done to it yet.
    pub(super) fn begin_clone(&mut self, volume: usize, base: Base) {
        let it = &mut self.known.volumes[volume];
        let shot = Shot {
            image: Some(base.image.clone()),
            bounds: vec![(0, 0); it.clients.len()],
            luns: base.luns.clone(),
            holds: BTreeSet::new(),
        };
        it.luns.clone_from(&base.luns);
        it.snapshots = [(base.own.clone(), shot)].into();
        let clones = self.known.volumes[base.parent].clones.clone();
        let it = &mut self.known.volumes[volume];
        it.clones = clones;
        for (client, blocks) in it.clients.clone().zip(&base.image) {
            self.known.clients[client].track = super::track::Track::new(blocks.clone());
        }
        it.base = Some(base);
        it.may_be_split = false;
    }

    /// Returns a possible base for a clone.
    fn draw_base(&mut self, volume: usize) -> Option<Base> {
        let parent = self.rng.index(self.known.volumes.len());
        let it = &self.known.volumes[parent];
        let is_there = !matches!(
            it.task,
            Task::Raze { .. }
                | Task::Rebuild { .. }
                | Task::Clone(_)
                | Task::Rename { .. }
                | Task::RenameSnapshot { .. }
        );
        if parent == volume || !is_there || self.rng.one_in(4) {
            return None;
        }
        let images = it.snapshots.iter();
        let images: Vec<_> = images
            .filter_map(|(name, shot)| Some((name, shot.image.as_ref()?, &shot.luns)))
            .collect();
        if images.is_empty() {
            return None;
        }
        let (snapshot, image, luns) = images[self.rng.index(images.len())];
        Some(Base {
            parent,
            snapshot: snapshot.clone(),
            own: snapshot.clone(),
            image: image.clone(),
            luns: luns.clone(),
        })
    }

    pub(super) fn add_shot(&mut self, volume: usize, name: &str, least: &[usize]) {
        let clients = self.known.volumes[volume].clients.clone();
        let tracks = clients.map(|client| &self.known.clients[client].track);
        let bounds = least
            .iter()
            .zip(tracks)
            .map(|(least, track)| (*least, track.changes.len()))
            .collect();
        // The snapshot is durable, and so are all earlier changes.
        self.set_floor(volume, least);
        let shot = Shot {
            image: None,
            bounds,
            luns: self.known.volumes[volume].luns.clone(),
            holds: BTreeSet::new(),
        };
        self.known.volumes[volume]
            .snapshots
            .insert(name.to_owned(), shot);
    }

    pub(super) fn set_floor(&mut self, volume: usize, least: &[usize]) {
        for (client, least) in self.known.volumes[volume].clients.clone().zip(least) {
            let track = &mut self.known.clients[client].track;
            track.floor = track.floor.max(*least);
        }
    }

    /// Begins to look at everything.
    fn begin_verify(&mut self, volume: usize, after: After) -> Task {
        let it = &mut self.known.volumes[volume];
        it.seen = vec![None; it.clients.len()];
        it.reads = 0;
        let snapshot = match &after {
            After::Shot(name) => Some(name.clone()),
            After::Safety(Goal {
                before: Before::Safety(name),
                ..
            }) => Some(name.clone()),
            After::Safety(_) | After::Restored(_) | After::LunClone(_) => None,
        };
        self.read_all(volume, snapshot.as_deref());
        Task::Look { after }
    }

    /// Reads the blocks of all clients of a volume.
    pub(super) fn read_all(&mut self, volume: usize, snapshot: Option<&str>) {
        for client in self.known.volumes[volume].clients.clone() {
            let lun = self.known.clients[client].lun;
            let name = self.known.volumes[volume].full_name(lun, snapshot);
            self.read_as(volume, client, &name);
        }
    }

    /// Reads a client's blocks of a LUN by its full name. Of one that cannot be opened nothing is
    /// seen.
    pub(super) fn read_as(&mut self, volume: usize, client: usize, name: &str) {
        let it = &self.known.clients[client];
        let (reactor, first, width) = (it.reactor, it.first_block, it.track.base.len());
        let (handle, _) = match self.system.target(reactor).open(name) {
            Ok(opened) => opened,
            Err(error) => {
                self.excuse(&format!("{name} cannot be opened"), &error);
                return self.looked_at(volume, client, vec![None; width]);
            }
        };
        self.known.volumes[volume].reads += 1;
        let token = self.new_token(Pending::Look { volume, client });
        self.trace(format!("look at {name}, client {client}, token {token}"));
        let op = Op::Read {
            offset: first * BLOCK,
            length: u32::try_from(width as u64 * BLOCK).expect("at most 1 MiB"),
        };
        self.system.target(reactor).submit(handle, op, token);
        self.system.target(reactor).close(handle);
        self.world.wake(reactor);
    }

    pub(super) fn looked_at(&mut self, volume: usize, client: usize, seen: Vec<Seen>) {
        let it = &mut self.known.volumes[volume];
        it.seen[client - it.clients.start] = Some(seen);
    }

    /// Records the answer to a read of a look.
    pub(super) fn looked(&mut self, volume: usize, client: usize, seen: Vec<Seen>) {
        self.known.volumes[volume].reads -= 1;
        self.looked_at(volume, client, seen);
    }

    /// Returns all values of a finished look.
    pub(super) fn sight(&mut self, volume: usize) -> Option<Vec<Vec<Seen>>> {
        let it = &mut self.known.volumes[volume];
        if it.reads > 0 {
            return None;
        }
        it.seen.iter_mut().map(Option::take).collect()
    }

    fn go_on(&mut self, volume: usize) {
        if self.failure.is_some() || self.is_failed || self.world.is_cut() {
            return;
        }
        match self.known.volumes[volume].task.clone() {
            Task::None => {
                self.draw_split(volume);
                if !self.draw_name(volume) {
                    self.draw(volume);
                }
            }
            Task::Drain(goal) => {
                let clients = self.known.volumes[volume].clients.clone();
                if clients
                    .clone()
                    .all(|client| !self.known.clients[client].is_busy)
                {
                    let after = match &goal.before {
                        Before::Safety(_) => After::Safety(goal),
                        Before::Discarded(_) => After::Restored(goal),
                    };
                    let task = self.begin_verify(volume, after);
                    self.known.volumes[volume].task = task;
                }
            }
            Task::Look { after } => {
                if let Some(seen) = self.sight(volume) {
                    self.after_look(volume, after, &seen);
                }
            }
            Task::Rebuild {
                is_asked: false,
                luns,
            } => self.rebuild(volume, luns),
            _ => {}
        }
    }

    fn after_look(&mut self, volume: usize, after: After, seen: &[Vec<Seen>]) {
        let is_blurred = seen.iter().flatten().any(Option::is_none);
        let next = match after {
            After::Shot(name)
                if is_blurred && self.known.volumes[volume].snapshots[&name].image.is_none() =>
            {
                self.is_failed = true;
                return;
            }
            After::LunClone(name) => self.judge_clone(volume, &name, seen).map(|()| Task::None),
            After::Shot(name) => self.judge_shot(volume, &name, seen).map(|_| Task::None),
            // The result is unknown: the life ends here, and the next one finds the state.
            After::Safety(_) | After::Restored(_) if is_blurred => {
                self.is_failed = true;
                return;
            }
            After::Safety(goal) => {
                let Before::Safety(name) = &goal.before else {
                    unreachable!("there is none");
                };
                self.judge_shot(volume, name, seen).map(|from| {
                    self.known.volumes[volume].from = from;
                    self.begin_verify(volume, After::Restored(goal))
                })
            }
            After::Restored(goal) => self.after_restore(volume, goal, seen),
        };
        match next {
            Ok(task) => self.known.volumes[volume].task = task,
            Err(what) => self.fail(what),
        }
    }

    /// Compares a snapshot with its expected content. Returns the number of changes of each client
    /// that it may have, if it was read for the first time.
    pub(super) fn judge_shot(
        &mut self,
        volume: usize,
        name: &str,
        seen: &[Vec<Seen>],
    ) -> Result<Vec<Vec<usize>>, String> {
        let it = &self.known.volumes[volume];
        let shot = &it.snapshots[name];
        if let Some(image) = &shot.image {
            for (client, (image, seen)) in image.iter().zip(seen).enumerate() {
                for (slot, (block, seen)) in image.iter().zip(seen).enumerate() {
                    if seen.is_some_and(|seen| seen != *block) {
                        return Err(format!(
                            "Foreign: {}@{name} changed: client {client} block {slot} was {block}, \
                            is {seen:?}",
                            it.name
                        ));
                    }
                }
            }
            return Ok(Vec::new());
        }
        let tracks: Vec<_> = it
            .clients
            .clone()
            .map(|client| &self.known.clients[client].track)
            .collect();
        let fits: Vec<Vec<usize>> = (0..tracks.len())
            .map(|index| {
                let track = tracks[index];
                let most = shot.bounds[index].1.min(track.changes.len());
                track.fits(&track.base, 0, (shot.bounds[index].0, most), &seen[index])
            })
            .collect();
        let counts = least_consistent(&tracks, &fits).map_err(|what| {
            let odd = tracks
                .iter()
                .enumerate()
                .map(|(index, track)| track.odd(&track.base, 0, shot.bounds[index], &seen[index]));
            let odd: Vec<String> = odd.collect();
            format!("Prefix: {}@{name} is no moment: {what}; {odd:#?}", it.name)
        })?;
        let is_blurred = seen.iter().flatten().any(Option::is_none);
        if !is_blurred {
            let image: Option<Image> = seen
                .iter()
                .map(|blocks| blocks.iter().copied().collect())
                .collect();
            let shot = self.known.volumes[volume]
                .snapshots
                .get_mut(name)
                .expect("just judged");
            shot.image = image;
        }
        let later = |(fits, count): (Vec<usize>, usize)| {
            fits.into_iter().filter(|fit| *fit >= count).collect()
        };
        Ok(fits.into_iter().zip(counts).map(later).collect())
    }

    /// Compares the active image with its possible contents, after a restore to a target if there
    /// was one: the possible numbers of changes before the restore are given for each client.
    /// Returns the actual number.
    pub(super) fn judge_active(
        &self,
        volume: usize,
        restored: Option<(&Goal, &[Vec<usize>])>,
        is_drained: bool,
        seen: &[Vec<Seen>],
    ) -> Result<Vec<usize>, String> {
        let it = &self.known.volumes[volume];
        let clients = it.clients.clone();
        let tracks: Vec<_> = clients
            .map(|client| &self.known.clients[client].track)
            .collect();
        let mut ways: Vec<Vec<(usize, usize)>> = Vec::new();
        let mut odd = Vec::new();
        for (index, track) in tracks.iter().enumerate() {
            let lun = self.known.clients[it.clients.start + index].lun;
            let (base, begins) = match restored.filter(|(goal, _)| goal.covers(lun)) {
                Some((goal, begins)) => {
                    let image = it.snapshots[&goal.target].image.as_ref();
                    let image = image.ok_or("a target that nobody looked at")?;
                    (&image[index], begins[index].clone())
                }
                None => (&track.base, vec![0]),
            };
            let most = track.changes.len();
            let least = match is_drained {
                true => most,
                false => track.floor,
            };
            let of = |from: &usize| {
                let bounds = (least.max(*from), most);
                let fits = track.fits(base, *from, bounds, &seen[index]);
                let from = *from;
                fits.into_iter().map(move |to| (to, from))
            };
            let mut all: Vec<(usize, usize)> = begins.iter().flat_map(of).collect();
            all.sort_unstable();
            all.dedup_by_key(|(to, _)| *to);
            if all.is_empty() {
                let from = begins.first().copied().unwrap_or(0);
                let text = track.odd(base, from, (least, most), &seen[index]);
                odd.push(format!("client {index} after {begins:?}: {text}"));
            }
            ways.push(all);
        }
        let ends = |ways: &Vec<(usize, usize)>| ways.iter().map(|(to, _)| *to).collect();
        let fits: Vec<Vec<usize>> = ways.iter().map(ends).collect();
        let counts = least_consistent(&tracks, &fits).map_err(|what| {
            let name = &it.name;
            format!("Durable: {name} (restored: {restored:?}) is no moment: {what}; {odd:#?}")
        })?;
        let chosen = ways.iter().zip(counts).map(|(ways, count)| {
            let way = ways.iter().find(|(to, _)| *to == count);
            way.map_or(0, |(_, from)| *from)
        });
        Ok(chosen.collect())
    }

    /// Begins a new era with the values read as the initial content.
    pub(super) fn new_era(&mut self, volume: usize, seen: &[Vec<Seen>]) {
        let clients = self.known.volumes[volume].clients.clone();
        for (client, seen) in clients.zip(seen) {
            let base = seen.iter().map(|seen| seen.unwrap_or(0)).collect();
            self.known.clients[client].track = super::track::Track::new(base);
        }
    }

    /// Begins or stops the split of a clone, now and then.
    fn draw_split(&mut self, volume: usize) {
        let it = &self.known.volumes[volume];
        if self.actions == 0 || it.base.is_none() || !self.splits.one_in(30) {
            return;
        }
        let volume_name = it.name.clone();
        let change = match self.splits.one_in(4) {
            true => Change::StopSplit {
                volume: volume_name,
            },
            false => Change::StartSplit {
                volume: volume_name,
            },
        };
        self.known.volumes[volume].may_be_split = true;
        self.ask(volume, Asked::Split, Some(change));
    }

    /// Takes note of clones that are none any more.
    pub(super) fn see_splits(&mut self) {
        for volume in &mut self.known.volumes {
            let state = self.system.split(&volume.name).state;
            if volume.base.is_some() && state == everglade_engine::SplitState::Done {
                volume.base = None;
            }
        }
    }

    /// Draws the next task of a volume.
    fn draw(&mut self, volume: usize) {
        if self.actions == 0 || !self.rng.one_in(12) {
            return;
        }
        let it = &self.known.volumes[volume];
        let name = it.name.clone();
        let known: Vec<String> = it
            .snapshots
            .iter()
            .filter(|(_, shot)| shot.image.is_some())
            .map(|(name, _)| name.clone())
            .collect();
        let new_name = format!("s{}", self.known.next_name);
        let least = self.ended(volume);
        let has_room = it.snapshots.len() < SNAPSHOTS_MAX;
        if self.plan.clones && self.rng.one_in(8) {
            if let Some(task) = self.draw_lun_clone(volume, &known) {
                self.known.volumes[volume].task = task;
            }
            return;
        }
        let kind = self.rng.below(100);
        let task = match kind {
            0..35 if has_room => {
                self.known.next_name += 1;
                let change = Change::CreateSnapshot {
                    volume: name,
                    name: new_name.clone(),
                };
                self.ask(volume, Asked::Task, Some(change));
                Task::Create {
                    name: new_name,
                    least,
                }
            }
            35..60 if !known.is_empty() => {
                let count = 1 + self.rng.index([1, 3, 10][self.rng.clone().index(3)]);
                let mut names = known;
                self.rng.shuffle(&mut names);
                names.truncate(count);
                self.known.volumes[volume].task = Task::Delete {
                    names: names.clone(),
                };
                for snapshot in names {
                    let change = Change::DeleteSnapshot {
                        volume: name.clone(),
                        name: snapshot.clone(),
                    };
                    self.ask(volume, Asked::Delete(snapshot), Some(change));
                }
                return;
            }
            60..75 if !known.is_empty() && has_room => {
                self.known.next_name += 1;
                let target = known[self.rng.index(known.len())].clone();
                let lun = self.rng.one_in(2).then(|| self.rng.index(LUNS));
                let newer = self.newer(volume, &target);
                let is_rolled = lun.is_none() && self.plan.rolls && !newer.is_empty();
                let (snapshot, safety) = (target.clone(), new_name.clone());
                let (change, before) = match lun {
                    None if is_rolled => (
                        Change::RollBackVolume {
                            volume: name,
                            snapshot,
                            discards: newer.clone(),
                        },
                        Before::Discarded(newer),
                    ),
                    None => (
                        Change::RestoreVolume {
                            volume: name,
                            snapshot,
                            safety,
                        },
                        Before::Safety(new_name),
                    ),
                    Some(lun) => (
                        Change::RestoreLun {
                            volume: name,
                            snapshot,
                            lun: self.known.volumes[volume].luns[lun].clone(),
                            safety,
                        },
                        Before::Safety(new_name),
                    ),
                };
                self.ask(volume, Asked::Task, Some(change));
                let goal = Goal {
                    target,
                    before,
                    lun,
                };
                let it = &mut self.known.volumes[volume];
                it.task = Task::Restore { goal, least };
                it.shown = None;
                for client in self.known.volumes[volume].clients.clone() {
                    self.may_show_target(client);
                }
                return;
            }
            75..85 => {
                self.ask(volume, Asked::Task, None);
                Task::Point { least }
            }
            85..87 if !known.is_empty() => {
                let snapshot = known[self.rng.index(known.len())].clone();
                self.known.volumes[volume].task = Task::Hold;
                let tag = "t".to_owned();
                let hold = Change::HoldSnapshot {
                    volume: name.clone(),
                    name: snapshot.clone(),
                    tag: tag.clone(),
                };
                let delete = Change::DeleteSnapshot {
                    volume: name.clone(),
                    name: snapshot.clone(),
                };
                let release = Change::ReleaseSnapshot {
                    volume: name,
                    name: snapshot,
                    tag,
                };
                self.ask(volume, Asked::Hold, Some(hold));
                self.ask(volume, Asked::DeleteHeld, Some(delete));
                self.ask(volume, Asked::Release, Some(release));
                return;
            }
            87..95 if !known.is_empty() => {
                let snapshot = known[self.rng.index(known.len())].clone();
                self.begin_verify(volume, After::Shot(snapshot))
            }
            95..99 => {
                let mut restore = None;
                // The restore is in vain, because its volume is deleted in the same freeze. With
                // clones or holds the deletion may be refused, and then the restore counts.
                let is_doomed = self.rng.one_in(2)
                    && !self.has_clones(volume)
                    && !self.known.volumes[volume].may_be_held();
                if let (true, Some(target)) = (is_doomed, known.first()) {
                    self.known.next_name += 1;
                    restore = Some((target.clone(), new_name.clone(), least));
                    let change = Change::RestoreVolume {
                        volume: name.clone(),
                        snapshot: target.clone(),
                        safety: new_name,
                    };
                    self.ask(volume, Asked::InVain, Some(change));
                }
                // From here on clients may get the answer that the volume is deleted.
                self.known.volumes[volume].task = Task::Raze { restore };
                self.ask(volume, Asked::Task, Some(Change::DeleteVolume { name }));
                return;
            }
            99 if !self.is_being_cloned(volume) => {
                self.known.next_name += 1;
                let to = format!("n{new_name}");
                let change = Change::RenameVolume {
                    name,
                    to: to.clone(),
                };
                self.ask(volume, Asked::Task, Some(change));
                Task::Rename { to }
            }
            _ => return,
        };
        self.known.volumes[volume].task = task;
    }

    /// Makes a volume anew, one step after the other.
    fn rebuild(&mut self, volume: usize, luns: usize) {
        let clients = self.known.volumes[volume].clients.clone();
        if clients
            .clone()
            .any(|client| self.known.clients[client].is_busy)
            || self.known.volumes[volume].asked > 0
        {
            return;
        }
        let name = self.known.volumes[volume].name.clone();
        if luns == 0 {
            for client in clients {
                let it = &mut self.known.clients[client];
                let handle = it.handle.take();
                it.track = super::track::Track::new(vec![0; self.plan.width]);
                let reactor = it.reactor;
                if let Some(handle) = handle {
                    self.system.target(reactor).close(handle);
                }
            }
        }
        if luns == 0
            && let Some(base) = self.draw_base(volume)
        {
            let change = Change::CloneVolume {
                name,
                parent: self.known.volumes[base.parent].name.clone(),
                snapshot: base.snapshot.clone(),
            };
            self.known.volumes[volume].task = Task::Clone(base);
            self.ask(volume, Asked::Task, Some(change));
            return;
        }
        let change = match luns {
            0 => Change::CreateVolume {
                name,
                sync: self.sync(),
            },
            index if index <= LUNS => Change::CreateLun {
                volume: name,
                name: format!("l{}", index - 1),
                size_bytes: lun_bytes(self.plan),
            },
            _ => {
                self.known.volumes[volume].task = Task::None;
                return;
            }
        };
        self.known.volumes[volume].task = Task::Rebuild {
            is_asked: true,
            luns,
        };
        self.ask(volume, Asked::Task, Some(change));
    }

    fn sync(&self) -> everglade_format::volume::Sync {
        match self.is_always {
            true => everglade_format::volume::Sync::Always,
            false => everglade_format::volume::Sync::Standard,
        }
    }

    /// An orderly end: everything that was answered is durable then, unless a device failed its
    /// last consistency point.
    pub(super) fn stop(&mut self) -> Result<(), crate::sim::Failure> {
        self.system.request_stop();
        self.pump(&|life| life.system.is_stopped())?;
        if self.world.is_cut() {
            return Ok(());
        }
        if let Some(reason) = self.system.failure().or(self.system.read_only()) {
            self.excuse("the stop", &reason);
            return self.failure.take().map_or(Ok(()), Err);
        }
        for client in &mut self.known.clients {
            client.track.floor = client.track.ended();
        }
        Ok(())
    }
}
