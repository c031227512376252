//! A mirror loses a drive, goes on, gets it back, brings it up to date, and loses the other one
//! (L-03).

use everglade_engine::admin::Change;
use everglade_engine::{AggregateInfo, Core, Engine, Opening, Options, Plan, Refusal, State};
use everglade_env::{BLOCK_SIZE, DeviceId, Storage};
use everglade_format::label::{LABEL_BLOCKS, size_for};
use everglade_format::volume::Sync;
use everglade_format::{Role, SeatState};
use everglade_target::{Error, Op, Reply, Target, WriteSpan};
use everglade_testing::workload::contents;
use everglade_testing::world::{Breakage, Cut, DeviceSpec, Keep, SimOutside, Turn};
use everglade_testing::{Seed, SimWorld};

const TURNS_MAX: u64 = 5_000_000;
const BLOCK: u64 = BLOCK_SIZE as u64;
const HALF: u64 = 64;
const LUN: &str = "v/l";
const LUN_BLOCKS: u64 = 512;

/// A pool that is worked on.
struct Pool {
    world: SimWorld,
    engine: Engine,
    core: Core<SimOutside>,
    /// What each block of the LUN was written with.
    fills: Vec<u64>,
    life: u64,
}

fn options() -> Options {
    Options {
        reactors: 1,
        memory_bytes: 8 << 20,
        cp_interval: 200_000_000,
        ..Options::default()
    }
}

fn open(
    engine: &Engine,
    storage: &dyn Storage,
    devices: &[DeviceId],
    is_degraded: bool,
) -> Result<u32, Refusal> {
    let opening = Opening {
        is_degraded,
        ..Opening::default()
    };
    engine.open_with(storage, (devices, &[]), None, opening)
}

fn plan(drives: usize, copies: usize) -> Plan {
    let uuids = (0..drives).map(|drive| [u8::try_from(drive).expect("few") + 1; 16]);
    Plan {
        area_blocks: 256,
        journal_half_blocks: Some(HALF),
        copies,
        ..Plan::new("a", [7; 16], [9; 32], uuids.collect())
    }
}

impl Pool {
    fn new(drives: usize, copies: usize) -> Pool {
        let spec = DeviceSpec::thin(size_for(24, 256, 2 * HALF) * BLOCK);
        let world = SimWorld::new(Seed(5), 1, &vec![spec; drives]);
        everglade_engine::create(&*world.storage(), &world.devices(), &plan(drives, copies))
            .expect("fresh devices");
        let mut pool = Pool::open(world, &[], false, vec![0; 512], 1);
        let volume = Change::CreateVolume {
            name: "v".to_owned(),
            sync: Sync::Standard,
        };
        let lun = Change::CreateLun {
            volume: "v".to_owned(),
            name: "l".to_owned(),
            size_bytes: LUN_BLOCKS * BLOCK,
        };
        for change in [volume, lun] {
            pool.core.change(0, change, 1);
            pool.answered();
        }
        pool
    }

    /// Opens without the devices `away`.
    fn open(
        world: SimWorld,
        away: &[DeviceId],
        degraded: bool,
        fills: Vec<u64>,
        life: u64,
    ) -> Pool {
        let engine = Engine::new(options());
        let mut devices = world.devices();
        devices.retain(|device| !away.contains(device));
        let storage = world.storage();
        let opened = open(&engine, &*storage, &devices, degraded);
        opened.unwrap_or_else(|refusal| panic!("life {life}: {refusal}"));
        let core = Core::new(&engine, 0, world.reactor(0));
        let mut pool = Pool {
            world,
            engine,
            core,
            fills,
            life,
        };
        pool.until(|pool| match pool.info().state {
            State::Mounting => false,
            State::Online => true,
            other => panic!("life {life}: {other:?}"),
        });
        pool
    }

    fn info(&self) -> AggregateInfo {
        self.engine.aggregates().swap_remove(0)
    }

