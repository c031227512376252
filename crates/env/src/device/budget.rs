//! The descriptors of all devices of the process (decision 0029).
//!
//! A device keeps some descriptors as long as it is open: the *pinned* ones. The rest of the budget
//! is for segment files of directory devices, which are opened when they are needed and closed when
//! others are needed more. At least one segment file can always be open.
//!
//! ```text
//! listed --make_room(), idle--> closed
//! listed --make_room(), I/O in flight--> leaving --last I/O done--> closed
//! ```
//!
//! 1. Opening a segment file never exceeds the budget. Opening a device may, until files that have
//!    I/O in flight are closed. An opening that finds the budget used up closes the idle file that
//!    was not used for longest. If all files are busy, the oldest one *leaves*: new operations no
//!    longer find it, and its descriptor is free when its last operation is done. The opening waits
//!    for this descriptor.
//! 2. The host may refuse a descriptor although the budget has room: other users may have taken all
//!    descriptors of the process, or of the host. Then an idle file is closed, too, and the opening
//!    waits until the host gives a descriptor. This is not an error, because nothing is wrong with
//!    the device.
//! 3. Only workers and blocking callers wait, and none of them holds an open file meanwhile. So the
//!    operations that hold files finish. Workers wait without a limit: a pool must not fail because
//!    of a shortage that passes. Blocking callers get an error after [`PATIENCE`], because a person
//!    waits for them.
//!
//! Recency is measured in *rounds*: a round ends with each opening. A use of a segment only notes
//! the current round, so that busy segments cost the reactors nothing. Uses between two openings
//! are not ordered, because a file is chosen only at an opening.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Device, Handle};
use crate::lock::{Mutex, MutexGuard};

/// The first rest of an opening that waits; each one is twice as long, up to [`REST_MAX`].
const REST_MIN: Duration = Duration::from_millis(1);
/// Longest pause of a waiting worker between attempts, 20 a second.
const REST_MAX: Duration = Duration::from_millis(50);

/// Time limit of a blocking caller's wait for a descriptor.
const PATIENCE: Duration = Duration::from_secs(10);

/// Shared by all devices of a world.
pub(crate) struct Budget {
    counted: Arc<Counted>,
    /// Time limit of an opening's wait; `None` for no limit.
    patience: Option<Duration>,
}

struct Counted {
    files_max: usize,
    round: AtomicU64,
    /// Openings that had to wait.
    waits: AtomicU64,
    /// Locked while closing, never while opening.
    files: Mutex<Files>,
}

#[derive(Default)]
struct Files {
    /// Descriptors that open devices keep.
    pinned: usize,
    /// Every segment of a directory that is open or being opened, in no order.
    listed: Vec<(Weak<Device>, usize)>,
    /// Files that were taken from their segments and have operations in flight.
    leaving: Vec<Handle>,
}

/// The state of an opening that waits.
#[derive(Default)]
pub(super) struct Wait {
    rest: Duration,
    total: Duration,
}

impl Budget {
    pub(crate) fn new(files_max: usize) -> Budget {
        assert!(files_max > 0, "at least one segment can be open");
        let counted = Counted {
            files_max,
            round: AtomicU64::new(1),
            waits: AtomicU64::new(0),
            files: Mutex::default(),
        };
        Budget {
            counted: Arc::new(counted),
            patience: None,
        }
    }

    /// Returns the same budget with the time limit of blocking callers.
    pub(crate) fn for_blocking_callers(&self) -> Budget {
        Budget {
            counted: Arc::clone(&self.counted),
            patience: Some(PATIENCE),
        }
    }

    pub(super) fn round(&self) -> u64 {
        self.counted.round.load(Ordering::Relaxed)
    }

    /// Counts the descriptors of a device that was opened. Returns false, and counts nothing, if
    /// they do not fit together with one segment file.
    pub(crate) fn pin(&self, count: usize) -> bool {
        let mut files = self.lock();
        let fits = files.pinned + count < self.counted.files_max;
        if fits {
            files.pinned += count;
            files.forget_closed();
            let segments_max = self.counted.files_max - files.pinned;
            while files.segments() > segments_max && files.close_idle() {}
        }
        fits
    }

    /// Releases the descriptors of a device that was closed.
    pub(crate) fn unpin(&self, count: usize) {
        let mut files = self.lock();
        assert!(files.pinned >= count, "unpin follows pin");
        files.pinned -= count;
        files.forget_closed();
    }

