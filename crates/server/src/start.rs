//! From a configuration to a daemon that serves, and to its end: opens the aggregates, starts the
//! reactors and the administrator, waits for the last consistency points.
//!
//! started by [`start`] → serving → [`Stop`] asked → consistency point → [`Reactors::wait`] returns
//!
//! 1. [`start`] returns only when the aggregates are mounted and clients may be accepted, or with a
//!    refusal, and then no thread is left. The reactors take over the listeners and close them.
//! 2. A stop is requested through [`Stop`]. Every reactor is woken and ends its sessions. When all
//!    sessions have ended, the aggregates write their last consistency points, and the threads
//!    return.
//! 3. The data directory belongs to the [`Administrator`] and stays locked while there is a handle
//!    to the administrator.

use std::sync::Arc;
use std::thread::JoinHandle;

use everglade_engine::{AggregateInfo, Engine, Options, State};
use everglade_env::{World, WorldOptions};
use everglade_target::Export;
use everglade_target::reservations::Registry;

use crate::access::Gate;
use crate::administrator::pools::Pools;
use crate::administrator::{
    Accepted, Administrator, Degraded, LostCopy, copies, creation, first_start, joining, opening,
    points, renaming,
};
use crate::fronts::{Admission, Listeners, Protocol};
use crate::plane::control::{Control, Plane};
use crate::plane::{processors, turn};
use crate::schedule::Schedule;
use crate::signal::Again;
use crate::{Config, DataDir, Descriptors, ServeError, StartError, Stop};

/// Everything the data plane is made of.
pub struct Parts<'a> {
    /// Memory, number of reactors, way of I/O, consistency point interval, first start.
    pub config: &'a Config,
    /// The data directory, which has the devices; new aggregates are recorded in it.
    pub directory: DataDir,
    /// Protocols of the clients.
    pub protocols: &'a [Box<dyn Protocol>],
    /// Reservations of LUNs, of all of them.
    pub reservations: &'a Arc<Registry>,
    /// Bound sockets of these.
    pub listeners: Listeners,
    /// Asked when it is time to end.
    pub stop: Stop,
    /// Receives the files to read again at SIGHUP.
    pub again: Again,
    /// Shares of devices and connections.
    pub descriptors: Arc<Descriptors>,
}

/// The running data plane.
pub struct Reactors {
    exports: Vec<Export>,
    administrator: Arc<Administrator>,
    running: Running,
    found: StartNotices,
}

/// Findings of the start for operators, besides those of `status`.
#[derive(Default)]
pub struct StartNotices {
    /// Older copies of devices that are served because somebody said so.
    pub accepted: Vec<Accepted>,
    /// Mirrors that are served without drives that may have newer data, because somebody said so.
    pub degraded: Vec<Degraded>,
    /// Copies of labels that were lost.
    pub lost_copies: Vec<LostCopy>,
}

/// Reservations and mappings: what keeps hosts out.
type Access<'a> = (&'a Arc<Registry>, &'a Arc<Gate>);

/// The parts of a daemon that serves.
struct Up {
    schedule: Schedule,
    exports: Vec<Export>,
    lost_copies: Vec<LostCopy>,
}

/// The threads, and the means to end them.
struct Running {
    engine: Engine,
    plane: Arc<Plane>,
    threads: Vec<JoinHandle<()>>,
}

/// Mounts (at first start creates) the aggregates and starts serving.
///
/// # Errors
/// [`StartError::Engine`] when an aggregate cannot be opened or created.
pub fn start(parts: Parts<'_>) -> Result<Reactors, StartError> {
    let Parts {
        config,
        mut directory,
        protocols,
        reservations,
        listeners,
        stop,
        again,
        descriptors,
    } = parts;
    protocols.iter().try_for_each(|protocol| protocol.open())?;
    let admissions = protocols.iter();
    let gate = Arc::new(Gate::default());
    let admissions = admissions.map(|protocol| Admission::open(protocol.callers(), &gate, &again));
    let admissions: Vec<Admission> = admissions.collect::<Result<_, _>>()?;
    let options = WorldOptions {
        io: config.io.into(),
        reactors: config.reactors,
        open_files_max: Some(descriptors.shares.devices),
        ..WorldOptions::default()
    };
    let world = World::new(&options).map_err(StartError::engine)?;
    tracing::info!("device I/O by {}", world.io());
    let options = Options {
        reactors: config.reactors,
        memory_bytes: config.memory.bytes(),
        cp_interval: u64::try_from(config.cp_interval.duration().as_nanos())
            .expect("at most an hour"),
        drive_timeout: u64::try_from(config.drive_timeout.duration().as_nanos())
            .expect("at most an hour"),
        cleans_on_demand: config.garden_on_demand.is_on(),
        writes_after_read: config.garden_write_after_read.is_on(),
        ..Options::default()
    };
    for ablation in &config.ablations {
        tracing::warn!("{} is switched off, for a benchmark", ablation.name());
    }
    let switched = config.ablations.iter();
    let engine = Engine::new(switched.fold(options, |options, it| it.apply(options)));
    let plane = Arc::new(Plane::new(world.clone(), stop.clone(), config.reactors));
    creation::undo_unfinished(&world, &mut directory);
    let is_first = first_start::is_needed(&directory, config);
    if is_first {
        first_start::create_aggregate(&plane, &engine, config, &mut directory)?;
    }
    let opened = opening::open_all(&world, &engine, &directory, config)?;
    let waker = Arc::clone(&plane);
    let held = engine.clone();
    stop.on_ask(move || {
        held.lift_limits();
        waker.wake_all();
    });
    let mut running = Running {
        engine,
        plane,
        threads: Vec::new(),
    };
    let up = match bring_up(
        &mut running,
        config,
        &mut directory,
        (protocols, &admissions, (reservations, &gate)),
        (listeners, &descriptors),
        is_first,
    ) {
        Ok(up) => up,
        Err(error) => {
            // No write was acknowledged; mounted aggregates are stopped cleanly.
            stop.ask();
            running.join();
            return Err(error);
        }
    };
    let Up {
        schedule,
        exports,
        lost_copies,
    } = up;
    let mut administrator = Administrator::new(
        running.engine.clone(),
        Arc::clone(&running.plane),
        directory,
        (opened.unavailable, opened.idle_drives),
        schedule,
        (config, protocols, reservations),
    );
    administrator.warn_of_patterns();
    administrator.note_lost_copies(&lost_copies);
    administrator.note_lost_segments(&opened.lost_segments);
    let administrator = Arc::new(administrator);
    Ok(Reactors {
        exports,
        administrator,
        running,
        found: StartNotices {
            accepted: opened.accepted,
            degraded: opened.degraded,
            lost_copies,
        },
    })
}

