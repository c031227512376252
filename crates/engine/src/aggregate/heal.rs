//! Healing: before a superblock is written, every copy of the one before it holds it.
//!
//! A cut between the writes of one commit leaves members one consistency point apart. The next commit goes
//! to the other slot; were that cut as well, members could be two apart, and so on, and nobody could tell
//! them from devices that missed consistency points. Only copies that differ are written, so a cut while
//! healing leaves the copies that made it the newest.
//!
//! found by [`Healing::find`] when the aggregate is opened --> written with the blocks of its first
//! consistency point, flushed with them, and so before that one's superblock
//!
//! Not when it is opened: it may yet turn out that it cannot be mounted, and then nothing is written.

use everglade_env::{BLOCK_SIZE, DeviceId, Op, Page, Storage};
use everglade_format::label::{SUPERBLOCK_OFFSETS, label_offsets, superblock_slot};
use everglade_format::{Block, Config, Superblock, TagKey};

use crate::cp::writer::Writer;

/// Copies of a superblock that are not as they should be.
#[derive(Default)]
pub(crate) struct Healing {
    places: Vec<(DeviceId, u64)>,
    block: Option<Box<Block>>,
}

impl Healing {
    /// Looks at every copy. One that cannot be read may be readable once it is written.
    pub(crate) fn find(
        storage: &dyn Storage,
        config: &Config,
        devices: &[DeviceId],
        superblock: &Superblock,
    ) -> Healing {
        let block = Box::new(superblock.encode(&TagKey::new(&config.secret)));
        let slot = SUPERBLOCK_OFFSETS[superblock_slot(superblock.cp)];
        let mut places = Vec::new();
        for (member, device) in config.members.iter().zip(devices) {
            for label in label_offsets(member.size_blocks * BLOCK_SIZE as u64) {
                let mut found = [0; BLOCK_SIZE];
                let read = storage.read(*device, label + slot, &mut found);
                if read.is_err() || found != *block {
                    places.push((*device, label + slot));
                }
            }
        }
        let block = (!places.is_empty()).then_some(block);
        Healing { places, block }
    }

    /// Submits the writes; once.
    pub(crate) fn submit(&mut self, writer: &mut Writer) {
        let Some(block) = self.block.take() else {
            return;
        };
        let page = Page::copy_of(&block).freeze();
        for (device, offset) in self.places.drain(..) {
            writer.submit(Op::Write {
                device,
                offset,
                pages: vec![page.clone()],
                durable: true,
            });
        }
    }
}