    /// Runs until something is so.
    fn until(&mut self, mut is_so: impl FnMut(&mut Pool) -> bool) {
        for _ in 0..2000 {
            let world = self.world.clone();
            world.wake(0);
            let mut is_there = false;
            world.run(TURNS_MAX, &mut |_| {
                let busy = self.core.turn();
                is_there = is_so(self);
                match (is_there, busy) {
                    (true, _) => Turn::Stop,
                    (false, true) => Turn::Busy,
                    (false, false) => Turn::Idle {
                        until: self.core.deadline(),
                    },
                }
            });
            if is_there {
                return;
            }
            self.world.pass(10_000_000);
        }
        panic!("life {}: it never became so: {:?}", self.life, self.info());
    }

    /// Waits for the answer to a change, which must be a success.
    fn answered(&mut self) {
        let mut done = Vec::new();
        self.until(|pool| {
            pool.core.poll_admin(&mut done);
            !done.is_empty()
        });
        let answer = done.pop().expect("one answer").result;
        answer.unwrap_or_else(|error| panic!("life {}: {error}", self.life));
    }

    fn commit(&mut self) {
        self.core.consistency_point(0, 3);
        self.answered();
    }

    fn ask(&mut self, op: Op) -> Reply {
        let answer = self.answer_to(op);
        answer.unwrap_or_else(|error| panic!("life {}: {error}", self.life))
    }

    fn answer_to(&mut self, op: Op) -> Result<Reply, Error> {
        let (lun, _) = self.core.open(LUN).expect("it was made");
        self.core.submit(lun, op, 7);
        let mut done = Vec::new();
        self.until(|pool| {
            pool.core.poll(&mut done);
            !done.is_empty()
        });
        self.core.close(lun);
        done.pop().expect("one answer").result
    }

    /// Writes blocks so that they are durable.
    fn write(&mut self, blocks: impl IntoIterator<Item = u64>, salt: u64) {
        for block in blocks {
            let fill = salt * 10_000 + block + 100;
            let data = WriteSpan::copy_of(block * BLOCK, &contents(fill, BLOCK));
            self.ask(Op::Write {
                data,
                durable: true,
            });
            self.fills[usize::try_from(block).expect("few")] = fill;
        }
    }

    /// Every block reads as it was written last.
    fn check(&mut self) {
        for block in 0..LUN_BLOCKS {
            let read = Op::Read {
                offset: block * BLOCK,
                length: 4096,
            };
            let Reply::Data(span) = self.ask(read) else {
                panic!("a read returns data");
            };
            let expected = match self.fills[usize::try_from(block).expect("few")] {
                0 => vec![0; BLOCK_SIZE],
                fill => contents(fill, BLOCK),
            };
            assert!(
                span.pages[0][..] == expected[..],
                "life {}: block {block}",
                self.life
            );
        }
    }

    /// The power fails; what was not durable is gone. The pool is opened without the devices
    /// `away`.
    fn restart(self, away: &[DeviceId], degraded: bool) -> Pool {
        let (images, fills, life) = self.cut();
        let world = SimWorld::restart(images, Seed(life), 1);
        Pool::open(world, away, degraded, fills, life)
    }

    fn cut(self) -> (everglade_testing::world::Images, Vec<u64>, u64) {
        let images = self.world.after_cut(Cut::whole(Keep::Nothing));
        (images, self.fills, self.life + 1)
    }

    fn state_of(&self, member: usize) -> (SeatState, bool) {
        let member = self.info().members[member];
        (member.seat.state, member.is_used)
    }
}

