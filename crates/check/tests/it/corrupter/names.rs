//! Directories at odds with inodes.

use everglade_check::Kind;
use everglade_format::Directory;
use everglade_format::bytes::put;
use everglade_format::metafile::DIRECTORY;
use everglade_testing::Rng;

use super::atlas::{Atlas, FileSystem, Spot};
use super::{Damage, Way, pick};

pub(super) const WAYS: &[Way] = &[
    ("file-without-name", unnamed),
    ("name-without-file", without_file),
    ("file-named-twice", named_twice),
    ("name-given-twice", name_twice),
    ("entry-of-another-kind", another_kind),
    ("entry-damaged", damaged),
];

const ENTRY_BYTES: usize = 128;

/// An entry of a directory.
struct Named<'a> {
    fs: &'a FileSystem,
    spot: Spot,
    file: u32,
    name: String,
    /// Byte of the block.
    at: usize,
    /// Byte of a free entry of the same block.
    free: Option<usize>,
}

fn entries(atlas: &Atlas) -> Vec<Named<'_>> {
    let mut all = Vec::new();
    for fs in atlas.file_systems() {
        let Some(tree) = fs.files.get(&DIRECTORY.0) else {
            continue;
        };
        for (index, node) in tree.leaves() {
            let entries = Directory::decode(atlas.content(node.pvbn)).expect("clean");
            let taken = |slot: usize| entries.iter().any(|(other, _)| *other == slot);
            let free = (0..31).find(|slot| !taken(*slot)).map(at);
            for (slot, entry) in &entries {
                all.push(Named {
                    fs,
                    spot: fs.spot(DIRECTORY.0, 0, index),
                    file: entry.file.0,
                    name: entry.name.clone(),
                    at: at(*slot),
                    free,
                });
            }
        }
    }
    all
}

fn at(slot: usize) -> usize {
    16 + ENTRY_BYTES * slot
}

impl Named<'_> {
    fn words(&self) -> [String; 2] {
        [self.fs.title(DIRECTORY.0), self.name.clone()]
    }
}

fn unnamed(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let entry = pick(rng, entries(atlas))?;
    let (at, words) = (entry.at, [format!("(file {})", entry.file)]);
    let damage = Damage::new(Kind::Unnamed, words);
    Some(damage.spoil(entry.spot, move |block| block[at..at + ENTRY_BYTES].fill(0)))
}

fn without_file(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let entry = pick(rng, entries(atlas))?;
    let at = entry.at;
    let damage = Damage::new(Kind::EntryWithoutFile, entry.words()).along(&[Kind::Unnamed]);
    let nobody = 1_000_000 + u32::try_from(rng.below(1000)).expect("small");
    Some(damage.spoil(entry.spot, move |block| {
        put(block, at, nobody.to_le_bytes())
    }))
}

fn named_twice(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let entry = pick(rng, entries(atlas))?;
    let (at, free) = (entry.at, entry.free?);
    let words = [entry.fs.title(DIRECTORY.0), format!("file {}", entry.file)];
    let damage = Damage::new(Kind::NamedTwice, words);
    Some(damage.spoil(entry.spot, move |block| {
        block.copy_within(at..at + ENTRY_BYTES, free);
        block[free + 8] = b'Z';
    }))
}

fn name_twice(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let all = entries(atlas);
    let one = rng.index(all.len().max(1));
    let one = all.get(one)?;
    let others = all
        .iter()
        .filter(|other| other.spot == one.spot && other.at != one.at);
    let other = pick(rng, others.collect())?;
    let (from, to) = (one.at, other.at);
    let damage = Damage::new(Kind::NameTwice, one.words());
    Some(damage.spoil(one.spot, move |block| {
        // Length and name.
        block[to + 5] = block[from + 5];
        block.copy_within(from + 8..from + 72, to + 8);
    }))
}

fn another_kind(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let entry = pick(rng, entries(atlas))?;
    let at = entry.at;
    let damage = Damage::new(Kind::EntryKind, entry.words());
    Some(damage.spoil(entry.spot, move |block| block[at + 4] ^= 3))
}

fn damaged(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let entry = pick(rng, entries(atlas))?;
    let at = entry.at;
    let damage = Damage::new(Kind::DirectoryDamaged, [entry.fs.title(DIRECTORY.0)]);
    Some(damage.spoil(entry.spot, move |block| block[at + 8] = b'/'))
}
