//! A drive of a mirror that lies: blocks differ from their last write, or from what is on the
//! medium, and no operation fails.
//!
//! 1. Every answer is right, and no drive is given up: another one has each block.
//! 2. A scrub finds each wrong block that is in use, and charges the drive that has it. After the
//!    next consistency points the offline check finds no difference between the drives.
//!    Until then a drive may have wrong blocks of earlier lives, and is charged for them.
//! 3. A block that was found wrong is read from another drive, and a consistency point writes it
//!    again: after the next starts no read meets it any more.
//!
//! Labels and the journal are spared. Their copies are not compared with each other, and only a tag
//! in a parent tells a lost write from no write.

use std::collections::BTreeSet;

use everglade_engine::ScrubState;
use everglade_format::label::LABEL_BLOCKS;

use super::Plan;
use super::draw::{Drawn, SCALE};
use super::drives::first_data_block;
use super::life::{Begun, Setting, device};
use crate::Rng;
use crate::SimWorld;
use crate::engine::EngineSystem;
use crate::model::Model;
use crate::sim::driver::{Driver, Manners};
use crate::sim::judge::judge;
use crate::sim::{Failure, Mirrored, Report};
use crate::system::{Admin, Maker, System};
use crate::workload::{Action, Workload};
use crate::world::{Cut, End, Fault, Faults, Images, Keep};

/// Faults that a lying drive may have.
const LIES: [Fault; 8] = [
    Fault::Torn,
    Fault::Lost,
    Fault::Misdirected,
    Fault::MediaFlip,
    Fault::FlipWriting,
    Fault::FlipReading,
    Fault::StaleRead,
    Fault::ReadError,
];
/// Starts after the work of a life, in which everything is read and wrong blocks are written again.
const ROUNDS: usize = 3;
/// Consistency points of each.
const POINTS: u64 = 12;
/// Consistency points in which a scrub ends.
const SCRUB_POINTS_MAX: u64 = 400;
/// Wrong blocks of one start that are surely written again: more are found again later.
const REWRITTEN_MAX: usize = 256;

/// What a life begins with, between lives.
struct State {
    images: Images,
    at: u64,
    model: Model,
}

/// Lives of a pool, each with one drive that lies.
pub(super) fn run(setting: &Setting, plan: Plan, rng: &mut Rng) -> Result<Report, Failure> {
    let mut workload = Workload::new(setting.seed.0, SCALE);
    let Begun { images, at, .. } = setting.begin(plan.pool_bytes)?;
    let mut state = State {
        images,
        at,
        model: Model::default(),
    };
    let mut report = Report::default();
    // Drives that have lied since the last scrub.
    let mut liars = BTreeSet::new();
    for number in 0..plan.lives {
        let setting = Setting {
            seed: setting.seed.nth(number),
            ..*setting
        };
        let (fault, rate) = (LIES[rng.index(LIES.len())], 1 << rng.between(1, 6));
        let drives = state.images.devices();
        let liar = Liar {
            drive: rng.index(drives),
            faults: Faults::only(fault, rate),
        };
        let within = |failure: Failure| {
            let drive = liar.drive;
            failure.within(format!("life {number}: drive {drive}, {fault} 1 in {rate}"))
        };
        liars.insert(liar.drive);
        let lived = Lived {
            setting: &setting,
            liars: &liars,
        };
        state = live(&lived, state, &liar, rng, &mut workload, &mut report).map_err(within)?;
        // Nothing but a scrub finds wrong parity.
        if rng.one_in(2) || setting.maker.parity.is_some() {
            state = scrub(&lived, state, &mut report)
                .map_err(|failure| within(failure.within("a scrub after it")))?;
            liars.clear();
            continue;
        }
        let mut before = BTreeSet::new();
        for round in 0..ROUNDS {
            let next = mend(&setting, state, &before, &mut report);
            (state, before) =
                next.map_err(|failure| within(failure.within(format!("start {round} after it"))))?;
        }
    }
    Ok(report)
}

/// A life, and the drives that may have wrong blocks in it.
struct Lived<'a> {
    setting: &'a Setting,
    liars: &'a BTreeSet<usize>,
}

struct Liar {
    drive: usize,
    faults: Faults,
}

