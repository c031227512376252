//! Labels: copies that are gone, differ, or lie in the wrong slot; regions that collide.

use std::collections::BTreeSet;

use everglade_check::Kind;
use everglade_env::{BLOCK_SIZE, DeviceId, Storage};
use everglade_format::config::{CONFIG_BYTES, INCOMPATIBLE_CHANGED, JournalRegion};
use everglade_format::label::{
    CONFIG_OFFSETS, LABEL_BYTES, SUPERBLOCK_OFFSETS, config_slot, label_offsets, superblock_slot,
};
use everglade_format::{Config, Dbn, Superblock, TagKey};
use everglade_testing::Rng;

use super::atlas::Atlas;
use super::{Damage, Way};

pub(super) const WAYS: &[Way] = &[
    ("label-torn", label_torn),
    ("label-stale", label_stale),
    ("labels-differ", labels_differ),
    ("label-in-another-slot", label_slot),
    ("label-of-a-lost-superblock", label_later),
    ("feature-bit-wrong", feature_bit),
    ("superblock-torn", superblock_torn),
    ("superblock-not-written", superblock_stale),
    ("superblocks-differ", superblocks_differ),
    ("superblock-in-another-slot", superblock_slot_wrong),
    ("superblocks-of-a-member-gone", member_behind),
    ("extents-collide", extents_collide),
    ("journal-nowhere", journal_nowhere),
];

/// One copy of a label's record.
#[derive(Clone, Copy)]
struct Copy {
    device: DeviceId,
    member: u32,
    /// Byte of the label.
    label: u64,
}

/// Returns all copies on all devices.
fn copies(atlas: &Atlas) -> Vec<Copy> {
    let of = |member: u32| {
        atlas.labels(member).map(|(device, label)| Copy {
            device,
            member,
            label,
        })
    };
    atlas.members().flat_map(of).collect()
}

/// A damage that wrote all superblocks anew, so that no copy is stale, and then does `change` to
/// one copy.
fn one_copy(
    atlas: &Atlas,
    rng: &mut Rng,
    kind: Kind,
    change: impl Fn(&dyn Storage, Copy) + 'static,
) -> Damage {
    let copies = copies(atlas);
    let copy = copies[rng.index(copies.len())];
    Damage::new(kind, ["device".into()])
        .superblock(|it| it.written_seconds += 1)
        .after(move |world| change(&*world.storage(), copy))
}

fn write_config(storage: &dyn Storage, copy: Copy, slot: usize, config: &Config) {
    let mut config = config.clone();
    config.member_index = copy.member;
    let at = copy.label + CONFIG_OFFSETS[slot];
    storage
        .write(copy.device, at, &config.encode())
        .expect("no faults");
}

fn damage_byte(storage: &dyn Storage, device: DeviceId, offset: u64, byte: usize) {
    let mut block = [0; BLOCK_SIZE];
    storage.read(device, offset, &mut block).expect("no faults");
    block[byte] ^= 0x20;
    storage.write(device, offset, &block).expect("no faults");
}

fn label_torn(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let slot = CONFIG_OFFSETS[config_slot(atlas.config.epoch)];
    let byte = rng.index(BLOCK_SIZE);
    Some(one_copy(
        atlas,
        rng,
        Kind::LabelDamaged,
        move |storage, copy| {
            damage_byte(storage, copy.device, copy.label + slot, byte);
        },
    ))
}

fn label_stale(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    if atlas.has_cut_change {
        // Its record would be the one of the epoch before.
        return None;
    }
    // One copy keeps the old epoch when the epoch advances by two.
    let mut newer = atlas.config.clone();
    newer.epoch += 2;
    newer.incompatible |= INCOMPATIBLE_CHANGED;
    let slot = config_slot(newer.epoch);
    let copies = copies(atlas);
    let old = atlas.config.clone();
    let damage = one_copy(atlas, rng, Kind::LabelStale, move |storage, left| {
        for copy in &copies {
            write_config(storage, *copy, slot, &newer);
        }
        write_config(storage, left, slot, &old);
    });
    Some(damage.superblock(|it| {
        it.written_seconds += 1;
        it.epoch += 2;
    }))
}

fn labels_differ(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let mut other = atlas.config.clone();
    other.reserve_blocks += 1;
    let slot = config_slot(other.epoch);
    Some(one_copy(
        atlas,
        rng,
        Kind::LabelCopiesDiffer,
        move |storage, copy| {
            write_config(storage, copy, slot, &other);
        },
    ))
}

fn label_slot(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let config = atlas.config.clone();
    let slot = 1 - config_slot(config.epoch);
    Some(one_copy(
        atlas,
        rng,
        Kind::LabelSlot,
        move |storage, copy| {
            write_config(storage, copy, slot, &config);
        },
    ))
}

fn label_later(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let mut later = atlas.config.clone();
    later.epoch += 2;
    later.incompatible |= INCOMPATIBLE_CHANGED;
    let slot = config_slot(later.epoch);
    Some(one_copy(
        atlas,
        rng,
        Kind::EpochBehind,
        move |storage, copy| {
            write_config(storage, copy, slot, &later);
        },
    ))
}

fn feature_bit(atlas: &Atlas, _: &mut Rng) -> Option<Damage> {
    let damage = Damage::new(Kind::ChangeWrong, ["feature flags".into()]);
    Some(everywhere(atlas, damage, |config| {
        config.incompatible ^= INCOMPATIBLE_CHANGED;
    }))
}

