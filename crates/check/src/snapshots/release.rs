//! Blocks of victims' snapmaps: during the delete pass, and afterwards in the release file.

use std::collections::BTreeSet;

use everglade_format::release::{self, RELEASES_PER_BLOCK};
use everglade_format::{Indirect, Inode, Layer, SPAN};

use super::{Volume, table};
use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::problem::{Kind, ProblemPlace};
use crate::tree;

/// Entries of the release file that have not had their turn, ascending. Nothing if the file cannot
/// be read.
pub(super) fn waiting(
    volume: &Volume<'_>,
    inode: &Inode,
    findings: &mut Findings,
) -> Option<Vec<u64>> {
    let aggregate = volume.fs.inside.as_ref()?.aggregate;
    let object = volume.aggregate_files.object_of(aggregate, inode.id);
    let scan = volume.superblock.snapshots.scan;
    let Some(done) = table::released(scan, inode) else {
        let expected = "a place inside the release file";
        let (kind, object) = (Kind::SnapshotRoots, volume.fs.object());
        findings.add(
            kind,
            &object,
            ProblemPlace::NONE,
            expected,
            format_args!("{scan:?}"),
        );
        return None;
    };
    let (mut waiting, mut last) = (Vec::new(), 0);
    for index in 0..inode.block_count() {
        let place = ProblemPlace {
            level: Some(0),
            index: Some(index),
            ..ProblemPlace::NONE
        };
        // Unreadable blocks were reported with the files of the aggregate.
        let Some(block) = tree::leaf_at(aggregate, inode, index).ok()? else {
            break;
        };
        let entries = match release::decode(&block) {
            Ok(entries) => entries,
            Err(damage) => {
                findings.damage(Kind::ReleaseEntry, &object, place, &damage);
                return None;
            }
        };
        // The first block without entries ends the file.
        if entries.is_empty() {
            break;
        }
        for (number, vvbn) in (index * RELEASES_PER_BLOCK as u64..).zip(entries) {
            if vvbn <= last {
                let expected = format_args!("a vvbn above {last}");
                findings.add(Kind::ReleaseEntry, &object, place, expected, vvbn);
                return None;
            }
            last = vvbn;
            if number >= done {
                waiting.push(vvbn);
            }
        }
    }
    Some(waiting)
}

/// Blocks of the snapmaps of the victims of the pass, indirect blocks included.
pub(super) fn snapmaps<'i>(
    fs: &FileSystem<'_>,
    victims: impl Iterator<Item = &'i Inode>,
) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for map in victims {
        let mut row = vec![map.root];
        for level in (0..=map.levels).rev() {
            row.retain(|pointer| pointer.has_block() && found.insert(pointer.vvbn.0));
            if level == 0 {
                break;
            }
            // Unreadable blocks were reported with the victim.
            let blocks = row.iter().filter_map(|pointer| fs.read(pointer).ok());
            let below = blocks.flat_map(|block| {
                (0..SPAN).filter_map(move |slot| Indirect(&block).pointer(slot, Layer::Volume).ok())
            });
            row = below.collect();
        }
    }
    found
}
