//! Requests of clients that were refused because there was no space, for administrators.
//!
//! A client sees ENOSPC, and often tells nobody. So each LUN counts its refused requests and keeps
//! where the last one began. The daemon reads the counts now and then, and tells what is new.

use std::collections::BTreeMap;

use everglade_env::lock::Mutex;

/// LUNs with a count of their own. A further LUN takes the place of the one that was refused
/// longest ago.
const LUNS_MAX: usize = 256;

/// Requests for a LUN that were refused for lack of space, since its aggregate was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedInfo {
    /// Number of requests.
    pub count: u64,
    /// First byte of the LUN that the last of them was for.
    pub offset: u64,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Refused(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// Each LUN, with the number of its last refusal.
    luns: BTreeMap<String, (u64, RefusedInfo)>,
    /// Number of refusals of all LUNs.
    total: u64,
}

impl Refused {
    /// A request for this LUN, from byte `offset` on, was refused.
    pub(crate) fn note(&self, lun: &str, offset: u64) {
        let mut counts = self.0.lock();
        let Counts { luns, total } = &mut *counts;
        *total += 1;
        if luns.len() >= LUNS_MAX && !luns.contains_key(lun) {
            let oldest = luns.iter().min_by_key(|(_, (last, _))| *last);
            let oldest = oldest.map(|(name, _)| name.clone()).expect("not empty");
            luns.remove(&oldest);
        }
        // A refusal is rare enough for a copy of the name.
        let (last, info) = luns.entry(lun.to_owned()).or_default();
        *last = *total;
        info.count += 1;
        info.offset = offset;
    }

    /// Returns the counts by LUN.
    pub(crate) fn info(&self) -> BTreeMap<String, RefusedInfo> {
        let counts = self.0.lock();
        let luns = counts.luns.iter();
        luns.map(|(lun, (_, info))| (lun.clone(), *info)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_for_each_lun_and_the_newest_luns_are_kept() {
        let refused = Refused::default();
        refused.note("v/a", 4096);
        refused.note("v/b", 0);
        refused.note("v/a", 8192);
        let info = refused.info();
        let (count, offset) = (2, 8192);
        assert_eq!(info["v/a"], RefusedInfo { count, offset });
        for number in 0..2 * LUNS_MAX {
            refused.note(&format!("w/{number}"), 0);
            refused.note("v/b", 0);
        }
        let info = refused.info();
        assert_eq!((info.len(), info.contains_key("v/a")), (LUNS_MAX, false));
        assert!(info["v/b"].count > 2 * LUNS_MAX as u64);
        assert!(info.contains_key(&format!("w/{}", 2 * LUNS_MAX - 1)));
    }
}