fn superblock_torn(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let slot = SUPERBLOCK_OFFSETS[superblock_slot(atlas.superblock.cp)];
    let byte = rng.index(BLOCK_SIZE);
    Some(one_copy(
        atlas,
        rng,
        Kind::SuperblockDamaged,
        move |storage, copy| {
            damage_byte(storage, copy.device, copy.label + slot, byte);
        },
    ))
}

fn superblock_stale(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let slot = SUPERBLOCK_OFFSETS[superblock_slot(atlas.superblock.cp)];
    Some(one_copy(
        atlas,
        rng,
        Kind::SuperblockStale,
        move |storage, copy| {
            let nothing = [0; BLOCK_SIZE];
            storage
                .write(copy.device, copy.label + slot, &nothing)
                .expect("no faults");
        },
    ))
}

fn write_superblock(
    storage: &dyn Storage,
    copy: Copy,
    slot: usize,
    it: &Superblock,
    secret: [u8; 32],
) {
    let block = it.encode(&TagKey::new(&secret));
    let at = copy.label + SUPERBLOCK_OFFSETS[slot];
    storage.write(copy.device, at, &block).expect("no faults");
}

fn superblocks_differ(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let mut other = atlas.superblock.clone();
    other.written_seconds += 77;
    let (slot, secret) = (superblock_slot(other.cp), atlas.config.secret);
    Some(one_copy(
        atlas,
        rng,
        Kind::SuperblockCopiesDiffer,
        move |storage, copy| {
            write_superblock(storage, copy, slot, &other, secret);
        },
    ))
}

fn superblock_slot_wrong(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    // All other copies have these values by then.
    let mut it = atlas.superblock.clone();
    it.written_seconds += 1;
    let (slot, secret) = (1 - superblock_slot(it.cp), atlas.config.secret);
    Some(one_copy(
        atlas,
        rng,
        Kind::SuperblockSlot,
        move |storage, copy| {
            write_superblock(storage, copy, slot, &it, secret);
        },
    ))
}

fn member_behind(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    if atlas.devices.len() < 2 {
        return None;
    }
    // A member that joined with the newest consistency point may have none.
    let members = match atlas.config.epoch {
        1 => atlas.devices.len(),
        _ => 1,
    };
    let device = atlas.devices[rng.index(members)];
    let damage = Damage::new(Kind::MemberBehind, [format!("device {}", device.0)]);
    let damage = damage.superblock(|it| it.written_seconds += 1);
    let damage = damage.along(&[Kind::SuperblockStale]).after(move |world| {
        let storage = world.storage();
        for label in labels_of(&*storage, device) {
            for slot in SUPERBLOCK_OFFSETS {
                let nothing = [0; BLOCK_SIZE];
                let written = storage.write(device, label + slot, &nothing);
                written.expect("no faults");
            }
        }
    });
    Some(damage)
}

/// The labels that the records of a device name; a member that became larger has a former one.
fn labels_of(storage: &dyn Storage, device: DeviceId) -> BTreeSet<u64> {
    let mut labels = BTreeSet::new();
    for slot in CONFIG_OFFSETS {
        let mut bytes = vec![0; CONFIG_BYTES];
        storage.read(device, slot, &mut bytes).expect("no faults");
        if let Ok(Some(config)) = Config::decode(&bytes) {
            let own = &config.members[config.member_index as usize];
            labels.extend(label_offsets(own.size_blocks * BLOCK_SIZE as u64));
        }
    }
    labels.retain(|label| label + LABEL_BYTES <= storage.size_bytes(device));
    labels
}

/// Writes all copies of a changed config record.
fn everywhere(atlas: &Atlas, damage: Damage, change: impl Fn(&mut Config)) -> Damage {
    let mut config = atlas.config.clone();
    change(&mut config);
    let slot = config_slot(config.epoch);
    let copies = copies(atlas);
    damage.after(move |world| {
        let storage = world.storage();
        for copy in &copies {
            write_config(&*storage, *copy, slot, &config);
        }
    })
}

fn extents_collide(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let extents = atlas.geometry.extents();
    let extent = extents[rng.index(extents.len())];
    // A change never moves the journal.
    let damage = Damage::new(Kind::ExtentsCollide, ["journal".into()]);
    let damage = damage.along(&[Kind::ChangeWrong]);
    Some(everywhere(atlas, damage, |config| {
        config.journal = JournalRegion {
            member: extent.member,
            first: Dbn(extent.first_dbn.0 + 1),
            blocks: 8,
        };
    }))
}

fn journal_nowhere(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let member = u32::try_from(atlas.devices.len()).expect("few");
    let beyond = atlas.config.members[0].size_blocks;
    let place = [(member, 300), (0, beyond - 3), (0, u64::MAX - 3)][rng.index(3)];
    // The label's copy of the region begins here.
    let damage = Damage::new(Kind::JournalRegion, ["journal".into()]);
    Some(everywhere(
        atlas,
        damage.along(&[Kind::ExtentsCollide, Kind::ChangeWrong]),
        |config| {
            config.journal = JournalRegion {
                member: place.0,
                first: Dbn(place.1),
                blocks: 8,
            };
        },
    ))
}
