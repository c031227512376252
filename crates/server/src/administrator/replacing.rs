//! Replacing a drive of a mirror by another one, while clients go on (decision 0044).
//!
//! ```text
//! checked ─▶ recorded as joining ─▶ made ready ─▶ old taken out ─▶ labelled ─▶ has the seat by a
//!    │ refused       └───────────────── failed ──────────────────────┘      superblock ─▶ recorded
//!    ▼                     forgotten (`joining`)                                 └▶ catches up
//! nothing changed
//! ```
//!
//! 1. Everything that can be refused is refused before anything is changed.
//! 2. The superblock decides (decision 0040): a power cut anywhere leaves the old drive in its
//!    seat, or the new one. The record has both until then, and the next start finds out.
//! 3. A drive that was taken out stays out if the rest fails: it misses writes from then on. The
//!    next start lets it catch up, or the request is repeated.
//! 4. The old drive is closed when the new one has its seat. Nobody writes to it any more, not even
//!    its label: it may still be wanted. If it comes back, it is no member.
//! 5. The lock of the data directory is held until the new drive has the seat. It catches up
//!    afterwards.

use std::time::Duration;

use everglade_api::{Code, Outcome, Problem, ReplaceDrive, Replacement};
use everglade_engine::{GrowError, Growth, admin};
use everglade_env::DeviceId;

use super::administrator::{Administrator, host, refused};
use super::candidates;
use super::creation::{self, Contents};
use super::drives::Member;
use super::growing::{Candidate, Pool};
use super::imagined::Imagined;
use super::units::bytes;
use super::{joining, kinds, points, room};
use crate::DataDir;
use crate::datadir::{Device, Uuid};

/// Another drive may fail while this one is replaced. Then the label is written again.
const ATTEMPTS_MAX: u32 = 8;
/// Rest between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The seat that is to get another drive.
struct Seat {
    /// Index in the table of members.
    member: u32,
    uuid: Member,
    group: u64,
    /// The old drive, if it is there.
    device: Option<DeviceId>,
    is_used: bool,
    /// As it is recorded.
    recorded: Device,
    path: String,
}

impl Administrator {
    /// Replaces a drive of a mirror; with `dry_run`, only says what that would do.
    ///
    /// # Errors
    /// Nothing was changed, except where the problem says so.
    pub fn replace_drive(
        &self,
        name: &str,
        request: &ReplaceDrive,
    ) -> Result<Replacement, Problem> {
        let mut directory = self.directory();
        candidates::refuse_spare(&directory, &request.with, "with")?;
        self.replace_in(&mut directory, name, request)
    }

    /// The same, also by a spare drive, which is none from then on.
    pub(super) fn replace_in(
        &self,
        directory: &mut DataDir,
        name: &str,
        request: &ReplaceDrive,
    ) -> Result<Replacement, Problem> {
        let pool = self.pool_to_change(directory, name)?;
        let seat = self.seat_of(directory, &pool, &request.device)?;
        let old = (&seat.recorded, seat.device.is_some());
        let device = candidates::successor(directory, old, request)?;
        let contents = match request.discard_contents || request.dry_run {
            true => Contents::Discarded,
            false => Contents::Kept,
        };
        let mut chosen = Vec::new();
        let checked = self
            .open_chosen(directory, vec![device], contents, &mut chosen)
            .and_then(|()| self.examine_replacement(directory, &pool, &seat, &chosen[0]));
        if let Err(problem) = checked {
            self.close_chosen(&chosen);
            return Err(problem);
        }
        if request.dry_run {
            self.close_chosen(&chosen);
            return Ok(view(name, true, &seat, &chosen[0]));
        }
        let new = creation::random().map_err(|error| {
            self.close_chosen(&chosen);
            refused(&error)
        })?;
        self.idle_drives.lock().replacing(new);
        let put_in = self.put_in_chosen(directory, &pool, (&seat, new), &mut chosen[0]);
        put_in.inspect_err(|problem| {
            let known = self.find_aggregate(name);
            let members = known.iter().flat_map(|known| &known.members);
            let has_seat = members.into_iter().any(|member| member.uuid == new);
            // Whether it has the seat is found out by the next start.
            if problem.outcome != Some(Outcome::Unknown) && !has_seat {
                self.idle_drives.lock().not_replaced(new);
                self.close_chosen(&chosen);
                let device = &chosen[0].device;
                joining::forget(&self.plane.world, directory, &pool.recorded, device);
            }
        })?;
        self.idle_drives.lock().replaced(seat.uuid);
        if let Some(old) = seat.device {
            self.plane.world.close(old);
        }
        self.note_replacement(directory, name, &chosen[0]);
        let (old, path) = (&seat.path, chosen[0].path.display());
        tracing::info!("aggregate {name}: drive {path} replaces {old}, and catches up");
        Ok(view(name, false, &seat, &chosen[0]))
    }

