//! Moments: snapshots come, go and are restored while many clients write, discard, flush and read.
//!
//! Each client has some blocks of a LUN to itself and asks for one change at a time (`track`), so
//! every image of a volume is, for each client, a number of its changes. Several clients, on
//! several reactors and LUNs, work at once; administrators work on each volume meanwhile. Promises:
//!
//! 1. A snapshot is a moment: it has every change answered before its request, none requested after
//!    its answer, and with each change all changes answered before that change was requested.
//! 2. All reads of a snapshot return the same bytes, always.
//! 3. A restore is a moment: each change under way is in the safety snapshot, or on top of the
//!    target; or it is discarded with newer snapshots, as if the volume had stayed at the target.
//!    Each read shows the image before or the image after, the same for all blocks. Once a client
//!    has read the image after, no client reads the image before, and the restore must not be
//!    refused.
//! 4. After a power cut all of this holds, and durable changes survived; an administrative change
//!    happened or did not.
//! 5. A deleted volume is created again, empty or as a clone of another volume's snapshot. A clone
//!    has that image, whole or not at all, regardless of later changes to its parent, and neither
//!    the snapshot nor its volume can be deleted before the clone.
//! 6. The content of a clone does not change during a split; after the split its base is no longer
//!    needed.
//! 7. LUNs and snapshots are renamed and keep their content: a LUN is restored under its present
//!    name from a snapshot that has it under an older one, and a volume with the former names of
//!    its LUNs. Held snapshots cannot be deleted.
//! 8. Devices may fail, loudly or silently: then an error may be the answer, wrong data never.

mod clients;
mod clones;
mod finale;
mod names;
mod restores;
mod settle;
mod tasks;
mod track;
mod volume;

use std::collections::BTreeMap;

use everglade_env::BLOCK_SIZE;
use everglade_target::LunHandle;

use super::{Background, Failure, Report};
use crate::engine::{EngineMaker, EngineSystem};
use crate::system::{Maker, NotMounted, System};
use crate::world::{Cut, Fault, Faults, Grain, Images, Keep, Turn};
use crate::{Rng, Seed, SimWorld};
use track::Track;
use volume::Volume;

const BLOCK: u64 = BLOCK_SIZE as u64;
/// Lines of each life's trace that are kept.
const TRACE_MAX: usize = 2_000;
/// Turns a life may take.
const TURNS_MAX: u64 = 20_000_000;
/// LUNs of a volume.
const LUNS: usize = 2;
/// Snapshots of a volume at which no more are taken.
const SNAPSHOTS_MAX: usize = 10;
/// Silent faults that a copy of the media may suffer.
const SILENT: [Fault; 6] = [
    Fault::MediaFlip,
    Fault::Lost,
    Fault::Misdirected,
    Fault::FlipWriting,
    Fault::FlipReading,
    Fault::StaleRead,
];
/// Faults that are reported.
const LOUD: [Fault; 5] = [
    Fault::ReadError,
    Fault::WriteError,
    Fault::FlushError,
    Fault::NoSpace,
    Fault::Slow,
];

/// The sizes and numbers of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Reactors.
    pub reactors: usize,
    /// Volumes.
    pub volumes: usize,
    /// Clients of each.
    pub clients: usize,
    /// Blocks that each has.
    pub width: usize,
    /// Lives.
    pub lives: u64,
    /// Changes and reads in each.
    pub actions: u64,
    /// Bytes of the pool.
    pub bytes: u64,
    /// Clients' blocks are not beside each other.
    pub is_apart: bool,
    /// Devices fail loudly.
    pub is_loud: bool,
    /// Copies of the media suffer silent faults.
    pub is_silent: bool,
    /// LUNs are cloned.
    pub clones: bool,
    /// LUNs and snapshots get other names; snapshots are held.
    pub names: bool,
    /// True if restores of volumes discard newer snapshots, if there are any.
    pub rolls: bool,
}

