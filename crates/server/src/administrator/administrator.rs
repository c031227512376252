//! The administrator: carries out the requests of the REST interface, by messages to the data
//! plane.
//!
//! Callers are ordinary threads and may wait; reactors never do. A change is answered when it is
//! durable.
//!
//! 1. Aggregates are created one at a time, under the lock of the data directory, so `state.toml`
//!    is written in the same order.
//! 2. Volumes are created only in aggregates that are recorded as ready: the next start would undo
//!    the creation of any other aggregate, with its acknowledged volumes.
//! 3. An aggregate is deleted only while no volume is being created in it: `populating` is held for
//!    reading while a volume is created, and held for writing while a deletion checks for volumes.
//! 4. A request that arrives after the reactors have ended is refused, so no caller waits for ever.
//!    Such a request has changed nothing: a reactor answers every change that it has taken, with
//!    its outcome, also during the stop (decision 0030).
//! 5. A problem that occurs after the change was made says so ([`Problem::after_change`]): another
//!    caller may delete an object before the answer shows it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everglade_api::{
    Aggregate, Code, Condition, CreateAggregate, CreateLun, CreateVolume, CreationPlan, Lun,
    LunName, Moment, Name, Problem, ResizeLun, Size, SnapshotName, Volume, counted,
};
use everglade_engine::{AggregateInfo, Engine, State, VolumeId, VolumeInfo, admin};
use everglade_env::lock::{Mutex, MutexGuard, RwLock};
use everglade_target::reservations::{LunUuid, Registry};

use super::allow::Allow;
use super::candidates;
use super::creation::{self, Contents, CreationError};
use super::drives::IdleDrives;
use super::kinds::on_media;
use super::pauses;
use super::points;
use super::unavailable::Unavailable;
use super::units::{bytes, in_trash};
use crate::config::Window;
use crate::datadir::{DataDirError, Endpoints, Phase, Uuid};
use crate::fronts::Protocol;
use crate::plane::control::{Answer, Control, Plane, Timing};
use crate::records::jobs::Pending;
use crate::schedule::Schedule;
use crate::{Config, DataDir};

/// Each has affinities, areas and maps in memory.
pub(super) const AGGREGATES_MAX: usize = 64;
/// Interval between checks of an aggregate that is mounting.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(1);

/// See the module's documentation. Shared by the threads of the REST interface.
pub struct Administrator {
    pub(super) engine: Engine,
    pub(super) plane: Arc<Plane>,
    directory: Mutex<DataDir>,
    /// Names of aggregates recorded as ready.
    pub(super) ready: Mutex<BTreeSet<String>>,
    /// See the module's documentation.
    pub(super) populating: RwLock<()>,
    /// Aggregates that are recorded but could not be opened.
    unavailable: Mutex<Vec<Unavailable>>,
    pub(super) since: Instant,
    schedule: Schedule,
    /// Reservations of LUNs, of all protocols.
    pub(super) reservations: Arc<Registry>,
    /// The policy of volumes that are made without saying which.
    pub(super) usual_policy: String,
    /// Seconds from the beginning of a scrub to that of the next one; 0 for never.
    pub(super) scrub_interval: u64,
    /// Seconds that deleted objects stay in the trash; 0 if they do not go there.
    pub(super) trash_keep: u64,
    /// When gardening may move blocks.
    pub(super) garden_window: Window,
    /// UUIDs of aggregates in which gardening is paused.
    pub(super) garden_paused: Mutex<BTreeSet<Uuid>>,
    /// The allow-lists of the protocols that have one.
    pub(super) allow: Vec<Allow>,
    /// Conditions of aggregates, by their numbers in the engine, that were found at the start and
    /// stay until the daemon ends, or the aggregate is deleted. Objects are left out.
    pub(super) found_at_start: Vec<(u32, Condition)>,
    /// Drives that were missing or behind when their aggregates were opened.
    pub(super) idle_drives: Mutex<IdleDrives>,
}

/// A deleted object, and the work that its deletion left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Blocks that the aggregate has yet to free, including those of this deletion.
    pub pending: Pending,
    /// A description of the deleted object, for people.
    pub detail: String,
    /// When it leaves the trash, if it was put there: then nothing is freed now.
    pub kept_until: Option<Moment>,
}

