//! Power cuts: what a moment leaves to chance, and the media each way of it leaves behind.
//!
//! At a cut, durable changes stay. Every change that is not durable, completed or still under way,
//! may have reached the medium, in any combination, and may be torn. A [`CutPoint`] holds both
//! parts; [`CutPoint::images`] makes one world of them, [`CutPoint::singles`] lists the ways worth
//! trying at every write: nothing, everything, each change alone missing, torn, or alone present.

use std::collections::BTreeSet;

use everglade_env::{DeviceId, Nanos, Page};

use super::Image;
use super::blockset::BlockSet;
use super::change::{Change, Grain};
use super::damage::Damage;
use super::device::DeviceSpec;
use super::fault::Fault;
use crate::{Digest, Rng};

/// The changes that were not durable and reach the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// No change.
    Nothing,
    /// All changes.
    Everything,
    /// All changes but this one.
    AllBut(usize),
    /// Only this change.
    Only(usize),
    /// The first changes, this many, in the order in which they took effect.
    First(usize),
    /// Each with even chances, from this seed.
    Random(u64),
}

/// A way for the power to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The changes that reach the medium.
    pub keep: Keep,
    /// If set, a change this names is torn instead of whole: the missing one of `AllBut`, the one
    /// of `Only`, the last of `First`, some of `Random`.
    pub tear: Option<Grain>,
}

impl Cut {
    /// Returns a cut without torn changes.
    #[must_use]
    pub fn whole(keep: Keep) -> Cut {
        Cut { keep, tear: None }
    }
}

/// The losses of a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Changes that did not reach the medium.
    pub dropped: usize,
    /// Changes that reached it in part.
    pub torn: usize,
}

/// One device while the power is off.
#[derive(Clone)]
pub(super) struct Medium {
    pub(super) spec: DeviceSpec,
    pub(super) image: Image,
    pub(super) allocated: BlockSet,
    pub(super) bad: BTreeSet<u64>,
    pub(super) damage: Damage,
    pub(super) is_joining: bool,
    pub(super) is_away: bool,
}

impl Medium {
    /// An empty device.
    pub(super) fn empty(spec: DeviceSpec) -> Medium {
        Medium {
            spec,
            image: Image::default(),
            allocated: BlockSet::default(),
            bad: BTreeSet::new(),
            damage: Damage::default(),
            is_joining: false,
            is_away: false,
        }
    }
}

/// A change that the power cut may undo.
#[derive(Clone)]
pub(super) struct AtChance {
    pub(super) version: u64,
    pub(super) change: Change,
    /// A flush claimed that it is durable.
    pub(super) claimed: bool,
}

#[derive(Clone)]
pub(super) struct DeviceAtCut {
    pub(super) durable: Medium,
    pub(super) unflushed: Vec<AtChance>,
}

/// One moment of a world, as a power cut leaves it. Cheap to keep by the thousand.
#[derive(Clone)]
pub struct CutPoint {
    /// Writes the world had counted, including the one it was cut at.
    pub writes: u64,
    /// Virtual time of the cut.
    pub now: Nanos,
    pub(super) tick: u64,
    pub(super) digest: Digest,
    pub(super) host_capacity: Option<u64>,
    pub(super) devices: Vec<DeviceAtCut>,
}

/// The contents of all devices while the power is off.
#[derive(Clone)]
pub struct Images {
    pub(super) now: Nanos,
    pub(super) tick: u64,
    pub(super) writes: u64,
    pub(super) digest: Digest,
    pub(super) host_capacity: Option<u64>,
    pub(super) devices: Vec<Medium>,
    /// Losses of the cut.
    pub losses: Losses,
}

impl Images {
    /// Returns the content of one device.
    #[must_use]
    pub fn image(&self, device: usize) -> &Image {
        &self.devices[device].image
    }

