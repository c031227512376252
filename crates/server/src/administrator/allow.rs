//! The allow-lists of protocols, as administrators meet them: by the key that they have in the
//! configuration.

use crate::config::Rules;
use crate::fronts::Protocol;

/// The allow-list of a protocol that has one.
pub(super) struct Allow {
    /// `nbd.allow`.
    pub(super) key: String,
    /// The protocol's title: `NBD`.
    pub(super) title: &'static str,
    pub(super) rules: Rules,
}

impl Allow {
    /// Returns the allow-lists that restrict something.
    pub(super) fn of(protocols: &[Box<dyn Protocol>]) -> Vec<Allow> {
        let each = protocols.iter().map(|protocol| Allow {
            key: format!("{}.allow", protocol.name()),
            title: protocol.title(),
            rules: protocol.callers().allow.clone(),
        });
        each.filter(|allow| !allow.rules.is_empty()).collect()
    }
}
