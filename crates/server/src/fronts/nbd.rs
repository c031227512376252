//! NBD as a front: its endpoints, its settings, and commands for a person to try.

use std::fmt::Write as _;
use std::sync::Arc;

use everglade_nbd::{Sessions, Settings};
use everglade_target::Export;
use everglade_target::reservations::Registry;
use everglade_target::sessions::Owner;

use super::doors::reachable;
use super::front::{Contents, Door, Front, Protocol};
use crate::Size;
use crate::config::place::quoted;
use crate::config::{self, Callers};
use crate::datadir::{Address, Endpoint, Endpoints};

/// Names of its doors.
const TCP: &str = "nbd_tcp";
const UNIX: &str = "nbd_unix";

/// NBD as it is configured.
pub struct Nbd {
    config: config::Nbd,
    reservations: Arc<Registry>,
}

impl Nbd {
    /// Opens nothing. Reservations are those of all protocols.
    #[must_use]
    pub fn new(config: &config::Nbd, reservations: &Arc<Registry>) -> Nbd {
        Nbd {
            config: config.clone(),
            reservations: Arc::clone(reservations),
        }
    }
}

impl Protocol for Nbd {
    fn name(&self) -> &'static str {
        "nbd"
    }

    fn title(&self) -> &'static str {
        "NBD"
    }

    fn doors(&self) -> Vec<Door> {
        let config::Nbd { tcp, unix, .. } = &self.config;
        vec![
            Door {
                name: TCP,
                flag: "--nbd-tcp",
                at: tcp.map(Address::Tcp),
            },
            Door {
                name: UNIX,
                flag: "--nbd-unix",
                at: unix.clone().map(Address::Unix),
            },
        ]
    }

    fn connections_max(&self) -> u32 {
        self.config.connections_max
    }

    fn callers(&self) -> &Callers {
        &self.config.callers
    }

    fn front(&self, owner: Owner, memory_bytes: u64) -> Box<dyn Front> {
        let settings = Settings {
            idle_max: self.config.callers.idle_max(),
            asks_for_home: true,
            reservations: Some(Arc::clone(&self.reservations)),
            notes: Some(Arc::new(|text: &str| tracing::warn!("{text}"))),
            ..Settings::default()
        };
        Box::new(Sessions::of_owner(owner, settings, memory_bytes))
    }

    fn commands(&self, endpoints: &Endpoints, exports: &[Export], contents: Contents) -> String {
        commands(endpoints, exports, contents)
    }
}

/// Address of one export, by TCP where that is open.
#[must_use]
pub fn uri(endpoints: &Endpoints, export: &str) -> Option<String> {
    uri_at(endpoints.door(TCP), endpoints.door(UNIX), export)
}

fn uri_at(tcp: Option<&Endpoint>, unix: Option<&Endpoint>, export: &str) -> Option<String> {
    if let Some(Endpoint {
        at: Some(Address::Tcp(address)),
        is_tls_required,
        ..
    }) = tcp
    {
        let scheme = if *is_tls_required { "nbds" } else { "nbd" };
        return Some(format!("{scheme}://{}/{export}", reachable(*address)));
    }
    match unix.and_then(|door| door.at.as_ref()) {
        Some(Address::Unix(path)) => {
            Some(format!("nbd+unix:///{export}?socket={}", path.display()))
        }
        _ => None,
    }
}

