//! The grammar: `everglade NOUN VERB OBJECT [--option]`. What a verb does is in the file of its noun.

mod clone;
mod policy;
mod snapshot;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use everglade_api::{LunName, Name, Size, SnapshotName};

pub(crate) use clone::{CloneCreate, CloneVerb, SplitStart, SplitVerb};
pub(crate) use policy::{PolicyCreate, PolicyVerb};
pub(crate) use snapshot::{
    SnapshotDiff, SnapshotHold, SnapshotRestore, SnapshotScan, SnapshotShow, SnapshotVerb,
};

/// Verbs that need a running daemon.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Create, show, rename and delete aggregates, the pools of devices
    Aggregate {
        /// What to do.
        #[command(subcommand)]
        verb: AggregateVerb,
    },
    /// Create, show, rename and delete volumes, which hold LUNs
    Volume {
        /// What to do.
        #[command(subcommand)]
        verb: VolumeVerb,
    },
    /// Create, show, resize, rename and delete LUNs, the disks for clients
    Lun {
        /// What to do.
        #[command(subcommand)]
        verb: LunVerb,
    },
    /// Take, show, rename, delete, compare, restore and hold snapshots, the kept images of volumes
    Snapshot {
        /// What to do.
        #[command(subcommand)]
        verb: SnapshotVerb,
    },
    /// Make, show and split clones, volumes that begin as a snapshot of another
    Clone {
        /// What to do.
        #[command(subcommand)]
        verb: CloneVerb,
    },
    /// Say which snapshots volumes get by themselves, and how many of them stay
    Policy {
        /// What to do.
        #[command(subcommand)]
        verb: PolicyVerb,
    },
    /// Look at work that goes on after its request was answered, and wait for it
    Job {
        /// What to do.
        #[command(subcommand)]
        verb: JobVerb,
    },
    /// Show what happened lately, or listen to what happens
    Event {
        /// What to do.
        #[command(subcommand)]
        verb: EventVerb,
    },
    /// Show every administrative change: who, when, what
    History(HistoryShow),
    /// Say whether all is well and, where it is not, what to do
    #[command(after_help = "Exit code: 0 well or a warning, 8 something does not work.")]
    Status,
    /// Show where the space is
    Df(Df),
    /// Watch what goes on, live
    Top(Top),
}

/// How to show a list.
#[derive(Clone, Debug, Default, Args)]
pub struct Listing {
    /// Columns to show, with commas between; 'all' shows every one there is
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub columns: Vec<String>,

    /// Show only rows for which this holds: COLUMN=VALUE, also with !=, <, <=, >, >= and ~ (contains); may be
    /// repeated, and all must hold
    #[arg(long = "where", value_name = "CONDITION")]
    pub filters: Vec<String>,

    /// Sort by these columns; with a '-' in front, downwards
    #[arg(
        long,
        value_name = "COLUMN,…",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub sort: Vec<String>,

    /// Print no heading
    #[arg(long)]
    pub no_header: bool,

    /// Print sizes in bytes
    #[arg(long)]
    pub exact: bool,
}

/// How to remove something.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Removal {
    /// Only say what would be lost
    #[arg(long)]
    pub dry_run: bool,

    /// Wait until the space is given back
    #[arg(long)]
    pub wait: bool,
}

/// Verbs of `aggregate`.
#[derive(Debug, Subcommand)]
pub enum AggregateVerb {
    /// Make an aggregate of devices
    Create(AggregateCreate),
    /// List all aggregates, or show one with its devices
    #[command(visible_alias = "list")]
    Show(Show),
    /// Give an aggregate another name
    Rename(AggregateRename),
    /// Say what to do instead: an aggregate cannot grow yet
    #[command(hide = true)]
    Resize(AggregateResize),
    /// Delete an aggregate and clear its devices; needs --yes
    Delete(AggregateDelete),
}

/// Options of `aggregate rename`.
#[derive(Debug, Args)]
#[command(after_help = "Its folder in the data directory, if it has one, keeps its first name.")]
pub struct AggregateRename {
    /// Which
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// The new name, unique in the daemon
    #[arg(value_name = "NEW")]
    pub to: Name,
}

/// Options of `aggregate resize`, which tells whoever looks for it what there is instead.
#[derive(Debug, Args)]
pub struct AggregateResize {
    /// Which
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// Of what size
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
}

