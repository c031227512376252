//! The full feature phase of a normal session (RFC 7143 §4.2): commands in, operations to the
//! target, statuses out.
//!
//! | file | what |
//! | --- | --- |
//! | `task` | the table of commands under way |
//! | `command` | a command arrives: it is refused, answered at once, or becomes a task |
//! | `data_out` | data of writes: immediate, unsolicited, asked for |
//! | `work` | what a command does to storage, one operation after the other |
//! | `running` | tasks get memory, work, and end with a status |
//! | `answers` | commands that need no storage |
//! | `management` | tasks are aborted, the logical unit is reset |
//! | `attention` | what a command must be told before it is carried out |
//!
//! Memory (decision 0028): a task takes the memory it needs as a whole, before it receives data or
//! submits operations. One that finds none waits, and the session goes on receiving, because data
//! for other tasks may be behind. A command that brings data of its own cannot wait apart from its
//! data. It makes the session wait if nothing else of the session holds memory for data to come,
//! and is refused with TASK SET FULL otherwise: sessions that wait for each other would wait for
//! ever.

mod answers;
mod attention;
mod command;
mod data_out;
mod management;
mod running;
mod task;
mod work;

use std::sync::Arc;

use everglade_env::Nanos;
use everglade_target::reservations::{Host, Reservations, Ticket};
use everglade_target::sessions::{Caller, Ledger, Tally};
use everglade_target::{Error, LunHandle, Reply, Target, Token};

use super::link::{Link, Order};
use super::outgoing::Data;
use super::payload::Payload;
use super::segment::Dest;
use super::text::{Exchange, TEXT_BYTES_MAX};
use crate::login::Parameters;
use crate::login::keys::SEGMENT_BYTES_MAX;
use crate::metrics::SessionMetrics;
use crate::node::{Events, Member, Seat};
use crate::scsi::{Sense, Unit};
use crate::settings::Settings;
use crate::wire::header::{Header, NO_TAG};
use crate::wire::response::Response;
use crate::wire::{Bhs, Request, request};
use attention::Attention;
use management::Management;
use task::Tasks;

/// Data of a ping that is sent back.
const PING_BYTES_MAX: u32 = 8192;
/// Time in which data of a task must come while other sessions wait for its memory.
const DATA_PATIENCE: Nanos = 10_000_000_000;
/// Bytes of answers without a charge that wait to be sent; beyond, nothing more is received.
const ANSWER_BYTES_MAX: u64 = 256 << 10;
/// Commands for immediate delivery that may be under way besides those of the window.
const IMMEDIATE_MAX: usize = 16;

/// Reasons of rejects (RFC 7143 §11.17.1).
pub(super) mod reject {
    pub(in crate::session) const DATA_DIGEST: u8 = 0x02;
    pub(in crate::session) const SNACK: u8 = 0x03;
    pub(in crate::session) const PROTOCOL_ERROR: u8 = 0x04;
    pub(in crate::session) const NOT_SUPPORTED: u8 = 0x05;
    pub(in crate::session) const TOO_MANY_IMMEDIATE: u8 = 0x06;
    pub(in crate::session) const TASK_IN_PROGRESS: u8 = 0x07;
}

/// What is to be done with the data of a message.
pub(super) enum Admission {
    /// A bound was met: the message stays where it is.
    Stall,
    /// Receive the data there.
    Receive(Dest),
    /// The initiator does not follow the protocol: the connection ends.
    End,
}

/// Whether the session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    On,
    /// Everything that is queued is sent, then the connection ends.
    ToItsEnd,
}

/// A session that serves a LUN.
pub(super) struct Full {
    lun: LunHandle,
    unit: Unit,
    host: Host,
    initiator: String,
    reservations: Arc<Reservations>,
    events: Arc<Events>,
    /// Until the session has ended.
    seat: Option<Seat>,
    /// How far this session is with what others aborted, as they see it.
    member: Member,
    /// The generation of aborts that it has seen.
    generation: u64,
    /// Commands that are answered when all other sessions have reached a generation.
    fences: Vec<(usize, u64)>,
    /// Commands that are answered when their change of reservations is on stable storage.
    keeping: Vec<Keeping>,
    cid: u16,
    attention: Attention,
    tasks: Tasks,
    management: Management,
    text: Exchange,
    ttts: u32,
    tally: Tally,
}

