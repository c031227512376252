//! A session with a LUN over iSCSI: one connection. A command that the server answers with a unit
//! attention was not carried out, and is sent again.

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::errands::{Errands, lock};
use super::iscsi_wire::{
    BLOCK_BYTES, DATA_IN, EVENT, Message, NO_TAG, Order, Outgoing, PING, READY_TO_TRANSFER,
    RESPONSE, WITH_STATUS, u32_at,
};
use super::{Answer, Ask, bad};

/// A server that is silent for so long hangs.
const PATIENCE: Duration = Duration::from_secs(120);
const CHECK_CONDITION: u8 = 2;
const UNIT_ATTENTION: u8 = 6;
/// Kinds of sessions: who may send data before it is asked for, and how much.
const WISHES: [&str; 4] = [
    "InitialR2T=No\nImmediateData=Yes\nFirstBurstLength=262144\n",
    "InitialR2T=No\nImmediateData=No\nFirstBurstLength=65536\n",
    "InitialR2T=Yes\nImmediateData=Yes\nFirstBurstLength=8192\n",
    "InitialR2T=Yes\nImmediateData=No\nFirstBurstLength=65536\n",
];

pub(super) struct Sender {
    outgoing: Arc<Mutex<Outgoing>>,
    flights: Arc<Mutex<Flights>>,
}

pub(super) struct Receiver {
    stream: BufReader<TcpStream>,
    flights: Arc<Mutex<Flights>>,
    errands: Errands<Outgoing>,
    expected: Arc<AtomicU32>,
    /// Data of reads that came in parts, by tag.
    parts: HashMap<u32, Vec<u8>>,
}

/// By tag.
type Flights = HashMap<u32, Flight>;

struct Flight {
    cookie: u64,
    order: Arc<Order>,
}

/// Connects to the LUN `export` at the port of iSCSI.
pub(super) fn open(address: &str, export: &str) -> io::Result<(Sender, Receiver, u64)> {
    static SESSIONS: AtomicU32 = AtomicU32::new(0);
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let incoming = stream.try_clone()?;
    // Unlike those of other rigs that run now.
    let number = SESSIONS.fetch_add(1, Ordering::Relaxed);
    let time = SystemTime::UNIX_EPOCH.elapsed().map_err(io::Error::other)?;
    let session = time.subsec_nanos() ^ std::process::id() << 12 ^ number;
    let wishes = WISHES[number as usize % WISHES.len()];
    let outgoing = Outgoing::log_in(stream, export, session, wishes)?;
    let expected = Arc::clone(&outgoing.expected);
    let outgoing = Arc::new(Mutex::new(outgoing));
    let mut sender = Sender {
        outgoing: Arc::clone(&outgoing),
        flights: Arc::default(),
    };
    let mut receiver = Receiver {
        stream: BufReader::with_capacity(64 << 10, incoming),
        flights: Arc::clone(&sender.flights),
        errands: Errands::new(&outgoing),
        expected,
        parts: HashMap::new(),
    };
    sender.order(0, Order::ready())?;
    receiver.receive(|_| Some(0))?;
    sender.order(0, Order::capacity())?;
    let capacity = receiver.receive(|_| Some(32))?;
    if capacity.error != 0 || u64::from(u32_at(&capacity.data, 8)) != BLOCK_BYTES {
        return Err(bad("a LUN whose blocks are not of 512 bytes"));
    }
    let last = u64::from(u32_at(&capacity.data, 0)) << 32 | u64::from(u32_at(&capacity.data, 4));
    Ok((sender, receiver, (last + 1) * BLOCK_BYTES))
}

impl Sender {
    pub(super) fn send(&mut self, ask: Ask, payload: &[u8]) -> io::Result<()> {
        self.order(ask.cookie, Order::of(&ask, payload))
    }

    fn order(&mut self, cookie: u64, order: Order) -> io::Result<()> {
        let tag = u32::try_from(cookie % u64::from(NO_TAG)).expect("below 2^32");
        let order = Arc::new(order);
        let flight = Flight {
            cookie,
            order: Arc::clone(&order),
        };
        if lock(&self.flights).insert(tag, flight).is_some() {
            return Err(bad("a tag that is still in use"));
        }
        lock(&self.outgoing).command(tag, &order)
    }
}