impl Administrator {
    pub(crate) fn new(
        engine: Engine,
        plane: Arc<Plane>,
        directory: DataDir,
        (unavailable, idle_drives): (Vec<Unavailable>, IdleDrives),
        schedule: Schedule,
        (config, protocols, reservations): (&Config, &[Box<dyn Protocol>], &Arc<Registry>),
    ) -> Administrator {
        let ready = directory
            .state()
            .aggregates
            .iter()
            .filter(|aggregate| aggregate.phase == Phase::Ready)
            .map(|aggregate| aggregate.name.clone());
        let aggregates = directory.state().aggregates.clone().into_iter();
        let garden_paused = aggregates.filter(|it| it.garden_paused);
        let garden_paused = garden_paused.filter_map(|it| it.uuid);
        Administrator {
            schedule,
            reservations: Arc::clone(reservations),
            engine,
            plane,
            ready: Mutex::new(ready.collect()),
            usual_policy: config.snapshot_policy.clone(),
            scrub_interval: config.scrub_interval.duration().as_secs(),
            garden_window: config.garden_window,
            garden_paused: Mutex::new(garden_paused.collect()),
            trash_keep: config.trash_keep.duration().as_secs(),
            allow: Allow::of(protocols),
            found_at_start: Vec::new(),
            idle_drives: Mutex::new(idle_drives),
            directory: Mutex::new(directory),
            populating: RwLock::new(()),
            unavailable: Mutex::new(unavailable),
            since: Instant::now(),
        }
    }

