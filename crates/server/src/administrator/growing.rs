//! Making an aggregate larger: by more devices, or because its devices became larger.
//!
//! ```text
//! add:    checked ─▶ recorded as joining ─▶ made ─▶ labelled ─▶ member by a superblock ─▶ recorded
//!            │ refused       └───────── failed ────────┘  forgotten (`joining`)
//!            ▼
//!       nothing changed
//! resize: checked ─▶ directory larger ─▶ labelled ─▶ part of it by a superblock ─▶ recorded
//! ```
//!
//! 1. Everything that can be refused is refused before anything is changed. The engine examines
//!    devices that are only imagined ([`Imagined`]).
//! 2. The superblock decides (decision 0040): a power cut anywhere leaves the aggregate as it was,
//!    or with all of its new space. `joining` brings the record up to that at the next start.
//! 3. If nobody knows whether the superblock is on the devices, everything stays as it is, and the
//!    next start finds out.
//! 4. A directory that was made larger stays larger if the rest fails. That takes no space, and the
//!    same request can be repeated.
//! 5. The lock of the data directory is held, so that devices change, aggregates are made and
//!    deleted, and names change one at a time.

use std::path::PathBuf;

use everglade_api::{AddDevices, Code, GrownDevice, Growth, Outcome, Problem, ResizeAggregate};
use everglade_engine::{AggregateInfo, GrowError, GrowthInfo, RESERVE_PART, State, admin};
use everglade_env::{DeviceId, DiskError, OpenError, Storage};
use everglade_format::Role;

use super::administrator::{Administrator, host, refused};
use super::candidates;
use super::creation::{self, Contents, CreationError};
use super::imagined::Imagined;
use super::units::bytes;
use super::zeroing::Zeroing;
use super::{drives, joining, kinds, points, room};
use crate::datadir::{AggregateState, Device, DeviceKind, Phase, Uuid};
use crate::{DataDir, Size};

/// An aggregate that is to become larger.
pub(super) struct Pool {
    pub(super) recorded: AggregateState,
    pub(super) known: AggregateInfo,
}

/// A device that is to join, or to become larger.
#[derive(Clone)]
pub(super) struct Candidate {
    /// As it is to be recorded.
    pub(super) device: Device,
    /// Its absolute path.
    pub(super) path: PathBuf,
    /// Its number; `None` until a directory is made.
    pub(super) id: Option<DeviceId>,
    /// Its size in the aggregate until now; `None` if it is new.
    pub(super) former_bytes: Option<u64>,
    /// Whether it has contents that are lost.
    pub(super) holds_data: bool,
}

/// What devices are to become.
#[derive(Clone, Copy)]
enum Addition {
    /// Groups, or single devices.
    Alone,
    /// Data drives of a parity group.
    Data(u16),
    /// More parity of a parity group, or more copies of a mirror.
    Redundancy(u16),
}

impl Addition {
    fn of(request: &AddDevices, known: &AggregateInfo) -> Result<Addition, Problem> {
        let small = |group: u64| {
            let small = u16::try_from(group).ok().filter(|group| *group > 0);
            let refused = || Problem::invalid("group", "groups are numbered from 1 to 65535");
            small.ok_or_else(refused)
        };
        let group = request.group.map(small).transpose()?;
        let Some(group) = group else {
            return match request.parity {
                true => Err(Problem::of_field(
                    Code::MissingField,
                    "group",
                    "missing; say which",
                )),
                false => Ok(Addition::Alone),
            };
        };
        let seats = drives::staying(known).map(|member| member.seat);
        let mut seats = seats.filter(|seat| seat.group == group).peekable();
        if seats.peek().is_none() {
            let name = &known.name;
            let text = format!(
                "aggregate {name} has no group {group}; `everglade aggregate show {name}` lists \
                them"
            );
            return Err(Problem::invalid("group", text));
        }
        match (seats.any(|seat| seat.role == Role::Parity), request.parity) {
            (true, false) => Ok(Addition::Data(group)),
            (true, true) | (false, false) => Ok(Addition::Redundancy(group)),
            (false, true) => {
                let text = format!("group {group} is a mirror; without this it gets another copy");
                Err(Problem::invalid("parity", text))
            }
        }
    }