impl Plan {
    /// Returns the plan of a seed.
    #[must_use]
    pub fn of_seed(seed: Seed) -> Plan {
        let mut rng = Rng::for_part(seed.0, "moments plan");
        Plan {
            reactors: 1 + rng.index(3),
            volumes: 1 + rng.index(3),
            clients: 1 + rng.index(6),
            width: [2, 8, 40, 250][rng.index(4)],
            lives: 2 + rng.below(5),
            actions: 50 + rng.below(600),
            bytes: [32, 64, 128][rng.index(3)] << 20,
            is_loud: rng.one_in(4),
            is_silent: rng.one_in(3),
            is_apart: rng.one_in(2),
            clones: Rng::for_part(seed.0, "moments lun clones").one_in(2),
            names: Rng::for_part(seed.0, "moments names").one_in(2),
            rolls: Rng::for_part(seed.0, "moments rolls").one_in(3),
        }
    }
}

/// The request of a token.
#[derive(Clone, Copy, Debug)]
enum Pending {
    /// A change of a client.
    Change(usize),
    /// A flush of a client's LUN; this many changes of each client of the LUN are durable then.
    Flush(usize),
    /// A client's read of its own blocks.
    Read(usize),
    /// The end of all data.
    Last,
    /// A block range of a volume, for its task.
    Look { volume: usize, client: usize },
}

#[derive(Clone, Debug)]
struct Client {
    volume: usize,
    lun: usize,
    first_block: u64,
    reactor: usize,
    track: Track,
    is_busy: bool,
    handle: Option<LunHandle>,
    /// Changes of everybody that its flush makes durable.
    flushing: Vec<usize>,
    reading: Reading,
}

/// Images that a client's read may show.
#[derive(Clone, Debug, Default)]
struct Reading {
    /// The present content, unless a read has shown already that it was replaced.
    before: Option<Vec<track::Value>>,
    /// The possible contents after a restore under way.
    after: Vec<Vec<track::Value>>,
}

/// The model's knowledge; it outlives systems.
#[derive(Clone, Debug)]
struct Knowledge {
    clients: Vec<Client>,
    volumes: Vec<Volume>,
    next_value: u64,
    next_name: u64,
    /// Counts requests and answers.
    moment: u64,
}

struct Life<'a> {
    world: &'a SimWorld,
    system: EngineSystem,
    plan: Plan,
    known: &'a mut Knowledge,
    rng: Rng,
    /// Draws operations on clones, so that runs without clones are unaffected.
    splits: Rng,
    /// Draws names and holds, likewise.
    names: Rng,
    /// Changes are durable when they are answered.
    is_always: bool,
    actions: u64,
    token: u64,
    pending: BTreeMap<u64, Pending>,
    /// Administrators' requests: volume and purpose.
    asked: BTreeMap<u64, (usize, tasks::Asked)>,
    failure: Option<Failure>,
    /// Errors are answers.
    is_tolerant: bool,
    /// An error was an answer: the aggregate may be gone.
    is_failed: bool,
    /// Time until which all wait, if they do.
    rests_until: Option<u64>,
    trace: Vec<String>,
    errors: u64,
}

impl Knowledge {
    /// Somebody saw what a restore of a volume goes to.
    fn sees_target(&mut self, volume: usize) {
        let clients = self.volumes[volume].clients.clone();
        let most = clients.map(|client| self.most_before(client)).collect();
        self.volumes[volume].shown = Some(most);
    }

    /// Most changes of a client that a restore of its volume can have come after.
    fn most_before(&self, client: usize) -> usize {
        let it = &self.clients[client];
        let volume = &self.volumes[it.volume];
        let shown = volume.shown.as_ref();
        shown.map_or(it.track.changes.len(), |most| {
            most[client - volume.clients.start]
        })
    }

