//! Sockets. They are bound before the engine starts, so that a busy port has no other effect than a
//! message.
//!
//! Clients that connect early wait in the kernel's queue until the reactors accept.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::StartError;
use crate::config::{Callers, Metrics, Nbd, Tls};
use crate::datadir::{Endpoints, socket};
use everglade_env::net::{ListenError, Listener};

/// The open doors, blocking mode; reactors may change that.
#[derive(Debug)]
pub struct Listeners {
    /// NBD over TCP.
    pub nbd_tcp: Option<TcpListener>,
    /// NBD over a Unix socket.
    pub nbd_unix: Option<UnixListener>,
    /// Removes the socket's name when the listener is closed, so that clients see "no such file" at
    /// once.
    _name: Option<Listener>,
    endpoints: Endpoints,
}

impl Listeners {
    /// Binds the configured addresses. Call under the lock of the data directory.
    ///
    /// # Errors
    /// A place is taken or cannot be reached.
    pub fn bind(nbd: &Nbd) -> Result<Listeners, StartError> {
        let nbd_tcp = nbd.tcp.map(|at| bind_nbd(at, &nbd.callers)).transpose()?;
        let name = nbd
            .unix
            .as_deref()
            .map(|path| bind_unix(path, "--nbd-unix"));
        let name = name.transpose()?;
        let nbd_unix = name.as_ref().map(shared).transpose()?;
        let (nbd_tcp, tcp_address) = nbd_tcp.unzip();
        let endpoints = Endpoints {
            nbd_tcp: tcp_address,
            nbd_tls_required: nbd.callers.tls == Some(Tls::Required),
            nbd_unix: nbd.unix.clone(),
            ..Endpoints::default()
        };
        Ok(Listeners {
            nbd_tcp,
            nbd_unix,
            _name: name,
            endpoints,
        })
    }

    /// Their addresses for clients, with the ports that were picked.
    #[must_use]
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }
}

fn bind_nbd(
    address: SocketAddr,
    callers: &Callers,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let is_secured = callers.tls == Some(Tls::Required) || !callers.allow.is_empty();
    if !address.ip().is_loopback() && !is_secured {
        tracing::warn!(
            "NBD on {address} is open to the network without encryption or a check of who connects"
        );
    }
    bind_tcp(address, "--nbd-tcp")
}

/// Binds a TCP address that `flag` could have said otherwise; returns the port that was picked.
///
/// # Errors
/// It is taken, or not of this host.
pub fn bind_tcp(
    address: SocketAddr,
    flag: &'static str,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    });
    bound.map_err(|source| StartError::Tcp {
        address,
        source,
        flag,
    })
}

/// Binds the address of metrics and health. If a default address is taken, the daemon continues
/// without it: a second daemon on a host should not fail for this reason.
///
/// # Errors
/// A configured address is taken, or does not belong to this host.
pub fn bind_metrics(metrics: &Metrics) -> Result<Option<(TcpListener, SocketAddr)>, StartError> {
    let Some(address) = metrics.tcp else {
        return Ok(None);
    };
    match bind_tcp(address, "--metrics-tcp") {
        Ok(bound) => Ok(Some(bound)),
        Err(error) if metrics.is_default => {
            tracing::warn!("no metrics and health: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The same socket, as the reactors accept from it.
fn shared(listener: &Listener) -> Result<UnixListener, StartError> {
    let duplicate = listener.as_fd().try_clone_to_owned();
    let duplicate = duplicate.map_err(|source| StartError::System {
        action: "duplicate a socket",
        source,
    })?;
    Ok(UnixListener::from(duplicate))
}

/// Binds the socket of the REST interface, which only the user of this process can connect to. Its
/// name goes with the listener.
///
/// # Errors
/// The path is taken or cannot be written.
pub fn bind_api(path: &Path) -> Result<Listener, StartError> {
    bind_unix(path, "--api-unix")
}

/// Binds a socket that `flag` could have put elsewhere; it is its owner's alone from the moment it
/// appears.
fn bind_unix(path: &Path, flag: &'static str) -> Result<Listener, StartError> {
    socket::unlink_stale(path)?;
    Listener::unix(path).map_err(|error| {
        let source = match error {
            ListenError::Host { source, .. } => source,
            other => std::io::Error::other(other),
        };
        StartError::Unix {
            path: path.to_owned(),
            source,
            flag,
        }
    })
}
