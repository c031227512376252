//! Addresses to listen on: `127.0.0.1:10809`, `[::1]:10809`, `:0` on the loopback, or `off`.
//!
//! Host names are not resolved: the address of a name may change between two starts, and then other
//! machines could reach unencrypted block storage.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The address to listen on for TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpListen {
    /// No listener.
    Off,
    /// A TCP address; port 0 lets the kernel choose.
    At(SocketAddr),
}

impl TcpListen {
    /// The port assigned to NBD, on the loopback: nothing in the protocol says who a client is.
    pub const DEFAULT_NBD: TcpListen = TcpListen::loopback(10809);

    /// Metrics and health, on the loopback.
    pub const DEFAULT_METRICS: TcpListen = TcpListen::loopback(9810);

    /// The console on the loopback, if it needs no token.
    pub const DEFAULT_CONSOLE: TcpListen = TcpListen::loopback(everglade_api::PORT);

    const fn loopback(port: u16) -> TcpListen {
        TcpListen::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }
}

/// The reasons why a text is not an address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an address; expected IP:PORT such as 127.0.0.1:10809, :PORT, or off")]
pub struct NotAnAddress(String);

impl FromStr for TcpListen {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<TcpListen, NotAnAddress> {
        if text == "off" {
            return Ok(TcpListen::Off);
        }
        let port_of = |port: &str| port.parse().map_err(|_| NotAnAddress(text.to_owned()));
        if let Some(port) = text
            .strip_prefix(':')
            .or_else(|| text.strip_prefix("localhost:"))
        {
            return Ok(TcpListen::loopback(port_of(port)?));
        }
        text.parse()
            .map(TcpListen::At)
            .map_err(|_| NotAnAddress(text.to_owned()))
    }
}

impl fmt::Display for TcpListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TcpListen::Off => f.write_str("off"),
            TcpListen::At(address) => address.fmt(f),
        }
    }
}

/// The socket to listen on for local clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnixListen {
    /// No listener.
    Off,
    /// A socket of this path.
    At(PathBuf),
}

impl FromStr for UnixListen {
    type Err = String;

    fn from_str(text: &str) -> Result<UnixListen, String> {
        match text {
            "" => Err("an empty path; expected the path of a socket, or off".to_owned()),
            "off" => Ok(UnixListen::Off),
            path => Ok(UnixListen::At(PathBuf::from(path))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_the_loopback() {
        assert_eq!(":0".parse(), Ok(TcpListen::loopback(0)));
        assert_eq!("localhost:10809".parse(), Ok(TcpListen::DEFAULT_NBD));
        assert_eq!("127.0.0.1:10809".parse(), Ok(TcpListen::DEFAULT_NBD));
        assert_eq!("off".parse(), Ok(TcpListen::Off));
        let v6 = "[::1]:10809".parse::<TcpListen>().expect("an address");
        assert_eq!(v6.to_string(), "[::1]:10809");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "10809",
            ":",
            ":65536",
            "127.0.0.1",
            "example.org:10809",
            "OFF",
        ] {
            assert!(text.parse::<TcpListen>().is_err(), "{text}");
        }
        assert!("".parse::<UnixListen>().is_err());
    }
}
