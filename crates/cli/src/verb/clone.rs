//! Verbs of `clone`.

use clap::{Args, Subcommand};
use everglade_api::{Name, SnapshotName};

use super::Show;

/// Verbs of `clone`.
#[derive(Debug, Subcommand)]
pub enum CloneVerb {
    /// Make a volume that begins as a snapshot of another, and is written on its own
    Create(CloneCreate),
    /// List all clones, or show one
    #[command(visible_alias = "list")]
    Show(Show),
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
