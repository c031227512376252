//! Renames: several at once, and of objects that clients have open. Power failures at each write of
//! a rename are in `sim::histories`.

use everglade_engine::admin::{Change, Error};
use everglade_env::BLOCK_SIZE;
use everglade_target::{LunHandle, Op, Reply, Target, WriteSpan};
use everglade_testing::engine::{EngineMaker, EngineSystem};
use everglade_testing::system::{Maker, System};
use everglade_testing::world::{Cut, Keep, Turn};
use everglade_testing::{Seed, SimWorld};

use super::rig::change_all;

const TURNS_MAX: u64 = 1_000_000;
const BLOCK: u64 = BLOCK_SIZE as u64;

fn own(text: &str) -> String {
    text.to_owned()
}

fn lun(name: &str, to: &str) -> Change {
    let (volume, name) = name.split_once('/').expect("volume/lun");
    Change::RenameLun {
        volume: own(volume),
        name: own(name),
        to: own(to),
    }
}

fn volume(name: &str, to: &str) -> Change {
    Change::RenameVolume {
        name: own(name),
        to: own(to),
    }
}

struct Rig {
    world: SimWorld,
    system: EngineSystem,
}

impl Rig {
    /// Volumes `v` and `w`, each with LUNs `a` and `b`.
    fn new() -> Rig {
        let maker = EngineMaker::SMALL_LOGGED;
        let world = SimWorld::new(Seed(1), 1, &maker.devices(64 << 20));
        maker.format(&world).expect("fresh devices");
        let system = maker.mount(&world).expect("it was just made");
        let mut rig = Rig { world, system };
        for name in ["v", "w"] {
            let create = Change::CreateVolume {
                name: own(name),
                sync: Default::default(),
            };
            let create_lun = |lun: &str| Change::CreateLun {
                volume: own(name),
                name: own(lun),
                size_bytes: 16 * BLOCK,
            };
            let results = rig.change_all(&[create, create_lun("a"), create_lun("b")]);
            assert!(results.iter().all(Result::is_ok), "{results:?}");
        }
        rig
    }

    /// Asks for all at once, so that one consistency point makes them; their answers in order.
    fn change_all(&mut self, changes: &[Change]) -> Vec<Result<(), Error>> {
        change_all(
            &self.world,
            &mut self.system,
            TURNS_MAX,
            changes.iter().cloned(),
        )
    }

    fn ask(&mut self, handle: LunHandle, op: Op) -> Reply {
        self.system.core(0).submit(handle, op, 7);
        self.world.wake(0);
        let mut done = Vec::new();
        let system = &mut self.system;
        self.world.run(TURNS_MAX, &mut |_| {
            let said = system.turn(0);
            system.core(0).poll(&mut done);
            if done.is_empty() { said } else { Turn::Stop }
        });
        done.pop().expect("an answer").result.expect("it is served")
    }

    fn open(&mut self, name: &str) -> LunHandle {
        self.system.core(0).open(name).expect("it is there").0
    }

    fn write(&mut self, handle: LunHandle, byte: u8) {
        let data = WriteSpan::copy_of(0, &[byte; BLOCK_SIZE]);
        self.ask(
            handle,
            Op::Write {
                data,
                durable: true,
            },
        );
    }

    fn byte(&mut self, handle: LunHandle) -> u8 {
        let length = u32::try_from(BLOCK).expect("small");
        match self.ask(handle, Op::Read { offset: 0, length }) {
            Reply::Data(span) => span.pages[0][0],
            other => panic!("{other:?}"),
        }
    }

    fn names(&mut self) -> Vec<String> {
        let exports = self.system.core(0).exports().into_iter();
        exports.map(|export| export.name).collect()
    }
}

#[test]
fn names_change_places_under_whoever_has_them_open() {
    let mut rig = Rig::new();
    let (a, b) = (rig.open("v/a"), rig.open("v/b"));
    rig.write(a, 1);
    rig.write(b, 2);
    let swap = [
        lun("v/a", "t"),
        lun("v/b", "a"),
        lun("v/t", "b"),
        volume("v", "t"),
        volume("w", "v"),
        volume("t", "w"),
    ];
    let results = rig.change_all(&swap);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(rig.names(), ["v/a", "v/b", "w/a", "w/b"]);
    assert_eq!([rig.byte(a), rig.byte(b)], [1, 2], "handles go on");
    rig.write(a, 3);
    let (now_a, now_b, other) = (rig.open("w/a"), rig.open("w/b"), rig.open("v/a"));
    assert_eq!(
        [rig.byte(now_a), rig.byte(now_b), rig.byte(other)],
        [2, 3, 0]
    );
    // Data written under new names is found again: the journal knows files, not names.
    let images = rig.world.after_cut(Cut::whole(Keep::Nothing));
    drop(rig.system);
    let maker = EngineMaker::SMALL_LOGGED;
    let world = SimWorld::restart(images, Seed(2), 1);
    let system = maker.mount(&world).expect("nothing is wrong with it");
    let mut rig = Rig { world, system };
    assert_eq!(rig.names(), ["v/a", "v/b", "w/a", "w/b"]);
    let (now_a, now_b) = (rig.open("w/a"), rig.open("w/b"));
    assert_eq!([rig.byte(now_a), rig.byte(now_b)], [2, 3]);
}

#[test]
fn a_name_that_is_taken_or_is_none_is_refused_and_nothing_changes() {
    let mut rig = Rig::new();
    let before = rig.names();
    let results = rig.change_all(&[
        lun("v/a", "b"),
        volume("v", "w"),
        lun("v/nix", "c"),
        volume("nix", "c"),
        lun("v/a", "../a"),
        volume("v", ""),
        Change::RenameAggregate { to: own("-") },
    ]);
    assert!(
        matches!(
            results.as_slice(),
            [
                Err(Error::Exists(_)),
                Err(Error::Exists(_)),
                Err(Error::NotFound(_)),
                Err(Error::NotFound(_)),
                Err(Error::Invalid { field: "name", .. }),
                Err(Error::Invalid { field: "name", .. }),
                Err(Error::Invalid { field: "name", .. }),
            ]
        ),
        "{results:?}"
    );
    assert_eq!(rig.names(), before);
    assert_eq!(rig.system.name(), EngineMaker::AGGREGATE);
    // The name that it has is fine.
    let same = rig.change_all(&[lun("v/a", "a"), volume("v", "v")]);
    assert_eq!(same, [Ok(()), Ok(())]);
}
