//! Snapshots go: a thousand at once, and whatever goes from a pool that is full.

use everglade_engine::admin::{Change, Error as Refusal};
use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_target::{Error, Op, Reply, WriteSpan};
use everglade_testing::engine::{EngineMaker, EngineSystem};
use everglade_testing::system::{Maker, System};
use everglade_testing::workload::contents;
use everglade_testing::world::Faults;
use everglade_testing::{Seed, SimWorld};

use super::rig::{ask, change_all, cut};

const TURNS_MAX: u64 = 20_000_000;
const BLOCK: u64 = BLOCK_SIZE as u64;
/// Most snapshots of a volume.
const MOST: u64 = 1_023;

/// A rig with one volume, `v`, with one LUN, `l`.
pub(super) struct Rig {
    pub(super) maker: EngineMaker,
    pub(super) world: SimWorld,
    pub(super) system: EngineSystem,
    lives: u64,
}

fn own(text: &str) -> String {
    text.to_owned()
}

impl Rig {
    pub(super) fn new(maker: EngineMaker, bytes: u64, lun_bytes: u64) -> Rig {
        let world = SimWorld::new(Seed(1), 1, &maker.devices(bytes));
        maker.format(&world).expect("fresh devices");
        let system = maker.mount(&world).expect("it was just made");
        let mut rig = Rig {
            maker,
            world,
            system,
            lives: 1,
        };
        rig.build(lun_bytes);
        rig
    }

    /// Returns a rig on an existing system.
    pub(super) fn of(maker: EngineMaker, world: SimWorld, system: EngineSystem) -> Rig {
        Rig {
            maker,
            world,
            system,
            lives: 1,
        }
    }

    fn build(&mut self, size_bytes: u64) {
        let (name, sync) = (own("v"), Default::default());
        self.change(Change::CreateVolume { name, sync })
            .expect("a new name");
        let (volume, name) = (own("v"), own("l"));
        let create = Change::CreateLun {
            volume,
            name,
            size_bytes,
        };
        self.change(create).expect("a new name");
    }

    pub(super) fn change(&mut self, change: Change) -> Result<(), Refusal> {
        self.change_all([change]).pop().expect("one answer")
    }

    /// Requests all changes at once, so that they share a consistency point.
    fn change_all(
        &mut self,
        changes: impl IntoIterator<Item = Change>,
    ) -> Vec<Result<(), Refusal>> {
        change_all(&self.world, &mut self.system, TURNS_MAX, changes)
    }

    pub(super) fn snapshot(&mut self, name: &str) -> Result<(), Refusal> {
        let (volume, name) = (own("v"), own(name));
        self.change(Change::CreateSnapshot { volume, name })
    }

    pub(super) fn write(&mut self, first: u64, count: u64, fill: u64) -> Result<(), Error> {
        let bytes: Vec<u8> = (first..first + count)
            .flat_map(|block| contents(fill + block, BLOCK))
            .collect();
        let data = WriteSpan::copy_of(first * BLOCK, &bytes);
        let durable = false;
        ask(
            &self.world,
            &mut self.system,
            "v/l",
            Op::Write { data, durable },
        )
        .map(drop)
    }

    #[track_caller]
    pub(super) fn expect(&mut self, lun: &str, block: u64, fill: u64) {
        let op = Op::Read {
            offset: block * BLOCK,
            length: u32::try_from(BLOCK).expect("4,096"),
        };
        match ask(&self.world, &mut self.system, lun, op) {
            Ok(Reply::Data(span)) => {
                let same = span.pages[0][..] == contents(fill + block, BLOCK)[..];
                assert!(same, "{lun} block {block} is not of {fill}");
            }
            other => panic!("{lun} block {block}: {other:?}"),
        }
    }

    /// Lets scans and deletions run until they are done.
    pub(super) fn rest(&mut self) {
        for _ in 0..200 {
            let until = self.world.now() + 1_000_000_000;
            while self.world.now() < until {
                self.step(256, until);
            }
            if self.system.usage().pending_blocks == 0 && self.system.scan("v").kind == "none" {
                return;
            }
        }
        panic!(
            "never done: {:?}, {:?}",
            self.system.usage(),
            self.system.scan("v")
        );
    }