    /// Returns the seat of the drive that a request names.
    fn seat_of(&self, directory: &DataDir, pool: &Pool, text: &str) -> Result<Seat, Problem> {
        let recorded = candidates::named(directory, &pool.recorded, text)?;
        let path = directory.device_path(recorded);
        let id = joining::member(&self.plane.world, directory, &pool.known, recorded);
        let missing = self.idle_drives.lock().missing_at(&path);
        let mut members = (0..).zip(&pool.known.members);
        let found = members.find(|(_, member)| match id {
            Some(id) => member.device == Some(id),
            None => member.device.is_none() && missing == Some(member.uuid),
        });
        let Some((member, info)) = found else {
            let (path, name) = (path.display(), &pool.recorded.name);
            let text = format!("{path} is recorded as a device of aggregate {name}, and is not");
            return Err(Problem::new(Code::Unavailable, text));
        };
        if self.idle_drives.lock().is_uncertain(info.uuid) {
            let text = format!(
                "several drives of aggregate {} are missing, and the order of state.toml does not \
                say whose place {} has; bring one of them back, or stop the daemon and put the \
                lines into the order of the groups",
                pool.recorded.name,
                path.display()
            );
            return Err(Problem::new(Code::Unavailable, text));
        }
        if info.seat.group == 0 {
            let text = format!(
                "aggregate {} has no redundancy, so {} has the only copy of its blocks; copy the \
                volumes to another aggregate instead",
                pool.recorded.name,
                path.display()
            );
            return Err(Problem::invalid("device", text));
        }
        Ok(Seat {
            member,
            uuid: info.uuid,
            group: u64::from(info.seat.group),
            device: info.device,
            is_used: info.is_used,
            recorded: recorded.clone(),
            path: path.display().to_string(),
        })
    }

    /// Checks whether the new drive can have the seat.
    fn examine_replacement(
        &self,
        directory: &DataDir,
        pool: &Pool,
        seat: &Seat,
        candidate: &Candidate,
    ) -> Result<(), Problem> {
        let mut imagined = Imagined::new(&self.plane.world);
        let new = || imagined.add(candidate.device.size_bytes);
        let mut candidate = candidate.clone();
        let id = *candidate.id.get_or_insert_with(new);
        let growth = Growth::Replace {
            member: seat.member,
            device: id,
            uuid: [0; 16],
        };
        let info = self
            .engine
            .examine_growth(&imagined, pool.known.id, &growth);
        info.map_err(|error| self.explain(&error, &candidate))?;
        let devices = [&candidate.device].into_iter();
        // It gets the journal, if that is on its group, and the blocks in use.
        let groups = pool.known.members.iter().map(|member| member.seat.group);
        let groups = groups.max().map_or(1, u64::from).max(1);
        let journal = pool
            .known
            .journal
            .as_ref()
            .map_or(0, |it| 2 * it.half_bytes);
        let needed = bytes(pool.known.usage.used_blocks) / groups + journal;
        let full = room::refuse_full_hosts_of_growth(directory.path(), devices, needed);
        full.map_err(|full| Problem::of_field(Code::NoSpace, "with", full))
    }

