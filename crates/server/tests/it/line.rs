//! A protocol of tests, spoken in lines, to show what one takes: a session and its settings.
//!
//! | line | answer |
//! | --- | --- |
//! | `open EXPORT` | `open BYTES`, or `no EXPORT` if there is none for this caller |
//! | `write OFFSET BYTE` | `done`: 4,096 bytes are BYTE |
//! | `read OFFSET` | `data BYTE`: the first of 4,096 bytes |
//! | `bye` | nothing more |
//!
//! When the server stops it says `stopping`.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;

use everglade_server::config::Callers;
use everglade_server::datadir::Address;
use everglade_server::fronts::{Door, Front, Protocol};
use everglade_target::sessions::metrics::{OperationCounters, SessionCounters};
use everglade_target::sessions::{
    Allowed, Caller, Common, Metrics, Owner, Session, Sessions, Tally,
};
use everglade_target::{Error, LunHandle, Op, Reply, Target, Token, WriteSpan};

const BYTES: u32 = 4096;

/// The configuration of the protocol.
pub(crate) struct Lines {
    pub(crate) tcp: SocketAddr,
    pub(crate) connections_max: u32,
    pub(crate) callers: Callers,
}

impl Protocol for Lines {
    fn name(&self) -> &'static str {
        "line"
    }

    fn title(&self) -> &'static str {
        "the line protocol"
    }

    fn doors(&self) -> Vec<Door> {
        vec![Door {
            name: "line_tcp",
            flag: "--line-tcp",
            at: Some(Address::Tcp(self.tcp)),
        }]
    }

    fn connections_max(&self) -> u32 {
        self.connections_max
    }

    fn callers(&self) -> &Callers {
        &self.callers
    }

    fn front(&self, owner: Owner, memory_bytes: u64) -> Box<dyn Front> {
        Box::new(Sessions::<Line>::of_owner(owner, (), memory_bytes))
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    sessions: SessionCounters,
    reads: OperationCounters,
    writes: OperationCounters,
}

impl Metrics for Counters {
    fn sessions(&self) -> &SessionCounters {
        &self.sessions
    }

    fn operations(&self) -> impl Iterator<Item = (&'static str, &OperationCounters)> {
        [("read", &self.reads), ("write", &self.writes)].into_iter()
    }
}

/// The session of one connection.
pub(crate) struct Line {
    caller: Caller,
    metrics: std::sync::Arc<Counters>,
    token_base: Token,
    lun: Option<LunHandle>,
    in_flight: usize,
    buffer: [u8; 64],
    staged: Vec<u8>,
    outgoing: Vec<u8>,
    sent: u64,
    is_ending: bool,
    is_closed: bool,
}

impl Line {
    fn say(&mut self, text: &str) {
        self.outgoing.extend_from_slice(text.as_bytes());
        self.outgoing.push(b'\n');
    }

    fn obey(&mut self, line: &str, target: &mut dyn Target) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().expect("a number");
        let op = match words[..] {
            ["open", export] => {
                let caller = &self.caller;
                return match (Allowed { target, caller }).open(export) {
                    Ok((lun, opened)) => {
                        self.lun = Some(lun);
                        self.say(&format!("open {}", opened.size_bytes));
                    }
                    Err(_) => self.say(&format!("no {export}")),
                };
            }
            ["write", offset, byte] => {
                let byte = u8::try_from(number(byte)).expect("a byte");
                let bytes = [byte; BYTES as usize];
                let data = WriteSpan::copy_of(number(offset), &bytes);
                let durable = true;
                Op::Write { data, durable }
            }
            ["read", offset] => Op::Read {
                offset: number(offset),
                length: BYTES,
            },
            _ => return self.end(target),
        };
        let lun = self.lun.expect("open comes first");
        self.in_flight += 1;
        target.submit(lun, op, self.token_base + 7);
    }

    /// Stops receiving; requests received before are answered.
    fn end(&mut self, target: &mut dyn Target) {
        self.is_ending = true;
        self.settle(target);
    }

    fn settle(&mut self, target: &mut dyn Target) {
        if self.is_ending && self.in_flight == 0 && self.outgoing.is_empty() && !self.is_closed {
            self.is_closed = true;
            self.lun
                .take()
                .into_iter()
                .for_each(|lun| target.close(lun));
        }
    }
}

impl Session for Line {
    type Settings = ();
    type Metrics = Counters;

    fn begin(token_base: Token, caller: Caller, common: &Common<Self>) -> Self {
        Line {
            caller,
            metrics: common.metrics.clone(),
            token_base,
            lun: None,
            in_flight: 0,
            buffer: [0; 64],
            staged: Vec::new(),
            outgoing: b"hello\n".to_vec(),
            sent: 0,
            is_ending: false,
            is_closed: false,
        }
    }

    fn receive_buffers<'a>(&'a mut self, buffers: &mut [IoSliceMut<'a>]) -> usize {
        buffers[0] = IoSliceMut::new(&mut self.buffer);
        1
    }

    fn received(&mut self, bytes: usize, target: &mut dyn Target) {
        self.staged.extend_from_slice(&self.buffer[..bytes]);
        while let Some(end) = self.staged.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.staged.drain(..=end).collect();
            let line = String::from_utf8(line).expect("text");
            self.obey(line.trim_end(), target);
        }
    }

    fn received_end(&mut self, target: &mut dyn Target) {
        self.end(target);
    }

    fn transmit_buffers<'a>(&'a self, buffers: &mut [IoSlice<'a>]) -> usize {
        buffers[0] = IoSlice::new(&self.outgoing);
        1
    }

    fn transmitted(&mut self, bytes: usize, target: &mut dyn Target) {
        self.outgoing.drain(..bytes);
        self.sent += bytes as u64;
        self.settle(target);
    }

    fn bytes_sent(&self) -> u64 {
        self.sent
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }

    fn completed(&mut self, token: Token, result: Result<Reply, Error>, target: &mut dyn Target) {
        assert_eq!(token, self.token_base + 7, "a token of this session");
        self.in_flight -= 1;
        let bytes = u64::from(BYTES);
        match result {
            Ok(Reply::Data(data)) => {
                self.metrics.reads.replied(0, bytes, false);
                self.say(&format!("data {}", data.pages[0][0]));
            }
            Ok(_) => {
                self.metrics.writes.replied(0, bytes, false);
                self.say("done");
            }
            Err(error) => self.say(&error.to_string()),
        }
        self.settle(target);
    }

    fn wants_read(&self) -> bool {
        !self.is_ending
    }

    fn wants_write(&self) -> bool {
        !self.outgoing.is_empty()
    }

    fn operations_in_flight(&self) -> usize {
        self.in_flight
    }

    fn is_in_handshake(&self) -> bool {
        self.lun.is_none()
    }

    fn is_draining(&self) -> bool {
        self.is_ending && !self.is_closed
    }

    fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn has_lost_its_lun(&self, target: &dyn Target) -> bool {
        self.lun.is_some_and(|lun| target.size_bytes(lun).is_none())
    }

    fn stop(&mut self, target: &mut dyn Target) {
        if !self.is_ending {
            self.say("stopping");
        }
        self.end(target);
    }

    fn abandon(&mut self, target: &mut dyn Target) {
        self.outgoing.clear();
        self.end(target);
    }
}