    /// The group that is there.
    fn group(self) -> Option<u16> {
        match self {
            Addition::Alone => None,
            Addition::Data(group) | Addition::Redundancy(group) => Some(group),
        }
    }

    fn growth(self, added: Vec<(DeviceId, [u8; 16])>) -> everglade_engine::Growth {
        match self {
            Addition::Alone => everglade_engine::Growth::Add(added),
            Addition::Data(group) => everglade_engine::Growth::Widen { group, added },
            Addition::Redundancy(group) => everglade_engine::Growth::Strengthen { group, added },
        }
    }
}

impl Candidate {
    fn is_directory(&self) -> bool {
        self.device.kind == DeviceKind::Directory
    }

    fn of_size(self, size_bytes: u64) -> Candidate {
        let device = Device {
            size_bytes,
            ..self.device
        };
        Candidate { device, ..self }
    }

    fn view(&self) -> GrownDevice {
        GrownDevice {
            path: self.path.display().to_string(),
            kind: kinds::shown(self.device.kind),
            former_size_bytes: self.former_bytes,
            size_bytes: self.device.size_bytes,
            holds_data: self.holds_data,
        }
    }
}

impl Administrator {
    /// Adds devices to an aggregate; with `dry_run`, only says what that would give.
    ///
    /// # Errors
    /// Nothing was changed, except where the problem says so.
    pub fn add_devices(&self, name: &str, request: &AddDevices) -> Result<Growth, Problem> {
        let mut directory = self.directory();
        let pool = self.pool_to_grow(&mut directory, name)?;
        let addition = Addition::of(request, &pool.known)?;
        let usual = addition.group();
        let usual = usual.map(|group| self.size_of_group(&pool, group));
        let devices = candidates::added(&directory, &pool.recorded, request, usual)?;
        let contents = match request.discard_contents || request.dry_run {
            true => Contents::Discarded,
            false => Contents::Kept,
        };
        let mut chosen = Vec::new();
        let checked = self
            .open_chosen(&directory, devices, contents, &mut chosen)
            .and_then(|()| self.examine_addition(&directory, &pool, (addition, &chosen)));
        let info = match checked {
            Ok(info) if !request.dry_run => info,
            refused_or_planned => {
                self.close_chosen(&chosen);
                return refused_or_planned.map(|info| view(name, true, &info, &chosen));
            }
        };
        let joined = self.join_chosen(&mut directory, &pool, (addition, &mut chosen));
        if let Err(problem) = joined {
            // Whether they are members is found out by the next start.
            if problem.outcome != Some(Outcome::Unknown) {
                self.close_chosen(&chosen);
                for Candidate { device, .. } in &chosen {
                    joining::forget(&self.plane.world, &mut directory, &pool.recorded, device);
                }
            }
            return Err(problem);
        }
        for Candidate { path, .. } in &chosen {
            tracing::info!("added {} to aggregate {name}", path.display());
        }
        self.note_growth(&mut directory, name, &info, &chosen);
        Ok(view(name, false, &info, &chosen))
    }

    /// Makes devices of an aggregate larger, or takes what they have become larger by; with
    /// `dry_run`, only says what that would give.
    ///
    /// # Errors
    /// Nothing was changed, except where the problem says so.
    pub fn resize_aggregate(
        &self,
        name: &str,
        request: &ResizeAggregate,
    ) -> Result<Growth, Problem> {
        let mut directory = self.directory();
        let pool = self.pool_to_grow(&mut directory, name)?;
        let chosen = match request.size_bytes {
            Some(size) => self.resized(&directory, &pool, request, Size(size))?,
            None => self.found_larger(&directory, &pool, request)?,
        };
        let info = self.examine_resize(&directory, &pool, &chosen)?;
        if request.dry_run {
            return Ok(view(name, true, &info, &chosen));
        }
        for Candidate { device, id, .. } in chosen.iter().filter(|it| it.is_directory()) {
            let id = id.expect("it is a member");
            let grown = self.plane.world.grow(id, Some(device.size_bytes));
            grown.map_err(|error| not_grown(&error))?;
        }
        let members = chosen.iter().filter_map(|it| it.id).collect();
        self.commit_growth(&pool, &chosen, &everglade_engine::Growth::Extend(members))?;
        for Candidate { device, path, .. } in &chosen {
            tracing::info!(
                "aggregate {name} uses {} of {}",
                Size(device.size_bytes),
                path.display()
            );
        }
        self.note_growth(&mut directory, name, &info, &chosen);
        Ok(view(name, false, &info, &chosen))
    }