    /// Returns whether every reactor responds. Waits as long as a reactor hangs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let mut reactors = 0..self.plane.reactors();
        reactors.all(|reactor| self.plane.ask(reactor, Control::Ping).is_some())
    }

    /// Asks all aggregates to release space that they do not need soon, because a host is short of
    /// it.
    pub fn give_back(&self) {
        self.plane.give_back();
    }

    /// Snapshots that volumes get by themselves.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn policy_for<'a>(&'a self, wanted: Option<&'a Name>) -> &'a str {
        wanted.map_or(&self.usual_policy, Name::as_str)
    }

    /// Returns the time of the host.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment(self.plane.world.wall_seconds())
    }

    /// Returns the aggregates that are recorded but could not be opened.
    pub(super) fn unavailable(&self) -> MutexGuard<'_, Vec<Unavailable>> {
        self.unavailable.lock()
    }

    pub(super) fn ready(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.ready.lock()
    }

    pub(super) fn directory(&self) -> MutexGuard<'_, DataDir> {
        self.directory.lock()
    }

    /// Returns the data directory, unless it is in use.
    pub(super) fn try_directory(&self) -> Option<MutexGuard<'_, DataDir>> {
        self.directory.try_lock()
    }

    /// Records the consistency points of the aggregates. Skipped if the data directory is in use;
    /// the next call records them.
    pub(crate) fn see_points(&self) {
        if let Some(mut directory) = self.try_directory() {
            points::see(&self.engine, &mut directory);
        }
    }

    /// Tells scripts where the daemon listens.
    pub fn announce(&self, endpoints: &Endpoints) {
        self.directory().announce(endpoints);
    }

    /// Writes the files of the data directory that a full host refused, unless the directory is in
    /// use.
    pub fn settle(&self) {
        if let Some(mut directory) = self.try_directory() {
            directory.settle();
        }
    }

    /// Removes the endpoints, because the server accepts no more requests. If a device that hangs
    /// blocks a creation, the stop continues without this.
    pub fn withdraw(&self) {
        match self.try_directory() {
            Some(mut directory) => directory.withdraw(),
            None => {
                tracing::warn!(
                    "an aggregate was still being created; the next start takes it back"
                );
            }
        }
    }

    // ---- aggregates ----

    /// Returns what [`Administrator::create_aggregate`] would do, and changes nothing.
    ///
    /// # Errors
    /// The creation would be refused.
    pub fn plan_aggregate(&self, request: &CreateAggregate) -> Result<CreationPlan, Problem> {
        let directory = self.directory();
        let wanted = self.wanted(&directory, request)?;
        let protection = wanted.shape.protection;
        let devices = creation::examine(&self.plane.world, &directory, wanted);
        let devices = devices.map_err(|error| refused(&error))?;
        let data = devices.iter().filter(|device| !device.is_journal);
        let sizes: Vec<u64> = data.map(|device| device.size_bytes).collect();
        // The drives of a group have the capacity of the smallest one.
        let groups = sizes.chunks(protection.drives);
        let smallest = groups.filter_map(|drives| drives.iter().copied().min());
        let sizes = smallest.map(|size| size.saturating_mul(protection.data() as u64));
        Ok(CreationPlan {
            name: request.name.to_string(),
            size_bytes: sizes.fold(0, u64::saturating_add),
            devices,
        })
    }

    /// Returns the devices of an aggregate that could be made.
    fn wanted(
        &self,
        directory: &DataDir,
        request: &CreateAggregate,
    ) -> Result<candidates::Wanted, Problem> {
        let name = request.name.as_str();
        let known = &directory.state().aggregates;
        if known.iter().any(|aggregate| aggregate.name == name)
            || self.find_aggregate(name).is_some()
        {
            let text = format!("aggregate {name} exists already; choose another name");
            return Err(Problem::new(Code::Exists, text));
        }
        if known.len() >= AGGREGATES_MAX {
            let text = format!("there are {AGGREGATES_MAX} aggregates already, as many as can be");
            return Err(Problem::new(Code::TooMany, text));
        }
        candidates::chosen(directory, request)
    }

    /// Makes an aggregate and waits until it is online.
    ///
    /// # Errors
    /// Nothing was changed, except where the problem says so.
    pub fn create_aggregate(&self, request: &CreateAggregate) -> Result<Aggregate, Problem> {
        let name = request.name.as_str();
        let mut directory = self.directory();
        let wanted = self.wanted(&directory, request)?;
        let contents = if request.discard_contents {
            Contents::Discarded
        } else {
            Contents::Kept
        };
        let id = creation::create(
            &self.plane,
            &self.engine,
            &mut directory,
            name,
            wanted,
            contents,
        )
        .map_err(|error| refused(&error))?;
        self.plane.wake_all();
        self.wait_until_online(id)?;
        creation::finish(&mut directory, name).map_err(|error| host(&error))?;
        points::see(&self.engine, &mut directory);
        self.ready().insert(name.to_owned());
        drop(directory);
        tracing::info!("created aggregate {name}");
        self.aggregate(name).map_err(Problem::after_change)
    }

    fn wait_until_online(&self, id: u32) -> Result<(), Problem> {
        loop {
            let state = self.state_of(id);
            match state {
                State::Mounting => std::thread::sleep(LOOK_EVERY),
                State::Online | State::Stopping | State::Stopped => return Ok(()),
                State::Failed(reason) | State::ReadOnly(reason) => {
                    let text = format!(
                        "the new aggregate failed: {reason}; the next start of the daemon takes it \
                        back"
                    );
                    return Err(Problem::new(Code::Unavailable, text));
                }
            }
        }
    }

    /// Returns the state of an aggregate. The caller has the directory, so nobody else deletes it.
    pub(super) fn state_of(&self, id: u32) -> State {
        let aggregates = self.engine.aggregates();
        let found = aggregates.into_iter().find(|aggregate| aggregate.id == id);
        found.expect("aggregates go one at a time").state
    }

    pub(super) fn find_aggregate(&self, name: &str) -> Option<AggregateInfo> {
        let mut aggregates = self.engine.aggregates().into_iter();
        aggregates.find(|aggregate| aggregate.name == name)
    }

    /// Returns an aggregate that was opened.
    ///
    /// # Errors
    /// It does not exist, or could not be opened.
    pub(super) fn opened_aggregate(&self, name: &str) -> Result<AggregateInfo, Problem> {
        self.refuse_unavailable(name)?;
        let found = self.find_aggregate(name);
        found.ok_or_else(|| Problem::not_found("aggregate", name))
    }

    // ---- volumes and LUNs ----

    /// Adds a volume.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn create_volume(&self, request: &CreateVolume) -> Result<Volume, Problem> {
        let _populating = self.populating.read();
        let name = request.name.as_str();
        let wanted = request.snapshot_policy.as_ref();
        let (aggregate, change) = match &request.clone_of {
            Some(base) => self.clone_of(request, base)?,
            None => {
                let aggregate = self.place_for(request.aggregate.as_ref())?;
                let name = name.to_owned();
                let sync = on_media(request.sync.unwrap_or_default());
                (aggregate, admin::Change::CreateVolume { name, sync })
            }
        };
        self.schedule.create_volume(
            self.now(),
            (aggregate.id, name),
            self.policy_for(wanted),
            || self.change(aggregate.id, change).map(drop),
        )?;
        match &request.clone_of {
            Some(base) => tracing::info!("created volume {name} as a clone of {base}"),
            None => tracing::info!("created volume {name} in aggregate {}", aggregate.name),
        }
        self.volume(name).map_err(Problem::after_change)
    }

    /// Returns the aggregate of a clone, and the change that creates it. A request may repeat
    /// settings that follow from the parent, but not contradict them.
    fn clone_of(
        &self,
        request: &CreateVolume,
        base: &SnapshotName,
    ) -> Result<(AggregateInfo, admin::Change), Problem> {
        let parent = self.volume(base.volume.as_str())?;
        let snapshot = self.snapshot(base.volume.as_str(), base.snapshot.as_str())?;
        for export in &snapshot.nbd_exports {
            let (_, lun) = export.split_once('/').expect("exports are VOLUME/LUN");
            let (lun, _) = lun.split_once('@').unwrap_or((lun, ""));
            self.refuse_other_callers(export, &format!("{}/{lun}", request.name))?;
        }
        if let Some(wanted) = &request.aggregate
            && wanted.as_str() != parent.aggregate
        {
            let text = format!(
                "{wanted} is not where {base} is, and a clone shares blocks with it: leave it out, \
                or say {}",
                parent.aggregate
            );
            return Err(Problem::invalid("aggregate", text));
        }
        if let Some(sync) = request.sync.filter(|sync| *sync != parent.sync) {
            let text = format!(
                "{sync} is not what volume {} has, and a clone has the same: leave it out, or say \
                {}",
                parent.name, parent.sync
            );
            return Err(Problem::invalid("sync", text));
        }
        let aggregate = self.place_for(Some(
            &parent
                .aggregate
                .parse()
                .map_err(|error| Problem::invalid("aggregate", error))?,
        ))?;
        let change = admin::Change::CloneVolume {
            name: request.name.to_string(),
            parent: base.volume.to_string(),
            snapshot: base.snapshot.to_string(),
        };
        Ok((aggregate, change))
    }

    /// Returns the named aggregate, or the only one if none is named.
    fn place_for(&self, wanted: Option<&Name>) -> Result<AggregateInfo, Problem> {
        let ready = self.ready().clone();
        let aggregates = self.engine.aggregates();
        let mut usable: Vec<_> = aggregates
            .into_iter()
            .filter(|aggregate| ready.contains(&aggregate.name))
            .collect();
        match wanted {
            Some(name) => {
                self.refuse_unavailable(name.as_str())?;
                usable
                    .into_iter()
                    .find(|aggregate| aggregate.name == name.as_str())
                    .ok_or_else(|| Problem::not_found("aggregate", name))
            }
            None if usable.len() == 1 && self.unavailable().is_empty() => Ok(usable.remove(0)),
            None if usable.is_empty() => Err(Problem::new(
                Code::NotFound,
                "there is no aggregate that could have a volume; make one with 'everglade \
                 aggregate create', or take one up with 'everglade aggregate import'",
            )),
            None => {
                let names: Vec<_> = usable.iter().map(|known| known.name.as_str()).collect();
                let text = format!(
                    "missing, and there are several: choose one of {}",
                    names.join(", ")
                );
                Err(Problem::of_field(Code::MissingField, "aggregate", text))
            }
        }
    }

    pub(super) fn refuse_unavailable(&self, name: &str) -> Result<(), Problem> {
        match self.unavailable().iter().find(|known| known.name == name) {
            None => Ok(()),
            Some(known) => Err(Problem::new(Code::Unavailable, known.reason.clone())),
        }
    }

    /// Puts a volume with all that it has into the trash, or removes it.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn delete_volume(&self, name: &str, purge: bool) -> Result<Deleted, Problem> {
        let volume = self.volume(name)?;
        let aggregate = self.aggregate_of(name)?;
        let mut gone = self.uuids(name, None);
        gone.extend(self.engine.volume_uuid(name));
        let name_ = name.to_owned();
        let kept_until = self.trash_until(purge);
        let change = match kept_until {
            Some(_) => admin::Change::TrashVolume { name: name_ },
            None => admin::Change::DeleteVolume { name: name_ },
        };
        self.change(aggregate, change)?;
        tracing::info!("deleted volume {name}{}", in_trash(kept_until));
        self.forget_deleted(&gone, kept_until);
        if let Err(problem) = self.schedule.forget(name) {
            tracing::warn!(
                "volume {name} is deleted, but its snapshot policy is not yet: {problem}"
            );
        }
        Ok(Deleted {
            pending: self.pending_of(aggregate),
            detail: format!(
                "{}, {}",
                counted(volume.lun_count, "LUN"),
                Size(volume.logical_bytes).said()
            ) + &in_trash(kept_until),
            kept_until,
        })
    }

    /// Adds a LUN.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn create_lun(&self, volume: &str, request: &CreateLun) -> Result<Lun, Problem> {
        let (name, size_bytes) = (request.name.as_str(), request.size_bytes);
        self.change_in(
            volume,
            admin::Change::CreateLun {
                volume: volume.to_owned(),
                name: name.to_owned(),
                size_bytes,
            },
        )?;
        tracing::info!("created LUN {volume}/{name} of {}", Size(size_bytes).said());
        self.lun(volume, name).map_err(Problem::after_change)
    }

    /// Makes a LUN larger or, if that is meant, smaller.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn resize_lun(
        &self,
        volume: &str,
        name: &str,
        request: &ResizeLun,
    ) -> Result<Lun, Problem> {
        let size_bytes = request.size_bytes;
        let now = self.lun(volume, name)?.size_bytes;
        if size_bytes < now && !request.discard_beyond {
            let text = format!(
                "{volume}/{name} has {}, and what lies beyond {} would be lost",
                Size(now).said(),
                Size(size_bytes).said()
            );
            return Err(Problem::of_field(
                Code::WouldLoseData,
                "discard_beyond",
                text,
            ));
        }
        let (volume_name, name_) = (volume.to_owned(), name.to_owned());
        let change = if size_bytes < now {
            admin::Change::ShrinkLun {
                volume: volume_name,
                name: name_,
                size_bytes,
            }
        } else {
            admin::Change::GrowLun {
                volume: volume_name,
                name: name_,
                size_bytes,
            }
        };
        self.change_in(volume, change)?;
        let (now, size) = (Size(now).said(), Size(size_bytes).said());
        tracing::info!("resized LUN {volume}/{name} from {now} to {size}");
        self.lun(volume, name).map_err(Problem::after_change)
    }

    /// Puts a LUN into the trash, or removes it.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn delete_lun(&self, volume: &str, name: &str, purge: bool) -> Result<Deleted, Problem> {
        let lun = self.lun(volume, name)?;
        let aggregate = self.aggregate_of(volume)?;
        let gone = self.uuids(volume, Some(name));
        let (volume_, name_) = (volume.to_owned(), name.to_owned());
        let kept_until = self.trash_until(purge);
        let change = match kept_until {
            Some(_) => admin::Change::TrashLun {
                volume: volume_,
                name: name_,
            },
            None => admin::Change::DeleteLun {
                volume: volume_,
                name: name_,
            },
        };
        self.change(aggregate, change)?;
        tracing::info!("deleted LUN {volume}/{name}{}", in_trash(kept_until));
        self.forget_deleted(&gone, kept_until);
        Ok(Deleted {
            pending: self.pending_of(aggregate),
            detail: Size(lun.size_bytes).said() + &in_trash(kept_until),
            kept_until,
        })
    }

    /// Forgets what hosts had of deleted LUNs, and the limits of what was deleted.
    fn forget_deleted(&self, luns: &[LunUuid], kept_until: Option<Moment>) {
        match kept_until {
            None => self.forget_reservations(luns),
            Some(_) => self.schedule().forget_mappings(luns),
        }
    }

    /// Returns the blocks that one aggregate has yet to free.
    pub(super) fn pending_of(&self, aggregate: u32) -> Pending {
        let aggregates = self.engine.aggregates();
        let found = aggregates.iter().find(|known| known.id == aggregate);
        let volumes = self.engine.volumes();
        // An aggregate deleted meanwhile has nothing left to free.
        found.map_or_else(Pending::default, |info| pending(info, &volumes))
    }

    /// Returns the blocks that each aggregate has yet to free.
    #[must_use]
    pub fn pending(&self) -> Vec<Pending> {
        let volumes = self.engine.volumes();
        let aggregates = self.engine.aggregates();
        let pending = |info| pending(info, &volumes);
        aggregates.iter().map(pending).collect()
    }

    /// Returns the number of the aggregate that has a volume.
    pub(super) fn aggregate_of(&self, volume: &str) -> Result<u32, Problem> {
        self.id_of(volume).map(|id| id.aggregate)
    }

    /// Returns the identifier of a volume, which a rename does not change.
    pub(super) fn id_of(&self, volume: &str) -> Result<VolumeId, Problem> {
        let found = self.engine.volume_id(volume);
        found.ok_or_else(|| Problem::not_found("volume", volume))
    }

    /// Returns the current name of a volume.
    ///
    /// # Errors
    /// The volume was deleted.
    pub(crate) fn name_of(&self, volume: VolumeId) -> Result<String, Problem> {
        let gone = || Problem::new(Code::NotFound, "the volume of this job was deleted");
        self.engine.volume_name(volume).ok_or_else(gone)
    }

    pub(super) fn change(&self, aggregate: u32, change: admin::Change) -> Result<Timing, Problem> {
        let home = self.engine.home_reactor(aggregate);
        changed(self.plane.ask(home, Control::Change(aggregate, change)))
    }

    /// Makes a change of a volume.
    pub(super) fn change_in(&self, volume: &str, change: admin::Change) -> Result<Timing, Problem> {
        self.change(self.aggregate_of(volume)?, change)
    }

    /// Makes several changes, in one consistency point if that is possible. Each succeeds or fails
    /// by itself.
    pub(super) fn change_all(
        &self,
        changes: impl IntoIterator<Item = (u32, admin::Change)>,
    ) -> Vec<Result<Timing, Problem>> {
        let ask = |(aggregate, change)| {
            let home = self.engine.home_reactor(aggregate);
            (home, Control::Change(aggregate, change))
        };
        let answers = self.plane.ask_all(changes.into_iter().map(ask));
        answers.into_iter().map(changed).collect()
    }
}