    /// Returns the number of devices.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.devices.len()
    }

    /// Returns the properties of one device.
    #[must_use]
    pub fn spec(&self, device: usize) -> DeviceSpec {
        self.devices[device].spec
    }

    /// True if a device is joining ([`super::SimWorld::joining`]); not if it was taken away.
    #[must_use]
    pub fn is_joining(&self, device: usize) -> bool {
        let device = self.devices.get(device);
        device.is_some_and(|medium| medium.is_joining)
    }

    /// Replaces a device by the same one of another world: two halves of a pool that were worked on
    /// apart.
    pub fn take_device_from(&mut self, other: &Images, device: DeviceId) {
        let index = device.0 as usize;
        self.devices[index] = other.devices[index].clone();
    }

    /// The same without the devices that are joining; they were taken away meanwhile.
    #[must_use]
    pub fn without_joining(&self) -> Images {
        let mut images = self.clone();
        images.devices.retain(|medium| !medium.is_joining);
        images
    }

    /// The same with the devices that are joining in `other`, as they are there: they were away,
    /// and are back.
    #[must_use]
    pub fn with_joining_of(&self, other: &Images) -> Images {
        let mut images = self.clone();
        let joining = other.devices.iter().filter(|medium| medium.is_joining);
        images.devices.extend(joining.cloned());
        images
    }

    /// The same with exactly these devices taken away. They keep their numbers and contents, and
    /// may come back.
    #[must_use]
    pub fn with_away(&self, away: &[usize]) -> Images {
        let mut images = self.clone();
        for (device, medium) in images.devices.iter_mut().enumerate() {
            medium.is_away = away.contains(&device);
        }
        images
    }

    /// True if a device was taken away.
    #[must_use]
    pub fn is_away(&self, device: usize) -> bool {
        self.devices[device].is_away
    }

    /// True if all blocks of a device have the contents that they have in `other`.
    #[must_use]
    pub fn has_same_content(&self, device: usize, other: &Images) -> bool {
        let (mine, theirs) = (self.image(device), other.image(device));
        let is_same = |block: u64| {
            let (mine, theirs) = (mine.read(block), theirs.read(block));
            everglade_env::PageRef::same_memory(&mine, &theirs) || mine[..] == theirs[..]
        };
        let mut blocks = mine.blocks().chain(theirs.blocks());
        blocks.all(|(block, _)| is_same(block))
    }

    /// Bounds what the host can give from now on.
    pub fn set_host_capacity(&mut self, bytes: Option<u64>) {
        self.host_capacity = bytes;
    }

    /// Flips a bit of a block silently.
    pub fn flip_bit(&mut self, device: usize, block: u64, bit: usize) {
        let medium = &mut self.devices[device];
        let whole = medium.image.read(block);
        let mut page = Page::copy_of(&whole);
        page[bit / 8] ^= 1 << (bit % 8);
        let version = medium.image.version(block);
        medium.image.put(block, version, page.freeze());
        medium
            .damage
            .insert_unless_known(block, Fault::MediaFlip, whole);
    }

    /// Puts a block there, as if it had always been.
    pub fn put(&mut self, device: usize, block: u64, bytes: &[u8; everglade_env::BLOCK_SIZE]) {
        let medium = &mut self.devices[device];
        let version = medium.image.version(block);
        medium
            .image
            .put(block, version, Page::copy_of(bytes).freeze());
    }

    /// Makes a block unreadable until it is written.
    pub fn fail_block(&mut self, device: usize, block: u64) {
        self.devices[device].bad.insert(block);
    }

    /// A device is as it was in `older`; true if that makes a difference.
    pub fn return_stale(&mut self, device: usize, older: &Images) -> bool {
        let old = older.devices[device].clone();
        let now = std::mem::replace(&mut self.devices[device], old);
        let medium = &mut self.devices[device];
        let mut differs = false;
        for (block, page) in now.image.blocks() {
            if medium.image.version(block) != now.image.version(block)
                && medium.image.read(block)[..] != page[..]
            {
                differs = true;
                medium
                    .damage
                    .insert(block, Fault::StaleDevice, page.clone());
            }
        }
        differs
    }
}

impl Medium {
    /// Applies the part of a change that survives the cut.
    fn land(&mut self, entry: &AtChance, fate: &Fate, rng: &mut Rng) {
        let cut = |fault: Fault| {
            if entry.claimed {
                Fault::LostFlush
            } else {
                fault
            }
        };
        let part = match fate {
            Fate::Whole => Some(entry.change.clone()),
            Fate::Torn(grain) => Some(entry.change.torn(*grain, &self.image, rng)),
            Fate::Dropped => None,
        };
        let fault = match fate {
            Fate::Whole => None,
            Fate::Torn(_) => Some(cut(Fault::CutTorn)),
            Fate::Dropped => Some(cut(Fault::CutDropped)),
        };
        if let Some(part) = &part {
            part.apply(entry.version, &mut self.image, &mut self.allocated);
        }
        if let Some(fault) = fault {
            self.damage
                .insert_missing(fault, &entry.change, part.as_ref());
        }
    }
}

