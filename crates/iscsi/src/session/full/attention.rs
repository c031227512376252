//! Unit attentions: what a host must be told before its next command is carried out (SAM-5 §5.14).

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use everglade_target::reservations::{Host, Notice, Reservations};

use crate::node::Events;
use crate::scsi::{Sense, Unit};

/// Attentions kept; more of the same are one.
const ATTENTIONS_MAX: usize = 16;

/// The attentions of one session, and what it has seen so far.
pub(super) struct Attention {
    waiting: VecDeque<Sense>,
    resets: u64,
    clears: u64,
    changes: u64,
}

/// What a look around found.
pub(super) struct Found {
    /// Tasks of this session are to be aborted.
    pub(super) aborts: bool,
}

impl Attention {
    pub(super) fn begin(events: &Events, reservations: &Reservations) -> Attention {
        Attention {
            waiting: VecDeque::from([Sense::POWER_ON]),
            resets: events.resets.load(Ordering::Acquire),
            clears: events.clears.load(Ordering::Acquire),
            // Changes before may have left notices for the host.
            changes: reservations.changes().wrapping_sub(1),
        }
    }

    /// Returns the next attention, which is then told.
    pub(super) fn take(&mut self) -> Option<Sense> {
        self.waiting.pop_front()
    }

    /// Notes that this session itself reset the unit. It is told as well as all others.
    pub(super) fn did_reset(&self, events: &Events) {
        events.resets.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that this session itself cleared the tasks of all hosts.
    pub(super) fn did_clear(&mut self, events: &Events) {
        events.clears.fetch_add(1, Ordering::AcqRel);
        // What others cleared meanwhile is still new.
        self.clears += 1;
    }

    /// Looks at what others did. `size` is the size of the LUN, if it still exists.
    pub(super) fn look(
        &mut self,
        unit: &mut Unit,
        size: Option<u64>,
        events: &Events,
        reservations: &Reservations,
        host: &Host,
    ) -> Found {
        let mut aborts = false;
        let resets = events.resets.load(Ordering::Acquire);
        if resets != self.resets {
            self.resets = resets;
            // A reset makes older attentions pointless.
            self.waiting.clear();
            self.put(Sense::WAS_RESET);
            aborts = true;
        }
        let clears = events.clears.load(Ordering::Acquire);
        if clears != self.clears {
            self.clears = clears;
            self.put(Sense::TASKS_CLEARED);
            aborts = true;
        }
        let changes = reservations.changes();
        if changes != self.changes {
            self.changes = changes;
            for notice in reservations.take_notices(host) {
                aborts |= notice == Notice::RegistrationPreempted { aborts: true };
                self.put(match notice {
                    Notice::RegistrationPreempted { .. } => Sense::REGISTRATION_PREEMPTED,
                    Notice::ReservationPreempted => Sense::RESERVATION_PREEMPTED,
                    Notice::ReservationReleased => Sense::RESERVATION_RELEASED,
                });
            }
        }
        if let Some(size) = size
            && size != unit.size_bytes
        {
            unit.size_bytes = size;
            self.put(Sense::CAPACITY_CHANGED);
        }
        Found { aborts }
    }

    fn put(&mut self, sense: Sense) {
        if !self.waiting.contains(&sense) && self.waiting.len() < ATTENTIONS_MAX {
            self.waiting.push_back(sense);
        }
    }
}
