//! What reads of other copies have found (decision 0041): counters for people, and right contents
//! that are yet to be written over wrong ones. Beside them, how far a drive has caught up.
//!
//! ```text
//! wrong on one drive ─▶ right on another ─▶ noted ─▶ a consistency point writes it on the first
//! ```
//!
//! 1. Only a content whose tag is right is noted.
//! 2. A noted block may be freed and given to another owner before it is written. So the
//!    consistency point writes it only if the context map still says that the block has this tag.
//! 3. The notes are bounded. What is not noted is found again by a later read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use everglade_env::lock::Mutex;
use everglade_env::{DeviceId, PageRef};
use everglade_format::{Pvbn, Tag};

/// Most blocks that are noted at once: 4 MiB of memory.
const NOTED_MAX: usize = 1024;

/// Reads of other copies, and catching up, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiesInfo {
    /// Blocks that were wrong or could not be read on one drive, and were right on another.
    pub read_elsewhere: u64,
    /// Blocks that were then written again on the drive that had them wrong.
    pub rewritten: u64,
    /// Blocks that were reconstructed from the other drives of a parity group.
    pub reconstructed: u64,
    /// The drive that catches up, if one does.
    pub catching_up: Option<CatchUpInfo>,
}

/// How far a drive has caught up, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatchUpInfo {
    /// The drive.
    pub device: DeviceId,
    /// Block numbers that it has passed, used or not.
    pub passed_blocks: u64,
    /// All that it has to pass.
    pub total_blocks: u64,
    /// When it began, in seconds since 1970 UTC.
    pub begun_seconds: u64,
}

/// Faults of one drive since the aggregate was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveFaults {
    /// Reads of a block that failed.
    pub read_errors: u64,
    /// Reads of a block that gave other contents than were written.
    pub wrong_blocks: u64,
    /// Writes, flushes and other changes that failed. The first one costs the drive.
    pub write_errors: u64,
    /// Times that it did not end an operation in time. The first one costs the drive.
    pub hung: u64,
    /// Blocks that were written again, with the contents of another drive.
    pub mended: u64,
    /// Blocks in use that it did not get when it caught up: no drive in use had them right.
    pub not_copied: u64,
}

/// A block that a drive had wrong.
#[derive(Clone)]
pub(crate) struct Note {
    pub(crate) tag: Tag,
    pub(crate) page: PageRef,
    /// The drive that had it wrong.
    pub(crate) drive: DeviceId,
    /// True if it was counted for the drive already; if not, it is when the maps say that the
    /// block still has this tag.
    pub(crate) is_counted: bool,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Copies {
    read_elsewhere: AtomicU64,
    rewritten: AtomicU64,
    reconstructed: AtomicU64,
    /// By block and drive.
    noted: Mutex<BTreeMap<(Pvbn, DeviceId), Note>>,
    catching_up: Mutex<Option<CatchUpInfo>>,
    faults: Mutex<BTreeMap<DeviceId, DriveFaults>>,
}

impl Copies {
    /// Records that a block was wrong on one drive and is right on another. True if it is to be
    /// written and the home reactor may not know.
    pub(crate) fn note(&self, pvbn: Pvbn, note: Note) -> bool {
        self.read_elsewhere.fetch_add(1, Ordering::Relaxed);
        let mut noted = self.noted.lock();
        let has_room = noted.len() < NOTED_MAX;
        if has_room {
            noted.insert((pvbn, note.drive), note);
        }
        has_room
    }

    /// Counts a block that was reconstructed.
    pub(crate) fn count_reconstructed(&self) {
        self.reconstructed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts something of a drive.
    pub(crate) fn count(&self, drive: DeviceId, add: impl FnOnce(&mut DriveFaults)) {
        add(self.faults.lock().entry(drive).or_default());
    }

    /// Returns the faults of a drive.
    pub(crate) fn faults_of(&self, drive: DeviceId) -> DriveFaults {
        self.faults.lock().get(&drive).copied().unwrap_or_default()
    }

    /// True if so many more can be noted.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        self.noted.lock().len() + count <= NOTED_MAX
    }

    /// True if something is noted.
    pub(crate) fn has_notes(&self) -> bool {
        !self.noted.lock().is_empty()
    }

    /// Returns what is noted.
    pub(crate) fn noted(&self) -> Vec<(Pvbn, Note)> {
        let noted = self.noted.lock();
        let all = noted.iter();
        all.map(|((pvbn, _), note)| (*pvbn, note.clone())).collect()
    }

    /// Forgets all notes.
    pub(crate) fn forget_all(&self) {
        self.noted.lock().clear();
    }

    /// Forgets a note that was acted upon.
    pub(crate) fn forget(&self, pvbn: Pvbn, note: &Note, was_written: bool) {
        let mut noted = self.noted.lock();
        let place = (pvbn, note.drive);
        if noted.get(&place).is_some_and(|known| known.tag == note.tag) {
            noted.remove(&place);
        }
        if was_written {
            self.rewritten.fetch_add(1, Ordering::Relaxed);
            self.count(note.drive, |it| {
                it.mended += 1;
                it.wrong_blocks += u64::from(!note.is_counted);
            });
        }
    }

    /// Tells how far a drive has caught up.
    pub(crate) fn set_catching_up(&self, progress: Option<CatchUpInfo>) {
        *self.catching_up.lock() = progress;
    }

    pub(crate) fn info(&self) -> CopiesInfo {
        CopiesInfo {
            read_elsewhere: self.read_elsewhere.load(Ordering::Relaxed),
            rewritten: self.rewritten.load(Ordering::Relaxed),
            reconstructed: self.reconstructed.load(Ordering::Relaxed),
            catching_up: *self.catching_up.lock(),
        }
    }
}
