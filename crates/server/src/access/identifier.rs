//! What a host is known by.

use std::fmt;
use std::str::FromStr;

use everglade_iscsi::names;
use everglade_nvme_tcp::wire::nqn::NQN_BYTES_MAX;
use everglade_target::sessions::Caller;

use crate::config::Origin;

/// A sign by which a connection belongs to a host.
///
/// An IQN and an NQN are what a client says of itself. An initiator that must prove who it is
/// (CHAP) cannot use the name of another account; without that, whoever reaches the server can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identifier {
    /// The name of an iSCSI initiator, normalised: `iqn.…`, `eui.…` or `naa.…`.
    Initiator(String),
    /// The name of an NVMe host: `nqn.…`.
    Nqn(String),
    /// An address, a network, a name in a certificate, or the Unix socket.
    Origin(Origin),
}

impl Identifier {
    /// Returns whether a connection has this sign.
    #[must_use]
    pub fn fits(&self, caller: &Caller) -> bool {
        match self {
            Identifier::Initiator(name) | Identifier::Nqn(name) => {
                caller.host.as_deref() == Some(name)
            }
            Identifier::Origin(origin) => {
                let names = caller.names.get().map_or(&[][..], Vec::as_slice);
                origin.contains(caller.address, names)
            }
        }
    }
}

/// The reason why a text is no identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0:.80}' is nothing that a host is known by; expected an IQN (iqn.…), an NQN (nqn.…), \
    cert:NAME, an address, a network such as 10.1.0.0/16, or local"
)]
pub struct NotAnIdentifier(String);

impl FromStr for Identifier {
    type Err = NotAnIdentifier;

    fn from_str(text: &str) -> Result<Identifier, NotAnIdentifier> {
        let refuse = || NotAnIdentifier(text.to_owned());
        if text.starts_with("nqn.") {
            let is_fine = text.len() <= NQN_BYTES_MAX
                && text.chars().all(|c| !c.is_control() && !c.is_whitespace());
            return match is_fine {
                true => Ok(Identifier::Nqn(text.to_owned())),
                false => Err(refuse()),
            };
        }
        let begins = |kind: &str| {
            let start = text.get(..kind.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(kind))
        };
        if ["iqn.", "eui.", "naa."].into_iter().any(begins) {
            let name = names::normalised(text).ok_or_else(refuse)?;
            return Ok(Identifier::Initiator(name));
        }
        let origin = text.parse().map_err(|_| refuse())?;
        Ok(Identifier::Origin(origin))
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identifier::Initiator(name) | Identifier::Nqn(name) => f.write_str(name),
            Identifier::Origin(origin) => origin.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_in_their_usual_form() {
        for (text, usual) in [
            ("iqn.1994-05.com.redhat:DB1", "iqn.1994-05.com.redhat:db1"),
            ("IQN.1994-05.com.redhat:db1", "iqn.1994-05.com.redhat:db1"),
            (
                "nqn.2014-08.org.nvmexpress:uuid:A",
                "nqn.2014-08.org.nvmexpress:uuid:A",
            ),
            ("10.1.2.3", "10.1.2.3/32"),
            ("10.1.0.0/16", "10.1.0.0/16"),
            ("cert:DB1.example.org", "cert:db1.example.org"),
            ("local", "local"),
        ] {
            let identifier: Identifier = text.parse().expect(text);
            assert_eq!(identifier.to_string(), usual);
            assert_eq!(usual.parse(), Ok(identifier));
        }
    }

    #[test]
    fn other_texts_are_refused_with_what_is_possible() {
        let long = format!("nqn.{}", "a".repeat(NQN_BYTES_MAX));
        for text in [
            "",
            "db1",
            "10.1.2.3/33",
            "cert:",
            "nqn. x",
            "iqn.a b",
            &long,
        ] {
            let refused = text.parse::<Identifier>().expect_err(text).to_string();
            assert!(refused.contains("expected an IQN"), "{refused}");
        }
    }

    #[test]
    fn a_connection_has_the_signs_that_it_has() {
        let caller = Caller {
            address: "10.1.2.3".parse().ok(),
            host: Some("iqn.a:b".to_owned()),
            ..Caller::default()
        };
        caller.names.set(vec!["db1".to_owned()]).expect("unset");
        for (text, fits) in [
            ("iqn.a:b", true),
            ("IQN.A:B", true),
            ("iqn.a:c", false),
            ("10.1.0.0/16", true),
            ("10.2.0.0/16", false),
            ("cert:db1", true),
            ("cert:db2", false),
            ("local", false),
        ] {
            let identifier: Identifier = text.parse().expect(text);
            assert_eq!(identifier.fits(&caller), fits, "{text}");
        }
        let nobody = Caller::default();
        assert!(Identifier::from_str("local").expect("fine").fits(&nobody));
        assert!(!Identifier::from_str("nqn.x").expect("fine").fits(&nobody));
    }
}