    fn new(plan: Plan) -> Knowledge {
        let client = |index: usize| Client {
            volume: index / plan.clients,
            lun: index % plan.clients % LUNS,
            // Beside each other, or a level-1 block apart; in all volumes the same, so that clones
            // have the same.
            first_block: (index % plan.clients) as u64
                * [plan.width, 300][usize::from(plan.is_apart)].max(plan.width) as u64,
            reactor: index % plan.reactors,
            track: Track::new(vec![0; plan.width]),
            is_busy: false,
            handle: None,
            flushing: Vec::new(),
            reading: Reading::default(),
        };
        let volume = |index: usize| {
            let first = index * plan.clients;
            Volume::new(format!("v{index}"), first..first + plan.clients)
        };
        Knowledge {
            clients: (0..plan.volumes * plan.clients).map(client).collect(),
            volumes: (0..plan.volumes).map(volume).collect(),
            next_value: 1,
            next_name: 1,
            moment: 1,
        }
    }
}

fn lun_bytes(plan: Plan) -> u64 {
    (plan.clients * plan.width.max(300)) as u64 * BLOCK
}

impl<'a> Life<'a> {
    fn new(
        world: &'a SimWorld,
        system: EngineSystem,
        plan: Plan,
        known: &'a mut Knowledge,
        seed: u64,
        is_always: bool,
    ) -> Life<'a> {
        for client in &mut known.clients {
            (client.is_busy, client.handle) = (false, None);
        }
        Life {
            world,
            system,
            plan,
            known,
            rng: Rng::for_part(seed, "moments life"),
            splits: Rng::for_part(seed, "moments splits"),
            names: Rng::for_part(seed, "moments names"),
            is_always,
            actions: 0,
            token: 0,
            pending: BTreeMap::new(),
            asked: BTreeMap::new(),
            failure: None,
            is_tolerant: false,
            is_failed: false,
            rests_until: None,
            trace: Vec::new(),
            errors: 0,
        }
    }

    fn fail(&mut self, what: impl std::fmt::Display) {
        self.failure.get_or_insert_with(|| Failure::new(what));
    }

    fn trace(&mut self, what: String) {
        self.trace.push(format!("{} {what}", self.known.moment));
    }

    fn tick(&mut self) -> u64 {
        self.known.moment += 1;
        self.known.moment
    }

    /// Gives turns until `is_done`. False when the power failed.
    fn pump(&mut self, is_done: &dyn Fn(&Life<'_>) -> bool) -> Result<bool, Failure> {
        for reactor in 0..self.world.reactors() {
            self.world.wake(reactor);
        }
        let world = self.world.clone();
        let mut done = false;
        world.run(TURNS_MAX, &mut |reactor| {
            let issued = self.work(reactor);
            let said = self.system.turn(reactor);
            if world.is_cut() {
                return Turn::Stop;
            }
            self.collect(reactor);
            if reactor == 0 {
                self.administer();
            }
            done = self.failure.is_some() || is_done(self);
            match said {
                _ if done => Turn::Stop,
                Turn::Idle { until } if issued => {
                    let next = world.now() + 1 + self.rng.below(300_000);
                    Turn::Idle {
                        until: Some(until.map_or(next, |until| until.min(next))),
                    }
                }
                Turn::Idle { until } => Turn::Idle {
                    until: until.into_iter().chain(self.rests_until).min(),
                },
                said => said,
            }
        });
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        match done {
            true => Ok(true),
            false if world.is_cut() => Ok(false),
            false => Err(Failure::new(format!(
                "stuck: {:?} and {:?} are not answered; {:?}",
                self.pending,
                self.asked,
                self.known
                    .volumes
                    .iter()
                    .map(|volume| &volume.task)
                    .collect::<Vec<_>>()
            ))),
        }
    }

    fn is_quiet(&self) -> bool {
        let mut volumes = self.known.volumes.iter();
        let idle = |volume: &Volume| matches!(volume.task, volume::Task::None);
        self.pending.is_empty() && self.asked.is_empty() && (self.is_failed || volumes.all(idle))
    }

    /// Works until nothing is left to do, or the power fails (then false).
    fn work_off(&mut self, actions: u64) -> Result<bool, Failure> {
        self.actions = actions;
        self.pump(&|life| {
            life.actions == 0 && life.is_quiet()
                || life.is_failed && life.pending.is_empty() && life.asked.is_empty()
        })
    }
}

