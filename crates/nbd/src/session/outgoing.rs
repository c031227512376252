//! The queue of messages to send, and how they are gathered into one send.
//!
//! The data of reads stays in the pages the target returned; a message only refers to them and
//! drops them when they are sent. Data of a long request may be *owed*: it is not in memory, and is
//! read when it is to be sent ([`Outgoing::owed`], [`Outgoing::pay`]). Data is owed from the
//! beginning if it did not fit in memory. Data becomes owed, also in the middle of a message, if
//! the client does not take it while other sessions wait for memory ([`Outgoing::yield_memory`]).
//! The data of a request of one operation is never owed: a second read would show another moment.
//!
//! 1. Bytes behind the first owed byte are not sent before that byte.
//! 2. A message holds the charge for the pages of a request of one operation, and the last message
//!    of a reply holds the charge of the request. Parts of longer requests have charges of their
//!    own, until they are sent or owed.

use std::collections::VecDeque;
use std::io::IoSlice;

use everglade_target::ReadSpan;
use everglade_target::sessions::memory::{
    Class, Released, Reservation, SHORT_PIECE_BYTES, page_bytes,
};

use crate::wire::Chunk;

/// Messages in the order they are sent.
#[derive(Default)]
pub(super) struct Outgoing {
    messages: VecDeque<Message>,
    /// Bytes of the first message already sent.
    sent: u64,
    /// Messages that end a reply.
    replies: usize,
    /// Messages that owe data.
    owing: usize,
}

struct Message {
    head: Head,
    data: Data,
    /// Bytes of head and data.
    length: u64,
    /// The charge until the message is sent.
    held: Reservation,
    /// The last message of a reply.
    ends_reply: bool,
}

/// Longest head without a vector: an extended chunk with the place and length of a hole.
const SHORT_HEAD_BYTES: usize = Chunk::EXTENDED_BYTES + 12;

/// The bytes before the data.
pub(super) enum Head {
    Short([u8; SHORT_HEAD_BYTES], usize),
    Long(Vec<u8>),
}

/// The data of a read.
pub(super) enum Data {
    None,
    /// The data of a request of one operation.
    One(ReadSpan),
    /// The data of a longer request.
    Many(Parts),
}

/// Data that follows each other, some of it owed.
#[derive(Default)]
pub(super) struct Parts {
    parts: VecDeque<Part>,
    /// Bytes in front of the parts that were sent.
    gone: u64,
}

/// Data of one operation.
pub(super) enum Part {
    /// The class of its memory is kept, because the data may have been owed before.
    Here(ReadSpan, Class),
    Owed {
        offset: u64,
        length: u32,
    },
}

impl Head {
    fn bytes(&self) -> &[u8] {
        match self {
            Head::Short(bytes, length) => &bytes[..*length],
            Head::Long(bytes) => bytes,
        }
    }

    /// Joins all `parts`.
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

impl Part {
    fn length(&self) -> u32 {
        match self {
            Part::Here(span, _) => span.length,
            Part::Owed { length, .. } => *length,
        }
    }

    fn end(&self) -> u64 {
        let offset = match self {
            Part::Here(span, _) => span.offset,
            Part::Owed { offset, .. } => *offset,
        };
        offset + u64::from(self.length())
    }

    fn is_owed(&self) -> bool {
        matches!(self, Part::Owed { .. })
    }

    /// Memory that it has.
    fn held(&self) -> Reservation {
        match self {
            Part::Here(span, class) => Reservation {
                bytes: page_bytes(span.offset, span.length),
                class: *class,
            },
            Part::Owed { .. } => Reservation::none(Class::Large),
        }
    }
}

impl Parts {
    pub(super) fn of(parts: impl IntoIterator<Item = Part>) -> Parts {
        let mut all = Parts::default();
        parts.into_iter().for_each(|part| all.push(part));
        all
    }

    fn push(&mut self, part: Part) {
        if let (Part::Owed { length: more, .. }, Some(Part::Owed { offset, length })) =
            (&part, self.parts.back_mut())
            && *offset + u64::from(*length) == part.end() - u64::from(*more)
        {
            *length += more;
            return;
        }
        self.parts.push_back(part);
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter()
    }

    /// Returns the first owed data, unless there is enough to send before it.
    fn owed(&self) -> Option<(u64, u32)> {
        let mut ahead = 0;
        for part in &self.parts {
            match part {
                Part::Owed { offset, length } => return Some((*offset, *length)),
                Part::Here(span, _) => ahead += span.length,
            }
            if ahead > SHORT_PIECE_BYTES {
                return None;
            }
        }
        None
    }

