//! Footprints: the blocks of the media that a run read, and their contents.
//!
//! A run from given media under a given seed is a function of the blocks it reads before it writes
//! them. Media that agree on those blocks lead to the same run, however much they differ elsewhere.
//! The variants of a power failure make thousands of media that differ only in blocks that no run
//! reads; footprints make these variants affordable.

use std::collections::BTreeSet;

use everglade_env::PageRef;

use super::cut::Images;
use super::device::DeviceSpec;

/// The devices of a world: what each is, whether it is joining, and whether it was taken away.
pub(super) type Shape = Vec<(DeviceSpec, bool, bool)>;

/// The blocks that a run read of its initial media.
#[derive(Clone)]
pub struct Footprint {
    shape: Shape,
    /// Device, block, content, in order of reading.
    reads: Vec<(usize, u64, PageRef)>,
}

impl Footprint {
    /// True if `images` have the same devices, and a run from them reads the same.
    #[must_use]
    pub fn fits(&self, images: &Images) -> bool {
        let devices = images.devices.iter();
        let shape = devices.map(|it| (it.spec, it.is_joining, it.is_away));
        if !shape.eq(self.shape.iter().copied()) {
            return false;
        }
        self.reads.iter().all(|(device, block, page)| {
            let medium = &images.devices[*device];
            let there = medium.image.read(*block);
            let same = PageRef::same_memory(&there, page) || there[..] == page[..];
            same && !medium.bad.contains(block)
        })
    }
}

/// Takes a footprint while a world runs.
pub(super) struct Tracker {
    footprint: Footprint,
    known: BTreeSet<(usize, u64)>,
}

impl Tracker {
    pub(super) fn new(shape: Shape) -> Tracker {
        let footprint = Footprint {
            shape,
            reads: Vec::new(),
        };
        Tracker {
            footprint,
            known: BTreeSet::new(),
        }
    }

    /// `block` is read and holds `page`.
    pub(super) fn read(&mut self, device: usize, block: u64, page: PageRef) {
        if self.known.insert((device, block)) {
            self.footprint.reads.push((device, block, page));
        }
    }

    /// Records that `block` is changed; its later content is the run's own.
    pub(super) fn written(&mut self, device: usize, block: u64) {
        self.known.insert((device, block));
    }

    pub(super) fn take(self) -> Footprint {
        self.footprint
    }
}
