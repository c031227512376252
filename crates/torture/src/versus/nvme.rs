//! A connection of NVMe/TCP for measuring, beside that of NBD ([`super::socket`]): as few calls and
//! as little work for a request as possible.
//!
//! It is two connections: the admin queue, which is silent after the start, and one queue for input
//! and output without flow control, so that data alone answers a read. Data of writes is in the
//! message of the command up to the length that the controller allows; longer data is sent when the
//! controller asks for it.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use super::socket::{Ask, Client, Verb, wait};
use super::stream::{Batch, Heard, Room};
use crate::client::nvme_wire::{
    BLOCK_BYTES, Controller, DATA, ENTRIES, Entry, FORCE_UNIT_ACCESS, HEADER_BYTES,
    READY_TO_TRANSFER, RESPONSE, SUCCESS, bad, data_head, status, u16_at, u32_at, wanted,
};

/// An answer, or a request for data, has no data behind it.
const NO_DATA: Heard = Heard {
    skip: 0,
    is_answer: true,
};

pub(super) struct Queue {
    /// Kept open: the queue ends with it.
    _controller: Controller,
    stream: TcpStream,
    /// Longest data in the message of a command.
    in_capsule_max: usize,
    batch: Batch<Vec<u8>>,
    /// By cookie: where the data of a write is, for when it is asked for.
    written: Vec<(usize, usize)>,
    room: Room<HEADER_BYTES>,
}

impl Queue {
    /// Connects to a subsystem; returns the size of its first namespace in bytes as well.
    pub(super) fn open(address: &str, subsystem: &str) -> io::Result<(Queue, u64)> {
        let mut controller = Controller::open(address, subsystem)?;
        let size_bytes = controller.size_bytes()?;
        let queue = Queue {
            stream: controller.queue(1)?,
            in_capsule_max: controller.in_capsule_max,
            _controller: controller,
            batch: Batch::new(),
            written: vec![(0, 0); usize::from(ENTRIES)],
            room: Room::new(),
        };
        Ok((queue, size_bytes))
    }
}

impl Client for Queue {
    fn wait(&self, patience: Duration, or_sent: bool) -> io::Result<bool> {
        wait(&self.stream, patience, or_sent)
    }

    fn set_nonblocking(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        (self.batch.may_wait, self.room.may_wait) = (true, true);
        Ok(())
    }

    fn queue(&mut self, ask: Ask, payload: usize) {
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

    fn send(&mut self, noise: &[u8]) -> io::Result<bool> {
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
                let status = status(header);
                if status != 0 {
                    return Err(bad(format!("status {status:#x}")));
                }
                replied(u32::from(u16_at(header, 20)));
                Ok(NO_DATA)
            }
            READY_TO_TRANSFER => {
                let place = written[usize::from(u16_at(header, 8))];
                let part = wanted(header);
                if part != (0..place.1) {
                    return Err(bad("a request for a part of the data"));
                }
                batch.push(data_head(header, &part), Some(place));
                Ok(NO_DATA)
            }
            kind => Err(bad(format!("a message of kind {kind}"))),
        })
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