impl Liar {
    /// Switches the faults on, for all but labels and journal.
    fn begin(&self, setting: &Setting, world: &SimWorld) {
        let end = world.spec(device(self.drive)).blocks() - LABEL_BLOCKS;
        let faults = Faults {
            blocks: Some(first_data_block(&setting.maker, self.drive)..end),
            ..self.faults.clone()
        };
        world.set_faults(device(self.drive), faults);
    }
}

/// Work while a drive lies. Clients notice nothing.
fn live(
    &Lived { setting, liars }: &Lived<'_>,
    state: State,
    liar: &Liar,
    rng: &mut Rng,
    workload: &mut Workload,
    report: &mut Report,
) -> Result<State, Failure> {
    let world = setting.restart(&state.images);
    let is_early = rng.one_in(2);
    if is_early {
        liar.begin(setting, &world);
    }
    let traced = |mut failure: Failure| {
        failure.trace = world.take_trace();
        failure
    };
    let (mut model, system) = mount(setting, &world, &state).map_err(traced)?;
    if !is_early {
        liar.begin(setting, &world);
    }
    let manners = Manners {
        depth: [1, 4, 16][rng.index(3)],
        changes_are_durable: setting.maker.promises().changes_are_durable,
        ..Manners::STRICT
    };
    let mut work = Drawn::new(workload, rng.between(20, 150));
    let mut driver = Driver::new(&world, system, &mut model, manners, setting.seed.0);
    driver
        .run(&mut |model| work.next(model))
        .and_then(|_| consistency_points(&mut driver, 1))
        .map_err(traced)?;
    expect_all_used(driver.system()).map_err(traced)?;
    let copies = driver.system().copies();
    expect_charged(driver.system(), liars).map_err(traced)?;
    report.mirrors[Mirrored::ReadElsewhere] += copies.read_elsewhere;
    report.mirrors[Mirrored::Rewritten] += copies.rewritten;
    let done = driver.report;
    drop(driver);
    report.add(&done);
    report.writes = world.writes();
    report.digest = world.digest();
    report.add_faults(&world);
    Ok(ended(&world, model))
}

/// A start with good drives, on which some blocks may be wrong. A scrub reads everything, and what
/// it finds is written again.
fn scrub(
    &Lived { setting, liars }: &Lived<'_>,
    state: State,
    report: &mut Report,
) -> Result<State, Failure> {
    let world = setting.restart(&state.images);
    let traced = |mut failure: Failure| {
        failure.trace = world.take_trace();
        failure
    };
    let (mut model, system) = mount(setting, &world, &state).map_err(traced)?;
    let mut driver = Driver::new(&world, system, &mut model, Manners::STRICT, 1);
    let mut first = Some(Action::Admin(Admin::StartScrub));
    driver.run(&mut |_| first.take()).map_err(traced)?;
    let mut left = SCRUB_POINTS_MAX;
    while driver.system().scrub().state != ScrubState::Done {
        left -= 1;
        if left == 0 {
            let scrub = driver.system().scrub();
            return Err(traced(Failure::new(format!("Mirror: no end of {scrub:?}"))));
        }
        consistency_points(&mut driver, 1).map_err(traced)?;
    }
    consistency_points(&mut driver, POINTS).map_err(traced)?;
    let scrub = driver.system().scrub();
    if scrub.lost_blocks > 0 || scrub.passed_blocks != scrub.total_blocks {
        return Err(traced(Failure::new(format!(
            "Mirror: each block is right on a drive, and a scrub has {scrub:?}"
        ))));
    }
    expect_all_used(driver.system())
        .and_then(|()| expect_charged(driver.system(), liars))
        .map_err(traced)?;
    report.mirrors[Mirrored::Scrubbed] += scrub.wrong_blocks;
    drop(driver);
    report.recoveries += 1;
    report.add_faults(&world);
    let next = ended(&world, model);
    // It was wrong before, or there was nothing to find.
    let offline = setting.restart(&next.images);
    let checked = setting.maker.check(&offline);
    checked.map_err(|error| traced(Failure::new(error).within("check after a scrub")))?;
    Ok(next)
}

