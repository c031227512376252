//! Clones: writable volumes that begin as a snapshot of another, and what may and may not be
//! deleted then.

use everglade_check::Kind as Problem;
use everglade_engine::admin::{Change, Error};
use everglade_engine::{LunCloneInfo, SplitInfo, State};
use everglade_env::BLOCK_SIZE;
use everglade_format::Header;
use everglade_format::indirect::BlockKind;
use everglade_format::metafile::HIDDEN;
use everglade_target::{Op, Reply, WriteSpan};
use everglade_testing::engine::{EngineMaker, EngineSystem};
use everglade_testing::sim::Kind;
use everglade_testing::system::{Maker, System};
use everglade_testing::workload::contents;
use everglade_testing::world::{Cut, Images, Keep};
use everglade_testing::{Seed, SimWorld};

use super::rig::{ask, change_all, cut};

const TURNS_MAX: u64 = 1_000_000;
pub(super) const BLOCKS: u64 = 600;
pub(super) const BLOCK: u64 = BLOCK_SIZE as u64;

pub(super) struct Rig {
    maker: EngineMaker,
    pub(super) world: SimWorld,
    pub(super) system: EngineSystem,
    lives: u64,
}

pub(super) fn own(text: &str) -> String {
    text.to_owned()
}

impl Rig {
    pub(super) fn new() -> Rig {
        Rig::of(EngineMaker::SMALL_LOGGED)
    }

    /// Returns a rig whose consistency points do little background work.
    pub(super) fn slow() -> Rig {
        Rig::of(EngineMaker {
            reclaim_regions: 1,
            ..EngineMaker::SMALL_LOGGED
        })
    }

    pub(super) fn of(maker: EngineMaker) -> Rig {
        let world = SimWorld::new(Seed(1), 1, &maker.devices(64 << 20));
        maker.format(&world).expect("fresh devices");
        let system = maker.mount(&world).expect("it was just made");
        let mut rig = Rig {
            maker,
            world,
            system,
            lives: 1,
        };
        rig.change(Change::CreateVolume {
            name: own("v"),
            sync: Default::default(),
        })
        .expect("a new name");
        let (volume, name, size_bytes) = (own("v"), own("l"), BLOCKS * BLOCK);
        rig.change(Change::CreateLun {
            volume,
            name,
            size_bytes,
        })
        .expect("a new name");
        rig
    }

    /// Returns a rig on an existing system.
    pub(super) fn on(maker: EngineMaker, world: SimWorld, system: EngineSystem) -> Rig {
        Rig {
            maker,
            world,
            system,
            lives: 1,
        }
    }

    pub(super) fn change(&mut self, change: Change) -> Result<(), Error> {
        change_all(&self.world, &mut self.system, TURNS_MAX, [change])
            .pop()
            .expect("it is answered")
    }

    /// Asks for all at once, while nothing else runs: one freeze makes them, in this order.
    pub(super) fn change_at_once(
        &mut self,
        changes: impl IntoIterator<Item = Change>,
    ) -> Vec<Result<(), Error>> {
        change_all(&self.world, &mut self.system, TURNS_MAX, changes)
    }

    pub(super) fn snapshot(&mut self, volume: &str, name: &str) {
        let (volume, name) = (own(volume), own(name));
        self.change(Change::CreateSnapshot { volume, name })
            .expect("a new name");
    }

    pub(super) fn delete_snapshot(&mut self, volume: &str, name: &str) -> Result<(), Error> {
        self.change(Change::DeleteSnapshot {
            volume: own(volume),
            name: own(name),
        })
    }

    pub(super) fn clone_of(
        &mut self,
        name: &str,
        parent: &str,
        snapshot: &str,
    ) -> Result<(), Error> {
        let (name, parent, snapshot) = (own(name), own(parent), own(snapshot));
        self.change(Change::CloneVolume {
            name,
            parent,
            snapshot,
        })
    }

    pub(super) fn delete_volume(&mut self, name: &str) -> Result<(), Error> {
        self.change(Change::DeleteVolume { name: own(name) })
    }

