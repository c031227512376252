//! Messages of the host: which part of the stream comes next, and what is done with it.

use everglade_target::sessions::memory::page_bytes;
use everglade_target::{Target, WriteSpan};

use super::requests::{Payload, Work};
use super::settings::{ADMIN_IN_CAPSULE_BYTES_MAX, IN_CAPSULE_BYTES_MAX, TRANSFER_BYTES_MAX};
use super::{Phase, Session, StepEnd};
use crate::wire::digest::{DIGEST_BYTES, digest_of_pieces};
use crate::wire::opcode::io;
use crate::wire::pdu::{
    CommonHeader, DataHeader, Fatal, Initialize, Layout, PduKind, fatal_status, pdu_flags,
};
use crate::wire::{Command, Status};

/// Alignment that we ask of the host's data.
const OUR_ALIGNMENT: usize = 4;
/// The highest alignment that a host may ask for, in units of 4 bytes, less one.
const HOST_ALIGNMENT_MAX: u8 = 31;
/// Reads that are announced to a target together, before the first of them is submitted.
const FORESEEN_MAX: usize = 32;

/// The part of the stream that the next received byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// A header.
    Header,
    /// Data of a command.
    Data {
        row: usize,
        /// First byte of this message's data in the command's data.
        start: u32,
        /// Bytes of this message's data.
        length: u32,
        /// Bytes that have not come.
        rest: u32,
        /// A digest follows.
        has_digest: bool,
    },
    /// Data that nobody wants, with its digest.
    Skip { rest: u32 },
}

impl Session {
    pub(super) fn step(&mut self, target: &mut dyn Target) -> StepEnd {
        match self.receiving {
            Receiving::Header => self.next_message(target),
            Receiving::Data { .. } => self.next_data(target),
            Receiving::Skip { rest } => {
                let rest = rest - self.staging.skip(rest);
                self.receiving = match rest {
                    0 => Receiving::Header,
                    _ => Receiving::Skip { rest },
                };
                match rest {
                    0 => StepEnd::Again,
                    _ => StepEnd::NeedBytes,
                }
            }
        }
    }

    fn next_message(&mut self, target: &mut dyn Target) -> StepEnd {
        let bytes = self.staging.bytes();
        let Some(first) = bytes.first_chunk() else {
            return StepEnd::NeedBytes;
        };
        let header = CommonHeader::parse(first);
        let layout = match Layout::check(&header, self.digests, OUR_ALIGNMENT) {
            Ok(layout) => layout,
            Err(fatal) => return StepEnd::Fatal(fatal),
        };
        let is_first = matches!(self.phase, Phase::Initialize);
        match layout.kind {
            PduKind::HostTerminates => return StepEnd::End,
            PduKind::InitializeRequest if is_first => {}
            PduKind::Command if !is_first => {}
            PduKind::HostData if matches!(self.phase, Phase::Queue(_)) => {}
            PduKind::InitializeRequest | PduKind::Command | PduKind::HostData => {
                return StepEnd::Fatal(Fatal::of(fatal_status::SEQUENCE));
            }
            // Messages of controllers.
            _ => return StepEnd::Fatal(Fatal::field(0)),
        }
        if bytes.len() < layout.data_at {
            return StepEnd::NeedBytes;
        }
        if let Err(fatal) = layout.check_header_digest(bytes) {
            return StepEnd::Fatal(fatal);
        }
        match layout.kind {
            PduKind::InitializeRequest => self.initialize(),
            PduKind::Command if matches!(self.phase, Phase::Connect) => {
                self.first_command(&layout, target)
            }
            PduKind::Command => self.next_command(&layout, target),
            _ => self.host_data(&header, &layout),
        }
    }

    fn initialize(&mut self) -> StepEnd {
        let bytes = self.staging.bytes().first_chunk();
        let request = Initialize::parse(bytes.expect("the whole header is there"));
        if request.version != 0 {
            return StepEnd::Fatal(Fatal {
                status: fatal_status::UNSUPPORTED,
                information: 8,
            });
        }
        if request.alignment > HOST_ALIGNMENT_MAX {
            return StepEnd::Fatal(Fatal::field(10));
        }
        self.staging.consume(Initialize::BYTES);
        self.alignment = 4 * (usize::from(request.alignment) + 1);
        let response = Initialize {
            version: 0,
            alignment: 0,
            digests: request.digests,
            digests_reserved: 0,
            limit: TRANSFER_BYTES_MAX,
        };
        self.outgoing
            .push_message(&response.encode(PduKind::InitializeResponse));
        // Digests are part of all messages that follow.
        self.digests = request.digests;
        self.phase = Phase::Connect;
        StepEnd::Again
    }

