//! Completions and data for the host.
//!
//! | outcome | messages |
//! | --- | --- |
//! | nothing but a status | response |
//! | data | data, then a response; without flow control and with nothing else to say, data alone |
//! | data is wanted | request for data |

use everglade_target::sessions::memory::{REQUEST_BYTES, Reservation};

use super::outgoing::{Bytes, Data};
use super::requests::Request;
use super::{Phase, Session, State};
use crate::metrics::Operation;
use crate::wire::digest::{DIGEST_BYTES, digest_of, digest_of_pieces};
use crate::wire::pdu::{CommonHeader, DataHeader, PduKind, pdu_flags};
use crate::wire::{Completion, Digests, Status};

/// A message without data.
const RESPONSE_BYTES: usize = 24;

impl Session {
    /// Ends a command: queues its answer, and frees its id.
    pub(super) fn finish(&mut self, row: usize, data: Data) {
        let request = self.requests.remove(row);
        assert_eq!(request.in_flight, 0, "a command ends after its operations");
        let failed = request.status.is_error();
        let bytes = u64::from(request.length);
        self.metrics
            .replied(request.operation, request.since, bytes, failed);
        let Phase::Queue(queue) = &mut self.phase else {
            unreachable!("commands belong to a queue")
        };
        let answered = match request.operation {
            Operation::Read => Some(&mut queue.tally.reads),
            Operation::Write => Some(&mut queue.tally.writes),
            _ => None,
        };
        if let (Some(answered), false) = (answered, failed) {
            answered.add(self.metrics.now().saturating_sub(request.since), bytes);
        }
        queue.command_ids.remove(request.command_id);
        if self.state == State::Abandoned {
            return self.ledger.give(request.held);
        }
        self.answer(&request, data);
    }

    fn answer(&mut self, request: &Request, data: Data) {
        let class = request.held.class;
        if request.status.is_error() || matches!(data, Data::None) {
            // The memory of pages is free now.
            let bytes = request.held.bytes - REQUEST_BYTES;
            self.ledger.give(Reservation { bytes, class });
            let held = Reservation {
                bytes: REQUEST_BYTES,
                class,
            };
            let (id, status, result) = (request.command_id, request.status, request.result);
            return self.respond(id, status, result, held);
        }
        let has_flow_control = match &self.phase {
            Phase::Queue(queue) => queue.has_flow_control,
            _ => true,
        };
        let is_whole_answer = !has_flow_control && request.result == 0;
        let head = self.data_head(request.command_id, &data, is_whole_answer);
        let digest = match self.digests.data {
            true => Some(digest_of_pieces(data.pieces(0))),
            false => None,
        };
        let digest = digest.as_ref().map_or(&[][..], |digest| &digest[..]);
        let tail = match is_whole_answer {
            true => Bytes::of(&[digest]),
            false => {
                let id = request.command_id;
                let (response, sum) = self.response(id, request.status, request.result);
                Bytes::of(&[
                    digest,
                    &response,
                    sum.as_ref().map_or(&[][..], |sum| &sum[..]),
                ])
            }
        };
        self.outgoing.push_answer(head, data, tail, request.held);
    }

    /// Queues a response, which is charged with `held`.
    pub(super) fn respond(&mut self, id: u16, status: Status, result: u64, held: Reservation) {
        let (response, sum) = self.response(id, status, result);
        let head = Bytes::of(&[&response, sum.as_ref().map_or(&[][..], |sum| &sum[..])]);
        self.outgoing
            .push_answer(head, Data::None, Bytes::none(), held);
    }

    /// Makes a response, and the digest of it if there is one.
    fn response(
        &self,
        id: u16,
        status: Status,
        result: u64,
    ) -> ([u8; RESPONSE_BYTES], Option<[u8; DIGEST_BYTES]>) {
        let (queue_id, head) = match &self.phase {
            Phase::Queue(queue) if queue.has_flow_control => (queue.id, queue.head),
            Phase::Queue(queue) => (queue.id, 0),
            _ => (0, 0),
        };
        let completion = Completion {
            result,
            queue_head: u16::try_from(head).expect("below the entries"),
            queue: queue_id,
            command_id: id,
            status,
        };
        self.response_of(&completion)
    }

    /// Makes a response with this completion.
    pub(super) fn response_of(
        &self,
        completion: &Completion,
    ) -> ([u8; RESPONSE_BYTES], Option<[u8; DIGEST_BYTES]>) {
        let Digests { header, .. } = self.digests;
        let digest_bytes = if header { DIGEST_BYTES } else { 0 };
        let length = u32::try_from(RESPONSE_BYTES + digest_bytes).expect("28");
        let common = CommonHeader {
            kind: PduKind::Response.code(),
            flags: u8::from(header) * pdu_flags::HEADER_DIGEST,
            header_bytes: 24,
            data_offset: 0,
            length,
        };
        let mut bytes = [0; RESPONSE_BYTES];
        bytes[..CommonHeader::BYTES].copy_from_slice(&common.encode());
        bytes[CommonHeader::BYTES..].copy_from_slice(&completion.encode());
        (bytes, header.then(|| digest_of(&bytes)))
    }

    /// Makes the header of data for the host, with its digest and padding.
    fn data_head(&self, id: u16, data: &Data, is_whole_answer: bool) -> Bytes {
        let Digests {
            header,
            data: data_digest,
        } = self.digests;
        let front = DataHeader::BYTES + if header { DIGEST_BYTES } else { 0 };
        let data_at = front.next_multiple_of(self.alignment);
        let tail = if data_digest { DIGEST_BYTES } else { 0 };
        let around = u32::try_from(data_at + tail).expect("at most 132");
        let mut flags = pdu_flags::LAST;
        flags |= u8::from(header) * pdu_flags::HEADER_DIGEST;
        flags |= u8::from(data_digest) * pdu_flags::DATA_DIGEST;
        flags |= u8::from(is_whole_answer) * pdu_flags::SUCCESS;
        let common = CommonHeader {
            kind: PduKind::ControllerData.code(),
            flags,
            header_bytes: 24,
            data_offset: u8::try_from(data_at).expect("at most 128"),
            length: around + data.length(),
        };
        let fields = DataHeader {
            command_id: id,
            tag: 0,
            offset: 0,
            length: data.length(),
        };
        let head = fields.encode(&common);
        let padding = [0; 4 * 32];
        let padding = &padding[..data_at - front];
        match header {
            true => Bytes::of(&[&head, &digest_of(&head), padding]),
            false => Bytes::of(&[&head, padding]),
        }
    }

    /// Asks the host for the data of a command.
    pub(super) fn ask_for_data(&mut self, row: usize, length: u32) {
        let request = self.requests.row(row);
        let fields = DataHeader {
            command_id: request.command_id,
            tag: u16::try_from(row).expect("requests are bounded"),
            offset: 0,
            length,
        };
        let header = self.digests.header;
        let digest_bytes = if header { DIGEST_BYTES } else { 0 };
        let common = CommonHeader {
            kind: PduKind::ReadyToTransfer.code(),
            flags: u8::from(header) * pdu_flags::HEADER_DIGEST,
            header_bytes: 24,
            data_offset: 0,
            length: u32::try_from(DataHeader::BYTES + digest_bytes).expect("28"),
        };
        let head = fields.encode(&common);
        let digest = digest_of(&head);
        let digest = if header { &digest[..] } else { &[] };
        self.outgoing.push_message(&[&head, digest].concat());
    }
}
