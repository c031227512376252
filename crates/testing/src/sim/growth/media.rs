//! What media say of a growth, read with nothing of the engine.

use std::collections::BTreeSet;
use std::ops::Range;

use everglade_env::BLOCK_SIZE;
use everglade_format::journal::Header;
use everglade_format::label::{SUPERBLOCK_OFFSETS, label_offsets};
use everglade_format::{Superblock, TagKey};

use crate::engine::EngineMaker;
use crate::system::Maker;
use crate::world::Images;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// True if a device has a superblock at any of the four places at its ends.
pub(super) fn has_superblock(maker: &EngineMaker, images: &Images, device: usize) -> bool {
    let plan = maker.plan();
    let key = TagKey::new(&plan.secret);
    let labels = label_offsets(images.spec(device).size_bytes);
    let mut places = labels
        .into_iter()
        .flat_map(|label| SUPERBLOCK_OFFSETS.map(|slot| (label + slot) / BLOCK));
    places.any(|place| {
        let block = images.image(device).read(place);
        matches!(Superblock::decode(&block, &key, &plan.uuid), Ok(Some(_)))
    })
}

/// Epochs of the journal's records that have operations of these sequence numbers.
pub(super) fn epochs_of_records(
    maker: &EngineMaker,
    images: &Images,
    sequences: &Range<u64>,
) -> BTreeSet<u64> {
    let plan = maker.plan();
    let key = TagKey::new(&plan.secret);
    let journal = maker.promises().journal_blocks;
    let headers = journal.filter_map(|place| {
        let block = images.image(0).get(place)?;
        let (header, _) = Header::decode(block, &key).ok().flatten()?;
        (header.uuid == plan.uuid).then_some(header)
    });
    let wanted = headers.filter(|header| sequences.contains(&header.first_sequence));
    wanted.map(|header| header.epoch).collect()
}
