//! Who may call over a protocol, and how: encryption, allow-lists, idle connections. Keys of the
//! protocol's table in the file only, because none of this changes from one start to the next.
//!
//! ```toml
//! [nbd]
//! tls = "required"                    # off, offered, required; never over the Unix socket
//! tls_certificates = "/etc/everglade/tls"   # server-cert.pem, server-key.pem, ca-cert.pem
//! tls_clients = "certified"           # anyone, certified: by ca-cert.pem
//! idle_timeout = "10m"                # never, if not given
//!
//! [nbd.allow]                         # who may use what; an export that no line names is for all
//! "vol0/*" = ["10.1.0.0/16", "local"] # local: the Unix socket
//! "vol0/lun7" = "10.1.2.3"            # the longest pattern that fits decides (see `pattern`)
//! "vol0/lun8" = "cert:db.example.org" # who shows a certificate with this DNS name
//! ```

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use everglade_env::Nanos;
use everglade_target::sessions::Caller;

use super::ConfigError;
use super::pattern::{NotAPattern, Pattern};
use crate::Interval;

/// The settings of the file about callers; `None` and empty lists for settings that the file does
/// not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callers {
    /// Settings of TLS; `None` without TLS.
    pub tls: Option<Tls>,
    /// Folder of certificates.
    pub tls_certificates: Option<PathBuf>,
    /// The clients that may use TLS.
    pub tls_clients: Option<TlsClients>,
    /// Time after which an idle connection is closed.
    pub idle_timeout: Option<Interval>,
    /// The exports that each client may use.
    pub allow: Rules,
}

impl Callers {
    /// Returns the time after which an idle connection is closed, as sessions count time.
    #[must_use]
    pub fn idle_max(&self) -> Option<Nanos> {
        self.idle_timeout.map(|time| {
            let nanos = time.duration().as_nanos();
            Nanos::try_from(nanos).unwrap_or(Nanos::MAX)
        })
    }
}

/// Whether connections over TCP are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Never.
    Off,
    /// Connections are encrypted if the client requests it.
    Offered,
    /// Always.
    Required,
}

/// The clients that may connect with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsClients {
    /// Clients need no certificate.
    Anyone,
    /// Clients need a certificate of our authority.
    Certified,
}

/// Lines of an allow-list, `[nbd.allow]` for example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    pattern: Pattern,
    origins: Vec<Origin>,
}

/// The origin of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The Unix socket.
    Local,
    /// A network: an address, and the number of leading bits that must match.
    Network(IpAddr, u8),
    /// Clients from any address that have a certificate of our authority with this DNS name.
    Certificate(String),
}

impl Callers {
    /// Returns the settings of `self`, and those of `lower` where `self` has none.
    #[must_use]
    pub(super) fn over(self, lower: Callers) -> Callers {
        let allow = if self.allow.0.is_empty() {
            lower.allow
        } else {
            self.allow
        };
        Callers {
            tls: self.tls.or(lower.tls),
            tls_certificates: self.tls_certificates.or(lower.tls_certificates),
            tls_clients: self.tls_clients.or(lower.tls_clients),
            idle_timeout: self.idle_timeout.or(lower.idle_timeout),
            allow,
        }
    }

    /// Checks settings that only make sense together. `table`: that of the protocol in the file.
    pub(super) fn check(&self, table: &str) -> Result<(), ConfigError> {
        let is_on = !matches!(self.tls, None | Some(Tls::Off));
        let contradiction = |key: &str, found: &str, expected: &str| {
            Err(ConfigError::OutOfRange {
                key: format!("{table}.{key}").into(),
                found: found.to_owned(),
                expected: expected.to_owned(),
            })
        };
        if is_on && self.tls_certificates.is_none() {
            let expected = "the folder of server-cert.pem and server-key.pem";
            return contradiction("tls_certificates", "not given", expected);
        }
        if !is_on && self.tls_clients == Some(TlsClients::Certified) {
            let expected = format!("anyone, since {table}.tls is off");
            return contradiction("tls_clients", "certified", &expected);
        }
        let origins = self.allow.0.iter().flat_map(|rule| &rule.origins);
        let is_named = |origin: &Origin| matches!(origin, Origin::Certificate(_));
        if self.tls_clients != Some(TlsClients::Certified) && origins.into_iter().any(is_named) {
            let expected = format!("certified, since {table}.allow names certificates");
            return contradiction("tls_clients", "anyone", &expected);
        }
        if self
            .idle_timeout
            .is_some_and(|time| time < Interval::seconds(1))
        {
            return contradiction("idle_timeout", "below a second", "at least 1s");
        }
        Ok(())
    }
}

