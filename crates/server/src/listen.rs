//! Binding of sockets. If a socket cannot be bound, the message has the remedy.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use crate::StartError;
use crate::config::Metrics;
use crate::datadir::socket;
use everglade_env::net::{ListenError, Listener};

/// Binds a TCP address that `flag` could have said otherwise; returns the port that was picked.
///
/// # Errors
/// The address is in use, or not of this host.
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
pub(crate) fn bind_unix(path: &Path, flag: &'static str) -> Result<Listener, StartError> {
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
