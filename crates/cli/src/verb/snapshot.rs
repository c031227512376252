//! Verbs of `snapshot`.

use clap::{Args, Subcommand};
use everglade_api::{Name, SnapshotName};

use super::{Listing, PolicyVerb, Removal, SnapshotUndelete};

/// Verbs of `snapshot`.
#[derive(Debug, Subcommand)]
pub enum SnapshotVerb {
    /// Take a snapshot of a volume
    Create(SnapshotCreate),
    /// List all snapshots, those of a volume, or show one
    #[command(visible_alias = "list")]
    Show(SnapshotShow),
    /// Rename a snapshot
    Rename(SnapshotRename),
    /// Delete a snapshot: it goes into the trash; needs --yes
    Delete(SnapshotDelete),
    /// Bring a deleted snapshot back from the trash
    Undelete(SnapshotUndelete),
    /// Show what of a LUN differs between two snapshots, or a snapshot and the active image
    Diff(SnapshotDiff),
    /// Restore a snapshot; the active image is kept as another snapshot
    Restore(SnapshotRestore),
    /// Show or slow the background work for a volume's snapshots
    Scan(SnapshotScan),
    /// Protect a snapshot from deletion, with a reason
    Hold(SnapshotHold),
    /// Remove a hold
    Release(SnapshotHold),
    /// Manage automatic snapshot schedules: the same as 'everglade policy'
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

    /// Do nothing if a snapshot of this name exists
    #[arg(long)]
    pub if_missing: bool,
}

/// Options of `snapshot show`.
#[derive(Debug, Args)]
pub struct SnapshotShow {
    /// A snapshot, or a volume for all its snapshots [default: all]
    #[arg(value_name = "VOLUME[@SNAPSHOT]")]
    pub name: Option<String>,

    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `snapshot rename`.
#[derive(Debug, Args)]
pub struct SnapshotRename {
    /// The snapshot
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    pub name: SnapshotName,

    /// The new name, in the same volume
    #[arg(value_name = "NEW")]
    pub to: Name,
}

/// Options of `snapshot delete`.
#[derive(Debug, Args)]
pub struct SnapshotDelete {
    /// The snapshot
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    pub name: SnapshotName,

    /// Delete it for good: not into the trash
    #[arg(long)]
    pub purge: bool,

    /// How to remove it.
    #[command(flatten)]
    pub removal: Removal,
}

/// Options of `snapshot diff`.
#[derive(Debug, Args)]
#[command(
    after_help = "Ranges are in bytes and consist of whole blocks of 4096 that may read \
    differently; all other blocks read the same. Snapshots never change, so the difference of \
    two is exact. The active image changes, so each range was right at some moment."
)]
pub struct SnapshotDiff {
    /// The snapshot to compare with
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    pub name: SnapshotName,

    /// What to compare it with: another snapshot of the volume, or the volume itself for its active
    /// image [default: the volume]
    #[arg(value_name = "VOLUME[@SNAPSHOT]")]
    pub until: Option<String>,

    /// The LUN [default: the only one in the snapshot]
    #[arg(long, value_name = "LUN")]
    pub lun: Option<Name>,

    /// First byte to compare
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub offset: u64,

    /// Bytes to compare [default: to the end]
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
    after_help = "Nothing is lost, not even newer snapshots, unless you use --discard-newer. \
    The contents change while clients have LUNs of the volume open: unmount first."
)]
pub struct SnapshotRestore {
    /// The snapshot
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    pub name: SnapshotName,

    /// Restore only this LUN, with the size that it had; the rest of the volume stays as it is
    #[arg(long, value_name = "LUN", conflicts_with = "discard_newer")]
    pub lun: Option<Name>,

    /// Name of the snapshot that keeps the active image [default: before-restore- and the time]
    #[arg(long, value_name = "NAME", conflicts_with = "discard_newer")]
    pub safety_snapshot: Option<Name>,

    /// Destroy the active image and every newer snapshot; needs --yes
    #[arg(long)]
    pub discard_newer: bool,

    /// Show what would happen and what would be lost; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `snapshot hold` and `snapshot release`.
#[derive(Debug, Args)]
pub struct SnapshotHold {
    /// The snapshot
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    pub name: SnapshotName,

    /// The reason; the same characters as in names
    #[arg(value_name = "TAG")]
    pub tag: Name,
}

/// Options of `snapshot scan`.
#[derive(Debug, Args)]
#[command(
    after_help = "After deletions and restores a scan goes over the volume's maps, a \
    little in each consistency point. The volume keeps the pace. While the pool is short of \
    space, scans run at full pace regardless."
)]
pub struct SnapshotScan {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub volume: Name,

    /// Percentage of their usual work that scans do in a consistency point: 0 to 100
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub pace: Option<u8>,

    /// Pause scans; the same as --pace 0
    #[arg(long, conflicts_with_all = ["pace", "resume"])]
    pub pause: bool,

    /// Resume scans; the same as --pace 100
    #[arg(long, conflicts_with = "pace")]
    pub resume: bool,

    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}
