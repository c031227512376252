//! Doors: the sockets where clients of protocols come in, bound before the engine starts so that a
//! busy port costs nothing but a message.
//!
//! Clients that connect early wait in the kernel's queue until the reactors accept.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;

use everglade_env::net::Listener;

use super::front::{Door, Protocol};
use super::socket::Socket;
use crate::StartError;
use crate::config::Tls;
use crate::datadir::{Address, Endpoint, Endpoints};
use crate::listen;

/// The open listeners of all protocols, in blocking mode until the reactors change that.
#[derive(Debug, Default)]
pub struct Listeners {
    open: Vec<Open>,
    endpoints: Endpoints,
}

/// An open door.
#[derive(Debug)]
pub(crate) struct Open {
    /// Number of the protocol whose clients come in here.
    pub(crate) front: usize,
    /// Title of the protocol, for messages.
    pub(crate) title: &'static str,
    socket: Listening,
}

#[derive(Debug)]
enum Listening {
    Tcp(TcpListener),
    Unix {
        socket: UnixListener,
        /// Removes the socket's name when the listener is closed, so that clients see "no such
        /// file" at once.
        _name: Listener,
    },
}

impl Listeners {
    /// Binds the configured addresses. Call under the lock of the data directory.
    ///
    /// # Errors
    /// A place is taken or cannot be reached.
    pub fn bind(protocols: &[Box<dyn Protocol>]) -> Result<Listeners, StartError> {
        let mut listeners = Listeners::default();
        for (front, protocol) in protocols.iter().enumerate() {
            for door in protocol.doors() {
                listeners.open_door(front, &**protocol, door)?;
            }
        }
        Ok(listeners)
    }

    fn open_door(
        &mut self,
        front: usize,
        protocol: &dyn Protocol,
        door: Door,
    ) -> Result<(), StartError> {
        let (title, callers) = (protocol.title(), protocol.callers());
        let is_tls_required = callers.tls == Some(Tls::Required);
        let (at, socket) = match door.at {
            None => (None, None),
            Some(Address::Tcp(address)) => {
                let is_secured = is_tls_required || protocol.knows_its_callers();
                if !address.ip().is_loopback() && !is_secured {
                    tracing::warn!(
                        "{title} on {address} is open to the network without encryption or a check \
                         of who connects"
                    );
                }
                let (socket, address) = listen::bind_tcp(address, door.flag)?;
                if !address.ip().is_loopback() {
                    tracing::info!(
                        "{title} on {address}: other machines see the LUNs that are mapped to \
                         them (everglade mapping create)"
                    );
                }
                (Some(Address::Tcp(address)), Some(Listening::Tcp(socket)))
            }
            Some(Address::Unix(path)) => {
                let name = listen::bind_unix(&path, door.flag)?;
                let socket = shared(&name)?;
                let socket = Listening::Unix {
                    socket,
                    _name: name,
                };
                (Some(Address::Unix(path)), Some(socket))
            }
        };
        self.open.extend(socket.map(|socket| Open {
            front,
            title,
            socket,
        }));
        let is_tcp = matches!(at, Some(Address::Tcp(_)));
        self.endpoints.doors.push(Endpoint {
            name: door.name,
            at,
            is_tls_required: is_tls_required && is_tcp,
        });
        Ok(())
    }

    /// Returns the addresses for clients, with the ports that were chosen.
    #[must_use]
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Returns the open listeners.
    pub(crate) fn open(&self) -> &[Open] {
        &self.open
    }
}

impl Open {
    /// Sets the listeners to non-blocking mode.
    pub(crate) fn begin(&self) -> io::Result<()> {
        match &self.socket {
            Listening::Tcp(socket) => socket.set_nonblocking(true),
            Listening::Unix { socket, .. } => socket.set_nonblocking(true),
        }
    }

    /// Accepts the next client that waits at this listener.
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        match &self.socket {
            Listening::Tcp(socket) => {
                let (stream, from) = socket.accept()?;
                Socket::tcp(stream, from)
            }
            Listening::Unix { socket, .. } => {
                let (stream, _) = socket.accept()?;
                Socket::unix(stream)
            }
        }
    }
}

impl AsFd for Open {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Listening::Tcp(socket) => socket.as_fd(),
            Listening::Unix { socket, .. } => socket.as_fd(),
        }
    }
}

/// Returns the address for a client on this machine: the loopback, if the server listens
/// everywhere.
pub(super) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}

/// Duplicates the socket for the reactors.
fn shared(listener: &Listener) -> Result<UnixListener, StartError> {
    let duplicate = listener.as_fd().try_clone_to_owned();
    let duplicate = duplicate.map_err(|source| StartError::System {
        action: "duplicate a socket",
        source,
    })?;
    Ok(UnixListener::from(duplicate))
}
