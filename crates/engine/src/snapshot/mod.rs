//! Snapshots of a volume (S003 §5, F-01 … F-16, docs/design/snapshots.md): what a consistency point
//! does to images.
//!
//! A snapshot is the volume's root as of one consistency point. Creating one copies a few hundred
//! bytes. The cost comes later, when the active image frees blocks that the snapshot holds:
//!
//! ```text
//! active map ──first change of a block since the parent──▶ OR its old bits into the summary map
//! free(v)    ──summary bit set──▶ clear only the active map's bit: a snapshot holds v
//!            ──summary bit clear──▶ punch the container, free the pvbn
//! delete     ──scan──▶ clear summary bits that only the victims hold,
//!                      punch what the active image does not have
//! ```
//!
//! Summary map, snapshot table and release file are files of the aggregate, outside the volume's
//! vvbn space. They are therefore in no snapshot, changing them frees no vvbn (there are no chains
//! of F-09), and restoring a snapshot does not take them back in time.
//!
//! 1. *Coverage* (Theorems 1 and 2): a block of a snapshot is in the active map or in the summary
//!    map, or the snapshot is marked unfolded and the block is in its snapmap. Any code that
//!    changes a block of the active map makes this true first ([`crate::holders::fold`]).
//! 2. *Connected holders* (generalises Lemma 3): the holders of a block, snapshots and the active
//!    image, are connected in the history tree ([`crate::holders::history`]).
//! 3. A vvbn is free exactly if neither map has it; then its slot of the container is a hole.
//! 4. `exclusive` of a node counts the blocks that it alone holds. The count is exact after every
//!    consistency point that ends without a delete scan under way. During a scan it is, for each
//!    block, the number before or the number after.
//!
//! | file | what |
//! | --- | --- |
//! | [`restore`] | the image of a snapshot becomes the active one |
//! | [`lun`] | one LUN becomes what it was in a snapshot |
//! | [`clone`] | a volume begins as a snapshot of another |
//! | [`crate::holders`] | who holds a block; the snapshots' records |
//! | [`crate::background`] | fold, delete and release scans; splitting clones; cloning LUNs |
//! | [`crate::admin::snapshot`] | the verbs of administrators |
//! | [`crate::pool::image`], [`crate::pool::info`] | a snapshot's LUNs for clients, facts for people |

pub(crate) mod clone;
pub(crate) mod lun;
pub(crate) mod restore;
