//! The messages of iSCSI that the rigs exchange (RFC 7143, SBC-3). Written down once more, apart
//! from the server's, so that a mistake in one is not also in the other.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Ask, Command, bad};

/// Bytes of a message's header.
pub(super) const HEADER_BYTES: usize = 48;
pub(super) const BLOCK_BYTES: u64 = 512;
/// Before the dotted name of a LUN.
const PREFIX: &str = "iqn.2026-11.dev.everglade:";
/// "No tag": data that nobody asked for, or a ping that wants no answer.
pub(super) const NO_TAG: u32 = u32::MAX;

pub(super) const PING: u8 = 0x20;
pub(super) const RESPONSE: u8 = 0x21;
const LOGGED_IN: u8 = 0x23;
pub(super) const DATA_IN: u8 = 0x25;
pub(super) const READY_TO_TRANSFER: u8 = 0x31;
pub(super) const EVENT: u8 = 0x32;

const FINAL: u8 = 0x80;
/// Flag of data: the command ends with it.
pub(super) const WITH_STATUS: u8 = 0x01;

/// A message that came in.
pub(super) struct Message {
    pub(super) header: [u8; HEADER_BYTES],
    pub(super) data: Vec<u8>,
}

impl Message {
    pub(super) fn read(stream: &mut impl Read) -> io::Result<Message> {
        let mut header = [0; HEADER_BYTES];
        stream.read_exact(&mut header)?;
        if header[4] != 0 {
            return Err(bad("additional headers, which nobody asked for"));
        }
        let length = u32_at(&header, 4) as usize & 0x00ff_ffff;
        let mut data = vec![0; length.next_multiple_of(4)];
        stream.read_exact(&mut data)?;
        data.truncate(length);
        Ok(Message { header, data })
    }

    pub(super) fn opcode(&self) -> u8 {
        self.header[0] & 0x3f
    }

    pub(super) fn tag(&self) -> u32 {
        u32_at(&self.header, 16)
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// What a session agreed upon.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Data goes only where the server asks for it.
    initial_r2t: bool,
    /// Data may be in the message of the command.
    immediate_data: bool,
    /// Bytes that may go without being asked for.
    first_burst: usize,
    /// Bytes of data in one message.
    segment: usize,
}

/// The outgoing half: commands get their numbers in the order in which they are sent.
pub(super) struct Outgoing {
    stream: TcpStream,
    next_command: u32,
    terms: Terms,
    /// The number of the next answer.
    pub(super) expected: Arc<AtomicU32>,
}

/// A command: what it is, its data, and how many bytes come back.
pub(super) struct Order {
    pub(super) cdb: [u8; 16],
    pub(super) data: Vec<u8>,
    pub(super) read_bytes: u32,
}

impl Order {
    pub(super) fn of(ask: &Ask, payload: &[u8]) -> Order {
        let mut cdb = [0; 16];
        let blocks = u32::try_from(u64::from(ask.length) / BLOCK_BYTES).expect("of 32 bits before");
        let first = (ask.offset / BLOCK_BYTES).to_be_bytes();
        cdb[2..10].copy_from_slice(&first);
        cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
        let mut data = Vec::new();
        match ask.command {
            Command::Read => cdb[0] = 0x88,
            Command::Write => {
                cdb[0] = 0x8a;
                cdb[1] = if ask.fua { 0x08 } else { 0 };
                data = payload.to_vec();
            }
            Command::Flush => cdb[0] = 0x91,
            Command::WriteZeroes => {
                const UNMAP: u8 = 0x08;
                (cdb[0], cdb[1]) = (0x93, UNMAP);
                data = vec![0; 512];
            }
            Command::Trim => {
                data = [
                    &[0, 22, 0, 16, 0, 0, 0, 0][..],
                    &first,
                    &blocks.to_be_bytes(),
                ]
                .concat();
                data.extend([0; 4]);
                cdb = [0; 16];
                (cdb[0], cdb[8]) = (0x42, 24);
            }
        }
        let read_bytes = if ask.command == Command::Read {
            ask.length
        } else {
            0
        };
        Order {
            cdb,
            data,
            read_bytes,
        }
    }

    /// TEST UNIT READY.
    pub(super) fn ready() -> Order {
        Order {
            cdb: [0; 16],
            data: Vec::new(),
            read_bytes: 0,
        }
    }

    /// READ CAPACITY (16).
    pub(super) fn capacity() -> Order {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[13]) = (0x9e, 0x10, 32);
        Order {
            cdb,
            data: Vec::new(),
            read_bytes: 32,
        }
    }
}

