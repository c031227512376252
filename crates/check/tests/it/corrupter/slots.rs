//! Pointers that lead elsewhere: two owners, cycles, places that do not exist, volume and container
//! at odds.

use everglade_check::Kind;
use everglade_format::bitmap;
use everglade_format::{Indirect, IndirectMut, Layer, Pointer, Pvbn, SPAN, Tag, Vvbn};
use everglade_testing::Rng;

use super::atlas::{Atlas, Leaf, Spot};
use super::seal::change_pointer;
use super::{Damage, Way, pick};

pub(super) const WAYS: &[Way] = &[
    ("double-owner", double_owner),
    ("double-owner-of-two-containers", two_containers),
    ("cyclic-tree", cyclic_tree),
    ("cyclic-container", cyclic_container),
    ("repeated-subtree", repeated_subtree),
    ("impossible-pointer", impossible_pointer),
    ("impossible-container-pointer", impossible_container_pointer),
    ("pointer-outside-extents", outside_extents),
    ("container-slot-empty", container_slot_empty),
    ("container-slots-swapped", container_slots_swapped),
    ("container-slot-elsewhere", container_slot_elsewhere),
    ("container-expects-other-content", container_tag),
    ("volume-forgot-a-block", container_extra),
];

const VOLUME: Layer = Layer::Volume;
const AGGREGATE: Layer = Layer::Aggregate;

/// Two leaves of one volume.
fn two_leaves(atlas: &Atlas, rng: &mut Rng) -> Option<(Leaf, Leaf)> {
    let one = atlas.leaf(rng)?;
    let same = |other: &Leaf| other.volume == one.volume && other.vvbn != one.vvbn;
    let others = atlas.leaves().into_iter().filter(same).collect();
    Some((one, pick(rng, others)?))
}

fn pointer_of(atlas: &Atlas, leaf: &Leaf) -> Pointer {
    let (spot, slot) = leaf.parent();
    let tree = atlas.fs(spot.volume).tree(spot.file);
    let block = atlas.content(tree.nodes[&(spot.level, spot.index)].pvbn);
    Indirect(block).pointer(slot, VOLUME).expect("clean")
}

fn container_pointer_of(atlas: &Atlas, leaf: &Leaf) -> Pointer {
    let (spot, slot) = leaf.container_slot();
    let tree = atlas.aggregate.tree(spot.file);
    let block = atlas.content(tree.nodes[&(spot.level, spot.index)].pvbn);
    Indirect(block).pointer(slot, AGGREGATE).expect("clean")
}

fn set(damage: Damage, at: (Spot, u64), layer: Layer, pointer: Pointer) -> Damage {
    let (spot, slot) = at;
    damage.spoil(spot, move |block| {
        IndirectMut(block).set(slot, layer, pointer)
    })
}

fn double_owner(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (one, other) = two_leaves(atlas, rng)?;
    let words = [
        format!("fbn {}", one.fbn),
        format!("fbn {}", other.fbn),
        format!("vvbn {}", one.vvbn),
    ];
    let damage = Damage::new(Kind::DoubleReference, words).along(&[Kind::Leaked]);
    Some(set(damage, other.parent(), VOLUME, pointer_of(atlas, &one)))
}

fn two_containers(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let one = atlas.leaf(rng)?;
    let elsewhere = |other: &Leaf| other.volume != one.volume;
    let other = pick(rng, atlas.leaves().into_iter().filter(elsewhere).collect())?;
    let title = |leaf: &Leaf| atlas.aggregate.title(leaf.volume);
    let words = [title(&one), title(&other), format!("pvbn {}", one.pvbn)];
    let along = &[Kind::Leaked, Kind::ContainerTag];
    let damage = Damage::new(Kind::DoubleReference, words).along(along);
    let pointer = container_pointer_of(atlas, &one);
    Some(set(damage, other.container_slot(), AGGREGATE, pointer))
}

fn cyclic_tree(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (spot, node, lun) = atlas.lun_indirect(rng, 2)?;
    let slot = rng.below(SPAN);
    let words = [
        lun,
        format!("level {} block {}", spot.level, spot.index),
        format!(
            "level {} block {}",
            spot.level - 1,
            spot.index * SPAN + slot
        ),
    ];
    let itself = Pointer {
        vvbn: Vvbn(node.vvbn),
        pvbn: Pvbn(node.pvbn),
        tag: Tag(1),
    };
    // Blocks below the slot's former block are lost, but cannot be reported: the subtree is no
    // longer readable.
    let along = &[Kind::ContainerTag, Kind::BeyondEnd];
    let damage = Damage::new(Kind::DoubleReference, words).along(along);
    Some(set(damage, (spot, slot), VOLUME, itself))
}

fn cyclic_container(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let id = pick(rng, atlas.volumes.keys().copied().collect())?;
    let tree = atlas.aggregate.tree(id);
    let levels = tree.inode.levels;
    let node = tree.nodes[&(levels, 0)];
    // Any slot but that of the volume's superblock.
    let slot = rng.between(1, SPAN - 1);
    let words = [
        atlas.aggregate.title(id),
        format!("level {levels} block 0"),
        format!("pvbn {}", node.pvbn),
    ];
    let itself = Pointer {
        vvbn: Vvbn(0),
        pvbn: Pvbn(node.pvbn),
        tag: Tag(1),
    };
    let along = &[Kind::TagMismatch, Kind::BeyondEnd];
    let damage = Damage::new(Kind::DoubleReference, words).along(along);
    let spot = atlas.aggregate.spot(id, levels, 0);
    Some(set(damage, (spot, slot), AGGREGATE, itself))
}

