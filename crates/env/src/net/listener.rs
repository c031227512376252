//! Listening on a TCP address or at a path.
//!
//! Only its owner can use a Unix socket (mode 0600), from the moment when it appears, because the
//! mode is set before the socket gets its name. A socket that a killed server left is removed
//! first; the caller makes sure that this server has ended (it holds the lock of the data
//! directory).

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::{Peer, Stream};

/// Longest path of a Unix socket: the host's address holds 108 bytes, the last of them zero.
const UNIX_PATH_MAX: usize = 107;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// The reasons why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The path does not fit into an address.
    #[error(
        "the socket path {path} has {bytes} bytes, and {UNIX_PATH_MAX} are possible; \
         choose a shorter data directory or socket path"
    )]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// Something that is not a socket has the name.
    #[error("{path} exists and is not a socket; move it away or choose another path")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Somebody else listens there.
    #[error("{address} is in use; is another server running?")]
    InUse {
        /// Address of the listener.
        address: String,
    },
    /// The host refuses.
    #[error("cannot listen on {address}: {source}")]
    Host {
        /// Address of the listener.
        address: String,
        /// The error of the host.
        source: std::io::Error,
    },
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    tcp: bool,
    /// The name to remove when the listener is closed.
    path: Option<PathBuf>,
}

impl Listener {
    /// Listens on a TCP address; with port 0 the kernel chooses, see [`Listener::tcp_address`].
    ///
    /// # Errors
    /// If the address is in use or not of this host.
    pub fn tcp(address: SocketAddr) -> Result<Listener, ListenError> {
        let open = || -> rustix::io::Result<OwnedFd> {
            let family = if address.is_ipv4() {
                AddressFamily::INET
            } else {
                AddressFamily::INET6
            };
            let socket = new_socket(family)?;
            // So that a restart does not wait for connections of the past.
            sockopt::set_socket_reuseaddr(&socket, true)?;
            net::bind(&socket, &address)?;
            net::listen(&socket, BACKLOG)?;
            Ok(socket)
        };
        let socket = open().map_err(|errno| refused(address.to_string(), errno))?;
        Ok(Listener {
            socket,
            tcp: true,
            path: None,
        })
    }

    /// Listens at a path, which only the user of this process can connect to.
    ///
    /// # Errors
    /// If the path is too long, taken by something else, or in a place that cannot be written.
    pub fn unix(path: &Path) -> Result<Listener, ListenError> {
        let bytes = path.as_os_str().len();
        if bytes > UNIX_PATH_MAX {
            return Err(ListenError::PathTooLong {
                path: path.into(),
                bytes,
            });
        }
        let open = || -> Result<OwnedFd, ListenError> {
            remove_stale(path)?;
            let refused = |errno| refused(path.display().to_string(), errno);
            let address = SocketAddrUnix::new(path).map_err(refused)?;
            let socket = new_socket(AddressFamily::UNIX).map_err(refused)?;
            rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(refused)?;
            net::bind(&socket, &address).map_err(refused)?;
            net::listen(&socket, BACKLOG).map_err(refused)?;
            Ok(socket)
        };
        Ok(Listener {
            socket: open()?,
            tcp: false,
            path: Some(path.into()),
        })
    }

    /// Its address, if it listens on TCP.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        net::getsockname(&self.socket)
            .ok()
            .and_then(|address| address.try_into().ok())
    }

    /// Takes the next connection; `None` if no connection waits.
    ///
    /// # Errors
    /// If the host lacks descriptors or memory: the caller retries later, but not at once, because
    /// the listener stays readable.
    pub fn accept(&self) -> std::io::Result<Option<(Stream, Peer)>> {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match net::acceptfrom_with(&self.socket, flags) {
                Ok((socket, address)) => {
                    if self.tcp {
                        // The session gathers replies itself; the kernel would only delay them. If
                        // the connection is closed already, its first use returns the error.
                        let _ = sockopt::set_tcp_nodelay(&socket, true);
                    }
                    let peer = address.and_then(|a| SocketAddr::try_from(a).ok());
                    return Ok(Some((
                        Stream::new(socket),
                        peer.map_or(Peer::Local, Peer::Tcp),
                    )));
                }
                Err(Errno::AGAIN) => return Ok(None),
                // The connection ended before we took it, which is not our failure.
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // A name that stays is removed by the next start.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn new_socket(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    net::socket_with(family, SocketType::STREAM, flags, None)
}

fn refused(address: String, errno: Errno) -> ListenError {
    match errno {
        Errno::ADDRINUSE => ListenError::InUse { address },
        errno => ListenError::Host {
            address,
            source: errno.into(),
        },
    }
}

/// Removes the socket that a killed server left, and no other file.
fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let host = |source| ListenError::Host {
        address: path.display().to_string(),
        source,
    };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(host(error)),
        Ok(metadata) if metadata.file_type().is_socket() => {
            std::fs::remove_file(path).map_err(host)
        }
        Ok(_) => Err(ListenError::NotASocket { path: path.into() }),
    }
}
