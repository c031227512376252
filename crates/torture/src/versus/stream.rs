//! The two directions of a connection for measuring: many messages go out with one call, and many
//! come in with one.

use std::io::{self, IoSlice, Read, Write};

/// The most bytes that one call receives. No pattern has more in flight.
const ROOM_BYTES: usize = 2 << 20;

/// Messages that are sent together.
pub(super) struct Batch<H> {
    heads: Vec<H>,
    /// Which part of the noise follows each head: its first byte, and its length.
    payloads: Vec<Option<(usize, usize)>>,
}

impl<H: AsRef<[u8]>> Batch<H> {
    pub(super) fn new() -> Batch<H> {
        Batch {
            heads: Vec::new(),
            payloads: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, head: H, payload: Option<(usize, usize)>) {
        self.heads.push(head);
        self.payloads.push(payload);
    }

    /// Sends all with one call, or as few as the kernel allows.
    pub(super) fn send(&mut self, stream: &mut impl Write, noise: &[u8]) -> io::Result<()> {
        let mut pieces = Vec::with_capacity(2 * self.heads.len());
        for (head, payload) in self.heads.iter().zip(&self.payloads) {
            pieces.push(IoSlice::new(head.as_ref()));
            if let Some((from, length)) = payload {
                pieces.push(IoSlice::new(&noise[*from..from + length]));
            }
        }
        let mut rest = &mut pieces[..];
        while !rest.is_empty() {
            let sent = stream.write_vectored(rest)?;
            IoSlice::advance_slices(&mut rest, sent);
        }
        drop(pieces);
        self.heads.clear();
        self.payloads.clear();
        Ok(())
    }
}

/// What a header says.
pub(super) struct Heard {
    /// Bytes of data behind it, which nobody looks at.
    pub(super) skip: usize,
    /// There is something to do: a request was answered, or the server wants more to be sent.
    pub(super) is_answer: bool,
}

/// The room for messages that come in. Each begins with a header of `N` bytes.
pub(super) struct Room<const N: usize> {
    bytes: Box<[u8]>,
    /// Bytes that are not dealt with: less than a header.
    kept: usize,
    /// Bytes of data still to come.
    skip: usize,
}

impl<const N: usize> Room<N> {
    pub(super) fn new() -> Room<N> {
        Room {
            bytes: vec![0; ROOM_BYTES].into_boxed_slice(),
            kept: 0,
            skip: 0,
        }
    }

    /// Waits until there is an answer, and passes all headers that have come to `hear`.
    pub(super) fn receive(
        &mut self,
        stream: &mut impl Read,
        mut hear: impl FnMut(&[u8; N]) -> io::Result<Heard>,
    ) -> io::Result<()> {
        let mut got_one = false;
        while !got_one {
            let bytes = stream.read(&mut self.bytes[self.kept..])?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let end = self.kept + bytes;
            let mut at = 0;
            loop {
                let skipped = self.skip.min(end - at);
                at += skipped;
                self.skip -= skipped;
                let Some(header) = self.bytes[at..end].first_chunk() else {
                    break;
                };
                let heard = hear(header)?;
                self.skip = heard.skip;
                got_one |= heard.is_answer;
                at += N;
            }
            self.bytes.copy_within(at..end, 0);
            self.kept = end - at;
        }
        Ok(())
    }
}
