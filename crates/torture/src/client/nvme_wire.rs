//! The messages of NVMe/TCP that the rigs exchange. Numbers and places are those of the standard,
//! written down here once more: nothing of the server's is used, so that a mistake in one is not
//! also in the other.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Bytes of a message with a command, without its data.
const CAPSULE_BYTES: usize = 72;
/// Bytes of every other message, without its data.
pub(crate) const HEADER_BYTES: usize = 24;
/// Entries of the queue for input and output.
pub(crate) const ENTRIES: u16 = 128;
/// A server that is silent for so long hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of a logical block.
pub(crate) const BLOCK_BYTES: u64 = 512;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000e9e9";
const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Before the dotted name of a LUN.
const PREFIX: &str = "nqn.2026-11.dev.everglade:";

pub(crate) const RESPONSE: u8 = 5;
pub(crate) const DATA: u8 = 7;
pub(crate) const READY_TO_TRANSFER: u8 = 9;
/// Flag of data: no response follows.
pub(crate) const SUCCESS: u8 = 1 << 3;
/// In the last word of a write: durable when it is answered.
pub(crate) const FORCE_UNIT_ACCESS: u32 = 1 << 30;

/// A message's header.
pub(crate) type Header = [u8; HEADER_BYTES];

pub(crate) fn bad(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Status of a response; 0 is success.
pub(crate) fn status(response: &Header) -> u16 {
    u16_at(response, 22) >> 1 & 0x7ff
}

/// A command's entry: opcode, id, namespace, length and kind of its data, six words.
pub(crate) struct Entry {
    pub(crate) opcode: u8,
    pub(crate) id: u16,
    pub(crate) namespace: u32,
    pub(crate) data_bytes: u32,
    pub(crate) is_in_capsule: bool,
    pub(crate) words: [u32; 6],
}

impl Entry {
    /// The message of the command, without its data.
    pub(crate) fn head(&self) -> Vec<u8> {
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

/// The part of a write that the server asks for.
pub(crate) fn wanted(request: &Header) -> std::ops::Range<usize> {
    let (first, length) = (u32_at(request, 12) as usize, u32_at(request, 16) as usize);
    first..first + length
}

/// The header of a message with a part of the data that the server asks for.
pub(crate) fn data_head(request: &Header, part: &std::ops::Range<usize>) -> Vec<u8> {
    const LAST: u8 = 1 << 2;
    let word = |number: usize| u32::try_from(number).expect("at most 1 MiB").to_le_bytes();
    let is_last = part.end == wanted(request).end;
    let mut head = vec![6, if is_last { LAST } else { 0 }, 24, 24];
    head.extend(word(HEADER_BYTES + part.len()));
    // The ids of the command and of the request.
    head.extend(&request[8..12]);
    head.extend(word(part.start));
    head.extend(word(part.len()));
    head.extend([0; 4]);
    head
}

/// A controller, joined by its admin queue. It ends when this is dropped.
pub(crate) struct Controller {
    address: String,
    subsystem: String,
    admin: TcpStream,
    id: u16,
    /// Longest data in the message of a command.
    pub(crate) in_capsule_max: usize,
}

impl Controller {
    /// Connects to a subsystem and enables the controller.
    pub(crate) fn open(address: &str, subsystem: &str) -> io::Result<Controller> {
        let mut admin = initialize(address)?;
        let id = connect(&mut admin, subsystem, u16::MAX, 0, 32)?;
        let enable = admin_command(0x7f, 0, 0, [0, 0x14, 0x0046_0001, 0, 0, 0]);
        call(&mut admin, &enable, &[])?;
        let facts = admin_command(6, 0, 4096, [1, 0, 0, 0, 0, 0]);
        let (_, facts) = call(&mut admin, &facts, &[])?;
        if facts.len() != 4096 {
            return Err(bad("a controller that does not say what it is"));
        }
        let capsule = u32_at(&facts, 1792) as usize * 16;
        Ok(Controller {
            address: address.to_owned(),
            subsystem: subsystem.to_owned(),
            admin,
            id,
            in_capsule_max: capsule.saturating_sub(64),
        })
    }

    /// Size of its first namespace in bytes.
    pub(crate) fn size_bytes(&mut self) -> io::Result<u64> {
        let identify = admin_command(6, 1, 4096, [0; 6]);
        let (_, namespace) = call(&mut self.admin, &identify, &[])?;
        if namespace.len() != 4096 || namespace[130] != 9 {
            return Err(bad("a namespace whose blocks are not of 512 bytes"));
        }
        let blocks = u64::from(u32_at(&namespace, 0)) | u64::from(u32_at(&namespace, 4)) << 32;
        Ok(blocks * BLOCK_BYTES)
    }

    /// A connection that is one of its queues for input and output, without flow control: data
    /// alone answers a read.
    pub(crate) fn queue(&self, number: u16) -> io::Result<TcpStream> {
        let mut stream = initialize(&self.address)?;
        connect(&mut stream, &self.subsystem, self.id, number, ENTRIES)?;
        Ok(stream)
    }
}

/// The subsystem of a LUN, which the discovery service knows.
pub(crate) fn subsystem_of(address: &str, lun: &str) -> io::Result<String> {
    const ENTRY_BYTES: usize = 1024;
    const ENTRIES_MAX: u32 = 15;
    let mut discovery = Controller::open(address, DISCOVERY)?;
    let bytes = (1 + ENTRIES_MAX) * 1024;
    let page = admin_command(2, 0, bytes, [0x70 | (bytes / 4 - 1) << 16, 0, 0, 0, 0, 0]);
    let (_, page) = call(&mut discovery.admin, &page, &[])?;
    // Names of the rigs have no characters that would be written in another way.
    let prefix = format!("{PREFIX}{}:", lun.replace('/', "."));
    let mut names = page.chunks_exact(ENTRY_BYTES).skip(1).map(|entry| {
        let name = entry[256..512].split(|byte| *byte == 0).next();
        String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
    });
    names
        .find(|name| name.starts_with(&prefix))
        .ok_or_else(|| bad(format!("no subsystem of {lun}")))
}

fn admin_command(opcode: u8, namespace: u32, data_bytes: u32, words: [u32; 6]) -> Entry {
    Entry {
        opcode,
        id: 1,
        namespace,
        data_bytes,
        is_in_capsule: false,
        words,
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
                let from = fetched.len();
                fetched.resize(from + u32_at(&header, 16) as usize, 0);
                stream.read_exact(&mut fetched[from..])?;
                // Without flow control, data may be the whole answer.
                if header[1] & SUCCESS != 0 {
                    return Ok((0, fetched));
                }
            }
            RESPONSE => {
                let status = status(&header);
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
