//! The mutable inside of a world: clock, events, devices, reactors, records.
//!
//! Operations and blocking calls come in here under one lock, which is free while the code under
//! test runs. Time moves only in [`State::advance_to`] and by the cost of a turn.

use std::collections::{BTreeMap, VecDeque};

use everglade_env::{BLOCK_SIZE, Completion, DiskError, Nanos, Page};

use super::breakage::{Breakage, Breaks};
use super::change::Change;
use super::cut::{AtChance, CutPoint, DeviceAtCut, Medium};
use super::device::Device;
use super::footprint::Tracker;
use crate::{Digest, Rng};

pub(super) enum Event {
    /// The operation of this number ends.
    Complete(u64),
    /// This reactor should poll.
    Wake(usize),
}

/// An operation between submission and completion.
pub(super) struct Flight {
    pub(super) reactor: usize,
    pub(super) token: u64,
    pub(super) device: usize,
    /// Tick of the submission.
    pub(super) submitted: u64,
    pub(super) kind: FlightKind,
    /// Result that the operation will report.
    pub(super) result: Result<(), DiskError>,
}

pub(super) enum FlightKind {
    Read {
        first: u64,
        pages: Vec<Page>,
        /// The contents were taken at submission.
        filled: bool,
    },
    Change {
        /// Still to take effect; `None` once it did, or if it never will.
        pending: Option<Change>,
        /// Version of its effect.
        version: Option<u64>,
        /// Durable at completion.
        durable: bool,
    },
    Flush {
        /// True if the write is acknowledged without effect.
        is_lost: bool,
    },
    /// The operation has no effect and fails.
    Refused,
}

#[derive(Default)]
pub(super) struct ReactorState {
    pub(super) runnable: bool,
    /// Time at which the reactor runs even without an event.
    pub(super) deadline: Option<Nanos>,
    pub(super) done: VecDeque<Completion>,
}

/// Cut points kept while the world continues, so that one run yields every power cut of it.
pub(super) struct Watch {
    pub(super) points: Vec<CutPoint>,
    pub(super) points_max: usize,
    /// Keeps every `stride`-th write only.
    pub(super) stride: u64,
}

pub(super) struct State {
    pub(super) now: Nanos,
    /// Counts everything that happens, to tell before from after.
    pub(super) tick: u64,
    pub(super) events: BTreeMap<(Nanos, u64), Event>,
    pub(super) flights: BTreeMap<u64, Flight>,
    pub(super) devices: Vec<Device>,
    pub(super) reactors: Vec<ReactorState>,
    pub(super) rng: Rng,
    /// Writes and punches so far; what [`State::cut_at`] is compared with.
    pub(super) writes: u64,
    pub(super) cut_at: Option<u64>,
    pub(super) is_cut: bool,
    /// Devices that have yet to break.
    pub(super) breaks: Breaks,
    pub(super) watch: Option<Watch>,
    pub(super) tracker: Option<Tracker>,
    pub(super) host_capacity: Option<u64>,
    /// Completions that overtook an operation submitted earlier.
    pub(super) reordered: u64,
    /// Writes submitted while another write to one of their blocks was under way.
    pub(super) overlapping: u64,
    pub(super) digest: Digest,
    pub(super) trace: VecDeque<String>,
    pub(super) trace_max: usize,
}

impl State {
    pub(super) fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// Notes that `range` of a device is about to be read.
    pub(super) fn track_read(&mut self, device: usize, range: std::ops::Range<u64>) {
        if let Some(tracker) = &mut self.tracker {
            for block in range {
                tracker.read(device, block, self.devices[device].live.read(block));
            }
        }
    }

    /// Notes that `range` of a device is being changed.
    pub(super) fn track_written(&mut self, device: usize, range: std::ops::Range<u64>) {
        if let Some(tracker) = &mut self.tracker {
            range.for_each(|block| tracker.written(device, block));
        }
    }

    pub(super) fn schedule(&mut self, after: Nanos, event: Event) {
        let tick = self.next_tick();
        self.events.insert((self.now + after, tick), event);
    }

    pub(super) fn trace_line(&mut self, line: impl FnOnce() -> String) {
        if self.trace_max > 0 {
            if self.trace.len() == self.trace_max {
                self.trace.pop_front();
            }
            let now = self.now;
            self.trace.push_back(format!("{now:>14} {}", line()));
        }
    }

