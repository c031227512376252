//! The transmission phase (proto "Transmission"): requests in, operations to the target, replies out.
//!
//! ```text
//! header --judge--> refused --------------------------------> error reply (payload skipped first)
//!             |---> admitted: a row in the request table
//!                     read: one operation per slice --+
//!                     write: payload, slice by slice, +--> last completion --> reply
//!                            submitted as each fills -+
//!                     others: one operation ----------+
//! ```
//!
//! A request of at most 1 MiB is one operation, wherever it lies: it is atomic. Longer ones are cut at
//! the LUN's 1 MiB boundaries (DESIGN §5).

mod payload;
mod request_table;
mod slices;
mod verdict;

use everglade_target::{Error, LunHandle, Op, Reply};

use super::open_export::OpenExport;
use super::outgoing::{Data, Outgoing};
use super::{Cx, Settings, Step};
use crate::SessionMetrics;
use crate::wire::request::command_flags;
use crate::wire::{Command, Errno, Request, SimpleReply};
use payload::Payload;
use request_table::{Finished, RequestTable};
use slices::Slices;
use verdict::judge;

/// A session that serves an export.
pub(super) struct Transmission {
    lun: LunHandle,
    read_only: bool,
    receiving: Receiving,
    requests: RequestTable,
    /// Bytes of payload charged to requests and replies.
    payload_in_flight: u64,
}

/// What the next received byte belongs to.
enum Receiving {
    Header,
    /// The payload of a write being executed.
    Payload(Payload),
    /// The payload of a write that was refused.
    Skip {
        rest: u32,
        reply: SimpleReply,
    },
}

impl Transmission {
    pub(super) fn new(open: &OpenExport) -> Self {
        Transmission {
            lun: open.lun,
            read_only: open.export.read_only,
            receiving: Receiving::Header,
            requests: RequestTable::default(),
            payload_in_flight: 0,
        }
    }

    pub(super) fn lun(&self) -> LunHandle {
        self.lun
    }

    pub(super) fn operations_in_flight(&self) -> usize {
        self.requests.operations_in_flight()
    }

    pub(super) fn payload_in_flight(&self) -> u64 {
        self.payload_in_flight
    }

    /// The payload being received in place, if any.
    pub(super) fn payload(&mut self) -> Option<&mut Payload> {
        match &mut self.receiving {
            Receiving::Payload(payload) => Some(payload),
            _ => None,
        }
    }

    /// Drops what has been received of an unfinished message.
    pub(super) fn forget_incoming(&mut self) {
        self.receiving = Receiving::Header;
    }

    /// Payload is no longer held.
    pub(super) fn release(&mut self, bytes: u64) {
        assert!(
            bytes <= self.payload_in_flight,
            "released more payload than was charged"
        );
        self.payload_in_flight -= bytes;
    }

    pub(super) fn step(&mut self, cx: &mut Cx<'_>) -> Step {
        match &mut self.receiving {
            Receiving::Header => self.next_request(cx),
            Receiving::Payload(_) => self.next_payload(cx),
            Receiving::Skip { rest, reply } => {
                *rest -= cx.staging.skip(*rest);
                if *rest > 0 {
                    return Step::NeedBytes;
                }
                cx.outgoing.push_reply(*reply, Data::None);
                self.receiving = Receiving::Header;
                Step::Again
            }
        }
    }

    fn next_request(&mut self, cx: &mut Cx<'_>) -> Step {
        let Some(bytes) = cx.staging.bytes().first_chunk() else {
            return Step::NeedBytes;
        };
        // A wrong magic number: the stream cannot be followed any more.
        let Some(request) = Request::parse(bytes) else {
            return Step::End;
        };
        // Proto "Terminating the transmission phase": DISC has no reply and its fields do not matter.
        if request.command == Command::Disconnect.code() {
            return Step::End;
        }
        if self.requests.len() + cx.outgoing.len() >= cx.settings.requests_in_flight_max {
            return Step::Stalled;
        }
        let Some(size_bytes) = cx.target.size_bytes(self.lun) else {
            cx.outgoing
                .push_reply(failure(&request, Errno::Shutdown), Data::None);
            return Step::End;
        };
        match judge(&request, size_bytes, self.read_only, &cx.settings.limits) {
            Ok(command) => {
                let payload = verdict::payload_bytes(command, &request);
                if !self.admits(payload, cx.settings) {
                    return Step::Stalled;
                }
                cx.staging.consume(Request::BYTES);
                self.payload_in_flight += u64::from(payload);
                self.start(command, &request, cx);
                Step::Again
            }
            Err(errno) => self.refuse(&request, errno, cx),
        }
    }

    fn admits(&self, payload: u32, settings: &Settings) -> bool {
        payload == 0
            || self.payload_in_flight + u64::from(payload) <= settings.payload_in_flight_max
    }

