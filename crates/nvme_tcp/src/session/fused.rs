//! Compare and Write as one operation (base "Fused Operations").
//!
//! ```text
//! Compare, first half --next is its Write--> paired --both have their data--> one operation
//!        |--next is another command--> "missing", when its data has come
//!        |--refused--> its Write is refused as well
//! ```
//!
//! Either both halves succeed, or the first that fails says why and the other says that it failed
//! for the other. The answers are in the order of the commands.

use everglade_target::{Op, Target};

use super::outgoing::Data;
use super::requests::{Payload, Work};
use super::{Phase, Session};
use crate::wire::Status;
use crate::wire::sqe::Fuse;

/// Where the queue is in a fused operation.
#[derive(Debug, Default)]
pub(super) enum Fused {
    /// Nowhere.
    #[default]
    None,
    /// The last command was the first half.
    First {
        row: usize,
        /// Namespace, first block and number of blocks, which the second half must repeat.
        range: (u32, u64, u32),
    },
    /// The last command was a first half that was answered with an error.
    FirstFailed,
}

impl Fused {
    /// The row of a first half.
    pub(super) fn first(&self) -> Option<usize> {
        match self {
            Fused::First { row, .. } => Some(*row),
            Fused::None | Fused::FirstFailed => None,
        }
    }

    /// The row of a first half whose second half will not come.
    pub(super) fn waiting(self) -> Option<usize> {
        self.first()
    }
}

impl Session {
    /// Notes an admitted command: it is a half of a fused operation, or ends one that is
    /// incomplete.
    pub(super) fn note_fused(&mut self, row: usize) {
        let Phase::Queue(queue) = &mut self.phase else {
            unreachable!("called for a queue")
        };
        let before = std::mem::take(&mut queue.fused);
        let request = self.requests.row(row);
        match &request.work {
            Work::FusedCompare { .. } => {
                let blocks = request.length >> crate::wire::identify::BLOCK_SHIFT;
                let first = request.offset >> crate::wire::identify::BLOCK_SHIFT;
                let namespaces = queue.namespaces();
                let id = namespaces
                    .filter(|it| it.lun == request.lun)
                    .map(|it| it.id)
                    .next();
                queue.fused = Fused::First {
                    row,
                    range: (id.expect("the namespace is open"), first, blocks),
                };
            }
            Work::FusedWrite { first, .. } => {
                let first = first.expect("it was looked at when the command was judged");
                if let Work::FusedCompare { second, .. } = &mut self.requests.row(first).work {
                    *second = Some(row);
                }
                return;
            }
            _ => {}
        }
        if let Some(first) = before.waiting() {
            self.fail_first(first, Fuse::Alone);
        }
    }

    /// Fails a first half whose second half is missing, or was refused.
    pub(super) fn fail_first(&mut self, first: usize, refused: Fuse) {
        let status = match refused {
            Fuse::Second => Status::FAILED_FUSED,
            _ => Status::MISSING_FUSED,
        };
        self.fail_half(first, status);
    }

    /// Ends a half with an error, at once or when its data has come.
    fn fail_half(&mut self, row: usize, status: Status) {
        let request = self.requests.row(row);
        if !request.status.is_error() {
            request.status = status;
        }
        if request.has_payload() {
            self.finish(row, Data::None);
        }
    }

    /// A half whose data has come: keeps it, and begins the operation if the other half is there.
    pub(super) fn run_half(&mut self, row: usize, target: &mut dyn Target) {
        let request = self.requests.row(row);
        if request.status.is_error() {
            return self.half_failed(row);
        }
        let Payload::Span { span, .. } = std::mem::replace(&mut request.payload, Payload::None)
        else {
            unreachable!("a half has blocks")
        };
        let (first, second) = match &mut request.work {
            Work::FusedCompare { data, second } => {
                *data = Some(span);
                (row, *second)
            }
            Work::FusedWrite { first, data } => {
                *data = Some(span);
                // A half whose first half is answered has an error.
                (first.expect("the other half"), Some(row))
            }
            _ => unreachable!("a half of a fused operation"),
        };
        let Some(second) = second else {
            return;
        };
        let has_both = [first, second].into_iter().all(|half| {
            let work = self.requests.get(half).map(|half| &half.work);
            matches!(
                work,
                Some(
                    Work::FusedCompare { data: Some(_), .. }
                        | Work::FusedWrite { data: Some(_), .. }
                )
            )
        });
        if has_both {
            self.submit_fused(first, second, target);
        }
    }

    fn submit_fused(&mut self, first: usize, second: usize, target: &mut dyn Target) {
        let compare = match &mut self.requests.row(first).work {
            Work::FusedCompare { data, .. } => data.take(),
            _ => None,
        };
        let request = self.requests.row(second);
        let data = match &mut request.work {
            Work::FusedWrite { data, .. } => data.take(),
            _ => None,
        };
        let op = Op::CompareAndWrite {
            compare: compare.expect("it was looked at"),
            data: data.expect("it was looked at"),
            durable: request.durable,
        };
        let lun = request.lun;
        self.submit(second, lun, op, target);
    }

    /// Returns whether the row is the first half of an operation in flight.
    pub(super) fn is_half_in_flight(&self, row: usize) -> bool {
        let work = self.requests.get(row).map(|request| &request.work);
        let Some(Work::FusedCompare {
            second: Some(second),
            ..
        }) = work
        else {
            return false;
        };
        self.requests
            .get(*second)
            .is_some_and(|it| it.in_flight > 0)
    }

    /// Takes the two halves apart, and returns the other one. Rows are used again, so a half that
    /// is answered must not be named any more.
    fn take_apart(&mut self, row: usize) -> Option<usize> {
        let other = match &mut self.requests.row(row).work {
            Work::FusedCompare { second, .. } => second.take(),
            Work::FusedWrite { first, .. } => first.take(),
            _ => unreachable!("a half of a fused operation"),
        }?;
        match &mut self.requests.row(other).work {
            Work::FusedCompare { second, .. } => *second = None,
            Work::FusedWrite { first, .. } => *first = None,
            _ => unreachable!("the halves name each other"),
        }
        Some(other)
    }

    /// A half has failed before the operation began: the other half fails with it.
    fn half_failed(&mut self, row: usize) {
        let other = self.take_apart(row);
        let Phase::Queue(queue) = &mut self.phase else {
            unreachable!("called for a queue")
        };
        if queue.fused.first() == Some(row) {
            queue.fused = Fused::FirstFailed;
        }
        let is_first = matches!(self.requests.row(row).work, Work::FusedCompare { .. });
        // The first half is answered first.
        if is_first {
            self.finish(row, Data::None);
        }
        if let Some(other) = other {
            self.fail_half(other, Status::FAILED_FUSED);
        }
        if !is_first {
            self.finish(row, Data::None);
        }
    }

    /// The operation has ended with this status.
    pub(super) fn fused_ended(&mut self, second: usize, status: Status) {
        let of_second = match status.is_error() {
            true => Status::FAILED_FUSED,
            false => Status::SUCCESS,
        };
        if let Some(first) = self.take_apart(second) {
            self.requests.row(first).status = status;
            self.finish(first, Data::None);
        }
        self.requests.row(second).status = of_second;
        self.finish(second, Data::None);
    }
}
