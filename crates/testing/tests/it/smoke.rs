//! The shortest life of the engine: written, made durable, cut, checked, read.

use everglade_testing::engine::EngineMaker;
use everglade_testing::model::Model;
use everglade_testing::sim::driver::{Driver, Manners};
use everglade_testing::sim::judge::judge;
use everglade_testing::system::{Admin, Maker};
use everglade_testing::workload::Action;
use everglade_testing::world::{Cut, Keep};
use everglade_testing::{Seed, SimWorld};

fn write(offset: u64, length: u64, fill: u64) -> Action {
    Action::Write {
        lun: "v/l".to_owned(),
        offset,
        length,
        fill,
        durable: false,
    }
}

fn read(offset: u64, length: u64) -> Action {
    Action::Read {
        lun: "v/l".to_owned(),
        offset,
        length,
    }
}

#[test]
fn what_was_written_is_read_again_after_a_restart_and_the_media_are_clean() {
    let maker = EngineMaker::SMALL;
    let world = SimWorld::new(Seed(1), 1, &maker.devices(16 << 20));
    let mut model = Model::default();
    maker.format(&world).expect("a fresh device");
    let system = maker.mount(&world).expect("it was just made");
    let mut driver = Driver::new(&world, system, &mut model, Manners::STRICT, 1);
    let actions = [
        Action::Admin(Admin::CreateVolume {
            name: "v".to_owned(),
        }),
        Action::Admin(Admin::CreateLun {
            name: "v/l".to_owned(),
            size_bytes: 8 << 20,
        }),
        write(0, 4096, 1),
        write(4096 * 254, 3 * 4096, 2),
        write(100, 10, 3),
        read(0, 2 << 19),
        Action::Admin(Admin::ConsistencyPoint),
        read(0, 2 << 19),
        write(5 << 20, 1 << 20, 4),
        Action::Flush {
            lun: "v/l".to_owned(),
        },
        read(5 << 20, 1 << 20),
    ];
    let mut rest = actions.into_iter();
    driver.run(&mut |_| rest.next()).expect("it does as asked");
    drop(driver);
    model.set_writes(world.writes());

    let images = world.after_cut(Cut::whole(Keep::Nothing));
    let offline = SimWorld::restart(images.clone(), Seed(2), 1);
    maker.check(&offline).unwrap_or_else(|error| panic!("{error}"));
    let world = SimWorld::restart(images, Seed(3), 1);
    let mut system = maker.mount(&world).expect("nothing is wrong with it");
    let judged = judge(&world, &mut system, &model, u64::MAX);
    judged.unwrap_or_else(|failure| panic!("{failure}"));
}
