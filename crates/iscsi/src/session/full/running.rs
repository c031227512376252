//! Tasks get memory, work, and end with a status.

use everglade_target::sessions::memory::{Class, REQUEST_BYTES, Reservation};
use everglade_target::{Error, Reply};

use super::super::link::Link;
use super::super::outgoing::Data;
use super::work::{Next, Work, held_by_answer};
use super::{Cx, Full, Keeping};
use crate::metrics::Kind;
use crate::scsi::reserve::Failure;
use crate::scsi::{self, BLOCK_BYTES, Command, Sense, status};
use crate::wire::response::{Residual, Response};

impl Full {
    /// Gives memory to tasks that wait for some, in order.
    pub(super) fn serve_waiting(&mut self, cx: &mut Cx<'_>) {
        while let Some(id) = self.tasks.waiting.front().copied() {
            let task = self.tasks.get_mut(id);
            if !cx.ledger.take(task.held.bytes, task.held.class) {
                return;
            }
            task.has_memory = true;
            task.touched = cx.metrics.now();
            self.tasks.waiting.pop_front();
            self.make_room(id);
            self.progress(id, cx);
        }
    }

    /// Begins the work of a task whose data is there.
    pub(super) fn run(&mut self, id: usize, cx: &mut Cx<'_>) {
        // The data may have taken a while: others may have aborted the task, reserved the unit or
        // made it smaller.
        let Some(command) = self.still_allowed(id, cx) else {
            return;
        };
        if let Err(sense) = self.check_range(&command) {
            return self.end(id, Err(sense), cx);
        }
        let task = self.tasks.get_mut(id);
        let payload = std::mem::take(&mut task.payload);
        match task.command {
            Command::ReserveOut {
                action,
                scope,
                kind,
                ..
            } => {
                let bytes: Vec<u8> = payload.pieces(0, task.keep).flatten().copied().collect();
                let what = (action, scope, kind);
                match scsi::reserve::write(&self.reservations, &self.host, what, &bytes) {
                    Ok(None) => self.reserved(id, scsi::reserve::aborts(action), cx),
                    Ok(Some(ticket)) => {
                        let aborts = scsi::reserve::aborts(action);
                        self.keeping.push(Keeping { id, ticket, aborts });
                    }
                    Err(Failure::Sense(sense)) => self.end(id, Err(sense), cx),
                    Err(Failure::Conflict) => self.end_with_conflict(id, cx),
                }
            }
            Command::ModeSelect { is_long, saves, .. } => {
                let bytes: Vec<u8> = payload.pieces(0, task.keep).flatten().copied().collect();
                let outcome = scsi::mode::select(&self.unit, is_long, saves, &bytes);
                self.end(id, outcome.map(|()| Data::None), cx);
            }
            command => match Work::begin(&command, payload, &self.unit) {
                // Zero blocks, and nothing to do.
                _ if is_empty(&command) => self.end(id, Ok(Data::None), cx),
                Ok(work) => {
                    task.work = Some(work);
                    self.step(id, true, cx);
                }
                Err(sense) => self.end(id, Err(sense), cx),
            },
        }
    }

    /// Looks at what others did. Returns the task's command if it may go on; otherwise the task has
    /// ended, or is gone.
    fn still_allowed(&mut self, id: usize, cx: &mut Cx<'_>) -> Option<Command> {
        self.look_around(cx);
        if !self.tasks.contains(id) {
            return None;
        }
        let command = self.tasks.get_mut(id).command;
        if !self.is_allowed(&command) {
            self.end_with_conflict(id, cx);
            return None;
        }
        Some(command)
    }

    /// Does the next step of a task.
    fn step(&mut self, id: usize, is_first: bool, cx: &mut Cx<'_>) {
        let work = self.tasks.get_mut(id).work.as_mut();
        match work.expect("it has begun").next() {
            Next::Submit(op) => {
                // Between two operations of a command others may come first.
                if !is_first && self.still_allowed(id, cx).is_none() {
                    return;
                }
                self.tasks.submitted(id);
                let token = cx.token_base + id as u64;
                cx.target.submit(self.lun, op, token);
            }
            Next::End(outcome) => self.end(id, outcome, cx),
        }
    }