impl Receiver {
    pub(super) fn receive(
        &mut self,
        expected: impl FnOnce(u64) -> Option<u32>,
    ) -> io::Result<Answer> {
        let (tag, error) = self.completion()?;
        let flight = lock(&self.flights).remove(&tag);
        let flight = flight.ok_or_else(|| bad("an answer that nobody waits for"))?;
        let length = expected(flight.cookie).ok_or_else(|| bad("an unknown cookie"))?;
        let data = self.parts.remove(&tag).unwrap_or_default();
        if error == 0 && data.len() != length as usize {
            return Err(bad(&format!("{} bytes of {length}", data.len())));
        }
        Ok(Answer {
            cookie: flight.cookie,
            error,
            data,
        })
    }

    /// Reads to the next end of a command: its tag, and 0 or status, sense key and additional code.
    fn completion(&mut self) -> io::Result<(u32, u32)> {
        loop {
            let message = Message::read(&mut self.stream)?;
            let tag = message.tag();
            match message.opcode() {
                DATA_IN => {
                    let part = self.parts.entry(tag).or_default();
                    if part.len() != u32_at(&message.header, 40) as usize {
                        return Err(bad("data that is not in order"));
                    }
                    part.extend(&message.data);
                    if message.header[1] & WITH_STATUS != 0 {
                        self.number(&message);
                        return Ok((tag, u32::from(message.header[3]) << 24));
                    }
                }
                RESPONSE => {
                    self.number(&message);
                    match sense(&message)? {
                        [CHECK_CONDITION, UNIT_ATTENTION, ..] => self.again(tag)?,
                        code => return Ok((tag, u32::from_be_bytes(code))),
                    }
                }
                READY_TO_TRANSFER => self.data_wanted(&message)?,
                PING => {
                    let transfer = u32_at(&message.header, 20);
                    if transfer != NO_TAG {
                        self.errands.run(move |outgoing| outgoing.pong(transfer));
                    }
                }
                EVENT => self.number(&message),
                opcode => return Err(bad(&format!("a message of kind {opcode:#x}"))),
            }
        }
    }

    /// Takes the number of an answer.
    fn number(&self, message: &Message) {
        let next = u32_at(&message.header, 24).wrapping_add(1);
        self.expected.store(next, Ordering::Relaxed);
    }

    fn order_of(&self, tag: u32) -> io::Result<Arc<Order>> {
        let flights = lock(&self.flights);
        let flight = flights.get(&tag);
        let order = flight.map(|flight| Arc::clone(&flight.order));
        order.ok_or_else(|| bad("a tag that nobody uses"))
    }

    fn again(&mut self, tag: u32) -> io::Result<()> {
        self.parts.remove(&tag);
        let order = self.order_of(tag)?;
        self.errands
            .run(move |outgoing| outgoing.command(tag, &order));
        Ok(())
    }

    fn data_wanted(&self, request: &Message) -> io::Result<()> {
        let (tag, transfer) = (request.tag(), u32_at(&request.header, 20));
        let order = self.order_of(tag)?;
        let offset = u32_at(&request.header, 40) as usize;
        let length = u32_at(&request.header, 44) as usize;
        if length == 0 || order.data.len() < offset.saturating_add(length) {
            return Err(bad("a request for data that there is not"));
        }
        self.errands.run(move |outgoing| {
            outgoing.data(tag, transfer, offset, &order.data[offset..offset + length])
        });
        Ok(())
    }
}

/// Status, sense key, additional sense code and its qualifier; all 0 if the command succeeded.
fn sense(response: &Message) -> io::Result<[u8; 4]> {
    let status = response.header[3];
    if response.header[2] != 0 {
        return Err(bad("a command that the target did not complete"));
    }
    // Two bytes of length, then sense data in the fixed format.
    Ok(match response.data.get(..2 + 14) {
        Some(data) if status == CHECK_CONDITION => {
            [status, data[2 + 2] & 0xf, data[2 + 12], data[2 + 13]]
        }
        _ => [status, 0, 0, 0],
    })
}
