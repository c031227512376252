//! The grammar: `everglade NOUN VERB OBJECT [--option]`. What a verb does is in the file of its
//! noun.

mod clone;
mod garden;
mod host;
mod moving;
mod policy;
mod qos;
mod snapshot;
mod token;
mod trash;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use everglade_api::{Comment, LunName, Name, Size, SnapshotName};

pub(crate) use clone::{CloneCreate, CloneVerb, SplitStart, SplitVerb};
pub(crate) use garden::{GardenLayout, GardenMap, GardenOf, GardenVerb};
pub(crate) use host::{HostGroupVerb, HostVerb, MappingVerb, SessionVerb};
pub(crate) use moving::{AggregateExport, AggregateImport};
pub(crate) use policy::{PolicyCreate, PolicyVerb};
pub(crate) use qos::{QosObject, QosPolicyVerb, QosVerb};
pub(crate) use snapshot::{
    SnapshotDelete, SnapshotDiff, SnapshotHold, SnapshotRestore, SnapshotScan, SnapshotShow,
    SnapshotVerb,
};
pub(crate) use token::TokenVerb;
pub(crate) use trash::{LunUndelete, SnapshotUndelete, TrashEmpty, TrashVerb, VolumeUndelete};

/// Verbs that need a running daemon.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Manage aggregates, the pools of devices
    Aggregate {
        /// What to do.
        #[command(subcommand)]
        verb: AggregateVerb,
    },
    /// Manage volumes, which hold LUNs
    Volume {
        /// What to do.
        #[command(subcommand)]
        verb: VolumeVerb,
    },
    /// Manage LUNs, the disks for clients
    Lun {
        /// What to do.
        #[command(subcommand)]
        verb: LunVerb,
    },
    /// Manage snapshots, the kept images of volumes
    Snapshot {
        /// What to do.
        #[command(subcommand)]
        verb: SnapshotVerb,
    },
    /// Manage clones, writable volumes that begin as a snapshot
    Clone {
        /// What to do.
        #[command(subcommand)]
        verb: CloneVerb,
    },
    /// Show what was deleted and can come back, or delete it for good
    Trash {
        /// What to do.
        #[command(subcommand)]
        verb: TrashVerb,
    },
    /// Keep free space whole and data in order
    Garden {
        /// What to do.
        #[command(subcommand)]
        verb: GardenVerb,
    },
    /// Manage limits and weights of LUNs and volumes, so that a busy client leaves others theirs
    Qos {
        /// What to do.
        #[command(subcommand)]
        verb: QosVerb,
    },
    /// Manage policies that limits follow
    QosPolicy {
        /// What to do.
        #[command(subcommand)]
        verb: QosPolicyVerb,
    },
    /// Manage hosts: what the connections of a client are known by
    Host {
        /// What to do.
        #[command(subcommand)]
        verb: HostVerb,
    },
    /// Manage groups of hosts
    HostGroup {
        /// What to do.
        #[command(subcommand)]
        verb: HostGroupVerb,
    },
    /// Manage which hosts may use which LUNs
    Mapping {
        /// What to do.
        #[command(subcommand)]
        verb: MappingVerb,
    },
    /// Show who is connected, and to which LUN
    Session {
        /// What to do.
        #[command(subcommand)]
        verb: SessionVerb,
    },
    /// Manage tokens: what callers from elsewhere prove who they are with
    Token {
        /// What to do.
        #[command(subcommand)]
        verb: TokenVerb,
    },
    /// Manage automatic snapshot schedules
    Policy {
        /// What to do.
        #[command(subcommand)]
        verb: PolicyVerb,
    },
    /// Show background jobs, wait for them, or cancel them
    Job {
        /// What to do.
        #[command(subcommand)]
        verb: JobVerb,
    },
    /// Show recent events, or follow new ones
    Event {
        /// What to do.
        #[command(subcommand)]
        verb: EventVerb,
    },
    /// Show every administrative change: who, when, what
    History(HistoryShow),
    /// Show the health of the server, and what to do about problems
    #[command(after_help = "Exit code: 0 healthy or a warning, 8 something does not work.")]
    Status,
    /// Show how space is used
    Df(Df),
    /// Show activity, live
    Top(Top),
}

