//! Drives that hang: operations on them do not end.
//!
//! 1. An operation that has not ended after [`Options::drive_timeout`](crate::Options) costs its
//!    drive its place, if another drive has the same blocks. If none has, it is waited for: it may
//!    still end, and an error would be worse.
//! 2. What is under way on a drive that hangs is answered as if the drive had vanished, so that
//!    nobody waits for it.
//! 3. The memory of an operation belongs to the device until the operation ends. What ends after it
//!    was answered has no effect.
//! 4. If the machine stood still, all operations look old at once. So a reactor that could not look
//!    for a while looks again a little later, before it gives up a drive.
//! 5. A lost drive is not used again before the aggregate is opened anew. That cannot happen before
//!    all operations on it have ended: until then its files are locked. So a write that ends late
//!    changes nothing that is read.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use everglade_env::{Completion, DeviceId, DiskError, Nanos, Op, Outside};

use crate::reactor::Core;
use crate::reactor::loading::Inflight;

/// How often a reactor looks for operations that do not end, in one time limit.
const LOOKS: Nanos = 4;

/// A device operation in flight.
pub(crate) struct Flight {
    /// What it is for; `None` if it was answered before it ended.
    pub(crate) what: Option<Inflight>,
    device: DeviceId,
    /// About when it was submitted; 0 without groups.
    since: Nanos,
}

/// When a reactor looks.
#[derive(Default)]
pub(crate) struct Hangs {
    /// The time at the beginning of the turn, if there are groups.
    now: Nanos,
    /// The last look, and the next one.
    looked: Nanos,
    look: Nanos,
    /// Operations that were answered before they ended.
    answered: usize,
}

impl<O: Outside> Core<O> {
    pub(super) fn submit(&mut self, op: Op, what: Inflight) {
        let flight = Flight {
            what: Some(what),
            device: op.device(),
            since: self.hangs.now,
        };
        let token = self.inflight.insert(flight) as u64;
        self.outside.submit(op, token);
    }

    /// Returns what a completed operation was for; `None` if it was answered before.
    pub(super) fn landed(&mut self, completion: &Completion) -> Option<Inflight> {
        let token = usize::try_from(completion.token).expect("tokens are places of the slab");
        let what = self.inflight.remove(token).what;
        self.hangs.answered -= usize::from(what.is_none());
        what
    }

    /// Device operations that somebody waits for.
    pub(super) fn awaited(&self) -> usize {
        self.inflight.len() - self.hangs.answered
    }

    /// When to look next, if there is anything to look at.
    pub(super) fn next_look(&self) -> Option<Nanos> {
        let has_groups = self.shared.has_groups.load(Ordering::Relaxed);
        (has_groups && self.awaited() > 0).then_some(self.hangs.look)
    }

    /// Looks for drives that hang, now and then.
    pub(super) fn look_for_hangs(&mut self) {
        if !self.shared.has_groups.load(Ordering::Relaxed) {
            return;
        }
        let (now, limit) = (self.outside.now(), self.shared.options.drive_timeout);
        self.hangs.now = now;
        if now < self.hangs.look {
            return;
        }
        let gap = now.saturating_sub(self.hangs.looked);
        (self.hangs.looked, self.hangs.look) = (now, now + limit / LOOKS);
        if gap > limit / 2 {
            return;
        }
        let old = self.inflight.iter().filter_map(|(_, flight)| {
            let aggregate = flight.what.as_ref()?.drive_of()?;
            let is_old = now.saturating_sub(flight.since) >= limit;
            is_old.then_some((aggregate, flight.device))
        });
        let old: BTreeSet<(u32, DeviceId)> = old.collect();
        for (aggregate, device) in old {
            if self.lose(aggregate, device) {
                let copies = &self.shared.aggregate(aggregate).media.copies;
                copies.count(device, |it| it.hung += 1);
                self.answer_for(device);
            }
        }
    }

    /// Answers all that is under way on a drive that hangs.
    fn answer_for(&mut self, device: DeviceId) {
        let own = self.inflight.iter().filter(|(_, flight)| {
            let is_for_drive = |what: &Inflight| what.drive_of().is_some();
            flight.device == device && flight.what.as_ref().is_some_and(is_for_drive)
        });
        let own: Vec<usize> = own.map(|(token, _)| token).collect();
        for token in own {
            let Some(what) = self.inflight[token].what.take() else {
                continue;
            };
            self.hangs.answered += 1;
            let completion = Completion {
                token: token as u64,
                result: Err(DiskError::Gone),
                pages: Vec::new(),
            };
            self.settle(what, completion);
        }
    }
}

impl Inflight {
    /// The aggregate, if it is an operation that another drive can stand in for.
    fn drive_of(&self) -> Option<u32> {
        match self {
            Inflight::Read { aggregate, .. }
            | Inflight::Part { aggregate, .. }
            | Inflight::Column { aggregate, .. }
            | Inflight::ColumnRun { aggregate, .. }
            | Inflight::Scrub { aggregate, .. }
            | Inflight::ScrubColumn { aggregate, .. } => Some(*aggregate),
            Inflight::Write {
                aggregate, drive, ..
            } => drive.map(|_| *aggregate),
            Inflight::Probe { .. }
            | Inflight::Log { .. }
            | Inflight::Replay { .. }
            | Inflight::Wanted { .. }
            | Inflight::Prepare { .. }
            | Inflight::Punch { .. } => None,
        }
    }
}
