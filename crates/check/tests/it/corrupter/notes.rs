//! Notes that a disk damaged, or that a bug made: for the engine, which is to serve everything
//! else.

use everglade_check::Kind;
use everglade_format::metafile::NOTES;
use everglade_format::notes::encode_into;
use everglade_format::{BLOCK_SIZE, Block, IndirectMut, Inode, Layer, Pointer, Pvbn};
use everglade_testing::Rng;

use super::Damage;
use super::atlas::Atlas;
use super::blocks::{fail, flip};
use super::seal::{change_inode, change_pointer};

/// The expected effect on the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A text that says something else; the next one replaces it.
    Text,
    /// The text is unreadable, with a reason; the next text replaces it.
    Unreadable,
    /// The text is unreadable and cannot be replaced.
    Stuck,
    /// Either of the first two.
    Replaceable,
    /// Any of these; or the aggregate is not served, because the inode cannot be.
    Inode,
}

/// A way to damage notes: its name, what the engine is to make of it, and how.
pub(crate) type Way = (&'static str, Effect, fn(&Atlas, &mut Rng) -> Damage);

/// All ways of damage, for images whose notes have two blocks.
pub(crate) const WAYS: &[Way] = &[
    ("flipped", Effect::Unreadable, |atlas, rng| {
        let victim = pvbn_of(atlas, 0, rng.below(2));
        nothing().after(flip(atlas, victim, rng))
    }),
    ("unreadable", Effect::Unreadable, |atlas, rng| {
        nothing().after(fail(atlas, pvbn_of(atlas, 0, rng.below(2))))
    }),
    (
        "an-older-one-in-its-place",
        Effect::Unreadable,
        |atlas, _| {
            let victim = pvbn_of(atlas, 0, 0);
            let (device, offset) = atlas.locate(victim);
            let mut older = *atlas.content(victim);
            encode_into(&mut older, b"an older text");
            nothing().after(move |world| {
                let storage = world.storage();
                storage.write(device, offset, &older).expect("no faults");
            })
        },
    ),
    ("indirect-flipped", Effect::Stuck, |atlas, rng| {
        nothing().after(flip(atlas, pvbn_of(atlas, 1, 0), rng))
    }),
    ("indirect-unreadable", Effect::Stuck, |atlas, _| {
        nothing().after(fail(atlas, pvbn_of(atlas, 1, 0)))
    }),
    ("another-text-sealed", Effect::Text, |_, _| {
        leaf(|block| encode_into(block, b"not what it was"))
    }),
    ("bytes-of-the-text-sealed", Effect::Text, |_, rng| {
        let garbage = garbage(rng);
        leaf(move |block| block[24..].copy_from_slice(&garbage[24..]))
    }),
    ("garbage-sealed", Effect::Unreadable, |_, rng| {
        let garbage = garbage(rng);
        leaf(move |block| *block = *garbage)
    }),
    ("count-sealed", Effect::Unreadable, |_, rng| {
        let count = u32::try_from(rng.between(4073, u64::from(u32::MAX))).expect("32 bits");
        leaf(move |block| block[16..20].copy_from_slice(&count.to_le_bytes()))
    }),
    ("header-sealed", Effect::Unreadable, |_, rng| {
        let at = [0, 1, 8, 12][rng.index(4)];
        leaf(move |block| block[at] ^= 1)
    }),
    ("indirect-header-sealed", Effect::Stuck, |_, rng| {
        let at = [0, 1, 8, 12][rng.index(4)];
        indirect(move |block| block[at] ^= 1)
    }),
    ("indirect-garbage-sealed", Effect::Stuck, |_, rng| {
        let garbage = garbage(rng);
        indirect(move |block| block[16..].copy_from_slice(&garbage[16..]))
    }),
    ("slot-outside-sealed", Effect::Stuck, |_, rng| {
        let pvbn = Pvbn(rng.between(1 << 30, (1 << 40) - 1));
        indirect(move |block| change_pointer(block, 1, Layer::Aggregate, |it| it.pvbn = pvbn))
    }),
    ("slot-empty-sealed", Effect::Replaceable, |_, _| {
        indirect(|block| IndirectMut(block).set(0, Layer::Aggregate, Pointer::HOLE))
    }),
    ("size-sealed", Effect::Inode, |atlas, rng| {
        let blocks = [0, 1, 255, 256, 1 << 30][rng.index(5)];
        inode(atlas, move |inode| {
            inode.size_bytes = blocks * BLOCK_SIZE as u64
        })
    }),
    ("levels-sealed", Effect::Inode, |atlas, rng| {
        let levels = [0, 2, 3][rng.index(3)];
        inode(atlas, move |inode| inode.levels = levels)
    }),
    ("root-outside-sealed", Effect::Stuck, |atlas, rng| {
        let pvbn = Pvbn(rng.between(1 << 30, (1 << 40) - 1));
        inode(atlas, move |inode| inode.root.pvbn = pvbn)
    }),
];

/// The verifier's report is tested elsewhere.
fn nothing() -> Damage {
    Damage::new(Kind::NotesDamaged, [])
}

fn pvbn_of(atlas: &Atlas, level: u8, index: u64) -> u64 {
    atlas.aggregate.files[&NOTES.0].nodes[&(level, index)].pvbn
}

fn leaf(change: impl Fn(&mut Block) + 'static) -> Damage {
    nothing().spoil(spot(0), change)
}

fn indirect(change: impl Fn(&mut Block) + 'static) -> Damage {
    nothing().spoil(spot(1), change)
}

fn spot(level: u8) -> super::Spot {
    super::Spot {
        volume: None,
        file: NOTES.0,
        level,
        index: 0,
    }
}

fn inode(atlas: &Atlas, change: impl Fn(&mut Inode) + 'static) -> Damage {
    let (spot, slot) = atlas.aggregate.inode_spot(NOTES.0);
    nothing().spoil(spot, move |block| {
        change_inode(block, slot, NOTES.0, Layer::Aggregate, &change)
    })
}

fn garbage(rng: &mut Rng) -> Box<Block> {
    let mut block = Box::new([0; BLOCK_SIZE]);
    for word in block.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.draw().to_le_bytes());
    }
    block
}
