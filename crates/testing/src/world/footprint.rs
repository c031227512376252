//! Footprints: which blocks of the media a run looked at, and what they held.
//!
//! A run from given media under a given seed is a function of the blocks it reads before it writes
//! them. Media that agree on those blocks lead to the same run, however much they differ elsewhere.
//! Trying every way for the power to fail makes thousands of media that differ in blocks nobody
//! looks at; this is what makes that affordable.

use std::collections::BTreeSet;

use everglade_env::PageRef;

use super::cut::Images;

/// What a run read of the media it began with.
#[derive(Clone, Default)]
pub struct Footprint {
    /// Device, block, content, in order of reading.
    reads: Vec<(usize, u64, PageRef)>,
}

impl Footprint {
    /// True if a run from `images` reads the same.
    #[must_use]
    pub fn fits(&self, images: &Images) -> bool {
        self.reads.iter().all(|(device, block, page)| {
            let medium = &images.devices[*device];
            let there = medium.image.read(*block);
            let same = PageRef::same_memory(&there, page) || there[..] == page[..];
            same && !medium.bad.contains(block)
        })
    }
}

/// Takes a footprint while a world runs.
#[derive(Default)]
pub(super) struct Tracker {
    footprint: Footprint,
    known: BTreeSet<(usize, u64)>,
}

impl Tracker {
    /// `block` is read and holds `page`.
    pub(super) fn read(&mut self, device: usize, block: u64, page: PageRef) {
        if self.known.insert((device, block)) {
            self.footprint.reads.push((device, block, page));
        }
    }

    /// `block` is changed; what it holds from now on is the run's own doing.
    pub(super) fn written(&mut self, device: usize, block: u64) {
        self.known.insert((device, block));
    }

    pub(super) fn take(self) -> Footprint {
        self.footprint
    }
}