    /// Returns the size of the largest drive of a group.
    fn size_of_group(&self, pool: &Pool, group: u16) -> Size {
        let members = pool.known.members.iter();
        let drives = members.filter(|it| it.seat.group == group);
        let drives = drives.filter_map(|member| member.device);
        let sizes = drives.map(|device| self.plane.world.size_bytes(device));
        Size(sizes.max().unwrap_or(0))
    }

    /// Returns the aggregate, if it can become larger now.
    fn pool_to_grow(&self, directory: &mut DataDir, name: &str) -> Result<Pool, Problem> {
        let pool = self.pool_to_change(directory, name)?;
        if let Some(device) = pool.recorded.joining().next() {
            let text = format!(
                "{} was to be added to aggregate {name} before, and could not be cleared; the next \
                start of the daemon tries again",
                directory.device_path(device).display()
            );
            return Err(Problem::new(Code::Unavailable, text));
        }
        Ok(pool)
    }

    /// Returns the aggregate, if its devices can be changed now. A device that was to join before,
    /// and could not be cleared, may be recorded.
    pub(super) fn pool_to_change(
        &self,
        directory: &mut DataDir,
        name: &str,
    ) -> Result<Pool, Problem> {
        self.refuse_unavailable(name)?;
        let missing = || Problem::not_found("aggregate", name);
        let unavailable = |text: String| Err(Problem::new(Code::Unavailable, text));
        let recorded = directory.state().aggregate(name).ok_or_else(missing)?;
        if recorded.phase != Phase::Ready {
            return unavailable(format!("aggregate {name} is just being made or deleted"));
        }
        let known = self.find_aggregate(name).ok_or_else(missing)?;
        match &known.state {
            State::Online => {}
            State::ReadOnly(reason) => {
                return Err(Problem::new(Code::ReadOnly, reason.clone()));
            }
            State::Failed(reason) => return unavailable(reason.clone()),
            State::Mounting | State::Stopping | State::Stopped => {
                let text = format!("aggregate {name} is not online; try again when it is");
                return unavailable(text);
            }
        }
        // What could not be recorded before.
        let recorded = joining::record(&self.plane.world, directory, &known);
        recorded.map_err(|error| host(&error))?;
        let recorded = directory.state().aggregate(name).ok_or_else(missing)?;
        Ok(Pool {
            recorded: recorded.clone(),
            known,
        })
    }

    /// Opens files and block devices, and checks that they may be used. Directories are made later.
    pub(super) fn open_chosen(
        &self,
        directory: &DataDir,
        devices: Vec<Device>,
        contents: Contents,
        chosen: &mut Vec<Candidate>,
    ) -> Result<(), Problem> {
        let world = &self.plane.world;
        for mut device in devices {
            let one = std::slice::from_mut(&mut device);
            let mut opened = Vec::new();
            let checked = creation::check_devices(world, one, None, contents, &mut opened);
            let holds_data = checked.map_err(|error| {
                opened.iter().for_each(|id| world.close(*id));
                refused(&error)
            })?;
            chosen.push(Candidate {
                path: directory.device_path(&device),
                device,
                id: opened.pop(),
                former_bytes: None,
                holds_data: holds_data.contains(&true),
            });
        }
        Ok(())
    }

    pub(super) fn close_chosen(&self, chosen: &[Candidate]) {
        let opened = chosen.iter().filter_map(|it| it.id);
        opened.for_each(|id| self.plane.world.close(id));
    }

    /// Returns the directories that are given a size. Without groups it is one. With mirrors or
    /// parity groups it is all directories in the group of the named one; without a name, all.
    fn resized(
        &self,
        directory: &DataDir,
        pool: &Pool,
        request: &ResizeAggregate,
        size: Size,
    ) -> Result<Vec<Candidate>, Problem> {
        let recorded = &pool.recorded;
        let is_directory = |device: &&Device| device.kind == DeviceKind::Directory;
        let devices = match &request.device {
            Some(text) => {
                let named = candidates::named(directory, recorded, text)?;
                let mates = self.with_mates(directory, pool, named).into_iter();
                let others = mates.filter(|mate| *mate != named).filter(is_directory);
                std::iter::once(named).chain(others).collect()
            }
            None if pool.known.has_groups() && recorded.members().any(|it| is_directory(&it)) => {
                recorded.members().filter(is_directory).collect()
            }
            None => vec![candidates::only_directory(directory, recorded)?],
        };
        let resized = devices.into_iter();
        let resized = resized.map(|device| self.resized_to(directory, pool, device, size));
        resized.collect()
    }