/// A change of reservations that waits.
struct Keeping {
    id: usize,
    ticket: Ticket,
    /// Commands of other hosts are aborted afterwards.
    aborts: bool,
}

/// The facts about a new session.
pub(super) struct Opened {
    pub(super) lun: LunHandle,
    pub(super) unit: Unit,
    pub(super) host: Host,
    pub(super) initiator: String,
    pub(super) reservations: Arc<Reservations>,
    pub(super) events: Arc<Events>,
    pub(super) seat: Seat,
    pub(super) cid: u16,
}

/// The state of the session that its phases use.
pub(super) struct Cx<'a> {
    pub(super) settings: &'a Settings,
    pub(super) link: &'a mut Link,
    pub(super) ledger: &'a mut Ledger,
    pub(super) parameters: &'a mut Parameters,
    pub(super) metrics: &'a SessionMetrics,
    pub(super) caller: &'a Caller,
    pub(super) target: &'a mut dyn Target,
    pub(super) token_base: Token,
}

impl Full {
    pub(super) fn new(opened: Opened) -> Full {
        let Opened {
            lun,
            unit,
            host,
            initiator,
            reservations,
            events,
            seat,
            cid,
        } = opened;
        Full {
            attention: Attention::begin(&events, &reservations),
            member: events.join(),
            generation: 0,
            fences: Vec::new(),
            keeping: Vec::new(),
            lun,
            unit,
            host,
            initiator,
            reservations,
            events,
            seat: Some(seat),
            cid,
            tasks: Tasks::default(),
            management: Management::default(),
            text: Exchange::default(),
            ttts: 0,
            tally: Tally::default(),
        }
    }

    pub(super) fn lun(&self) -> LunHandle {
        self.lun
    }

    pub(super) fn opened(&self) -> (&str, &[u8; 16]) {
        (&self.unit.export, &self.unit.lun_uuid)
    }

    pub(super) fn is_replaced(&self) -> bool {
        self.seat.as_ref().is_some_and(Seat::is_replaced)
    }

    pub(super) fn initiator(&self) -> &str {
        &self.initiator
    }

