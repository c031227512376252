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
//! With chunks, a read is answered slice by slice, in the order in which they are there, unless the client
//! wants one chunk.
//!
//! A request of at most 1 MiB is one operation, wherever it lies: it is atomic. Longer ones are cut at
//! the LUN's 1 MiB boundaries (docs/design/design.md §5).

mod payload;
mod replies;
mod request_table;
mod slices;
mod verdict;

use everglade_target::{Error, LunHandle, Op, Reply};

use super::open_export::OpenExport;
use super::outgoing::Outgoing;
use super::terms::{Style, Tells, Terms};
use super::{Cx, Settings, Step};
use crate::SessionMetrics;
use crate::wire::request::command_flags;
use crate::wire::{Command, Errno, Request};
use payload::Payload;
use replies::{Asker, Replies};
use request_table::{Admitted, Outcome, Progress, RequestTable};
use slices::Slices;
use verdict::{Law, Refusal};

/// Extents told in one reply. The protocol wants at most 2²⁰; a client asks again for the rest.
const EXTENTS_MAX: u32 = 4096;
/// Reads that a target is told of together, before the first of them is submitted.
const FORESEEN_MAX: usize = 32;
/// Memory charged for a block status request: its extents, as they are sent at most.
const EXTENTS_CHARGE: u64 = 16 * EXTENTS_MAX as u64;

/// A session that serves an export.
pub(super) struct Transmission {
    lun: LunHandle,
    read_only: bool,
    terms: Terms,
    receiving: Receiving,
    requests: RequestTable,
    /// Bytes of payload charged to requests and replies.
    payload_in_flight: u64,
    /// Requests at the front of the staging buffer that were looked at together.
    foreseen: usize,
}

/// What the next received byte belongs to.
enum Receiving {
    Header,
    /// The payload of a write being executed.
    Payload(Payload),
    /// The payload of a request that was refused.
    Skip {
        rest: u32,
        asker: Asker,
        refusal: Refusal,
    },
}

impl Transmission {
    pub(super) fn new(open: &OpenExport, terms: Terms) -> Self {
        Transmission {
            lun: open.lun,
            read_only: open.export.read_only,
            terms,
            receiving: Receiving::Header,
            requests: RequestTable::default(),
            payload_in_flight: 0,
            foreseen: 0,
        }
    }

    pub(super) fn lun(&self) -> LunHandle {
        self.lun
    }