impl Rules {
    /// Returns whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a line.
    ///
    /// # Errors
    /// The reason why `pattern` is no pattern.
    pub fn add(&mut self, pattern: &str, origins: Vec<Origin>) -> Result<(), String> {
        let pattern: Pattern = pattern
            .parse()
            .map_err(|error: NotAPattern| error.to_string())?;
        if self.0.iter().any(|rule| rule.pattern == pattern) {
            return Err(format!("'{pattern}' is there twice; keep one of the lines"));
        }
        self.0.push(Rule { pattern, origins });
        Ok(())
    }

    /// Returns the patterns of the rules.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.0.iter().map(|rule| &rule.pattern)
    }
}

impl Rules {
    /// Returns the rule that decides about an export.
    fn rule_for(&self, export: &str) -> Option<&Rule> {
        let fitting = self.0.iter().filter(|rule| rule.pattern.fits(export));
        fitting.max_by_key(|rule| rule.pattern.rank())
    }

    /// Returns whether other clients could use a restricted export under another name.
    #[must_use]
    pub fn opens(&self, export: &str, other: &str) -> bool {
        self.rule_for(export).is_some_and(|rule| {
            let new = self.rule_for(other);
            new.is_none_or(|new| new.origins != rule.origins)
        })
    }
}

impl Rules {
    /// Returns whether the line about an export admits a client; `None` if there is no line.
    #[must_use]
    pub fn admits(&self, export: &str, caller: &Caller) -> Option<bool> {
        let rule = self.rule_for(export)?;
        let names = caller.names.get().map_or(&[][..], Vec::as_slice);
        let is_from = |origin: &Origin| origin.contains(caller.address, names);
        Some(rule.origins.iter().any(is_from))
    }
}