    /// Records the new drive, makes it and makes it ready, takes the old one out, and gives the
    /// seat to the new one.
    fn put_in_chosen(
        &self,
        directory: &mut DataDir,
        pool: &Pool,
        (seat, uuid): (&Seat, Member),
        candidate: &mut Candidate,
    ) -> Result<(), Problem> {
        candidate.device.member = Some(Uuid(uuid));
        let mut state = directory.state().clone();
        let mut aggregates = state.aggregates.iter_mut();
        let recorded = aggregates.find(|it| it.name == pool.recorded.name);
        let recorded = recorded.expect("it was looked up");
        recorded.devices.push(candidate.device.clone());
        state.spares.retain(|spare| spare.path != candidate.path);
        directory.record(state).map_err(|error| host(&error))?;
        let id = match candidate.id {
            Some(id) => id,
            None => self.make_directory(directory, &candidate.device)?,
        };
        candidate.id = Some(id);
        // A new drive that cannot be written is no reason to take the old one out.
        let (world, pool_id) = (&self.plane.world, pool.known.id);
        let ready = self.engine.make_ready(world, pool_id, seat.member, id);
        ready.map_err(|error| self.explain(&error, candidate))?;
        if let Some(device) = seat.device {
            let change = admin::Change::TakeOut { device };
            self.change(pool.known.id, change)?;
        }
        let growth = Growth::Replace {
            member: seat.member,
            device: id,
            uuid,
        };
        self.give_seat(pool, candidate, &growth)
            .map_err(|problem| after_taking_out(seat, problem))
    }

    /// Writes the label of the new drive, and has a consistency point give it the seat.
    fn give_seat(
        &self,
        pool: &Pool,
        candidate: &Candidate,
        growth: &Growth,
    ) -> Result<(), Problem> {
        let (world, id) = (&self.plane.world, pool.known.id);
        for attempt in 1.. {
            let is_last = attempt >= ATTEMPTS_MAX;
            let next = match self.engine.prepare_growth(world, id, growth) {
                Ok(next) => next,
                // The consistency point that refused it has yet to let go of it.
                Err(GrowError::Busy) if !is_last => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(error) => return Err(self.explain(&error, candidate)),
            };
            let change = admin::Change::Grow { next: next.clone() };
            let Err(problem) = self.change(id, change) else {
                return Ok(());
            };
            if problem.outcome == Some(Outcome::Unknown) {
                return Err(problem);
            }
            self.engine.abandon_growth(world, id, next);
            // The devices were changed meanwhile.
            if problem.code != Code::InUse || is_last {
                return Err(problem);
            }
            std::thread::sleep(PAUSE);
        }
        unreachable!("the last attempt returns")
    }

    /// Records the new drive in the place of the old one. A failure costs nothing, because the next
    /// start records it.
    fn note_replacement(&self, directory: &mut DataDir, name: &str, candidate: &Candidate) {
        let mut state = directory.state().clone();
        let recorded = state.aggregates.iter_mut().find(|it| it.name == name);
        let recorded = recorded.expect("it was looked up");
        recorded.settle(&candidate.device.path);
        let known = self.find_aggregate(name).map_or(0, |known| known.epoch);
        recorded.epoch = recorded.epoch.max(known);
        if let Err(error) = directory.record(state) {
            tracing::warn!(
                "aggregate {name} has a new drive, which the next start records: {error}"
            );
        }
        points::see(&self.engine, directory);
    }

    /// Translates a refusal of the engine.
    fn explain(&self, error: &GrowError, candidate: &Candidate) -> Problem {
        let path = candidate.path.display();
        match error {
            GrowError::TooSmall { bytes, least, .. } => {
                let text = format!("{path}: {}", creation::too_small_to_replace(*bytes, *least));
                Problem::of_field(Code::DeviceUnusable, "with", text)
            }
            error => {
                let problem = self.explain_growth(error, std::slice::from_ref(candidate));
                match problem.field.as_deref() {
                    Some("devices") => Problem {
                        field: Some("with".to_owned()),
                        ..problem
                    },
                    _ => problem,
                }
            }
        }
    }
}

/// The problem of a replacement that failed when the old drive was out already.
fn after_taking_out(seat: &Seat, problem: Problem) -> Problem {
    if !seat.is_used {
        return problem;
    }
    let detail = format!(
        "{}; {} is not used any more, and catches up when the daemon starts again; replace it, or \
        start the daemon again",
        problem.detail, seat.path
    );
    Problem { detail, ..problem }
}

fn view(name: &str, dry_run: bool, seat: &Seat, candidate: &Candidate) -> Replacement {
    Replacement {
        aggregate: name.to_owned(),
        dry_run,
        group: seat.group,
        device: seat.path.clone(),
        was_in_use: seat.is_used,
        with: candidate.path.display().to_string(),
        kind: kinds::shown(candidate.device.kind),
        size_bytes: candidate.device.size_bytes,
        holds_data: candidate.holds_data,
    }
}