/// Runs a seed.
///
/// # Errors
/// A promise was broken.
pub fn run(seed: Seed, plan: Plan, maker: &EngineMaker) -> Result<Report, Failure> {
    // Otherwise a consistency point does a whole scan, and none is ever cut, or met by clients, in
    // the middle.
    let regions = [1, 1, 2, 5, maker.reclaim_regions];
    let maker = &EngineMaker {
        reclaim_regions: regions[Rng::for_part(seed.0, "reclaim").index(5)],
        ..*maker
    };
    let mut run = Run {
        seed,
        plan,
        maker,
        rng: Rng::for_part(seed.0, "moments"),
        known: Knowledge::new(plan),
        report: Report::default(),
        worlds: 0,
        trace: Vec::new(),
    };
    let world = SimWorld::new(seed, plan.reactors, &maker.devices(plan.bytes));
    maker
        .format(&world)
        .map_err(|error| Failure::new(error).within("format"))?;
    let mut images = world.after_cut(Cut::whole(Keep::Nothing));
    for life in 0..plan.lives {
        let within = |failure: Failure| failure.within(format!("life {life}"));
        if plan.is_silent && life > 0 {
            run.silent(&images).map_err(within)?;
        }
        images = run
            .live(images, life + 1 == plan.lives)
            .map_err(|failure| {
                let mut failure = within(failure);
                if failure.trace.is_empty() {
                    // The operations on the wrong media.
                    failure.trace = std::mem::take(&mut run.trace);
                }
                failure
            })?;
    }
    run.check(&images)
        .map_err(|failure| failure.within("at the end"))?;
    Ok(run.report)
}

/// A world between its lives.
struct Run<'a> {
    seed: Seed,
    plan: Plan,
    maker: &'a EngineMaker,
    rng: Rng,
    known: Knowledge,
    report: Report,
    worlds: u64,
    /// The end of the last life.
    trace: Vec<String>,
}

