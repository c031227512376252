//! Aggregates that leave this daemon, and that come from another one.
//!
//! ```text
//! export: ready ─▶ stopped, all written ─▶ no longer recorded, devices closed
//! import: devices opened, labels read ─▶ open ─▶ online ─▶ recorded as ready
//!            │ refused                      │ refused, or failed
//!            ▼                              ▼
//!         closed again, nothing changed  stopped and closed again
//! ```
//!
//! 1. An export writes nothing to the devices but the last consistency point. If the daemon ends
//!    before the record is written, the next start serves the aggregate again.
//! 2. An import is recorded once the aggregate is online. If the daemon ends before that, the
//!    devices have at most some more consistency points, and can be imported again.
//! 3. Two aggregates never have the same name, not for a moment: the name that the labels say is
//!    compared before the aggregate is opened, and a new name is there when it is opened
//!    ([`Engine::open_with`]).
//! 4. A recorded aggregate that could not be opened can be imported from other paths: the record
//!    has these paths from then on.
//! 5. The last aggregate cannot be exported, because without aggregates the next start would create
//!    the default one.

use everglade_api::{Aggregate, Code, ExportedAggregate, ImportAggregate, ImportPlan, Problem};
use everglade_engine::{Engine, Expected, Found, Opening, Refusal, State};
use everglade_env::{DeviceId, Storage as _};

use super::administrator::{AGGREGATES_MAX, Administrator, LOOK_EVERY, host};
use super::candidates;
use super::points;
use crate::DataDir;
use crate::datadir::{AggregateState, Device, Phase, Uuid};
use crate::devices::open_one;

const FIELD: &str = "devices";

/// Devices that an import has opened.
struct Opened {
    devices: Vec<Device>,
    ids: Vec<DeviceId>,
}