    /// Images that are open as long as the LUN.
    pub(super) fn images(&self) -> impl Iterator<Item = LunHandle> {
        self.terms.images()
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
        self.foreseen = 0;
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
            Receiving::Skip {
                rest,
                asker,
                refusal,
            } => {
                *rest -= cx.staging.skip(*rest);
                if *rest > 0 {
                    return Step::NeedBytes;
                }
                let style = self.terms.style;
                replies(style, cx).failed(*asker, refusal);
                self.receiving = Receiving::Header;
                Step::Again
            }
        }
    }

    /// Bytes of a request's header.
    pub(super) fn header_bytes(&self) -> usize {
        match self.terms.style {
            Style::Extended => Request::EXTENDED_BYTES,
            _ => Request::BYTES,
        }
    }

    /// Tells the target which reads are at the front of the staging buffer, if it is more than one.
    fn foresee(&mut self, cx: &mut Cx<'_>) {
        if self.foreseen > 0 {
            return;
        }
        let mut reads = [(0, 0); FORESEEN_MAX];
        let staged = cx.staging.bytes().chunks_exact(self.header_bytes());
        let staged = staged.map_while(|header| self.parse(header).ok().map(|(request, _)| request));
        let staged = staged.take_while(|request| request.command == Command::Read.code());
        let count = reads
            .iter_mut()
            .zip(staged)
            .map(|(read, request)| {
                // Longer ones will be judged; here it is a hint.
                let length = u32::try_from(request.length).unwrap_or(u32::MAX);
                *read = (request.offset, length);
            })
            .count();
        if count > 1 {
            cx.target.expect_reads(self.lun, &reads[..count]);
        }
        self.foreseen = count.max(1);
    }

    /// The request at the front of the staging buffer, and how long its header is.
    fn peek(&self, cx: &Cx<'_>) -> Result<(Request, usize), Step> {
        self.parse(cx.staging.bytes())
    }

    /// The request at the beginning of `bytes`, and how long its header is.
    fn parse(&self, bytes: &[u8]) -> Result<(Request, usize), Step> {
        let (parsed, header_bytes) = if self.terms.style == Style::Extended {
            let bytes = bytes.first_chunk().ok_or(Step::NeedBytes)?;
            (Request::parse_extended(bytes), Request::EXTENDED_BYTES)
        } else {
            let bytes = bytes.first_chunk().ok_or(Step::NeedBytes)?;
            (Request::parse(bytes), Request::BYTES)
        };
        // A wrong magic number: the stream cannot be followed any more.
        let request = parsed.ok_or(Step::End)?;
        Ok((request, header_bytes))
    }

    fn next_request(&mut self, cx: &mut Cx<'_>) -> Step {
        let (request, header_bytes) = match self.peek(cx) {
            Ok(found) => found,
            Err(step) => return step,
        };
        self.foresee(cx);
        // Proto "Terminating the transmission phase": DISC has no reply and its fields do not matter.
        if request.command == Command::Disconnect.code() {
            return Step::End;
        }
        if self.requests.len() + cx.outgoing.replies() >= cx.settings.requests_in_flight_max {
            return Step::Stalled;
        }
        let style = self.terms.style;
        let Some(size_bytes) = cx.target.size_bytes(self.lun) else {
            let refusal = Refusal::new(Errno::Shutdown, "the export is gone");
            replies(style, cx).failed(Asker::of(&request), &refusal);
            return Step::End;
        };
        let law = Law {
            size_bytes,
            read_only: self.read_only,
            limits: &cx.settings.limits,
            terms: &self.terms,
        };
        match law.judge(&request) {
            Ok(command) => {
                let contexts = self.terms.contexts.len();
                let charge = verdict::charge(command, &request, &cx.settings.limits, contexts);
                if !self.admits(charge, cx.settings) {
                    return Step::Stalled;
                }
                cx.staging.consume(header_bytes);
                self.foreseen -= 1;
                self.start(command, &request, charge, cx);
                Step::Again
            }
            Err(refusal) => {
                cx.staging.consume(header_bytes);
                self.foreseen -= 1;
                self.refuse(&request, refusal, cx)
            }
        }
    }

    fn admits(&self, charge: u64, settings: &Settings) -> bool {
        charge == 0 || self.payload_in_flight + charge <= settings.payload_in_flight_max
    }

    fn refuse(&mut self, request: &Request, refusal: Refusal, cx: &mut Cx<'_>) -> Step {
        cx.metrics.refused(Command::of_code(request.command));
        let (style, asker) = (self.terms.style, Asker::of(request));
        let payload = request.payload_bytes(style == Style::Extended);
        if payload == 0 {
            replies(style, cx).failed(asker, &refusal);
            return Step::Again;
        }
        let payload_max = cx.settings.limits.payload_max;
        let skip_max = payload_max.saturating_mul(Settings::PAYLOAD_SKIP_FACTOR);
        match u32::try_from(payload) {
            Ok(rest) if rest <= skip_max => {
                self.receiving = Receiving::Skip {
                    rest,
                    asker,
                    refusal,
                };
                Step::Again
            }
            _ => {
                replies(style, cx).failed(asker, &refusal);
                Step::End
            }
        }
    }

    fn start(&mut self, command: Command, request: &Request, charge: u64, cx: &mut Cx<'_>) {
        let &Request { offset, length, .. } = request;
        let style = self.terms.style;
        let has = |flag: u16| request.flags & flag != 0;
        let durable = has(command_flags::FUA);
        // Proto leaves requests of length 0 open, but wants no disconnect: nothing is done, well. There is
        // no way to say so in extents.
        if length == 0 && command != Command::Flush {
            let asker = Asker::of(request);
            let refusal = Refusal::new(Errno::Invalid, "the extents of no bytes");
            let is_status = command == Command::BlockStatus;
            if is_status {
                replies(style, cx).failed(asker, &refusal);
            } else {
                replies(style, cx).done(asker);
            }
            let now = cx.metrics.now();
            return cx.metrics.replied(command, now, 0, is_status);
        }
        self.payload_in_flight += charge;
        let is_read = command == Command::Read;
        let id = self.requests.insert(Admitted {
            asker: Asker::of(request),
            command,
            offset,
            length,
            charge,
            since: cx.metrics.now(),
            streams: is_read && style.has_chunks() && !has(command_flags::DF),
        });
        let slices = || {
            let bytes = u32::try_from(charge).expect("at most 32 MiB");
            Slices::new(offset, bytes)
        };
        match command {
            Command::Read | Command::Cache => {
                for (offset, length) in slices() {
                    self.submit(id, Op::Read { offset, length }, cx);
                }
                self.requests.all_submitted(id);
            }
            Command::Write => {
                let payload = Payload::new(id, slices(), durable);
                self.receiving = Receiving::Payload(payload);
            }
            Command::Flush => self.submit_only(id, Op::Flush, cx),
            Command::Trim => {
                let op = Op::Discard {
                    offset,
                    length,
                    durable,
                };
                self.submit_only(id, op, cx);
            }
            Command::WriteZeroes => {
                let op = Op::WriteZeroes {
                    offset,
                    length,
                    allocate: has(command_flags::NO_HOLE),
                    durable,
                };
                self.submit_only(id, op, cx);
            }
            Command::BlockStatus => {
                let is_one = has(command_flags::REQ_ONE);
                let count_max = if is_one { 1 } else { EXTENTS_MAX };
                for context in self.terms.contexts.clone() {
                    let op = match context.tells {
                        Tells::Allocation => Op::Extents {
                            offset,
                            length,
                            count_max,
                        },
                        Tells::Changed { since } => Op::Changes {
                            offset,
                            length,
                            count_max,
                            since: since.expect("refused without"),
                        },
                    };
                    self.submit(id, op, cx);
                }
                self.requests.all_submitted(id);
            }
            Command::Disconnect => unreachable!("disconnects are not admitted"),
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

    /// An operation finished. Queues what can be said now, if the peer is still there.
    pub(super) fn completed(
        &mut self,
        low: u64,
        result: Result<Reply, Error>,
        outgoing: Option<&mut Outgoing>,
        metrics: &SessionMetrics,
    ) {
        let style = self.terms.style;
        let replies = outgoing.map(|outgoing| Replies { style, outgoing });
        match self.requests.completed(low, result) {
            Progress::Waits => {}
            Progress::Slice {
                request,
                outcome,
                length,
                is_last,
                has_failed,
            } => {
                if is_last {
                    count(metrics, &request, has_failed);
                }
                match (outcome, replies) {
                    (Ok(span), Some(mut replies)) => {
                        replies.slice(request.asker, span, is_last);
                    }
                    (Err((offset, refusal)), Some(mut replies)) => {
                        self.release(u64::from(length));
                        replies.slice_failed(request.asker, offset, &refusal, is_last);
                    }
                    (_, None) => self.release(u64::from(length)),
                }
            }
            Progress::Finished { request, outcome } => {
                count(metrics, &request, outcome.is_err());
                self.finish(&request, outcome, replies);
            }
        }
    }

    /// Queues the reply of a request that is answered as a whole. What it says stays charged until it
    /// was sent.
    fn finish(
        &mut self,
        request: &Admitted,
        outcome: Result<Outcome, Refusal>,
        replies: Option<Replies<'_>>,
    ) {
        let Some(mut replies) = replies else {
            return self.release(request.charge);
        };
        match outcome {
            Ok(Outcome::Data(data)) => replies.whole(request.asker, request.offset, data),
            Ok(Outcome::Extents(extents)) => {
                let contexts = &self.terms.contexts;
                replies.extents(request.asker, contexts, &extents, request.charge);
            }
            Ok(Outcome::Nothing) => {
                self.release(request.charge);
                replies.done(request.asker);
            }
            Err(refusal) => {
                self.release(request.charge);
                replies.failed(request.asker, &refusal);
            }
        }
    }
}

fn count(metrics: &SessionMetrics, request: &Admitted, failed: bool) {
    metrics.replied(request.command, request.since, request.length, failed);
}

fn replies<'a>(style: Style, cx: &'a mut Cx<'_>) -> Replies<'a> {
    Replies {
        style,
        outgoing: cx.outgoing,
    }
}
