//! Snapshots of a volume (S003 §5, F-01 … F-16, DESIGN §8).
//!
//! A snapshot is the volume's root as of one consistency point. Creating one copies a few hundred bytes; what it
//! costs comes later, when the active image frees blocks that the snapshot holds:
//!
//! ```text
//! active map ──first change of a block since the parent──▶ OR its old content into the summary map  (F-05)
//! free(v)    ──summary bit set──▶ only the active map's bit goes: a snapshot holds v
//!            ──clear────────────▶ the container is punched, the pvbn freed
//! delete     ──scan──▶ clear summary bits that only the victims hold, punch what the active image does not have
//! ```
//!
//! Summary map, snapshot table and release file are files of the aggregate, outside the volume's vvbn space, so
//! they are in no snapshot, changing them frees no vvbn (there are no chains of F-09), and restoring a snapshot
//! does not take them back in time.
//!
//! 1. *Coverage* (Theorems 1 and 2): a block of a snapshot is in the active map or in the summary map, or the
//!    snapshot is marked unfolded and the block is in its snapmap. Whoever changes a block of the active map makes
//!    this true first ([`held`]).
//! 2. *Connected holders* (generalises Lemma 3): those among the active image and the snapshots that hold a block
//!    are connected in the history tree ([`history`]).
//! 3. A vvbn is free exactly if neither map has it; then its slot of the container is a hole.
//! 4. `exclusive` of a node counts the blocks that it alone holds, exactly, after every consistency point that ends
//!    without a delete scan under way; with one, it is the number before or after for each block.
//!
//! | file | what |
//! | --- | --- |
//! | [`history`] | who descends from whom |
//! | [`table`] | records, in memory and on media |
//! | [`held`] | what a block of the active map needs to know before it changes |
//! | [`plan`], [`count`] | who gains and loses blocks when a snapshot goes, and how that is found out |
//! | [`scan`] | the background passes: fold, delete, release |
//! | [`change`] | what administrators ask for |
//! | [`image`], [`info`] | the LUNs of a snapshot, for clients; facts, for people |
//! | [`restore`], [`lun`] | going back: volumes, single LUNs |
//! | [`clone`], [`split`] | volumes that begin as a snapshot of another, and get blocks of their own |
//! | [`lun_clone`] | LUNs that share another's blocks |

pub(crate) mod change;
pub(crate) mod clone;
pub(crate) mod count;
pub(crate) mod held;
pub(crate) mod history;
pub(crate) mod image;
pub(crate) mod info;
pub(crate) mod lun;
pub(crate) mod lun_clone;
pub(crate) mod plan;
pub(crate) mod restore;
pub(crate) mod scan;
pub(crate) mod split;
pub(crate) mod table;

use everglade_env::PageRef;
use everglade_format::{FileId, Inode, Layer, Pointer};

use crate::load::{LoadCx, Place, Stop};
use crate::tree::file::Position;
use crate::tree::{File, Root};

/// The place of a block of a snapmap.
pub(crate) fn snapmap_pointer(
    cx: &mut LoadCx<'_>,
    volume: Option<FileId>,
    map: &Inode,
    block: u64,
) -> Result<Pointer, Stop> {
    snapmap_place(cx, volume, map, (0, block))
}

/// The place of a block of a snapmap, or of one above.
pub(crate) fn snapmap_place(
    cx: &mut LoadCx<'_>,
    volume: Option<FileId>,
    map: &Inode,
    (level, index): Position,
) -> Result<Pointer, Stop> {
    let found = Root::of(map).pointer(cx, Layer::Volume, level, index);
    match found {
        // Which block it was is found out by going there once more.
        Err(Stop::Damaged(_)) => {
            let map = File::new(map.clone(), Layer::Volume).of(volume);
            map.pointer(cx, level, index)
        }
        found => found,
    }
}

/// A block of a snapmap; nothing where the map has a hole or ends.
pub(crate) fn snapmap_block(
    cx: &mut LoadCx<'_>,
    volume: Option<FileId>,
    map: &Inode,
    block: u64,
) -> Result<Option<PageRef>, Stop> {
    let pointer = snapmap_pointer(cx, volume, map, block)?;
    if pointer.is_hole() {
        return Ok(None);
    }
    let place = Place {
        volume,
        file: map.id,
        level: 0,
        index: block,
    };
    let page = cx.page(pointer).map_err(|stop| stop.at(place, pointer))?;
    Ok(Some(page))
}
