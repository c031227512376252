//! A connection of NBD.

use std::io::{self, BufReader, Read, Write};

use super::nbd_wire as wire;
use super::stream::{Address, Stream};
use super::{Answer, Ask, bad};

pub(super) struct Sender {
    stream: Stream,
}

pub(super) struct Receiver {
    stream: BufReader<Stream>,
}

/// Connects and opens an export; returns its size in bytes as well.
pub(super) fn open(address: &Address, export: &str) -> io::Result<(Sender, Receiver, u64)> {
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
    let sender = Sender {
        stream: stream.try_clone()?,
    };
    let receiver = Receiver {
        stream: BufReader::with_capacity(64 << 10, stream),
    };
    Ok((sender, receiver, u64::from_be_bytes(*size)))
}

impl Sender {
    pub(super) fn send(&mut self, ask: Ask, payload: &[u8]) -> io::Result<()> {
        self.stream.write_parts(&wire::request(&ask), payload)
    }
}

impl Receiver {
    pub(super) fn receive(
        &mut self,
        expected: impl FnOnce(u64) -> Option<u32>,
    ) -> io::Result<Answer> {
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
