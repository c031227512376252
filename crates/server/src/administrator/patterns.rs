//! Patterns of allow-lists (`nbd.allow`) that match nothing. A mistyped name leaves a LUN open that
//! the line was to close, so the start and `status` report such a pattern.
//!
//! Snapshots count as well: a snapshot still exports a renamed or deleted LUN under its old name.
//! The LUNs of an aggregate that cannot be opened are not known, and the warning says so.

use everglade_api::{Code, Condition, Health};

use super::administrator::Administrator;
use crate::config::Pattern;

impl Administrator {
    /// Logs the patterns that [`Administrator::unmatched_patterns`] finds.
    pub(crate) fn warn_of_patterns(&self) {
        for condition in self.unmatched_patterns() {
            tracing::warn!(
                "{}: {}; {}",
                condition.object,
                condition.what,
                condition.action
            );
        }
    }

    /// Returns a condition for each pattern that matches no export.
    pub(super) fn unmatched_patterns(&self) -> Vec<Condition> {
        if self.allow.is_empty() {
            return Vec::new();
        }
        let luns = self.engine.luns();
        let is_about_a_lun =
            |pattern: &&Pattern| luns.iter().any(|lun| pattern.concerns(&lun.name));
        let patterns = self.allow.iter().flat_map(|allow| {
            let patterns = allow.rules.patterns();
            patterns.map(|pattern| (&allow.key, pattern))
        });
        let idle = patterns.filter(|(_, pattern)| {
            !pattern.is_everything() && !is_about_a_lun(pattern) && !self.fits_a_snapshot(pattern)
        });
        let closed: Vec<_> = self
            .unavailable()
            .iter()
            .map(|it| it.name.clone())
            .collect();
        let unless = match closed.as_slice() {
            [] => String::new(),
            closed => format!(
                ", unless it is in aggregate {}, which cannot be opened",
                closed.join(" or ")
            ),
        };
        let code = Code::PatternUnmatched;
        let condition = |(key, pattern): (&String, &Pattern)| Condition {
            code: code.to_string(),
            health: Health::Warning,
            object: format!("{key} \"{pattern}\""),
            what: format!("no LUN and no snapshot has a name that it fits{unless}"),
            action: "correct the name in the configuration and restart the daemon, or remove the \
                line; the clients of the line do not see the LUN that it was for"
                .to_owned(),
            page: code.page(),
        };
        idle.map(condition).collect()
    }

    /// Returns whether the pattern matches a LUN in a snapshot.
    fn fits_a_snapshot(&self, pattern: &Pattern) -> bool {
        let volumes = self.engine.volumes().into_iter();
        let mut volumes = volumes.filter(|volume| pattern.may_fit_in(&volume.name));
        volumes.any(|volume| {
            let snapshots = self.snapshots(&volume.name);
            let snapshots = snapshots.map_or_else(|_| Vec::new(), |known| known.snapshots);
            let mut exports = snapshots.iter().flat_map(|known| &known.nbd_exports);
            exports.any(|export| {
                let lun = export.split_once('@').map_or("", |(lun, _)| lun);
                pattern.fits(export) || pattern.concerns(lun)
            })
        })
    }
}
