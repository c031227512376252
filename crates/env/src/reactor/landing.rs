//! Progress of parts until they are done: into the lane, out of it, and again if a transfer was
//! short.
#![expect(
    unsafe_code,
    reason = "hands memory to the lane; kept in place by `flight`"
)]

use std::time::{Duration, Instant};

use super::flight::Report;
use super::launch::pages_of;
use super::slots::Slots;
use super::{IN_LANE_MAX, Real};
use crate::DiskError;
use crate::action::Action;
use crate::transfer::{Fault, Progress, RawResult};

/// How long a reactor that ends waits for its last operations.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);

impl Real {
    pub(super) fn push_queued(&mut self) {
        while self.in_lane < IN_LANE_MAX
            && self.lane.has_room()
            && let Some(&key) = self.queued.front()
        {
            self.queued.pop_front();
            let part = self.parts.get(key);
            let handle = part
                .handle
                .as_ref()
                .expect("a queued part has its segment open");
            let device = &self.jobs.get(part.job).device;
            let action = match part.action {
                // The sync follows when it is done.
                Action::WriteDurable if !device.forces_in_one() => Action::Write,
                action => action,
            };
            let transfer = part.gather.transfer(action, handle, part.piece.offset, key);
            // SAFETY: the part keeps file and array, the job keeps the pages, and neither touches
            // them before the outcome is back; `drop` waits for that too.
            unsafe { self.lane.push(transfer) };
            self.in_lane += 1;
        }
    }

    pub(super) fn take_reports(&mut self) {
        while self.with_workers > 0
            && let Ok(report) = self.reports.try_recv()
        {
            self.with_workers -= 1;
            match report {
                Report::Opened(part, Ok(Some(handle))) => {
                    self.parts.get(part).handle = Some(handle);
                    self.queued.push_back(part);
                }
                Report::Opened(part, Ok(None)) => self.read_absent(part),
                Report::Opened(part, Err(error)) | Report::Done(part, Err(error)) => {
                    self.finish(part, Err(error));
                }
                Report::Done(part, Ok(())) => self.finish(part, Ok(())),
            }
        }
    }

    fn read_absent(&mut self, key: u64) {
        let part = self.parts.get(key);
        assert_eq!(
            part.action,
            Action::Read,
            "only a read leaves a segment absent"
        );
        let (job, first, count) = (part.job, part.page, pages_of(part.piece.bytes));
        for page in &mut self.jobs.get(job).pages[first..first + count] {
            page.fill(0);
        }
        self.finish(key, Ok(()));
    }

    pub(super) fn take_outcomes(&mut self) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.lane.turn(&mut outcomes);
        for (key, outcome) in outcomes.drain(..) {
            self.in_lane -= 1;
            self.take_outcome(key, outcome);
        }
        self.outcomes = outcomes;
    }

    fn take_outcome(&mut self, key: u64, outcome: RawResult) {
        let part = self.parts.get(key);
        match Progress::of(outcome, part.piece.bytes) {
            Progress::Repeat => self.queued.push_back(key),
            Progress::Rest(bytes) => {
                part.gather
                    .advance(usize::try_from(bytes).expect("at most 1 MiB"));
                part.piece.offset += bytes;
                part.piece.bytes -= bytes;
                self.queued.push_back(key);
            }
            Progress::Done => self.transferred(key, Ok(())),
            Progress::Failed(fault) => self.transferred(key, Err(fault)),
        }
    }

    /// Notes the effect of a finished transfer on flushes.
    fn transferred(&mut self, key: u64, result: Result<(), Fault>) {
        let part = self.parts.get(key);
        let (segment, action, written) = (part.piece.segment, part.action, part.written);
        let job = part.job;
        let device = &self.jobs.get(job).device;
        let result = match action {
            Action::Sync => device.synced(segment, written, result),
            Action::Write if result.is_ok() => {
                device.segment(segment).soil();
                Ok(())
            }
            Action::WriteDurable if result.is_ok() && !device.forces_in_one() => {
                let written = device.segment(segment).soil();
                self.parts.get(key).turn_into_sync(written);
                self.queued.push_back(key);
                return;
            }
            _ => result.map_err(Fault::disk_error),
        };
        self.finish(key, result);
    }

    fn finish(&mut self, part: u64, result: Result<(), DiskError>) {
        let part = self.parts.remove(part);
        self.part_done(part.job, result);
    }

    pub(super) fn part_done(&mut self, key: u64, result: Result<(), DiskError>) {
        let job = self.jobs.get(key);
        job.error = job.error.or(result.err());
        job.parts_left -= 1;
        if job.parts_left == 0 {
            let job = self.jobs.remove(key);
            if let Some(begun) = job.begun {
                job.device.note_end(begun, self.shared.clock().now());
            }
            if let Some(error) = job.error {
                job.device.note_error(error);
            }
            self.complete(job.token, job.error.map_or(Ok(()), Err), job.pages);
        }
    }

    /// Waits for everything the lane has, but not for ever: a device may hang.
    pub(super) fn drain(&mut self) {
        let end = Instant::now() + DRAIN_PATIENCE;
        let mut outcomes = std::mem::take(&mut self.outcomes);
        while self.in_lane > 0 {
            if !self.lane.wait(&mut outcomes) || Instant::now() >= end {
                // A device hangs, or this is not the ring's thread, which cannot collect
                // completions. The kernel may still write into this memory, so it is never used
                // again.
                std::mem::forget(std::mem::replace(&mut self.jobs, Slots::new()));
                std::mem::forget(std::mem::replace(&mut self.parts, Slots::new()));
                return;
            }
            self.in_lane -= outcomes.drain(..).count();
        }
    }
}
