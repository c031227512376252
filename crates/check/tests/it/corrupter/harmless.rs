//! Changes that are no damage, for the corrupter's own sake: were sealing wrong, these would be
//! convicted.

use everglade_check::Kind;
use everglade_format::{Layer, Pvbn};
use everglade_testing::Rng;

use super::Damage;
use super::atlas::Atlas;
use super::seal::change_pointer;

/// Another content of some block of a LUN. Twice the same is nothing.
pub(crate) fn repaint(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let leaf = atlas.leaf(rng)?;
    let spot = atlas.fs(Some(leaf.volume)).spot(leaf.file, 0, leaf.fbn);
    let repaint = Damage::new(Kind::TagMismatch, []);
    Some(repaint.spoil(spot, |block| {
        block.iter_mut().for_each(|byte| *byte ^= 0xff)
    }))
}

/// A cached pvbn that is out of date.
pub(crate) fn mislead(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let leaf = atlas.leaf(rng)?;
    let (spot, slot) = leaf.parent();
    let mislead = Damage::new(Kind::TagMismatch, []);
    Some(mislead.spoil(spot, move |block| {
        change_pointer(block, slot, Layer::Volume, |pointer| {
            pointer.pvbn = Pvbn(pointer.pvbn.0 ^ 1 | 2);
        });
    }))
}
