//! A command arrives: it is refused, answered at once, or becomes a task.

use std::collections::VecDeque;

use everglade_target::sessions::memory::{Class, REQUEST_BYTES, Reservation};

use super::super::outgoing::Data;
use super::super::payload::Payload;
use super::super::segment::Dest;
use super::running::{kind_of, send_data, send_sense, send_status};
use super::task::Task;
use super::{Admission, Cx, Full, IMMEDIATE_MAX, reject, reject_message, work};
use crate::scsi::cdb::Check;
use crate::scsi::reserve::Failure;
use crate::scsi::{self, BLOCK_BYTES, Command, Sense, status};
use crate::wire::header::Header;
use crate::wire::{Bhs, request};

/// Longest list of parameters that is taken: that of UNMAP with all ranges.
const PARAMETER_BYTES_MAX: u64 = 8192;

/// What becomes of a command.
enum Verdict {
    /// It is answered at once, with this data.
    Answer(Vec<u8>),
    /// It fails at once.
    Fail(Sense),
    /// Another host has a reservation.
    Conflict,
    /// It takes these bytes of data, and may need storage.
    Run {
        command: Command,
        keep: u32,
        /// Bytes that the command would take.
        moves: u64,
    },
}

impl From<Failure> for Verdict {
    fn from(failure: Failure) -> Verdict {
        match failure {
            Failure::Sense(sense) => Verdict::Fail(sense),
            Failure::Conflict => Verdict::Conflict,
        }
    }
}