/// How to show a list.
#[derive(Clone, Debug, Default, Args)]
pub struct Listing {
    /// Columns to show, separated by commas; 'all' shows every column. With --json, these are the
    /// fields of each row, with the unit in the name, such as size_bytes
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub columns: Vec<String>,

    /// Show only rows that match: COLUMN=VALUE, also with !=, <, <=, >, >= and ~ (contains), such
    /// as 'size>=1.5GiB' or 'created<2026-11-25'; if repeated, a row must match all
    #[arg(long = "where", value_name = "CONDITION")]
    pub filters: Vec<String>,

    /// Sort by these columns; a '-' in front means descending
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
    /// Show what would be lost; change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Wait until the space is free
    #[arg(long)]
    pub wait: bool,
}

/// Verbs of `aggregate`.
#[derive(Debug, Subcommand)]
pub enum AggregateVerb {
    /// Create an aggregate from devices
    Create(AggregateCreate),
    /// List all aggregates, or show one with its devices
    #[command(visible_alias = "list")]
    Show(Show),
    /// Rename an aggregate
    Rename(AggregateRename),
    /// Add devices to an aggregate; clients go on working
    Add(AggregateAdd),
    /// Make an aggregate larger with its devices; clients go on working
    Resize(AggregateResize),
    /// Put a new drive into the place of a drive of a mirror; clients go on working
    Replace(AggregateReplace),
    /// Empty a device, or a group of drives, and remove it; clients go on working
    Remove(AggregateRemove),
    /// Move blocks from fuller devices to emptier ones; clients go on working
    Rebalance(AggregateRebalance),
    /// Keep drives that take the place of drives of mirrors that fail
    Spare {
        /// What to do.
        #[command(subcommand)]
        verb: SpareVerb,
    },
    /// Read every block in use from every drive, and mend what one of them has wrong
    Scrub {
        /// What to do.
        #[command(subcommand)]
        verb: ScrubVerb,
    },
    /// Stop an aggregate and close its devices, to move it; nothing is lost
    Export(AggregateExport),
    /// Take up an aggregate that is on these devices
    Import(AggregateImport),
    /// Delete an aggregate and clear its devices; needs --yes
    Delete(AggregateDelete),
}

/// Options of `aggregate rename`.
#[derive(Debug, Args)]
#[command(
    after_help = "If the aggregate has a folder in the data directory, that folder \
    keeps its first name."
)]
pub struct AggregateRename {
    /// The aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// The new name, unique in the daemon
    #[arg(value_name = "NEW")]
    pub to: Name,
}

/// Options of `aggregate add`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everglade aggregate add aggr0 --devices /dev/sdc,/dev/sdd
  everglade aggregate add aggr0 --devices /srv/more --size 1TiB
  everglade aggregate add aggr1 --devices /dev/sde --group 1
  everglade aggregate add aggr1 --devices /dev/sdf --group 1 --parity

New writes use the new space; data that is there stays where it is until 'everglade aggregate
rebalance'. 'everglade aggregate remove' takes a device out again. An aggregate of mirrors or parity
groups gets whole groups, with as many drives as the last one. With --group, a parity group gets
more data drives, which are filled with zeroes first, or with --parity more parity; a mirror gets
another copy. Without redundancy, if one device is lost, the aggregate is lost. A file or block
device with data is overwritten only with --yes.")]
pub struct AggregateAdd {
    /// The aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// Empty directories, regular files or block devices [default: a directory in the data
    /// directory]
    #[arg(long, value_name = "PATH,PATH,…", value_delimiter = ',')]
    pub devices: Vec<PathBuf>,

    /// Size of each device that is a directory; space is taken only as it is used
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,

    /// Group that gets the devices: data drives of a parity group, copies of a mirror; `aggregate
    /// show NAME` has its number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub group: Option<u16>,