enum Fate {
    Whole,
    Torn(Grain),
    Dropped,
}

impl CutPoint {
    /// Changes that are left to chance, over all devices.
    #[must_use]
    pub fn unflushed(&self) -> usize {
        self.devices
            .iter()
            .map(|device| device.unflushed.len())
            .sum()
    }

    /// The cuts worth trying at every write, at most `singles_max` changes singled out (evenly
    /// spread).
    pub fn singles(&self, singles_max: usize) -> impl Iterator<Item = Cut> + use<> {
        let count = self.unflushed();
        let singles = singles_max.min(count);
        let ends = [Keep::Nothing, Keep::Everything].map(Cut::whole);
        ends.into_iter().chain((0..singles).flat_map(move |i| {
            let i = i * count / singles;
            [
                Cut::whole(Keep::AllBut(i)),
                Cut {
                    keep: Keep::AllBut(i),
                    tear: Some(Grain::Sector),
                },
                Cut {
                    keep: Keep::AllBut(i),
                    tear: Some(Grain::Block),
                },
                Cut::whole(Keep::Only(i)),
                Cut::whole(Keep::First(i)),
            ]
        }))
    }

    /// Returns the cuts: none, all, each change alone missing, and `random` random subsets, every
    /// second of them torn.
    pub fn subsets(&self, random: u64, seed: u64) -> impl Iterator<Item = Cut> + use<> {
        let count = self.unflushed();
        let ends = [Keep::Nothing, Keep::Everything].map(Cut::whole);
        let singles = (0..if count > 1 { count } else { 0 }).map(|i| Cut::whole(Keep::AllBut(i)));
        let mut rng = Rng::for_part(seed, "subsets");
        // The empty set has one subset.
        let random = if count > 0 { random } else { 0 };
        let random = (0..random).map(move |number| Cut {
            keep: Keep::Random(rng.draw()),
            tear: (number % 2 == 1).then_some(Grain::Sector),
        });
        ends.into_iter().chain(singles).chain(random)
    }

    /// The media as `cut` leaves them.
    #[must_use]
    pub fn images(&self, cut: Cut) -> Images {
        let seed = if let Keep::Random(seed) = cut.keep {
            seed
        } else {
            self.writes
        };
        let mut rng = Rng::for_part(seed, "power cut");
        let mut losses = Losses::default();
        let mut index = 0;
        let mut devices = Vec::new();
        for device in &self.devices {
            let mut medium = device.durable.clone();
            for entry in &device.unflushed {
                let fate = fate(cut, index, &mut rng);
                medium.land(entry, &fate, &mut rng);
                match fate {
                    Fate::Whole => {}
                    Fate::Torn(_) => losses.torn += 1,
                    Fate::Dropped => losses.dropped += 1,
                }
                index += 1;
            }
            devices.push(medium);
        }
        Images {
            now: self.now,
            // Changes under way were given versions beyond the tick of the cut.
            tick: self.tick + self.unflushed() as u64 + 1,
            writes: self.writes,
            digest: self.digest,
            host_capacity: self.host_capacity,
            devices,
            losses,
        }
    }
}

fn fate(cut: Cut, index: usize, rng: &mut Rng) -> Fate {
    let torn_or = |fate: Fate| cut.tear.map_or(fate, Fate::Torn);
    match cut.keep {
        Keep::Nothing => Fate::Dropped,
        Keep::Everything => Fate::Whole,
        Keep::AllBut(missing) if index == missing => torn_or(Fate::Dropped),
        Keep::AllBut(_) => Fate::Whole,
        Keep::Only(present) if index == present => torn_or(Fate::Whole),
        Keep::Only(_) => Fate::Dropped,
        Keep::First(count) if index + 1 == count => torn_or(Fate::Whole),
        Keep::First(count) if index < count => Fate::Whole,
        Keep::First(_) => Fate::Dropped,
        Keep::Random(_) => match rng.below(4) {
            0 => torn_or(Fate::Whole),
            1 => Fate::Whole,
            _ => Fate::Dropped,
        },
    }
}
