//! Offline verifier: reads an aggregate and reports everything that is wrong with it.
//!
//! The verifier shares only `format` with the engine, so that one misunderstanding cannot be in
//! both. It reads through [`everglade_env::Storage`], so it runs over real devices and over
//! simulated ones alike, and it never writes.
//!
//! labels --> journal labels --> walk of the aggregate's trees --> per window of pvbn space:
//! Definition 1, contexts, contents --> per volume, per window of vvbn space: Definition 1,
//! container ↔ volume --> its snapshots: each image by its difference to a neighbour, then all maps
//! side by side
//!
//! 1. *Walk* (`files`, `tree`): from the newest superblock down, each block that is read is
//!    compared with the tag in its parent, then with the header that it must have. Pointers of a
//!    block that does not match are not followed. The walk descends from a block only if its header
//!    names the expected file, level and index, and levels fall. So the walk also ends in damaged
//!    trees that overlap or point back at themselves.
//! 2. *Usage* (`usage`): all references, sorted by block number, are merged with the active map
//!    (Definition 1) and, in volumes, with the container map.
//! 3. *Contents* (`contents`): leaves of containers and of the overflow file are read in the order
//!    of the device, in runs up to 1 MiB, and compared with their tags. Each block of a group of
//!    drives is compared on every drive that is current.
//!
//! 4. *Journal* (`journal`): the operations that the next start will replay are counted. They do
//!    not change the results above, which are about the consistency point on media.
//!
//! 5. *Snapshots* (`snapshots`): images share most blocks, and the verifier reads shared blocks
//!    once.
//!
//! Memory: 40 bytes for each used block of one window (16 Mi blocks, 64 GiB); a larger aggregate is
//! walked once per window, its findings reported the first time only. One block of every snapshot's
//! map, at most 32 MiB. Eight bytes for each record of the journal. No other memory depends on what
//! the media contain.
//!
//! If a part cannot be read, problems that merely follow from it are not reported, such as blocks
//! that seem lost and files that seem unnamed.

mod aggregate;
mod bad;
mod clones;
mod contents;
pub mod describe;
mod files;
mod filesystem;
mod findings;
mod inodes;
mod journal;
mod labels;
mod media;
mod names;
mod notes;
pub mod problem;
mod reference;
pub mod report;
mod rows;
mod side_kinds;
mod sides;
mod snapshots;
mod superblock;
mod tree;
mod unreadable;
mod usage;
mod volume;

pub use describe::Description;
pub use problem::{Kind, Object, Problem, ProblemPlace};
pub use report::{Counts, Journal, Member, Phase, Progress, Report};
pub use unreadable::Unreadable;

use everglade_env::{DeviceId, Storage};

/// Verifies the aggregate that lives on `devices` (its members, in any order). Members that their
/// groups can spare may be absent.
///
/// # Errors
/// The labels do not lead to a superblock, or a member is missing that no group can spare, so the
/// rest cannot be verified.
pub fn check(
    storage: &dyn Storage,
    devices: &[DeviceId],
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, Unreadable> {
    let mut findings = findings::Findings::new();
    let labels = labels::read(storage, devices, &mut findings)?;
    let journal = journal::check(storage, &labels, &mut findings);
    let media = media::Media::new(storage, &labels);
    let counts = aggregate::check(&media, &labels, &mut findings, progress);
    Ok(Report::new(&labels, counts, journal, findings))
}