    /// Writes blocks from `first` on, each with contents that follow from `fill` and its place.
    pub(super) fn write(&mut self, lun: &str, first: u64, count: u64, fill: u64) {
        let end = first + count;
        // Each write has at most 1 MiB.
        for from in (first..end).step_by(256) {
            let bytes: Vec<u8> = (from..end.min(from + 256))
                .flat_map(|block| contents(fill + block, BLOCK))
                .collect();
            let data = WriteSpan::copy_of(from * BLOCK, &bytes);
            let durable = true;
            let op = Op::Write { data, durable };
            let written = ask(&self.world, &mut self.system, lun, op);
            assert!(written.is_ok(), "{lun}: {written:?}");
        }
    }

    /// Blocks from `first` on are what [`Rig::write`] wrote with `fill`.
    pub(super) fn expect(&mut self, lun: &str, first: u64, count: u64, fill: u64) {
        for block in first..first + count {
            let op = Op::Read {
                offset: block * BLOCK,
                length: u32::try_from(BLOCK).expect("4,096"),
            };
            match ask(&self.world, &mut self.system, lun, op) {
                Ok(Reply::Data(span)) => {
                    assert!(
                        span.pages[0][..] == contents(fill + block, BLOCK)[..],
                        "{lun} block {block}"
                    );
                }
                other => panic!("{lun} block {block}: {other:?}"),
            }
        }
    }

    /// Blocks from `first` on are zeroes.
    pub(super) fn expect_zero(&mut self, lun: &str, first: u64, count: u64) {
        for block in first..first + count {
            let op = Op::Read {
                offset: block * BLOCK,
                length: u32::try_from(BLOCK).expect("4,096"),
            };
            match ask(&self.world, &mut self.system, lun, op) {
                Ok(Reply::Data(span)) => {
                    let is_zero = span.pages[0].iter().all(|byte| *byte == 0);
                    assert!(is_zero, "{lun} block {block}");
                }
                other => panic!("{lun} block {block}: {other:?}"),
            }
        }
    }

    /// Names and sizes of what clients can open for writing.
    pub(super) fn exports(&mut self) -> Vec<(String, u64)> {
        let exports = self.system.target(0).exports();
        let exports = exports.into_iter();
        exports.map(|it| (it.name, it.size_bytes)).collect()
    }

    pub(super) fn snapshot_names(&self, volume: &str) -> Vec<String> {
        let infos = self.system.snapshots(volume).into_iter();
        infos.map(|info| info.name).collect()
    }

    pub(super) fn split(&self, volume: &str) -> SplitInfo {
        self.system.split(volume)
    }

    /// Returns the blocks that deletions in a volume have yet to free.
    pub(super) fn pending(&self, volume: &str) -> u64 {
        self.system.pending_blocks(volume)
    }

    /// Blocks that were found elsewhere than a pointer says.
    pub(super) fn stale_reads(&self) -> u64 {
        self.system.stale_reads()
    }

    pub(super) fn total(&self) -> u64 {
        self.system.usage().total_blocks
    }

    /// Blocks that clients may take before they are refused, nearly.
    pub(super) fn room(&self) -> u64 {
        let usage = self.system.usage();
        usage.total_blocks - usage.reserve_blocks - usage.used_blocks - usage.total_blocks / 64
    }

    /// A consistency point, then a power cut.
    pub(super) fn restart(mut self) -> Rig {
        self.lives += 1;
        let (world, system) = cut(&self.maker, &self.world, self.system, self.lives);
        Rig {
            world,
            system,
            ..self
        }
    }

    /// Returns the media after a power cut.
    pub(super) fn images(&self) -> Images {
        self.world.after_cut(Cut::whole(Keep::Nothing))
    }

    /// Another world with such media; none if nothing can be mounted there.
    pub(super) fn fork(&self, images: Images) -> Option<Rig> {
        let (maker, lives) = (self.maker, self.lives + 1);
        let world = SimWorld::restart(images, Seed(lives), 1);
        let system = maker.mount(&world).ok()?;
        Some(Rig {
            maker,
            world,
            system,
            lives,
        })
    }

