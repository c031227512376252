//! Changed blocks since a snapshot: exactly the blocks written or discarded since, at any place.

use std::collections::BTreeMap;

use everglade_engine::admin::Change;
use everglade_env::BLOCK_SIZE;
use everglade_target::{Allocation, Op, Reply, Target, WriteSpan};
use everglade_testing::engine::{EngineMaker, EngineSystem};
use everglade_testing::system::{Maker, System};
use everglade_testing::world::Turn;
use everglade_testing::{Rng, Seed, SimWorld};

const TURNS_MAX: u64 = 1_000_000;
const BLOCK: u64 = BLOCK_SIZE as u64;

struct Rig {
    world: SimWorld,
    system: EngineSystem,
}

impl Rig {
    fn new(seed: u64) -> Rig {
        Rig::of(EngineMaker::SMALL, seed)
    }

    fn of(maker: EngineMaker, seed: u64) -> Rig {
        let world = SimWorld::new(Seed(seed), 1, &maker.devices(64 << 20));
        maker.format(&world).expect("fresh devices");
        let system = maker.mount(&world).expect("it was just made");
        Rig { world, system }
    }

    fn until<T>(&mut self, mut look: impl FnMut(&mut EngineSystem) -> Option<T>) -> T {
        self.world.wake(0);
        let (mut found, system) = (None, &mut self.system);
        self.world.run(TURNS_MAX, &mut |_| {
            let said = system.turn(0);
            found = found.take().or_else(|| look(system));
            if found.is_some() { Turn::Stop } else { said }
        });
        found.expect("it is answered")
    }

    fn change(&mut self, change: Option<Change>) {
        match change {
            Some(change) => self.system.core(0).change(0, change, 9),
            None => self.system.core(0).consistency_point(0, 9),
        }
        let mut done = Vec::new();
        let result = self.until(|system| {
            system.core(0).poll_admin(&mut done);
            done.pop()
        });
        result.result.expect("nothing is wrong with it");
    }

    fn ask(
        &mut self,
        lun: &str,
        since: Option<&str>,
        op: impl FnOnce(Option<everglade_target::LunHandle>) -> Op,
    ) -> Reply {
        let core = self.system.core(0);
        let (handle, _) = core.open(lun).expect("it is there");
        let since = since.map(|name| core.open(name).expect("it is there").0);
        core.submit(handle, op(since), 5);
        let mut done = Vec::new();
        let result = self.until(|system| {
            system.core(0).poll(&mut done);
            done.pop()
        });
        let core = self.system.core(0);
        core.close(handle);
        since.into_iter().for_each(|since| core.close(since));
        result.result.expect("nothing is wrong with it")
    }

    /// Returns for each block whether it is reported as changed.
    fn changes(&mut self, lun: &str, since: &str, blocks: u64) -> Vec<bool> {
        let mut all = Vec::new();
        while (all.len() as u64) < blocks {
            let offset = all.len() as u64 * BLOCK;
            let length = blocks * BLOCK - offset;
            let reply = self.ask(lun, Some(since), |since| Op::Changes {
                offset,
                length,
                count_max: 7,
                since: since.expect("opened"),
            });
            let Reply::Extents(extents) = reply else {
                panic!("{reply:?}");
            };
            assert!(!extents.is_empty());
            for extent in extents {
                let count = usize::try_from(extent.length / BLOCK).expect("small");
                all.extend(std::iter::repeat_n(
                    extent.allocation == Allocation::Data,
                    count,
                ));
            }
        }
        all
    }
}

#[test]
fn an_image_of_another_volume_is_nothing_to_compare_with() {
    let mut rig = Rig::new(1);
    for volume in ["v", "w"] {
        let (volume, name) = (volume.to_owned(), "l".to_owned());
        rig.change(Some(Change::CreateVolume {
            name: volume.clone(),
            sync: Default::default(),
        }));
        let size_bytes = 8 * BLOCK;
        rig.change(Some(Change::CreateLun {
            volume: volume.clone(),
            name: name.clone(),
            size_bytes,
        }));
        let name = "s".to_owned();
        rig.change(Some(Change::CreateSnapshot { volume, name }));
    }
    let labels = |rig: &mut Rig, lun: &str| {
        let images = rig.system.core(0).images(lun).into_iter();
        images.map(|image| image.export).collect::<Vec<_>>()
    };
    assert_eq!(labels(&mut rig, "v/l"), ["v/l@s"]);
    assert_eq!(labels(&mut rig, "v/l@s"), Vec::<String>::new());
    assert_eq!(labels(&mut rig, "v/m"), Vec::<String>::new());
    let core = rig.system.core(0);
    let (lun, since) = (core.open("v/l").expect("it is there").0, core.open("w/l@s"));
    let since = since.expect("it is there").0;
    let op = Op::Changes {
        offset: 0,
        length: BLOCK,
        count_max: 1,
        since,
    };
    core.submit(lun, op, 5);
    let mut done = Vec::new();
    let result = rig.until(|system| {
        system.core(0).poll(&mut done);
        done.pop()
    });
    let error = result.result.expect_err("its numbers mean other blocks");
    assert!(error.to_string().contains("same volume"), "{error}");
}