fn bring_up(
    running: &mut Running,
    config: &Config,
    directory: &mut DataDir,
    (protocols, admissions, (reservations, gate)): (&[Box<dyn Protocol>], &[Admission], Access<'_>),
    (listeners, descriptors): (Listeners, &Descriptors),
    is_first: bool,
) -> Result<Up, StartError> {
    let processors = processors::own(config.pin, config.reactors);
    if !processors.is_empty() {
        tracing::info!("each reactor keeps to a processor of its own: {processors:?}");
    }
    for index in 0..config.reactors {
        let outside = running
            .plane
            .world
            .reactor(index)
            .map_err(StartError::engine)?;
        let reactor = turn::Reactor::new(
            &running.engine,
            index,
            outside,
            Arc::clone(&running.plane),
            (protocols, admissions),
            (config, descriptors),
        );
        let processor = processors.get(index).copied();
        let spawned = std::thread::Builder::new()
            .name(format!("reactor-{index}"))
            .spawn(move || {
                processor.into_iter().for_each(processors::keep_to);
                reactor.run();
            });
        running.threads.push(spawned.map_err(StartError::engine)?);
    }
    wait_until_mounted(&running.engine)?;
    renaming::follow(&running.engine, directory);
    joining::follow(&running.plane.world, &running.engine, directory);
    let pools = Pools::new(running.engine.clone(), Arc::clone(&running.plane));
    let schedule = Schedule::open(Box::new(pools), directory.path());
    if is_first {
        first_start::fill(&running.plane, &schedule, config, directory)?;
    }
    // Before the first client: hosts that were kept out stay out.
    schedule.follow_reservations(reservations);
    schedule.follow_access(gate);
    schedule.follow_limits(&running.engine);
    let online = |known: &AggregateInfo| known.state == State::Online;
    for aggregate in running.engine.aggregates().into_iter().filter(online) {
        tracing::info!(
            "aggregate {} is online at consistency point {}",
            aggregate.name,
            aggregate.committed_cp
        );
    }
    let lost_copies = copies::mend(&running.plane.world, &running.engine);
    points::see(&running.engine, directory);
    running.plane.ask_starting(Control::Listen(listeners))?;
    let exports = running.plane.ask_starting(Control::Exports)?.exports();
    Ok(Up {
        schedule,
        exports,
        lost_copies,
    })
}

/// Waits until the aggregates are mounted, which takes as long as reading a few blocks for each
/// volume and LUN. One aggregate that serves is enough, if only for reading: failed aggregates are
/// shown with their reasons.
fn wait_until_mounted(engine: &Engine) -> Result<(), StartError> {
    loop {
        let aggregates = engine.aggregates();
        let failed = aggregates.iter().find_map(|aggregate| {
            let State::Failed(reason) = &aggregate.state else {
                return None;
            };
            let name = &aggregate.name;
            Some(format!(
                "aggregate {name}: {reason}; `everglade check` says more"
            ))
        });
        let is_in = |state: fn(&State) -> bool| aggregates.iter().any(|known| state(&known.state));
        let is_mounting = is_in(|state| *state == State::Mounting);
        let is_serving = is_in(|state| matches!(state, State::Online | State::ReadOnly(_)));
        match failed {
            _ if is_mounting => {}
            Some(reason) if !is_serving => return Err(StartError::Engine(reason)),
            _ => return Ok(()),
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

impl Running {
    /// Waits for the threads and returns why any aggregate failed.
    fn join(self) -> Vec<String> {
        for thread in self.threads {
            if thread.join().is_err() {
                // The panic hook has ended the process; this is for tests without it.
                return vec!["a reactor ended early".into()];
            }
        }
        let failed = self
            .engine
            .aggregates()
            .into_iter()
            .filter_map(|aggregate| match aggregate.state {
                State::Failed(reason) => Some(format!("aggregate {}: {reason}", aggregate.name)),
                _ => None,
            });
        failed.collect()
    }
}

impl Reactors {
    /// Returns the exports, sorted by name.
    #[must_use]
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// Returns the administrator, which changes aggregates, volumes and LUNs of the running daemon.
    #[must_use]
    pub fn administrator(&self) -> &Arc<Administrator> {
        &self.administrator
    }

    /// Returns the findings of the start.
    #[must_use]
    pub fn notices(&self) -> &StartNotices {
        &self.found
    }

    /// Waits until the reactors have ended after a [`Stop`], with everything on stable storage.
    ///
    /// # Errors
    /// A reactor ended early, or the last consistency point failed.
    pub fn wait(self) -> Result<(), ServeError> {
        match self.running.join().first() {
            None => Ok(()),
            Some(reason) => Err(ServeError::Failed(reason.clone())),
        }
    }
}