    /// Returns the memory of all parts.
    pub(super) fn held(&self) -> Released {
        let mut held = Released::default();
        self.parts.iter().for_each(|part| held.add(part.held()));
        held
    }

    /// Drops the sent part of the first `sent` bytes of the data, and adds the memory of it to
    /// `released`.
    fn forget(&mut self, sent: u64, released: &mut Released) {
        while let Some(first) = self.parts.front()
            && self.gone + u64::from(first.length()) <= sent
        {
            self.gone += u64::from(first.length());
            released.add(first.held());
            self.parts.pop_front();
        }
    }

    /// Turns all data that is not sent completely into owed data; `sent` bytes of the first are
    /// sent. Adds its memory to `released`.
    fn yield_memory(&mut self, sent: u64, released: &mut Released) {
        let mut skip = u32::try_from(sent.saturating_sub(self.gone)).expect("within a message");
        for part in std::mem::take(&mut self.parts) {
            released.add(part.held());
            let (end, here) = (part.end(), part.length());
            let rest = here - skip.min(here);
            self.gone += u64::from(here - rest);
            skip -= here - rest;
            if rest > 0 {
                let offset = end - u64::from(rest);
                self.push(Part::Owed {
                    offset,
                    length: rest,
                });
            }
        }
    }

    /// Puts data where it is owed.
    fn pay(&mut self, span: ReadSpan) {
        let (from, to) = (span.offset, span.offset + u64::from(span.length));
        let mut span = Some(span);
        for part in std::mem::take(&mut self.parts) {
            let Part::Owed { offset, length } = part else {
                self.push(part);
                continue;
            };
            let end = offset + u64::from(length);
            if span.is_none() || from < offset || to > end {
                self.push(part);
                continue;
            }
            let owed = |offset: u64, end: u64| Part::Owed {
                offset,
                length: u32::try_from(end - offset).expect("part of a request"),
            };
            if offset < from {
                self.push(owed(offset, from));
            }
            let paid = span.take().map(|span| Part::Here(span, Class::Again));
            self.parts.extend(paid);
            if to < end {
                self.push(owed(to, end));
            }
        }
        assert!(span.is_none(), "data is paid where it is owed");
    }
}

impl Data {
    pub(super) fn length(&self) -> u64 {
        match self {
            Data::None => 0,
            Data::One(span) => u64::from(span.length),
            Data::Many(all) => all.parts().map(|part| u64::from(part.length())).sum(),
        }
    }

    fn is_owing(&self) -> bool {
        matches!(self, Data::Many(all) if all.parts().any(Part::is_owed))
    }
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns whether data is owed.
    pub(super) fn owes(&self) -> bool {
        self.owing > 0
    }

    /// Returns whether the next byte to send is in memory.
    pub(super) fn is_ready(&self) -> bool {
        match self.messages.front() {
            None => false,
            Some(_) if self.owing == 0 => true,
            Some(first) => first.is_ready(self.sent),
        }
    }

    /// Drops everything. Returns the released memory.
    pub(super) fn clear(&mut self) -> Released {
        self.sent = 0;
        self.replies = 0;
        self.owing = 0;
        let mut released = Released::default();
        for message in self.messages.drain(..) {
            released.add(message.held);
            if let Data::Many(mut all) = message.data {
                all.forget(u64::MAX, &mut released);
            }
        }
        released
    }

    /// Replies whose end is not completely sent.
    pub(super) fn replies(&self) -> usize {
        self.replies
    }

    /// Queues bytes of the handshake.
    pub(super) fn push_bytes(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            let held = Reservation::none(Class::Small);
            self.push(Head::Long(bytes), Data::None, held, true);
        }
    }

    /// Queues a message of a reply: `head` and the data that follows it. `held` is charged until it
    /// was sent, parts besides.
    pub(super) fn push(&mut self, head: Head, data: Data, held: Reservation, ends_reply: bool) {
        let length = head.bytes().len() as u64 + data.length();
        assert!(length > 0, "a message has bytes");
        self.replies += usize::from(ends_reply);
        self.owing += usize::from(data.is_owing());
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
        let mut buffers = Buffers {
            all: buffers,
            count: 0,
        };
        let mut skip = self.sent;
        for message in &self.messages {
            let is_named = message.name(skip, &mut buffers);
            if !is_named || self.owing > 0 && message.data.is_owing() {
                break;
            }
            skip = 0;
        }
        buffers.count
    }