fn pending(info: &AggregateInfo, volumes: &[VolumeInfo]) -> Pending {
    Pending {
        aggregate: info.name.clone(),
        bytes: bytes(info.usage.pending_blocks),
        failure: info.state.reason().map(str::to_owned),
        held: pauses::held_in(&info.name, volumes),
    }
}

fn changed(answer: Option<Answer>) -> Result<Timing, Problem> {
    // A reactor that has taken the change answers it, also during the stop.
    let stopping = || {
        let text = "the daemon is stopping, and nothing was changed";
        Problem::new(Code::Unavailable, text)
    };
    answer.ok_or_else(stopping)?.changed().map_err(not_changed)
}

/// Translates an engine's refusal of a change.
pub(super) fn not_changed(error: admin::Error) -> Problem {
    let text = error.to_string();
    match error {
        admin::Error::Exists(_) => Problem::new(Code::Exists, text),
        admin::Error::NotFound(_) => Problem::new(Code::NotFound, text),
        admin::Error::Invalid { field, problem } => Problem::invalid(field, problem),
        admin::Error::NoSpace => Problem::new(Code::NoSpace, text),
        admin::Error::Busy(_) => Problem::new(Code::InUse, text),
        admin::Error::Limit(_) => Problem::new(Code::TooMany, text),
        admin::Error::Unavailable(_) => Problem::new(Code::Unavailable, text),
        admin::Error::ReadOnly(_) => Problem::new(Code::ReadOnly, text),
        admin::Error::Unknown(_) => Problem::new(Code::OutcomeUnknown, text),
    }
}

