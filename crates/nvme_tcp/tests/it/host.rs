//! A host: connections to a table of sessions, in memory.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Read, Result, Write};
use std::sync::Arc;

use everglade_nvme_tcp::wire::opcode::{admin, fabrics, io};
use everglade_nvme_tcp::wire::sqe::FLAGS_SGL;
use everglade_nvme_tcp::wire::{
    Command, Completion, Connect, ConnectData, Digests, Sgl, SglKind, Status, nqn,
};
use everglade_nvme_tcp::{Registry, Sessions, Settings};
use everglade_target::model::Model;
use everglade_target::sessions::{Caller, SessionId};

use crate::pdu::{self, Pdu, RESPONSE};
use crate::recorder::Recorder;

pub(crate) const LUN: &str = "vol0/lun0";
pub(crate) const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:0";
/// The subsystem of [`LUN`] in a new world.
pub(crate) fn subsystem() -> String {
    subsystem_of(LUN, 1)
}

/// The subsystem of a LUN, the `number`th object of the model.
pub(crate) fn subsystem_of(lun: &str, number: u32) -> String {
    let uuid = u128::from(number) << 96;
    nqn::of_lun(lun, &uuid.to_be_bytes()).unwrap()
}

pub(crate) const SECOND: u64 = 1_000_000_000;

/// Sessions and their target.
pub(crate) struct World {
    pub(crate) sessions: Sessions,
    pub(crate) model: Recorder,
    pub(crate) registry: Arc<Registry>,
    pub(crate) now: u64,
    /// The caller of the next connection.
    pub(crate) caller: Caller,
    /// Bytes moved by one receive or send.
    pub(crate) chunk: usize,
}

/// One connection.
pub(crate) struct Link {
    pub(crate) id: SessionId,
    pub(crate) digests: Digests,
    input: VecDeque<u8>,
    output: Vec<u8>,
    /// The session has ended.
    pub(crate) is_closed: bool,
    next_id: u16,
}