impl Full {
    /// Decides about a command whose header has arrived.
    pub(super) fn command(
        &mut self,
        bhs: &Bhs,
        asked: &request::Command,
        header: &Header,
        cx: &mut Cx<'_>,
    ) -> Admission {
        let immediate = self.tasks.len() - self.tasks.ordered() as usize;
        let refusal = if self.tasks.by_tag(asked.itt).is_some() {
            Some(reject::TASK_IN_PROGRESS)
        } else if header.is_immediate && immediate >= IMMEDIATE_MAX {
            Some(reject::TOO_MANY_IMMEDIATE)
        } else {
            None
        };
        if let Some(reason) = refusal {
            self.number(header, cx);
            reject_message(bhs, reason, cx.link);
            return Admission::Receive(Dest::Skip);
        }
        self.look_around(cx);
        let expected = match asked.reads || asked.writes {
            true => asked.expected_bytes,
            false => 0,
        };
        let since = cx.metrics.now();
        let verdict = self.judge(asked, header, cx);
        let count = |failed: bool, cx: &Cx<'_>| match Command::decode(&asked.cdb) {
            Ok(command) => cx.metrics.replied(kind_of(&command), since, 0, failed),
            Err(_) => cx.metrics.refused(),
        };
        let none = Reservation::none(Class::Small);
        match verdict {
            Verdict::Run {
                command,
                keep,
                moves,
            } => return self.begin_task(asked, header, (command, keep, moves), cx),
            Verdict::Answer(bytes) => {
                self.number(header, cx);
                count(false, cx);
                let room = if asked.reads { expected } else { 0 };
                send_data(asked.itt, room, Data::Bytes(bytes), none, cx);
            }
            Verdict::Fail(sense) => {
                self.number(header, cx);
                count(true, cx);
                send_sense(asked.itt, expected, &sense, none, cx.link);
            }
            Verdict::Conflict => {
                self.number(header, cx);
                count(true, cx);
                send_status(
                    asked.itt,
                    status::RESERVATION_CONFLICT,
                    expected,
                    none,
                    cx.link,
                );
            }
        }
        Admission::Receive(Dest::Skip)
    }

    /// Takes the command's number.
    fn number(&self, header: &Header, cx: &mut Cx<'_>) {
        if !header.is_immediate {
            cx.link.advance();
            self.open_window(cx);
        }
    }

    /// Decides what becomes of a command. Unit attentions that it is told are gone.
    fn judge(&mut self, asked: &request::Command, header: &Header, cx: &Cx<'_>) -> Verdict {
        let decoded = Command::decode(&asked.cdb);
        if !is_unit_0(asked.lun) {
            return match decoded {
                Ok(command) => Self::answer_nobody(&command),
                Err(sense) => Verdict::Fail(sense),
            };
        }
        if cx.target.size_bytes(self.lun).is_none() {
            return Verdict::Fail(Sense::NO_SUCH_UNIT);
        }
        let is_told_later = decoded.is_ok_and(|command| command.ignores_attention());
        if !is_told_later && let Some(sense) = self.attention.take() {
            return Verdict::Fail(sense);
        }
        let command = match decoded {
            Ok(command) => command,
            Err(sense) => return Verdict::Fail(sense),
        };
        if !self.is_allowed(&command) {
            return Verdict::Conflict;
        }
        if let Some(answered) = self.answer(&command) {
            return match answered {
                Ok(bytes) => Verdict::Answer(bytes),
                Err(sense) => Verdict::Fail(sense),
            };
        }
        match self.check(&command, asked, header, cx) {
            Ok((whole, keep)) => Verdict::Run {
                command: whole,
                keep,
                moves: command.bytes_out(),
            },
            Err(sense) => Verdict::Fail(sense),
        }
    }

    /// Answers a command to a unit that does not exist.
    fn answer_nobody(command: &Command) -> Verdict {
        match *command {
            Command::Inquiry { page, room } => match scsi::inquiry::answer(None, page) {
                Ok(bytes) => Verdict::Answer(scsi::unit::within(bytes, room)),
                Err(sense) => Verdict::Fail(sense),
            },
            Command::ReportLuns { select, room } => match scsi::capacity::luns(select) {
                Ok(bytes) => Verdict::Answer(scsi::unit::within(bytes, room)),
                Err(sense) => Verdict::Fail(sense),
            },
            Command::RequestSense {
                has_descriptors,
                room,
            } => {
                let sense = Sense::NO_SUCH_UNIT;
                let bytes = match has_descriptors {
                    true => sense.descriptors(),
                    false => sense.fixed().to_vec(),
                };
                Verdict::Answer(scsi::unit::within(bytes, room))
            }
            _ => Verdict::Fail(Sense::NO_SUCH_UNIT),
        }
    }

    /// Checks a command that is carried out: its range, and the data that comes with it. Returns
    /// the command with the blocks that there is data for, and the bytes of data that it uses.
    fn check(
        &self,
        command: &Command,
        asked: &request::Command,
        header: &Header,
        cx: &Cx<'_>,
    ) -> Result<(Command, u32), Sense> {
        if self.unit.read_only && command.writes() {
            return Err(Sense::WRITE_PROTECTED);
        }
        self.check_range(command)?;
        if let Command::WriteSame { range, .. } = command
            && range.blocks == 0
            && self.unit.blocks() - range.lba > scsi::WRITE_SAME_BLOCKS_MAX
        {
            return Err(Sense::in_command(10));
        }
        let announced = if asked.writes {
            asked.expected_bytes
        } else {
            0
        };
        let now = header.data_bytes;
        let is_agreed =
            cx.parameters.immediate_data && now <= cx.parameters.unsolicited_bytes().min(announced);
        let is_final = asked.is_final || !asked.writes;
        if now > 0 && !is_agreed || !is_final && cx.parameters.initial_r2t {
            return Err(Sense::UNEXPECTED_DATA);
        }
        let wanted = command.bytes_out();
        let announced = u64::from(announced);
        let block = u64::from(BLOCK_BYTES);
        let mut command = *command;
        let keep = match &mut command {
            // Blocks for which there is no data are not written.
            Command::Write { range, .. } | Command::WriteAndVerify { range, .. } => {
                range.blocks = range.blocks.min(announced / block);
                range.blocks * block
            }
            Command::Unmap { .. } | Command::ModeSelect { .. } | Command::ReserveOut { .. } => {
                if announced < wanted || wanted > PARAMETER_BYTES_MAX {
                    return Err(Sense::PARAMETER_LENGTH);
                }
                wanted
            }
            Command::WriteSame { .. }
            | Command::CompareAndWrite { .. }
            | Command::OrWrite { .. }
            | Command::Verify {
                check: Check::Blocks | Check::Same,
                ..
            } => {
                if announced != wanted {
                    return Err(Sense::in_command(1));
                }
                wanted
            }
            _ => 0,
        };
        Ok((command, u32::try_from(keep).expect("at most one operation")))
    }

    /// Checks that a command is about blocks of the unit, which may have shrunk since it arrived.
    pub(super) fn check_range(&self, command: &Command) -> Result<(), Sense> {
        let blocks = self.unit.blocks();
        let is_inside = match command {
            Command::LbaStatus { lba, .. } => *lba < blocks,
            command => command.range().is_none_or(|range| {
                let end = range.lba.checked_add(range.blocks);
                end.is_some_and(|end| end <= blocks)
            }),
        };
        match is_inside {
            true => Ok(()),
            false => Err(Sense::OUT_OF_RANGE),
        }
    }

    /// Makes a task of a command, if there is memory for its data, or if it can wait for that.
    fn begin_task(
        &mut self,
        asked: &request::Command,
        header: &Header,
        (command, keep, moves): (Command, u32, u64),
        cx: &mut Cx<'_>,
    ) -> Admission {
        let unsolicited = !asked.is_final && asked.writes;
        let has_data = header.data_bytes > 0 || unsolicited;
        let moved = work::charge(&command, keep);
        let held = Reservation {
            bytes: REQUEST_BYTES + moved,
            class: Class::of(moved),
        };
        let may_take = has_data || self.tasks.waiting.is_empty();
        let has_memory = may_take && cx.ledger.take(held.bytes, held.class);
        if !has_memory && has_data {
            if !self.tasks.holds_payload() {
                return Admission::Stall;
            }
            self.number(header, cx);
            cx.metrics
                .replied(kind_of(&command), cx.metrics.now(), 0, true);
            let none = Reservation::none(Class::Small);
            let (itt, expected) = (asked.itt, asked.expected_bytes);
            send_status(itt, status::TASK_SET_FULL, expected, none, cx.link);
            return Admission::Receive(Dest::Skip);
        }
        // The window opens after the task counts for it.
        if !header.is_immediate {
            cx.link.advance();
        }
        let expected = match asked.reads || asked.writes {
            true => asked.expected_bytes,
            false => 0,
        };
        let id = self.tasks.insert(Task {
            itt: asked.itt,
            is_immediate: header.is_immediate,
            lun: asked.lun,
            command,
            expected,
            moves,
            since: cx.metrics.now(),
            touched: cx.metrics.now(),
            held,
            has_memory,
            payload: Payload::None,
            keep,
            received: 0,
            unsolicited,
            data_sn: 0,
            is_receiving: header.data_bytes > 0,
            asked: 0,
            r2ts: VecDeque::new(),
            r2t_count: 0,
            work: None,
            in_flight: false,
            is_aborted: false,
        });
        self.open_window(cx);
        if !has_memory {
            self.tasks.waiting.push_back(id);
            return Admission::Receive(Dest::Skip);
        }
        self.make_room(id);
        if header.data_bytes == 0 {
            self.progress(id, cx);
            return Admission::Receive(Dest::Skip);
        }
        Admission::Receive(Dest::Task {
            id,
            at: 0,
            keep: header.data_bytes.min(keep),
            length: header.data_bytes,
        })
    }

    /// Makes room for the data of a task that has its memory.
    pub(super) fn make_room(&mut self, id: usize) {
        let task = self.tasks.get_mut(id);
        task.payload = match task.command {
            Command::Write { range, .. } => {
                Payload::pages(range.lba * u64::from(BLOCK_BYTES), task.keep)
            }
            _ if task.keep > 0 => Payload::Bytes(vec![0; task.keep as usize]),
            _ => Payload::None,
        };
    }
}

/// Returns whether the number of a logical unit is 0, in one of the two formats that initiators
/// use (SAM-5 §4.7).
pub(super) fn is_unit_0(lun: u64) -> bool {
    lun == 0 || lun == 0x4000 << 48
}