impl Outgoing {
    /// Logs in to the LUN's target with the proposals `wishes`.
    pub(super) fn log_in(
        mut stream: TcpStream,
        lun: &str,
        session: u32,
        wishes: &str,
    ) -> io::Result<Outgoing> {
        // Names of the rigs have no characters that would be written in another way.
        let target = format!("{PREFIX}{}", lun.replace('/', "."));
        let text = format!(
            "InitiatorName=iqn.2026-11.dev.everglade.torture:{session:x}\n\
             TargetName={target}\nSessionType=Normal\nHeaderDigest=None\nDataDigest=None\n\
             MaxRecvDataSegmentLength=262144\nMaxBurstLength=1048576\n\
             MaxOutstandingR2T=1\nMaxConnections=1\nErrorRecoveryLevel=0\n\
             DefaultTime2Wait=2\nDefaultTime2Retain=0\nDataPDUInOrder=Yes\n\
             DataSequenceInOrder=Yes\n{wishes}"
        );
        let text: Vec<u8> = text.replace('\n', "\0").into_bytes();
        let mut header = [0; HEADER_BYTES];
        // Immediate; from the stage of operational parameters to the full feature phase.
        (header[0], header[1]) = (0x43, FINAL | 1 << 2 | 3);
        // A random ISID.
        header[8] = 0x80;
        header[9..13].copy_from_slice(&session.to_be_bytes());
        send(&mut stream, header, &text)?;
        let answer = Message::read(&mut stream)?;
        let (class, detail) = (answer.header[36], answer.header[37]);
        if answer.opcode() != LOGGED_IN || class != 0 || answer.header[1] & FINAL == 0 {
            return Err(bad(&format!("no login: {class:02x}{detail:02x}")));
        }
        let text = String::from_utf8_lossy(&answer.data).into_owned();
        let value = |key: &str| {
            let mut pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
            pairs.find(|pair| pair.0 == key).map(|pair| pair.1)
        };
        let number = |key: &str, default| {
            value(key).map_or(Ok(default), |value| {
                value.parse().map_err(|_| bad("no number for a key"))
            })
        };
        let terms = Terms {
            initial_r2t: value("InitialR2T") != Some("No"),
            immediate_data: value("ImmediateData") != Some("No"),
            first_burst: number("FirstBurstLength", 65536)?,
            segment: number("MaxRecvDataSegmentLength", 8192)?.min(64 << 10),
        };
        Ok(Outgoing {
            stream,
            next_command: u32_at(&answer.header, 28),
            terms,
            expected: Arc::new(AtomicU32::new(u32_at(&answer.header, 24).wrapping_add(1))),
        })
    }

    fn heard(&self) -> [u8; 4] {
        self.expected.load(Ordering::Relaxed).to_be_bytes()
    }

    /// Sends a command, and as much of its data as may go without being asked for.
    pub(super) fn command(&mut self, tag: u32, order: &Order) -> io::Result<()> {
        let data = &order.data[..];
        let terms = self.terms;
        let free = terms.first_burst.min(data.len());
        let immediate = if terms.immediate_data {
            free.min(terms.segment)
        } else {
            0
        };
        let unsolicited = if terms.initial_r2t { immediate } else { free };
        let mut header = [0; HEADER_BYTES];
        header[0] = 0x01;
        let is_read = order.read_bytes > 0;
        header[1] = 1
            | if unsolicited > immediate { 0 } else { FINAL }
            | if is_read { 0x40 } else { 0 }
            | if data.is_empty() { 0 } else { 0x20 };
        header[16..20].copy_from_slice(&tag.to_be_bytes());
        let length = u32::try_from(data.len()).expect("at most 1 MiB") + order.read_bytes;
        header[20..24].copy_from_slice(&length.to_be_bytes());
        header[24..28].copy_from_slice(&self.next_command.to_be_bytes());
        header[28..32].copy_from_slice(&self.heard());
        header[32..].copy_from_slice(&order.cdb);
        self.next_command = self.next_command.wrapping_add(1);
        send(&mut self.stream, header, &data[..immediate])?;
        if unsolicited > immediate {
            self.data(tag, NO_TAG, immediate, &data[immediate..unsolicited])?;
        }
        Ok(())
    }

    /// Sends data, which begins at byte `offset` of its command's.
    pub(super) fn data(
        &mut self,
        tag: u32,
        transfer: u32,
        mut offset: usize,
        data: &[u8],
    ) -> io::Result<()> {
        let parts = data.chunks(self.terms.segment);
        let last = parts.len() - 1;
        for (number, part) in parts.enumerate() {
            let mut header = [0; HEADER_BYTES];
            header[0] = 0x05;
            header[1] = if number == last { FINAL } else { 0 };
            header[16..20].copy_from_slice(&tag.to_be_bytes());
            header[20..24].copy_from_slice(&transfer.to_be_bytes());
            header[28..32].copy_from_slice(&self.heard());
            let number = u32::try_from(number).expect("few parts");
            header[36..40].copy_from_slice(&number.to_be_bytes());
            let at = u32::try_from(offset).expect("at most 1 MiB");
            header[40..44].copy_from_slice(&at.to_be_bytes());
            send(&mut self.stream, header, part)?;
            offset += part.len();
        }
        Ok(())
    }

    /// Answers a ping.
    pub(super) fn pong(&mut self, transfer: u32) -> io::Result<()> {
        let mut header = [0; HEADER_BYTES];
        (header[0], header[1]) = (0x40, FINAL);
        header[16..20].copy_from_slice(&NO_TAG.to_be_bytes());
        header[20..24].copy_from_slice(&transfer.to_be_bytes());
        header[24..28].copy_from_slice(&self.next_command.to_be_bytes());
        header[28..32].copy_from_slice(&self.heard());
        send(&mut self.stream, header, &[])
    }
}

/// Sends a message; its data is filled up to whole words.
fn send(stream: &mut TcpStream, mut header: [u8; HEADER_BYTES], data: &[u8]) -> io::Result<()> {
    let length = u32::try_from(data.len()).expect("at most 1 MiB");
    header[5..8].copy_from_slice(&length.to_be_bytes()[1..]);
    let mut message = header.to_vec();
    message.extend(data);
    message.resize(message.len().next_multiple_of(4), 0);
    stream.write_all(&message)
}
