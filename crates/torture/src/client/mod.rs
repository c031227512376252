//! Clients of all protocols that pipeline: requests are sent without waiting, replies are taken in
//! whatever order they come. Two halves, so that a sender blocked by a slow server never keeps
//! replies from being read.
//!
//! | protocol | what the rigs need of it |
//! | --- | --- |
//! | NBD | fixed newstyle, `NBD_OPT_EXPORT_NAME`, simple replies |
//! | NVMe/TCP | the discovery service, one queue for input and output |
//! | iSCSI | one connection for each session, all four ways of sending data |

mod errands;
mod iscsi;
mod iscsi_wire;
mod nbd;
mod nbd_wire;
mod nvme;
pub(crate) mod nvme_wire;
pub(crate) mod stream;

use std::io;

pub use stream::Address;

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
pub struct Sender(Sending);

enum Sending {
    Nbd(nbd::Sender),
    Nvme(nvme::Sender),
    Iscsi(iscsi::Sender),
}

/// The half that receives.
pub struct Receiver(Receiving);

enum Receiving {
    Nbd(nbd::Receiver),
    Nvme(nvme::Receiver),
    Iscsi(iscsi::Receiver),
}

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// NBD.
    Nbd,
    /// NVMe/TCP.
    Nvme,
    /// iSCSI.
    Iscsi,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Return bytes.
    Read,
    /// Store bytes.
    Write,
    /// Make what was answered durable.
    Flush,
    /// The range is no longer needed.
    Trim,
    /// The range must read as zeroes.
    WriteZeroes,
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
    /// 0, or what the protocol says is wrong: an error number of NBD, a status of NVMe, or status,
    /// sense key and additional code of SCSI.
    pub error: u32,
    /// What a read returned.
    pub data: Vec<u8>,
}

impl Answer {
    /// The answer, if nothing is wrong.
    ///
    /// # Errors
    /// The server answered an error.
    pub fn right(self) -> io::Result<Answer> {
        match self.error {
            0 => Ok(self),
            error => Err(io::Error::other(format!(
                "the server answered error {error}"
            ))),
        }
    }
}

impl Connection {
    /// Connects and opens an export.
    ///
    /// # Errors
    /// Those of the socket; a server that closes because it has no such export shows as an early
    /// end.
    pub fn open(address: &Address, export: &str) -> io::Result<Connection> {
        let (sender, receiver, size_bytes) = match address {
            Address::Tcp(_) | Address::Unix(_) => {
                let (sender, receiver, size) = nbd::open(address, export)?;
                (Sending::Nbd(sender), Receiving::Nbd(receiver), size)
            }
            Address::Nvme(address) => {
                let (sender, receiver, size) = nvme::open(address, export)?;
                (Sending::Nvme(sender), Receiving::Nvme(receiver), size)
            }
            Address::Iscsi(address) => {
                let (sender, receiver, size) = iscsi::open(address, export)?;
                (Sending::Iscsi(sender), Receiving::Iscsi(receiver), size)
            }
        };
        Ok(Connection {
            sender: Sender(sender),
            receiver: Receiver(receiver),
            size_bytes,
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
        match &mut self.0 {
            Sending::Nbd(sender) => sender.send(ask, payload),
            Sending::Nvme(sender) => sender.send(ask, payload),
            Sending::Iscsi(sender) => sender.send(ask, payload),
        }
    }

    /// Whether the protocol has a way to ask that this command is durable when it is answered.
    #[must_use]
    pub fn can_force(&self, command: Command) -> bool {
        match (&self.0, command) {
            (_, Command::Read | Command::Flush) => false,
            (_, Command::Write) | (Sending::Nbd(_), _) => true,
            (Sending::Nvme(_), command) => command == Command::WriteZeroes,
            (Sending::Iscsi(_), _) => false,
        }
    }
}

impl Receiver {
    /// Which protocol it speaks.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        match &self.0 {
            Receiving::Nbd(_) => Protocol::Nbd,
            Receiving::Nvme(_) => Protocol::Nvme,
            Receiving::Iscsi(_) => Protocol::Iscsi,
        }
    }

    /// Waits for a reply. `expected` says how many bytes a successful reply with this cookie
    /// carries; `None` if the cookie is not one of ours.
    ///
    /// # Errors
    /// Those of the socket, and a reply that nobody asked for.
    pub fn receive(&mut self, expected: impl FnOnce(u64) -> Option<u32>) -> io::Result<Answer> {
        match &mut self.0 {
            Receiving::Nbd(receiver) => receiver.receive(expected),
            Receiving::Nvme(receiver) => receiver.receive(expected),
            Receiving::Iscsi(receiver) => receiver.receive(expected),
        }
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the server sent {what}"),
    )
}