    /// Records that `bytes` more bytes were sent. Returns the memory that this releases.
    pub(super) fn transmitted(&mut self, bytes: usize) -> Released {
        self.sent += bytes as u64;
        let mut released = Released::default();
        while let Some(first) = self.messages.front_mut() {
            if let Data::Many(all) = &mut first.data {
                let head = first.head.bytes().len() as u64;
                all.forget(self.sent.saturating_sub(head), &mut released);
            }
            if self.sent < first.length {
                break;
            }
            self.sent -= first.length;
            released.add(first.held);
            self.replies -= usize::from(first.ends_reply);
            self.messages.pop_front();
        }
        assert!(
            self.sent == 0 || !self.messages.is_empty(),
            "sent more than there was"
        );
        released
    }

    /// Returns the data that the first message owes, if the data before it is in memory.
    pub(super) fn owed(&self) -> Option<(u64, u32)> {
        if self.owing == 0 {
            return None;
        }
        match &self.messages.front()?.data {
            Data::Many(all) => all.owed(),
            Data::None | Data::One(_) => None,
        }
    }

    /// Supplies some of the data that [`Outgoing::owed`] named. It is charged from now on.
    pub(super) fn pay(&mut self, span: ReadSpan) {
        let first = self.messages.front_mut().expect("a message that owes");
        let Data::Many(all) = &mut first.data else {
            unreachable!("a message that owes has parts")
        };
        all.pay(span);
        self.owing -= usize::from(!first.data.is_owing());
    }

    /// Owes all data of long requests that was not sent. Returns the released memory.
    pub(super) fn yield_memory(&mut self) -> Released {
        let mut released = Released::default();
        let mut sent = self.sent;
        for message in &mut self.messages {
            let head = message.head.bytes().len() as u64;
            if let Data::Many(all) = &mut message.data {
                let was_owing = all.parts().any(Part::is_owed);
                all.yield_memory(sent.saturating_sub(head), &mut released);
                self.owing += usize::from(!was_owing && all.parts().any(Part::is_owed));
            }
            sent = 0;
        }
        released
    }
}

impl Message {
    /// Names the message's memory in order, without its first `skip` bytes, up to its first owed
    /// byte. False if there is not a buffer for each piece.
    fn name<'a>(&'a self, skip: u64, buffers: &mut Buffers<'_, 'a>) -> bool {
        let head = self.head.bytes();
        let mut skip = skip;
        match usize::try_from(skip) {
            Ok(start) if start < head.len() => {
                if !buffers.put(&head[start..]) {
                    return false;
                }
                skip = 0;
            }
            _ => skip -= head.len() as u64,
        }
        match &self.data {
            Data::None => true,
            Data::One(span) => buffers.put_span(span, &mut skip),
            Data::Many(all) => {
                skip = skip.saturating_sub(all.gone);
                for part in all.parts() {
                    match part {
                        Part::Here(span, _) if !buffers.put_span(span, &mut skip) => return false,
                        Part::Here(..) => {}
                        Part::Owed { .. } => break,
                    }
                }
                true
            }
        }
    }

    /// Returns whether the byte after the first `sent` is in memory.
    fn is_ready(&self, sent: u64) -> bool {
        let Data::Many(all) = &self.data else {
            return true;
        };
        sent < self.head.bytes().len() as u64 || all.parts.front().is_none_or(|it| !it.is_owed())
    }
}

/// Places for the pieces of a send.
struct Buffers<'b, 'a> {
    all: &'b mut [IoSlice<'a>],
    count: usize,
}

impl<'a> Buffers<'_, 'a> {
    /// Adds a piece. Returns false if all slots are taken.
    fn put(&mut self, piece: &'a [u8]) -> bool {
        let Some(free) = self.all.get_mut(self.count) else {
            return false;
        };
        *free = IoSlice::new(piece);
        self.count += 1;
        true
    }

    /// Adds the memory of `span` without its first `skip` bytes, in constant time for skipped
    /// pages.
    fn put_span(&mut self, span: &'a ReadSpan, skip: &mut u64) -> bool {
        let here = u32::try_from(*skip).unwrap_or(u32::MAX).min(span.length);
        *skip -= u64::from(here);
        span.slices_from(here).all(|piece| self.put(piece))
    }
}