    /// A snapshot with a LUN, m, that is being deleted: its name is only read if the snapshot is
    /// restored.
    pub(super) fn snapshot_of_a_deletion(&mut self, name: &str) {
        let create = Change::CreateLun {
            volume: own("v"),
            name: own("m"),
            size_bytes: 3_000 * BLOCK,
        };
        self.change(create).expect("a new name");
        self.write("v/m", 0, 1_500, 5_000);
        let delete = Change::DeleteLun {
            volume: own("v"),
            name: own("m"),
        };
        let (volume, name) = (own("v"), own(name));
        let answers = self.change_at_once([delete, Change::CreateSnapshot { volume, name }]);
        assert_eq!(answers, [Ok(()), Ok(())]);
    }

    /// Worlds in each of which a block with names of LUNs that are being deleted is damaged, after
    /// a restart.
    pub(super) fn with_damaged_hidden_names(mut self) -> Vec<Rig> {
        for _ in 0..5 {
            self.rest();
        }
        let rig = self.restart();
        let images = rig.images();
        let names = images.image(0).blocks().filter(|(_, page)| {
            let header = Header::decode(page);
            header.is_ok_and(|header| header.kind == BlockKind::Directory && header.file == HIDDEN)
        });
        let damaged = names.filter_map(|(block, _)| {
            let mut bad = images.clone();
            bad.flip_bit(0, block, 32_700);
            rig.fork(bad)
        });
        // Names of the active image make the aggregate read-only; those of the snapshot are left to
        // the restore.
        damaged.filter(Rig::is_online).collect()
    }

    pub(super) fn lun_clone(&self, volume: &str) -> Option<LunCloneInfo> {
        self.system.lun_clone(volume)
    }

    /// Returns the verifier's problems after a power cut now, except lost or damaged blocks.
    pub(super) fn problems(&self) -> Vec<String> {
        let world = SimWorld::restart(self.images(), Seed(self.lives), 1);
        let report = everglade_check::check(&*world.storage(), &world.devices(), &mut |_| {});
        let problems = report.expect("labels are readable").problems.into_iter();
        let problems = problems.filter(|problem| problem.kind != Problem::TagMismatch);
        problems.map(|problem| problem.to_string()).collect()
    }

    /// Reads a block; the error if it is one.
    pub(super) fn read(&mut self, lun: &str, block: u64) -> Result<(), everglade_target::Error> {
        let op = Op::Read {
            offset: block * BLOCK,
            length: u32::try_from(BLOCK).expect("4,096"),
        };
        ask(&self.world, &mut self.system, lun, op).map(drop)
    }

    pub(super) fn is_online(&self) -> bool {
        self.system.state() == State::Online
    }

    /// Lets scans and deletions make progress.
    pub(super) fn rest(&mut self) {
        let until = self.world.now() + 3_000_000_000;
        while self.world.now() < until {
            let before = self.world.now();
            let system = &mut self.system;
            self.world.run(256, &mut |_| {
                everglade_testing::system::System::turn(system, 0)
            });
            if self.world.now() == before {
                self.world.pass(until - before);
            }
        }
    }

    pub(super) fn notes(&self) -> Vec<u8> {
        self.system.notes()
    }

    pub(super) fn used(&self) -> u64 {
        self.system.usage().used_blocks
    }
}

#[test]
fn a_clone_begins_as_its_base_and_goes_its_own_way() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 200, 1_000);
    rig.snapshot("v", "s");
    rig.write("v/l", 0, 50, 2_000);
    rig.snapshot("v", "later");
    let before = rig.used();
    rig.clone_of("c", "v", "s").expect("a new name");
    assert!(
        rig.used() < before + 64,
        "a clone costs metadata only: {before} → {}",
        rig.used()
    );
    rig.expect("c/l", 0, 200, 1_000);
    rig.write("c/l", 100, 50, 3_000);
    let mut rig = rig.restart();
    rig.expect("v/l", 0, 50, 2_000);
    rig.expect("v/l", 50, 150, 1_000);
    rig.expect("v/l@s", 0, 200, 1_000);
    rig.expect("c/l@s", 0, 200, 1_000);
    rig.expect("c/l", 0, 100, 1_000);
    rig.expect("c/l", 100, 50, 3_000);
    rig.expect("c/l", 150, 50, 1_000);
    // The clone has snapshots and clones of its own.
    rig.snapshot("c", "t");
    rig.write("c/l", 0, 200, 4_000);
    rig.clone_of("d", "c", "t").expect("a new name");
    rig.write("d/l", 190, 20, 5_000);
    let mut rig = rig.restart();
    rig.expect("d/l", 0, 100, 1_000);
    rig.expect("d/l", 100, 50, 3_000);
    rig.expect("d/l", 190, 20, 5_000);
    rig.expect("c/l", 0, 200, 4_000);
    // A clone can be restored to its base.
    let (volume, snapshot, safety) = (own("c"), own("s"), own("before"));
    rig.change(Change::RestoreVolume {
        volume,
        snapshot,
        safety,
    })
    .expect("it is there");
    rig.expect("c/l", 0, 200, 1_000);
    rig.expect("c/l@before", 0, 200, 4_000);
    rig.rest();
    let mut rig = rig.restart();
    rig.expect("c/l", 0, 200, 1_000);
    rig.expect("d/l", 0, 100, 1_000);
    rig.expect("v/l@s", 0, 200, 1_000);
}

