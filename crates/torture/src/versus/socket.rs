//! A connection for measuring: as few calls and as little work for a request as possible, so that
//! what is measured is the server. Many requests go out with one call, and many replies come in
//! with one.
//!
//! It is not [`crate::client`], whose two halves and checked replies serve other ends. Fixed
//! newstyle, `NBD_OPT_EXPORT_NAME`, simple replies: what every server of the comparison speaks.

use std::io::{self, Read, Write};
use std::ops::Deref;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::Random;
use crate::client::Address;
use crate::client::stream::Stream;

use super::stream::{Batch, Heard, Room};

/// All of [`Noise`].
const NOISE_BYTES: usize = 4 << 20;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const REQUEST_BYTES: usize = 28;
const REPLY_BYTES: usize = 16;

/// Contents of writes that nothing can compress or deduplicate.
pub(crate) struct Noise(Box<[u8]>);

impl Noise {
    /// The contents of a seed.
    pub(crate) fn new(seed: u64) -> Noise {
        let mut random = Random::new(seed ^ 0x5eed);
        let words = (0..NOISE_BYTES / 8).flat_map(|_| random.number().to_le_bytes());
        Noise(words.collect())
    }

    /// Returns the first byte of a part of this length.
    pub(crate) fn part(length: u32, random: &mut Random) -> usize {
        let parts = (NOISE_BYTES - length as usize) / 4096 + 1;
        let part = random.below(parts as u64);
        usize::try_from(part).unwrap_or(0) * 4096
    }
}

impl Deref for Noise {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A command of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    Write,
    /// With FUA: the reply says that it is durable.
    DurableWrite,
    Flush,
}

/// A request. The cookie comes back with the reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) verb: Verb,
    pub(crate) cookie: u32,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

/// A connection on which requests are queued, sent together, and answered in any order.
pub(crate) trait Client: Send {
    /// Queues a request; `payload` is the first byte of a write's contents in the noise.
    fn queue(&mut self, ask: Ask, payload: usize);

    /// Sends all that is queued with one call, or as few as the kernel allows. Returns false if the
    /// connection does not block and took only a part; the rest is sent by the next call.
    fn send(&mut self, noise: &[u8]) -> io::Result<bool>;

    /// From now on neither sending nor receiving blocks.
    fn set_nonblocking(&mut self) -> io::Result<()>;

    /// Waits for replies, and passes the cookie of each to `replied`, which says how many bytes a
    /// read returns. There may be none, if the server wants more to be sent.
    fn receive(&mut self, replied: &mut dyn FnMut(u32) -> usize) -> io::Result<()>;

    /// Waits, at most so long, until something can be received, or also until something can be
    /// sent. Returns true if something can be received.
    fn wait(&self, patience: Duration, or_sent: bool) -> io::Result<bool>;

    /// Says goodbye, which has no reply.
    fn close(self: Box<Self>) -> io::Result<()>;
}

pub(super) struct Socket {
    stream: Stream,
    batch: Batch<[u8; REQUEST_BYTES]>,
    room: Room<REPLY_BYTES>,
}

impl Socket {
    pub(super) fn open(address: &Address, export: &str) -> io::Result<(Socket, u64)> {
        let mut stream = Stream::connect(address)?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        if &greeting[..16] != b"NBDMAGICIHAVEOPT" {
            return Err(io::Error::other("no greeting of NBD"));
        }
        let length = u32::try_from(export.len()).map_err(io::Error::other)?;
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT");
        hello.extend(1u32.to_be_bytes());
        hello.extend(length.to_be_bytes());
        hello.extend(export.as_bytes());
        stream.write_all(&hello)?;
        let mut described = [0; 10];
        stream.read_exact(&mut described)?;
        let mut size = [0; 8];
        size.copy_from_slice(&described[..8]);
        let socket = Socket {
            stream,
            batch: Batch::new(),
            room: Room::new(),
        };
        Ok((socket, u64::from_be_bytes(size)))
    }
}

/// See [`Client::wait`].
pub(super) fn wait(stream: impl AsFd, patience: Duration, or_sent: bool) -> io::Result<bool> {
    let flags = match or_sent {
        true => PollFlags::IN | PollFlags::OUT,
        false => PollFlags::IN,
    };
    let mut polled = [PollFd::new(&stream, flags)];
    let time = Timespec::try_from(patience).map_err(io::Error::other)?;
    match rustix::event::poll(&mut polled, Some(&time)) {
        // The end of a connection is heard of by receiving.
        Ok(_) => Ok(polled[0].revents().intersects(!PollFlags::OUT)),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Client for Socket {
    fn wait(&self, patience: Duration, or_sent: bool) -> io::Result<bool> {
        wait(&self.stream, patience, or_sent)
    }

    fn set_nonblocking(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking()?;
        (self.batch.may_wait, self.room.may_wait) = (true, true);
        Ok(())
    }

    fn close(mut self: Box<Self>) -> io::Result<()> {
        let mut header = [0; REQUEST_BYTES];
        header[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        header[7] = 2;
        self.stream.write_all(&header)
    }

    fn queue(&mut self, ask: Ask, payload: usize) {
        let (code, flags) = match ask.verb {
            Verb::Read => (0u16, 0u16),
            Verb::Write => (1, 0),
            Verb::DurableWrite => (1, 1),
            Verb::Flush => (3, 0),
        };
        let mut header = [0; REQUEST_BYTES];
        header[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        header[4..6].copy_from_slice(&flags.to_be_bytes());
        header[6..8].copy_from_slice(&code.to_be_bytes());
        header[12..16].copy_from_slice(&ask.cookie.to_be_bytes());
        header[16..24].copy_from_slice(&ask.offset.to_be_bytes());
        header[24..].copy_from_slice(&ask.length.to_be_bytes());
        let has_payload = matches!(ask.verb, Verb::Write | Verb::DurableWrite);
        let payload = has_payload.then_some((payload, ask.length as usize));
        self.batch.push(header, payload);
    }

    fn send(&mut self, noise: &[u8]) -> io::Result<bool> {
        self.batch.send(&mut self.stream, noise)
    }

    fn receive(&mut self, replied: &mut dyn FnMut(u32) -> usize) -> io::Result<()> {
        self.room.receive(&mut self.stream, |reply| {
            let word = |from: usize| {
                let mut word = [0; 4];
                word.copy_from_slice(&reply[from..from + 4]);
                u32::from_be_bytes(word)
            };
            if word(0) != REPLY_MAGIC {
                return Err(io::Error::other("the server sent something else"));
            }
            if word(4) != 0 {
                // Numbers of the protocol are those of the system, as far as they are used.
                let number = i32::try_from(word(4)).map_err(io::Error::other)?;
                return Err(io::Error::from_raw_os_error(number));
            }
            Ok(Heard {
                skip: replied(word(12)),
                is_answer: true,
            })
        })
    }
}