    /// Bytes the host could still give.
    pub(super) fn host_free(&self) -> Option<u64> {
        self.host_capacity
            .map(|capacity| capacity.saturating_sub(self.host_used()))
    }

    /// Bytes the host has given.
    pub(super) fn host_used(&self) -> u64 {
        let thin = self.devices.iter().filter(|device| !device.spec.owns_space);
        thin.map(|device| device.live_allocated.count() * BLOCK_SIZE as u64)
            .sum()
    }

    /// Counts a change of a medium; stops the world if this is the one to be cut at. The change
    /// must already be among the unflushed or the flights, because it may survive the cut.
    pub(super) fn count_write(&mut self) {
        self.writes += 1;
        self.break_devices();
        if self.cut_at == Some(self.writes) {
            self.is_cut = true;
            self.trace_line(|| "power cut".to_owned());
        }
        let writes = self.writes;
        let wanted = self.watch.as_ref().is_some_and(|watch| {
            watch.points.len() < watch.points_max && writes.is_multiple_of(watch.stride)
        });
        if wanted {
            let point = self.cut_point();
            self.watch.as_mut().expect("just seen").points.push(point);
        }
    }

    /// Breaks the devices whose time has come.
    fn break_devices(&mut self) {
        while let Some((device, breakage)) = self.breaks.take_due(self.writes) {
            self.trace_line(|| format!("device {device}: {breakage:?}"));
            let device = &mut self.devices[device];
            match breakage {
                Breakage::Vanishes => device.gone = true,
                Breakage::Hangs => device.hangs = true,
                Breakage::Fails(faults) => device.faults = faults,
            }
        }
    }

    /// Returns the changes that a power cut now could lose.
    pub(super) fn cut_point(&self) -> CutPoint {
        let devices = self.devices.iter().enumerate().map(|(index, device)| {
            let mut unflushed: Vec<_> = device
                .unflushed
                .iter()
                .map(|entry| AtChance {
                    version: entry.version,
                    change: entry.change.clone(),
                    claimed: entry.claimed,
                })
                .collect();
            let versions = self.tick + 1..;
            let in_flight = self
                .flights
                .values()
                .filter(|flight| flight.device == index);
            let pending = in_flight.filter_map(|flight| match &flight.kind {
                FlightKind::Change {
                    pending: Some(change),
                    ..
                } => Some(change.clone()),
                _ => None,
            });
            unflushed.extend(versions.zip(pending).map(|(version, change)| AtChance {
                version,
                change,
                claimed: false,
            }));
            DeviceAtCut {
                durable: Medium {
                    spec: device.spec,
                    image: device.durable.clone(),
                    allocated: device.durable_allocated.clone(),
                    bad: device.bad.clone(),
                    damage: device.damage.clone(),
                    is_joining: device.is_joining,
                    is_away: device.is_away,
                },
                unflushed,
            }
        });
        CutPoint {
            writes: self.writes,
            now: self.now,
            tick: self.tick,
            digest: self.digest,
            host_capacity: self.host_capacity,
            devices: devices.collect(),
        }
    }

    /// Returns the time of the next event.
    pub(super) fn next_time(&self) -> Option<Nanos> {
        let event = self.events.keys().next().map(|&(time, _)| time);
        let deadline = self
            .reactors
            .iter()
            .filter_map(|reactor| reactor.deadline)
            .min();
        event.into_iter().chain(deadline).min()
    }

    /// Moves the clock and lets everything happen that is due by then.
    pub(super) fn advance_to(&mut self, time: Nanos) {
        while let Some((&(due, tick), _)) = self.events.first_key_value() {
            if due > time || self.is_cut {
                break;
            }
            self.now = self.now.max(due);
            match self.events.remove(&(due, tick)).expect("just seen") {
                Event::Complete(number) => self.complete(number),
                Event::Wake(reactor) => self.reactors[reactor].runnable = true,
            }
        }
        self.now = self.now.max(time);
        let now = self.now;
        for reactor in &mut self.reactors {
            if reactor.deadline.is_some_and(|deadline| deadline <= now) {
                reactor.deadline = None;
                reactor.runnable = true;
            }
        }
    }

    /// True if only the caller has references to the world.
    pub(super) fn is_dead(&self) -> bool {
        self.is_cut
    }
}
