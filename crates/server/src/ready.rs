//! The output of a daemon when clients may connect: the ready line, then commands to try.
//!
//! The first line is for scripts and does not change (docs/reference/conventions.md#ready-line);
//! the following lines are for people and may change.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use everglade_target::Export;
use serde_json::json;

use crate::Size;
use crate::datadir::Endpoints;

/// How to speak on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// One JSON object instead of text.
    pub json: bool,
    /// The ready line alone.
    pub quiet: bool,
}

/// Says it on stdout, and to systemd. A reader that has gone away is not worth failing for.
pub fn announce(output: Output, endpoints: &Endpoints, exports: &[Export]) {
    let text = match output {
        Output { json: true, .. } => format!("{}\n", as_json(endpoints, exports)),
        Output { quiet: true, .. } => format!("{}\n", line(endpoints)),
        Output { .. } => format!("{}\n{}", line(endpoints), commands(endpoints, exports)),
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

/// How often systemd wants to hear that, if it does.
#[must_use]
pub fn watchdog_interval() -> Option<std::time::Duration> {
    sd_notify::watchdog_enabled()
}

fn notify(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}

/// `ready nbd=… nbd-unix=… api=… metrics=…`; a shut door is `off`. `api-tcp=…` is there if that is
/// configured.
#[must_use]
pub fn line(endpoints: &Endpoints) -> String {
    let off = || "off".to_owned();
    let at = |address: &std::net::SocketAddr| address.to_string();
    let tcp = endpoints.nbd_tcp.as_ref().map_or_else(off, at);
    let metrics = endpoints.metrics.as_ref().map_or_else(off, at);
    let socket = |path: &Option<std::path::PathBuf>| {
        path.as_ref()
            .map_or_else(off, |path| path.display().to_string())
    };
    let (unix, api) = (socket(&endpoints.nbd_unix), socket(&endpoints.api_unix));
    let api_tcp = endpoints.api_tcp.as_ref();
    let api_tcp = api_tcp.map_or_else(String::new, |address| format!(" api-tcp={address}"));
    format!("ready nbd={tcp} nbd-unix={unix} api={api} metrics={metrics}{api_tcp}")
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

/// Address of one export, by TCP where that is open.
#[must_use]
pub fn uri(endpoints: &Endpoints, export: &str) -> Option<String> {
    let scheme = if endpoints.nbd_tls_required {
        "nbds"
    } else {
        "nbd"
    };
    match (&endpoints.nbd_tcp, &endpoints.nbd_unix) {
        (Some(address), _) => Some(format!("{scheme}://{}/{export}", reachable(*address))),
        (None, Some(path)) => Some(format!("nbd+unix:///{export}?socket={}", path.display())),
        (None, None) => None,
    }
}

/// A client on this machine reaches a server that listens everywhere on the loopback.
fn reachable(mut address: std::net::SocketAddr) -> std::net::SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// The exact commands to try on the first export.
fn commands(endpoints: &Endpoints, exports: &[Export]) -> String {
    let mut text = String::new();
    let Some(export) = exports.first() else {
        return text;
    };
    // Commands that need certificates are not shown, because a copied line would fail.
    let mut open = endpoints.clone();
    if endpoints.nbd_tls_required {
        open.nbd_tcp = None;
    }
    let endpoints = &open;
    let Some(uri) = uri(endpoints, &export.name) else {
        return text;
    };
    let name = &export.name;
    // A URI with a socket has characters that a shell would take.
    let quoted = if uri.contains('?') {
        format!("'{uri}'")
    } else {
        uri
    };
    let mut lines = vec![
        format!("nbdinfo {quoted}"),
        format!("nbdcopy disk.img {quoted}"),
        format!("nbdcopy {quoted} disk.img"),
        format!("qemu-img convert -n -O raw disk.qcow2 {quoted}"),
    ];
    if let Some(address) = endpoints.nbd_tcp.map(reachable) {
        let (ip, port) = (address.ip(), address.port());
        lines.push(format!("nbd-client -N {name} {ip} {port} /dev/nbd0"));
    } else if let Some(path) = &endpoints.nbd_unix {
        lines.push(format!(
            "nbd-client -N {name} -u {} /dev/nbd0",
            path.display()
        ));
    }
    lines.push(format!(
        "fio --name=try --ioengine=nbd --uri={quoted} --rw=randrw --bs=4k --size=256M --iodepth=16"
    ));
    // Writing to a String cannot fail.
    let size = Size(export.size_bytes);
    let _ = writeln!(
        text,
        "\n{name} is a {size} disk. Try, in another terminal:\n"
    );
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    if endpoints.api_unix.is_some() {
        let _ = writeln!(
            text,
            "\n'everglade status', 'df' and 'lun create' look at it and make more (see --help)."
        );
    }
    let _ = writeln!(text, "\nCtrl-C stops the server in an orderly way.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn endpoints(tcp: Option<&str>, unix: Option<&str>) -> Endpoints {
        Endpoints {
            nbd_tcp: tcp.map(|text| text.parse().expect("an address")),
            nbd_tls_required: false,
            nbd_unix: unix.map(PathBuf::from),
            api_unix: unix.map(|_| PathBuf::from("/d/run/api.sock")),
            api_tcp: None,
            metrics: unix.map(|_| "127.0.0.1:9810".parse().expect("an address")),
        }
    }

    fn export() -> Export {
        Export {
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
    fn commands_name_the_export_and_the_address() {
        let text = commands(&endpoints(Some("0.0.0.0:99"), None), &[export()]);
        assert!(text.contains("vol0/lun0 is a 16.0 GiB disk"), "{text}");
        assert!(
            text.contains("nbdinfo nbd://127.0.0.1:99/vol0/lun0\n"),
            "{text}"
        );
        assert!(
            text.contains("nbd-client -N vol0/lun0 127.0.0.1 99 /dev/nbd0"),
            "{text}"
        );
        let text = commands(&endpoints(None, Some("/s")), &[export()]);
        assert!(
            text.contains("nbdinfo 'nbd+unix:///vol0/lun0?socket=/s'"),
            "{text}"
        );
        assert_eq!(commands(&endpoints(None, Some("/s")), &[]), "");
    }

    #[test]
    fn where_encryption_is_required_the_address_says_so() {
        let secure = Endpoints {
            nbd_tls_required: true,
            ..endpoints(Some("10.0.0.1:9"), Some("/s"))
        };
        assert_eq!(
            uri(&secure, "v/l").as_deref(),
            Some("nbds://10.0.0.1:9/v/l")
        );
        let text = commands(&secure, &[export()]);
        assert!(
            !text.contains("10.0.0.1") && text.contains("socket=/s"),
            "{text}"
        );
    }

    #[test]
    fn json_has_what_the_line_has() {
        let value = as_json(&endpoints(Some("[::1]:9"), None), &[export()]);
        assert_eq!(value["nbd_tcp"], "[::1]:9");
        assert_eq!(value["nbd_unix"], serde_json::Value::Null);
        assert_eq!(value["exports"][0]["size_bytes"], 16u64 << 30);
    }
}