    /// Runs `turns` turns; if no event happens in them, lets time pass, at most until `until`.
    fn step(&mut self, turns: u64, until: u64) {
        let before = self.world.now();
        let system = &mut self.system;
        self.world.run(turns, &mut |_| system.turn(0));
        if self.world.now() == before {
            self.world.pass(until - before);
        }
    }

    /// Waits for a pass, ten seconds at most, and says for how many victims it is.
    fn victims_of_pass(&mut self) -> u64 {
        for _ in 0..1_000 {
            let victims = self.system.scan("v").victims;
            if victims > 0 {
                return victims;
            }
            self.step(16, self.world.now() + 10_000_000);
        }
        0
    }

    /// Lets `seconds` seconds pass.
    fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.world.pass(1_000_000_000);
            let system = &mut self.system;
            self.world.run(4096, &mut |_| system.turn(0));
        }
    }

    /// A power cut; the media must be clean.
    pub(super) fn restart(mut self) -> Rig {
        self.lives += 1;
        let (world, system) = cut(&self.maker, &self.world, self.system, self.lives);
        Rig {
            world,
            system,
            ..self
        }
    }
}

fn deletion(number: u64) -> Change {
    let (volume, name) = (own("v"), format!("s{number}"));
    Change::DeleteSnapshot { volume, name }
}

#[test]
fn what_deleted_luns_have_not_given_back_shows_in_snapshots_that_captured_it() {
    let maker = EngineMaker {
        reclaim_regions: 1,
        ..EngineMaker::SMALL
    };
    let mut rig = Rig::new(maker, 64 << 20, 2_000 * BLOCK);
    for first in (0..1_800).step_by(200) {
        rig.write(first, 200, 1).expect("there is space");
    }
    rig.snapshot("whole").expect("there is room");
    let (volume, name) = (own("v"), own("l"));
    rig.change(Change::DeleteLun { volume, name })
        .expect("it is there");
    rig.snapshot("captured").expect("there is room");
    rig.rest();
    rig.snapshot("later").expect("there is room");
    let mut rig = rig.restart();
    let pending = |rig: &mut Rig, name: &str| {
        let shown = rig.system.snapshots("v");
        let found = shown.iter().find(|snapshot| snapshot.name == name);
        found.expect("it is there").pending_delete_bytes
    };
    // A little of it may have gone with the deletion's own consistency point.
    let captured = pending(&mut rig, "captured");
    let expected = 1_000 * BLOCK..=2_100 * BLOCK;
    assert!(expected.contains(&captured), "{captured}");
    assert_eq!(pending(&mut rig, "whole"), 0, "nothing was deleted yet");
    assert_eq!(pending(&mut rig, "later"), 0, "all was given back");
}

#[test]
fn deletions_wait_for_their_like_while_clients_write_and_only_then() {
    const MILLISECOND: u64 = 1_000_000;
    let maker = EngineMaker {
        cp_interval: 10_000 * MILLISECOND,
        ..EngineMaker::SMALL
    };
    let mut rig = Rig::new(maker, 64 << 20, 8 << 20);
    for number in 0..4 {
        rig.snapshot(&format!("s{number}")).expect("there is room");
    }
    let timed = |rig: &mut Rig, changes: Vec<Change>| {
        let (begun, cp) = (rig.world.now(), rig.system.committed_cp());
        for answer in rig.change_all(changes) {
            answer.expect("nothing is wrong with it");
        }
        let took = rig.world.now() - begun;
        (took / MILLISECOND, rig.system.committed_cp() - cp)
    };
    let (took, _) = timed(&mut rig, vec![deletion(0)]);
    assert!(took < 50, "{took} ms where nobody writes");

    rig.rest();
    rig.snapshot("new").expect("there is room");
    rig.write(0, 8, 1).expect("there is room");
    let (took, cps) = timed(&mut rig, vec![deletion(1), deletion(2)]);
    assert!((100..400).contains(&took), "{took} ms beside a writer");
    assert_eq!(cps, 1, "they come together");

    rig.rest();
    rig.snapshot("newer").expect("there is room");
    rig.write(0, 8, 2).expect("there is room");
    let (volume, name) = (own("v"), own("newest"));
    let create = Change::CreateSnapshot { volume, name };
    let (took, _) = timed(&mut rig, vec![deletion(3), create]);
    assert!(took < 50, "{took} ms, though a snapshot does not wait");
}

