//! Power cuts: what a moment leaves to chance, and the media each way of it leaves behind.
//!
//! At a cut, what is durable stays. Every change that is not durable, completed or still under way,
//! may have reached the medium, in any combination, and may be torn. A [`CutPoint`] holds both parts;
//! [`CutPoint::images`] makes one world of them, [`CutPoint::singles`] lists the ways worth trying
//! at every write: nothing, everything, each change alone missing, torn, or alone present.

use std::collections::BTreeSet;

use everglade_env::Nanos;

use super::Image;
use super::blockset::BlockSet;
use super::change::{Change, Grain};
use super::device::DeviceSpec;
use crate::{Digest, Rng};

/// Which of the changes that were not durable reach the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// None of them.
    Nothing,
    /// All of them.
    Everything,
    /// All but this one.
    AllBut(usize),
    /// Only this one.
    Only(usize),
    /// The first so many, in the order in which they took effect.
    First(usize),
    /// Each with even chances, from this seed.
    Random(u64),
}

/// A way for the power to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// What arrives.
    pub keep: Keep,
    /// If set, a change this names is torn instead of whole: the missing one of `AllBut`, the one of
    /// `Only`, the last of `First`, some of `Random`.
    pub tear: Option<Grain>,
}

impl Cut {
    /// Nothing is torn.
    #[must_use]
    pub fn whole(keep: Keep) -> Cut {
        Cut { keep, tear: None }
    }
}

/// How much a cut took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Changes that did not reach the medium.
    pub dropped: usize,
    /// Changes that reached it in part.
    pub torn: usize,
}

#[derive(Clone)]
pub(super) struct DeviceAtCut {
    pub(super) spec: DeviceSpec,
    pub(super) image: Image,
    pub(super) allocated: BlockSet,
    pub(super) bad: BTreeSet<u64>,
    pub(super) unflushed: Vec<(u64, Change)>,
}

/// One moment of a world, as a power cut finds it. Cheap to keep by the thousand.
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

/// What all devices hold while the power is off.
#[derive(Clone)]
pub struct Images {
    pub(super) now: Nanos,
    pub(super) tick: u64,
    pub(super) writes: u64,
    pub(super) digest: Digest,
    pub(super) host_capacity: Option<u64>,
    pub(super) devices: Vec<(DeviceSpec, Image, BlockSet, BTreeSet<u64>)>,
    /// What the cut took.
    pub losses: Losses,
}

impl Images {
    /// What one device holds.
    #[must_use]
    pub fn image(&self, device: usize) -> &Image {
        &self.devices[device].1
    }

    /// Bounds what the host can give from now on.
    pub fn set_host_capacity(&mut self, bytes: Option<u64>) {
        self.host_capacity = bytes;
    }

    /// Damages a device while nobody looks.
    pub fn image_mut(&mut self, device: usize) -> &mut Image {
        &mut self.devices[device].1
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

    /// The cuts worth trying at every write, at most `singles_max` changes singled out (evenly spread).
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
            let (mut image, mut allocated) = (device.image.clone(), device.allocated.clone());
            for (version, change) in &device.unflushed {
                match fate(cut, index, &mut rng) {
                    Fate::Whole => change.apply(*version, &mut image, &mut allocated),
                    Fate::Torn(grain) => {
                        losses.torn += 1;
                        let part = change.torn(grain, &image, &mut rng);
                        part.apply(*version, &mut image, &mut allocated);
                    }
                    Fate::Dropped => losses.dropped += 1,
                }
                index += 1;
            }
            devices.push((device.spec, image, allocated, device.bad.clone()));
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