fn repeated_subtree(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (spot, node, lun) = atlas.lun_indirect(rng, 2)?;
    let block = Indirect(atlas.content(node.pvbn));
    let used = |slot: &u64| !block.pointer(*slot, VOLUME).expect("clean").is_hole();
    let mut slots: Vec<u64> = (0..SPAN).filter(used).collect();
    if slots.len() < 2 {
        return None;
    }
    rng.shuffle(&mut slots);
    let pointer = block.pointer(slots[0], VOLUME).expect("clean");
    let again = spot.index * SPAN + slots[1];
    let words = [lun, format!("level {} block {again}", spot.level - 1)];
    let damage = Damage::new(Kind::HeaderMismatch, words).along(&[Kind::DoubleReference]);
    Some(set(damage, (spot, slots[1]), VOLUME, pointer))
}

fn impossible_pointer(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let leaf = atlas.leaf(rng)?;
    let (spot, slot) = leaf.parent();
    let at = 16 + 16 * usize::try_from(slot).expect("below 255");
    let damage = Damage::new(Kind::PointerInvalid, leaf.words());
    // The cached pvbn is one that is kept for LOST.
    Some(damage.spoil(spot, move |block| block[at + 5..at + 10].fill(0xff)))
}

fn impossible_container_pointer(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let leaf = atlas.leaf(rng)?;
    let (spot, slot) = leaf.container_slot();
    let at = 16 + 16 * usize::try_from(slot).expect("below 255");
    let words = [
        atlas.aggregate.title(leaf.volume),
        format!("fbn {}", leaf.vvbn),
    ];
    let damage = Damage::new(Kind::PointerInvalid, words);
    Some(damage.spoil(spot, move |block| block[at + 11] = 7))
}

fn outside_extents(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let leaf = atlas.leaf(rng)?;
    let nowhere = atlas.geometry.end() + rng.below(1 << 20);
    let words = [
        atlas.aggregate.title(leaf.volume),
        format!("pvbn {nowhere}"),
    ];
    let damage = Damage::new(Kind::OutsideExtents, words).along(&[Kind::Leaked]);
    let (spot, slot) = leaf.container_slot();
    Some(damage.spoil(spot, move |block| {
        change_pointer(block, slot, AGGREGATE, |pointer| {
            pointer.pvbn = Pvbn(nowhere)
        });
    }))
}

fn container_slot_empty(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let leaf = atlas.leaf(rng)?;
    let along = &[Kind::BlockCount, Kind::Leaked];
    let damage = Damage::new(Kind::ContainerHole, leaf.words()).along(along);
    Some(set(damage, leaf.container_slot(), AGGREGATE, Pointer::HOLE))
}

fn container_slots_swapped(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (one, other) = two_leaves(atlas, rng)?;
    let [first, second] = [&one, &other].map(|leaf| container_pointer_of(atlas, leaf));
    if first.tag == second.tag {
        return None;
    }
    let damage = Damage::new(Kind::ContainerTag, one.words()).along(&[Kind::ContextOwner]);
    let damage = set(damage, one.container_slot(), AGGREGATE, second);
    Some(set(damage, other.container_slot(), AGGREGATE, first))
}

fn container_slot_elsewhere(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let leaf = atlas.leaf(rng)?;
    let free = super::maps::free_pvbn(atlas, rng)?;
    let words = [atlas.aggregate.title(leaf.volume), format!("pvbn {free}")];
    let along = &[
        Kind::Leaked,
        Kind::TagMismatch,
        Kind::ContextMissing,
        Kind::ContextOwner,
        Kind::ContextTag,
    ];
    let damage = Damage::new(Kind::NotMarked, words).along(along);
    let (spot, slot) = leaf.container_slot();
    Some(damage.spoil(spot, move |block| {
        change_pointer(block, slot, AGGREGATE, |pointer| pointer.pvbn = Pvbn(free));
    }))
}

fn container_tag(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let leaf = atlas.leaf(rng)?;
    let (spot, slot) = leaf.parent();
    let damage = Damage::new(Kind::ContainerTag, leaf.words());
    Some(damage.spoil(spot, move |block| {
        change_pointer(block, slot, VOLUME, |pointer| pointer.tag.0 ^= 1);
    }))
}

fn container_extra(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let leaf = atlas.leaf(rng)?;
    let words = [
        atlas.volumes[&leaf.volume].fs.words(),
        format!("vvbn {}", leaf.vvbn),
    ];
    let along = &[Kind::BlockCount, Kind::UsedCount];
    let damage = Damage::new(Kind::ContainerExtra, words).along(along);
    let map = atlas.volumes[&leaf.volume]
        .fs
        .spot(2, 0, leaf.vvbn / 32_768);
    let vvbn = leaf.vvbn;
    let damage = damage.spoil(map, move |block| {
        bitmap::clear(block, vvbn % 32_768);
    });
    Some(set(damage, leaf.parent(), VOLUME, Pointer::HOLE))
}