    /// Returns the recorded devices that are in the same mirror or parity group as one, that one
    /// included.
    fn with_mates<'a>(
        &self,
        directory: &DataDir,
        pool: &'a Pool,
        named: &'a Device,
    ) -> Vec<&'a Device> {
        let group_of = |device: &Device| {
            let id = joining::member(&self.plane.world, directory, &pool.known, device)?;
            let mut members = pool.known.members.iter();
            let member = members.find(|member| member.device == Some(id))?;
            (member.seat.group != 0).then_some(member.seat.group)
        };
        match group_of(named) {
            None => vec![named],
            group => {
                let members = pool.recorded.members();
                members.filter(|device| group_of(device) == group).collect()
            }
        }
    }

    fn resized_to(
        &self,
        directory: &DataDir,
        pool: &Pool,
        device: &Device,
        size: Size,
    ) -> Result<Candidate, Problem> {
        let recorded = &pool.recorded;
        let path = directory.device_path(device);
        if device.kind != DeviceKind::Directory {
            let text = format!(
                "{} is no directory, and has the size that it has; make it larger on the host, and \
                leave the size out",
                path.display()
            );
            return Err(Problem::invalid("size_bytes", text));
        }
        candidates::check_new_size(recorded, device, size)?;
        let member = self.member_to_grow(directory, pool, device)?;
        let present = self
            .plane
            .world
            .size_bytes(member.id.expect("it is a member"));
        if size.bytes() < present {
            let text = format!(
                "{} has {}, and a device never becomes smaller; give a larger size",
                path.display(),
                Size(present).said()
            );
            return Err(Problem::invalid("size_bytes", text));
        }
        Ok(member.of_size(size.bytes()))
    }

    /// Returns the files and block devices that have become larger.
    fn found_larger(
        &self,
        directory: &DataDir,
        pool: &Pool,
        request: &ResizeAggregate,
    ) -> Result<Vec<Candidate>, Problem> {
        let (world, recorded) = (&self.plane.world, &pool.recorded);
        let named = request.device.as_deref();
        let named = named.map(|text| candidates::named(directory, recorded, text));
        let named = named.transpose()?;
        let has_size = |device: &&Device| device.kind != DeviceKind::Directory;
        let looked_at: Vec<&Device> = match named {
            Some(device) => self.with_mates(directory, pool, device),
            None => recorded.members().collect(),
        };
        let looked_at: Vec<&Device> = looked_at.into_iter().filter(has_size).collect();
        if looked_at.is_empty() {
            let text = "missing; a directory is given its size, and only files and block devices \
                have one";
            return Err(Problem::of_field(Code::MissingField, "size_bytes", text));
        }
        let mut larger = Vec::new();
        // Of each device that is not larger: how much it lacks, its path, the size that it needs.
        let mut smaller = Vec::new();
        // Why a group cannot become larger now.
        let mut unavailable = None;
        let mut members = Vec::new();
        for device in looked_at {
            let member = match self.member_to_grow(directory, pool, device) {
                // A drive of a group may be missing.
                Err(problem) if pool.known.has_groups() => {
                    unavailable.get_or_insert(problem);
                    continue;
                }
                member => member?,
            };
            let id = member.id.expect("it is a member");
            let size_bytes = world.grow(id, None).map_err(|error| not_grown(&error))?;
            members.push((id, member.of_size(size_bytes)));
        }
        // The smallest drive of a group decides how large it becomes. So all sizes are read first.
        for (id, member) in members {
            let growth = everglade_engine::Growth::Extend(vec![id]);
            match self.engine.examine_growth(world, pool.known.id, &growth) {
                Ok(_) => larger.push(member),
                Err(GrowError::NotLarger {
                    device,
                    bytes,
                    least,
                }) if named.is_none() => {
                    // Of a group it is the smallest drive.
                    let path = match device == id {
                        true => member.path.display().to_string(),
                        false => world.name(device),
                    };
                    smaller.push((least.saturating_sub(bytes), path, least));
                }
                Err(GrowError::JournalOnly(_) | GrowError::Leaving) if named.is_none() => {}
                Err(error @ GrowError::Unavailable(_)) if named.is_none() => {
                    unavailable.get_or_insert(self.explain_growth(&error, &[member]));
                }
                Err(error) => return Err(self.explain_growth(&error, &[member])),
            }
        }
        if let Some(problem) = unavailable.filter(|_| larger.is_empty()) {
            return Err(problem);
        }
        if larger.is_empty() {
            let nearest = smaller.into_iter().min();
            let such_as = nearest.map_or(String::new(), |(_, path, least)| {
                format!(", such as {path} to {}", Size(least).at_least())
            });
            let (what, which) = match pool.known.has_groups() {
                true => ("no mirror or parity group", "all drives of one"),
                false => ("no file or block device", "one"),
            };
            let text = format!(
                "{what} of aggregate {} is larger than before by an area of 128 MiB; make {which} \
                larger on the host first{such_as}, or give a directory a size",
                recorded.name
            );
            return Err(Problem::new(Code::DeviceUnusable, text));
        }
        Ok(larger)
    }

    /// Returns a recorded device that is a member, as it is.
    fn member_to_grow(
        &self,
        directory: &DataDir,
        pool: &Pool,
        device: &Device,
    ) -> Result<Candidate, Problem> {
        let path = directory.device_path(device);
        let id = joining::member(&self.plane.world, directory, &pool.known, device);
        let missing = || {
            let (path, name) = (path.display(), &pool.recorded.name);
            let text = match pool.known.has_groups() {
                true => format!(
                    "{path}, a drive of aggregate {name}, is not there; bring it back, or replace \
                    it, before its group becomes larger"
                ),
                false => format!("{path} is recorded as a device of aggregate {name}, and is not"),
            };
            Problem::new(Code::Unavailable, text)
        };
        Ok(Candidate {
            id: Some(id.ok_or_else(missing)?),
            former_bytes: Some(device.size_bytes),
            device: device.clone(),
            path,
            holds_data: false,
        })
    }

    /// Says what an addition would give.
    fn examine_addition(
        &self,
        directory: &DataDir,
        pool: &Pool,
        (addition, chosen): (Addition, &[Candidate]),
    ) -> Result<GrowthInfo, Problem> {
        let mut imagined = Imagined::new(&self.plane.world);
        let mut chosen = chosen.to_vec();
        let mut added = Vec::new();
        for candidate in &mut chosen {
            let new = || imagined.add(candidate.device.size_bytes);
            let id = *candidate.id.get_or_insert_with(new);
            added.push((id, [0; 16]));
        }
        let growth = addition.growth(added);
        let info = self.examine(&imagined, pool, &chosen, &growth)?;
        let devices = chosen.iter().map(|it| &it.device);
        refuse_full_host(directory, pool, &info, devices, "devices")?;
        Ok(info)
    }

    /// Says what larger devices would give.
    fn examine_resize(
        &self,
        directory: &DataDir,
        pool: &Pool,
        chosen: &[Candidate],
    ) -> Result<GrowthInfo, Problem> {
        let mut imagined = Imagined::new(&self.plane.world);
        let mut members = Vec::new();
        for Candidate { device, id, .. } in chosen {
            let id = id.expect("it is a member");
            imagined.resize(id, device.size_bytes);
            members.push(id);
        }
        let growth = everglade_engine::Growth::Extend(members);
        let info = self.examine(&imagined, pool, chosen, &growth)?;
        // Who made a file larger knows the host below it.
        let directories = chosen.iter().filter(|it| it.is_directory());
        let devices = directories.map(|it| &it.device);
        refuse_full_host(directory, pool, &info, devices, "size_bytes")?;
        Ok(info)
    }

    /// Asks the engine what a growth would give.
    fn examine(
        &self,
        imagined: &Imagined<'_>,
        pool: &Pool,
        chosen: &[Candidate],
        growth: &everglade_engine::Growth,
    ) -> Result<GrowthInfo, Problem> {
        let info = self.engine.examine_growth(imagined, pool.known.id, growth);
        info.map_err(|error| self.explain_growth(&error, chosen))
    }

    /// Records the devices, makes those that are directories, and makes all of them members.
    fn join_chosen(
        &self,
        directory: &mut DataDir,
        pool: &Pool,
        (addition, chosen): (Addition, &mut [Candidate]),
    ) -> Result<(), Problem> {
        let mut uuids = Vec::new();
        for candidate in chosen.iter_mut() {
            let uuid = creation::random().map_err(|error| refused(&error))?;
            // A drive of a group may be a member and be away at the next start.
            candidate.device.member = pool.known.has_groups().then_some(Uuid(uuid));
            uuids.push(uuid);
        }
        let mut state = directory.state().clone();
        let mut aggregates = state.aggregates.iter_mut();
        let recorded = aggregates.find(|it| it.name == pool.recorded.name);
        let recorded = recorded.expect("it was looked up");
        let devices = chosen.iter().map(|it| it.device.clone());
        recorded.devices.extend(devices);
        directory.record(state).map_err(|error| host(&error))?;
        let mut added = Vec::new();
        for (candidate, uuid) in chosen.iter_mut().zip(uuids) {
            let id = match candidate.id {
                Some(id) => id,
                None => self.make_directory(directory, &candidate.device)?,
            };
            candidate.id = Some(id);
            added.push((id, uuid));
        }
        if let Addition::Redundancy(_) = addition {
            let mut idle = self.idle_drives.lock();
            added.iter().for_each(|(_, uuid)| idle.replacing(*uuid));
        }
        let uuids: Vec<[u8; 16]> = added.iter().map(|(_, uuid)| *uuid).collect();
        let joined = self.commit_growth(pool, chosen, &addition.growth(added));
        joined.inspect_err(|problem| {
            if problem.outcome != Some(Outcome::Unknown) {
                let mut idle = self.idle_drives.lock();
                uuids.iter().for_each(|uuid| idle.not_replaced(*uuid));
            }
        })
    }

    /// Makes a directory device.
    pub(super) fn make_directory(
        &self,
        directory: &DataDir,
        device: &Device,
    ) -> Result<DeviceId, Problem> {
        let path = match device.path.is_relative() {
            true => {
                let made = directory.make_directory(device);
                made.map_err(|error| host(&error))?
            }
            false => device.path.clone(),
        };
        let world = &self.plane.world;
        let opened = world.open_directory(&path, device.size_bytes, true);
        opened.map_err(|error| refused(&CreationError::Open(error)))
    }

    /// Writes the labels of the next composition, and has a consistency point make it count.
    fn commit_growth(
        &self,
        pool: &Pool,
        chosen: &[Candidate],
        growth: &everglade_engine::Growth,
    ) -> Result<(), Problem> {
        let (world, id) = (&self.plane.world, pool.known.id);
        let next = self.engine.prepare_growth(&Zeroing(world), id, growth);
        let next = next.map_err(|error| self.explain_growth(&error, chosen))?;
        let change = admin::Change::Grow { next: next.clone() };
        match self.change(id, change) {
            Ok(_) => Ok(()),
            Err(problem) => {
                if problem.outcome != Some(Outcome::Unknown) {
                    self.engine.abandon_growth(world, id, next);
                }
                Err(problem)
            }
        }
    }

    /// Records that the devices are members of their present sizes. They are: a failure costs
    /// nothing, because the next start records it.
    fn note_growth(
        &self,
        directory: &mut DataDir,
        name: &str,
        info: &GrowthInfo,
        chosen: &[Candidate],
    ) {
        let mut state = directory.state().clone();
        let recorded = state.aggregates.iter_mut().find(|it| it.name == name);
        let recorded = recorded.expect("it was looked up");
        recorded.epoch = recorded.epoch.max(info.epoch_after);
        for Candidate { device, .. } in chosen {
            let mut devices = recorded.devices.iter_mut();
            let known = devices.find(|known| known.path == device.path);
            let known = known.expect("it is recorded");
            (known.joining, known.member) = (false, None);
            known.size_bytes = device.size_bytes;
        }
        if let Err(error) = directory.record(state) {
            tracing::warn!("aggregate {name} has grown, which the next start records: {error}");
        }
        points::see(&self.engine, directory);
    }

    /// Translates a refusal of the engine, which knows devices by number only.
    pub(super) fn explain_growth(&self, error: &GrowError, chosen: &[Candidate]) -> Problem {
        let of = |id: DeviceId| chosen.iter().find(|it| it.id == Some(id));
        let path = |id: DeviceId| {
            let path = of(id).map(|it| it.path.display().to_string());
            path.unwrap_or_else(|| self.plane.world.name(id))
        };
        match error {
            GrowError::Busy => Problem::new(Code::Busy, error.to_string()),
            GrowError::TooSmall {
                device,
                bytes,
                least,
            } => {
                let path = path(*device);
                let problem = creation::too_small(*bytes, *least);
                refused(&CreationError::Device { path, problem })
            }
            GrowError::InUse(device) => refused(&CreationError::Labelled {
                path: path(*device),
            }),
            GrowError::Groups { .. } => {
                let text = format!(
                    "{error}. To give a group that is there more drives instead, name it: \
                    `--group`, in a request `group`"
                );
                Problem::invalid("devices", text)
            }
            GrowError::NoParityGroup(_)
            | GrowError::NoGroup(_)
            | GrowError::Strongest { .. }
            | GrowError::TooWide { .. } => Problem::invalid("group", error.to_string()),
            GrowError::LastCopy | GrowError::SeatInUse | GrowError::Leaving => {
                Problem::of_field(Code::Busy, "device", error.to_string())
            }
            GrowError::NotMember(device) => {
                let text = format!("{} is no device of the aggregate", path(*device));
                Problem::of_field(Code::DeviceUnusable, "device", text)
            }
            GrowError::JournalOnly(device) => {
                let text = format!(
                    "{} has nothing but the journal, which does not grow; choose another device",
                    path(*device)
                );
                Problem::invalid("device", text)
            }
            GrowError::NotLarger {
                device,
                bytes,
                least,
            } => {
                let text = format!(
                    "{} would have {}, too little more than before: an aggregate grows by areas \
                    of 128 MiB; make it at least {}",
                    path(*device),
                    Size(*bytes).said(),
                    Size(*least).at_least()
                );
                match of(*device) {
                    Some(candidate) if candidate.is_directory() => {
                        Problem::invalid("size_bytes", text)
                    }
                    _ => Problem::of_field(Code::DeviceUnusable, "device", text),
                }
            }
            GrowError::TooMany(_) => Problem::new(Code::TooMany, error.to_string()),
            GrowError::Disk { device, error } => {
                let path = path(*device);
                refused(&match error {
                    DiskError::NoSpace => CreationError::NoSpace { path },
                    error => CreationError::Device {
                        path,
                        problem: error.to_string(),
                    },
                })
            }
            GrowError::Unavailable(reason) => Problem::new(Code::Unavailable, reason.clone()),
        }
    }
}

