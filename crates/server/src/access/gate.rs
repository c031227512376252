//! The table of mappings that sessions ask.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use everglade_env::lock::RwLock;
use everglade_target::sessions::{AllowList, Caller};

use super::Identifier;
use crate::config::Rules;

/// For each LUN that is mapped, what its hosts are known by; by the LUN's UUID.
pub type Table = HashMap<[u8; 16], Vec<Identifier>>;

/// The mappings of all pools, for all protocols.
#[derive(Default)]
pub struct Gate {
    table: RwLock<Arc<Table>>,
}

impl Gate {
    /// Makes one with these mappings.
    #[must_use]
    pub fn of(table: Table) -> Gate {
        Gate {
            table: RwLock::new(Arc::new(table)),
        }
    }

    /// Returns all mappings.
    #[must_use]
    pub fn table(&self) -> Table {
        Table::clone(&self.table.read())
    }

    /// Replaces all mappings.
    pub fn publish(&self, table: Table) {
        *self.table.write() = Arc::new(table);
    }

    /// Returns whether the mappings of a LUN admit a client; `None` if it has none.
    fn admits(&self, lun: &[u8; 16], caller: &Caller) -> Option<bool> {
        let table = Arc::clone(&self.table.read());
        let known = table.get(lun)?;
        Some(known.iter().any(|identifier| identifier.fits(caller)))
    }
}

/// Who may use what over one protocol: its allow-list, and the mappings.
pub struct Terms {
    /// The allow-list of the configuration.
    pub rules: Rules,
    /// The mappings.
    pub gate: Arc<Gate>,
}

impl AllowList for Terms {
    fn allows(&self, export: &str, lun: &[u8; 16], caller: &Caller) -> bool {
        let is_mapped = self.gate.admits(lun, caller);
        match self.rules.admits(export, caller) {
            Some(true) => true,
            Some(false) => is_mapped == Some(true),
            None => is_mapped.unwrap_or_else(|| is_here(caller.address)),
        }
    }
}

/// Returns whether a client is on this machine.
fn is_here(address: Option<IpAddr>) -> bool {
    address.is_none_or(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPPED: [u8; 16] = [1; 16];
    const OTHER: [u8; 16] = [2; 16];

    fn at(address: &str) -> Caller {
        Caller {
            address: address.parse().ok(),
            ..Caller::default()
        }
    }

    fn terms(lines: &[(&str, &str)]) -> Terms {
        let gate = Gate::default();
        let host = "10.0.0.1".parse().expect("an address");
        gate.publish(HashMap::from([(MAPPED, vec![host])]));
        let mut rules = Rules::default();
        for (pattern, origin) in lines {
            let origin = origin.parse().expect("an origin");
            rules.add(pattern, vec![origin]).expect("a pattern");
        }
        Terms {
            rules,
            gate: Arc::new(gate),
        }
    }

    /// Addresses of this machine, of the host that has the mapping, and of two strangers.
    const ALL: [&str; 4] = ["127.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3"];

    fn admitted(terms: &Terms, lun: &[u8; 16]) -> Vec<&'static str> {
        let is_in = |address: &&str| terms.allows("v/l", lun, &at(address));
        ALL.into_iter().filter(is_in).collect()
    }

    #[test]
    fn mappings_and_lines_add_up() {
        for (lines, mapped, other) in [
            (&[][..], vec!["10.0.0.1"], vec!["127.0.0.1"]),
            (&[("w/*", "10.0.0.2")], vec!["10.0.0.1"], vec!["127.0.0.1"]),
            (
                &[("v/*", "10.0.0.2")],
                vec!["10.0.0.1", "10.0.0.2"],
                vec!["10.0.0.2"],
            ),
        ] {
            let terms = terms(lines);
            assert_eq!(admitted(&terms, &MAPPED), mapped, "{lines:?}");
            assert_eq!(admitted(&terms, &OTHER), other, "{lines:?}");
        }
    }

    #[test]
    fn what_is_not_mapped_is_for_this_machine() {
        let terms = terms(&[]);
        for (address, is_in) in [
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("fe80::1", false),
            ("192.168.0.1", false),
        ] {
            assert_eq!(
                terms.allows("v/l", &OTHER, &at(address)),
                is_in,
                "{address}"
            );
        }
        assert!(
            terms.allows("v/l", &OTHER, &Caller::default()),
            "the socket"
        );
        assert!(!terms.allows("v/l", &MAPPED, &Caller::default()));
    }

    #[test]
    fn a_change_counts_at_once() {
        let terms = terms(&[]);
        terms.gate.publish(Table::new());
        assert_eq!(admitted(&terms, &MAPPED), ["127.0.0.1"]);
    }
}
