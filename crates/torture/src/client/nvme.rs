//! A connection to a LUN over NVMe/TCP: an admin queue, which is silent after the start, and one
//! queue for input and output. Data of long writes goes out when the server asks for it.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::errands::{Errands, lock};
use super::nvme_wire::{
    BLOCK_BYTES, Controller, DATA, Entry, FORCE_UNIT_ACCESS, HEADER_BYTES, Header,
    READY_TO_TRANSFER, RESPONSE, SUCCESS, bad, data_head, status, subsystem_of, u16_at, u32_at,
    wanted,
};
use super::{Answer, Ask, Command};

/// Ids of commands in flight. The window of a connection is far smaller.
const IDS: u64 = 0x8000;
/// Data that the server asks for, in one message.
const PART_BYTES: usize = 96 << 10;
/// Write Zeroes: the space may be given back.
const DEALLOCATE: u32 = 1 << 25;

pub(super) struct Sender {
    outgoing: Arc<Mutex<TcpStream>>,
    flights: Arc<Mutex<Flights>>,
    in_capsule_max: usize,
}

pub(super) struct Receiver {
    stream: BufReader<TcpStream>,
    flights: Arc<Mutex<Flights>>,
    errands: Errands<TcpStream>,
    /// Data of reads that came in parts, by id.
    parts: HashMap<u16, Vec<u8>>,
    /// Kept open: the queue ends with it.
    _controller: Controller,
}

/// By id.
type Flights = HashMap<u16, Flight>;

struct Flight {
    cookie: u64,
    /// Of a write whose data the server has to ask for.
    payload: Arc<Vec<u8>>,
}

/// Connects to the LUN `export` at the port of NVMe/TCP.
pub(super) fn open(address: &str, export: &str) -> io::Result<(Sender, Receiver, u64)> {
    let subsystem = subsystem_of(address, export)?;
    let mut controller = Controller::open(address, &subsystem)?;
    let size_bytes = controller.size_bytes()?;
    let stream = controller.queue(1)?;
    let outgoing = Arc::new(Mutex::new(stream.try_clone()?));
    let flights = Arc::default();
    let sender = Sender {
        outgoing: Arc::clone(&outgoing),
        flights: Arc::clone(&flights),
        in_capsule_max: controller.in_capsule_max,
    };
    let receiver = Receiver {
        stream: BufReader::with_capacity(64 << 10, stream),
        flights,
        errands: Errands::new(&outgoing),
        parts: HashMap::new(),
        _controller: controller,
    };
    Ok((sender, receiver, size_bytes))
}

impl Sender {
    pub(super) fn send(&mut self, ask: Ask, payload: &[u8]) -> io::Result<()> {
        let id = u16::try_from(ask.cookie % IDS).expect("below 2^16");
        let ranges;
        let (opcode, words, data): (u8, [u32; 3], &[u8]) = match ask.command {
            Command::Flush => (0, [0; 3], &[]),
            Command::Write => (1, placed(&ask, 0), payload),
            Command::Read => (2, placed(&ask, 0), &[]),
            Command::WriteZeroes => (8, placed(&ask, DEALLOCATE), &[]),
            Command::Trim => {
                ranges = range(&ask);
                (9, [0, 1 << 2, 0], &ranges)
            }
        };
        let reads = ask.command == Command::Read;
        let is_in_capsule = !reads && data.len() <= self.in_capsule_max;
        let waits = !reads && !is_in_capsule;
        let flight = Flight {
            cookie: ask.cookie,
            payload: Arc::new(if waits { data.to_vec() } else { Vec::new() }),
        };
        if lock(&self.flights).insert(id, flight).is_some() {
            return Err(bad("an id that is still in use"));
        }
        let data_bytes = if reads {
            ask.length
        } else {
            u32::try_from(data.len()).expect("at most 1 MiB")
        };
        let entry = Entry {
            opcode,
            id,
            namespace: 1,
            data_bytes,
            is_in_capsule,
            words: [words[0], words[1], words[2], 0, 0, 0],
        };
        let mut message = entry.head();
        if is_in_capsule {
            message.extend(data);
        }
        lock(&self.outgoing).write_all(&message)
    }
}

/// The words that say where: first block, and blocks less one with flags.
fn placed(ask: &Ask, flags: u32) -> [u32; 3] {
    let first = (ask.offset / BLOCK_BYTES).to_le_bytes();
    let blocks = u32::try_from(u64::from(ask.length) / BLOCK_BYTES).expect("of 32 bits before");
    let force = if ask.fua { FORCE_UNIT_ACCESS } else { 0 };
    [
        u32_at(&first, 0),
        u32_at(&first, 4),
        (blocks - 1) | flags | force,
    ]
}

/// One range for Dataset Management.
fn range(ask: &Ask) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    let blocks = u32::try_from(u64::from(ask.length) / BLOCK_BYTES).expect("of 32 bits before");
    bytes.extend(blocks.to_le_bytes());
    bytes.extend((ask.offset / BLOCK_BYTES).to_le_bytes());
    bytes
}

impl Receiver {
    pub(super) fn receive(
        &mut self,
        expected: impl FnOnce(u64) -> Option<u32>,
    ) -> io::Result<Answer> {
        let (id, error) = self.completion()?;
        let flight = lock(&self.flights).remove(&id);
        let flight = flight.ok_or_else(|| bad(format!("an answer to {id}, which nobody asked")))?;
        let length = expected(flight.cookie).ok_or_else(|| bad("an unknown cookie"))?;
        let data = self.parts.remove(&id).unwrap_or_default();
        if error == 0 && data.len() != length as usize {
            return Err(bad(format!("{} bytes of {length}", data.len())));
        }
        Ok(Answer {
            cookie: flight.cookie,
            error,
            data,
        })
    }

    /// Reads to the next end of a command: its id and its status.
    fn completion(&mut self) -> io::Result<(u16, u32)> {
        loop {
            let mut header = [0; HEADER_BYTES];
            self.stream.read_exact(&mut header)?;
            match header[0] {
                DATA => {
                    let id = u16_at(&header, 8);
                    let (first, length) = (u32_at(&header, 12), u32_at(&header, 16));
                    let part = self.parts.entry(id).or_default();
                    if part.len() != first as usize {
                        return Err(bad("data that is not in order"));
                    }
                    let from = part.len();
                    part.resize(from + length as usize, 0);
                    self.stream.read_exact(&mut part[from..])?;
                    if header[1] & SUCCESS != 0 {
                        return Ok((id, 0));
                    }
                }
                RESPONSE => return Ok((u16_at(&header, 20), u32::from(status(&header)))),
                READY_TO_TRANSFER => self.data_wanted(&header)?,
                kind => return Err(bad(format!("a message of kind {kind}"))),
            }
        }
    }
    /// Has the data sent that the server asks for, in several messages.
    fn data_wanted(&self, request: &Header) -> io::Result<()> {
        let flights = lock(&self.flights);
        let flight = flights.get(&u16_at(request, 8));
        let payload = flight.map(|flight| Arc::clone(&flight.payload));
        let payload = payload.ok_or_else(|| bad("a request for the data of no command"))?;
        let wanted = wanted(request);
        if wanted.is_empty() || payload.len() < wanted.end {
            return Err(bad("a request for data that there is not"));
        }
        let mut messages = Vec::new();
        for first in wanted.clone().step_by(PART_BYTES) {
            let part = first..wanted.end.min(first + PART_BYTES);
            messages.extend(data_head(request, &part));
            messages.extend(&payload[part]);
        }
        self.errands.run(move |stream| stream.write_all(&messages));
        Ok(())
    }
}
