//! Reservations of LUNs are stored in their aggregates, and forgotten with their LUNs.

use std::collections::BTreeMap;
use std::sync::Arc;

use everglade_target::reservations::{Kept, LunUuid};

use super::administrator::Administrator;
use crate::plane::control::Control;

impl Administrator {
    /// Stores all changes that wait, and answers them.
    pub(crate) fn keep_reservations(&self) {
        let waiting = self.reservations.to_keep();
        if waiting.is_empty() {
            return;
        }
        let homes = self.homes_of_luns();
        let mut by_home: BTreeMap<Option<u32>, Vec<Kept>> = BTreeMap::new();
        for kept in waiting {
            let home = homes.get(&kept.uuid).copied();
            by_home.entry(home).or_default().push(kept);
        }
        for (home, all) in by_home {
            let states: Vec<_> = all.iter().map(|it| (it.uuid, it.bytes.clone())).collect();
            let outcome = match home {
                Some(home) => self.schedule().keep_reservations(home, &states),
                None => Err("the LUN is gone".to_owned()),
            };
            let outcome = outcome.map_err(Arc::<str>::from);
            all.into_iter().for_each(|kept| kept.end(outcome.clone()));
        }
        self.plane.nudge();
    }

    /// Forgets the reservations, mappings and limits of deleted LUNs.
    pub(super) fn forget_reservations(&self, luns: &[LunUuid]) {
        luns.iter().for_each(|uuid| self.reservations.remove(uuid));
        self.schedule().forget_reservations(luns);
        self.schedule().forget_mappings(luns);
        self.schedule().forget_limits(luns);
    }

    /// Returns the LUNs of a volume, or the only one of this name.
    pub(super) fn uuids(&self, volume: &str, lun: Option<&str>) -> Vec<LunUuid> {
        let exports = self.plane.ask(0, Control::Exports);
        let exports = exports.map(|answer| answer.exports()).unwrap_or_default();
        let wanted = exports.iter().filter(|export| {
            let (of, name) = export.name.split_once('/').unwrap_or_default();
            of == volume && lun.is_none_or(|lun| lun == name)
        });
        wanted.map(|export| export.uuid).collect()
    }

    /// Returns the aggregate of each LUN.
    fn homes_of_luns(&self) -> BTreeMap<LunUuid, u32> {
        let exports = self.plane.ask(0, Control::Exports);
        let exports = exports.map(|answer| answer.exports()).unwrap_or_default();
        let home = |name: &str| self.engine.home_of(name.split_once('/')?.0);
        let homes = exports.iter();
        let homes = homes.filter_map(|export| Some((export.uuid, home(&export.name)?)));
        homes.collect()
    }
}
