//! Verbs of `clone`.

use clap::{Args, Subcommand};
use everglade_api::{Name, SnapshotName};

use super::{Listing, Show};

/// Verbs of `clone`.
#[derive(Debug, Subcommand)]
pub enum CloneVerb {
    /// Create a writable volume that begins as a snapshot
    Create(CloneCreate),
    /// List all clones, or show one
    #[command(visible_alias = "list")]
    Show(Show),
    /// Copy what a clone shares, so that it no longer depends on its parent
    Split {
        /// What to do.
        #[command(subcommand)]
        verb: SplitVerb,
    },
}

/// Verbs of `clone split`.
#[derive(Debug, Subcommand)]
pub enum SplitVerb {
    /// Start or continue to copy what the clone shares; 'job cancel' or 'stop' stops it
    Start(SplitStart),
    /// Stop copying; copied blocks stay, and the next start continues there
    Stop(SplitOne),
    /// Show the progress and the amount to copy, of all clones or of one
    Show(Show),
}

/// Options of `clone split start`.
#[derive(Debug, Args)]
#[command(
    after_help = "A background job copies everything that the clone's base snapshot holds; \
    that much space is taken from the pool. The job waits while the pool is short of space. \
    Afterwards the clone is an ordinary volume: you can delete its oldest snapshot, and the \
    snapshot and the volume that it was cloned from."
)]
pub struct SplitStart {
    /// The clone
    #[arg(value_name = "VOLUME")]
    pub name: Name,

    /// Wait until everything is copied
    #[arg(long)]
    pub wait: bool,

    /// Show how much would be copied; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// One clone.
#[derive(Debug, Args)]
pub struct SplitOne {
    /// The clone
    #[arg(value_name = "VOLUME")]
    pub name: Name,

    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `clone create`.
#[derive(Debug, Args)]
#[command(
    after_help = "A clone copies nothing: it takes space only for what is written to it. \
    While it exists, its snapshot and the volume of that snapshot cannot be deleted. It is \
    deleted like any volume."
)]
pub struct CloneCreate {
    /// Name of the new volume, unique in the daemon
    #[arg(value_name = "VOLUME")]
    pub name: Name,

    /// The snapshot that the clone begins as
    #[arg(long, value_name = "VOLUME@SNAPSHOT")]
    pub from: SnapshotName,

    /// Its snapshot policy, or 'none' [default: the policy of the configuration]
    #[arg(long, value_name = "POLICY")]
    pub snapshot_policy: Option<Name>,

    /// Do nothing if it exists as a clone of this snapshot
    #[arg(long)]
    pub if_missing: bool,
}