    fn next_command(&mut self, layout: &Layout, target: &mut dyn Target) -> StepEnd {
        self.foresee(target);
        let Phase::Queue(queue) = &self.phase else {
            unreachable!("called for a queue")
        };
        if queue.is_over() {
            return StepEnd::End;
        }
        let in_capsule_max = match queue.is_admin() {
            true => ADMIN_IN_CAPSULE_BYTES_MAX,
            false => IN_CAPSULE_BYTES_MAX,
        };
        if layout.data_bytes > in_capsule_max {
            return StepEnd::Fatal(Fatal::of(fatal_status::LIMIT_EXCEEDED));
        }
        // A host counts a command until it has the answer, so it is at fault if there are more. If
        // it owes data, that is behind the command, and waiting would be for ever.
        if self.requests.len() + self.outgoing.answers() > queue.entries as usize {
            return match self.requests.asked {
                0 => StepEnd::Stalled,
                _ => StepEnd::Fatal(Fatal::of(fatal_status::LIMIT_EXCEEDED)),
            };
        }
        let bytes = &self.staging.bytes()[CommonHeader::BYTES..];
        let command = Command::parse(bytes.first_chunk().expect("the whole header is there"));
        let Some(admitted) = self.admit(&command, layout.data_bytes, target) else {
            return StepEnd::Stalled;
        };
        self.staging.consume(layout.data_at);
        self.foreseen = self.foreseen.saturating_sub(1);
        self.expect_data(layout, admitted.takes_data);
        self.begin(&admitted, target);
        StepEnd::Again
    }

    /// Makes the data that follows a command's header go to a row, or nowhere.
    fn expect_data(&mut self, layout: &Layout, row: Option<usize>) {
        let length = layout.data_bytes;
        self.receiving = match row {
            Some(row) => Receiving::Data {
                row,
                start: 0,
                length,
                rest: length,
                has_digest: layout.has_data_digest,
            },
            None if length == 0 => Receiving::Header,
            None => {
                let digest = u32::try_from(layout.data_digest_bytes()).expect("4 or 0");
                let rest = length + digest;
                Receiving::Skip { rest }
            }
        };
    }

    /// Checks the header of a message with data of a write (H2CData), and prepares to receive the
    /// data. We have asked the host for it.
    fn host_data(&mut self, header: &CommonHeader, layout: &Layout) -> StepEnd {
        if self.is_over() {
            return StepEnd::End;
        }
        let bytes = self.staging.bytes().first_chunk();
        let data = DataHeader::parse(bytes.expect("the whole header is there"));
        let row = usize::from(data.tag);
        let Some(request) = self.requests.get(row) else {
            return StepEnd::Fatal(Fatal::field(10));
        };
        if request.command_id != data.command_id {
            return StepEnd::Fatal(Fatal::field(8));
        }
        let (total, filled) = match &request.payload {
            Payload::Awaited { length } => (*length, 0),
            Payload::Span {
                span,
                filled,
                is_asked: true,
            } => (span.length, *filled),
            Payload::Bytes {
                bytes,
                filled,
                is_asked: true,
            } => (u32::try_from(bytes.len()).expect("a structure"), *filled),
            _ => return StepEnd::Fatal(Fatal::field(10)),
        };
        if data.length != layout.data_bytes {
            return StepEnd::Fatal(Fatal::field(16));
        }
        if data.offset != filled || data.length > total - filled {
            return StepEnd::Fatal(Fatal::of(fatal_status::DATA_OUT_OF_RANGE));
        }
        let is_last = header.flags & pdu_flags::LAST != 0;
        if is_last != (filled + data.length == total) {
            return StepEnd::Fatal(Fatal::field(1));
        }
        if let Payload::Awaited { length } = request.payload
            && !self.open_payload(row, length, true)
        {
            return StepEnd::Stalled;
        }
        self.staging.consume(layout.data_at);
        self.receiving = Receiving::Data {
            row,
            start: filled,
            length: data.length,
            rest: data.length,
            has_digest: layout.has_data_digest,
        };
        StepEnd::Again
    }

    /// Allocates the memory for the data of a row, if there is enough.
    pub(super) fn open_payload(&mut self, row: usize, length: u32, is_asked: bool) -> bool {
        let request = self.requests.row(row);
        let class = request.held.class;
        let is_blocks = request.work.takes_blocks();
        let bytes = match is_blocks {
            true => page_bytes(request.offset, length),
            false => u64::from(length),
        };
        if is_asked {
            // Data in a command's message was charged with the command.
            let bytes = bytes + request.later;
            if !self.ledger.take(bytes, class) {
                return false;
            }
            let request = self.requests.row(row);
            request.held.bytes += bytes;
            request.later = 0;
        }
        let request = self.requests.row(row);
        request.payload = match is_blocks {
            true => Payload::Span {
                span: WriteSpan::to_receive(request.offset, length),
                filled: 0,
                is_asked,
            },
            false => Payload::Bytes {
                bytes: vec![0; length as usize],
                filled: 0,
                is_asked,
            },
        };
        self.requests.incomplete += 1;
        true
    }

