//! One aggregate on a directory, its reactors, and what is measured.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use everglade_engine::admin::Change;
use everglade_engine::{Core, CpCounts, Engine, Plan, State, Subsystem, create};
use everglade_env::Geometry;
use everglade_env::World;
use everglade_env::WorldOptions;
use everglade_format::volume::Sync;
use everglade_testing::rng::Rng;

use crate::arguments::{Arguments, Job};
use crate::load::{Asked, Control, Writers};

/// What is written to.
pub(crate) const LUN: &str = "v/l";
/// Space for blocks that are replaced until the next consistency point, and more.
const SPARE_BYTES: u64 = 4 << 30;
/// Before the rate is measured: the first consistency points begin under way.
const WARM_UP: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(120);

struct Rig {
    engine: Engine,
    world: World,
    control: Arc<Control>,
    threads: Vec<JoinHandle<()>>,
}

/// Where something is measured from.
struct Start {
    at: Instant,
    ended: u64,
    cpu: Vec<u64>,
    counts: CpCounts,
}

/// Makes the aggregate, fills the LUN, and measures the load. The device is removed.
///
/// # Errors
/// What fails, for people.
pub(crate) fn run(arguments: &Arguments) -> Result<String, String> {
    let folder = arguments.folder.join("inprocess-device");
    let outcome = measured(arguments, &folder);
    // A device that could not be made may be somebody else's.
    if outcome.is_ok() {
        drop(std::fs::remove_dir_all(&folder));
    }
    outcome
}

fn measured(arguments: &Arguments, folder: &std::path::Path) -> Result<String, String> {
    let rig = Rig::new(arguments, folder)?;
    rig.ask(Some(Change::CreateVolume {
        name: "v".to_owned(),
        sync: Sync::Standard,
    }))?;
    rig.ask(Some(Change::CreateLun {
        volume: "v".to_owned(),
        name: "l".to_owned(),
        size_bytes: arguments.lun_bytes,
    }))?;
    let filled = rig.sequential()?;
    let report = match arguments.job {
        Job::Sequential => {
            drop(filled);
            let start = rig.sequential()?;
            rig.report(arguments, &start)
        }
        Job::Random => {
            rig.set(Some(Job::Random));
            std::thread::sleep(WARM_UP);
            let start = rig.start();
            std::thread::sleep(Duration::from_secs_f64(arguments.seconds));
            let report = rig.report(arguments, &start);
            rig.set(None);
            report
        }
    };
    rig.end()?;
    Ok(report)
}