impl Origin {
    /// Returns whether a client at this address (`None` for the Unix socket), with these names in
    /// its certificate, is one of these.
    #[must_use]
    pub fn contains(&self, address: Option<IpAddr>, names: &[String]) -> bool {
        match (self, address.map(|address| address.to_canonical())) {
            (Origin::Local, None) => true,
            (Origin::Certificate(name), _) => names.contains(name),
            (Origin::Network(network, bits), Some(address)) => {
                let bits = *bits;
                let (network, address) = (words(*network), words(address));
                match (network, address) {
                    ((a, 32), (b, 32)) => same_bits(a, b, 32, bits),
                    ((a, 128), (b, 128)) => same_bits(a, b, 128, bits),
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

/// Returns an address as a number, with its length in bits.
fn words(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn same_bits(a: u128, b: u128, width: u8, bits: u8) -> bool {
    let shift = u32::from(width - bits);
    a.checked_shr(shift).unwrap_or(0) == b.checked_shr(shift).unwrap_or(0)
}

/// The reasons why a text is no origin of callers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not where callers come from; expected an address, a network such as 10.1.0.0/16, \
    cert:NAME, or local"
)]
pub struct NotAnOrigin(String);

impl FromStr for Origin {
    type Err = NotAnOrigin;

    fn from_str(text: &str) -> Result<Origin, NotAnOrigin> {
        let refuse = || NotAnOrigin(text.to_owned());
        if text == "local" {
            return Ok(Origin::Local);
        }
        if let Some(name) = text.strip_prefix("cert:") {
            let is_fine = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            if name.is_empty() || name.len() > 253 || !name.chars().all(is_fine) {
                return Err(refuse());
            }
            return Ok(Origin::Certificate(name.to_ascii_lowercase()));
        }
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let (_, width) = words(address);
        let bits = match bits {
            Some(bits) => bits.parse().map_err(|_| refuse())?,
            None => width,
        };
        if bits > width {
            return Err(refuse());
        }
        Ok(Origin::Network(address, bits))
    }
}

impl FromStr for Tls {
    type Err = String;

    fn from_str(text: &str) -> Result<Tls, String> {
        match text {
            "off" => Ok(Tls::Off),
            "offered" => Ok(Tls::Offered),
            "required" => Ok(Tls::Required),
            _ => Err(format!(
                "'{text}' is not a way to use TLS; expected off, offered or required"
            )),
        }
    }
}

impl FromStr for TlsClients {
    type Err = String;

    fn from_str(text: &str) -> Result<TlsClients, String> {
        match text {
            "anyone" => Ok(TlsClients::Anyone),
            "certified" => Ok(TlsClients::Certified),
            _ => Err(format!(
                "'{text}' does not say who may use TLS; expected anyone or certified"
            )),
        }
    }
}

/// Writes the rules as a TOML table.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |rule: &Rule| {
            let origins = rule.origins.iter();
            let origins: Vec<_> = origins.map(|origin| format!("\"{origin}\"")).collect();
            let pattern = toml::Value::String(rule.pattern.to_string());
            format!("{pattern} = [{}]", origins.join(", "))
        };
        let lines: Vec<String> = self.0.iter().map(line).collect();
        write!(f, "{{ {} }}", lines.join(", "))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Local => f.write_str("local"),
            Origin::Certificate(name) => write!(f, "cert:{name}"),
            Origin::Network(address, bits) => write!(f, "{address}/{bits}"),
        }
    }
}

impl fmt::Display for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tls::Off => "off",
            Tls::Offered => "offered",
            Tls::Required => "required",
        })
    }
}

