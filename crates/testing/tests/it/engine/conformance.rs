//! The engine passes the suite that every target must pass.

use everglade_engine::Core;
use everglade_target::conformance;
use everglade_testing::engine::EngineMaker;
use everglade_testing::world::{SimOutside, Turn};

use super::rig::{Rig, create_lun, create_volume};

#[test]
fn engine_does_what_every_target_must_do() {
    for (seed, memory_mib, cp_interval) in
        [(1, 2, 1_000_000), (2, 16, 50_000_000), (3, 4, 5_000_000)]
    {
        let maker = EngineMaker {
            memory_bytes: memory_mib << 20,
            cp_interval,
            ..EngineMaker::SMALL
        };
        let mut rig = Rig::new(maker, 64 << 20, 1);
        let system = rig.mount();
        let prepare = [create_volume("v"), create_lun("v/l", 20 << 20)];
        let (mut system, ()) = rig.run(system, prepare, |_| {});
        let world = rig.world.clone();
        let mut progress = |core: &mut Core<SimOutside>| {
            world.wake(0);
            world.run(1, &mut |_| {
                if core.turn() {
                    Turn::Busy
                } else {
                    let until = core.deadline();
                    Turn::Idle { until }
                }
            });
            // Everybody waits for a device: let it happen.
            world.step();
        };
        conformance::run(system.core(0), "v/l", &mut progress, seed);
        rig.restart();
    }
}
