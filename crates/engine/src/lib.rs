//! The storage engine: aggregates, volumes, trees, handlers, consistency points, allocation, reclamation.
//!
//! An [`Engine`] is what all reactors share; each has a [`Core`], which implements
//! [`everglade_target::Target`] for the sessions of that reactor. The engine never blocks and never asks the
//! operating system for anything: everything comes through [`everglade_env::Outside`], so the whole of it runs
//! under the seeded simulation as it does on real threads.
//!
//! The life of a 4 KiB write: [`Core::submit`](everglade_target::Target::submit) makes it an operation and
//! enters the stripe affinity of its block inline; `ops::write` is admitted, leaves its page in the stripe's
//! overlay and is done. Within seconds a consistency point freezes the overlays (`cp::freeze`), gives the page
//! a vvbn and a pvbn and writes it (`cp::clean`), writes the metadata that says so (`cp::finish`, `cp::maps`)
//! and commits with the superblock (`cp::commit`). A flush waits for that.
//!
//! Chapters: `reactor` runs everything · `ops` what clients ask for · `volume` overlays and roots · `cp` the
//! consistency point · `snapshot` images that stay · `tree` block trees · `alloc` block numbers · `aggregate` what is shared about a pool.
//!
//! Which state belongs to whom:
//!
//! | state | touched by |
//! | --- | --- |
//! | overlays | who is in the stripe, or above it |
//! | committed roots, LUN and volume tables | changed in the Aggregate affinity, read by anyone |
//! | trees being changed, maps, names, areas | the home reactor of the aggregate |
//! | page cache, admission counters | anyone |

pub mod admin;
mod aggregate;
mod alloc;
mod cp;
mod filesystem;
mod load;
mod mend;
mod names;
mod notes;
mod ops;
mod reactor;
mod rename;
mod shared;
mod snapshot;
mod tree;
mod volume;

pub use aggregate::State;
pub use aggregate::create::{CreateError, Plan, create, usual_half_blocks};
pub use aggregate::labels::{Expected, Refusal};
pub use aggregate::log::{JournalInfo, RecoveryInfo};
pub use aggregate::lost::LostInfo;
pub use aggregate::space::Usage;
pub use cp::freeze::RECLAIM_REGIONS;
pub use cp::trigger::{CpCounts, PHASE_BOUNDS, PhaseTimes};
pub use mend::info::{MendedInfo, ScrubInfo};
pub use notes::Unreadable;
pub use reactor::{AdminDone, Core, Joined};
pub use shared::{AggregateInfo, Engine, LunInfo, Options, VolumeId, VolumeInfo};
pub use snapshot::info::{LunCloneInfo, ScanInfo, SnapshotInfo, SplitInfo, SplitState};
pub use snapshot::table::Counts as ScanCounts;