#[test]
fn beside_writers_not_each_consistency_point_scans() {
    let maker = EngineMaker {
        cp_interval: 10_000_000_000,
        ..EngineMaker::SMALL
    };
    let mut rig = Rig::new(maker, 64 << 20, 8 << 20);
    for number in 0..3 {
        rig.write(0, 8, number).expect("there is room");
        rig.snapshot(&format!("s{number}")).expect("there is room");
    }
    rig.rest();
    let mut left = Vec::new();
    for number in 0..3 {
        rig.write(8, 8, 10 + number).expect("there is room");
        let (volume, name) = (own("v"), format!("at-once-{number}"));
        // A snapshot waits for nothing, and its consistency point has the deletion, too.
        let create = Change::CreateSnapshot { volume, name };
        for answer in rig.change_all(vec![deletion(number), create]) {
            answer.expect("nothing is wrong with it");
        }
        let scan = rig.system.scan("v");
        left.push(scan.victims + scan.waiting);
    }
    assert_eq!(
        left,
        [0, 1, 2],
        "the first one scanned; the others came too soon after it"
    );
    rig.rest();
    let scan = rig.system.scan("v");
    assert_eq!(
        scan.victims + scan.waiting,
        0,
        "nobody is forgotten: {scan:?}"
    );
}

#[test]
fn a_deletion_that_waits_is_refused_when_the_aggregate_fails() {
    let maker = EngineMaker {
        cp_interval: 10_000_000_000,
        ..EngineMaker::SMALL
    };
    let mut rig = Rig::new(maker, 64 << 20, 8 << 20);
    rig.snapshot("s0").expect("there is room");
    rig.write(0, 8, 1).expect("there is room");
    rig.system.core(0).change(0, deletion(0), 7);
    let faults = Faults {
        write_error: 1,
        ..Faults::default()
    };
    rig.world.set_faults(DeviceId(0), faults);
    let data = WriteSpan::copy_of(0, &contents(2, BLOCK));
    let durable = true;
    let op = Op::Write { data, durable };
    let answer = ask(&rig.world, &mut rig.system, "v/l", op);
    assert!(matches!(answer, Err(Error::Io(_))), "{answer:?}");
    let (mut done, system) = (Vec::new(), &mut rig.system);
    rig.world.wake(0);
    rig.world.run(4096, &mut |_| {
        let said = system.turn(0);
        system.core(0).poll_admin(&mut done);
        said
    });
    let answer = done.pop().expect("nobody waits for ever").result;
    assert!(matches!(answer, Err(Refusal::ReadOnly(_))), "{answer:?}");
}