    /// Takes a finished operation.
    pub(super) fn operation_ended(
        &mut self,
        id: usize,
        result: Result<Reply, Error>,
        is_abandoned: bool,
        cx: &mut Cx<'_>,
    ) {
        let task = self.tasks.completed(id);
        if task.is_aborted || is_abandoned {
            return self.drop_task(id, cx);
        }
        let writes = task.command.writes() || matches!(task.command, Command::Flush(_));
        match task.work.as_mut().expect("it works").took(result, writes) {
            Ok(()) => self.step(id, false, cx),
            Err(sense) => self.end(id, Err(sense), cx),
        }
    }

    /// Ends a task with its status.
    pub(super) fn end(&mut self, id: usize, outcome: Result<Data, Sense>, cx: &mut Cx<'_>) {
        let task = self.tasks.remove(id);
        let range = task.command.range();
        let bytes = range.map_or(0, |range| range.blocks * u64::from(BLOCK_BYTES));
        let kind = kind_of(&task.command);
        cx.metrics
            .replied(kind, task.since, bytes, outcome.is_err());
        let answered = match kind {
            Kind::Read => Some(&mut self.tally.reads),
            Kind::Write => Some(&mut self.tally.writes),
            _ => None,
        };
        if let (Some(answered), Ok(_)) = (answered, &outcome) {
            answered.add(cx.metrics.now().saturating_sub(task.since), bytes);
        }
        self.open_window(cx);
        let held = match &outcome {
            Ok(_) => held_by_answer(&task.command, task.held),
            Err(_) => request_only(task.held),
        };
        let freed = task.held.bytes - held.bytes;
        cx.ledger.give(Reservation {
            bytes: freed,
            class: held.class,
        });
        match outcome {
            Ok(Data::None) if task.moves > 0 => {
                let residual = residual(task.expected, task.moves);
                let response = Response::Status {
                    itt: task.itt,
                    status: status::GOOD,
                    residual,
                    exp_data_sn: 0,
                };
                cx.link.send_holding(&response, Data::None, held, true);
            }
            Ok(data) => send_data(task.itt, task.expected, data, held, cx),
            Err(sense) => send_sense(task.itt, task.expected, &sense, held, cx.link),
        }
        self.management.task_gone(id, cx.link);
    }

    fn end_with_conflict(&mut self, id: usize, cx: &mut Cx<'_>) {
        let task = self.tasks.remove(id);
        cx.metrics
            .replied(kind_of(&task.command), task.since, 0, true);
        self.open_window(cx);
        cx.ledger.give(task.held);
        let none = Reservation::none(Class::Small);
        send_status(
            task.itt,
            status::RESERVATION_CONFLICT,
            task.expected,
            none,
            cx.link,
        );
        self.management.task_gone(id, cx.link);
    }

    /// Ends a task without a status.
    pub(super) fn drop_task(&mut self, id: usize, cx: &mut Cx<'_>) {
        let task = self.tasks.remove(id);
        if task.has_memory {
            cx.ledger.give(task.held);
        }
        self.open_window(cx);
        self.fences.retain(|(fence, _)| *fence != id);
        self.keeping.retain(|it| it.id != id);
        self.management.task_gone(id, cx.link);
        self.acknowledge();
    }

    /// Returns whether reservations allow a command.
    pub(super) fn is_allowed(&self, command: &Command) -> bool {
        let access = command.access();
        access.is_none_or(|access| self.reservations.may(&self.host, access))
    }
}

/// Returns whether a command is about no blocks at all.
fn is_empty(command: &Command) -> bool {
    match command {
        // No blocks mean all.
        Command::WriteSame { .. } | Command::Flush(_) => false,
        command => command.range().is_some_and(|range| range.blocks == 0),
    }
}

