//! Verbs of `snapshot`.

use clap::{Args, Subcommand};
use everglade_api::{Name, SnapshotName};

use super::{Listing, PolicyVerb, Removal};

/// Verbs of `snapshot`.
#[derive(Debug, Subcommand)]
pub enum SnapshotVerb {
    /// Take a snapshot of a volume
    Create(SnapshotCreate),
    /// List all snapshots, those of a volume, or show one
    #[command(visible_alias = "list")]
    Show(SnapshotShow),
    /// Give a snapshot another name
    Rename(SnapshotRename),
    /// Delete a snapshot; needs --yes
    Delete(SnapshotDelete),
    /// Show what of a LUN differs between a snapshot and another, or what is active now
    Diff(SnapshotDiff),
    /// Make a snapshot's image the active one; what was active is kept as another snapshot
    Restore(SnapshotRestore),
    /// Show what goes on in the background for a volume's snapshots, or hold it back
    Scan(SnapshotScan),
    /// Keep a snapshot from being deleted, for a reason
    Hold(SnapshotHold),
    /// Take a hold away
    Release(SnapshotHold),
    /// Snapshots that volumes get by themselves: the same as 'everglade policy'
    Policy {
        /// What to do.
        #[command(subcommand)]
        verb: PolicyVerb,
    },
}

/// Options of `snapshot create`.
#[derive(Debug, Args)]
pub struct SnapshotCreate {
    /// The new snapshot
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    pub name: SnapshotName,

    /// Do nothing if there is one of this name
    #[arg(long)]
    pub if_missing: bool,
}

/// Options of `snapshot show`.
#[derive(Debug, Args)]
pub struct SnapshotShow {
    /// Which [default: all]
    #[arg(value_name = "VOLUME[@SNAPSHOT]")]
    pub name: Option<String>,

    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `snapshot rename`.
#[derive(Debug, Args)]
pub struct SnapshotRename {
    /// Which
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    pub name: SnapshotName,

    /// The new name, in the same volume
    #[arg(value_name = "NEW")]
    pub to: Name,
}

/// Options of `snapshot delete`.
#[derive(Debug, Args)]
pub struct SnapshotDelete {
    /// Which
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    pub name: SnapshotName,

    /// How to remove it.
    #[command(flatten)]
    pub removal: Removal,
}

/// Options of `snapshot diff`.
#[derive(Debug, Args)]
#[command(
    after_help = "Ranges are in bytes and whole blocks of 4096: what may read differently; all else reads the same. \
    Two snapshots never change, so their difference is exact; with what is active, each range is right at some \
    moment."
)]
pub struct SnapshotDiff {
    /// The snapshot to compare with
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    pub name: SnapshotName,

    /// What to compare with it: another snapshot of the volume, or the volume for what is active [default: the
    /// volume]
    #[arg(value_name = "VOLUME[@SNAPSHOT]")]
    pub until: Option<String>,

    /// Which LUN [default: the only one that the snapshot has]
    #[arg(long, value_name = "LUN")]
    pub lun: Option<Name>,

    /// First byte to look at
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub offset: u64,

    /// Bytes to look at [default: to the end]
    #[arg(long, value_name = "BYTES")]
    pub length: Option<u64>,

    /// Print no heading
    #[arg(long)]
    pub no_header: bool,

    /// Print sizes in bytes
    #[arg(long)]
    pub exact: bool,
}

/// Options of `snapshot restore`.
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing is lost, not even what is newer, unless --discard-newer. Clients that have LUNs of the \
    volume open find other contents under their feet: unmount first."
)]
pub struct SnapshotRestore {
    /// Which
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    pub name: SnapshotName,

    /// Only this LUN of it, with the size that it had; the rest of the volume stays as it is
    #[arg(long, value_name = "LUN", conflicts_with = "discard_newer")]
    pub lun: Option<Name>,

    /// Name of the snapshot that keeps what is active now [default: before-restore- and the time]
    #[arg(long, value_name = "NAME", conflicts_with = "discard_newer")]
    pub safety_snapshot: Option<Name>,

    /// Lose what is active now and every newer snapshot; needs --yes
    #[arg(long)]
    pub discard_newer: bool,

    /// Only say what would happen, and what would be lost
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `snapshot hold` and `snapshot release`.
#[derive(Debug, Args)]
pub struct SnapshotHold {
    /// Which
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    pub name: SnapshotName,

    /// The reason, by the rule for names
    #[arg(value_name = "TAG")]
    pub tag: Name,
}

/// Options of `snapshot scan`.
#[derive(Debug, Args)]
#[command(
    after_help = "After deletions and restores a scan goes over the volume's maps, a little in each consistency point. \
    Its pace is kept in the volume. While the pool is short of space it goes on at full pace whatever was said."
)]
pub struct SnapshotScan {
    /// Which volume
    #[arg(value_name = "VOLUME")]
    pub volume: Name,

    /// Let scans use this part of each consistency point, in percent: 0 to 100
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub pace: Option<u8>,

    /// Let scans rest; the same as --pace 0
    #[arg(long, conflicts_with_all = ["pace", "resume"])]
    pub pause: bool,

    /// Let scans go on; the same as --pace 100
    #[arg(long, conflicts_with = "pace")]
    pub resume: bool,

    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}
