//! The other end of one session: sends bytes, collects answers.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use everglade_nbd::wire::{Request, SimpleReply};
use everglade_nbd::{Caller, Session, Settings};
use everglade_target::Target;

use crate::held::Held;

/// Flags of a request.
pub(crate) const FUA: u16 = 1;
pub(crate) const NO_HOLE: u16 = 2;
pub(crate) const DF: u16 = 4;
pub(crate) const REQ_ONE: u16 = 8;
pub(crate) const FAST_ZERO: u16 = 16;
pub(crate) const PAYLOAD_LEN: u16 = 32;

/// Commands.
pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISC: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const BLOCK_STATUS: u16 = 7;

pub(crate) struct Peer {
    pub(crate) session: Session,
    pub(crate) target: Held,
    /// Pieces named to one send or receive.
    pub(crate) pieces: usize,
    /// Bytes moved by one send or receive.
    pub(crate) chunk: usize,
}

impl Peer {
    /// Connected, nothing exchanged.
    pub(crate) fn new(target: Held, settings: Settings) -> Self {
        let session = Session::new(7 << 32, settings, &Arc::default());
        Peer {
            session,
            target,
            pieces: 300,
            chunk: usize::MAX,
        }
    }

    /// Makes a peer in transmission with `vol0/lun0`, with all replies of the handshake read.
    pub(crate) fn in_transmission(target: Held, settings: Settings) -> Self {
        let mut peer = Self::new(target, settings);
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend(option(1, b"vol0/lun0"));
        assert_eq!(peer.exchange(&hello).len(), 18 + 10);
        assert!(!peer.session.is_in_handshake());
        peer
    }

    /// Connected as somebody in particular, nothing exchanged but the greeting and the client's
    /// flags.
    pub(crate) fn called_by(target: Held, caller: Caller) -> Self {
        let mut peer = Self::new(target, Settings::default());
        peer.session = peer.session.with_caller(caller);
        peer.exchange(&3u32.to_be_bytes());
        peer
    }

    /// Makes a peer in transmission with `vol0/lun0` after these options, each of which must be
    /// acknowledged.
    pub(crate) fn after_options(target: Held, options: &[Vec<u8>]) -> Self {
        let mut peer = Self::new(target, Settings::default());
        peer.exchange(&3u32.to_be_bytes());
        for message in options {
            let answer = peer.exchange(message);
            let number = &message[8..12];
            assert!(answer.ends_with(&[number, &[0, 0, 0, 1, 0, 0, 0, 0]].concat()));
        }
        peer.exchange(&option(7, &info_data("vol0/lun0", &[])));
        assert!(!peer.session.is_in_handshake());
        peer
    }

    /// Sends as much of `bytes` as the session takes; returns how many that were.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() && self.session.wants_read() {
            let mut pieces: Vec<IoSliceMut<'_>> =
                (0..self.pieces).map(|_| IoSliceMut::new(&mut [])).collect();
            let count = self.session.receive_buffers(&mut pieces);
            assert!(count > 0, "a session that wants to read has room");
            let mut moved = 0;
            for piece in &mut pieces[..count] {
                let now = piece.len().min(rest.len()).min(self.chunk - moved);
                piece[..now].copy_from_slice(&rest[..now]);
                rest = &rest[now..];
                moved += now;
            }
            self.session.received(moved, &mut self.target);
        }
        bytes.len() - rest.len()
    }

    /// Lets the target complete its ready operations.
    pub(crate) fn work(&mut self) -> bool {
        let mut done = Vec::new();
        self.target.poll(&mut done);
        let mut any = !done.is_empty();
        if self.session.home_question().is_some() {
            assert_eq!(self.target.open, 0, "nothing is open while it asks");
            self.session.stay(&mut self.target);
            any = true;
        }
        for completion in done {
            self.session
                .completed(completion.token, completion.result, &mut self.target);
        }
        any
    }

    /// Takes everything the session has to send.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut taken = Vec::new();
        while self.session.wants_write() {
            let before = taken.len();
            let mut pieces = vec![IoSlice::new(&[]); self.pieces];
            let count = self.session.transmit_buffers(&mut pieces);
            assert!(count > 0, "a session that wants to write has bytes");
            for piece in &pieces[..count] {
                let now = piece.len().min(self.chunk - (taken.len() - before));
                taken.extend_from_slice(&piece[..now]);
            }
            let moved = taken.len() - before;
            assert!(moved > 0, "pieces are not empty");
            self.session.transmitted(moved, &mut self.target);
        }
        taken
    }

    /// Sends all of `bytes`, taking answers meanwhile; stops when the session takes no more.
    pub(crate) fn exchange(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut rest = bytes;
        let mut answers = Vec::new();
        loop {
            let sent = self.send(rest);
            rest = &rest[sent..];
            let worked = self.work();
            let before = answers.len();
            answers.extend(self.take());
            if sent == 0 && !worked && answers.len() == before {
                return answers;
            }
        }
    }
}

/// An option with its header.
pub(crate) fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

/// The data of INFO and GO.
pub(crate) fn info_data(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut bytes = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(name.as_bytes());
    bytes.extend(u16::try_from(wanted.len()).unwrap().to_be_bytes());
    wanted
        .iter()
        .for_each(|fact| bytes.extend(fact.to_be_bytes()));
    bytes
}

/// An option reply.
pub(crate) fn option_reply(number: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

/// A request without payload.
pub(crate) fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    Request {
        flags,
        command,
        cookie,
        offset,
        length: u64::from(length),
    }
    .encode()
    .to_vec()
}

/// A write with its payload.
pub(crate) fn write(flags: u16, cookie: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    let mut message = request(WRITE, flags, cookie, offset, length);
    message.extend(bytes);
    message
}

/// A reply without data.
pub(crate) fn reply(error: u32, cookie: u64) -> Vec<u8> {
    SimpleReply { error, cookie }.encode().to_vec()
}

/// Bytes in which every position can be told from its neighbours.
pub(crate) fn pattern(seed: u64, count: usize) -> Vec<u8> {
    everglade_target::conformance::Dice::new(seed).bytes(count)
}

/// A structured chunk.
pub(crate) fn chunk(done: bool, kind: u16, cookie: u64, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x66\x8e\x33\xef".to_vec();
    bytes.extend([0, u8::from(done)]);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Returns the body of a chunk of data, or of a hole.
pub(crate) fn at(offset: u64, rest: &[u8]) -> Vec<u8> {
    [&offset.to_be_bytes()[..], rest].concat()
}

/// The data of LIST and SET_META_CONTEXT.
pub(crate) fn context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let text = |text: &str| {
        let length = u32::try_from(text.len()).unwrap();
        [&length.to_be_bytes()[..], text.as_bytes()].concat()
    };
    let mut bytes = text(name);
    bytes.extend(u32::try_from(queries.len()).unwrap().to_be_bytes());
    queries.iter().for_each(|query| bytes.extend(text(query)));
    bytes
}
