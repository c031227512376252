//! Healing: what an interrupted commit left in the superblock slots is put in order before anything
//! new is written.
//!
//! 1. *Copies that lag.* A cut between the writes of one commit leaves members one consistency
//!    point apart. The next commit goes to the other slot; were that cut as well, members could be
//!    two apart, and so on, and nobody could tell them from devices that missed consistency points.
//!    So every copy of the newest superblock's slot gets it.
//! 2. *Torn copies in the other slot.* A torn copy of consistency point n lacks some sectors. If n
//!    is then done again and its write is torn too, the sectors may complete each other to the
//!    *first* n: valid, and pointing at blocks that were used again since. So a copy that is no
//!    superblock is blanked. Should that be torn and complete the first n, it is still whole:
//!    nothing has been written since.
//!
//! found by [`Healing::find`] when the aggregate is opened --> written and waited for at the
//! beginning of its first consistency point, before any block of it
//!
//! Not when it is opened: it may yet turn out that it cannot be mounted, and then nothing is
//! written. Only copies that differ are written, so a cut while healing leaves the copies that made
//! the newest one.

use everglade_env::{BLOCK_SIZE, DeviceId, Op, Page, PageRef, Storage};
use everglade_format::label::{SUPERBLOCK_OFFSETS, label_offsets, superblock_slot};
use everglade_format::{Config, Superblock, TagKey};

use crate::media::writer::Writer;

/// Copies of superblocks that are not as they should be, and what they should be.
#[derive(Default)]
pub(crate) struct Healing {
    places: Vec<(DeviceId, u64, PageRef)>,
}

impl Healing {
    /// Looks at every copy. One that cannot be read may be readable once it is written.
    pub(crate) fn find(
        storage: &dyn Storage,
        config: &Config,
        devices: &[DeviceId],
        superblock: &Superblock,
    ) -> Healing {
        let key = TagKey::new(&config.secret);
        let newest = Page::copy_of(&superblock.encode(&key)).freeze();
        let own = superblock_slot(superblock.cp);
        let mut places = Vec::new();
        for (member, device) in config.members.iter().zip(devices) {
            for label in label_offsets(member.size_blocks * BLOCK_SIZE as u64) {
                for (slot, offset) in SUPERBLOCK_OFFSETS.into_iter().enumerate() {
                    let mut found = [0; BLOCK_SIZE];
                    let read = storage.read(*device, label + offset, &mut found);
                    let (is_good, wanted) = if slot == own {
                        (found == *newest, newest.clone())
                    } else {
                        let decoded = Superblock::decode(&found, &key, &config.uuid);
                        (decoded.is_ok(), PageRef::zero())
                    };
                    if read.is_err() || !is_good {
                        places.push((*device, label + offset, wanted));
                    }
                }
            }
        }
        Healing { places }
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
