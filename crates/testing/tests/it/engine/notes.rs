//! Notes: the text that the daemon keeps in an aggregate. That the power may fail at any write of it is in
//! `sim::snapshots` and `sim::histories`.

use everglade_engine::admin::{Change, Error};
use everglade_format::notes::{NOTES_BYTES_MAX, NOTES_PER_BLOCK};
use everglade_testing::workload::contents;

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