    /// Give the parity group more parity instead of data drives: it then survives the loss of one
    /// drive more
    #[arg(long, requires = "group")]
    pub parity: bool,

    /// Show by how much the aggregate would grow, and what would be lost; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `aggregate resize`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everglade aggregate resize aggr0 --size 2TiB
  everglade aggregate resize aggr0

Without --size, the aggregate takes what its files and block devices became larger by since it has
them. A mirror or parity group becomes larger when all of its drives are larger, also those that
replaced smaller ones. An aggregate never becomes smaller.")]
pub struct AggregateResize {
    /// The aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// New size of a device that is a directory [default: the size that files and block devices
    /// have now]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,

    /// The device that becomes larger, with its group [default: with --size the only directory, or
    /// those of all groups; else every file and block device]
    #[arg(long, value_name = "PATH")]
    pub device: Option<PathBuf>,

    /// Show by how much the aggregate would grow; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `aggregate replace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everglade aggregate replace safe /dev/sdb --with /dev/sdd --dry-run
  everglade aggregate replace safe /dev/sdb --with /dev/sdd

The drive may be missing, failed, or still in use: then it is taken out first. The new drive catches
up in the background, which 'everglade aggregate show' shows. The old drive keeps its contents, and
is not used again. A file or block device with data is overwritten only with --yes.")]
pub struct AggregateReplace {
    /// The aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// The drive that is replaced, as 'everglade aggregate show' names it
    #[arg(value_name = "DRIVE")]
    pub drive: PathBuf,

    /// The new drive: an empty directory, a regular file or a block device
    #[arg(long, value_name = "PATH")]
    pub with: PathBuf,

    /// Size of the new drive if it is a directory [default: that of the old one]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,

    /// Show whether the drive could be replaced, and what would be lost; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `aggregate remove`.
#[derive(Debug, Args)]
#[command(after_help = "\
All blocks of the device move to the other devices in the background; snapshots and clones share
them as before. Then the device leaves the aggregate, and is cleared. Of a mirror or a parity group,
the whole group is removed. Its space counts no more from the beginning on. A removal goes on after
a restart. The device with the journal, which is the first one, cannot be removed.

Without DEVICE, this shows how far a removal is.")]
pub struct AggregateRemove {
    /// The aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// The device, as 'everglade aggregate show' names it; of a group, any of its drives
    #[arg(value_name = "DEVICE")]
    pub device: Option<PathBuf>,

    /// Show whether the device could be removed, and what would be left; change nothing
    #[arg(long, requires = "device", conflicts_with = "wait")]
    pub dry_run: bool,

    /// Let the devices stay that are being removed
    #[arg(long, conflicts_with_all = ["device", "wait"])]
    pub stop: bool,

    /// Wait until the device is removed
    #[arg(long)]
    pub wait: bool,
}

/// Options of `aggregate rebalance`.
#[derive(Debug, Args)]
#[command(after_help = "\
Devices, mirrors and parity groups become about equally full. Snapshots and clones go on sharing the
blocks that are moved. It rests while clients need the devices, and does not go on by itself after a
restart. 'everglade garden show AGGREGATE' shows how far it is, 'everglade garden stop AGGREGATE'
ends it.")]
pub struct AggregateRebalance {
    /// The aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// Wait until all devices are about equally full
    #[arg(long)]
    pub wait: bool,
}

/// Verbs of `aggregate spare`.
#[derive(Debug, Subcommand)]
pub enum SpareVerb {
    /// Add a spare drive; it takes the place of the first drive of a mirror that fails
    Add(SpareOne),
    /// List the spare drives
    #[command(visible_alias = "list")]
    Show(SpareShow),
    /// Give a spare drive up; nothing is written to it
    Remove(SpareOne),
}

/// A spare drive.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everglade aggregate spare add /dev/sde
  everglade aggregate spare remove /dev/sde

All mirrors of this daemon share the spare drives. A spare is empty, and must have room for what the
mirror has. One of the same kind as the drive that failed is taken first.")]
pub struct SpareOne {
    /// An empty directory, a regular file or a block device
    #[arg(value_name = "PATH")]
    pub device: PathBuf,
}

/// Options of `aggregate spare show`.
#[derive(Debug, Args)]
pub struct SpareShow {
    #[command(flatten)]
    pub listing: Listing,
}

/// Verbs of `aggregate scrub`.
#[derive(Debug, Subcommand)]
pub enum ScrubVerb {
    /// Begin a scrub in the background, or let a paused one go on
    Start(ScrubOf),
    /// Let a scrub wait
    Pause(ScrubOf),
    /// Show how far the last scrub is, and what it found
    Status(ScrubOf),
}

/// The aggregate of a scrub.
#[derive(Debug, Args)]
pub struct ScrubOf {
    /// The aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,
}

/// Options of `aggregate delete`.
#[derive(Debug, Args)]
#[command(
    after_help = "Directories are emptied. Files and block devices lose their labels, and \
    can be used again."
)]
pub struct AggregateDelete {
    /// The aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// Delete an aggregate that has volumes, or that cannot be opened; its volumes are lost
    #[arg(long)]
    pub discard_volumes: bool,