#[test]
fn a_mirror_outlives_each_of_its_drives_in_turn() {
    let mut pool = Pool::new(2, 2);
    let [first, second] = pool.world.devices()[..] else {
        panic!("two drives");
    };
    assert_eq!(pool.info().members[1].seat.role, Role::Copy);
    pool.write(0..200, 1);
    pool.world.vanish(second);
    pool.write(100..300, 2);
    pool.commit();
    assert_eq!(pool.state_of(1), (SeatState::Behind, false));
    assert_eq!(pool.info().epoch, 2);
    pool.write(300..310, 3);
    pool.check();
    // Nothing is missed when the drive that is behind is away.
    let mut pool = pool.restart(&[second], false);
    pool.check();
    pool.write(310..350, 4);
    // It is back, and catches up.
    let mut pool = pool.restart(&[], false);
    pool.check();
    pool.write(0..50, 5);
    pool.until(|pool| pool.state_of(1) == (SeatState::Current, true));
    pool.write(50..60, 6);
    pool.commit();
    assert_eq!(pool.info().epoch, 3);
    pool.world.vanish(first);
    pool.check();
    pool.write(60..80, 7);
    pool.commit();
    assert_eq!(pool.state_of(0), (SeatState::Behind, false));
    pool.check();
    // The drive that caught up has everything by itself.
    let mut pool = pool.restart(&[first], false);
    pool.check();
    pool.write(400..410, 8);
    let mut pool = pool.restart(&[], false);
    pool.until(|pool| pool.state_of(0) == (SeatState::Current, true));
    pool.commit();
    let mut pool = pool.restart(&[second], true);
    pool.check();
}

#[test]
fn three_copies_outlive_two_losses_at_once() {
    let mut pool = Pool::new(6, 3);
    pool.write(0..100, 1);
    for drive in [0, 2, 4, 5] {
        pool.world.vanish(DeviceId(drive));
    }
    pool.write(50..150, 2);
    pool.commit();
    pool.check();
    let away = [0, 2, 4, 5].map(DeviceId);
    let mut pool = pool.restart(&away, false);
    pool.check();
    pool.write(150..160, 3);
    let mut pool = pool.restart(&[], false);
    pool.until(|pool| (0..6).all(|member| pool.state_of(member).1));
    pool.commit();
    let mut pool = pool.restart(&[DeviceId(1), DeviceId(3)], false);
    pool.check();
}

/// Drive 0 was away while drives 1 and 2 took turns, so all that were current in its record have
/// been behind since. It must not be taken for a part that went on alone.
#[test]
fn a_drive_returns_after_all_others_have_taken_turns() {
    let mut pool = Pool::new(3, 3);
    pool.write(0..50, 1);
    pool.world.vanish(DeviceId(0));
    pool.write(50..100, 2);
    pool.commit();
    pool.world.vanish(DeviceId(1));
    pool.write(100..150, 3);
    pool.commit();
    let mut pool = pool.restart(&[DeviceId(1)], false);
    pool.until(|pool| pool.state_of(0) == (SeatState::Current, true));
    // It is a spare when that is committed.
    pool.commit();
    pool.world.vanish(DeviceId(2));
    pool.write(150..200, 4);
    pool.commit();
    let mut pool = pool.restart(&[], false);
    pool.check();
    let has_all = |pool: &mut Pool| {
        let mut states = (0..3).map(|member| pool.state_of(member));
        states.all(|state| state == (SeatState::Current, true))
    };
    pool.until(has_all);
    pool.commit();
    let returns = |member: &everglade_engine::MemberInfo| member.seat.returns;
    let returns: Vec<u16> = pool.info().members.iter().map(returns).collect();
    assert_eq!(returns, [1, 1, 1]);
    let mut pool = pool.restart(&[DeviceId(0)], false);
    pool.check();
}

/// One drive catches up, and the other is lost in the consistency point that records that. A start
/// of the lost drive alone, whose record says that nothing else is current, lacks nothing that was
/// acknowledged.
#[test]
fn a_drive_is_lost_in_the_commit_that_makes_the_other_one_current() {
    let mut pool = Pool::new(2, 2);
    pool.write(0..20, 1);
    pool.world.vanish(DeviceId(1));
    pool.write(20..30, 2);
    pool.commit();
    let (images, fills, life) = pool.cut();
    let mut halted = 0;
    for after in 1..120 {
        let world = SimWorld::restart(images.clone(), Seed(life), 1);
        let mut pool = Pool::open(world, &[], false, fills.clone(), life);
        let at = pool.world.writes() + after;
        pool.world.break_at(at, DeviceId(0), Breakage::Vanishes);
        for block in 100..130 {
            let fill = 90_000 + block;
            // Consistency points come in between.
            pool.world.pass(80_000_000);
            let data = WriteSpan::copy_of(block * BLOCK, &contents(fill, BLOCK));
            let durable = Op::Write {
                data,
                durable: true,
            };
            match pool.answer_to(durable) {
                Ok(_) => pool.fills[usize::try_from(block).expect("few")] = fill,
                Err(_) => break,
            }
        }
        let has_caught_up = pool.state_of(1).1;
        halted += u64::from(has_caught_up && pool.info().state != State::Online);
        let (images, fills, life) = pool.cut();
        let world = SimWorld::restart(images, Seed(life), 1);
        let engine = Engine::new(options());
        let storage = world.storage();
        if engine.open(&*storage, &[DeviceId(0)], &[], None).is_ok() {
            drop((engine, storage));
            Pool::open(world, &[DeviceId(1)], false, fills, life).check();
        }
    }
    assert!(halted > 0, "the drive was never lost in that commit");
}

