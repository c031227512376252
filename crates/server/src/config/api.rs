//! Administration over TCP: REST for callers with a token, and the console.

use std::net::SocketAddr;
use std::path::PathBuf;

use everglade_api::openapi::Role;

use super::{ConfigError, Settings, TcpListen, place};

/// REST and the console over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiTcp {
    /// Address of the listener; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// File of tokens, absolute. `None`: only those are known that administrators make.
    pub tokens: Option<PathBuf>,
    /// Folder of certificate and key, absolute; without it nothing is encrypted.
    pub tls_certificates: Option<PathBuf>,
    /// What browsers of this machine may do in the console without a token.
    pub console_loopback: Option<Role>,
}

impl ApiTcp {
    /// Reads the settings of the listener. `None`: it is off.
    ///
    /// # Errors
    /// The listener that the console needs is off.
    pub(super) fn complete(settings: &Settings) -> Result<Option<ApiTcp>, ConfigError> {
        let console = settings.console_loopback;
        let usual = console.map_or(TcpListen::Off, |_| TcpListen::DEFAULT_CONSOLE);
        let TcpListen::At(address) = settings.api_tcp.unwrap_or(usual) else {
            return match console {
                None => Ok(None),
                Some(_) => Err(ConfigError::Incomplete {
                    key: "api.console_loopback",
                    needed: "api.tcp, which is off",
                }),
            };
        };
        let absolute = |path: &Option<PathBuf>| path.clone().map(place::absolute).transpose();
        Ok(Some(ApiTcp {
            address,
            tokens: absolute(&settings.api_tokens)?,
            tls_certificates: absolute(&settings.api_tls_certificates)?,
            console_loopback: console,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_needs_the_listener() {
        let settings = |address: Option<&str>, role| Settings {
            api_tcp: address.map(|address| address.parse().expect("an address")),
            console_loopback: role,
            ..Settings::default()
        };
        let complete = |address, role| ApiTcp::complete(&settings(address, role));
        assert_eq!(complete(None, None).expect("off"), None);
        let console = complete(None, Some(Role::Operator)).expect("good");
        let console = console.expect("on");
        assert_eq!(console.address.to_string(), "127.0.0.1:9811");
        assert_eq!(console.console_loopback, Some(Role::Operator));
        let off = complete(Some("off"), Some(Role::ReadOnly)).expect_err("refused");
        assert!(off.to_string().contains("api.console_loopback"), "{off}");
    }
}
