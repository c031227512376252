//! Sockets, bound before the engine starts so that a busy port costs nothing but a message.
//!
//! Clients that connect early wait in the kernel's queue until the reactors accept.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

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
    endpoints: Endpoints,
}

impl Listeners {
    /// Binds what is configured. Call under the lock of the data directory.
    ///
    /// # Errors
    /// A place is taken or cannot be reached.
    pub fn bind(nbd: &Nbd) -> Result<Listeners, StartError> {
        let nbd_tcp = nbd.tcp.map(|at| bind_nbd(at, &nbd.callers)).transpose()?;
        let nbd_unix = nbd.unix.as_deref().map(bind_unix).transpose()?;
        let (nbd_tcp, tcp_address) = nbd_tcp.unzip();
        let endpoints = Endpoints {
            nbd_tcp: tcp_address,
            nbd_unix: nbd.unix.clone(),
            ..Endpoints::default()
        };
        Ok(Listeners {
            nbd_tcp,
            nbd_unix,
            endpoints,
        })
    }

    /// Where clients find them, with the ports that were picked.
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

/// Binds the address of metrics and health. One that nobody asked for is done without if it is taken: a second
/// daemon on a host should not fail for that.
///
/// # Errors
/// One that somebody asked for is taken, or not of this host.
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

/// Binds the socket of the REST interface, which only the user of this process can connect to. Its name goes
/// with the listener.
///
/// # Errors
/// The path is taken or cannot be written.
pub fn bind_api(path: &Path) -> Result<Listener, StartError> {
    socket::unlink_stale(path)?;
    Listener::unix(path).map_err(|error| {
        let source = match error {
            ListenError::Host { source, .. } => source,
            other => std::io::Error::other(other),
        };
        StartError::Unix {
            path: path.to_owned(),
            source,
            flag: "--api-unix",
        }
    })
}

fn bind_unix(path: &Path) -> Result<UnixListener, StartError> {
    socket::unlink_stale(path)?;
    UnixListener::bind(path).map_err(|source| StartError::Unix {
        path: path.to_owned(),
        source,
        flag: "--nbd-unix",
    })
}

/// Removes the Unix socket at an orderly end, so that clients see "no such file" at once.
pub fn unlink(path: Option<&PathBuf>) {
    if let Some(path) = path
        && let Err(error) = std::fs::remove_file(path)
    {
        tracing::warn!("cannot remove the socket {}: {error}", path.display());
    }
}