impl Run<'_> {
    fn start(&mut self, images: Images) -> SimWorld {
        self.worlds += 1;
        SimWorld::restart(images, self.seed.nth(self.worlds), self.plan.reactors)
    }

    fn cut(&mut self, world: &SimWorld) -> Images {
        let keep = [
            Keep::Nothing,
            Keep::Everything,
            Keep::Random(self.rng.draw()),
        ][self.rng.index(3)];
        let tear = [None, Some(Grain::Block), Some(Grain::Sector)][self.rng.index(3)];
        let mut images = world.after_cut(Cut { keep, tear });
        self.report.cuts += 1;
        self.report.add_losses(images.losses);
        images.set_host_capacity(None);
        images
    }

    /// Verifies the media as they are.
    fn check(&mut self, images: &Images) -> Result<(), Failure> {
        let offline = self.start(images.clone());
        let checked = self.maker.check(&offline);
        checked.map_err(|error| Failure::new(error).within("check"))
    }

    fn is_always(&self) -> bool {
        self.maker.promises().changes_are_durable
    }

    fn live(&mut self, images: Images, is_last: bool) -> Result<Images, Failure> {
        self.check(&images)?;
        let world = self.start(images);
        let system = self
            .maker
            .mount(&world)
            .map_err(|error| Failure::new(error).within("mount"))?;
        self.report.recoveries += 1;
        let (plan, always, draw) = (self.plan, self.is_always(), self.rng.draw());
        let will_cut = self.rng.one_in(2);
        let cut_after = self.rng.between(1, 1 << self.rng.clone().between(4, 12));
        let actions = self.rng.between(1, plan.actions);
        let loud = (plan.is_loud && !is_last && self.rng.one_in(2)).then(|| {
            (
                LOUD[self.rng.index(LOUD.len())],
                1 << self.rng.between(5, 11),
            )
        });
        let mut life = Life::new(&world, system, plan, &mut self.known, draw, always);
        let mut work = || -> Result<(), Failure> {
            if !life.settle()? || !life.build()? {
                return Err(Failure::new("the power failed too early"));
            }
            if let Some((fault, rate)) = loud {
                life.is_tolerant = !matches!(fault, Fault::Slow);
                let rate = if fault == Fault::Slow { 50 } else { rate };
                for device in world.devices() {
                    world.set_faults(device, Faults::only(fault, rate));
                }
            }
            if will_cut {
                world.cut_at_write(world.writes() + cut_after);
            }
            if life.work_off(actions)? && !life.is_failed {
                if is_last {
                    life.end()?;
                }
                if life.rng.one_in(2) {
                    life.stop()?;
                }
            }
            Ok(())
        };
        let verdict = work();
        let (trace, errors, token) = (
            life.trace
                .split_off(life.trace.len().saturating_sub(TRACE_MAX)),
            life.errors,
            life.token,
        );
        let cps = life.system.committed_cp();
        let met = match life.system.is_stopped() {
            true => Vec::new(),
            false => Background::of(&life.system),
        };
        drop(life);
        verdict.map_err(|failure| {
            let cut = "- the power failed, or the server was stopped".to_owned();
            let before = std::mem::take(&mut self.trace).into_iter().chain([cut]);
            Failure {
                trace: before.chain(trace.clone()).collect(),
                ..failure
            }
        })?;
        self.trace = trace;
        self.report.errors += errors;
        self.report.actions += token;
        self.report.cps += cps;
        self.report.interrupted.count(met);
        self.report.writes = world.writes();
        self.report.add_faults(&world);
        self.report.digest = world.digest();
        world.cut_now();
        Ok(self.cut(&world))
    }

    /// Lives on a copy of the media that silently goes bad.
    fn silent(&mut self, images: &Images) -> Result<(), Failure> {
        let mut known = self.known.clone();
        let fault = SILENT[self.rng.index(SILENT.len())];
        let rate = 1 << self.rng.between(0, 7);
        let first = self.maker.promises().damage_is_found.unwrap_or(0);
        let (plan, always, actions) = (self.plan, self.is_always(), self.rng.between(1, 200));
        let mut images = images.clone();
        for again in 0..3 {
            let world = self.start(images);
            let faults = Faults {
                blocks: Some(first..u64::MAX),
                ..Faults::only(fault, rate)
            };
            let switch = || {
                for device in world.devices() {
                    world.set_faults(device, faults.clone());
                }
            };
            let is_read = matches!(
                fault,
                Fault::FlipReading | Fault::StaleRead | Fault::MediaFlip
            );
            if again > 0 && is_read {
                switch();
            }
            let system = match self.maker.mount(&world) {
                Ok(system) => system,
                Err(NotMounted::Refused(_)) if again > 0 => {
                    self.report.answered[fault] += 1;
                    return Ok(());
                }
                Err(error) => return Err(Failure::new(error).within(format!("{fault}"))),
            };
            if let Some(reason) = system.read_only()
                && again > 0
                && reason.contains("cannot be read")
            {
                // Volumes or snapshots are left out: missing objects cannot be judged.
                self.report.answered[fault] += 1;
                return Ok(());
            }
            let draw = self.rng.draw();
            let mut life = Life::new(&world, system, plan, &mut known, draw, always);
            life.is_tolerant = again > 0;
            // True if a state is unknown.
            let mut is_blurred = false;
            let mut work = || {
                life.settle()?;
                is_blurred = life.is_failed;
                if is_blurred {
                    return Ok(());
                }
                match again {
                    0 => _ = life.build()?,
                    _ => life.plan_building(),
                }
                life.is_tolerant = true;
                switch();
                life.work_off(actions).map(|_| ())
            };
            let verdict = work();
            let (trace, errors) = (
                life.trace.split_off(life.trace.len().saturating_sub(60)),
                life.errors,
            );
            drop(life);
            verdict.map_err(|failure: Failure| Failure {
                trace,
                ..failure.within(format!("{fault}, restart {again}"))
            })?;
            self.report.answered[fault] += errors;
            self.report.add_faults(&world);
            if is_blurred {
                return Ok(());
            }
            world.cut_now();
            images = self.cut(&world);
        }
        Ok(())
    }
}
