//! Verbs of `clone`.

use clap::{Args, Subcommand};
use everglade_api::{Name, SnapshotName};

use super::{Listing, Show};

/// Verbs of `clone`.
#[derive(Debug, Subcommand)]
pub enum CloneVerb {
    /// Make a volume that begins as a snapshot of another, and is written on its own
    Create(CloneCreate),
    /// List all clones, or show one
    #[command(visible_alias = "list")]
    Show(Show),
    /// Give a clone blocks of its own, so that it is none any more
    Split {
        /// What to do.
        #[command(subcommand)]
        verb: SplitVerb,
    },
}

/// Verbs of `clone split`.
#[derive(Debug, Subcommand)]
pub enum SplitVerb {
    /// Begin to copy what the clone shares, or go on with that; 'job cancel' or 'stop' stops it
    Start(SplitStart),
    /// Stop; what was copied stays, and the next start goes on from there
    Stop(SplitOne),
    /// Say how far it is, and how much there is to copy; of all clones, or of one
    Show(Show),
}

/// Options of `clone split start`.
#[derive(Debug, Args)]
#[command(
    after_help = "All that the snapshot holds which the clone began as is copied in the background: that much space is \
    taken from the pool. It waits while the pool is short of space. Then the clone is an ordinary volume: its oldest \
    snapshot can be deleted, and so can the snapshot and the volume that it was cloned from."
)]
pub struct SplitStart {
    /// Which clone
    #[arg(value_name = "VOLUME")]
    pub name: Name,

    /// Wait until everything is copied
    #[arg(long)]
    pub wait: bool,

    /// Only say how much would be copied
    #[arg(long)]
    pub dry_run: bool,
}

/// One clone.
#[derive(Debug, Args)]
pub struct SplitOne {
    /// Which clone
    #[arg(value_name = "VOLUME")]
    pub name: Name,

    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `clone create`.
#[derive(Debug, Args)]
#[command(
    after_help = "A clone copies nothing: it takes space for what is written to it only. As long as it is there its \
    snapshot and that one's volume cannot be deleted. It is deleted like any volume."
)]
pub struct CloneCreate {
    /// Name of the new volume, unique in the daemon
    #[arg(value_name = "VOLUME")]
    pub name: Name,

    /// What it begins as
    #[arg(long, value_name = "VOLUME@SNAPSHOT")]
    pub from: SnapshotName,

    /// Which snapshots it gets by itself: a policy, or 'none' [default: that of the configuration]
    #[arg(long, value_name = "POLICY")]
    pub snapshot_policy: Option<Name>,

    /// Do nothing if it exists as a clone of this snapshot
    #[arg(long)]
    pub if_missing: bool,
}