#[test]
fn a_thousand_snapshots_go_in_one_pass_and_those_that_stay_read_as_before() {
    let maker = EngineMaker {
        reclaim_regions: 3,
        ..EngineMaker::SMALL_LOGGED
    };
    let mut rig = Rig::new(maker, 160 << 20, 2_000 * BLOCK);
    for number in 1..=MOST {
        rig.write(number % 1_999, 2, number * 10_000)
            .expect("there is space");
        rig.snapshot(&format!("s{number}")).expect("not too many");
    }
    let refusal = rig.snapshot("one-more").expect_err("too many");
    let text = refusal.to_string();
    assert!(matches!(refusal, Refusal::Limit(_)), "{text}");
    assert!(
        text.contains("volume v has 1023 snapshots") && text.contains("delete one"),
        "{text}"
    );
    let mut rig = rig.restart();
    let before = rig.system.usage().used_blocks;
    // All but the last 23, and one in the middle.
    let gone = |number: &u64| *number <= 1_000 && *number != 500;
    let deleted = rig.change_all((1..=MOST).filter(gone).map(deletion));
    assert!(deleted.iter().all(Result::is_ok));
    let scan = rig.system.scan("v");
    assert_eq!(scan.victims + scan.waiting, 999, "{scan:?}");
    let victims = rig.victims_of_pass();
    assert!(
        victims > 900,
        "one pass is for nearly all of them, not {victims}"
    );
    // The power fails in the middle, and the scan continues.
    let mut rig = rig.restart();
    let refusal = rig
        .snapshot("too-early")
        .expect_err("those that are being deleted count");
    assert!(
        refusal.to_string().contains("those being deleted and"),
        "{refusal}"
    );
    rig.rest();
    rig.snapshot("later").expect("there is room again");
    let scan = rig.system.scan("v");
    assert_eq!((scan.victims, scan.waiting), (0, 0), "{scan:?}");
    assert!(
        scan.counts.added > 0,
        "few stay, so these are added up: {scan:?}"
    );
    let mut rig = rig.restart();
    for number in [500, 1_001, 1_010, MOST] {
        rig.expect(&format!("v/l@s{number}"), number % 1_999, number * 10_000);
        rig.expect(
            &format!("v/l@s{number}"),
            number % 1_999 + 1,
            number * 10_000,
        );
        // Only the first block of the snapshot before is left.
        let older = number - 1;
        rig.expect(&format!("v/l@s{number}"), older % 1_999, older * 10_000);
    }
    let after = rig.system.usage().used_blocks;
    assert!(after + 2_000 < before, "{before} → {after}");
    let names = rig.system.snapshots("v").len();
    assert_eq!(names, 25);
    // A single victim is released by subtraction.
    rig.change(deletion(500)).expect("it is there");
    rig.rest();
    let scan = rig.system.scan("v");
    assert!(
        scan.counts.subtracted > 0 && scan.counts.added == 0,
        "{scan:?}"
    );
    drop(rig.restart());
}

/// A delete pass skips map blocks that are the same for a victim and its neighbours: where nothing
/// was written between two snapshots, it reads only the block with the bits of the victim's map
/// itself.
#[test]
fn a_delete_pass_skips_what_is_the_same_for_everybody() {
    // More vvbns than a map block is for.
    let blocks = 40_000;
    let mut rig = Rig::new(EngineMaker::SMALL_LOGGED, 400 << 20, blocks * BLOCK);
    for first in (0..blocks).step_by(250) {
        rig.write(first, 250, 7).expect("there is space");
    }
    rig.rest();
    for twin in [1, 2, 3] {
        rig.snapshot(&format!("s{twin}")).expect("a new name");
    }
    rig.change(deletion(2)).expect("it is there");
    rig.rest();
    let counts = rig.system.scan("v").counts;
    assert_eq!((counts.subtracted, counts.added), (1, 0), "{counts:?}");
    assert!(counts.skipped >= 2, "{counts:?}");
    rig.write(100, 5, 8).expect("there is space");
    rig.snapshot("s4").expect("a new name");
    rig.change(deletion(3)).expect("it is there");
    rig.rest();
    let after = rig.system.scan("v").counts;
    assert!(after.subtracted > counts.subtracted, "{after:?}");
    let mut rig = rig.restart();
    for (lun, fill) in [("v/l@s1", 7), ("v/l@s4", 8), ("v/l", 8)] {
        rig.expect(lun, 100, fill);
    }
}

