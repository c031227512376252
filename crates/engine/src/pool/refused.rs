//! Requests of clients that were refused because there was no space, for administrators.
//!
//! A client sees ENOSPC, and often tells nobody. So each LUN counts its refused requests and keeps
//! where the last one began. The daemon reads the counts now and then, and tells what is new.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use everglade_env::lock::Mutex;

/// LUNs with a count of their own. Refusals of others are not told; a full pool is an alert anyway.
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
pub(crate) struct Refused(Mutex<BTreeMap<String, RefusedInfo>>);

impl Refused {
    /// A request for this LUN, from byte `offset` on, was refused.
    pub(crate) fn note(&self, lun: &str, offset: u64) {
        let mut luns = self.0.lock();
        // A refusal is rare enough for a copy of the name.
        let is_full = luns.len() >= LUNS_MAX;
        let info = match luns.entry(lun.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if is_full => return,
            Entry::Vacant(place) => place.insert(RefusedInfo::default()),
        };
        info.count += 1;
        info.offset = offset;
    }

    /// Returns the counts by LUN.
    pub(crate) fn info(&self) -> BTreeMap<String, RefusedInfo> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_for_each_lun_and_luns_have_a_bound() {
        let refused = Refused::default();
        refused.note("v/a", 4096);
        refused.note("v/b", 0);
        refused.note("v/a", 8192);
        let info = refused.info();
        let (count, offset) = (2, 8192);
        assert_eq!(info["v/a"], RefusedInfo { count, offset });
        for number in 0..2 * LUNS_MAX {
            refused.note(&format!("w/{number}"), 0);
        }
        refused.note("v/a", 0);
        let info = refused.info();
        assert_eq!((info.len(), info["v/a"].count), (LUNS_MAX, 3));
    }
}