/// Translates a failed creation of an aggregate, or of one of its devices.
pub(super) fn refused(error: &CreationError) -> Problem {
    use everglade_env::OpenError;
    let code = match error {
        CreationError::Open(OpenError::Busy { .. } | OpenError::Occupied { .. })
        | CreationError::Labelled { .. } => Code::DeviceInUse,
        CreationError::Open(_) | CreationError::Device { .. } | CreationError::Refused(_) => {
            Code::DeviceUnusable
        }
        CreationError::HoldsData { .. } => Code::WouldLoseData,
        CreationError::NoSpace { .. } | CreationError::HostFull(_) => Code::NoSpace,
        CreationError::Stopping => Code::Unavailable,
        CreationError::DataDir(_) | CreationError::Random(_) => Code::Host,
    };
    let text = error.to_string();
    match code {
        Code::Host | Code::Unavailable => Problem::new(code, text),
        // The field that allows it.
        Code::WouldLoseData => Problem::of_field(code, "discard_contents", text),
        _ => Problem::of_field(code, "devices", text),
    }
}

pub(super) fn host(error: &DataDirError) -> Problem {
    Problem::new(Code::Host, error.to_string())
}

/// Returns the two parts of a LUN's name in the engine.
pub(super) fn split(full_name: &str) -> LunName {
    full_name.parse().expect("the engine names LUNs VOLUME/LUN")
}
