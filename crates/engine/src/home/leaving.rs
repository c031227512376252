//! Overlays and journal entries of published consistency points: their pages are freed a few at a
//! time.
//!
//! Freeing sixty thousand pages, each with a cache line of its own, takes some milliseconds.
//! Freeing all of them at once would stop the home reactor for that time, inside the Aggregate
//! affinity it would also stop all clients, and it would delay the next consistency point.

use std::collections::{VecDeque, btree_map};
use std::sync::Arc;

use everglade_journal::Entry;

use crate::pool::overlay::{Overlay, Region, RegionId};

/// Entries freed in one step, about.
const STEP_ENTRIES: usize = 512;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Leaving {
    overlays: VecDeque<Arc<Overlay>>,
    regions: Option<btree_map::IntoIter<RegionId, Region>>,
    entries: VecDeque<Entry>,
}

impl Leaving {
    /// Takes an overlay that no stripe has any more.
    pub(crate) fn add(&mut self, overlay: Arc<Overlay>) {
        self.overlays.push_back(overlay);
    }

    /// Takes operations that left the journal's queue.
    pub(crate) fn add_entries(&mut self, mut entries: VecDeque<Entry>) {
        if self.entries.is_empty() {
            self.entries = entries;
        } else {
            self.entries.append(&mut entries);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.overlays.is_empty() && self.regions.is_none() && self.entries.is_empty()
    }

    /// Frees some entries.
    pub(crate) fn step(&mut self) {
        let mut left = STEP_ENTRIES;
        // First, so that the overlays' pages have one holder less, and are free when they go.
        while left > 0
            && let Some(entry) = self.entries.pop_front()
        {
            left = left.saturating_sub(usize::try_from(entry.blocks()).unwrap_or(left).max(1));
        }
        if self.entries.is_empty() {
            self.entries = VecDeque::new();
        }
        while left > 0 {
            let Some(regions) = &mut self.regions else {
                let Some(overlay) = self.overlays.pop_front() else {
                    return;
                };
                // An overlay that is still being read is freed by its last reader.
                let own = Arc::try_unwrap(overlay).ok();
                self.regions = own.map(|overlay| overlay.regions.into_iter());
                continue;
            };
            match regions.next() {
                Some((_, region)) => left = left.saturating_sub(region.entries().len().max(1)),
                None => self.regions = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everglade_env::Page;
    use everglade_format::FileId;
    use everglade_journal::Action;

    use crate::pool::overlay::Change;

    #[test]
    fn pages_are_let_go_a_few_at_a_time() {
        let page = Page::zeroed().freeze();
        let mut overlay = Overlay::default();
        for region in 0..20 {
            for slot in 0..100 {
                overlay.insert(FileId(16), region * 255 + slot, Change::Data(page.clone()));
            }
        }
        let mut leaving = Leaving::default();
        leaving.add(Arc::new(overlay));
        leaving.add(Arc::new(Overlay::default()));
        let mut steps = 0;
        while !leaving.is_empty() {
            leaving.step();
            steps += 1;
        }
        assert!((3..=6).contains(&steps), "{steps}");
    }

    #[test]
    fn operations_are_let_go_a_few_at_a_time() {
        let page = Page::zeroed().freeze();
        let entry = |blocks: usize| Entry {
            volume: FileId(3),
            file: FileId(16),
            offset: 0,
            length: 4096,
            action: Action::Write {
                pages: vec![page.clone(); blocks],
            },
        };
        let mut leaving = Leaving::default();
        leaving.add_entries((0..1000).map(|_| entry(1)).collect());
        leaving.add_entries((0..10).map(|_| entry(256)).collect());
        let mut steps = 0;
        while !leaving.is_empty() {
            leaving.step();
            steps += 1;
        }
        assert!((6..=8).contains(&steps), "{steps}");
    }

    #[test]
    fn an_overlay_that_is_read_is_left_to_its_reader() {
        let overlay = Arc::new(Overlay::default());
        let mut leaving = Leaving::default();
        leaving.add(overlay.clone());
        leaving.step();
        assert!(leaving.is_empty());
        assert_eq!(Arc::strong_count(&overlay), 1);
    }
}
