//! The storage engine: aggregates, volumes, trees, handlers, consistency points, allocation,
//! reclamation.
//!
//! All reactors share an [`Engine`]. Each reactor has a [`Core`], which implements
//! [`everglade_target::Target`] for the sessions of that reactor. The engine never blocks and never
//! asks the operating system for anything: everything comes through [`everglade_env::Outside`], so
//! the whole engine runs in the seeded simulation as it does on real threads.
//!
//! The life of a 4 KiB write: [`Core::submit`](everglade_target::Target::submit) makes it an
//! operation and enters the stripe affinity of its block inline. `ops::write` is admitted, leaves
//! its page in the stripe's overlay and is done. Within seconds a consistency point freezes the
//! overlays (`cp::freeze`), gives the page a vvbn and a pvbn and writes it (`cp::clean`), writes
//! the metadata that names this place (`cp::finish`, `cp::maps`) and commits with the superblock
//! (`cp::commit`). A flush waits for the journal, or for that commit.
//!
//! The rooms, the lowest room in the first line. A room imports only lower rooms, which are in
//! earlier lines of this table; `cargo xtask tidy` keeps the order.
//!
//! | room | holds |
//! | --- | --- |
//! | `read` | from a pointer to its page: load phase, tree walk, shortcuts, redirects |
//! | `media` | between pvbn and device: places, writer, device share, host space, healing |
//! | `tree` | files under change, directories, notes |
//! | `change` | what administrators ask for, and why a change is refused |
//! | `holders` | who holds a block: history, plans, counts, snapshot table, fold |
//! | `pool` | what reactors share of aggregates, volumes, LUNs, images; overlays, space, journal |
//! | `alloc` | the file system under change; which numbers are used and freed |
//! | `mend` | damaged metadata is derived from the rest |
//! | `home` | what one aggregate's consistency points own: `Home`, `Run`, publication |
//! | `background` | passes that follow a request: shrink, scan, split, LUN clone; their turns |
//! | `snapshot` | what a consistency point does to images: restore, LUN restore, clone |
//! | `admin` | the verbs of administrators, executed in the freeze |
//! | `ops` | client operations |
//! | `cp` | the phases of a consistency point |
//! | `mount` | from devices to a `Home` |
//! | `shared`, `reactor` | what reactors share; one reactor's loop |
//!
//! The owner of each kind of state:
//!
//! | state | touched by |
//! | --- | --- |
//! | overlays | who is in the stripe, or above it |
//! | committed roots, LUN and volume tables | changed in the Aggregate affinity, read by anyone |
//! | trees being changed, maps, names, areas | the home reactor of the aggregate |
//! | page cache, admission counters | anyone |

pub mod admin;
mod alloc;
mod background;
mod change;
mod cp;
mod holders;
mod home;
mod media;
mod mend;
mod mount;
mod open;
mod ops;
mod pool;
mod reactor;
mod read;
mod shared;
mod snapshot;
mod tree;

pub use crate::cp::freeze::RECLAIM_REGIONS;
pub use crate::holders::table::Counts as ScanCounts;
pub use crate::media::copies::{CatchUpInfo, CopiesInfo, DriveFaults};
pub use crate::media::devices::StripesInfo;
pub use crate::media::host::HOST_MARGIN_BYTES;
pub use crate::media::next::NextGeometry;
pub use crate::mount::copies::LostCopy;
pub use crate::mount::create::{
    CreateError, ParityPlan, Plan, check_sizes, create, host_bytes, usual_half_blocks,
};
pub use crate::mount::grow_error::GrowError;
pub use crate::mount::labels::Expected;
pub use crate::mount::opening::Opening;
pub use crate::mount::refusal::Refusal;
pub use crate::mount::wanted::{Growth, GrowthInfo};
pub use crate::pool::aggregate::State;
pub use crate::pool::cpu::Subsystem;
pub use crate::pool::garden::{
    AfterReadInfo, CleaningInfo, GardenInfo, GardeningState, LayoutInfo, LayoutPart, RebalanceInfo,
    SpaceMapInfo,
};
pub use crate::pool::info::{LunCloneInfo, ScanInfo, SnapshotInfo, SplitInfo, SplitState};
pub use crate::pool::limit::{LimitInfo, LimitSettings};
pub use crate::pool::log::{JournalInfo, RecoveryInfo};
pub use crate::pool::lost::{DamageLine, LostInfo};
pub use crate::pool::mended::{MendedInfo, RepairInfo, RepairState};
pub use crate::pool::refused::RefusedInfo;
pub use crate::pool::removal::{RemovalInfo, RemovalPlan};
pub use crate::pool::scrub::{ScrubInfo, ScrubState};
pub use crate::pool::shares::Waits;
pub use crate::pool::space::{RESERVE_PART, Usage};
pub use crate::pool::space_map::{ExtentMap, FreeRuns, SpaceMap, StripesMap};
pub use crate::pool::trash::{PurgedInfo, TrashInfo};
pub use crate::pool::trigger::{Cleaned, CpCounts, PHASE_BOUNDS, PhaseTimes};
pub use crate::pool::volume_info::{VolumeId, VolumeInfo};
pub use crate::reactor::{AdminDone, Core, Joined};
pub use crate::shared::{
    AggregateInfo, DRIVE_TIMEOUT, Engine, Found, LUNS_TOGETHER, LunInfo, MemberInfo, Options,
    SHARE_DEPTH, STAGE_BLOCKS,
};
pub use crate::tree::notes::Unreadable;