/// Writes until not one more block fits, and overwrites some as far as that is possible.
fn fill(rig: &mut Rig, salt: u64) {
    let mut first = 0;
    for count in [256, 16, 1] {
        loop {
            match rig.write(first, count, salt) {
                Ok(()) => first += count,
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    for again in 1..300 {
        let written = rig.write(again * 7 % first, 1, salt + again);
        assert!(
            matches!(written, Ok(()) | Err(Error::NoSpace)),
            "{written:?}"
        );
    }
}

#[test]
fn from_a_full_pool_a_snapshot_a_lun_and_a_volume_can_be_deleted() {
    for (case, what) in ["snapshot", "lun", "volume"].into_iter().enumerate() {
        let maker = EngineMaker {
            reclaim_regions: [1, 5, 1024][case],
            ..EngineMaker::SMALL_LOGGED
        };
        let mut rig = Rig::new(maker, 24 << 20, 64 << 20);
        rig.write(0, 256, 1_000).expect("there is space");
        rig.snapshot("s1").expect("there is space");
        rig.write(0, 256, 2_000).expect("there is space");
        rig.snapshot("s2").expect("there is space");
        // Scans rested by an administrator's setting. Now clients wait for them.
        let (volume, percent) = (own("v"), 0);
        rig.change(Change::SetScanPace { volume, percent })
            .expect("it is there");
        fill(&mut rig, 5_000);
        let refused = rig.snapshot("no-room");
        assert!(
            refused.is_err(),
            "{what}: a full pool takes no snapshot that could fill it for good"
        );
        let full = rig.system.usage();
        let (volume, name) = (own("v"), own("l"));
        let deleted = match what {
            "snapshot" => rig.change(deletion(1)),
            "lun" => rig.change(Change::DeleteLun { volume, name }),
            _ => rig.change(Change::DeleteVolume { name: volume }),
        };
        deleted.unwrap_or_else(|error| panic!("{what}: {error}, {full:?}"));
        let mut rig = rig.restart();
        if what == "lun" {
            // The snapshots hold their blocks of the LUN.
            rig.expect("v/l@s2", 7, 2_000);
        }
        if what != "volume" {
            let other = rig.change(deletion(2));
            other.unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        let mut rig = rig.restart();
        rig.wait(20);
        let rested = rig.system.usage();
        assert!(
            rested.used_blocks + 50 < full.used_blocks,
            "{what}: {full:?} {rested:?}"
        );
        if what != "volume" {
            // Space is available now, so the scans rest until the setting changes.
            let (volume, percent) = (own("v"), 100);
            rig.change(Change::SetScanPace { volume, percent })
                .expect("it is there");
            rig.wait(40);
        }
        let after = rig.system.usage();
        assert!(
            after.used_blocks + 200 < full.used_blocks,
            "{what}: {full:?} {after:?}"
        );
        match what {
            "snapshot" => {}
            "lun" => {
                let (volume, name, size_bytes) = (own("v"), own("l"), 64 << 20);
                let create = Change::CreateLun {
                    volume,
                    name,
                    size_bytes,
                };
                rig.change(create).expect("there is space again");
            }
            _ => rig.build(64 << 20),
        }
        rig.write(0, 128, 9_000)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        rig.expect("v/l", 5, 9_000);
        drop(rig.restart());
    }
}

#[test]
fn a_new_snapshot_is_scanned_only_as_an_ablation_and_both_ways_are_right() {
    for create_scan in [false, true] {
        let maker = EngineMaker {
            create_scan,
            reclaim_regions: 1,
            ..EngineMaker::SMALL_LOGGED
        };
        let mut rig = Rig::new(maker, 32 << 20, 2 << 20);
        rig.write(0, 200, 1_000).expect("there is space");
        rig.snapshot("s1").expect("there is space");
        let before = rig.system.committed_cp();
        rig.wait(3);
        let needed = rig.system.committed_cp() - before;
        assert_eq!(
            needed > 0,
            create_scan,
            "{needed} consistency points for a new snapshot"
        );
        rig.write(0, 100, 2_000).expect("there is space");
        rig.snapshot("s2").expect("there is space");
        // The scan of one is not over when the next is taken, or when it is deleted itself.
        rig.snapshot("s3").expect("there is space");
        rig.write(50, 100, 3_000).expect("there is space");
        rig.change(deletion(3)).expect("it is there");
        let mut rig = rig.restart();
        rig.change(deletion(1)).expect("it is there");
        rig.rest();
        let mut rig = rig.restart();
        for (block, fill) in [(0, 2_000), (99, 2_000), (100, 1_000), (199, 1_000)] {
            rig.expect("v/l@s2", block, fill);
        }
        rig.expect("v/l", 50, 3_000);
    }
}