    /// Delete it although clients are connected, which lose their connection
    #[arg(long)]
    pub disconnect: bool,

    /// Show what would be lost; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `aggregate create`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everglade aggregate create big --devices /dev/sdb,/dev/sdc
  everglade aggregate create safe --raid mirror --devices /dev/sdb,/dev/sdc
  everglade aggregate create wide --raid double --devices /dev/sdb,/dev/sdc,/dev/sdd,/dev/sde

With redundancy, the devices make groups in the order in which they are named. A group of a mirror
survives the loss of all its drives but one, and has the capacity of its smallest drive. A group
with single, double or triple parity survives the loss of one, two or three drives. Its other drives
hold data, each as much as the smallest one can. A file or block device with data is overwritten
only with --yes.")]
pub struct AggregateCreate {
    /// Name of the new aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,

    /// How the devices protect each other: none, mirror (each block is on all drives of a group),
    /// or single, double or triple (so many drives of a group have parity)
    #[arg(long, value_enum, default_value_t = Raid::None, hide_possible_values = true)]
    pub raid: Raid,

    /// Drives of each group: of a mirror 2 or 3 [default: 2]; with parity up to 31, those with
    /// parity included [default: all devices]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=31))]
    pub group_size: Option<u64>,

    /// Empty directories, regular files or block devices; with groups, a multiple of --group-size
    /// [default: a directory in the data directory]
    #[arg(long, value_name = "PATH,PATH,…", value_delimiter = ',')]
    pub devices: Vec<PathBuf>,

    /// Size of each device that is a directory; space is taken only as it is used [default: 64GiB
    /// in the data directory]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,

    /// One more device, for the journal alone; only without redundancy [default: the journal is on
    /// the first device, or on drives of the first group]
    #[arg(long, value_name = "PATH")]
    pub journal_device: Option<PathBuf>,

    /// Size of each half of the journal, 16MiB to 4GiB [default: 2 % of the aggregate, 16MiB to
    /// 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub journal_half: Option<Size>,

    /// Size of the areas in which each device is written and emptied: a power of two, 1MiB to
    /// 128MiB. It cannot be changed later. Choose small areas for a small parity group that empties
    /// them on demand [default: 128MiB]
    #[arg(long, value_name = "SIZE")]
    pub area_size: Option<Size>,

