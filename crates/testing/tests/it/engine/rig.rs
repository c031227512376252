//! An aggregate that is worked on, cut, checked and started again, as one test likes.

use everglade_engine::admin::{Change, Error as Refusal};
use everglade_env::BLOCK_SIZE;
use everglade_target::{Error, Op, Reply};
use everglade_testing::engine::{EngineMaker, EngineSystem};
use everglade_testing::model::Model;
use everglade_testing::sim::driver::{Driver, Manners};
use everglade_testing::sim::judge::judge;
use everglade_testing::system::{Admin, Maker, System};
use everglade_testing::workload::Action;
use everglade_testing::world::{Cut, Images, Keep, Turn};
use everglade_testing::{Seed, SimWorld};

/// Turns one operation may take.
const TURNS_MAX: u64 = 1_000_000;

pub(super) struct Rig {
    pub(super) maker: EngineMaker,
    pub(super) world: SimWorld,
    pub(super) model: Model,
    reactors: usize,
    lives: u64,
}

impl Rig {
    /// A new aggregate of about `bytes`.
    pub(super) fn new(maker: EngineMaker, bytes: u64, reactors: usize) -> Rig {
        let world = SimWorld::new(Seed(1), reactors, &maker.devices(bytes));
        maker.format(&world).expect("fresh devices");
        Rig {
            maker,
            world,
            model: Model::default(),
            reactors,
            lives: 1,
        }
    }

    /// A new aggregate with a LUN `v/l` that has 64 blocks, all committed.
    pub(super) fn with_blocks(maker: EngineMaker) -> Rig {
        let mut rig = Rig::new(maker, 12 << 20, 1);
        rig.live(
            [
                create_volume("v"),
                create_lun("v/l", 8 << 20),
                write("v/l", 0, 64 * BLOCK_SIZE as u64, 5),
                consistency_point(),
            ],
            |_| {},
        );
        rig
    }

    /// Cuts the power and brings it back; nothing that was not durable is kept. The media must be
    /// clean.
    pub(super) fn restart(&mut self) {
        let images = self.world.after_cut(Cut::whole(Keep::Nothing));
        self.restart_from(images);
    }

    /// The same with media that need not be clean.
    pub(super) fn restart_unchecked(&mut self) {
        self.lives += 1;
        let images = self.world.after_cut(Cut::whole(Keep::Nothing));
        self.world = SimWorld::restart(images, Seed(self.lives), self.reactors);
    }

    pub(super) fn restart_from(&mut self, images: Images) {
        self.lives += 1;
        let offline = SimWorld::restart(images.clone(), Seed(self.lives), 1);
        self.maker
            .check(&offline)
            .unwrap_or_else(|error| panic!("life {}: {error}", self.lives));
        self.world = SimWorld::restart(images, Seed(self.lives), self.reactors);
    }

    /// Mounts, and compares everything with the model.
    pub(super) fn mount(&mut self) -> EngineSystem {
        let at = self.world.writes() + 1;
        let mounted = self.maker.mount(&self.world);
        let mut system = mounted.unwrap_or_else(|error| panic!("life {}: {error}", self.lives));
        self.model = judge(&self.world, &mut system, &self.model, at)
            .unwrap_or_else(|failure| panic!("life {}: {failure}", self.lives));
        self.model.set_writes(self.world.writes());
        system
    }

    /// Mounts, and compares nothing.
    pub(super) fn maker_mount(&mut self) -> EngineSystem {
        let mounted = self.maker.mount(&self.world);
        mounted.unwrap_or_else(|error| panic!("life {}: {error}", self.lives))
    }

