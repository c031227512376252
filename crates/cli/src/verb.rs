//! The grammar: `everglade NOUN VERB OBJECT [--option]`. What a verb does is in the file of its noun.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use everglade_api::{LunName, Name, Size};

/// Verbs that need a running daemon.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Create and show aggregates, the pools of devices
    Aggregate {
        /// What to do.
        #[command(subcommand)]
        verb: AggregateVerb,
    },
    /// Create, show and delete volumes, which hold LUNs
    Volume {
        /// What to do.
        #[command(subcommand)]
        verb: VolumeVerb,
    },
    /// Create, show, resize and delete LUNs, the disks for clients
    Lun {
        /// What to do.
        #[command(subcommand)]
        verb: LunVerb,
    },
    /// Say whether all is well and, where it is not, what to do
    #[command(after_help = "Exit code: 0 well or a warning, 8 something does not work.")]
    Status,
    /// Show where the space is
    Df(Df),
}

/// Verbs of `aggregate`.
#[derive(Debug, Subcommand)]
pub enum AggregateVerb {
    /// Make an aggregate of devices
    Create(AggregateCreate),
    /// List all aggregates, or show one with its devices
    #[command(visible_alias = "list")]
    Show(Show),
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
    /// Delete a volume and all its LUNs; needs --yes
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
}

/// When writes count as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SyncOption {
    /// When the client flushes.
    Standard,
    /// Each at once.
    Always,
}

/// Options of `volume delete`.
#[derive(Debug, Args)]
pub struct VolumeDelete {
    /// Which
    #[arg(value_name = "VOLUME")]
    pub name: Name,
}

/// Verbs of `lun`.
#[derive(Debug, Subcommand)]
pub enum LunVerb {
    /// Make a thin LUN
    Create(LunCreate),
    /// List all LUNs, those of a volume, or show one
    #[command(visible_alias = "list")]
    Show(LunShow),
    /// Make a LUN larger, while clients use it
    Resize(LunResize),
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
}

/// Options of `lun show`.
#[derive(Debug, Args)]
pub struct LunShow {
    /// Which [default: all]
    #[arg(value_name = "VOLUME[/LUN]")]
    pub name: Option<String>,

    /// Print sizes in bytes
    #[arg(long)]
    pub exact: bool,
}

/// Options of `lun resize`.
#[derive(Debug, Args)]
pub struct LunResize {
    /// Which
    #[arg(value_name = "VOLUME/LUN")]
    pub name: LunName,

    /// The new size, not below the present one
    #[arg(long, value_name = "SIZE")]
    pub size: Size,
}

/// Options of `lun delete`.
#[derive(Debug, Args)]
pub struct LunDelete {
    /// Which
    #[arg(value_name = "VOLUME/LUN")]
    pub name: LunName,
}

/// Options of `aggregate show` and `volume show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Which [default: all]
    #[arg(value_name = "NAME")]
    pub name: Option<Name>,

    /// Print sizes in bytes
    #[arg(long)]
    pub exact: bool,
}

/// Options of `df`.
#[derive(Debug, Args)]
pub struct Df {
    /// Print sizes in bytes
    #[arg(long)]
    pub exact: bool,
}