    /// Show what would be created, and what would be lost; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// How devices protect each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Raid {
    /// They do not.
    None,
    /// Each block is on all drives of a group.
    Mirror,
    /// One drive of each group has parity.
    Single,
    /// Two drives of each group have parity.
    Double,
    /// Three drives of each group have parity.
    Triple,
}

impl From<Raid> for everglade_api::Raid {
    fn from(raid: Raid) -> everglade_api::Raid {
        match raid {
            Raid::None => everglade_api::Raid::None,
            Raid::Mirror => everglade_api::Raid::Mirror,
            Raid::Single => everglade_api::Raid::Single,
            Raid::Double => everglade_api::Raid::Double,
            Raid::Triple => everglade_api::Raid::Triple,
        }
    }
}

/// Verbs of `volume`.
#[derive(Debug, Subcommand)]
pub enum VolumeVerb {
    /// Create an empty volume
    Create(VolumeCreate),
    /// List all volumes, or show one
    #[command(visible_alias = "list")]
    Show(Show),
    /// Change when writes of a volume are durable, and its snapshot policy
    Modify(VolumeModify),
    /// Rename a volume
    Rename(VolumeRename),
    /// Delete a volume with all that it has: it goes into the trash; needs --yes
    Delete(VolumeDelete),
    /// Bring a deleted volume back from the trash
    Undelete(VolumeUndelete),
}

/// Options of `volume create`.
#[derive(Debug, Args)]
pub struct VolumeCreate {
    /// Name of the new volume, unique in the daemon
    #[arg(value_name = "VOLUME")]
    pub name: Name,

    /// The aggregate to create it in [default: the only aggregate]
    #[arg(long, value_name = "AGGREGATE")]
    pub aggregate: Option<Name>,

    /// When writes are durable: when the client flushes (standard), or each at once (always)
    #[arg(long, value_enum, default_value_t = SyncOption::Standard)]
    pub sync: SyncOption,

    /// Its snapshot policy, or 'none' [default: the policy of the configuration]
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

/// Options of `volume modify`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("changes").required(true).multiple(true))]
#[command(
    after_help = "Connected clients stay connected. Writes that are answered from then on count by \
    the new rule."
)]
pub struct VolumeModify {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub name: Name,

    /// When writes are durable: when the client flushes (standard), or each at once (always)
    #[arg(long, value_enum, group = "changes")]
    pub sync: Option<SyncOption>,

    /// Its snapshot policy, or 'none'
    #[arg(long, value_name = "POLICY", group = "changes")]
    pub snapshot_policy: Option<Name>,

    /// What to note about it; '' removes the comment
    #[arg(long, value_name = "TEXT", group = "changes")]
    pub comment: Option<Comment>,
}

/// Options of `volume rename`.
#[derive(Debug, Args)]
#[command(
    after_help = "Connected clients stay connected; new connections need the new name. \
    Snapshots and the snapshot policy stay with the volume."
)]
pub struct VolumeRename {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub name: Name,

    /// The new name, unique in the daemon
    #[arg(value_name = "NEW")]
    pub to: Name,
}

/// Options of `volume delete`.
#[derive(Debug, Args)]
pub struct VolumeDelete {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub name: Name,

    /// Delete it although clients are connected, which lose their connection
    #[arg(long)]
    pub disconnect: bool,

    /// Delete it for good: not into the trash
    #[arg(long)]
    pub purge: bool,

    /// How to remove it.
    #[command(flatten)]
    pub removal: Removal,
}

/// Verbs of `lun`.
#[derive(Debug, Subcommand)]
pub enum LunVerb {
    /// Create a thin LUN
    Create(LunCreate),
    /// List all LUNs, those of a volume, or show one
    #[command(visible_alias = "list")]
    Show(LunShow),
    /// Enlarge a LUN, also while clients use it, or shrink it; shrinking needs --yes
    Resize(LunResize),
    /// Rename a LUN, in the same volume
    Rename(LunRename),
    /// Clone a LUN inside its volume, in the background
    Clone(LunClone),
    /// Delete a LUN: it goes into the trash; needs --yes
    Delete(LunDelete),
    /// Bring a deleted LUN back from the trash
    Undelete(LunUndelete),
}

/// Options of `lun create`.
#[derive(Debug, Args)]
pub struct LunCreate {
    /// The new LUN
    #[arg(value_name = "VOLUME/LUN")]
    pub name: LunName,

    /// The size that clients see; the LUN takes space only as it is written
    #[arg(long, value_name = "SIZE")]
    pub size: Size,

