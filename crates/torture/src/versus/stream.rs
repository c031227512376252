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
    /// Bytes that are sent already.
    sent: usize,
    /// The stream does not block; otherwise one that would is one that was silent for too long.
    pub(super) may_wait: bool,
}

impl<H: AsRef<[u8]>> Batch<H> {
    pub(super) fn new() -> Batch<H> {
        Batch {
            heads: Vec::new(),
            payloads: Vec::new(),
            sent: 0,
            may_wait: false,
        }
    }

    pub(super) fn push(&mut self, head: H, payload: Option<(usize, usize)>) {
        self.heads.push(head);
        self.payloads.push(payload);
    }

    /// Sends all with one call, or as few as the kernel allows. Returns false if the stream does
    /// not block and took only a part; the rest is for the next call.
    pub(super) fn send(&mut self, stream: &mut impl Write, noise: &[u8]) -> io::Result<bool> {
        let mut pieces = Vec::with_capacity(2 * self.heads.len());
        for (head, payload) in self.heads.iter().zip(&self.payloads) {
            pieces.push(IoSlice::new(head.as_ref()));
            if let Some((from, length)) = payload {
                pieces.push(IoSlice::new(&noise[*from..from + length]));
            }
        }
        let mut rest = &mut pieces[..];
        IoSlice::advance_slices(&mut rest, self.sent);
        while !rest.is_empty() {
            let sent = match stream.write_vectored(rest) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.may_wait => {
                    return Ok(false);
                }
                sent => sent?,
            };
            self.sent += sent;
            IoSlice::advance_slices(&mut rest, sent);
        }
        drop(pieces);
        self.heads.clear();
        self.payloads.clear();
        self.sent = 0;
        Ok(true)
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
    /// The stream does not block: there may be nothing to receive.
    pub(super) may_wait: bool,
}

impl<const N: usize> Room<N> {
    pub(super) fn new() -> Room<N> {
        Room {
            bytes: vec![0; ROOM_BYTES].into_boxed_slice(),
            kept: 0,
            skip: 0,
            may_wait: false,
        }
    }

    /// Waits until there is an answer, unless the stream does not block, and passes all headers
    /// that have come to `hear`.
    pub(super) fn receive(
        &mut self,
        stream: &mut impl Read,
        mut hear: impl FnMut(&[u8; N]) -> io::Result<Heard>,
    ) -> io::Result<()> {
        let mut got_one = false;
        while !got_one {
            let bytes = match stream.read(&mut self.bytes[self.kept..]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.may_wait => {
                    return Ok(());
                }
                bytes => bytes?,
            };
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
