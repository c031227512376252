//! The queue of messages to send, and how they are gathered into one send.
//!
//! Data of reads stays in the pages that the target returned; a message refers to them and drops
//! them when it is sent. A message that ends a command holds the command's memory until then.

use std::collections::VecDeque;
use std::io::IoSlice;

use everglade_target::ReadSpan;
use everglade_target::sessions::memory::{Released, Reservation};
use everglade_target::span::{self, page_index};

use crate::wire::digest::{DIGEST_BYTES, digest};
use crate::wire::header::{BHS_BYTES, Bhs, padding, set_data_bytes};

/// Padding and a digest at most.
const TAIL_BYTES_MAX: usize = 3 + DIGEST_BYTES;

/// The data of a message.
#[derive(Debug)]
pub(super) enum Data {
    None,
    Bytes(Vec<u8>),
    Span(ReadSpan),
}

/// Which digests messages have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Digests {
    pub(super) header: bool,
    pub(super) data: bool,
}

struct Message {
    head: [u8; BHS_BYTES + DIGEST_BYTES],
    head_bytes: u8,
    data: Data,
    tail: [u8; TAIL_BYTES_MAX],
    tail_bytes: u8,
    /// Bytes of all parts.
    length: u64,
    /// The charge until the message is sent.
    held: Reservation,
    /// It answers a request.
    is_answer: bool,
}

/// Messages in the order they are sent.
#[derive(Default)]
pub(super) struct Outgoing {
    messages: VecDeque<Message>,
    /// Bytes of the first message already sent.
    sent: u64,
    answers: usize,
    /// Bytes of data that are not pages of reads.
    answer_bytes: u64,
}

impl Data {
    pub(super) fn length(&self) -> u32 {
        match self {
            Data::None => 0,
            Data::Bytes(bytes) => u32::try_from(bytes.len()).expect("answers are short"),
            Data::Span(span) => span.length,
        }
    }

    fn answer_bytes(&self) -> u64 {
        match self {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::None | Data::Span(_) => 0,
        }
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let (bytes, span) = match self {
            Data::None => (None, None),
            Data::Bytes(bytes) => (Some(&bytes[..]), None),
            Data::Span(span) => (None, Some(span)),
        };
        let pages = span.into_iter().flat_map(ReadSpan::slices);
        bytes.into_iter().chain(pages)
    }

    /// Returns a part of the data.
    pub(super) fn part(&self, at: u32, length: u32) -> Data {
        match self {
            Data::None => Data::None,
            Data::Bytes(bytes) => Data::Bytes(bytes[at as usize..][..length as usize].to_vec()),
            Data::Span(whole) => {
                let offset = whole.offset + u64::from(at);
                let first = page_index(whole.offset, offset);
                let count = span::parts(offset, length).count();
                Data::Span(ReadSpan {
                    offset,
                    length,
                    pages: whole.pages[first..first + count].to_vec(),
                })
            }
        }
    }
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Answers that are not sent completely.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    /// Bytes of data that wait and are not pages of reads, which are charged.
    pub(super) fn answer_bytes(&self) -> u64 {
        self.answer_bytes
    }

    /// Drops everything. Returns the released memory.
    pub(super) fn clear(&mut self) -> Released {
        self.sent = 0;
        self.answers = 0;
        self.answer_bytes = 0;
        let mut released = Released::default();
        self.messages
            .drain(..)
            .for_each(|message| released.add(message.held));
        released
    }

    /// Queues a message. `held` is charged until it is sent.
    pub(super) fn push(
        &mut self,
        mut bhs: Bhs,
        data: Data,
        digests: Digests,
        held: Reservation,
        is_answer: bool,
    ) {
        let data_bytes = data.length();
        set_data_bytes(&mut bhs, data_bytes);
        let mut head = [0; BHS_BYTES + DIGEST_BYTES];
        head[..BHS_BYTES].copy_from_slice(&bhs);
        let mut head_bytes = BHS_BYTES;
        if digests.header {
            head[BHS_BYTES..].copy_from_slice(&digest([&bhs[..]]));
            head_bytes += DIGEST_BYTES;
        }
        let mut tail = [0; TAIL_BYTES_MAX];
        let mut tail_bytes = padding(data_bytes) as usize;
        if digests.data && data_bytes > 0 {
            let filling = &[0; 3][..tail_bytes];
            let sum = digest(data.pieces().chain([filling]));
            tail[tail_bytes..tail_bytes + DIGEST_BYTES].copy_from_slice(&sum);
            tail_bytes += DIGEST_BYTES;
        }
        self.answers += usize::from(is_answer);
        self.answer_bytes += data.answer_bytes();
        self.messages.push_back(Message {
            head,
            head_bytes: u8::try_from(head_bytes).expect("52 at most"),
            length: head_bytes as u64 + u64::from(data_bytes) + tail_bytes as u64,
            data,
            tail,
            tail_bytes: u8::try_from(tail_bytes).expect("7 at most"),
            held,
            is_answer,
        });
    }

    /// Names the bytes to send next, in as many of `buffers` as there are.
    pub(super) fn gather<'a>(&'a self, buffers: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        let mut skip = self.sent;
        for message in &self.messages {
            for piece in message.pieces(&mut skip) {
                if count == buffers.len() {
                    return count;
                }
                buffers[count] = IoSlice::new(piece);
                count += 1;
            }
        }
        count
    }

    /// Records that `bytes` more bytes were sent. Returns the memory that this releases.
    pub(super) fn transmitted(&mut self, bytes: usize) -> Released {
        self.sent += bytes as u64;
        let mut released = Released::default();
        while let Some(first) = self.messages.front()
            && self.sent >= first.length
        {
            self.sent -= first.length;
            released.add(first.held);
            self.answers -= usize::from(first.is_answer);
            self.answer_bytes -= first.data.answer_bytes();
            self.messages.pop_front();
        }
        assert!(
            self.sent == 0 || !self.messages.is_empty(),
            "sent more than there was"
        );
        released
    }
}

impl Message {
    /// Returns the message's memory in order, without its first `skip` bytes.
    fn pieces<'a>(&'a self, skip: &mut u64) -> impl Iterator<Item = &'a [u8]> {
        let head = &self.head[..usize::from(self.head_bytes)];
        let tail = &self.tail[..usize::from(self.tail_bytes)];
        let pieces = [head].into_iter().chain(self.data.pieces()).chain([tail]);
        pieces.filter_map(move |piece| {
            let here = usize::try_from(*skip)
                .unwrap_or(usize::MAX)
                .min(piece.len());
            *skip -= here as u64;
            let rest = &piece[here..];
            (!rest.is_empty()).then_some(rest)
        })
    }
}