impl Rig {
    fn new(arguments: &Arguments, folder: &std::path::Path) -> Result<Rig, String> {
        let reactors = arguments.options.reactors;
        let options = WorldOptions {
            reactors,
            ..WorldOptions::default()
        };
        let world = World::new(&options).map_err(|error| error.to_string())?;
        let geometry = Geometry::of(arguments.lun_bytes * 2 + SPARE_BYTES);
        let device = world.create_directory(folder, geometry);
        let device = device.map_err(|error| error.to_string())?;
        let plan = Plan::new("aggr0", [1; 16], [2; 32], vec![[3; 16]]);
        create(&world, &[device], &plan).map_err(|error| error.to_string())?;
        let engine = Engine::new(arguments.options);
        engine
            .open(&world, &[device], &[], None)
            .map_err(|error| error.to_string())?;
        let control = Arc::new(Control::default());
        let mut threads = Vec::new();
        let part = (arguments.lun_bytes / reactors as u64) & !((1 << 20) - 1);
        for index in 0..reactors {
            let outside = world.reactor(index).map_err(|error| error.to_string())?;
            let begin = index as u64 * part;
            let writers = Writers {
                core: Core::new(&engine, index, outside),
                control: Arc::clone(&control),
                depth: arguments.depth,
                lun_bytes: arguments.lun_bytes,
                range: begin..begin + part,
                random: Rng::new(index as u64 + 1),
                is_first: index == 0,
            };
            let builder = std::thread::Builder::new().name(format!("reactor-{index}"));
            let spawned = builder.spawn(move || writers.run());
            threads.push(spawned.map_err(|error| error.to_string())?);
        }
        let rig = Rig {
            engine,
            world,
            control,
            threads,
        };
        rig.until("the aggregate is online", || {
            rig.engine.aggregates()[0].state == State::Online
        })?;
        Ok(rig)
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) -> Result<(), String> {
        let begun = Instant::now();
        while !is_so() {
            if begun.elapsed() > PATIENCE {
                return Err(format!("after {} s: not yet: {what}", PATIENCE.as_secs()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn wake(&self) {
        (0..self.threads.len()).for_each(|index| self.world.wake(index));
    }

    /// Asks the first reactor for a change, or for a consistency point.
    fn ask(&self, change: Option<Change>) -> Result<(), String> {
        let (answer, answered) = channel();
        self.control
            .asked
            .lock()
            .push_back(Asked { change, answer });
        self.wake();
        let answer = answered.recv_timeout(PATIENCE);
        answer.map_err(|_| "a change has no answer".to_owned())?
    }

    /// Lets writers begin writes, or ends that.
    fn set(&self, job: Option<Job>) {
        *self.control.job.lock() = job;
        self.wake();
    }

    /// Writes all of the LUN once, in order, and makes it durable. Returns where it was measured
    /// from.
    fn sequential(&self) -> Result<Start, String> {
        let control = &self.control;
        control.is_once.store(true, Ordering::Release);
        control.at_end.store(0, Ordering::Release);
        let start = self.start();
        self.set(Some(Job::Sequential));
        let threads = self.threads.len() as u64;
        self.until("all is written", || {
            control.at_end.load(Ordering::Acquire) == threads
                && control.ended.load(Ordering::Acquire) == control.begun.load(Ordering::Acquire)
        })?;
        self.ask(None)?;
        // The threads begin at the beginning again.
        self.set(None);
        std::thread::sleep(10 * LOOK);
        match control.has_failed.load(Ordering::Acquire) {
            false => Ok(start),
            true => Err("a write failed".to_owned()),
        }
    }

    fn start(&self) -> Start {
        Start {
            at: Instant::now(),
            ended: self.control.ended.load(Ordering::Acquire),
            cpu: self.cpu(),
            counts: self.counts(),
        }
    }

    /// CPU time of all reactors, by subsystem, in nanoseconds.
    fn cpu(&self) -> Vec<u64> {
        let times = self.engine.cpu_times();
        let sum = |index: usize| times.iter().map(|of_one| of_one[index]).sum();
        (0..Subsystem::ALL.len()).map(sum).collect()
    }

    fn counts(&self) -> CpCounts {
        self.engine.aggregates()[0].cp_counts.clone()
    }

    /// What happened since `start`, as lines of a name and a value.
    fn report(&self, arguments: &Arguments, start: &Start) -> String {
        let seconds = start.at.elapsed().as_secs_f64();
        let ended = self.control.ended.load(Ordering::Acquire) - start.ended;
        let blocks = match arguments.job {
            Job::Random => ended,
            Job::Sequential => ended * 32,
        };
        let mut text = String::new();
        let mut line = |name: &str, value: f64| {
            writeln!(text, "{name} {value:.4}").expect("text takes all");
        };
        line("seconds", seconds);
        line("blocks", blocks as f64);
        line("blocks_per_second", blocks as f64 / seconds);
        let times = self.cpu().into_iter().zip(&start.cpu);
        let spent: Vec<u64> = times.map(|(now, then)| now - then).collect();
        for (subsystem, nanos) in Subsystem::ALL.into_iter().zip(&spent) {
            let micros = *nanos as f64 / 1000.0 / blocks as f64;
            line(&format!("cpu_us_{}", subsystem.name()), micros);
        }
        let all: u64 = spent.iter().sum();
        line("cpu_us", all as f64 / 1000.0 / blocks as f64);
        let now = self.counts();
        for ((name, count), (_, before)) in now.blocks.iter().zip(&start.counts.blocks) {
            line(&format!("cp_blocks_{name}"), (count - before) as f64);
        }
        let begun = |counts: &CpCounts| counts.by_trigger.iter().map(|it| it.1).sum::<u64>();
        line("cps", (begun(&now) - begun(&start.counts)) as f64);
        for (name, times) in &now.phases {
            let before = start.counts.phases.iter().find(|it| it.0 == *name);
            let before = before.map_or(0, |it| it.1.sum);
            line(
                &format!("phase_s_{name}"),
                (times.sum - before) as f64 / 1e9,
            );
        }
        for ((name, nanos), (_, before)) in now.waits.iter().zip(&start.counts.waits) {
            line(&format!("wait_s_{name}"), (nanos - before) as f64 / 1e9);
        }
        text
    }

    fn end(self) -> Result<(), String> {
        let control = &self.control;
        self.until("all writes have ended", || {
            control.ended.load(Ordering::Acquire) == control.begun.load(Ordering::Acquire)
        })?;
        if control.has_failed.load(Ordering::Acquire) {
            return Err("a write failed".to_owned());
        }
        self.engine.request_stop();
        self.wake();
        self.until("the engine has stopped", || self.engine.is_stopped())?;
        control.is_over.store(true, Ordering::Release);
        self.wake();
        for thread in self.threads {
            thread.join().map_err(|_| "a thread ended early")?;
        }
        Ok(())
    }
}
