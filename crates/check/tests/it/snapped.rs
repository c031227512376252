//! Images with snapshots as the engine leaves them: a seed becomes a volume whose snapshots came,
//! went and were restored, for some lives, each ended by a power cut at any write. Many of them are
//! cut in the middle of scans.

use everglade_engine::admin::Change;
use everglade_target::{Op, WriteSpan};
use everglade_testing::engine::{EngineMaker, EngineSystem};
use everglade_testing::system::{Maker, System};
use everglade_testing::world::{Cut, CutPoint, Keep, Turn};
use everglade_testing::{Rng, Seed, SimWorld};

use crate::lived::{Lived, report};

const TURNS_MAX: u64 = 1_000_000;
const VOLUME: &str = "v";
const BLOCK: u64 = 4096;
/// Volumes at which no more clones are made.
const CLONES_MAX: usize = 4;
/// Blocks of the LUN.
const LUN_BLOCKS: u64 = 2_000;

struct Life<'l> {
    world: &'l SimWorld,
    system: EngineSystem,
    rng: &'l mut Rng,
    /// LUNs are cloned too.
    has_lun_clones: bool,
    has_clones: bool,
    /// Clones are split.
    has_splits: bool,
}

/// Work besides snapshots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Besides {
    Nothing,
    LunClones,
    Clones,
    Splits,
}

/// The image of a seed.
pub(crate) fn image(seed: u64) -> Lived {
    make(seed, Besides::Nothing)
}

/// Returns an image with LUNs that share blocks.
pub(crate) fn image_with_clones(seed: u64) -> Lived {
    make(seed, Besides::LunClones)
}

/// Returns an image with clones of volumes, some of which are cloned.
pub(crate) fn cloned(seed: u64) -> Lived {
    make(seed, Besides::Clones)
}

/// Returns an image with present or former splits.
pub(crate) fn split(seed: u64) -> Lived {
    make(seed, Besides::Splits)
}

/// Returns the possible media at each write of a life.
pub(crate) fn watched(seed: u64) -> Vec<CutPoint> {
    let mut rng = Rng::for_part(seed, "watched");
    let maker = EngineMaker {
        reclaim_regions: 2,
        ..EngineMaker::SMALL_LOGGED
    };
    let world = SimWorld::new(Seed(seed), 1, &maker.devices(16 << 20));
    maker.format(&world).expect("devices are large enough");
    let system = maker.mount(&world).expect("it mounts");
    world.watch_cuts(1, 2_000);
    let mut running = Life {
        world: &world,
        system,
        rng: &mut rng,
        has_lun_clones: seed.is_multiple_of(2),
        has_clones: false,
        has_splits: false,
    };
    running.live(0);
    drop(running);
    world.take_cuts()
}

fn make(seed: u64, besides: Besides) -> Lived {
    let mut rng = Rng::for_part(seed, "snapped");
    let regions = [1, 2, 5][rng.index(3)];
    let maker = EngineMaker {
        journal_half_blocks: 64,
        memory_bytes: 4 << 20,
        reclaim_regions: regions,
        ..EngineMaker::of_seed(Seed(seed))
    };
    let mut world = SimWorld::new(Seed(seed), 1, &maker.devices(40 << 20));
    maker.format(&world).expect("devices are large enough");
    for life in 0..rng.between(1, 3) {
        let system = maker.mount(&world).expect("it mounts");
        let mut running = Life {
            world: &world,
            system,
            rng: &mut rng,
            has_lun_clones: besides == Besides::LunClones,
            has_clones: matches!(besides, Besides::Clones | Besides::Splits),
            has_splits: besides == Besides::Splits,
        };
        running.live(life);
        let keep = [Keep::Nothing, Keep::Everything][rng.index(2)];
        let images = world.after_cut(Cut::whole(keep));
        world = SimWorld::restart(images, Seed(rng.draw()), 1);
    }
    Lived {
        images: world.after_cut(Cut::whole(Keep::Everything)),
        seed,
        maker,
    }
}

