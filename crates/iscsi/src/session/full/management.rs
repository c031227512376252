//! Task management and logout (RFC 7143 §11.5, §11.14).
//!
//! An operation that was submitted cannot be taken back. So a task that is to be aborted while its
//! operation is under way is only marked: it gets no status, and the function that aborts it is
//! answered when the last of its tasks is gone. After the answer nothing of them happens any more.

use std::sync::Arc;

use super::super::link::Link;
use super::super::outgoing::Data;
use super::command::is_unit_0;
use super::{Cx, Full, Goes};
use crate::node::{Events, Member};
use crate::wire::request;
use crate::wire::response::Response;

/// Functions.
mod functions {
    pub(super) const ABORT_TASK: u8 = 1;
    pub(super) const ABORT_TASK_SET: u8 = 2;
    pub(super) const CLEAR_TASK_SET: u8 = 4;
    pub(super) const LUN_RESET: u8 = 5;
    pub(super) const TARGET_WARM_RESET: u8 = 6;
    pub(super) const TASK_REASSIGN: u8 = 8;
}

/// Answers to functions.
mod answers {
    pub(super) const DONE: u8 = 0;
    pub(super) const NO_SUCH_TASK: u8 = 1;
    pub(super) const NO_SUCH_UNIT: u8 = 2;
    pub(super) const NO_REASSIGNMENT: u8 = 4;
    pub(super) const NOT_SUPPORTED: u8 = 5;
}

/// Answers to logouts.
mod logouts {
    pub(super) const DONE: u8 = 0;
    pub(super) const NO_SUCH_CONNECTION: u8 = 1;
    pub(super) const NO_RECOVERY: u8 = 2;
}

/// Functions and a logout that wait for tasks.
#[derive(Default)]
pub(super) struct Management {
    waiting: Vec<Waiting>,
    is_ending: bool,
}

struct Waiting {
    answer: Response,
    /// Tasks that must be gone before the answer.
    tasks: Vec<usize>,
    /// Other sessions must have reached this generation of aborts before the answer.
    fence: Option<Fence>,
}

/// What other sessions must have reached.
struct Fence {
    events: Arc<Events>,
    member: Member,
    generation: u64,
}

impl Fence {
    fn is_open(&self) -> bool {
        self.events.have_reached(self.generation, &self.member)
    }
}

impl Management {
    /// Queues the answers that waited for this task only.
    pub(super) fn task_gone(&mut self, id: usize, link: &mut Link) {
        for waiting in &mut self.waiting {
            waiting.tasks.retain(|other| *other != id);
        }
        self.send_ready(link);
    }

    fn answer(
        &mut self,
        answer: Response,
        tasks: Vec<usize>,
        fence: Option<Fence>,
        link: &mut Link,
    ) {
        self.waiting.push(Waiting {
            answer,
            tasks,
            fence,
        });
        self.send_ready(link);
    }

    /// Queues the answers that need not wait any more.
    pub(super) fn send_ready(&mut self, link: &mut Link) {
        self.waiting.retain(|waiting| {
            let is_open = waiting.fence.as_ref().is_none_or(Fence::is_open);
            let is_ready = waiting.tasks.is_empty() && is_open;
            if is_ready {
                link.send(&waiting.answer, Data::None);
            }
            !is_ready
        });
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether the session goes on.
    pub(super) fn goes(&self) -> Goes {
        match self.is_ending && self.waiting.is_empty() {
            true => Goes::ToItsEnd,
            false => Goes::On,
        }
    }
}

impl Full {
    /// Carries out a task management function.
    pub(super) fn manage(&mut self, asked: &request::TaskManagement, cx: &mut Cx<'_>) {
        let (response, tasks) = match asked.function {
            functions::ABORT_TASK => match self.tasks.by_tag(asked.referenced) {
                Some(id) => (answers::DONE, vec![id]),
                None => (answers::NO_SUCH_TASK, Vec::new()),
            },
            _ if !is_unit_0(asked.lun) => (answers::NO_SUCH_UNIT, Vec::new()),
            functions::ABORT_TASK_SET => (answers::DONE, self.tasks.ids()),
            functions::CLEAR_TASK_SET => {
                self.attention.did_clear(&self.events);
                (answers::DONE, self.tasks.ids())
            }
            // The target has one unit.
            functions::LUN_RESET | functions::TARGET_WARM_RESET => {
                self.attention.did_reset(&self.events);
                (answers::DONE, self.tasks.ids())
            }
            functions::TASK_REASSIGN => (answers::NO_REASSIGNMENT, Vec::new()),
            _ => (answers::NOT_SUPPORTED, Vec::new()),
        };
        let answer = Response::TaskManagement {
            itt: asked.itt,
            response,
        };
        let left = self.abort(tasks, cx);
        let concerns_others = matches!(
            asked.function,
            functions::CLEAR_TASK_SET | functions::LUN_RESET | functions::TARGET_WARM_RESET
        );
        let fence = (concerns_others && response == answers::DONE).then(|| Fence {
            events: Arc::clone(&self.events),
            member: self.member.clone(),
            generation: self.events.advance(),
        });
        self.management.answer(answer, left, fence, cx.link);
    }

    /// Aborts all tasks.
    pub(super) fn abort_all(&mut self, cx: &mut Cx<'_>) {
        let tasks = self.tasks.ids();
        self.abort(tasks, cx);
    }

    /// Aborts tasks. Returns those that are not gone yet.
    fn abort(&mut self, tasks: Vec<usize>, cx: &mut Cx<'_>) -> Vec<usize> {
        // All are marked first: nobody is told that nothing is left while some are unmarked.
        for id in &tasks {
            self.tasks.get_mut(*id).is_aborted = true;
        }
        let mut left = Vec::new();
        for id in tasks {
            let task = self.tasks.get_mut(id);
            if task.in_flight || task.is_receiving {
                left.push(id);
            } else {
                self.drop_task(id, cx);
            }
        }
        left
    }

    /// Ends the session, after its tasks.
    pub(super) fn log_out(&mut self, asked: &request::Logout, cx: &mut Cx<'_>) -> Goes {
        let response = match asked.reason {
            0 => logouts::DONE,
            1 if asked.cid == self.cid => logouts::DONE,
            1 => logouts::NO_SUCH_CONNECTION,
            _ => logouts::NO_RECOVERY,
        };
        let answer = Response::Logout {
            itt: asked.itt,
            response,
        };
        let mut left = Vec::new();
        if response == logouts::DONE {
            left = self.abort(self.tasks.ids(), cx);
            self.management.is_ending = true;
        }
        self.management.answer(answer, left, None, cx.link);
        self.management.goes()
    }
}
