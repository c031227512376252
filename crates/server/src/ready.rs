//! The output of a daemon when clients may connect: the ready line, then commands to try.
//!
//! The first line is for scripts and does not change (docs/reference/conventions.md#ready-line);
//! the following lines are for people and may change.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;

use everglade_target::Export;
use serde_json::json;

use crate::datadir::Endpoints;
use crate::fronts::{Contents, Protocol};

/// The form of the output on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// One JSON object instead of text.
    pub json: bool,
    /// The ready line alone.
    pub quiet: bool,
}

/// A daemon that is ready.
pub struct Ready<'a> {
    /// Addresses.
    pub endpoints: &'a Endpoints,
    /// What clients may connect to.
    pub exports: &'a [Export],
    /// Data in the exports.
    pub contents: Contents,
    /// Protocols of the clients.
    pub protocols: &'a [Box<dyn Protocol>],
    /// See [`Config::options_of_clients`](crate::Config::options_of_clients).
    pub options: &'a str,
    /// Whether browsers of this machine need no token.
    pub has_console: bool,
}

/// Says it on stdout, and to systemd. A reader that has gone away is not worth failing for.
pub fn announce(output: Output, ready: &Ready<'_>) {
    let endpoints = ready.endpoints;
    let text = match output {
        Output { json: true, .. } => format!("{}\n", as_json(endpoints, ready.exports)),
        Output { quiet: true, .. } => format!("{}\n", line(endpoints)),
        Output { .. } => format!("{}\n{}", line(endpoints), commands(ready)),
    };
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        tracing::warn!("cannot write the ready line to stdout: {error}");
    }
    notify(&[sd_notify::NotifyState::Ready]);
}

/// Tells systemd that the end has begun, so that it waits for the consistency point.
pub fn announce_stopping() {
    notify(&[sd_notify::NotifyState::Stopping]);
}

/// Tells systemd that all threads that must not hang have given a sign of life.
pub fn announce_alive() {
    notify(&[sd_notify::NotifyState::Watchdog]);
}

/// Returns the interval at which systemd expects a sign of life, if it expects one.
#[must_use]
pub fn watchdog_interval() -> Option<std::time::Duration> {
    sd_notify::watchdog_enabled()
}

fn notify(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}

/// Returns `ready nbd=… nbd-unix=… api=… metrics=…`; an endpoint without a listener is `off`.
/// `api-tcp=…` is present if it is configured.
#[must_use]
pub fn line(endpoints: &Endpoints) -> String {
    let off = || "off".to_owned();
    let mut line = "ready".to_owned();
    for door in &endpoints.doors {
        let name = door.name.strip_suffix("_tcp").unwrap_or(door.name);
        let at = door.at.as_ref().map_or_else(off, ToString::to_string);
        // Writing to a String cannot fail.
        let _ = write!(line, " {}={at}", name.replace('_', "-"));
    }
    let at = |address: &SocketAddr| address.to_string();
    let metrics = endpoints.metrics.as_ref().map_or_else(off, at);
    let api = endpoints.api_unix.as_ref();
    let api = api.map_or_else(off, |path| path.display().to_string());
    let api_tcp = endpoints.api_tcp.as_ref();
    let api_tcp = api_tcp.map_or_else(String::new, |address| format!(" api-tcp={address}"));
    format!("{line} api={api} metrics={metrics}{api_tcp}")
}

fn as_json(endpoints: &Endpoints, exports: &[Export]) -> serde_json::Value {
    let exports: Vec<_> = exports
        .iter()
        .map(|export| {
            json!({
                "name": export.name,
                "size_bytes": export.size_bytes,
                "read_only": export.read_only,
            })
        })
        .collect();
    let mut value = endpoints.json();
    value["event"] = json!("ready");
    value["exports"] = json!(exports);
    value
}

/// Returns commands for a person to try: those of all protocols, and a few to look around.
fn commands(ready: &Ready<'_>) -> String {
    let each = ready.protocols.iter();
    let mut text: String = each
        .map(|protocol| protocol.commands(ready.endpoints, ready.exports, ready.contents))
        .collect();
    // Writing to a String cannot fail.
    if ready.endpoints.api_unix.is_some() {
        let _ = writeln!(text, "\nSee what there is, and make more:\n");
        for verb in ["status", "df", "lun create --help"] {
            let _ = writeln!(text, "  everglade {}{verb}", ready.options);
        }
    }
    if let (true, Some(address)) = (ready.has_console, ready.endpoints.api_tcp) {
        let _ = writeln!(
            text,
            "\nLook at it in a browser: http://localhost:{}",
            address.port()
        );
    }
    let _ = writeln!(text, "\nPress Ctrl-C to shut down cleanly.");
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::datadir::{Address, Endpoint};

    fn endpoints(tcp: Option<&str>, unix: Option<&str>) -> Endpoints {
        let door = |name, at| Endpoint {
            name,
            at,
            is_tls_required: false,
        };
        let at = |text: &str| Address::Tcp(text.parse().expect("an address"));
        let path = |path: &str| Address::Unix(path.into());
        Endpoints {
            doors: vec![
                door("nbd_tcp", tcp.map(at)),
                door("nbd_unix", unix.map(path)),
            ],
            api_unix: unix.map(|_| PathBuf::from("/d/run/api.sock")),
            api_tcp: None,
            metrics: unix.map(|_| "127.0.0.1:9810".parse().expect("an address")),
        }
    }

    fn export() -> Export {
        Export {
            uuid: [1; 16],
            lun_uuid: [1; 16],
            name: "vol0/lun0".to_owned(),
            size_bytes: 16 << 30,
            read_only: false,
        }
    }

    #[test]
    fn the_line_has_every_door() {
        let both = endpoints(Some("127.0.0.1:10809"), Some("/d/run/nbd.sock"));
        assert_eq!(
            line(&both),
            "ready nbd=127.0.0.1:10809 nbd-unix=/d/run/nbd.sock api=/d/run/api.sock \
            metrics=127.0.0.1:9810"
        );
        assert_eq!(
            line(&endpoints(Some("127.0.0.1:9"), None)),
            "ready nbd=127.0.0.1:9 nbd-unix=off api=off metrics=off"
        );
    }

    #[test]
    fn proposed_commands_find_the_daemon() {
        let said = |endpoints: &Endpoints| {
            commands(&Ready {
                endpoints,
                exports: &[export()],
                contents: Contents::Kept,
                protocols: &[],
                options: "--data-dir /d ",
                has_console: true,
            })
        };
        let text = said(&endpoints(None, Some("/d/run/nbd.sock")));
        assert!(
            text.contains("\n  everglade --data-dir /d status\n"),
            "{text}"
        );
        let with_console = Endpoints {
            api_tcp: Some("127.0.0.1:9811".parse().expect("an address")),
            ..endpoints(None, None)
        };
        let text = said(&with_console);
        assert!(text.contains("browser: http://localhost:9811\n"), "{text}");
        let text = said(&endpoints(Some("127.0.0.1:9"), None));
        assert!(!text.contains("everglade"), "nobody would answer: {text}");
    }

    #[test]
    fn json_has_what_the_line_has() {
        let value = as_json(&endpoints(Some("[::1]:9"), None), &[export()]);
        assert_eq!(value["nbd_tcp"], "[::1]:9");
        assert_eq!(value["nbd_unix"], serde_json::Value::Null);
        assert_eq!(value["exports"][0]["size_bytes"], 16u64 << 30);
    }
}