struct Wire<'a> {
    link: &'a mut Link,
    chunk: usize,
}

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> Result<usize> {
        if self.link.input.is_empty() {
            return Err(Error::from(ErrorKind::WouldBlock));
        }
        let mut moved = 0;
        for buffer in buffers {
            let count = buffer.len().min(self.link.input.len());
            let count = count.min(self.chunk - moved);
            let bytes = self.link.input.drain(..count);
            buffer
                .iter_mut()
                .zip(bytes)
                .for_each(|(to, from)| *to = from);
            moved += count;
        }
        Ok(moved)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> Result<usize> {
        let mut moved = 0;
        for buffer in buffers {
            let count = buffer.len().min(self.chunk - moved);
            self.link.output.extend(&buffer[..count]);
            moved += count;
        }
        Ok(moved)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl World {
    pub(crate) fn new(model: Model) -> World {
        World::with(model, |_| {})
    }

    pub(crate) fn with_lun(size_bytes: u64) -> World {
        World::new(Model::with_lun(LUN, size_bytes))
    }

    pub(crate) fn with(model: Model, change: impl Fn(&mut Settings)) -> World {
        let registry = Arc::new(Registry::new());
        let mut settings = Settings::new(Arc::clone(&registry));
        settings.offers_reservations = true;
        change(&mut settings);
        World {
            sessions: Sessions::new(settings, 64 << 20),
            model: Recorder::new(model),
            registry,
            now: SECOND,
            caller: Caller::default(),
            chunk: usize::MAX,
        }
    }

    /// A connection on which nothing was sent yet.
    pub(crate) fn open(&mut self) -> Link {
        self.sessions.tick(self.now);
        let id = self.sessions.attach_caller(self.now, self.caller.clone());
        Link {
            id: id.unwrap(),
            digests: Digests::default(),
            input: VecDeque::new(),
            output: Vec::new(),
            is_closed: false,
            next_id: 0,
        }
    }

    /// Sends bytes, lets everything happen, and returns what the session sent.
    pub(crate) fn exchange(&mut self, link: &mut Link, bytes: &[u8]) -> Vec<u8> {
        link.input.extend(bytes);
        self.turn(link);
        std::mem::take(&mut link.output)
    }

    /// The session receives bytes, and sends nothing.
    pub(crate) fn receive_only(&mut self, link: &mut Link, bytes: &[u8]) {
        link.input.extend(bytes);
        let chunk = self.chunk;
        let mut wire = Wire { link, chunk };
        let id = wire.link.id;
        self.sessions.receive(id, &mut wire, &mut self.model);
    }

    /// Everything happens that can happen on one connection.
    pub(crate) fn turn(&mut self, link: &mut Link) {
        if link.is_closed {
            return;
        }
        loop {
            let before = (link.input.len(), link.output.len());
            let chunk = self.chunk;
            let mut wire = Wire { link, chunk };
            self.sessions
                .receive(wire.link.id, &mut wire, &mut self.model);
            let Wire { link, .. } = wire;
            if self.sessions.interest(link.id).home {
                self.sessions.stay_here(link.id, &mut self.model);
            }
            let done = self.sessions.poll(&mut self.model);
            let mut wire = Wire { link, chunk };
            let id = wire.link.id;
            self.sessions.transmit(id, &mut wire, &mut self.model);
            let Wire { link, .. } = wire;
            if self.sessions.interest(link.id).closed {
                self.sessions.detach(link.id);
                link.is_closed = true;
                return;
            }
            if done == 0 && before == (link.input.len(), link.output.len()) {
                return;
            }
        }
    }

    /// Sends bytes and returns the messages that the session sent.
    pub(crate) fn ask(&mut self, link: &mut Link, bytes: &[u8]) -> Vec<Pdu> {
        let digests = link.digests;
        let answer = self.exchange(link, bytes);
        pdu::read_all(&answer, digests)
    }

    /// Sends a command and returns all messages for it.
    pub(crate) fn command(&mut self, link: &mut Link, command: Command, data: &[u8]) -> Vec<Pdu> {
        let digests = link.digests;
        self.ask(link, &pdu::capsule(&command, data, digests))
    }

    /// Sends a command that is answered with nothing but a completion.
    pub(crate) fn complete(
        &mut self,
        link: &mut Link,
        command: Command,
        data: &[u8],
    ) -> Completion {
        let id = command.id;
        let messages = self.command(link, command, data);
        let [message] = &messages[..] else {
            panic!("one message: {messages:?}");
        };
        let completion = message.completion();
        assert_eq!(completion.command_id, id);
        completion
    }

    /// Sends a command without data that must succeed; returns its result.
    pub(crate) fn done(&mut self, link: &mut Link, command: Command) -> u64 {
        let completion = self.complete(link, command, &[]);
        assert_eq!(completion.status, Status::SUCCESS, "{command:?}");
        completion.result
    }

    /// Sends a command that returns data.
    pub(crate) fn fetch(&mut self, link: &mut Link, command: Command) -> Vec<u8> {
        let messages = self.command(link, command, &[]);
        let [data, response] = &messages[..] else {
            panic!("data and a response: {messages:?}");
        };
        assert_eq!((data.kind, data.u16_at(8)), (pdu::DATA, command.id));
        assert_eq!(data.u32_at(12), 0);
        assert_eq!(data.u32_at(16) as usize, data.data.len());
        assert_eq!(response.completion().status, Status::SUCCESS);
        data.data.clone()
    }

    /// The status of a command that fails.
    pub(crate) fn refused(&mut self, link: &mut Link, command: Command, data: &[u8]) -> Status {
        let status = self.complete(link, command, data).status;
        assert!(status.is_error(), "{command:?}");
        status
    }

    /// A connection that has said its first message.
    pub(crate) fn initialized(&mut self, digests: Digests) -> Link {
        let mut link = self.open();
        let answer = self.exchange(&mut link, &pdu::initialize(digests, 0));
        assert_eq!((answer.len(), answer[0]), (128, 1));
        link.digests = digests;
        link
    }

    /// The admin queue of a new controller, which is not enabled.
    pub(crate) fn connect_to(&mut self, subsystem: &str, digests: Digests) -> (Link, u16) {
        let mut link = self.initialized(digests);
        let data = connect_data(u16::MAX, subsystem);
        let done = self.complete(&mut link, connect(0, 32), &data);
        assert_eq!(done.status, Status::SUCCESS);
        let controller = u16::try_from(done.result).unwrap();
        link.next_id = 1;
        (link, controller)
    }

    /// The admin queue of a new controller of the LUN, which is enabled.
    pub(crate) fn admin_with(&mut self, digests: Digests) -> (Link, u16) {
        let (mut link, controller) = self.connect_to(&subsystem(), digests);
        self.enable(&mut link);
        (link, controller)
    }

    pub(crate) fn enable(&mut self, link: &mut Link) {
        assert_eq!(self.done(link, property_set(0x14, 0x0046_0001)), 0);
        assert_eq!(self.done(link, property_get(0x1c)), 1, "ready");
    }

    pub(crate) fn admin(&mut self) -> (Link, u16) {
        self.admin_with(Digests::default())
    }

    /// A queue for input and output of a new controller. Its admin queue is returned as well.
    pub(crate) fn queue_with(&mut self, digests: Digests) -> (Link, Link) {
        let (admin, controller) = self.admin_with(digests);
        let queue = self.queue_of(controller, 1, digests);
        (queue, admin)
    }

    pub(crate) fn queue(&mut self) -> (Link, Link) {
        self.queue_with(Digests::default())
    }

    pub(crate) fn queue_of(&mut self, controller: u16, number: u16, digests: Digests) -> Link {
        let mut link = self.initialized(digests);
        let data = connect_data(controller, &subsystem());
        let done = self.complete(&mut link, connect(number, 128), &data);
        assert_eq!(done.status, Status::SUCCESS);
        link.next_id = 1;
        link
    }

    /// Lets a second pass.
    pub(crate) fn second_passes(&mut self) {
        self.now += SECOND;
        self.sessions.tick(self.now);
        self.sessions.sweep(self.now, &mut self.model);
    }

    /// What the session has sent since.
    pub(crate) fn heard(&mut self, link: &mut Link) -> Vec<Pdu> {
        self.ask(link, &[])
    }

    /// The link's socket is closed by the host.
    pub(crate) fn close(&mut self, link: &mut Link) {
        self.sessions.abandon(link.id, &mut self.model);
        self.turn(link);
        assert!(link.is_closed);
    }
}

/// Whether the messages are completions without errors.
pub(crate) fn are_done(messages: &[Pdu]) -> bool {
    let done = |it: &Pdu| it.kind == RESPONSE && it.completion().status == Status::SUCCESS;
    messages.iter().all(done)
}

pub(crate) fn nothing() -> Sgl {
    Sgl {
        kind: SglKind::Transport,
        address: 0,
        length: 0,
    }
}

pub(crate) fn transport(length: u32) -> Sgl {
    Sgl {
        length,
        ..nothing()
    }
}

pub(crate) fn in_capsule(length: u32) -> Sgl {
    Sgl {
        kind: SglKind::InCapsule,
        address: 0,
        length,
    }
}

pub(crate) fn command(opcode: u8, id: u16, sgl: Sgl, words: [u32; 6]) -> Command {
    Command {
        opcode,
        flags: FLAGS_SGL,
        id,
        namespace: 1,
        sgl,
        words,
    }
}

fn of_fabrics(kind: u8, id: u16, sgl: Sgl, words: [u32; 6]) -> Command {
    Command {
        namespace: u32::from(kind),
        ..command(0x7f, id, sgl, words)
    }
}

pub(crate) fn connect(queue: u16, entries: u16) -> Command {
    let parameters = Connect {
        format: 0,
        queue,
        entries: entries - 1,
        disables_flow_control: false,
        keep_alive_ms: 0,
    };
    connect_with(parameters)
}

pub(crate) fn connect_with(parameters: Connect) -> Command {
    of_fabrics(fabrics::CONNECT, 0, in_capsule(1024), parameters.words())
}

pub(crate) fn connect_data(controller: u16, subsystem: &str) -> Vec<u8> {
    let data = ConnectData {
        host_id: [5; 16],
        controller,
        subsystem: subsystem.to_owned(),
        host: HOST.to_owned(),
    };
    data.encode()
}

pub(crate) fn property_get(at: u32) -> Command {
    let size = u32::from(at == 0);
    of_fabrics(fabrics::PROPERTY_GET, 90, nothing(), [size, at, 0, 0, 0, 0])
}

pub(crate) fn property_set(at: u32, value: u32) -> Command {
    of_fabrics(
        fabrics::PROPERTY_SET,
        91,
        nothing(),
        [0, at, value, 0, 0, 0],
    )
}

pub(crate) fn disconnect(id: u16) -> Command {
    of_fabrics(fabrics::DISCONNECT, id, nothing(), [0; 6])
}

pub(crate) fn identify(kind: u32, namespace: u32) -> Command {
    Command {
        namespace,
        ..command(admin::IDENTIFY, 92, transport(4096), [kind, 0, 0, 0, 0, 0])
    }
}

/// A log page from an offset on.
pub(crate) fn log_page(page: u8, offset: u64, length: u32) -> Command {
    let words = length / 4 - 1;
    let offset = offset.to_le_bytes();
    let half = |at: usize| u32::from_le_bytes(*offset[at..].first_chunk().unwrap());
    let words = [
        u32::from(page) | words << 16,
        words >> 16,
        half(0),
        half(4),
        0,
        0,
    ];
    command(admin::GET_LOG_PAGE, 93, transport(length), words)
}

pub(crate) fn set_feature(feature: u8, value: u32) -> Command {
    let words = [u32::from(feature), value, 0, 0, 0, 0];
    command(admin::SET_FEATURES, 94, nothing(), words)
}

pub(crate) fn get_feature(feature: u8, length: u32) -> Command {
    let words = [u32::from(feature), 0, 0, 0, 0, 0];
    command(admin::GET_FEATURES, 95, transport(length), words)
}

/// Words of a command with a range of blocks.
pub(crate) fn blocks(first: u64, count: u32) -> [u32; 6] {
    let first = first.to_le_bytes();
    let half = |at: usize| u32::from_le_bytes(*first[at..].first_chunk().unwrap());
    [half(0), half(4), count - 1, 0, 0, 0]
}

pub(crate) fn read(id: u16, first: u64, count: u32) -> Command {
    command(io::READ, id, transport(count * 512), blocks(first, count))
}

/// A write whose data is in its message.
pub(crate) fn write(id: u16, first: u64, count: u32) -> Command {
    command(io::WRITE, id, in_capsule(count * 512), blocks(first, count))
}

/// A write whose data is asked for.
pub(crate) fn long_write(id: u16, first: u64, count: u32) -> Command {
    command(io::WRITE, id, transport(count * 512), blocks(first, count))
}

pub(crate) fn flush(id: u16) -> Command {
    command(io::FLUSH, id, nothing(), [0; 6])
}

/// Bytes in which every position can be told from its neighbours.
pub(crate) fn pattern(seed: u64, count: usize) -> Vec<u8> {
    everglade_target::conformance::Dice::new(seed).bytes(count)
}
