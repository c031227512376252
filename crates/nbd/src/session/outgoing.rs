//! The queue of messages to send, and how they are gathered into one send.
//!
//! The data of reads stays in the pages the target returned; a message only refers to them and
//! drops them when its last byte was sent.

use std::collections::VecDeque;
use std::io::IoSlice;

use everglade_target::{ReadSpan, span};

use super::position::page_index;
use crate::wire::Chunk;

/// Messages in the order they are sent.
#[derive(Default)]
pub(super) struct Outgoing {
    messages: VecDeque<Message>,
    /// Bytes of the first message already sent.
    sent: u64,
    /// Messages that end a reply.
    replies: usize,
}

struct Message {
    head: Head,
    data: Data,
    /// Of head and data.
    length: u64,
    /// Bytes of payload that are charged until the message was sent.
    held: u64,
    /// The last message of a reply.
    ends_reply: bool,
}

/// Longest head without a vector: an extended chunk with the place and length of a hole.
const SHORT_HEAD_BYTES: usize = Chunk::EXTENDED_BYTES + 12;

/// What precedes the data.
pub(super) enum Head {
    Short([u8; SHORT_HEAD_BYTES], usize),
    Long(Vec<u8>),
}

/// The data of a read.
pub(super) enum Data {
    None,
    One(ReadSpan),
    Many(Vec<ReadSpan>),
}

impl Head {
    fn bytes(&self) -> &[u8] {
        match self {
            Head::Short(bytes, length) => &bytes[..*length],
            Head::Long(bytes) => bytes,
        }
    }

    /// All `parts`, one after the other.
    pub(super) fn of(parts: &[&[u8]]) -> Head {
        let length = parts.iter().map(|part| part.len()).sum();
        if length > SHORT_HEAD_BYTES {
            return Head::Long(parts.concat());
        }
        let mut bytes = [0; SHORT_HEAD_BYTES];
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Head::Short(bytes, length)
    }
}

impl Data {
    pub(super) fn spans(&self) -> &[ReadSpan] {
        match self {
            Data::None => &[],
            Data::One(span) => std::slice::from_ref(span),
            Data::Many(spans) => spans,
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.spans().iter().map(|span| u64::from(span.length)).sum()
    }
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Drops everything. Returns how many bytes of payload are no longer held.
    pub(super) fn clear(&mut self) -> u64 {
        self.sent = 0;
        self.replies = 0;
        self.messages.drain(..).map(|message| message.held).sum()
    }

    /// Replies whose end is not completely sent.
    pub(super) fn replies(&self) -> usize {
        self.replies
    }

    /// Queues bytes of the handshake.
    pub(super) fn push_bytes(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.push(Head::Long(bytes), Data::None, 0, true);
        }
    }

    /// Queues a message of a reply: `head` and the data that follows it. `held` bytes of payload are
    /// charged until it was sent.
    pub(super) fn push(&mut self, head: Head, data: Data, held: u64, ends_reply: bool) {
        let length = head.bytes().len() as u64 + data.length();
        assert!(length > 0, "a message has bytes");
        self.replies += usize::from(ends_reply);
        self.messages.push_back(Message {
            head,
            data,
            length,
            held,
            ends_reply,
        });
    }

    /// Names the bytes to send next, in as many of `buffers` as there are.
    pub(super) fn gather<'a>(&'a self, buffers: &mut [IoSlice<'a>]) -> usize {
        let mut skip = self.sent;
        let mut count = 0;
        for message in &self.messages {
            for piece in message.pieces(skip) {
                if count == buffers.len() {
                    return count;
                }
                buffers[count] = IoSlice::new(piece);
                count += 1;
            }
            skip = 0;
        }
        count
    }

    /// `bytes` more bytes were sent. Returns how many bytes of payload are no longer held.
    pub(super) fn transmitted(&mut self, bytes: usize) -> u64 {
        self.sent += bytes as u64;
        let mut released = 0;
        while let Some(first) = self.messages.front()
            && self.sent >= first.length
        {
            self.sent -= first.length;
            released += first.held;
            self.replies -= usize::from(first.ends_reply);
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
    /// The message's memory in order, without its first `skip` bytes.
    fn pieces(&self, skip: u64) -> impl Iterator<Item = &[u8]> {
        let head = self.head.bytes();
        let head_skip = usize::try_from(skip).unwrap_or(usize::MAX).min(head.len());
        let rest = Some(&head[head_skip..]).filter(|rest| !rest.is_empty());
        let mut skip = skip.saturating_sub(head.len() as u64);
        rest.into_iter()
            .chain(self.data.spans().iter().flat_map(move |span| {
                let here = u32::try_from(skip).unwrap_or(u32::MAX).min(span.length);
                skip -= u64::from(here);
                span_pieces(span, here)
            }))
    }
}

/// The memory of `span` without its first `skip` bytes, found without walking over them.
fn span_pieces(span: &ReadSpan, skip: u32) -> impl Iterator<Item = &[u8]> {
    let start = span.offset + u64::from(skip);
    let first_page = page_index(span.offset, start);
    span::parts(start, span.length - skip)
        .map(move |(page, range)| &span.pages[first_page + page][range])
}
