//! The queue of messages to send, and how they are gathered into one send.
//!
//! A message is a head, data that stays in the pages or bytes where it is, and a tail: the digest
//! of the data, and the response that follows it. A message holds the charge for its memory until
//! it is sent.

use std::collections::VecDeque;
use std::io::IoSlice;

use everglade_target::ReadSpan;
use everglade_target::sessions::memory::{Class, Released, Reservation};

/// A response with its digest, or the header of data with its digest; and a digest of data before
/// it.
const SHORT_BYTES: usize = 32;

/// Bytes in front of or behind data.
pub(super) enum Bytes {
    Short([u8; SHORT_BYTES], u8),
    Long(Box<[u8]>),
}

/// Data of a message.
pub(super) enum Data {
    None,
    Pages(ReadSpan),
    Bytes(Box<[u8]>),
}

struct Message {
    head: Bytes,
    data: Data,
    tail: Bytes,
    /// Bytes of all three.
    length: u64,
    held: Reservation,
    /// The answer to a command, which is counted until it is sent.
    is_answer: bool,
}

/// Messages in the order in which they are sent.
#[derive(Default)]
pub(super) struct Outgoing {
    messages: VecDeque<Message>,
    /// Bytes of the first message that are sent.
    sent: u64,
    /// Answers among the messages.
    answers: usize,
}

impl Bytes {
    /// No bytes.
    pub(super) fn none() -> Bytes {
        Bytes::Short([0; SHORT_BYTES], 0)
    }

    /// Joins all `parts`.
    #[inline]
    pub(super) fn of(parts: &[&[u8]]) -> Bytes {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > SHORT_BYTES {
            return Bytes::Long(parts.concat().into_boxed_slice());
        }
        let mut bytes = [0; SHORT_BYTES];
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Bytes::Short(bytes, u8::try_from(length).expect("a short one"))
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Bytes::Short(bytes, length) => &bytes[..usize::from(*length)],
            Bytes::Long(bytes) => bytes,
        }
    }
}

impl Data {
    pub(super) fn length(&self) -> u32 {
        match self {
            Data::None => 0,
            Data::Pages(span) => span.length,
            Data::Bytes(bytes) => u32::try_from(bytes.len()).expect("at most a transfer"),
        }
    }

    /// Returns the pieces of memory from byte `start` on.
    pub(super) fn pieces(&self, start: u32) -> impl Iterator<Item = &[u8]> {
        let pages = match self {
            Data::Pages(span) if start < span.length => Some(span.slices_from(start)),
            _ => None,
        };
        let bytes = match self {
            Data::Bytes(bytes) => bytes.get(start as usize..),
            _ => None,
        };
        pages.into_iter().flatten().chain(bytes)
    }
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Answers whose end is not completely sent.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    /// Queues a message that is no answer to a command, and is not charged.
    pub(super) fn push_message(&mut self, bytes: &[u8]) {
        let held = Reservation::none(Class::Small);
        self.push(
            [Bytes::of(&[bytes]), Bytes::none()],
            Data::None,
            held,
            false,
        );
    }

    /// Queues an answer, which is charged with `held` until it is sent.
    pub(super) fn push_answer(&mut self, head: Bytes, data: Data, tail: Bytes, held: Reservation) {
        self.push([head, tail], data, held, true);
    }

    fn push(&mut self, ends: [Bytes; 2], data: Data, held: Reservation, is_answer: bool) {
        let [head, tail] = ends;
        let ends = head.bytes().len() + tail.bytes().len();
        let length = ends as u64 + u64::from(data.length());
        assert!(length > 0, "a message has bytes");
        self.answers += usize::from(is_answer);
        self.messages.push_back(Message {
            head,
            data,
            tail,
            length,
            held,
            is_answer,
        });
    }

    /// Drops everything. Returns the released memory.
    pub(super) fn clear(&mut self) -> Released {
        let mut released = Released::default();
        for message in self.messages.drain(..) {
            released.add(message.held);
        }
        (self.sent, self.answers) = (0, 0);
        released
    }

    /// Names the bytes to send next, in as many of `buffers` as there are.
    pub(super) fn gather<'a>(&'a self, buffers: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        let mut skip = self.sent;
        for message in &self.messages {
            for piece in message.pieces(skip) {
                let Some(free) = buffers.get_mut(count) else {
                    return count;
                };
                *free = IoSlice::new(piece);
                count += 1;
            }
            skip = 0;
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
    fn pieces(&self, skip: u64) -> impl Iterator<Item = &[u8]> {
        let skip = usize::try_from(skip).expect("a message is in memory");
        let (head, tail) = (self.head.bytes(), self.tail.bytes());
        let data_length = self.data.length() as usize;
        let in_data = skip.saturating_sub(head.len());
        let in_tail = in_data.saturating_sub(data_length);
        let start = u32::try_from(in_data.min(data_length)).expect("within the data");
        let head = head.get(skip..).into_iter();
        let all = head
            .chain(self.data.pieces(start))
            .chain([&tail[in_tail..]]);
        all.filter(|piece| !piece.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everglade_env::Page;

    fn all(outgoing: &Outgoing) -> Vec<u8> {
        let mut buffers = [IoSlice::new(&[]); 64];
        let count = outgoing.gather(&mut buffers);
        buffers[..count].iter().flat_map(|it| it.to_vec()).collect()
    }

    #[test]
    fn bytes_are_named_from_wherever_the_last_send_ended() {
        let mut page = Page::zeroed();
        for (byte, place) in page.iter_mut().zip(0_u32..) {
            *byte = place.to_le_bytes()[0];
        }
        let pages = vec![page.freeze(), everglade_env::PageRef::zero()];
        let span = ReadSpan {
            offset: 4090,
            length: 10,
            pages,
        };
        let mut outgoing = Outgoing::default();
        let held = Reservation {
            bytes: 10,
            class: Class::Large,
        };
        let tail = Bytes::of(&[b"tail", &[9; 40]]);
        outgoing.push_answer(Bytes::of(&[b"head"]), Data::Pages(span), tail, held);
        outgoing.push_message(b"next");
        let whole = all(&outgoing);
        assert_eq!(&whole[..10], b"head\xfa\xfb\xfc\xfd\xfe\xff");
        assert_eq!(&whole[10..18], b"\0\0\0\0tail");
        assert_eq!(whole.len(), 4 + 10 + 44 + 4);
        for sent in 0..58 {
            assert_eq!(all(&outgoing), whole[sent..], "after {sent} bytes");
            let released: u64 = outgoing.transmitted(1).amounts().map(|it| it.bytes).sum();
            assert_eq!(released, if sent == 57 { 10 } else { 0 });
        }
        assert_eq!(outgoing.answers(), 0);
        assert_eq!(all(&outgoing), b"next");
    }
}