/// A start with good drives, on which some blocks may be wrong. Everything is read, then
/// consistency points write again what was found. Returns the wrong blocks that it met; `before`
/// were met by the start before, and are right by now.
fn mend(
    setting: &Setting,
    state: State,
    before: &BTreeSet<(usize, u64)>,
    report: &mut Report,
) -> Result<(State, BTreeSet<(usize, u64)>), Failure> {
    let world = setting.restart(&state.images);
    world
        .devices()
        .into_iter()
        .for_each(|it| world.forget_met(it));
    let traced = |mut failure: Failure| {
        failure.trace = world.take_trace();
        failure
    };
    let (mut model, system) = mount(setting, &world, &state).map_err(traced)?;
    let met: BTreeSet<(usize, u64)> = (0..state.images.devices())
        .flat_map(|drive| {
            let wrong = world.unmended(device(drive)).into_iter();
            wrong.map(move |block| (drive, block))
        })
        .collect();
    let again = met.intersection(before).next();
    if let Some(again) = again.filter(|_| before.len() <= REWRITTEN_MAX) {
        return Err(traced(Failure::new(format!(
            "Mirror: drive and block {again:?} were wrong in the start before, and still are"
        ))));
    }
    let mut driver = Driver::new(&world, system, &mut model, Manners::STRICT, 1);
    consistency_points(&mut driver, POINTS).map_err(traced)?;
    expect_all_used(driver.system()).map_err(traced)?;
    let copies = driver.system().copies();
    // Not all of them are written again: a consistency point that reads a block to give it another
    // place frees it. Whatever is in use is met again in the next start, if it is not written.
    if !met.is_empty() && copies.read_elsewhere == 0 {
        return Err(traced(Failure::new(format!(
            "Mirror: {} blocks were wrong on a drive: {copies:?}",
            met.len()
        ))));
    }
    report.mirrors[Mirrored::ReadElsewhere] += copies.read_elsewhere;
    report.mirrors[Mirrored::Rewritten] += copies.rewritten;
    drop(driver);
    report.recoveries += 1;
    report.add_faults(&world);
    Ok((ended(&world, model), met))
}

/// Starts, and compares everything.
fn mount(
    setting: &Setting,
    world: &SimWorld,
    state: &State,
) -> Result<(Model, EngineSystem), Failure> {
    let mounted = setting.maker.mount(world);
    let mut system = mounted.map_err(|error| Failure::new(error).within("mount"))?;
    let mut model = judge(world, &mut system, &state.model, state.at)?;
    model.set_writes(world.writes());
    Ok((model, system))
}

/// Changes something, and asks for consistency points.
fn consistency_points(driver: &mut Driver<'_, EngineSystem>, count: u64) -> Result<End, Failure> {
    let first = driver.system().committed_cp();
    let change = |number: u64| {
        let name = format!("p{first}n{number}");
        let create = Admin::CreateVolume { name: name.clone() };
        [create, Admin::DeleteVolume { name }].map(Action::Admin)
    };
    let mut actions = (0..count).flat_map(change);
    driver.run(&mut |_| actions.next())
}

/// Each fault is counted for a drive that has lied, and for no other one.
fn expect_charged(system: &EngineSystem, liars: &BTreeSet<usize>) -> Result<(), Failure> {
    let copies = system.copies();
    let mut mended = 0;
    for (drive, member) in system.members().into_iter().enumerate() {
        let faults = member.faults;
        let met = faults.read_errors + faults.wrong_blocks;
        mended += faults.mended;
        let is_right = match liars.contains(&drive) {
            true => met >= faults.mended,
            false => met + faults.mended + faults.write_errors == 0,
        };
        if !is_right {
            return Err(Failure::new(format!(
                "Mirror: {liars:?} lie, and {faults:?} is counted for drive {drive}: {copies:?}"
            )));
        }
    }
    match mended == copies.rewritten {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "Mirror: drives count {mended} mended blocks, and all together {copies:?}"
        ))),
    }
}

/// No drive is given up because it lies.
fn expect_all_used(system: &EngineSystem) -> Result<(), Failure> {
    let members = system.members().into_iter().enumerate();
    for (drive, member) in members {
        if !member.is_used || !member.seat.is_current() {
            return Err(Failure::new(format!(
                "Mirror: drive {drive} lies, and is not used any more: {member:?}"
            )));
        }
    }
    match system.failure().or_else(|| system.read_only()) {
        None => Ok(()),
        Some(reason) => Err(Failure::new(format!("Mirror: halted: {reason}"))),
    }
}

/// The power fails; nothing is lost but what was under way.
fn ended(world: &SimWorld, model: Model) -> State {
    State {
        at: world.writes() + 1,
        images: world.after_cut(Cut::whole(Keep::Everything)),
        model,
    }
}
