//! A connection of NVMe/TCP for measuring, beside that of NBD ([`super::socket`]): as few calls and
//! as little work for a request as possible.
//!
//! It is two connections: the admin queue, which is silent after the start, and one queue for input
//! and output without flow control, so that data alone answers a read. Data of writes is in the
//! message of the command up to the length that the controller allows; longer data is sent when the
//! controller asks for it. Numbers and places are those of the standard, written down here once
//! more: nothing of the server's is used.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::socket::{Ask, Client, Verb};
use super::stream::{Batch, Heard, Room};

/// Bytes of a message with a command, without its data.
const CAPSULE_BYTES: usize = 72;
/// Bytes of every other message, without its data.
const HEADER_BYTES: usize = 24;
/// Entries of the queue for input and output.
const ENTRIES: u16 = 128;
/// A server that is silent for so long hangs.
const PATIENCE: Duration = Duration::from_secs(120);
const BLOCK_BYTES: u64 = 512;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000e9e9";

const RESPONSE: u8 = 5;
const DATA: u8 = 7;
const READY_TO_TRANSFER: u8 = 9;
/// Flag of data: no response follows.
const SUCCESS: u8 = 1 << 3;

/// An answer, or a request for data, has no data behind it.
const NO_DATA: Heard = Heard {
    skip: 0,
    is_answer: true,
};

pub(super) struct Queue {
    /// Kept open: the controller ends with it.
    _admin: TcpStream,
    stream: TcpStream,
    /// Longest data in the message of a command.
    in_capsule_max: usize,
    batch: Batch<Vec<u8>>,
    /// By cookie: where the data of a write is, for when it is asked for.
    written: Vec<(usize, usize)>,
    room: Room<HEADER_BYTES>,
}

fn bad(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A command's entry: opcode, id, namespace, length and kind of its data, six words.
struct Entry {
    opcode: u8,
    id: u16,
    namespace: u32,
    data_bytes: u32,
    is_in_capsule: bool,
    words: [u32; 6],
}

impl Entry {
    /// The message of the command, without its data.
    fn head(&self) -> Vec<u8> {
        let in_message = if self.is_in_capsule {
            self.data_bytes
        } else {
            0
        };
        let length = u32::try_from(CAPSULE_BYTES).unwrap_or(0) + in_message;
        let data_at = if self.is_in_capsule { 72 } else { 0 };
        let mut bytes = vec![4, 0, 72, data_at];
        bytes.extend(length.to_le_bytes());
        bytes.extend([self.opcode, 0x40]);
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.namespace.to_le_bytes());
        bytes.resize(8 + 32, 0);
        bytes.extend(self.data_bytes.to_le_bytes());
        let kind = if self.is_in_capsule { 0x01 } else { 0x5a };
        bytes.extend([0, 0, 0, kind]);
        bytes.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }
}

/// The message by which the host begins a connection, and the answer.
fn initialize(address: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut hello = [0; 128];
    (hello[2], hello[4]) = (128, 128);
    stream.write_all(&hello)?;
    let mut answer = [0; 128];
    stream.read_exact(&mut answer)?;
    match answer[0] {
        1 => Ok(stream),
        _ => Err(bad("the server is not one of NVMe/TCP")),
    }
}

/// One command and its answer, nothing else being in flight: the result, and the data.
fn call(stream: &mut TcpStream, entry: &Entry, data: &[u8]) -> io::Result<(u64, Vec<u8>)> {
    stream.write_all(&[&entry.head(), data].concat())?;
    let mut fetched = Vec::new();
    loop {
        let mut header = [0; HEADER_BYTES];
        stream.read_exact(&mut header)?;
        match header[0] {
            DATA => {
                fetched.resize(u32_at(&header, 16) as usize, 0);
                stream.read_exact(&mut fetched)?;
                // Without flow control, data may be the whole answer.
                if header[1] & SUCCESS != 0 {
                    return Ok((0, fetched));
                }
            }
            RESPONSE => {
                let status = u16_at(&header, 22) >> 1 & 0x7ff;
                if status != 0 {
                    let opcode = entry.opcode;
                    return Err(bad(format!("command {opcode:#x}: status {status:#x}")));
                }
                let mut result = [0; 8];
                result.copy_from_slice(&header[8..16]);
                return Ok((u64::from_le_bytes(result), fetched));
            }
            kind => return Err(bad(format!("a message of kind {kind}"))),
        }
    }
}

/// Joins a connection to a queue; returns the number of the controller.
fn connect(
    stream: &mut TcpStream,
    subsystem: &str,
    controller: u16,
    queue: u16,
    entries: u16,
) -> io::Result<u16> {
    const NO_FLOW_CONTROL: u32 = 1 << 2;
    let mut data = vec![0; 1024];
    data[..16].fill(0xe9);
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
    data[512..512 + HOST.len()].copy_from_slice(HOST.as_bytes());
    let entry = Entry {
        opcode: 0x7f,
        id: 0,
        namespace: 1,
        data_bytes: 1024,
        is_in_capsule: true,
        words: [
            u32::from(queue) << 16,
            u32::from(entries - 1) | NO_FLOW_CONTROL << 16,
            0,
            0,
            0,
            0,
        ],
    };
    let (result, _) = call(stream, &entry, &data)?;
    u16::try_from(result & 0xffff).map_err(io::Error::other)
}