impl Life<'_> {
    fn live(&mut self, number: u64) {
        let (volume, name) = (VOLUME.to_owned(), "l".to_owned());
        if number == 0 {
            let (sync, made) = (Default::default(), volume.clone());
            self.change(Change::CreateVolume { name: made, sync });
        }
        if self.has_clones {
            // The text fills two blocks.
            let text = vec![b'n'; 6_000];
            self.change(Change::SetNotes { text });
        }
        let size_bytes = LUN_BLOCKS * BLOCK;
        // The LUN exists already, except in the first life or after an interrupted one.
        self.change(Change::CreateLun {
            volume,
            name,
            size_bytes,
        });
        if self.rng.one_in(2) {
            let magnitude = self.rng.between(5, 11);
            let write = self.world.writes() + self.rng.between(1, 1 << magnitude);
            self.world.cut_at_write(write);
        }
        for step in 0..self.rng.between(5, 60) {
            if self.world.is_cut() {
                return;
            }
            self.step(number * 1000 + step);
        }
        self.world.cut_now();
    }

    /// The volume that the next thing happens to.
    fn volume(&mut self) -> String {
        if !self.has_clones {
            return VOLUME.to_owned();
        }
        let all = self.system.volumes().unwrap_or_default();
        let index = self.rng.index(all.len().max(1));
        all.get(index).map_or(VOLUME, String::as_str).to_owned()
    }

    fn step(&mut self, number: u64) {
        if self.has_lun_clones && self.rng.one_in(4) {
            return self.clone_or_delete(number);
        }
        let volume = self.volume();
        if self.has_splits && self.rng.one_in(4) {
            let change = match self.rng.one_in(4) {
                true => Change::StopSplit { volume },
                false => Change::StartSplit { volume },
            };
            return self.change(change);
        }
        let known = self.system.snapshots(&volume);
        let count = self.system.volumes().unwrap_or_default().len();
        if self.has_clones && !known.is_empty() && count < CLONES_MAX && self.rng.one_in(6) {
            let snapshot = known[self.rng.index(known.len())].name.clone();
            return self.change(Change::CloneVolume {
                name: format!("c{number}"),
                parent: volume,
                snapshot,
            });
        }
        let mut any = || {
            let index = self.rng.index(known.len().max(1));
            known.get(index).map(|info| info.name.clone())
        };
        let (one, other) = (any(), any());
        let change = match (self.rng.below(22), one) {
            (0..9, _) => return self.write(&volume, number),
            (9..14, _) => Change::CreateSnapshot {
                volume,
                name: format!("s{number}"),
            },
            (14..17, Some(name)) => {
                if let Some(other) = other {
                    let (volume, name) = (volume.clone(), other);
                    self.submit(Change::DeleteSnapshot { volume, name }, 1);
                }
                Change::DeleteSnapshot { volume, name }
            }
            (17..19, Some(snapshot)) if number.is_multiple_of(3) => Change::RestoreLun {
                volume,
                snapshot,
                lun: "l".to_owned(),
                safety: format!("r{number}"),
            },
            (17..20, Some(snapshot)) => Change::RestoreVolume {
                volume,
                snapshot,
                safety: format!("r{number}"),
            },
            (20, Some(name)) => Change::HoldSnapshot {
                volume,
                name,
                tag: format!("h{number}"),
            },
            _ => return self.rest(),
        };
        self.change(change);
    }

    /// Clones the LUN, as it is or was; or deletes a clone.
    fn clone_or_delete(&mut self, number: u64) {
        let volume = VOLUME.to_owned();
        let exports = self.system.target(0).exports();
        let clones: Vec<String> = exports
            .into_iter()
            .filter_map(|export| {
                export
                    .name
                    .strip_prefix("v/c")
                    .map(|name| format!("c{name}"))
            })
            .collect();
        let known = self.system.snapshots(VOLUME);
        let change = match self.rng.below(4) {
            0 if !clones.is_empty() => Change::DeleteLun {
                volume,
                name: clones[self.rng.index(clones.len())].clone(),
            },
            way => Change::CloneLun {
                volume,
                lun: "l".to_owned(),
                name: format!("c{number}"),
                from: known
                    .last()
                    .filter(|_| way == 1)
                    .map(|info| info.name.clone()),
            },
        };
        self.change(change);
        if self.rng.one_in(2) {
            self.rest();
        }
    }

    fn write(&mut self, volume: &str, number: u64) {
        let name = format!("{volume}/l");
        let Ok((handle, _)) = self.system.target(0).open(&name) else {
            return;
        };
        let count = [1, 16, 200, 1_500][self.rng.index(4)];
        let first = self.rng.below(LUN_BLOCKS - count);
        let bytes: Vec<u8> = (first..first + count)
            .flat_map(|block| {
                [(number * 7 + block).to_le_bytes()[0] | 1; everglade_format::BLOCK_SIZE]
            })
            .collect();
        let data = WriteSpan::copy_of(first * BLOCK, &bytes);
        let durable = self.rng.one_in(4);
        let op = Op::Write { data, durable };
        self.system.target(0).submit(handle, op, 1);
        let mut done = Vec::new();
        self.run(&mut |system| {
            system.target(0).poll(&mut done);
            !done.is_empty()
        });
        self.system.target(0).close(handle);
    }

    fn submit(&mut self, change: Change, token: u64) {
        self.system.core(0).change(0, change, token);
    }

    fn change(&mut self, change: Change) {
        self.submit(change, 2);
        let mut done = Vec::new();
        self.run(&mut |system| {
            system.core(0).poll_admin(&mut done);
            done.iter().any(|done| done.token == 2)
        });
    }

    /// Lets the engine do its background work for a while.
    fn rest(&mut self) {
        let until = self.world.now() + self.rng.between(1, 100_000_000);
        while self.world.now() < until && !self.world.is_cut() {
            let before = self.world.now();
            let system = &mut self.system;
            self.world.run(64, &mut |reactor| system.turn(reactor));
            if self.world.now() == before {
                self.world.pass(until - before);
            }
        }
    }

    fn run(&mut self, is_done: &mut dyn FnMut(&mut EngineSystem) -> bool) {
        self.world.wake(0);
        let (system, mut done) = (&mut self.system, false);
        self.world.run(TURNS_MAX, &mut |reactor| {
            let said = system.turn(reactor);
            done |= is_done(system);
            if done { Turn::Stop } else { said }
        });
    }
}

#[test]
fn images_with_snapshots_are_acquitted_in_the_middle_of_scans_too() {
    let (mut snapshots, mut deleting, mut scans) = (0, 0, 0);
    for seed in 0..40 {
        let report = report(&image(seed).world());
        assert!(report.is_clean(), "image {seed}: {report}");
        snapshots += report.counts.snapshots;
        deleting += report.counts.snapshots_deleting;
        scans += report.counts.scans;
    }
    println!("{snapshots} snapshots, {deleting} of them being deleted; {scans} scans under way");
    assert!(
        snapshots > 40 && deleting > 5 && scans > 5,
        "{snapshots} {deleting} {scans}"
    );
}
