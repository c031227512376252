//! The transmission phase (proto "Transmission"): requests in, operations to the target, replies
//! out.
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
//! A request of at most 1 MiB is one operation, whatever its offset: it is atomic. Longer ones are
//! cut into slices (`slices`), each of which takes its memory when it begins and frees it when it
//! ends, so that a long request needs the memory of one slice at a time. A read whose next slice
//! finds no memory waits in `reading`; later requests of the session wait meanwhile.
//!
//! With chunks, a read is answered slice by slice, in the order in which slices arrive, unless the
//! client wants one chunk. Otherwise the reply begins with the outcome, so it does not begin before
//! all slices are read. Data that did not fit in memory is read a second time when it is sent. If
//! the second read fails, the connection is ended: proto "Simple reply message" leaves no other
//! choice.
//!
//! Hosts of other protocols may reserve the export (`fence`). That is looked at when a request
//! comes, and again when data of a write has come. A long read that has begun is read to its end.

mod ending;
mod fence;
mod payload;
mod replies;
mod request_table;
mod slices;
mod verdict;

use std::sync::Arc;

use everglade_target::reservations::Reservations;
use everglade_target::sessions::memory::{
    Class, REQUEST_BYTES, Reservation, SHORT_PIECE_BYTES, page_bytes,
};
use everglade_target::sessions::{Ledger, Tally};
use everglade_target::{Error, LunHandle, OP_BYTES_MAX, Op, Token, WriteSpan};

use super::open_export::OpenExport;
use super::terms::{Style, Tells, Terms};
use super::{Cx, StepEnd};
use crate::SessionMetrics;
use crate::wire::request::command_flags;
use crate::wire::{Command, Errno, Request};
pub(super) use ending::Ended;
use fence::Fence;
use payload::{Payload, Yielded};
use replies::{Asker, Replies};
use request_table::{Admitted, Course, RequestTable};
use slices::Slices;
use verdict::{Law, Refusal};

/// Extents told in one reply. The protocol wants at most 2²⁰; a client asks again for the rest.
const EXTENTS_MAX: u32 = 4096;
/// Reads that are announced to a target together, before the first of them is submitted.
const FORESEEN_MAX: usize = 32;
/// Memory charged for each context of a block status request: its extents, as they are sent at
/// most.
const EXTENTS_CHARGE: u64 = 16 * EXTENTS_MAX as u64;

/// A session that serves an export.
pub(super) struct Transmission {
    lun: LunHandle,
    /// UUID of the LUN that the export is, or is an image of.
    lun_uuid: [u8; 16],
    read_only: bool,
    terms: Terms,
    fence: Fence,
    receiving: Receiving,
    requests: RequestTable,
    /// A long read that is not submitted to its end.
    reading: Option<Reading>,
    /// Data that a reply owes is being read.
    is_refilling: bool,
    /// Requests at the front of the staging buffer that were read together.
    foreseen: usize,
    tally: Tally,
}

/// A read of several slices.
struct Reading {
    id: usize,
    rest: Slices,
}

/// The part of the stream that the next received byte belongs to.
enum Receiving {
    Header,
    /// The payload of a write being executed.
    Payload(Payload),
    /// The payload of a request that was refused.
    Skip {
        rest: u32,
        asker: Asker,
        refusal: Refusal,
        held: Reservation,
    },
}

impl Transmission {
    pub(super) fn new(
        open: &OpenExport,
        terms: Terms,
        reservations: Option<Arc<Reservations>>,
    ) -> Self {
        Transmission {
            lun: open.lun,
            lun_uuid: open.export.lun_uuid,
            read_only: open.export.read_only,
            terms,
            fence: Fence::new(&open.export.name, reservations),
            receiving: Receiving::Header,
            requests: RequestTable::default(),
            reading: None,
            is_refilling: false,
            foreseen: 0,
            tally: Tally::default(),
        }
    }

