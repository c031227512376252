//! The image corrupter: damages a clean image the way a bug would, not the way a disk does.
//!
//! ```text
//! media ──Atlas──▶ every block of every tree ──kind──▶ what to spoil ──Sealing──▶ media
//! ```
//!
//! A disk that lies is caught by tags. A bug writes wrong content with the right tag; so every
//! block is spoiled before its parent takes its tag, and everything above is sealed again:
//! pointers, contexts, inodes, the volume's superblock, the container, the aggregate's superblock.
//! The result is consistent except for the spoiled value.
//!
//! 1. A kind draws its victims from the image at random; it may find none (no second LUN, no
//!    journal).
//! 2. A kind says what the verifier must call it and which words the line must contain, and which
//!    other kinds follow of necessity. Anything else the verifier reports is a false accusation.
//! 3. A harmless change is clean after sealing, and undoing it restores the same bytes (tested).
//!
//! Reads and writes by `format` alone, like the verifier, and shares no code with it.

pub(crate) mod atlas;
mod blocks;
pub(crate) mod clones;
mod counters;
mod counts;
pub(crate) mod harmless;
mod inodes;
mod labels;
mod maps;
mod names;
pub(crate) mod notes;
mod records;
mod seal;
mod slots;
pub(crate) mod snapshots;
pub(crate) mod splits;
mod underway;

use everglade_check::Kind;
use everglade_format::{Block, Superblock};
use everglade_testing::{Rng, SimWorld};

pub(crate) use atlas::{Atlas, Spot};
pub(crate) use seal::seal;

type Change<T> = Box<dyn Fn(&mut T)>;
type OnMedia = Box<dyn Fn(&SimWorld)>;

/// Damage to one image.
pub(crate) struct Damage {
    /// Blocks to change before they are sealed.
    spoils: Vec<(Spot, Change<Block>)>,
    superblock: Option<Change<Superblock>>,
    /// Done to the media in the end, behind all tags.
    after: Option<OnMedia>,
    /// Kind of problem that the verifier must report.
    pub(crate) expect: Kind,
    /// Words that the report must have.
    pub(crate) words: Vec<String>,
    /// Further kinds that the verifier may report.
    pub(crate) along: Vec<Kind>,
}

impl Damage {
    fn new(expect: Kind, words: impl IntoIterator<Item = String>) -> Damage {
        Damage {
            spoils: Vec::new(),
            superblock: None,
            after: None,
            expect,
            words: words.into_iter().collect(),
            along: Vec::new(),
        }
    }

    fn spoil(mut self, spot: Spot, change: impl Fn(&mut Block) + 'static) -> Damage {
        self.spoils.push((spot, Box::new(change)));
        self
    }

    fn superblock(mut self, change: impl Fn(&mut Superblock) + 'static) -> Damage {
        self.superblock = Some(Box::new(change));
        self
    }

    fn after(mut self, change: impl Fn(&SimWorld) + 'static) -> Damage {
        self.after = Some(Box::new(change));
        self
    }

    fn along(mut self, kinds: &[Kind]) -> Damage {
        self.along.extend(kinds);
        self
    }

    /// Applies the damage.
    pub(crate) fn apply(&self, atlas: &Atlas, world: &SimWorld) {
        seal(atlas, self, world);
        if let Some(after) = &self.after {
            after(world);
        }
    }
}

/// A function that makes damage for an image, if it finds a victim.
pub(crate) type Make = fn(&Atlas, &mut Rng) -> Option<Damage>;

/// A kind of damage: its name, and how to do it.
pub(crate) type Way = (&'static str, Make);

/// Returns all kinds of damage.
pub(crate) fn all() -> Vec<Way> {
    [
        blocks::WAYS,
        slots::WAYS,
        maps::WAYS,
        counters::WAYS,
        inodes::WAYS,
        names::WAYS,
        labels::WAYS,
        records::WAYS,
    ]
    .concat()
}

/// Returns the kinds of damage to what growths of the pool change.
pub(crate) fn of_growths() -> Vec<Way> {
    [counters::WAYS, labels::WAYS, records::WAYS].concat()
}

/// Returns the kinds of damage that need snapshots.
pub(crate) fn of_snapshots() -> &'static [Way] {
    snapshots::WAYS
}

/// Returns the kinds of damage that need clones of LUNs.
pub(crate) fn of_lun_clones() -> &'static [Way] {
    counts::WAYS
}

/// Returns the kinds of damage to a LUN clone under way, for the engine to detect.
pub(crate) fn of_clones_under_way() -> &'static [Way] {
    underway::WAYS
}

/// Returns the kinds of damage that need clones or notes. The kinds of [`of_snapshots`] have more
/// consequences in images with clones, because damage to a base affects its clones.
pub(crate) fn of_clones() -> Vec<Way> {
    [clones::OF_CLONES, inodes::OF_NOTES].concat()
}

/// Returns the kinds of damage that need present or former splits.
pub(crate) fn of_splits() -> &'static [Way] {
    splits::WAYS
}

/// Returns one of `items` at random.
fn pick<T>(rng: &mut Rng, items: Vec<T>) -> Option<T> {
    if items.is_empty() {
        return None;
    }
    let index = rng.index(items.len());
    items.into_iter().nth(index)
}
