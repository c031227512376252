//! `everglade repair` without a running daemon: the aggregates are opened as for serving, but
//! without sockets for clients, and repaired by the same code.
//!
//! The history of changes records the repair. An aggregate that cannot be opened or changed is
//! reported, and the others are repaired.

use std::sync::Arc;
use std::time::Duration;

use everglade_api::{Name, Problem, Repair, RepairState};

use crate::administrator::Administrator;
use crate::datadir::{DataDirError, Phase};
use crate::fronts::{self, Listeners};
use crate::offline::Offline;
use crate::records::{Deed, Records};
use crate::signal::{self, Again};
use crate::start;
use crate::{Config, DataDir, Descriptors, ServeError, StartError, Stop, descriptors};

/// The time between two checks of a repair.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The outcome for one aggregate.
pub type Repaired = (String, Result<Repair, Problem>);

/// The reason why nothing was repaired.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// Another process uses the data directory, perhaps a daemon, which can repair on request.
    #[error(transparent)]
    InUse(DataDirError),
    /// No aggregate has this name.
    #[error("no aggregate '{name}'; this data directory has {known}")]
    NotFound {
        /// The requested name.
        name: String,
        /// Names of the existing aggregates.
        known: String,
    },
    /// The aggregates cannot be opened.
    #[error(transparent)]
    Start(StartError),
    /// Repaired blocks may not be on stable storage.
    #[error(transparent)]
    Failed(ServeError),
}

impl From<StartError> for RepairError {
    fn from(error: StartError) -> RepairError {
        match error {
            StartError::DataDir(error @ DataDirError::InUse { .. }) => RepairError::InUse(error),
            error => RepairError::Start(error),
        }
    }
}

impl From<DataDirError> for RepairError {
    fn from(error: DataDirError) -> RepairError {
        StartError::from(error).into()
    }
}

/// Repairs these aggregates, or all, and listens nowhere. A signal ends it early.
///
/// # Errors
/// Nothing was repaired, or [`RepairError::Failed`].
pub fn repair(
    config: &Config,
    wanted: &[Name],
    progress: &mut dyn FnMut(&Repair),
) -> Result<Vec<Repaired>, RepairError> {
    let config = &config.without_doors();
    // A repair creates nothing, so the aggregates must exist already.
    let names = chosen(&Offline::open(&config.data_dir)?, wanted)?;
    let stop = Stop::new();
    let again = Again::default();
    let (limit, open) = (descriptors::raise_limit(), descriptors::open_now());
    signal::watch(stop.clone(), again.clone())?;
    let directory = DataDir::open(&config.data_dir)?;
    let protocols = fronts::all(config);
    let needs = (config, fronts::clients(&protocols));
    let descriptors = Descriptors::share_out(limit, open, needs, Some(directory.state()))?;
    let reactors = start::start(start::Parts {
        config,
        directory,
        protocols: &protocols,
        reservations: &Arc::default(),
        listeners: Listeners::bind(&protocols)?,
        stop: stop.clone(),
        again,
        descriptors: Arc::new(descriptors),
    })?;
    // The administrator keeps the data directory locked until the end.
    let administrator = Arc::clone(reactors.administrator());
    let records = Records::open(&config.data_dir);
    let mut repaired = Vec::new();
    for name in names {
        if stop.is_asked() {
            let repair = stopped(Repair {
                aggregate: name.clone(),
                ..Repair::default()
            });
            repaired.push((name, Ok(repair)));
            continue;
        }
        let outcome = repair_one(&administrator, &records, &name, (&stop, progress));
        repaired.push((name, outcome));
    }
    stop.ask();
    let ended = reactors.wait();
    if let Err(error) = administrator.follow_epochs() {
        tracing::warn!("{error}; the next start records which drives were in use last");
    }
    records.settle();
    administrator.see_points();
    match ended {
        Ok(()) => Ok(repaired),
        // The failed aggregate was reported already.
        Err(_) if repaired.iter().any(|(_, outcome)| outcome.is_err()) => Ok(repaired),
        Err(error) => Err(RepairError::Failed(error)),
    }
}

/// Marks a repair as stopped by a signal.
fn stopped(repair: Repair) -> Repair {
    Repair {
        state: RepairState::Stopped,
        ..repair
    }
}

/// Names of the requested aggregates or, if none was requested, of all that can be opened.
fn chosen(directory: &Offline, wanted: &[Name]) -> Result<Vec<String>, RepairError> {
    let ready = directory.state().aggregates.iter();
    let ready = ready.filter(|known| known.phase == Phase::Ready);
    let names: Vec<String> = ready.map(|known| known.name.clone()).collect();
    if names.is_empty() {
        let path = directory.path().to_owned();
        return Err(DataDirError::Nothing { path }.into());
    }
    if wanted.is_empty() {
        return Ok(names);
    }
    let missing = wanted
        .iter()
        .find(|name| !names.iter().any(|known| known == name.as_str()));
    match missing {
        None => Ok(wanted.iter().map(ToString::to_string).collect()),
        Some(name) => Err(RepairError::NotFound {
            name: name.to_string(),
            known: names.join(", "),
        }),
    }
}

fn repair_one(
    administrator: &Administrator,
    records: &Records,
    name: &str,
    (stop, progress): (&Stop, &mut dyn FnMut(&Repair)),
) -> Result<Repair, Problem> {
    administrator.start_repair(name)?;
    let deed = Deed {
        what: "repair",
        object: name.to_owned(),
        detail: String::new(),
    };
    records.remember(administrator.now(), "everglade repair", &deed);
    loop {
        let sights = administrator.repairs();
        let found = sights.into_iter().find(|it| it.repair.aggregate == name);
        let sight = found.ok_or_else(|| Problem::not_found("aggregate", name))?;
        if let Some(reason) = sight.failure {
            return Err(Problem::new(everglade_api::Code::ReadOnly, reason));
        }
        progress(&sight.repair);
        if sight.repair.state != RepairState::Running {
            return Ok(sight.repair);
        }
        if stop.is_asked() {
            return Ok(stopped(sight.repair));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
