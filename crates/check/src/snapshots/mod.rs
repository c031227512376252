//! Snapshots of a volume, and their effect on its blocks.
//!
//! ```text
//! superblock ─▶ table ─▶ records, history
//!   ├▶ one image after the other, by difference     (image, pair)
//!   └▶ for each map block, all maps side by side    (holders, column)
//! ```
//!
//! **Holders.** A vvbn is *held* by the active image if its map has the bit, and by a snapshot if
//! its snapmap has, unless the snapshot is gone, or is a victim of the delete pass and the pass is
//! beyond the vvbn. These rules are about holders:
//!
//! 1. Each image by itself satisfies Definition 1. The image of a victim need not: blocks that the
//!    pass released may have been used again. Only the victim's snapmap is needed, and it must be
//!    whole.
//! 2. *Coverage*: a block that a snapshot holds is in the summary map; or in the snapmap of a
//!    snapshot that is marked unfolded; or in an unchanged block of the active map: still the
//!    snapmap block of the nearest ancestor of the active image that holds anything there. Before
//!    such a block of the active map changes for the first time, its bits are copied to the summary
//!    map. It is not enough
//!    that the active image holds the block, because the active image may free it.
//! 3. Bits of the summary map are of blocks that a snapshot holds, of victims' snapmaps (to the end
//!    of the pass), or of entries of the release file that the scan has not reached. Any other bit
//!    would keep a free block from being used.
//! 4. A slot of the container is no hole exactly if active map, summary map or an unfolded snapmap
//!    has the vvbn. Blocks that a clone's base holds are exempt, except vvbn 1: below the place of
//!    the clone's split all of them have slots, above it none has.
//! 5. Holders of a vvbn are connected in the history. A snapshot that holds nothing there joins its
//!    neighbours.
//! 6. A block is exclusive to an image exactly if that image is its only holder.

mod column;
mod holders;
mod image;
mod pair;
mod release;
mod table;

use std::collections::BTreeSet;
use std::rc::Rc;

use everglade_format::snapshot::State;
use everglade_format::volume::Scan;
use everglade_format::{Inode, Kind as FileKind, VolumeSuperblock};

use crate::bad::BadBlocks;
use crate::clones::Clones;
use crate::files::Files;
use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::report::Counts;
use crate::sides::Sides;
pub(crate) use image::Strays;
use image::{Image, Pool};
use table::Table;

/// A volume whose active image was verified.
pub(crate) struct Volume<'v> {
    pub(crate) fs: &'v FileSystem<'v>,
    pub(crate) superblock: &'v VolumeSuperblock,
    /// The files of the active image.
    pub(crate) files: &'v Files,
    /// The files of the aggregate.
    pub(crate) aggregate_files: &'v Files,
}

/// Verifies everything about the snapshots of a volume. `strays` are the blocks for which the
/// active image does not satisfy Definition 1.
pub(crate) fn check(
    volume: &Volume<'_>,
    strays: Strays,
    (sides, clones): &mut (&mut Sides, &mut Clones),
    bad: &mut BadBlocks,
    findings: &mut Findings,
    counts: &mut Counts,
) {
    let roots = &volume.superblock.snapshots;
    let object = volume.fs.object();
    let mut side = |id, kind, findings: &mut Findings| {
        sides.take(volume.aggregate_files, &object, (id, kind), findings)
    };
    let release = roots
        .release
        .map(|id| side(id, FileKind::Release, findings));
    let Some((summary, table)) = roots.files else {
        table::check_roots_of_none(volume, findings);
        return;
    };
    let summary = side(summary, FileKind::Summary, findings);
    let table = side(table, FileKind::Snapshots, findings);
    let Some(table) = table.and_then(|table| table::read(volume, table, findings)) else {
        clones
            .unread
            .extend(volume.fs.inside.as_ref().map(|inside| inside.volume));
        return;
    };
    table.check(volume, findings);
    if let Some(inside) = &volume.fs.inside {
        clones.add_volume((inside.container, object), roots.base, &table.records);
    }
    counts.scans += u64::from(roots.scan != Scan::None);
    for record in &table.records {
        counts.snapshots += u64::from(record.state == State::Live);
        counts.snapshots_deleting += u64::from(record.state == State::Deleting);
    }
    let map_blocks = check_images(volume, &table, strays, bad, findings);
    // Further checks would only repeat that the maps are not known.
    let (Some(summary), Some(release)) = (
        summary,
        release
            .unwrap_or(None)
            .map_or(roots.release.is_none().then_some(None), |it| Some(Some(it))),
    ) else {
        return;
    };
    let side_files = SideFiles { summary, release };
    holders::check(volume, &table, &side_files, map_blocks, findings);
}

/// Side files that the holders' maps are compared with.
struct SideFiles<'s> {
    summary: &'s Inode,
    release: Option<&'s Inode>,
}

/// Verifies each image by its difference to a neighbour in the history that was verified before,
/// beginning with the active one. Returns the map blocks that any of them has.
fn check_images(
    volume: &Volume<'_>,
    table: &Table,
    strays: Strays,
    bad: &mut BadBlocks,
    findings: &mut Findings,
) -> BTreeSet<u64> {
    let mut pool = Pool::new(volume, bad);
    let active = Rc::new(Image::of_active(volume, strays));
    let mut waiting = vec![(table.records.len(), Some(active.clone()))];
    let mut seen = vec![false; table.records.len() + 1];
    let near = table.neighbours();
    let mut unseen = 0;
    loop {
        let Some((node, image)) = waiting.pop() else {
            // If the history is broken, the remaining images have no neighbour to be compared with.
            while unseen < seen.len() && seen[unseen] {
                unseen += 1;
            }
            if unseen == seen.len() {
                break;
            }
            waiting.push((unseen, None));
            continue;
        };
        if std::mem::replace(&mut seen[node], true) {
            continue;
        }
        let image = match table.records.get(node) {
            Some(record) if table::has_image(record) => {
                Some(Rc::new(pool.check(record, image.as_deref(), findings)))
            }
            Some(record) if record.is_in_pass => {
                pool.check_snapmap(record, findings);
                image
            }
            // The active image is verified already. Snapshots that are gone pass on the image that
            // they were given.
            _ => image,
        };
        let next = near[node].iter().filter(|near| !seen[**near]);
        waiting.extend(next.map(|near| (*near, image.clone())));
    }
    pool.map_blocks
}
