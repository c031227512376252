//! iSCSI as a front: its endpoint, its settings, and commands for a person to try.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use everglade_iscsi::login::chap::{Accounts, CHALLENGE_BYTES};
use everglade_iscsi::{Node, Sessions, Settings, names};
use everglade_target::Export;
use everglade_target::reservations::Registry;
use everglade_target::sessions::Owner;
use rustix::rand::{GetRandomFlags, getrandom};

use super::front::{Contents, Door, Front, Protocol};
use super::secrets;
use crate::StartError;
use crate::config::{self, Callers};
use crate::datadir::{Address, Endpoint, Endpoints};

/// Name of its door.
const TCP: &str = "iscsi_tcp";

/// iSCSI as it is configured.
pub struct Iscsi {
    config: config::Iscsi,
    /// What the sessions of all reactors share.
    node: Arc<Node>,
    /// Who may log in, read by [`Protocol::open`].
    accounts: OnceLock<Arc<Accounts>>,
}

impl Iscsi {
    /// Opens nothing. Reservations are those of all protocols.
    #[must_use]
    pub fn new(config: &config::Iscsi, reservations: &Arc<Registry>) -> Iscsi {
        Iscsi {
            config: config.clone(),
            node: Arc::new(Node::new(Arc::clone(reservations))),
            accounts: OnceLock::new(),
        }
    }
}

impl Protocol for Iscsi {
    fn name(&self) -> &'static str {
        "iscsi"
    }

    fn title(&self) -> &'static str {
        "iSCSI"
    }

    fn doors(&self) -> Vec<Door> {
        vec![Door {
            name: TCP,
            flag: "--iscsi-tcp",
            at: self.config.tcp.map(Address::Tcp),
        }]
    }

    fn connections_max(&self) -> u32 {
        self.config.connections_max
    }

    fn callers(&self) -> &Callers {
        &self.config.callers
    }

    fn knows_its_callers(&self) -> bool {
        self.config.secrets.is_some() || !self.config.callers.allow.is_empty()
    }

    fn open(&self) -> Result<(), StartError> {
        if let Some(path) = &self.config.secrets {
            let accounts = secrets::read(path).map_err(StartError::Secrets)?;
            self.accounts.get_or_init(|| Arc::new(accounts));
        }
        Ok(())
    }

    fn front(&self, owner: Owner, memory_bytes: u64) -> Box<dyn Front> {
        let accounts = self.accounts.get().cloned();
        assert_eq!(
            accounts.is_some(),
            self.config.secrets.is_some(),
            "the secrets were read before anybody can log in"
        );
        let settings = Settings {
            idle_max: self.config.callers.idle_max(),
            asks_for_home: true,
            accounts,
            node: Arc::clone(&self.node),
            random: Some(Arc::new(random)),
            notes: Some(Arc::new(|text: &str| tracing::warn!("{text}"))),
            ..Settings::default()
        };
        Box::new(Sessions::of_owner(owner, settings, memory_bytes))
    }

    fn commands(&self, endpoints: &Endpoints, exports: &[Export], contents: Contents) -> String {
        // Commands that need a secret are not shown, because a copied line would fail.
        match self.config.secrets {
            Some(_) => String::new(),
            None => commands(endpoints, exports, contents),
        }
    }
}

/// Fresh random bytes from the kernel, which has them since long before a daemon starts.
fn random() -> [u8; CHALLENGE_BYTES + 1] {
    let mut bytes = [0; CHALLENGE_BYTES + 1];
    loop {
        match getrandom(&mut bytes[..], GetRandomFlags::empty()) {
            Ok(filled) if filled == bytes.len() => return bytes,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => panic!("the kernel gives no random numbers: {errno}"),
        }
    }
}

/// Returns the name of the target of an export, if initiators can reach it.
#[must_use]
pub fn target(endpoints: &Endpoints, export: &str) -> Option<String> {
    endpoints.door(TCP).and_then(portal)?;
    names::target_name(export)
}

/// Returns the exact commands to try on the first export. They only read, unless it is new.
fn commands(endpoints: &Endpoints, exports: &[Export], contents: Contents) -> String {
    let mut text = String::new();
    let portal = endpoints.door(TCP).and_then(portal);
    let target = exports.first().and_then(|it| names::target_name(&it.name));
    let (Some(portal), Some(target)) = (portal, target) else {
        return text;
    };
    let url = format!("iscsi://{portal}/{target}/0");
    // Writing to a String cannot fail.
    let _ = writeln!(text, "\nThe same disk over iSCSI is {target}:\n");
    let mut lines = vec![
        format!("iscsi-ls iscsi://{portal}"),
        format!("qemu-img info {url}"),
    ];
    if contents == Contents::New {
        lines.push(format!("qemu-img convert -n -O raw disk.qcow2 {url}"));
    }
    lines.push(format!("qemu-img convert -O raw {url} copy.img"));
    lines.push(format!("iscsiadm -m discovery -t sendtargets -p {portal}"));
    lines.push(format!("iscsiadm -m node -T {target} -p {portal} --login"));
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// Returns the portal for a client on this machine.
fn portal(door: &Endpoint) -> Option<SocketAddr> {
    let Some(Address::Tcp(mut address)) = door.at else {
        return None;
    };
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(at: Option<&str>, contents: Contents) -> String {
        let door = Endpoint {
            name: TCP,
            at: at.map(|text| Address::Tcp(text.parse().expect("an address"))),
            is_tls_required: false,
        };
        let endpoints = Endpoints {
            doors: vec![door],
            ..Endpoints::default()
        };
        let export = Export {
            name: "vol0/lun0".to_owned(),
            uuid: [1; 16],
            lun_uuid: [1; 16],
            size_bytes: 1 << 30,
            read_only: false,
        };
        commands(&endpoints, &[export], contents)
    }

    #[test]
    fn commands_name_the_target_and_the_portal_and_only_new_disks_are_written() {
        let text = told(Some("0.0.0.0:99"), Contents::New);
        let url = "iscsi://127.0.0.1:99/iqn.2026-11.dev.everglade:vol0.lun0/0";
        assert!(text.contains(&format!("disk.qcow2 {url}\n")), "{text}");
        let text = told(Some("10.0.0.1:99"), Contents::Kept);
        assert!(text.contains("iscsi-ls iscsi://10.0.0.1:99\n"), "{text}");
        assert!(!text.contains("disk.qcow2"), "{text}");
        assert_eq!(told(None, Contents::New), "");
    }

    #[test]
    fn challenges_do_not_repeat() {
        assert_ne!(random(), random());
    }
}
