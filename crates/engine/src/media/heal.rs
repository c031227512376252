//! Healing: before anything new is written, superblock slots that an interrupted commit left
//! inconsistent are rewritten.
//!
//! 1. *Copies that lag.* A cut between the writes of one commit leaves members one consistency
//!    point apart. The next commit goes to the other slot. If power failed in that commit as well,
//!    members could be two consistency points apart, and so on; then they could not be told from
//!    devices that missed consistency points. So every copy of the newest superblock's slot gets
//!    the newest superblock.
//! 2. *Torn copies in the other slot.* A torn copy of consistency point n lacks some sectors. If a
//!    second attempt at n is torn, too, its sectors may complete those of the *first* attempt: the
//!    copy is then valid, but points at blocks that were reused. So a copy that is no valid
//!    superblock is overwritten with zeroes. If that write is torn and completes the first attempt,
//!    the first attempt is still whole, because nothing was written after it.
//!
//! found by [`Healing::find`] when the aggregate is opened --> written and waited for at the
//! beginning of its first consistency point, before any block of it
//!
//! That consistency point does not wait for a change: the cut may have left one copy of the newest
//! superblock, and what clients see should not depend on a single block. With a journal, clients
//! are admitted after it; without one, it begins when they are.
//!
//! Healing does not happen when the aggregate is opened: if the aggregate cannot be mounted,
//! nothing may be written. Only copies that differ are written, so a power cut while healing leaves
//! the good copies of the newest superblock.

use everglade_env::{BLOCK_SIZE, DeviceId, Op, Page, PageRef, Storage};
use everglade_format::label::{SUPERBLOCK_OFFSETS, label_offsets, superblock_slot};
use everglade_format::{Superblock, TagKey};

use crate::media::Layout;
use crate::media::writer::Writer;

/// Wrong copies of superblocks, and their right contents.
#[derive(Default)]
pub(crate) struct Healing {
    places: Vec<(DeviceId, u64, PageRef)>,
}

impl Healing {
    /// Looks at every copy. A copy that cannot be read may become readable when it is written.
    pub(crate) fn find(storage: &dyn Storage, layout: &Layout, superblock: &Superblock) -> Healing {
        let config = &layout.config;
        let key = TagKey::new(&config.secret);
        let newest = Page::copy_of(&superblock.encode(&key)).freeze();
        let own = superblock_slot(superblock.cp);
        let mut places = Vec::new();
        for (_, member, device) in layout.members() {
            for label in label_offsets(member.size_blocks * BLOCK_SIZE as u64) {
                for (slot, offset) in SUPERBLOCK_OFFSETS.into_iter().enumerate() {
                    let mut found = [0; BLOCK_SIZE];
                    let read = storage.read(device, label + offset, &mut found);
                    let (is_good, wanted) = if slot == own {
                        (found == *newest, newest.clone())
                    } else {
                        let decoded = Superblock::decode(&found, &key, &config.uuid);
                        (decoded.is_ok(), PageRef::zero())
                    };
                    if read.is_err() || !is_good {
                        places.push((device, label + offset, wanted));
                    }
                }
            }
        }
        Healing { places }
    }

    /// True if a copy is wrong.
    pub(crate) fn is_needed(&self) -> bool {
        !self.places.is_empty()
    }

    /// Submits the writes; once.
    pub(crate) fn submit(&mut self, writer: &mut Writer) {
        for (device, offset, page) in self.places.drain(..) {
            writer.submit(Op::Write {
                device,
                offset,
                pages: vec![page],
                durable: true,
            });
        }
    }
}
