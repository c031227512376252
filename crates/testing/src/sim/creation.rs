//! The power fails while the devices are being prepared, at each write.
//!
//! The result is either media that cannot be started, or an empty aggregate that works: never an
//! aggregate that starts and is damaged.

use super::driver::{Driver, Manners};
use super::{Failure, Report};
use crate::model::Model;
use crate::system::{Admin, Maker, System};
use crate::workload::Action;
use crate::world::{Cut, DeviceSpec, Images, Keep, SimWorld};
use crate::{Rng, Seed};

/// Random subsets of unflushed changes to lose at each write, besides the systematic ones.
const RANDOM_WAYS: u64 = 8;

/// Prepares devices, cut at each write, and starts from each of the results.
///
/// # Errors
/// A promise was broken; the message names the write.
pub fn run<M: Maker>(seed: Seed, devices: &[DeviceSpec], maker: &M) -> Result<Report, Failure> {
    let mut report = Report::default();
    let mut rng = Rng::for_part(seed.0, "creation");
    let world = SimWorld::new(seed, 1, devices);
    world.watch_cuts(1, usize::MAX);
    maker
        .format(&world)
        .map_err(|error| Failure::new(error).within("format"))?;
    report.writes = world.writes();
    let mut points = world.take_cuts();
    points.push(world.cut_point());
    let last = points.len() - 1;
    for (index, point) in points.iter().enumerate() {
        let random = (0..RANDOM_WAYS).map(|_| Cut::whole(Keep::Random(rng.draw())));
        for cut in point.singles(usize::MAX).chain(random.collect::<Vec<_>>()) {
            report.cuts += 1;
            let started = start(seed, &point.images(cut), maker).map_err(|failure| {
                failure.within(format!("cut at write {}, {cut:?}", point.writes))
            })?;
            if index == last && !started {
                return Err(Failure::new("what was prepared does not start"));
            }
        }
    }
    report.digest = world.digest();
    Ok(report)
}

/// True if it starts; then it must be empty, and work.
fn start<M: Maker>(seed: Seed, images: &Images, maker: &M) -> Result<bool, Failure> {
    let world = SimWorld::restart(images.clone(), seed, 1);
    let Ok(mut system) = maker.mount(&world) else {
        return Ok(false);
    };
    if !system.target(0).exports().is_empty() {
        return Err(Failure::new("a new aggregate has exports"));
    }
    let mut model = Model::default();
    model.set_writes(world.writes());
    let mut driver = Driver::new(&world, system, &mut model, Manners::STRICT, seed.0);
    let name = "v".to_owned();
    let mut actions = [
        Action::Admin(Admin::CreateVolume { name }),
        Action::Admin(Admin::ConsistencyPoint),
    ]
    .into_iter();
    driver.run(&mut |_| actions.next())?;
    drop(driver);
    let offline = SimWorld::restart(world.after_cut(Cut::whole(Keep::Nothing)), seed, 1);
    maker
        .check(&offline)
        .map_err(|error| Failure::new(error).within("check"))?;
    Ok(true)
}