fn view(name: &str, dry_run: bool, info: &GrowthInfo, chosen: &[Candidate]) -> Growth {
    Growth {
        aggregate: name.to_owned(),
        dry_run,
        former_size_bytes: bytes(info.total_blocks_before),
        size_bytes: bytes(info.total_blocks_after),
        reserve_bytes: bytes(info.reserve_blocks_after),
        devices: chosen.iter().map(Candidate::view).collect(),
    }
}

/// Refuses a growth that the host has no room for.
fn refuse_full_host<'a>(
    directory: &DataDir,
    pool: &Pool,
    info: &GrowthInfo,
    devices: impl Iterator<Item = &'a Device> + Clone,
    field: &str,
) -> Result<(), Problem> {
    // The reserve grows later, with what is in use.
    let present = pool.known.usage.reserve_blocks;
    let more = info.reserve_blocks_after.saturating_sub(present);
    let reserve = bytes(more.min(pool.known.usage.used_blocks / RESERVE_PART));
    let full = room::refuse_full_hosts_of_growth(directory.path(), devices, reserve);
    full.map_err(|full| Problem::of_field(Code::NoSpace, field, full))
}

/// Translates the refusal of a host to make a device larger.
fn not_grown(error: &OpenError) -> Problem {
    use std::io::ErrorKind;
    let code = match error {
        OpenError::Host { source, .. }
            if matches!(
                source.kind(),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded
            ) =>
        {
            Code::NoSpace
        }
        _ => Code::DeviceUnusable,
    };
    Problem::of_field(code, "device", error)
}