    /// Counts a file that is about to be opened. False if there is no room for it now: then wait
    /// and ask again.
    pub(super) fn enter(&self, device: &Arc<Device>, segment: usize) -> bool {
        self.counted.round.fetch_add(1, Ordering::Relaxed);
        let mut files = self.lock();
        files.forget_closed();
        let segments_max = self.counted.files_max.saturating_sub(files.pinned).max(1);
        while files.segments() >= segments_max && files.close_idle() {}
        if files.segments() >= segments_max {
            if files.leaving.is_empty() {
                files.let_oldest_leave();
            }
            return false;
        }
        files.listed.push((Arc::downgrade(device), segment));
        true
    }

    /// Takes back an `enter`: the file could not be opened.
    pub(super) fn leave(&self, device: &Arc<Device>, segment: usize) {
        let mut files = self.lock();
        let left = Arc::downgrade(device);
        let listed = &mut files.listed;
        let at = listed
            .iter()
            .position(|entry| entry.1 == segment && entry.0.ptr_eq(&left));
        // A device that was closed meanwhile is not in the list.
        if let Some(at) = at {
            listed.swap_remove(at);
        }
    }

    /// Closes one idle file, because the host gives no descriptor. Returns false if no file is
    /// idle.
    pub(super) fn close_one(&self) -> bool {
        let mut files = self.lock();
        files.forget_closed();
        files.close_idle()
    }

    /// Sleeps a little, longer each time. False if the caller has waited long enough.
    pub(super) fn rest(&self, wait: &mut Wait) -> bool {
        if wait.total.is_zero() {
            self.counted.waits.fetch_add(1, Ordering::Relaxed);
        }
        wait.rest = (wait.rest * 2).clamp(REST_MIN, REST_MAX);
        wait.total += wait.rest;
        std::thread::sleep(wait.rest);
        self.patience.is_none_or(|patience| wait.total < patience)
    }

    /// Returns the number of open segment files.
    pub(crate) fn open_count(&self) -> usize {
        let mut files = self.lock();
        files.forget_closed();
        files.segments()
    }

    /// Descriptors in use now, of those there may be.
    pub(crate) fn usage(&self) -> (usize, usize) {
        let mut files = self.lock();
        files.forget_closed();
        (files.pinned + files.segments(), self.counted.files_max)
    }

    /// Openings that had to wait for a descriptor.
    pub(crate) fn waits(&self) -> u64 {
        self.counted.waits.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.counted.files.lock()
    }
}

impl Files {
    fn segments(&self) -> usize {
        self.listed.len() + self.leaving.len()
    }

    /// Drops entries that are closed by now: files whose last operation is done, and files of
    /// closed devices.
    fn forget_closed(&mut self) {
        self.leaving.retain(|file| Arc::strong_count(file) > 1);
        let is_open = |device: &Weak<Device>| device.upgrade().is_some_and(|it| !it.is_closed());
        self.listed.retain(|(device, _)| is_open(device));
    }

    /// Indices of the listed files, the least recently used one first.
    fn by_age(&self) -> Vec<usize> {
        let last_used = |index: &usize| {
            let (device, segment) = &self.listed[*index];
            let device = device.upgrade();
            device.map_or(0, |device| device.segment(*segment).last_used())
        };
        let mut indices: Vec<usize> = (0..self.listed.len()).collect();
        indices.sort_by_cached_key(last_used);
        indices
    }

    /// Closes the oldest file that has nothing in flight. False if there is none.
    fn close_idle(&mut self) -> bool {
        let closed = self.by_age().into_iter().find(|index| {
            let (device, segment) = &self.listed[*index];
            // A file that is just being opened cannot be closed, so it counts as busy.
            let device = device.upgrade();
            device.is_none_or(|device| device.segment(*segment).close_if_idle())
        });
        closed.is_some_and(|index| {
            self.listed.swap_remove(index);
            true
        })
    }

    /// Marks the oldest busy file to be closed when its I/O is done.
    fn let_oldest_leave(&mut self) {
        for index in self.by_age() {
            let (device, segment) = &self.listed[index];
            let taken = device
                .upgrade()
                .and_then(|device| device.segment(*segment).unset());
            if let Some(file) = taken {
                self.listed.swap_remove(index);
                self.leaving.push(file);
                return;
            }
        }
    }
}