    /// Gives up the seat, because nothing of the session can happen any more.
    pub(super) fn leave(&mut self) {
        self.member.leave();
        self.seat = None;
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    pub(super) fn operations_in_flight(&self) -> usize {
        self.tasks.operations_in_flight()
    }

    pub(super) fn holds_payload(&self) -> bool {
        self.tasks.holds_payload()
    }

    /// Returns the memory to receive data of a task into.
    pub(super) fn payload_mut(&mut self, task: usize) -> &mut Payload {
        &mut self.tasks.get_mut(task).payload
    }

    /// Decides about a message whose header has arrived.
    pub(super) fn admit(&mut self, bhs: &Bhs, header: &Header, cx: &mut Cx<'_>) -> Admission {
        self.open_window(cx);
        let bound = 2 * cx.settings.commands_max as usize + IMMEDIATE_MAX;
        if cx.link.outgoing.answer_bytes() > ANSWER_BYTES_MAX {
            return Admission::Stall;
        }
        if self.tasks.len() + self.management.len() + cx.link.outgoing.answers() >= bound {
            return Admission::Stall;
        }
        let Some(request) = Request::parse(bhs) else {
            let is_snack = header.opcode == request::opcodes::SNACK;
            let reason = if is_snack {
                reject::SNACK
            } else {
                reject::NOT_SUPPORTED
            };
            reject_message(bhs, reason, cx.link);
            return skip_if_short(header);
        };
        if header.data_bytes > SEGMENT_BYTES_MAX {
            reject_message(bhs, reject::PROTOCOL_ERROR, cx.link);
            return Admission::End;
        }
        if let Request::DataOut(data) = &request {
            return self.data_out(data, header, cx);
        }
        let cmd_sn = match &request {
            Request::NopOut(nop) => nop.cmd_sn,
            Request::Command(command) => command.cmd_sn,
            Request::TaskManagement(task) => task.cmd_sn,
            Request::Text(text) => text.cmd_sn,
            Request::Logout(logout) => logout.cmd_sn,
            Request::DataOut(_) | Request::Login(_) => {
                reject_message(bhs, reject::PROTOCOL_ERROR, cx.link);
                return Admission::End;
            }
        };
        if !header.is_immediate {
            match cx.link.order(cmd_sn) {
                Order::Next => {}
                // RFC 7143 §4.2.2.1: silently ignored.
                Order::Outside => return Admission::Receive(Dest::Skip),
                Order::Gap => {
                    reject_message(bhs, reject::PROTOCOL_ERROR, cx.link);
                    return Admission::End;
                }
            }
        }
        let admission = match &request {
            // A command takes its number itself, before its answer is queued.
            Request::Command(command) => return self.command(bhs, command, header, cx),
            Request::NopOut(nop) if nop.itt == NO_TAG => Admission::Receive(Dest::Skip),
            Request::NopOut(_) => {
                let room = cx.parameters.initiator_segment_bytes.min(PING_BYTES_MAX);
                Admission::Receive(Dest::collect(header.data_bytes.min(room)))
            }
            Request::Text(_) if header.data_bytes as usize > TEXT_BYTES_MAX => {
                reject_message(bhs, reject::PROTOCOL_ERROR, cx.link);
                Admission::End
            }
            Request::Text(_) => Admission::Receive(Dest::collect(header.data_bytes)),
            Request::TaskManagement(_) | Request::Logout(_) => Admission::Receive(Dest::Skip),
            Request::DataOut(_) | Request::Login(_) => unreachable!("treated above"),
        };
        if matches!(admission, Admission::Receive(_)) && !header.is_immediate {
            cx.link.advance();
            self.open_window(cx);
        }
        admission
    }

    /// Takes a message whose data has arrived. `is_intact` says that the digest of its data is
    /// right.
    pub(super) fn received(
        &mut self,
        bhs: &Bhs,
        dest: Dest,
        is_intact: bool,
        cx: &mut Cx<'_>,
    ) -> Goes {
        if !is_intact {
            reject_message(bhs, reject::DATA_DIGEST, cx.link);
        }
        let collected = match dest {
            Dest::Task { id, length, .. } => {
                self.data_arrived(id, bhs, length, is_intact, cx);
                return Goes::On;
            }
            Dest::Collect { bytes, .. } => Some(bytes),
            Dest::Skip => None,
        };
        // The digest of a message without data cannot be wrong.
        let request = Request::parse(bhs).filter(|_| is_intact);
        match (request, collected) {
            (Some(Request::NopOut(nop)), Some(bytes)) => {
                let response = Response::NopIn {
                    lun: 0,
                    itt: nop.itt,
                    ttt: NO_TAG,
                };
                cx.link.send(&response, Data::Bytes(bytes));
            }
            (Some(Request::Text(text)), Some(bytes)) => {
                let is_answered = answer_text(&mut self.text, Some(&self.unit), &text, &bytes, cx);
                if !is_answered {
                    reject_message(bhs, reject::PROTOCOL_ERROR, cx.link);
                }
            }
            (Some(Request::TaskManagement(asked)), None) => self.manage(&asked, cx),
            (Some(Request::Logout(asked)), None) => return self.log_out(&asked, cx),
            _ => {}
        }
        Goes::On
    }

    /// Takes a finished operation.
    pub(super) fn completed(
        &mut self,
        id: usize,
        result: Result<Reply, Error>,
        is_abandoned: bool,
        cx: &mut Cx<'_>,
    ) -> Goes {
        self.operation_ended(id, result, is_abandoned, cx);
        self.management.goes()
    }

    /// Does what only needed memory, or time.
    pub(super) fn go_on(&mut self, cx: &mut Cx<'_>) {
        self.serve_waiting(cx);
    }

    /// Looks at what other sessions did; called before commands and once a second.
    pub(super) fn look_around(&mut self, cx: &mut Cx<'_>) {
        // What belongs to this generation was there before it.
        self.generation = self.events.generation();
        let size = cx.target.size_bytes(self.lun);
        let found = self.attention.look(
            &mut self.unit,
            size,
            &self.events,
            &self.reservations,
            &self.host,
        );
        if found.aborts {
            self.abort_all(cx);
        }
        self.acknowledge();
    }

    /// Does what has become due. Returns whether anything changed.
    pub(super) fn tick(&mut self, now: Nanos, cx: &mut Cx<'_>) -> bool {
        let before = cx.link.outgoing.answers();
        self.look_around(cx);
        self.look_at_keeping(cx);
        self.look_at_fences(cx);
        self.management.send_ready(cx.link);
        if cx.ledger.memory().is_pressed() {
            // Others wait for the memory of data that does not come.
            for id in self.tasks.stuck_since(now.saturating_sub(DATA_PATIENCE)) {
                self.end(id, Err(Sense::NO_DATA), cx);
            }
        }
        cx.link.outgoing.answers() != before
    }

    /// Tells other sessions that what they aborted is gone here.
    fn acknowledge(&mut self) {
        if self.member.reached() != self.generation && !self.tasks.any_aborted() {
            self.member.reach(self.generation);
        }
    }

    /// Goes on with commands whose changes are on stable storage, or cannot be.
    fn look_at_keeping(&mut self, cx: &mut Cx<'_>) {
        let is_over = |it: &Keeping| it.ticket.outcome().is_some();
        let (over, rest) = std::mem::take(&mut self.keeping)
            .into_iter()
            .partition::<Vec<_>, _>(is_over);
        self.keeping = rest;
        for Keeping { id, ticket, aborts } in over {
            match ticket.outcome().expect("it is over") {
                Ok(()) => self.reserved(id, aborts, cx),
                Err(reason) => {
                    if let Some(notes) = &cx.settings.notes {
                        let (lun, initiator) = (&self.unit.target_name, &self.initiator);
                        notes(&format!(
                            "{lun}: a reservation of {initiator} cannot be stored, so it is \
                            refused: {reason}"
                        ));
                    }
                    self.end(id, Err(Sense::INTERNAL_FAILURE), cx);
                }
            }
        }
    }

    /// Answers a change of reservations that is done; with aborts, when nothing of those others is
    /// under way any more.
    fn reserved(&mut self, id: usize, aborts: bool, cx: &mut Cx<'_>) {
        if !aborts {
            return self.end(id, Ok(Data::None), cx);
        }
        let generation = self.events.advance();
        self.fences.push((id, generation));
        self.look_at_fences(cx);
    }

    /// Ends commands that waited for other sessions.
    fn look_at_fences(&mut self, cx: &mut Cx<'_>) {
        let (events, member) = (&self.events, &self.member);
        let is_open = |fence: &(usize, u64)| events.have_reached(fence.1, member);
        let open: Vec<usize> = self
            .fences
            .iter()
            .filter(|it| is_open(it))
            .map(|it| it.0)
            .collect();
        self.fences.retain(|fence| !open.contains(&fence.0));
        open.iter().for_each(|id| self.end(*id, Ok(Data::None), cx));
    }

    /// Forgets tasks whose data will not come any more, and those that wait.
    pub(super) fn forget_incoming(&mut self, cx: &mut Cx<'_>) {
        for id in self.tasks.ids() {
            let task = self.tasks.get_mut(id);
            task.is_receiving = false;
            if !task.in_flight {
                self.drop_task(id, cx);
            }
        }
    }

    /// Opens the window for as many commands as there is room for.
    fn open_window(&self, cx: &mut Cx<'_>) {
        let room = cx
            .settings
            .commands_max
            .saturating_sub(self.tasks.ordered());
        cx.link.open_window(room);
    }
}

/// Answers a text request. False if it makes no sense.
pub(super) fn answer_text(
    exchange: &mut Exchange,
    own: Option<&Unit>,
    request: &request::Text,
    bytes: &[u8],
    cx: &mut Cx<'_>,
) -> bool {
    let allowed = everglade_target::sessions::Allowed {
        target: &mut *cx.target,
        caller: cx.caller,
    };
    let asker = super::text::Asker {
        caller: cx.caller,
        own: own.map(|unit| unit.target_name.as_str()),
        parameters: cx.parameters,
        target: &allowed,
    };
    exchange.answer(request, bytes, asker, cx.link).is_ok()
}

/// Queues a reject with the header of the message.
pub(super) fn reject_message(bhs: &Bhs, reason: u8, link: &mut Link) {
    link.send(&Response::Reject { reason }, Data::Bytes(bhs.to_vec()));
}

/// A message that is not understood is skipped, unless it is too long to be one.
fn skip_if_short(header: &Header) -> Admission {
    match header.data_bytes <= SEGMENT_BYTES_MAX {
        true => Admission::Receive(Dest::Skip),
        false => Admission::End,
    }
}