    pub(super) fn lun(&self) -> LunHandle {
        self.lun
    }

    pub(super) fn opened(&self) -> (&str, &[u8; 16]) {
        (self.fence.export(), &self.lun_uuid)
    }

    /// Images that are open as long as the LUN.
    pub(super) fn images(&self) -> impl Iterator<Item = LunHandle> {
        self.terms.images()
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    /// Counts a request that was answered.
    fn count(&mut self, metrics: &SessionMetrics, request: &Admitted, failed: bool) {
        metrics.replied(request.command, request.since, request.length, failed);
        let answered = match request.command {
            Command::Read => &mut self.tally.reads,
            Command::Write => &mut self.tally.writes,
            _ => return,
        };
        if !failed {
            answered.add(metrics.now().saturating_sub(request.since), request.length);
        }
    }

    pub(super) fn operations_in_flight(&self) -> usize {
        self.requests.operations_in_flight()
    }

    /// Returns the payload being received in place, if any.
    pub(super) fn payload(&mut self) -> Option<&mut Payload> {
        match &mut self.receiving {
            Receiving::Payload(payload) => Some(payload),
            _ => None,
        }
    }

    /// Drops the received bytes of an unfinished message.
    pub(super) fn forget_incoming(&mut self, ledger: &mut Ledger) {
        match std::mem::replace(&mut self.receiving, Receiving::Header) {
            Receiving::Header => {}
            Receiving::Payload(payload) => ledger.give(Reservation {
                bytes: payload.held(),
                class: payload.class(),
            }),
            Receiving::Skip { held, .. } => ledger.give(held),
        }
        self.foreseen = 0;
    }

    /// Drops all replies, because the client is gone.
    pub(super) fn forget_replies(&mut self) {
        self.reading = None;
    }

    /// Returns whether there are pages for an incomplete payload.
    pub(super) fn holds_payload(&self) -> bool {
        matches!(&self.receiving, Receiving::Payload(payload) if payload.held() > 0)
    }

    /// Returns whether work is left that only needs memory.
    pub(super) fn has_more_to_read(&self) -> bool {
        self.reading.is_some()
    }

    pub(super) fn step(&mut self, cx: &mut Cx<'_>) -> StepEnd {
        if self.reading.is_some() && !self.read_on(cx) {
            return StepEnd::Stalled;
        }
        match &mut self.receiving {
            Receiving::Header => self.next_request(cx),
            Receiving::Payload(_) => self.next_payload(cx),
            Receiving::Skip {
                rest,
                asker,
                refusal,
                held,
            } => {
                *rest -= cx.staging.skip(*rest);
                if *rest > 0 {
                    return StepEnd::NeedBytes;
                }
                let style = self.terms.style;
                replies(style, cx).failed(*asker, refusal, *held);
                self.receiving = Receiving::Header;
                StepEnd::Again
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

    /// Announces the reads at the front of the staging buffer to the target, if there are several.
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
    fn peek(&self, cx: &Cx<'_>) -> Result<(Request, usize), StepEnd> {
        self.parse(cx.staging.bytes())
    }

    /// The request at the beginning of `bytes`, and how long its header is.
    fn parse(&self, bytes: &[u8]) -> Result<(Request, usize), StepEnd> {
        let (parsed, header_bytes) = if self.terms.style == Style::Extended {
            let bytes = bytes.first_chunk().ok_or(StepEnd::NeedBytes)?;
            (Request::parse_extended(bytes), Request::EXTENDED_BYTES)
        } else {
            let bytes = bytes.first_chunk().ok_or(StepEnd::NeedBytes)?;
            (Request::parse(bytes), Request::BYTES)
        };
        // A wrong magic number: the stream cannot be followed any more.
        let request = parsed.ok_or(StepEnd::End)?;
        Ok((request, header_bytes))
    }

    fn next_request(&mut self, cx: &mut Cx<'_>) -> StepEnd {
        let (request, header_bytes) = match self.peek(cx) {
            Ok(found) => found,
            Err(step) => return step,
        };
        self.foresee(cx);
        // Proto "Terminating the transmission phase": DISC has no reply and its fields do not
        // matter.
        if request.command == Command::Disconnect.code() {
            return StepEnd::End;
        }
        if self.requests.len() + cx.outgoing.replies() >= cx.settings.requests_in_flight_max {
            return StepEnd::Stalled;
        }
        let style = self.terms.style;
        let Some(size_bytes) = cx.target.size_bytes(self.lun) else {
            let refusal = Refusal::new(Errno::Shutdown, "the export is gone");
            let held = Reservation::none(Class::Small);
            replies(style, cx).failed(Asker::of(&request), &refusal, held);
            return StepEnd::End;
        };
        let law = Law {
            size_bytes,
            read_only: self.read_only,
            limits: &cx.settings.limits,
            accepted_bytes_max: cx.settings.accepted_bytes_max(),
            terms: &self.terms,
            fence: &self.fence,
        };
        match law.judge(&request) {
            Ok(command) => {
                let contexts = self.terms.contexts.len();
                let charge = verdict::charge(command, &request, &cx.settings.limits, contexts);
                let held = Reservation {
                    bytes: REQUEST_BYTES + charge.whole,
                    class: charge.class,
                };
                if !cx.ledger.take(held.bytes, held.class) {
                    return StepEnd::Stalled;
                }
                cx.staging.consume(header_bytes);
                self.foreseen -= 1;
                self.start(command, &request, held, charge.slices, cx);
                StepEnd::Again
            }
            Err(refusal) => {
                let held = Reservation {
                    bytes: REQUEST_BYTES,
                    class: Class::Small,
                };
                if !cx.ledger.take(held.bytes, held.class) {
                    return StepEnd::Stalled;
                }
                cx.staging.consume(header_bytes);
                self.foreseen -= 1;
                if refusal.text == Fence::TEXT {
                    self.fence.tell(cx.settings.notes.as_ref(), cx.caller);
                }
                self.refuse(&request, refusal, held, cx)
            }
        }
    }

    fn refuse(
        &mut self,
        request: &Request,
        refusal: Refusal,
        held: Reservation,
        cx: &mut Cx<'_>,
    ) -> StepEnd {
        cx.metrics.refused(Command::of_code(request.command));
        let (style, asker) = (self.terms.style, Asker::of(request));
        let payload = request.payload_bytes(style == Style::Extended);
        if payload == 0 {
            replies(style, cx).failed(asker, &refusal, held);
            return StepEnd::Again;
        }
        match u32::try_from(payload) {
            Ok(rest) if rest <= cx.settings.accepted_bytes_max() => {
                self.receiving = Receiving::Skip {
                    rest,
                    asker,
                    refusal,
                    held,
                };
                StepEnd::Again
            }
            _ => {
                replies(style, cx).failed(asker, &refusal, held);
                StepEnd::End
            }
        }
    }

    fn start(
        &mut self,
        command: Command,
        request: &Request,
        held: Reservation,
        slices: Option<Slices>,
        cx: &mut Cx<'_>,
    ) {
        let &Request { offset, length, .. } = request;
        let style = self.terms.style;
        let has = |flag: u16| request.flags & flag != 0;
        let durable = has(command_flags::FUA);
        // Proto leaves requests of length 0 open, but wants no disconnect: nothing is done, well.
        // There is no way to say so in extents.
        if length == 0 && command != Command::Flush {
            let asker = Asker::of(request);
            let refusal = Refusal::new(Errno::Invalid, "the extents of no bytes");
            let is_status = command == Command::BlockStatus;
            if is_status {
                replies(style, cx).failed(asker, &refusal, held);
            } else {
                replies(style, cx).done(asker, held);
            }
            let now = cx.metrics.now();
            return cx.metrics.replied(command, now, 0, is_status);
        }
        let is_streamed = command == Command::Read && style.has_chunks() && !has(command_flags::DF);
        let course = match (&slices, is_streamed) {
            (None, false) => Course::Whole,
            (None, true) => Course::WholeInChunks,
            (Some(_), false) => Course::Sliced,
            (Some(_), true) => Course::Streamed,
        };
        let id = self.requests.insert(Admitted {
            asker: Asker::of(request),
            command,
            offset,
            length,
            held,
            since: cx.metrics.now(),
            course,
        });
        let whole = || u32::try_from(length).expect("one operation");
        match command {
            Command::Read | Command::Cache => match slices {
                Some(rest) => self.reading = Some(Reading { id, rest }),
                None => {
                    let length = whole();
                    self.submit_only(id, Op::Read { offset, length }, cx);
                }
            },
            Command::Write => {
                let is_whole = slices.is_none();
                let slices = slices.unwrap_or_else(|| Slices::new(offset, whole()));
                let mut payload = Payload::new(id, slices, held.class, durable);
                if is_whole {
                    payload.open(OP_BYTES_MAX);
                }
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

    fn submit_slice(&mut self, id: usize, slice: (u64, u32), op: Op, cx: &mut Cx<'_>) {
        let token = self.requests.slice_submitted(id, slice);
        cx.target
            .submit(self.lun, op, cx.token_base + u64::from(token));
    }

    /// Submits slices of the long read as far as there is memory; true when all are.
    pub(super) fn read_on(&mut self, cx: &mut Cx<'_>) -> bool {
        while let Some(Reading { id, rest }) = &mut self.reading {
            let id = *id;
            let unit = cx.ledger.memory().piece_bytes();
            let (offset, length) = rest.peek(unit).expect("a slice is left");
            let bytes = page_bytes(offset, length);
            if !cx.ledger.take(bytes, Class::Large) {
                // Data that is kept for later must not take the memory that reading the rest needs.
                let freed = self.requests.yield_memory();
                if freed == 0 {
                    return false;
                }
                give(cx.ledger, freed);
                cx.ledger.begin();
                continue;
            }
            let slice = rest.take(unit).expect("it was looked at");
            let is_last = rest.is_empty();
            self.submit_slice(id, slice, Op::Read { offset, length }, cx);
            if is_last {
                self.requests.all_submitted(id);
                self.reading = None;
            }
        }
        true
    }

    /// Reads the data that the first reply owes, if there is memory for it.
    pub(super) fn refill(&mut self, cx: &mut Cx<'_>) {
        let Some((offset, length)) = cx.outgoing.owed().filter(|_| !self.is_refilling) else {
            return;
        };
        let owed = Slices::new_part(offset, length).peek(SHORT_PIECE_BYTES);
        let (offset, length) = owed.expect("something is owed");
        if !cx.ledger.take(page_bytes(offset, length), Class::Again) {
            return;
        }
        self.is_refilling = true;
        let id = self.requests.insert(Admitted {
            asker: Asker { cookie: 0, offset },
            command: Command::Read,
            offset,
            length: u64::from(length),
            held: Reservation::none(Class::Again),
            since: cx.metrics.now(),
            course: Course::Refill,
        });
        self.submit_slice(id, (offset, length), Op::Read { offset, length }, cx);
        self.requests.all_submitted(id);
    }

    /// Moves staged payload into pages, and submits every slice that is full.
    fn next_payload(&mut self, cx: &mut Cx<'_>) -> StepEnd {
        let Receiving::Payload(payload) = &mut self.receiving else {
            unreachable!("called while a payload is received")
        };
        if !payload.is_open() {
            let memory = cx.ledger.memory();
            let (unit, is_pressed) = (memory.piece_bytes(), memory.is_pressed());
            let (bytes, class) = (payload.next_bytes(unit), payload.class());
            let has_bytes = !cx.staging.bytes().is_empty();
            let is_taken = match has_bytes {
                true => cx.ledger.take(bytes, class),
                // Pages for bytes that have not arrived are for times of plenty.
                false => !is_pressed && cx.ledger.take_if_plenty(bytes, class),
            };
            match (is_taken, has_bytes) {
                (true, _) => payload.open(unit),
                (false, true) => return StepEnd::Stalled,
                (false, false) => return StepEnd::NeedBytes,
            }
        }
        let copied = payload.fill_from(cx.staging.bytes());
        cx.staging.consume(copied);
        let (id, durable) = (payload.request_id(), payload.durable());
        let Some(data) = payload.take_full() else {
            return StepEnd::NeedBytes;
        };
        let (is_whole, is_last) = (payload.is_whole(), payload.is_complete());
        if is_last {
            self.receiving = Receiving::Header;
        }
        let refused = self.submit_write(id, is_whole, WriteOp { data, durable }, cx);
        if is_last {
            self.requests.all_submitted(id);
        }
        self.end_refused(refused, cx);
        StepEnd::Again
    }

    /// Submits a write, or returns its token if another host has reserved the export meanwhile.
    #[must_use]
    fn submit_write(
        &mut self,
        id: usize,
        is_whole: bool,
        write: WriteOp,
        cx: &mut Cx<'_>,
    ) -> Option<Token> {
        let WriteOp { data, durable } = write;
        let slice = (data.offset, data.length);
        if !self.fence.admits(Command::Write) {
            self.fence.tell(cx.settings.notes.as_ref(), cx.caller);
            return Some(Token::from(match is_whole {
                true => self.requests.submitted(id),
                false => self.requests.slice_submitted(id, slice),
            }));
        }
        let op = Op::Write { data, durable };
        match is_whole {
            true => self.submit(id, op, cx),
            false => self.submit_slice(id, slice, op, cx),
        }
        None
    }

    /// Ends an operation that never reached the target, after its request knows whether it was the
    /// last one.
    fn end_refused(&mut self, refused: Option<Token>, cx: &mut Cx<'_>) {
        let Some(low) = refused else {
            return;
        };
        let outgoing = Some(&mut *cx.outgoing);
        let ended = self.completed(low, Err(Error::ReadOnly), outgoing, cx.ledger, cx.metrics);
        assert_eq!(ended, Ended::Well, "no reply of a write has begun");
    }

    /// Writes the whole blocks of a long write that have arrived, and keeps the rest of a block in
    /// the buffer. Called when other sessions wait for memory and the client sends nothing.
    pub(super) fn yield_incoming(&mut self, cx: &mut Cx<'_>) {
        let Receiving::Payload(payload) = &mut self.receiving else {
            return;
        };
        if !cx.staging.bytes().is_empty() {
            return;
        }
        let Some(Yielded { data, left, freed }) = payload.yield_slice() else {
            return;
        };
        let (id, class, durable) = (payload.request_id(), payload.class(), payload.durable());
        let bytes = freed;
        cx.ledger.give(Reservation { bytes, class });
        cx.staging.put_back(&left);
        if let Some(data) = data {
            let refused = self.submit_write(id, false, WriteOp { data, durable }, cx);
            self.end_refused(refused, cx);
        }
    }

    /// Drops data that was read and can be read again. Called when other sessions wait for memory.
    pub(super) fn yield_kept(&mut self, ledger: &mut Ledger) {
        let freed = self.requests.yield_memory();
        give(ledger, freed);
    }
}

/// A write to be submitted.
struct WriteOp {
    data: WriteSpan,
    durable: bool,
}

/// Releases memory of slices, which only long requests have.
fn give(ledger: &mut Ledger, bytes: u64) {
    let class = Class::Large;
    ledger.give(Reservation { bytes, class });
}

fn replies<'a>(style: Style, cx: &'a mut Cx<'_>) -> Replies<'a> {
    Replies {
        style,
        outgoing: cx.outgoing,
    }
}