fn request_only(held: Reservation) -> Reservation {
    Reservation {
        bytes: held.bytes.min(REQUEST_BYTES),
        class: held.class,
    }
}

/// Returns how a command is counted.
pub(super) fn kind_of(command: &Command) -> Kind {
    match command {
        Command::Read(_) => Kind::Read,
        Command::Write { .. } | Command::WriteAndVerify { .. } => Kind::Write,
        Command::Flush(_) => Kind::Flush,
        Command::Unmap { .. } => Kind::Unmap,
        Command::WriteSame { .. } => Kind::WriteSame,
        Command::CompareAndWrite { .. } | Command::OrWrite { .. } => Kind::CompareAndWrite,
        Command::Verify { .. } | Command::Prefetch(_) => Kind::Verify,
        Command::ReserveIn { .. } | Command::ReserveOut { .. } => Kind::Reserve,
        _ => Kind::Other,
    }
}

fn residual(expected: u32, moved: u64) -> Residual {
    let saturated = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let expected = u64::from(expected);
    match expected.cmp(&moved) {
        std::cmp::Ordering::Equal => Residual::None,
        std::cmp::Ordering::Greater => Residual::Underflow(saturated(expected - moved)),
        std::cmp::Ordering::Less => Residual::Overflow(saturated(moved - expected)),
    }
}

/// Queues the data of a command that succeeded, in as many messages as the initiator needs, the
/// last with the status. `room` is what the initiator has room for.
pub(super) fn send_data(itt: u32, room: u32, data: Data, held: Reservation, cx: &mut Cx<'_>) {
    let (segment, burst) = (
        cx.parameters.initiator_segment_bytes,
        cx.parameters.max_burst_bytes,
    );
    let length = data.length();
    let residual = residual(room, u64::from(length));
    let sent = length.min(room);
    if sent == 0 {
        let response = Response::Status {
            itt,
            status: status::GOOD,
            residual,
            exp_data_sn: 0,
        };
        return cx.link.send_holding(&response, Data::None, held, true);
    }
    let mut whole = Some(data);
    let mut offset = 0;
    let mut data_sn = 0;
    while offset < sent {
        let left_of_burst = burst - offset % burst;
        let now = (sent - offset).min(segment).min(left_of_burst);
        let is_last = offset + now == sent;
        let response = Response::DataIn {
            is_final: is_last || now == left_of_burst,
            status: is_last.then_some((status::GOOD, residual)),
            itt,
            data_sn,
            offset,
        };
        let all = whole.as_ref().expect("there is more to send");
        let (part, held) = match is_last {
            true if now == length => (whole.take().expect("all of it"), held),
            true => (all.part(offset, now), held),
            false => (all.part(offset, now), Reservation::none(held.class)),
        };
        cx.link.send_holding(&response, part, held, is_last);
        offset += now;
        data_sn += 1;
    }
}

/// Queues the failure of a command.
pub(super) fn send_sense(
    itt: u32,
    expected: u32,
    sense: &Sense,
    held: Reservation,
    link: &mut Link,
) {
    let response = Response::Status {
        itt,
        status: status::CHECK_CONDITION,
        residual: residual(expected, 0),
        exp_data_sn: 0,
    };
    let sense = sense.fixed();
    let length = u16::try_from(sense.len()).expect("18 bytes");
    let data = [&length.to_be_bytes()[..], &sense].concat();
    link.send_holding(&response, Data::Bytes(data), held, true);
}

/// Queues another status, without data.
pub(super) fn send_status(itt: u32, status: u8, expected: u32, held: Reservation, link: &mut Link) {
    let response = Response::Status {
        itt,
        status,
        residual: residual(expected, 0),
        exp_data_sn: 0,
    };
    link.send_holding(&response, Data::None, held, true);
}