    /// Do nothing if it exists with the same size
    #[arg(long)]
    pub if_missing: bool,
}

/// Options of `lun show`.
#[derive(Debug, Args)]
pub struct LunShow {
    /// A LUN, or a volume for all its LUNs [default: all]
    #[arg(value_name = "VOLUME[/LUN]")]
    pub name: Option<String>,

    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `lun resize`.
#[derive(Debug, Args)]
pub struct LunResize {
    /// The LUN
    #[arg(value_name = "VOLUME/LUN")]
    pub name: LunName,

    /// The new size; data beyond it is lost
    #[arg(long, value_name = "SIZE")]
    pub size: Size,

    /// Show what would happen and what would be lost; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `lun rename`.
#[derive(Debug, Args)]
#[command(
    after_help = "Connected clients stay connected; new connections need the new name. \
    Snapshots keep the old name of the LUN."
)]
pub struct LunRename {
    /// The LUN
    #[arg(value_name = "VOLUME/LUN")]
    pub name: LunName,

    /// The new name, without the volume
    #[arg(value_name = "NEW")]
    pub to: Name,
}

/// Options of `lun clone`.
#[derive(Debug, Args)]
#[command(
    after_help = "The clone shares the LUN's blocks until one of them is overwritten. It \
    has the contents that the LUN had at the request. Clients see it when it is complete; 'job \
    cancel' stops it before."
)]
pub struct LunClone {
    /// The LUN to clone
    #[arg(value_name = "VOLUME/LUN")]
    pub name: LunName,

    /// The name of the clone, in the same volume
    #[arg(value_name = "VOLUME/NEW")]
    pub to: LunName,

    /// Clone the LUN as it was in this snapshot of the volume
    #[arg(long, value_name = "VOLUME@SNAPSHOT")]
    pub from: Option<SnapshotName>,

    /// Wait until the clone is complete
    #[arg(long)]
    pub wait: bool,
}

/// Options of `lun delete`.
#[derive(Debug, Args)]
pub struct LunDelete {
    /// The LUN
    #[arg(value_name = "VOLUME/LUN")]
    pub name: LunName,

    /// Delete it although clients are connected, which lose their connection
    #[arg(long)]
    pub disconnect: bool,

    /// Delete it for good: not into the trash
    #[arg(long)]
    pub purge: bool,

    /// How to remove it.
    #[command(flatten)]
    pub removal: Removal,
}

/// Options of `aggregate show` and `volume show`.
#[derive(Debug, Args)]
pub struct Show {
    /// The name [default: all]
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
    /// Cancel a job, if its kind allows that
    #[command(
        after_help = "Splits and clones of LUNs can be cancelled. Deletions cannot: the \
    object is already gone, and the job only frees its space."
    )]
    Cancel(JobOne),
}

/// Options of `job show`.
#[derive(Debug, Args)]
pub struct JobShow {
    /// The job [default: all]
    #[arg(value_name = "ID")]
    pub id: Option<u64>,

    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `job wait` and `job cancel`.
#[derive(Debug, Args)]
pub struct JobOne {
    /// The job
    #[arg(value_name = "ID")]
    pub id: u64,
}

/// Verbs of `event`.
#[derive(Debug, Subcommand)]
pub enum EventVerb {
    /// Show the newest events, also those of earlier daemons, oldest first
    #[command(visible_alias = "list")]
    Show(EventShow),
}

/// Options of `event show`.
#[derive(Debug, Args)]
pub struct EventShow {
    /// Print new events until the daemon stops
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
    /// Seconds between two updates
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    pub interval: u64,

    /// Stop after this many updates [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// One line for each client of a LUN, for each LUN, for each client, or for each device
    #[arg(long, value_enum, default_value_t = TopBy::Both)]
    pub by: TopBy,
}

/// What a line of `top` is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopBy {
    /// A client of a LUN.
    Both,
    /// A LUN, with all its clients.
    Lun,
    /// A client, with all its LUNs.
    Client,
    /// A device of an aggregate.
    Device,
}