#[test]
fn half_of_a_mirror_is_opened_by_hand_only_and_the_halves_never_meet() {
    let mut pool = Pool::new(2, 2);
    let [first, second] = pool.world.devices()[..] else {
        panic!("two drives");
    };
    pool.write(0..10, 1);
    let (images, fills, life) = pool.cut();
    let open = |away: DeviceId, degraded| {
        let world = SimWorld::restart(images.clone(), Seed(life), 1);
        let mut devices = world.devices();
        devices.retain(|device| *device != away);
        let engine = Engine::new(options());
        let storage = world.storage();
        self::open(&engine, &*storage, &devices, degraded)
    };
    for away in [first, second] {
        let refusal = open(away, false).expect_err("the other half may be newer");
        assert!(refusal.can_be_degraded, "{refusal}");
        assert_eq!(open(away, true), Ok(0));
    }
    // Each half goes on by itself.
    let alone = |away: DeviceId, salt| {
        let world = SimWorld::restart(images.clone(), Seed(life), 1);
        let mut pool = Pool::open(world, &[away], true, fills.clone(), life);
        pool.check();
        pool.write(5..20, salt);
        pool.commit();
        pool.commit();
        pool.cut().0
    };
    let (one, other) = (alone(second, 2), alone(first, 3));
    let mut both = one;
    both.take_device_from(&other, second);
    let world = SimWorld::restart(both, Seed(life + 1), 1);
    let engine = Engine::new(options());
    let opened = engine.open(&*world.storage(), &world.devices(), &[], None);
    let refusal = opened.expect_err("both have writes that the other lacks");
    assert!(refusal.found.contains("without the others"), "{refusal}");
}

/// Spoils all blocks of a drive that hold something. Returns how many blocks were read from the
/// other drive.
fn spoil(drive: DeviceId) -> u64 {
    let mut pool = Pool::new(2, 2);
    pool.write(0..300, 1);
    pool.commit();
    let data = LABEL_BLOCKS + 2 * HALF;
    let end = pool.world.spec(drive).size_bytes / BLOCK - LABEL_BLOCKS;
    let is_used = |block: &u64| pool.world.peek(drive, *block).iter().any(|byte| *byte != 0);
    let used: Vec<u64> = (data..end).filter(is_used).collect();
    assert!(used.len() > 300, "{}", used.len());
    let mut pool = pool.restart(&[], false);
    for block in &used {
        pool.world.flip_bit(drive, *block, 77);
    }
    pool.check();
    for _ in 0..3 {
        pool.write([400], 2);
        pool.commit();
    }
    let copies = pool.info().copies;
    assert!(copies.rewritten >= copies.read_elsewhere / 2, "{copies:?}");
    let mut pool = pool.restart(&[], false);
    pool.check();
    let again = pool.info().copies.read_elsewhere;
    assert!(
        again <= copies.read_elsewhere / 4 + 4,
        "{again}, {copies:?}"
    );
    copies.read_elsewhere
}

#[test]
fn what_one_drive_has_wrong_is_read_from_the_other_and_written_again() {
    let read = spoil(DeviceId(0)) + spoil(DeviceId(1));
    assert!(
        read >= 300,
        "each block is read from one of them first: {read}"
    );
}