/// Options of `aggregate delete`.
#[derive(Debug, Args)]
#[command(
    after_help = "Directories keep nothing of it; files and block devices lose its labels, and can be used again."
)]
pub struct AggregateDelete {
    /// Which
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// Also if it has volumes, which are lost, or cannot be opened, so that nobody knows
    #[arg(long)]
    pub discard_volumes: bool,

    /// Only say what would be lost
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `aggregate create`.
#[derive(Debug, Args)]
#[command(after_help = "A file or block device that holds data is overwritten only with --yes.")]
pub struct AggregateCreate {
    /// Name of the new aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// How devices protect each other; this version knows none
    #[arg(long, value_enum, default_value_t = Raid::None, hide_possible_values = true)]
    pub raid: Raid,

    /// Empty directories, regular files or block devices [default: a directory in the data directory]
    #[arg(long, value_name = "PATH,PATH,…", value_delimiter = ',')]
    pub devices: Vec<PathBuf>,

    /// Size of each device that is a directory; space is taken only as it is used [default: 64GiB in the data
    /// directory]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,

    /// One more device, for the journal alone [default: the journal is on the first device]
    #[arg(long, value_name = "PATH")]
    pub journal_device: Option<PathBuf>,

    /// Size of each half of the journal, 16MiB to 4GiB [default: 2 % of the aggregate, 16MiB to 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub journal_half: Option<Size>,

    /// Only say what would be made, and what would be lost
    #[arg(long)]
    pub dry_run: bool,
}

/// How devices protect each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Raid {
    /// They do not.
    None,
}

/// Verbs of `volume`.
#[derive(Debug, Subcommand)]
pub enum VolumeVerb {
    /// Make an empty volume
    Create(VolumeCreate),
    /// List all volumes, or show one
    #[command(visible_alias = "list")]
    Show(Show),
    /// Give a volume another name
    Rename(VolumeRename),
    /// Delete a volume with all its LUNs and snapshots; needs --yes
    Delete(VolumeDelete),
}

/// Options of `volume create`.
#[derive(Debug, Args)]
pub struct VolumeCreate {
    /// Name of the new volume, unique in the daemon
    #[arg(value_name = "VOLUME")]
    pub name: Name,

    /// Where to make it [default: the only aggregate]
    #[arg(long, value_name = "AGGREGATE")]
    pub aggregate: Option<Name>,

    /// When writes count as done: when the client flushes, or each at once
    #[arg(long, value_enum, default_value_t = SyncOption::Standard)]
    pub sync: SyncOption,

    /// Which snapshots it gets by itself: a policy, or 'none' [default: that of the configuration]
    #[arg(long, value_name = "POLICY")]
    pub snapshot_policy: Option<Name>,

    /// Do nothing if it exists with the same settings
    #[arg(long)]
    pub if_missing: bool,
}

/// When writes count as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SyncOption {
    /// When the client flushes.
    Standard,
    /// Each at once.
    Always,
}

/// Options of `volume rename`.
#[derive(Debug, Args)]
#[command(
    after_help = "Clients that are connected go on; who connects from now on needs the new name. Snapshots and the \
    snapshot policy stay with the volume."
)]
pub struct VolumeRename {
    /// Which
    #[arg(value_name = "VOLUME")]
    pub name: Name,

    /// The new name, unique in the daemon
    #[arg(value_name = "NEW")]
    pub to: Name,
}

/// Options of `volume delete`.
#[derive(Debug, Args)]
pub struct VolumeDelete {
    /// Which
    #[arg(value_name = "VOLUME")]
    pub name: Name,

    /// How to remove it.
    #[command(flatten)]
    pub removal: Removal,
}

/// Verbs of `lun`.
#[derive(Debug, Subcommand)]
pub enum LunVerb {
    /// Make a thin LUN
    Create(LunCreate),
    /// List all LUNs, those of a volume, or show one
    #[command(visible_alias = "list")]
    Show(LunShow),
    /// Make a LUN larger, while clients use it, or smaller; smaller needs --yes
    Resize(LunResize),
    /// Give a LUN another name, in the same volume
    Rename(LunRename),
    /// Make another LUN that begins with the same blocks, in the background
    Clone(LunClone),
    /// Delete a LUN; needs --yes
    Delete(LunDelete),
}