#[test]
fn what_a_clone_needs_stays_and_everything_else_can_go_in_any_order() {
    let mut rig = Rig::new();
    let empty = rig.used();
    rig.write("v/l", 0, 250, 1_000);
    rig.snapshot("v", "s");
    rig.snapshot("v", "unneeded");
    rig.clone_of("c", "v", "s").expect("a new name");
    rig.write("c/l", 0, 100, 2_000);
    rig.snapshot("c", "t");
    let busy = |result: Result<(), Error>, words: &str| match result {
        Err(Error::Busy(text)) => assert!(text.contains(words), "{text}"),
        other => panic!("{other:?}"),
    };
    busy(rig.delete_snapshot("v", "s"), "base of c");
    busy(rig.delete_volume("v"), "c is cloned");
    busy(rig.delete_snapshot("c", "s"), "based on");
    rig.delete_snapshot("v", "unneeded")
        .expect("nobody needs it");
    rig.delete_snapshot("c", "t").expect("nobody needs it");
    // The parent frees what the clone has; the clone keeps it.
    rig.write("v/l", 0, 250, 7_000);
    rig.rest();
    let mut rig = rig.restart();
    rig.expect("c/l", 0, 100, 2_000);
    rig.expect("c/l", 100, 150, 1_000);
    rig.delete_volume("c").expect("nobody needs it");
    rig.expect("v/l@s", 0, 250, 1_000);
    rig.delete_snapshot("v", "s")
        .expect("nobody needs it any more");
    rig.delete_volume("v").expect("nobody needs it any more");
    rig.rest();
    let mut rig = rig.restart();
    rig.rest();
    assert!(
        rig.used() <= empty,
        "all space came back: {} of {empty} at first",
        rig.used()
    );
}

#[test]
fn refusals_say_what_is_wrong_and_change_nothing() {
    let mut rig = Rig::new();
    rig.snapshot("v", "s");
    assert!(matches!(rig.clone_of("v", "v", "s"), Err(Error::Exists(_))));
    assert!(matches!(
        rig.clone_of("c", "v", "nothing"),
        Err(Error::NotFound(_))
    ));
    assert!(matches!(
        rig.clone_of("c", "w", "s"),
        Err(Error::NotFound(_))
    ));
    assert!(matches!(
        rig.clone_of("c@x", "v", "s"),
        Err(Error::Invalid { .. })
    ));
    rig.clone_of("c1", "v", "s").expect("a new name");
    for depth in 1..16 {
        let (parent, name) = (format!("c{depth}"), format!("c{}", depth + 1));
        rig.clone_of(&name, &parent, "s").expect("not too deep");
    }
    let deeper = rig.clone_of("c17", "c16", "s");
    assert!(matches!(&deeper, Err(Error::Limit(_))), "{deeper:?}");
    let rig = rig.restart();
    drop(rig);
}

/// A clone begins with the overflow file of its base. Giving it an old place had to load a block of
/// it, and when that had to wait the place was forgotten: a block that nothing refers to stayed in
/// use.
#[test]
fn an_overflow_file_that_is_not_empty_loses_nothing() {
    let verdict = Kind::Moments.run(Seed(0x6a44_cbb2_072b_a765), 0);
    verdict.unwrap_or_else(|failure| panic!("{failure}"));
}
