//! Notes: the text that the daemon keeps in an aggregate. That the power may fail at any write of
//! it is in `sim::snapshots` and `sim::histories`.

use everglade_engine::Unreadable;
use everglade_engine::admin::{Change, Error};
use everglade_env::DeviceId;
use everglade_format::Header;
use everglade_format::indirect::BlockKind;
use everglade_format::metafile::NOTES;
use everglade_format::notes::{NOTES_BYTES_MAX, NOTES_PER_BLOCK};
use everglade_testing::engine::EngineMaker;
use everglade_testing::system::Maker;
use everglade_testing::workload::contents;
use everglade_testing::{Seed, SimWorld};

use super::clones::Rig;

impl Rig {
    fn set_notes(&mut self, text: Vec<u8>) -> Result<(), Error> {
        self.change(Change::SetNotes { text })
    }
}

#[test]
fn notes_of_any_length_survive_a_restart_and_shorter_ones_leave_nothing() {
    let mut rig = Rig::new();
    assert!(rig.notes().is_empty());
    let lengths = [
        1,
        NOTES_BYTES_MAX,
        NOTES_PER_BLOCK,
        NOTES_PER_BLOCK + 1,
        0,
        10 * NOTES_PER_BLOCK - 1,
    ];
    for (fill, length) in (1..).zip(lengths) {
        let text = contents(fill, length as u64);
        rig.set_notes(text.clone()).expect("there is room");
        assert!(rig.notes() == text, "{length} bytes");
        rig = rig.restart();
        assert!(rig.notes() == text, "{length} bytes after a restart");
    }
}

#[test]
fn notes_that_are_too_long_are_refused_and_those_before_stay() {
    let mut rig = Rig::new();
    rig.set_notes(b"before".to_vec()).expect("there is room");
    let refused = rig.set_notes(vec![b'x'; NOTES_BYTES_MAX + 1]);
    assert!(matches!(refused, Err(Error::Limit(_))), "{refused:?}");
    assert_eq!(rig.notes(), b"before");
    assert_eq!(rig.restart().notes(), b"before");
}

/// A device that did not answer for a moment cost all of them: there seemed to be none, and the
/// next change replaced them.
#[test]
fn notes_whose_device_did_not_answer_stay_until_a_restart_reads_them() {
    let text = contents(7, 3 * NOTES_PER_BLOCK as u64);
    let mut rig = Rig::new();
    rig.set_notes(text.clone()).expect("there is room");
    let images = rig.restart().images();
    // The leaves, or what is above them; and the block that is read to find out whether the device
    // answers.
    for kind in [BlockKind::Notes, BlockKind::AggregateIndirect] {
        let is_it = |page: &everglade_format::Block| {
            let header = Header::decode(page);
            header.is_ok_and(|header| (header.kind, header.file) == (kind, NOTES))
        };
        let blocks = images.image(0).blocks().filter(|(_, page)| is_it(page));
        let blocks: Vec<u64> = blocks.map(|(block, _)| block).chain([0]).collect();
        assert!(blocks.len() > 1, "{kind:?}");
        let world = SimWorld::restart(images.clone(), Seed(7), 1);
        for block in &blocks {
            world.fail_block(DeviceId(0), *block);
        }
        let maker = EngineMaker::SMALL_LOGGED;
        let system = maker.mount(&world).expect("data is served");
        let mut rig = Rig::on(maker, world, system);
        let read = rig.system.read_notes();
        assert!(matches!(read, Err(Unreadable::Unanswered(_))), "{read:?}");
        let refused = rig.set_notes(b"others".to_vec());
        let Err(Error::Unavailable(said)) = &refused else {
            panic!("{refused:?}")
        };
        assert!(said.contains("restart the daemon"), "{said}");
        // All other work continues.
        rig.write("v/l", 0, 10, 1_000);
        rig.snapshot("v", "s");
        for block in &blocks {
            rig.world.mend_block(DeviceId(0), *block);
        }
        let mut rig = rig.restart();
        assert!(rig.notes() == text, "{kind:?}");
        rig.expect("v/l@s", 0, 10, 1_000);
        rig.set_notes(b"others".to_vec()).expect("they were read");
        assert_eq!(rig.restart().notes(), b"others");
    }
}