    /// Runs the actions, one after the other; then `look` may check the system.
    pub(super) fn run<R>(
        &mut self,
        system: EngineSystem,
        actions: impl IntoIterator<Item = Action>,
        look: impl FnOnce(&mut EngineSystem) -> R,
    ) -> (EngineSystem, R) {
        let manners = Manners::STRICT;
        let mut driver = Driver::new(&self.world, system, &mut self.model, manners, self.lives);
        let mut rest = actions.into_iter();
        driver
            .run(&mut |_| rest.next())
            .unwrap_or_else(|failure| panic!("life {}: {failure}", self.lives));
        let result = look(driver.system());
        let system = driver.into_system();
        self.model.set_writes(self.world.writes());
        (system, result)
    }

    /// Runs one life: mount, work, power cut.
    pub(super) fn live<R>(
        &mut self,
        actions: impl IntoIterator<Item = Action>,
        look: impl FnOnce(&mut EngineSystem) -> R,
    ) -> R {
        let system = self.mount();
        let (_, result) = self.run(system, actions, look);
        self.restart();
        result
    }
}

/// Does one operation on one LUN, and waits for it.
pub(super) fn ask(
    world: &SimWorld,
    system: &mut EngineSystem,
    lun: &str,
    op: Op,
) -> Result<Reply, Error> {
    let (handle, _) = system.target(0).open(lun)?;
    system.target(0).submit(handle, op, 7);
    world.wake(0);
    let mut done = Vec::new();
    world.run(TURNS_MAX, &mut |reactor| {
        let said = system.turn(reactor);
        if reactor == 0 {
            system.target(0).poll(&mut done);
        }
        if done.is_empty() { said } else { Turn::Stop }
    });
    system.target(0).close(handle);
    done.pop().expect("it is answered").result
}

/// Requests all changes at once, so that one consistency point makes them, within `turns` turns;
/// returns their answers in order.
pub(super) fn change_all(
    world: &SimWorld,
    system: &mut EngineSystem,
    turns_max: u64,
    changes: impl IntoIterator<Item = Change>,
) -> Vec<Result<(), Refusal>> {
    let mut count = 0;
    for change in changes {
        system.core(0).change(0, change, count);
        count += 1;
    }
    world.wake(0);
    let mut done = Vec::new();
    world.run(turns_max, &mut |_| {
        let said = system.turn(0);
        system.core(0).poll_admin(&mut done);
        if (done.len() as u64) < count {
            said
        } else {
            Turn::Stop
        }
    });
    done.sort_unstable_by_key(|done| done.token);
    done.into_iter().map(|done| done.result).collect()
}

/// A power cut that begins life `life`; the media must be clean.
pub(super) fn cut(
    maker: &EngineMaker,
    world: &SimWorld,
    system: EngineSystem,
    life: u64,
) -> (SimWorld, EngineSystem) {
    let images = world.after_cut(Cut::whole(Keep::Nothing));
    drop(system);
    let offline = SimWorld::restart(images.clone(), Seed(life), 1);
    let checked = maker.check(&offline);
    checked.unwrap_or_else(|error| panic!("life {life}: {error}"));
    let world = SimWorld::restart(images, Seed(life), 1);
    let system = maker
        .mount(&world)
        .expect("what was committed can be mounted");
    (world, system)
}

pub(super) fn create_volume(name: &str) -> Action {
    Action::Admin(Admin::CreateVolume {
        name: name.to_owned(),
    })
}

pub(super) fn create_lun(name: &str, size_bytes: u64) -> Action {
    Action::Admin(Admin::CreateLun {
        name: name.to_owned(),
        size_bytes,
    })
}

pub(super) fn delete_lun(name: &str) -> Action {
    Action::Admin(Admin::DeleteLun {
        name: name.to_owned(),
    })
}

pub(super) fn consistency_point() -> Action {
    Action::Admin(Admin::ConsistencyPoint)
}

pub(super) fn write(lun: &str, offset: u64, length: u64, fill: u64) -> Action {
    Action::Write {
        lun: lun.to_owned(),
        offset,
        length,
        fill,
        durable: false,
    }
}

pub(super) fn read(lun: &str, offset: u64, length: u64) -> Action {
    Action::Read {
        lun: lun.to_owned(),
        offset,
        length,
    }
}