    fn refuse(&mut self, request: &Request, errno: Errno, cx: &mut Cx<'_>) -> Step {
        cx.staging.consume(Request::BYTES);
        cx.metrics.refused(Command::of_code(request.command));
        let reply = failure(request, errno);
        if request.command != Command::Write.code() {
            cx.outgoing.push_reply(reply, Data::None);
            return Step::Again;
        }
        let skip_max = cx
            .settings
            .limits
            .payload_max
            .saturating_mul(Settings::PAYLOAD_SKIP_FACTOR);
        if request.length > skip_max {
            cx.outgoing.push_reply(reply, Data::None);
            return Step::End;
        }
        self.receiving = Receiving::Skip {
            rest: request.length,
            reply,
        };
        Step::Again
    }

    fn start(&mut self, command: Command, request: &Request, cx: &mut Cx<'_>) {
        let &Request { offset, length, .. } = request;
        let durable = request.flags & command_flags::FUA != 0;
        // Proto leaves requests of length 0 open, but wants no disconnect: nothing is done, well.
        if length == 0 && command != Command::Flush {
            let reply = SimpleReply {
                error: 0,
                cookie: request.cookie,
            };
            cx.outgoing.push_reply(reply, Data::None);
            cx.metrics.replied(command, cx.metrics.now(), 0, false);
            return;
        }
        let id = self
            .requests
            .insert(request.cookie, command, offset, length, cx.metrics.now());
        match command {
            Command::Read => {
                for (offset, length) in Slices::new(offset, length) {
                    self.submit(id, Op::Read { offset, length }, cx);
                }
                self.requests.all_submitted(id);
            }
            Command::Write => {
                let payload = Payload::new(id, Slices::new(offset, length), durable);
                self.receiving = Receiving::Payload(payload);
            }
            Command::Flush => self.submit_only(id, Op::Flush, cx),
            Command::Trim => {
                let length = u64::from(length);
                self.submit_only(
                    id,
                    Op::Discard {
                        offset,
                        length,
                        durable,
                    },
                    cx,
                );
            }
            Command::WriteZeroes => {
                let allocate = request.flags & command_flags::NO_HOLE != 0;
                let length = u64::from(length);
                let op = Op::WriteZeroes {
                    offset,
                    length,
                    allocate,
                    durable,
                };
                self.submit_only(id, op, cx);
            }
            Command::Cache | Command::BlockStatus | Command::Disconnect => {
                unreachable!("not admitted")
            }
        }
    }

    fn submit_only(&mut self, id: usize, op: Op, cx: &mut Cx<'_>) {
        self.submit(id, op, cx);
        self.requests.all_submitted(id);
    }

    fn submit(&mut self, id: usize, op: Op, cx: &mut Cx<'_>) {
        let token = self.requests.submitted(id);
        cx.target
            .submit(self.lun, op, cx.token_base + u64::from(token));
    }

    /// Moves staged payload into pages, and submits every slice that is full.
    fn next_payload(&mut self, cx: &mut Cx<'_>) -> Step {
        let Receiving::Payload(payload) = &mut self.receiving else {
            unreachable!("called while a payload is received")
        };
        let copied = payload.fill_from(cx.staging.bytes());
        cx.staging.consume(copied);
        let (id, durable) = (payload.request_id(), payload.durable());
        let Some(data) = payload.take_full() else {
            return Step::NeedBytes;
        };
        let last = payload.is_complete();
        self.submit(id, Op::Write { data, durable }, cx);
        if last {
            self.requests.all_submitted(id);
            self.receiving = Receiving::Header;
        }
        Step::Again
    }

    /// An operation finished. Queues the reply if it was the last of its request and the peer is
    /// still there.
    pub(super) fn completed(
        &mut self,
        low: u64,
        result: Result<Reply, Error>,
        outgoing: Option<&mut Outgoing>,
        metrics: &SessionMetrics,
    ) {
        let Some(finished) = self.requests.completed(low, result) else {
            return;
        };
        let Finished {
            cookie,
            payload,
            result,
            command,
            since,
            length,
        } = finished;
        metrics.replied(command, since, u64::from(length), result.is_err());
        match (result, outgoing) {
            (Ok(data), Some(outgoing)) => {
                let reply = SimpleReply { error: 0, cookie };
                // The data of a read stays charged until it was sent.
                if matches!(data, Data::None) {
                    self.release(payload);
                }
                outgoing.push_reply(reply, data);
            }
            (Err(errno), Some(outgoing)) => {
                self.release(payload);
                outgoing.push_reply(
                    SimpleReply {
                        error: errno.code(),
                        cookie,
                    },
                    Data::None,
                );
            }
            (_, None) => self.release(payload),
        }
    }
}

fn failure(request: &Request, errno: Errno) -> SimpleReply {
    SimpleReply {
        error: errno.code(),
        cookie: request.cookie,
    }
}
