//! Tasks: commands from their arrival to their status.
//!
//! ```text
//! arrives --> waits for memory --> receives data --> works --> status
//!                                     |   ^
//!                                     +---+  immediate, unsolicited, asked for (R2T)
//! ```
//!
//! A task that is aborted gets no status. It stays until none of its operations is under way.

use std::collections::{HashMap, VecDeque};

use everglade_env::Nanos;
use everglade_target::sessions::memory::Reservation;
use slab::Slab;

use super::super::payload::Payload;
use super::work::Work;
use crate::scsi::Command;

/// A command under way.
#[derive(Debug)]
pub(super) struct Task {
    /// Tag.
    pub(super) itt: u32,
    /// It counts for the window.
    pub(super) is_immediate: bool,
    pub(super) lun: u64,
    pub(super) command: Command,
    /// Bytes that the initiator sends, or has room for.
    pub(super) expected: u32,
    /// Bytes that the command would move.
    pub(super) moves: u64,
    pub(super) since: Nanos,
    /// When it got its memory, or the last of its data.
    pub(super) touched: Nanos,
    /// The memory that it has, or waits for.
    pub(super) held: Reservation,
    pub(super) has_memory: bool,
    pub(super) payload: Payload,
    /// Bytes of data that are used. More may come if the initiator announced more.
    pub(super) keep: u32,
    /// Bytes that came.
    pub(super) received: u32,
    /// More will come without being asked for.
    pub(super) unsolicited: bool,
    /// Number of the next unsolicited message.
    pub(super) data_sn: u32,
    /// Data of it is being received.
    pub(super) is_receiving: bool,
    /// Bytes that came or were asked for.
    pub(super) asked: u32,
    pub(super) r2ts: VecDeque<ReadyToTransfer>,
    /// R2Ts that were sent.
    pub(super) r2t_count: u32,
    pub(super) work: Option<Work>,
    /// An operation is under way.
    pub(super) in_flight: bool,
    pub(super) is_aborted: bool,
}

/// A request for data that is not answered completely.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadyToTransfer {
    pub(super) ttt: u32,
    /// Bytes that are still to come.
    pub(super) left: u32,
    /// Number of the next message.
    pub(super) data_sn: u32,
}

impl Task {
    /// Returns whether more data must come before the command can be carried out.
    pub(super) fn awaits_data(&self) -> bool {
        self.unsolicited || self.is_receiving || self.received < self.keep
    }
}

/// The tasks of a session.
#[derive(Default)]
pub(super) struct Tasks {
    slots: Slab<Task>,
    by_tag: HashMap<u32, usize>,
    /// Tasks that wait for memory, in order.
    pub(super) waiting: VecDeque<usize>,
    /// Tasks that count for the window.
    ordered: u32,
    in_flight: usize,
}

impl Tasks {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Tasks that count for the window.
    pub(super) fn ordered(&self) -> u32 {
        self.ordered
    }

    pub(super) fn operations_in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn insert(&mut self, task: Task) -> usize {
        self.ordered += u32::from(!task.is_immediate);
        let itt = task.itt;
        let id = self.slots.insert(task);
        let before = self.by_tag.insert(itt, id);
        assert!(before.is_none(), "tags in use are refused");
        id
    }

    pub(super) fn remove(&mut self, id: usize) -> Task {
        let task = self.slots.remove(id);
        assert!(!task.in_flight, "its operations have ended");
        self.ordered -= u32::from(!task.is_immediate);
        self.by_tag.remove(&task.itt);
        if !task.has_memory {
            self.waiting.retain(|other| *other != id);
        }
        task
    }

    pub(super) fn by_tag(&self, itt: u32) -> Option<usize> {
        self.by_tag.get(&itt).copied()
    }

    pub(super) fn contains(&self, id: usize) -> bool {
        self.slots.contains(id)
    }

    /// Returns whether a task that was aborted is not gone yet.
    pub(super) fn any_aborted(&self) -> bool {
        self.slots.iter().any(|(_, task)| task.is_aborted)
    }

    /// Returns tasks that have memory for data of which nothing came since `before`.
    pub(super) fn stuck_since(&self, before: Nanos) -> Vec<usize> {
        let stuck = self.slots.iter().filter(|(_, task)| {
            let holds = task.has_memory && task.work.is_none() && task.awaits_data();
            holds && !task.is_receiving && task.touched < before
        });
        stuck.map(|(id, _)| id).collect()
    }

    pub(super) fn get_mut(&mut self, id: usize) -> &mut Task {
        &mut self.slots[id]
    }

    pub(super) fn ids(&self) -> Vec<usize> {
        self.slots.iter().map(|(id, _)| id).collect()
    }

    /// Notes that an operation of a task begins.
    pub(super) fn submitted(&mut self, id: usize) {
        let task = &mut self.slots[id];
        assert!(!task.in_flight, "one operation at a time");
        task.in_flight = true;
        self.in_flight += 1;
    }

    /// Notes that the operation of a task has ended.
    pub(super) fn completed(&mut self, id: usize) -> &mut Task {
        let task = &mut self.slots[id];
        assert!(task.in_flight, "an operation ends once");
        task.in_flight = false;
        self.in_flight -= 1;
        task
    }

    /// Returns whether a task has memory for data that its initiator still has to send.
    pub(super) fn holds_payload(&self) -> bool {
        self.slots
            .iter()
            .any(|(_, task)| task.has_memory && task.held.bytes > 0 && task.awaits_data())
    }
}