/// Options of `lun create`.
#[derive(Debug, Args)]
pub struct LunCreate {
    /// The new LUN
    #[arg(value_name = "VOLUME/LUN")]
    pub name: LunName,

    /// What clients will see; space is taken only as it is written
    #[arg(long, value_name = "SIZE")]
    pub size: Size,

    /// Do nothing if it exists with the same size
    #[arg(long)]
    pub if_missing: bool,
}

/// Options of `lun show`.
#[derive(Debug, Args)]
pub struct LunShow {
    /// Which [default: all]
    #[arg(value_name = "VOLUME[/LUN]")]
    pub name: Option<String>,

    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `lun resize`.
#[derive(Debug, Args)]
pub struct LunResize {
    /// Which
    #[arg(value_name = "VOLUME/LUN")]
    pub name: LunName,

    /// The new size; what lies beyond it is lost
    #[arg(long, value_name = "SIZE")]
    pub size: Size,

    /// Only say what would happen, and what would be lost
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `lun rename`.
#[derive(Debug, Args)]
#[command(
    after_help = "Clients that are connected go on; who connects from now on needs the new name. Snapshots keep the \
    name that the LUN had."
)]
pub struct LunRename {
    /// Which
    #[arg(value_name = "VOLUME/LUN")]
    pub name: LunName,

    /// The new name, without the volume
    #[arg(value_name = "NEW")]
    pub to: Name,
}

/// Options of `lun clone`.
#[derive(Debug, Args)]
#[command(
    after_help = "The clone shares the LUN's blocks until either is overwritten. It is what the LUN was when it was asked \
    for, and clients see it when all of it is there; 'job cancel' ends it before."
)]
pub struct LunClone {
    /// What to clone
    #[arg(value_name = "VOLUME/LUN")]
    pub name: LunName,

    /// What the clone is called, in the same volume
    #[arg(value_name = "VOLUME/NEW")]
    pub to: LunName,

    /// Clone the LUN as it was in this snapshot of the volume
    #[arg(long, value_name = "VOLUME@SNAPSHOT")]
    pub from: Option<SnapshotName>,

    /// Return when it is there
    #[arg(long)]
    pub wait: bool,
}

/// Options of `lun delete`.
#[derive(Debug, Args)]
pub struct LunDelete {
    /// Which
    #[arg(value_name = "VOLUME/LUN")]
    pub name: LunName,

    /// How to remove it.
    #[command(flatten)]
    pub removal: Removal,
}

/// Options of `aggregate show` and `volume show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Which [default: all]
    #[arg(value_name = "NAME")]
    pub name: Option<Name>,

    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `df`.
#[derive(Debug, Args)]
pub struct Df {
    /// Show volumes, with what their snapshots hold, instead of aggregates
    #[arg(long)]
    pub volumes: bool,

    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Verbs of `job`.
#[derive(Debug, Subcommand)]
pub enum JobVerb {
    /// List all jobs, or show one
    #[command(visible_alias = "list")]
    Show(JobShow),
    /// Wait until a job has ended
    Wait(JobOne),
    /// End a job early, if it can be
    #[command(
        after_help = "Splits and clones of LUNs can be. Deletions cannot: what they give back the space of is gone \
        already."
    )]
    Cancel(JobOne),
}

/// Options of `job show`.
#[derive(Debug, Args)]
pub struct JobShow {
    /// Which [default: all]
    #[arg(value_name = "ID")]
    pub id: Option<u64>,

    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `job wait` and `job cancel`.
#[derive(Debug, Args)]
pub struct JobOne {
    /// Which
    #[arg(value_name = "ID")]
    pub id: u64,
}

/// Verbs of `event`.
#[derive(Debug, Subcommand)]
pub enum EventVerb {
    /// Show what happened since the daemon began, oldest first
    #[command(visible_alias = "list")]
    Show(EventShow),
}

/// Options of `event show`.
#[derive(Debug, Args)]
pub struct EventShow {
    /// Print what happens from now on, until the daemon stops
    #[arg(long, conflicts_with_all = ["columns", "filters", "sort", "no_header", "exact"])]
    pub follow: bool,

    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `history`.
#[derive(Debug, Args)]
pub struct HistoryShow {
    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `top`.
#[derive(Debug, Args)]
pub struct Top {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub interval: u64,

    /// Stop after so many pictures [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}