impl Administrator {
    /// Stops an aggregate, closes its devices and forgets it.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn export_aggregate(&self, name: &str) -> Result<ExportedAggregate, Problem> {
        let mut directory = self.directory();
        let recorded = directory.state().aggregate(name).cloned();
        let recorded = recorded.ok_or_else(|| Problem::not_found("aggregate", name))?;
        if recorded.phase != Phase::Ready {
            let text = format!("aggregate {name} is just being made or deleted");
            return Err(Problem::new(Code::Unavailable, text));
        }
        self.close_for_export(name, &directory)?;
        let exported = ExportedAggregate {
            name: name.to_owned(),
            uuid: recorded
                .uuid
                .map_or_else(String::new, |uuid| uuid.to_string()),
            devices: recorded
                .devices
                .iter()
                .map(|device| directory.device_path(device).display().to_string())
                .collect(),
        };
        tracing::info!("exporting aggregate {name}");
        points::see(&self.engine, &mut directory);
        let number = self.find_aggregate(name).map(|known| known.id);
        self.end_serving(name);
        points::see(&self.engine, &mut directory);
        if let Some(number) = number {
            self.schedule().leave(number);
        }
        self.unavailable().retain(|known| known.name != name);
        let mut state = directory.state().clone();
        state.aggregates.retain(|known| known.name != name);
        directory.record(state).map_err(|error| {
            let problem = host(&error);
            let text = format!(
                "aggregate {name} is closed, but still recorded, and the next start serves it \
                 again: {}",
                problem.detail
            );
            Problem {
                detail: text,
                ..problem
            }
        })?;
        tracing::info!("exported aggregate {name}");
        Ok(exported)
    }

    /// Refuses to leave the daemon without aggregates, and stops the creation of volumes.
    fn close_for_export(&self, name: &str, directory: &DataDir) -> Result<(), Problem> {
        let _closed = self.populating.write();
        let mut others = directory.state().aggregates.iter();
        if !others.any(|known| known.name != name && known.phase == Phase::Ready) {
            let text = format!(
                "{name} is the only aggregate, and a daemon has at least one; make another first, \
                 or stop the daemon and take the devices"
            );
            return Err(Problem::new(Code::StillNeeded, text));
        }
        self.ready().remove(name);
        Ok(())
    }

    /// Returns what [`Administrator::import_aggregate`] would do, and changes nothing.
    ///
    /// # Errors
    /// The import would be refused.
    pub fn plan_import(&self, request: &ImportAggregate) -> Result<ImportPlan, Problem> {
        let directory = self.directory();
        let opened = self.open_candidates(&directory, request)?;
        let found = self.examine_import(&directory, request, &opened);
        self.close(&opened.ids);
        let (found, name) = found?;
        Ok(ImportPlan {
            name,
            uuid: Uuid(found.uuid).to_string(),
            former_name: found.name,
            committed_cp: found.cp,
            devices: request.devices.clone(),
            device_count: found.members as u64,
            missing_count: found.missing as u64,
        })
    }

    /// Opens an aggregate of another daemon, and records it.
    ///
    /// # Errors
    /// Nothing was changed, except where the problem says so.
    pub fn import_aggregate(&self, request: &ImportAggregate) -> Result<Aggregate, Problem> {
        let mut directory = self.directory();
        let opened = self.open_candidates(&directory, request)?;
        let online = self
            .examine_import(&directory, request, &opened)
            .and_then(|(found, name)| {
                let id = self.open_found(&directory, request, &opened, (&found, &name))?;
                Ok((found, name, id))
            });
        let (found, name, id) = online.inspect_err(|_| self.close(&opened.ids))?;
        if let Err(problem) = self.wait_for_import(id, &name) {
            self.end_serving_number(id);
            return Err(problem);
        }
        self.schedule().take_up();
        let used = self.device_numbers(id);
        let (members, strangers): (Vec<_>, Vec<_>) = opened
            .ids
            .iter()
            .zip(opened.devices)
            .partition(|(device, _)| used.contains(device));
        for (device, _) in strangers {
            self.plane.world.close(*device);
        }
        let record = AggregateState {
            name: name.clone(),
            phase: Phase::Ready,
            epoch: found.epoch,
            uuid: Some(Uuid(found.uuid)),
            read_only: request.read_only,
            garden_paused: false,
            devices: members.into_iter().map(|(_, device)| device).collect(),
        };
        let mut state = directory.state().clone();
        state.aggregates.retain(|known| known.uuid != record.uuid);
        state.aggregates.push(record);
        if let Err(error) = directory.record(state) {
            self.end_serving_number(id);
            return Err(host(&error));
        }
        let uuid = Uuid(found.uuid).to_string();
        self.unavailable().retain(|known| known.uuid() != uuid);
        points::see(&self.engine, &mut directory);
        self.ready().insert(name.clone());
        drop(directory);
        match request.read_only {
            true => tracing::info!("imported aggregate {name}, to be read only"),
            false => tracing::info!("imported aggregate {name}"),
        }
        self.aggregate(&name).map_err(Problem::after_change)
    }

    /// Opens the devices that a request names.
    fn open_candidates(
        &self,
        directory: &DataDir,
        request: &ImportAggregate,
    ) -> Result<Opened, Problem> {
        let known = &directory.state().aggregates;
        if known.len() >= AGGREGATES_MAX {
            let text = format!("there are {AGGREGATES_MAX} aggregates already, as many as can be");
            return Err(Problem::new(Code::TooMany, text));
        }
        let unavailable: Vec<String> = self
            .unavailable()
            .iter()
            .map(|known| known.name.clone())
            .collect();
        let devices = candidates::imported(directory, &request.devices, &unavailable)?;
        let mut opened = Opened {
            devices: Vec::new(),
            ids: Vec::new(),
        };
        let world = &self.plane.world;
        for mut device in devices {
            let path = directory.device_path(&device);
            match open_one(world, &path, &device, request.read_only) {
                Ok(id) => {
                    device.size_bytes = world.size_bytes(id);
                    opened.devices.push(device);
                    opened.ids.push(id);
                }
                Err(error) => {
                    self.close(&opened.ids);
                    let text = error.to_string();
                    return Err(Problem::of_field(Code::DeviceUnusable, FIELD, text));
                }
            }
        }
        Ok(opened)
    }

    fn close(&self, ids: &[DeviceId]) {
        ids.iter().for_each(|id| self.plane.world.close(*id));
    }

    /// Returns the aggregate that the devices have, and its name from now on.
    fn examine_import(
        &self,
        directory: &DataDir,
        request: &ImportAggregate,
        opened: &Opened,
    ) -> Result<(Found, String), Problem> {
        let found = Engine::examine(&self.plane.world, &opened.ids);
        let found = found.map_err(|refusal| refused(&refusal, opened, directory))?;
        let mut open = self.engine.aggregates().into_iter();
        if let Some(known) = open.find(|known| known.uuid == found.uuid) {
            let text = format!(
                "the devices are those of aggregate {}, which is open; a copy of it cannot be \
                 served beside it",
                known.name
            );
            return Err(Problem::of_field(Code::DeviceInUse, FIELD, text));
        }
        let recorded = directory.state().aggregates.iter();
        let mut same = recorded.filter(|known| known.uuid == Some(Uuid(found.uuid)));
        if let Some(known) = same.find(|known| known.phase != Phase::Ready) {
            let text = format!("aggregate {} is just being made or deleted", known.name);
            return Err(Problem::new(Code::Unavailable, text));
        }
        let name = request.name.as_ref();
        let name = name.map_or_else(|| found.name.clone(), |name| name.as_str().to_owned());
        let mut others = directory.state().aggregates.iter();
        let is_taken = others.any(|it| it.name == name && it.uuid != Some(Uuid(found.uuid)));
        if is_taken || self.find_aggregate(&name).is_some() {
            let text = format!(
                "aggregate {name} exists already; give the imported one another name with --as"
            );
            return Err(Problem::of_field(Code::Exists, "name", text));
        }
        Ok((found, name))
    }

    /// Opens the aggregate under its name.
    fn open_found(
        &self,
        directory: &DataDir,
        request: &ImportAggregate,
        opened: &Opened,
        (found, name): (&Found, &str),
    ) -> Result<u32, Problem> {
        let seen = directory.seen().of(Uuid(found.uuid)).unwrap_or(0);
        let expected = Expected {
            uuid: found.uuid,
            epoch: 0,
            cp: if request.accept_rollback { 0 } else { seen },
        };
        let opening = Opening {
            name: Some(name).filter(|name| *name != found.name),
            is_degraded: false,
            is_for_reading: request.read_only,
        };
        let world = &self.plane.world;
        let result = self.plane.open(|| {
            let devices = (opened.ids.as_slice(), [].as_slice());
            self.engine
                .open_with(world, devices, Some(&expected), opening)
        });
        let result = result
            .ok_or_else(|| Problem::new(Code::Unavailable, "the daemon is stopping".to_owned()))?;
        self.plane.wake_all();
        result.map_err(|refusal| refused(&refusal, opened, directory))
    }

    fn wait_for_import(&self, id: u32, name: &str) -> Result<(), Problem> {
        loop {
            match self.state_of(id) {
                State::Mounting => std::thread::sleep(LOOK_EVERY),
                // One that can only be read is of use, too.
                State::Online | State::Stopping | State::Stopped | State::ReadOnly(_) => {
                    return Ok(());
                }
                State::Failed(reason) => {
                    let text = format!(
                        "aggregate {name} cannot be imported: {reason}; if two volumes have the \
                         same name, rename the one that is here, and import again"
                    );
                    return Err(Problem::of_field(Code::Exists, FIELD, text));
                }
            }
        }
    }

    fn device_numbers(&self, id: u32) -> Vec<DeviceId> {
        let aggregates = self.engine.aggregates();
        let found = aggregates.into_iter().find(|known| known.id == id);
        found.map_or_else(Vec::new, |known| known.devices)
    }
}

/// Explains a refusal of the engine, with the paths of the devices.
fn refused(refusal: &Refusal, opened: &Opened, directory: &DataDir) -> Problem {
    let paths = opened.devices.iter();
    let paths = paths.map(|device| directory.device_path(device).display().to_string());
    let paths: Vec<String> = paths.collect();
    let more = match refusal.rolled_back_to {
        Some(_) => "; to import the older state all the same, add --accept-rollback",
        None => "",
    };
    let text = format!("{}: {refusal}{more}", paths.join(", "));
    Problem::of_field(Code::DeviceUnusable, FIELD, text)
}
