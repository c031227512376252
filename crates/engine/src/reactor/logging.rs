//! Leading groups of the journal, and waiting for them (C-02, O-15, docs/design/design.md §5).
//!
//! ```text
//! wait ─▶ want(sequence) ─▶ begin_group ─▶ writes ─▶ end ─▶ wake those whose sequence is durable
//!                               ▲                     │ somebody still waits, or much is queued
//!                               └─────────────────────┘
//! ```
//!
//! 1. An operation asks for a group (`Log::want`) before it checks whether a group can begin. The
//!    leader checks for such requests after it has ended a group. Both checks are made under the
//!    queue's mutex, so no request is missed.
//! 2. A group that cannot be written halts the aggregate: otherwise its operations, and all later
//!    ones, would be missing from the journal (docs/design/design.md §5). A halted aggregate begins
//!    no group.
//! 3. A group goes to all usable drives of the journal's column. While a drive is lost and that is
//!    not recorded, a start might use this drive alone. So no group begins, and a group that was
//!    under way is *held*: it ends with the consistency point that records the loss.

use std::sync::Arc;

use everglade_env::{DiskError, Op, Outside};
use everglade_journal::Finished;

use crate::media::devices::Scope;
use crate::pool::aggregate::Aggregate;
use crate::pool::cpu::Subsystem;
use crate::pool::log::Begun;
use crate::reactor::Core;
use crate::reactor::loading::Inflight;
use crate::shared::Message;

/// A group under way.
pub(super) struct LeadGroup {
    /// Writes that have not completed.
    left: usize,
    failure: Option<DiskError>,
    finished: Finished,
    /// It is written, and waits until a loss is recorded.
    is_held: bool,
}

impl<O: Outside> Core<O> {
    /// Makes an operation wait until the journal is durable up to `sequence`.
    pub(super) fn wait_for_log(&mut self, id: usize, aggregate: &Arc<Aggregate>, sequence: u64) {
        let log = aggregate.log.as_ref().expect("called where there is one");
        log.want(sequence, self.index);
        self.logging
            .entry(aggregate.id)
            .or_default()
            .insert((sequence, id));
        self.begin_group(aggregate);
        if log.durable() >= sequence {
            // The operation became durable before it was known to wait.
            self.wake_logged(aggregate.id);
        }
    }

    /// Makes an operation wait until the journal has got on, because too much memory waits for it.
    pub(super) fn wait_for_room(&mut self, id: usize, aggregate: &Arc<Aggregate>) {
        let log = aggregate.log.as_ref().expect("called where there is one");
        self.wait_for_log(id, aggregate, log.durable() + 1);
    }

    /// Begins a group if a group is wanted and none is under way.
    pub(super) fn begin_group(&mut self, aggregate: &Arc<Aggregate>) {
        let log = aggregate.log.as_ref().expect("called where there is one");
        if aggregate.is_halted() {
            return;
        }
        if aggregate.media.is_waiting() {
            return self.ask_for_commit(aggregate);
        }
        match log.begin() {
            Begun::Group(group) => {
                let before = self.enter(Subsystem::Journal);
                let nanos = self.outside.wall_seconds().saturating_mul(1_000_000_000);
                let (writes, finished) = group.encode(&aggregate.key, nanos);
                let known = self.groups.insert(
                    aggregate.id,
                    LeadGroup {
                        left: writes.len(),
                        failure: None,
                        finished,
                        is_held: false,
                    },
                );
                assert!(known.is_none(), "one group at a time");
                // With groups it goes to all drives that have the journal.
                let device = aggregate.media.first_of(log.member());
                for write in writes {
                    let op = Op::Write {
                        device,
                        offset: log.offset(write.block),
                        pages: write.pages,
                        durable: true,
                    };
                    let aggregate = aggregate.id;
                    let journal = (aggregate, Scope::Journal);
                    self.submit_to_column(journal, op, Inflight::Log { aggregate });
                }
                self.enter(before);
            }
            Begun::Nothing => {}
            Begun::Full => {
                if aggregate.want_cp(aggregate.joining()) {
                    self.outside.wake(aggregate.home);
                }
            }
        }
        if log.is_filling() {
            self.outside.wake(aggregate.home);
        }
    }

    pub(super) fn complete_log(&mut self, number: u32, result: Result<(), DiskError>) {
        let group = self.groups.get_mut(&number).expect("led here");
        group.left -= 1;
        if let Err(error) = result {
            group.failure.get_or_insert(error);
        }
        if group.left > 0 {
            return;
        }
        if let Some(error) = group.failure {
            self.groups.remove(&number);
            return self
                .halt_aggregate(number, format!("the journal could not be written: {error}"));
        }
        group.is_held = true;
        self.end_held_group(number);
    }

    /// Ends a group that is written, unless it must be held.
    pub(super) fn end_held_group(&mut self, number: u32) {
        if !self.groups.get(&number).is_some_and(|group| group.is_held) {
            return;
        }
        let aggregate = self.shared.aggregate(number);
        if aggregate.media.is_waiting() {
            // A halted aggregate commits nothing any more.
            return self.ask_for_commit(&aggregate);
        }
        let group = self.groups.remove(&number).expect("looked at above");
        let log = aggregate.log.as_ref().expect("it was written");
        log.end(group.finished);
        self.begin_group(&aggregate);
        for reactor in log.take_waiting(self.shared.mailboxes.len()) {
            if reactor == self.index {
                self.wake_logged(number);
            } else {
                self.post(reactor, Message::Logged(number));
            }
        }
    }

    /// Wakes operations whose sequence is durable. The others are noted as waiting again.
    pub(super) fn wake_logged(&mut self, aggregate: u32) {
        let shared = self.shared.aggregate(aggregate);
        let log = shared.log.as_ref().expect("somebody waits for it");
        loop {
            let Some(waiting) = self.logging.get_mut(&aggregate) else {
                return;
            };
            let durable = log.durable();
            let later = waiting.split_off(&(durable.saturating_add(1), 0));
            let ready = std::mem::replace(waiting, later);
            let last = waiting.last().map(|(last, _)| *last);
            for (_, id) in ready {
                self.enqueue(id);
            }
            let Some(last) = last else { return };
            log.want(last, self.index);
            if log.durable() == durable {
                return;
            }
        }
    }

    /// Wakes all operations that wait for the journal, after a commit or at the end of the
    /// aggregate.
    pub(super) fn wake_all_logging(&mut self, aggregate: u32) {
        for (_, id) in self.logging.remove(&aggregate).unwrap_or_default() {
            self.enqueue(id);
        }
    }
}