/// Returns the exact commands to try on the first export. Unless the export is new, they only read.
fn commands(endpoints: &Endpoints, exports: &[Export], contents: Contents) -> String {
    let mut text = String::new();
    let Some(export) = exports.first() else {
        return text;
    };
    // Commands that need certificates are not shown, because a copied line would fail.
    let tcp = endpoints.door(TCP).filter(|door| !door.is_tls_required);
    let unix = endpoints.door(UNIX);
    let Some(uri) = uri_at(tcp, unix, &export.name) else {
        return text;
    };
    let name = &export.name;
    // A URI with a socket has characters that a shell would take.
    let quoted = if uri.contains('?') {
        format!("'{uri}'")
    } else {
        uri
    };
    let (about, lines) = match contents {
        Contents::New => ("disk", writing(&quoted, export.size_bytes)),
        Contents::Kept => (
            "disk; these commands only read it",
            reading(&quoted, export.size_bytes),
        ),
    };
    // Writing to a String cannot fail.
    let size = Size(export.size_bytes);
    let _ = writeln!(
        text,
        "\n{name} is a {size} {about}. Try, in another terminal:\n"
    );
    let attach = attach(tcp, unix, name, contents);
    for line in lines.into_iter().chain(attach) {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// Commands for an export without data.
fn writing(uri: &str, bytes: u64) -> Vec<String> {
    vec![
        format!("nbdinfo {uri}"),
        format!("nbdcopy disk.img {uri}"),
        format!("nbdcopy {uri} copy.img"),
        format!("qemu-img convert -n -O raw disk.qcow2 {uri}"),
        fio(uri, "--rw=randrw", bytes),
    ]
}

/// Commands for an export that may hold data.
fn reading(uri: &str, bytes: u64) -> Vec<String> {
    vec![
        format!("nbdinfo {uri}"),
        format!("nbdcopy {uri} copy.img"),
        fio(uri, "--readonly --rw=randread", bytes),
    ]
}

/// A short run of fio in the first part of an export of this size.
fn fio(uri: &str, how: &str, bytes: u64) -> String {
    let size = bytes.min(256 << 20);
    format!("fio --name=try --ioengine=nbd --uri={uri} {how} --bs=4k --size={size} --iodepth=16")
}

/// Returns the command that makes the export a block device of this machine.
fn attach(
    tcp: Option<&Endpoint>,
    unix: Option<&Endpoint>,
    name: &str,
    contents: Contents,
) -> Option<String> {
    let place = |door: Option<&Endpoint>| door.and_then(|door| door.at.clone());
    let how = match contents {
        Contents::New => "",
        Contents::Kept => "-readonly ",
    };
    Some(match place(tcp).or_else(|| place(unix))? {
        Address::Tcp(address) => {
            let address = reachable(address);
            let (ip, port) = (address.ip(), address.port());
            format!("nbd-client {how}-N {name} {ip} {port} /dev/nbd0")
        }
        Address::Unix(path) => {
            format!("nbd-client {how}-N {name} -u {} /dev/nbd0", quoted(&path))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(tcp: Option<&str>, unix: Option<&str>) -> Endpoints {
        let door = |name, at| Endpoint {
            name,
            at,
            is_tls_required: false,
        };
        let tcp = tcp.map(|text| Address::Tcp(text.parse().expect("an address")));
        let unix = unix.map(|path| Address::Unix(path.into()));
        Endpoints {
            doors: vec![door(TCP, tcp), door(UNIX, unix)],
            ..Endpoints::default()
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
    fn commands_name_the_export_and_the_address() {
        let commands = |doors: &Endpoints, all: &[Export]| commands(doors, all, Contents::New);
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
        assert!(text.contains("-u /s /dev/nbd0"), "{text}");
        assert_eq!(commands(&endpoints(None, Some("/s")), &[]), "");
    }

    /// An operator who copied the second line of the banner after a restart lost the disk.
    #[test]
    fn commands_for_an_export_with_data_only_read_it() {
        for doors in [
            endpoints(Some("127.0.0.1:99"), None),
            endpoints(None, Some("/s")),
        ] {
            let uri = uri(&doors, "vol0/lun0").expect("an address");
            let text = commands(&doors, &[export()], Contents::Kept);
            let lines: Vec<_> = text.lines().filter(|line| line.starts_with("  ")).collect();
            assert_eq!(lines.len(), 4, "{text}");
            for line in lines {
                let reads = line.starts_with("  nbdinfo ")
                    || line.contains("--readonly --rw=randread ")
                    || line.starts_with("  nbd-client -readonly ")
                    || (line.starts_with("  nbdcopy ") && line.ends_with(" copy.img"));
                assert!(reads, "{line}");
            }
            let new = commands(&doors, &[export()], Contents::New);
            let destination = if uri.contains('?') {
                format!("'{uri}'")
            } else {
                uri
            };
            assert!(
                new.contains(&format!("nbdcopy disk.img {destination}\n")),
                "{new}"
            );
        }
    }

    #[test]
    fn where_encryption_is_required_the_address_says_so() {
        let mut secure = endpoints(Some("10.0.0.1:9"), Some("/s"));
        secure.doors[0].is_tls_required = true;
        assert_eq!(
            uri(&secure, "v/l").as_deref(),
            Some("nbds://10.0.0.1:9/v/l")
        );
        let text = commands(&secure, &[export()], Contents::Kept);
        assert!(
            !text.contains("10.0.0.1") && text.contains("socket=/s"),
            "{text}"
        );
    }
}