impl Queue {
    /// Connects to a subsystem; returns the size of its first namespace in bytes as well.
    pub(super) fn open(address: &str, subsystem: &str) -> io::Result<(Queue, u64)> {
        let mut admin = initialize(address)?;
        let controller = connect(&mut admin, subsystem, u16::MAX, 0, 32)?;
        let command = |opcode, namespace, data_bytes, words| Entry {
            opcode,
            id: 1,
            namespace,
            data_bytes,
            is_in_capsule: false,
            words,
        };
        let enable = command(0x7f, 0, 0, [0, 0x14, 0x0046_0001, 0, 0, 0]);
        call(&mut admin, &enable, &[])?;
        let (_, facts) = call(&mut admin, &command(6, 0, 4096, [1, 0, 0, 0, 0, 0]), &[])?;
        let (_, namespace) = call(&mut admin, &command(6, 1, 4096, [0; 6]), &[])?;
        if facts.len() != 4096 || namespace.len() != 4096 || namespace[130] != 9 {
            return Err(bad("a namespace whose blocks are not of 512 bytes"));
        }
        let capsule = u32_at(&facts, 1792) as usize * 16;
        let blocks = u64::from(u32_at(&namespace, 0)) | u64::from(u32_at(&namespace, 4)) << 32;
        let mut stream = initialize(address)?;
        connect(&mut stream, subsystem, controller, 1, ENTRIES)?;
        let queue = Queue {
            _admin: admin,
            stream,
            in_capsule_max: capsule.saturating_sub(64),
            batch: Batch::new(),
            written: vec![(0, 0); usize::from(ENTRIES)],
            room: Room::new(),
        };
        Ok((queue, blocks * BLOCK_BYTES))
    }
}

/// Returns the head of the data that the server wants, which must be all of a write's.
fn wanted_data(header: &[u8; HEADER_BYTES], all: usize) -> io::Result<Vec<u8>> {
    let (id, tag) = (u16_at(header, 8), u16_at(header, 10));
    let length = u32_at(header, 16);
    if length as usize != all || u32_at(header, 12) != 0 {
        return Err(bad("a request for a part of the data"));
    }
    let plen = u32::try_from(HEADER_BYTES).unwrap_or(0) + length;
    let mut head = vec![6, 4, 24, 24];
    head.extend(plen.to_le_bytes());
    head.extend(id.to_le_bytes());
    head.extend(tag.to_le_bytes());
    head.extend(0_u32.to_le_bytes());
    head.extend(length.to_le_bytes());
    head.extend([0; 4]);
    Ok(head)
}

impl Client for Queue {
    fn queue(&mut self, ask: Ask, payload: usize) {
        const FORCE_UNIT_ACCESS: u32 = 1 << 30;
        let (opcode, flags) = match ask.verb {
            Verb::Read => (2, 0),
            Verb::Write => (1, 0),
            Verb::DurableWrite => (1, FORCE_UNIT_ACCESS),
            Verb::Flush => (0, 0),
        };
        let id = u16::try_from(ask.cookie).unwrap_or(u16::MAX);
        let first = (ask.offset / BLOCK_BYTES).to_le_bytes();
        let blocks = ask.length / 512;
        let is_write = opcode == 1;
        let length = ask.length as usize;
        let is_in_capsule = is_write && length <= self.in_capsule_max;
        let entry = Entry {
            opcode,
            id,
            namespace: 1,
            data_bytes: ask.length,
            is_in_capsule,
            words: [
                u32_at(&first, 0),
                u32_at(&first, 4),
                blocks.saturating_sub(1) | flags,
                0,
                0,
                0,
            ],
        };
        let here = is_in_capsule.then_some((payload, length));
        self.batch.push(entry.head(), here);
        if is_write {
            self.written[usize::from(id)] = (payload, length);
        }
    }

    fn send(&mut self, noise: &[u8]) -> io::Result<()> {
        self.batch.send(&mut self.stream, noise)
    }

    fn receive(&mut self, replied: &mut dyn FnMut(u32) -> usize) -> io::Result<()> {
        let Queue {
            stream,
            batch,
            written,
            room,
            ..
        } = self;
        room.receive(stream, |header| match header[0] {
            DATA => {
                let is_answer = header[1] & SUCCESS != 0;
                if is_answer {
                    replied(u32::from(u16_at(header, 8)));
                }
                let skip = u32_at(header, 16) as usize;
                Ok(Heard { skip, is_answer })
            }
            RESPONSE => {
                let status = u16_at(header, 22) >> 1 & 0x7ff;
                if status != 0 {
                    return Err(bad(format!("status {status:#x}")));
                }
                replied(u32::from(u16_at(header, 20)));
                Ok(NO_DATA)
            }
            READY_TO_TRANSFER => {
                let place = written[usize::from(u16_at(header, 8))];
                batch.push(wanted_data(header, place.1)?, Some(place));
                Ok(NO_DATA)
            }
            kind => Err(bad(format!("a message of kind {kind}"))),
        })
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