impl fmt::Display for TlsClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsClients::Anyone => "anyone",
            TlsClients::Certified => "certified",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(lines: &[(&str, &[&str])]) -> Rules {
        let mut rules = Rules::default();
        for (pattern, origins) in lines {
            let origins = origins.iter().map(|text| text.parse().expect("an origin"));
            rules.add(pattern, origins.collect()).expect("a pattern");
        }
        rules
    }

    fn allows(rules: &Rules, export: &str, address: Option<IpAddr>, names: &[String]) -> bool {
        let caller = Caller {
            address,
            ..Caller::default()
        };
        caller.names.set(names.to_vec()).expect("unset");
        rules.admits(export, &caller).unwrap_or(true)
    }

    fn at(text: &str) -> Option<IpAddr> {
        (text != "local").then(|| text.parse().expect("an address"))
    }

    #[test]
    fn the_longest_pattern_that_fits_decides() {
        let rules = rules(&[
            ("*", &["local"]),
            ("v/*", &["10.1.0.0/16", "fd00::/8"]),
            ("v/l", &["10.1.2.3"]),
            ("v/none", &[]),
        ]);
        for (export, address, allowed) in [
            ("v/l", "10.1.2.3", true),
            ("v/l", "::ffff:10.1.2.3", true),
            ("v/l", "10.1.2.4", false),
            ("v/l", "local", false),
            ("v/m", "10.1.2.4", true),
            ("v/m", "10.2.2.4", false),
            ("v/m", "fd12::1", true),
            ("v/m", "fe12::1", false),
            ("w/l", "local", true),
            ("w/l", "10.1.2.3", false),
            ("v/none", "local", false),
        ] {
            assert_eq!(
                allows(&rules, export, at(address), &[]),
                allowed,
                "{export} {address}"
            );
        }
    }

    #[test]
    fn a_snapshot_of_a_lun_is_for_those_of_the_lun_unless_it_has_a_rule() {
        let rules = rules(&[
            ("v/l", &["10.1.2.3"]),
            ("v/l@nightly", &["10.9.9.9"]),
            ("v/m@*", &["10.9.9.9"]),
        ]);
        for (export, address, allowed) in [
            ("v/l@monday", "10.1.2.3", true),
            ("v/l@monday", "10.9.9.9", false),
            ("v/l@nightly", "10.9.9.9", true),
            ("v/l@nightly", "10.1.2.3", false),
            ("v/m@monday", "10.1.2.3", false),
            ("v/m@monday", "10.9.9.9", true),
            ("v/m", "10.1.2.3", true),
            ("v/lx@monday", "10.9.9.9", true),
        ] {
            let found = allows(&rules, export, at(address), &[]);
            assert_eq!(found, allowed, "{export} {address}");
        }
    }

    #[test]
    fn another_name_with_other_callers_opens_an_export() {
        let rules = rules(&[
            ("v/l", &["10.1.2.3"]),
            ("v/same", &["10.1.2.3"]),
            ("w/*", &["10.1.0.0/16"]),
        ]);
        for (export, other, opens) in [
            ("v/l", "v/free", true),
            ("v/l", "w/l", true),
            ("v/l", "v/same", false),
            ("v/l@s", "v/free@s", true),
            ("w/l", "w/m", false),
            ("w/l", "v/m", true),
            ("v/free", "v/l", false),
            ("v/free", "u/free", false),
        ] {
            assert_eq!(rules.opens(export, other), opens, "{export} {other}");
        }
    }

    #[test]
    fn an_export_that_no_rule_names_is_for_others_to_decide() {
        let rules = rules(&[("v/l", &["10.0.0.0/0"])]);
        assert_eq!(rules.admits("v/m", &Caller::default()), None);
        assert!(allows(&rules, "v/l", at("192.168.0.1"), &[]));
        assert!(!allows(&rules, "v/l", at("::1"), &[]));
    }

    #[test]
    fn senseless_rules_are_refused() {
        for text in [
            "",
            "localhost",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/x",
        ] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
        let mut rules = rules(&[("v/l", &[])]);
        let error = rules.add("v/l", Vec::new()).expect_err("twice");
        assert!(error.contains("twice"), "{error}");
        let error = rules.add("v/l/", Vec::new()).expect_err("malformed");
        assert!(error.contains("'l/' is not the name of a LUN"), "{error}");
    }

    #[test]
    fn a_certificate_is_known_by_its_name() {
        let mut rules = Rules::default();
        let origin: Origin = "cert:DB1.example.org".parse().expect("a name");
        assert_eq!(origin.to_string(), "cert:db1.example.org");
        rules.add("v/*", vec![origin]).expect("a pattern");
        let name = |name: &str| vec![name.to_owned()];
        let somewhere = "10.1.2.3".parse().ok();
        assert!(allows(&rules, "v/l", somewhere, &name("db1.example.org")));
        assert!(!allows(&rules, "v/l", somewhere, &name("db2.example.org")));
        assert!(!allows(&rules, "v/l", somewhere, &[]));
        assert!(
            !allows(&rules, "v/l", None, &[]),
            "the Unix socket has no names"
        );
        for bad in ["cert:", "cert:a b", "cert:*", "certs:a"] {
            assert!(bad.parse::<Origin>().is_err(), "{bad}");
        }
        let callers = Callers {
            tls: Some(Tls::Required),
            tls_certificates: Some("/tls".into()),
            allow: rules,
            ..Callers::default()
        };
        let error = callers
            .check("nbd")
            .expect_err("names that nobody verifies");
        assert!(error.to_string().contains("nbd.tls_clients"), "{error}");
        let callers = Callers {
            tls_clients: Some(TlsClients::Certified),
            ..callers
        };
        assert!(callers.check("nbd").is_ok());
    }
}
