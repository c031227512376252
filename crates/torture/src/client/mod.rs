//! A client of NBD that pipelines: requests are sent without waiting, replies are taken in whatever
//! order they come. Two halves, so that a sender blocked by a slow server never keeps replies from
//! being read.
//!
//! It speaks what the rigs need: fixed newstyle, `NBD_OPT_EXPORT_NAME`, simple replies.

pub(crate) mod stream;
mod wire;

use std::io::{self, BufReader, Read, Write};

pub use stream::Address;
use stream::Stream;
pub use wire::Command;

/// An open export.
pub struct Connection {
    /// Where requests go in.
    pub sender: Sender,
    /// Where replies come out.
    pub receiver: Receiver,
    /// Of the export.
    pub size_bytes: u64,
}

/// The half that sends.
pub struct Sender {
    stream: Stream,
}

/// The half that receives.
pub struct Receiver {
    stream: BufReader<Stream>,
}

/// A request without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What to do.
    pub command: Command,
    /// Reply only when it is durable.
    pub fua: bool,
    /// Comes back with the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Of the request.
    pub cookie: u64,
    /// 0, or the error number of the protocol.
    pub error: u32,
    /// What a read returned.
    pub data: Vec<u8>,
}

impl Connection {
    /// Connects and opens an export.
    ///
    /// # Errors
    /// Those of the socket; a server that closes because it has no such export shows as an early
    /// end.
    pub fn open(address: &Address, export: &str) -> io::Result<Connection> {
        let mut stream = Stream::connect(address)?;
        let mut greeting = [0; wire::GREETING_BYTES];
        stream.read_exact(&mut greeting)?;
        if !wire::is_greeting(&greeting) {
            return Err(bad("no greeting of NBD"));
        }
        stream.write_all(&wire::hello(export))?;
        let mut described = [0; wire::EXPORT_BYTES];
        stream.read_exact(&mut described)?;
        let (size, _transmission_flags) = described
            .split_first_chunk()
            .ok_or_else(|| bad("no size"))?;
        Ok(Connection {
            sender: Sender {
                stream: stream.try_clone()?,
            },
            receiver: Receiver {
                stream: BufReader::with_capacity(64 << 10, stream),
            },
            size_bytes: u64::from_be_bytes(*size),
        })
    }

    /// One request and its reply, nothing else being in flight.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn call(&mut self, ask: Ask, payload: &[u8]) -> io::Result<Answer> {
        self.sender.send(ask, payload)?;
        let expected = if ask.command == Command::Read {
            ask.length
        } else {
            0
        };
        self.receiver.receive(|_| Some(expected))
    }
}

impl Sender {
    /// Sends a request; `payload` is that of a write and else empty.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn send(&mut self, ask: Ask, payload: &[u8]) -> io::Result<()> {
        self.stream.write_parts(&wire::request(&ask), payload)
    }
}

impl Receiver {
    /// Waits for a reply. `expected` says how many bytes a successful reply with this cookie
    /// carries; `None` if the cookie is not one of ours.
    ///
    /// # Errors
    /// Those of the socket, and a reply that nobody asked for.
    pub fn receive(&mut self, expected: impl FnOnce(u64) -> Option<u32>) -> io::Result<Answer> {
        let mut header = [0; wire::REPLY_BYTES];
        self.stream.read_exact(&mut header)?;
        let (error, cookie) = wire::reply(&header).ok_or_else(|| bad("something else"))?;
        let length = expected(cookie).ok_or_else(|| bad("an unknown cookie"))?;
        let mut data = Vec::new();
        if error == 0 && length > 0 {
            data.resize(length as usize, 0);
            self.stream.read_exact(&mut data)?;
        }
        Ok(Answer {
            cookie,
            error,
            data,
        })
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the server sent {what}"),
    )
}