    /// Moves staged data into its place. When the message's data is complete, checks the digest;
    /// when the command's is, carries the command out.
    fn next_data(&mut self, target: &mut dyn Target) -> StepEnd {
        let Receiving::Data {
            row,
            start,
            length,
            rest,
            has_digest,
        } = &mut self.receiving
        else {
            unreachable!("called while data is received")
        };
        let (row, start, length, has_digest) = (*row, *start, *length, *has_digest);
        if *rest > 0 {
            let payload = &mut self.requests.row(row).payload;
            let copied = copy_into(payload, *rest, self.staging.bytes());
            payload.fill(copied);
            *rest -= copied;
            let rest = *rest;
            self.staging.consume(copied as usize);
            if rest > 0 {
                return StepEnd::NeedBytes;
            }
        }
        if has_digest {
            let Some(received) = self.staging.bytes().first_chunk::<DIGEST_BYTES>() else {
                return StepEnd::NeedBytes;
            };
            let request = self.requests.row(row);
            let computed = digest_of_pieces(request.payload.pieces(start, length));
            if computed != *received && !request.status.is_error() {
                // The stream is in order; only this command fails.
                request.status = Status::TRANSIENT_TRANSPORT;
            }
            self.staging.consume(DIGEST_BYTES);
        }
        self.receiving = Receiving::Header;
        if self.requests.row(row).has_payload() {
            self.requests.completed_payload(row);
            // The host may use the LUN by another controller already.
            if self.is_over() {
                return StepEnd::End;
            }
            if !self.may_run(row) {
                self.requests.row(row).status = Status::RESERVATION_CONFLICT;
            }
            self.run(row, target);
        }
        StepEnd::Again
    }

    /// Announces the reads at the front of the staging buffer to the target, if there are several
    /// of one namespace.
    fn foresee(&mut self, target: &mut dyn Target) {
        if self.foreseen > 0 || self.digests.header {
            return;
        }
        let Phase::Queue(queue) = &self.phase else {
            return;
        };
        let header_bytes = PduKind::Command.header_bytes();
        let staged = self.staging.bytes();
        if queue.is_admin() || staged.len() < 2 * header_bytes {
            return;
        }
        let mut reads = [(0, 0); FORESEEN_MAX];
        let mut count = 0;
        let mut first = None;
        for message in staged.chunks_exact(header_bytes).take(FORESEEN_MAX) {
            let header = CommonHeader::parse(message.first_chunk().expect("a whole header"));
            let command = message[CommonHeader::BYTES..].first_chunk();
            let command = Command::parse(command.expect("a whole header"));
            let is_read = header.kind == PduKind::Command.code()
                && header.length as usize == header_bytes
                && command.opcode == io::READ
                && *first.get_or_insert(command.namespace) == command.namespace;
            if !is_read {
                break;
            }
            let offset = command.first_block() << crate::wire::identify::BLOCK_SHIFT;
            // Whether the range makes sense will be judged; here it is a hint.
            let length = command.block_count() << crate::wire::identify::BLOCK_SHIFT;
            reads[count] = (offset, length.min(TRANSFER_BYTES_MAX));
            count += 1;
        }
        let namespace = first.and_then(|id| queue.namespace(id));
        if let Some(namespace) = namespace
            && count > 1
        {
            target.expect_reads(namespace.lun, &reads[..count]);
        }
        self.foreseen = count.max(1);
    }
}

impl Work {
    /// Returns whether the data of the command are blocks of the LUN, not a structure.
    pub(super) fn takes_blocks(&self) -> bool {
        matches!(
            self,
            Work::Write
                | Work::Compare { .. }
                | Work::FusedCompare { .. }
                | Work::FusedWrite { .. }
        )
    }
}

/// Copies the front of `bytes` into data of which `rest` bytes are missing; returns how many.
fn copy_into(payload: &mut Payload, rest: u32, bytes: &[u8]) -> u32 {
    let mut source = bytes;
    let mut copied = 0;
    for piece in payload.unfilled(rest) {
        let count = piece.len().min(source.len());
        let (now, later) = source.split_at(count);
        piece[..count].copy_from_slice(now);
        source = later;
        copied += count;
        if source.is_empty() {
            break;
        }
    }
    u32::try_from(copied).expect("at most the rest")
}