/// A snapshot of a LUN that was shrunk has blocks beyond its end until they are freed there. They
/// read as nothing, so a longer image that has them too differs from it, wherever the end is: in a
/// level-1 block, between two, in a stripe or between two of those.
#[test]
fn what_lies_beyond_the_end_of_an_earlier_image_is_zeroes() {
    const STRIPE: u64 = 8 * 255;
    let long = 10_000;
    let written = [0..50, 1_000..1_300, 4_000..4_200, 8_000..8_100, 9_990..long];
    for short in [
        20,
        100,
        1_100,
        STRIPE,
        STRIPE + 1,
        4_000,
        2 * STRIPE,
        2 * STRIPE + 1,
        8_050,
    ] {
        let mut rig = Rig::of(
            EngineMaker {
                reclaim_regions: 1,
                ..EngineMaker::SMALL
            },
            1,
        );
        let (volume, name) = ("v".to_owned(), "l".to_owned());
        let snapshot = |name: &str| Change::CreateSnapshot {
            volume: "v".to_owned(),
            name: name.to_owned(),
        };
        rig.change(Some(Change::CreateVolume {
            name: volume.clone(),
            sync: Default::default(),
        }));
        let size_bytes = long * BLOCK;
        rig.change(Some(Change::CreateLun {
            volume: volume.clone(),
            name: name.clone(),
            size_bytes,
        }));
        for blocks in written.clone() {
            for first in blocks.clone().step_by(200) {
                let end = blocks.end.min(first + 200);
                let bytes = vec![7; usize::try_from((end - first) * BLOCK).expect("small")];
                let data = WriteSpan::copy_of(first * BLOCK, &bytes);
                rig.ask("v/l", None, |_| Op::Write {
                    data,
                    durable: false,
                });
            }
        }
        rig.change(Some(snapshot("before")));
        let size_bytes = short * BLOCK;
        rig.change(Some(Change::ShrinkLun {
            volume: volume.clone(),
            name,
            size_bytes,
        }));
        rig.change(Some(snapshot("shrunk")));
        rig.change(Some(Change::RestoreVolume {
            volume,
            snapshot: "before".to_owned(),
            safety: "safety".to_owned(),
        }));
        for lun in ["v/l", "v/l@before"] {
            let said = rig.changes(lun, "v/l@shrunk", long);
            for (block, changed) in (0..).zip(said) {
                let is_written = written.iter().any(|blocks| blocks.contains(&block));
                let differs = block >= short && is_written;
                assert_eq!(changed, differs, "{lun}, block {block}, shrunk to {short}");
            }
        }
    }
}

/// Blocks of the LUN with the number of the write that made them.
type Versions = BTreeMap<u64, u64>;

#[test]
fn what_changed_since_a_snapshot_is_what_was_written_or_discarded_since() {
    for seed in 1..=6 {
        let mut rng = Rng::new(seed);
        let mut rig = Rig::new(seed);
        let (volume, name) = ("v".to_owned(), "l".to_owned());
        let mut blocks = 1 + rng.below(400);
        rig.change(Some(Change::CreateVolume {
            name: volume.clone(),
            sync: Default::default(),
        }));
        let size_bytes = blocks * BLOCK;
        rig.change(Some(Change::CreateLun {
            volume: volume.clone(),
            name: name.clone(),
            size_bytes,
        }));
        let mut now = Versions::new();
        let mut snapshots: BTreeMap<String, Versions> = BTreeMap::new();
        for step in 1..200u64 {
            match rng.below(12) {
                0..6 => {
                    let first = rng.below(blocks);
                    let count = (1 + rng.below(40)).min(blocks - first);
                    let bytes =
                        vec![step.to_le_bytes()[0]; usize::try_from(count * BLOCK).expect("small")];
                    let data = WriteSpan::copy_of(first * BLOCK, &bytes);
                    rig.ask("v/l", None, |_| Op::Write {
                        data,
                        durable: false,
                    });
                    now.extend((first..first + count).map(|block| (block, step)));
                }
                6 => {
                    let first = rng.below(blocks);
                    let count = (1 + rng.below(600)).min(blocks - first);
                    let (offset, length) = (first * BLOCK, count * BLOCK);
                    rig.ask("v/l", None, |_| Op::Discard {
                        offset,
                        length,
                        durable: false,
                    });
                    now.retain(|block, _| !(first..first + count).contains(block));
                }
                7 => rig.change(None),
                8 => {
                    // The tree may become taller than those of older snapshots.
                    blocks += rng.below(30_000);
                    let (volume, name) = (volume.clone(), name.clone());
                    rig.change(Some(Change::GrowLun {
                        volume,
                        name,
                        size_bytes: blocks * BLOCK,
                    }));
                }
                9 if snapshots.len() < 5 => {
                    let name = format!("s{step}");
                    rig.change(Some(Change::CreateSnapshot {
                        volume: volume.clone(),
                        name: name.clone(),
                    }));
                    snapshots.insert(name, now.clone());
                }
                _ if snapshots.is_empty() => {}
                _ => {
                    let names: Vec<&String> = snapshots.keys().collect();
                    let since = names[rng.index(names.len())].clone();
                    let other = names[rng.index(names.len())].clone();
                    let pairs = [
                        ("v/l".to_owned(), now.clone()),
                        (format!("v/l@{other}"), snapshots[&other].clone()),
                    ];
                    for (lun, versions) in pairs {
                        let exported = rig.system.core(0).open(&lun).expect("it is there");
                        rig.system.core(0).close(exported.0);
                        let end = 400.min(exported.1.size_bytes / BLOCK);
                        let said = rig.changes(&lun, &format!("v/l@{since}"), end);
                        for (block, changed) in (0..).zip(said) {
                            let differs = versions.get(&block) != snapshots[&since].get(&block);
                            assert_eq!(
                                changed, differs,
                                "seed {seed} step {step}: {lun} block {block} since {since}"
                            );
                        }
                    }
                }
            }
        }
    }
}
