//! Verbs of `trash`, and those that bring something back.

use clap::{Args, Subcommand};
use everglade_api::Name;

use super::{Listing, Removal};

/// Options of `lun undelete`.
#[derive(Debug, Args)]
#[command(
    after_help = "The LUN has everything that was written to it, the same identity, its limit and \
    its reservations. Map it to hosts again."
)]
pub struct LunUndelete {
    /// The LUN: its name when it was deleted, or the id that 'trash show' shows
    #[arg(value_name = "VOLUME/LUN|ID")]
    pub name: String,

    /// Another name in its volume
    #[arg(long = "as", value_name = "NEW")]
    pub to: Option<Name>,
}

/// Options of `snapshot undelete`.
#[derive(Debug, Args)]
#[command(
    after_help = "A snapshot that its policy has deleted, or that a restore has discarded, is not \
    in the trash."
)]
pub struct SnapshotUndelete {
    /// The snapshot: its name when it was deleted, or the id that 'trash show' shows
    #[arg(value_name = "VOLUME@SNAPSHOT|ID")]
    pub name: String,

    /// Another name in its volume
    #[arg(long = "as", value_name = "NEW")]
    pub to: Option<Name>,
}

/// Options of `volume undelete`.
#[derive(Debug, Args)]
#[command(
    after_help = "The volume has its LUNs and snapshots again, and the default snapshot policy; \
    'policy set' gives it another one."
)]
pub struct VolumeUndelete {
    /// The volume: its name when it was deleted, or the id that 'trash show' shows
    #[arg(value_name = "VOLUME|ID")]
    pub name: String,

    /// Another name
    #[arg(long = "as", value_name = "NEW")]
    pub to: Option<Name>,
}

/// Verbs of `trash`.
#[derive(Debug, Subcommand)]
pub enum TrashVerb {
    /// List what was deleted and can come back
    #[command(visible_alias = "list")]
    Show(TrashShow),
    /// Delete for good what is in the trash; needs --yes
    Empty(TrashEmpty),
}

/// Options of `trash show`.
#[derive(Debug, Args)]
#[command(
    after_help = "What has been deleted for longer than 'trash.keep' of the configuration leaves \
    the trash. When space is short, the oldest leaves earlier, before any client is refused."
)]
pub struct TrashShow {
    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `trash empty`.
#[derive(Debug, Args)]
pub struct TrashEmpty {
    /// Names or ids [default: everything]
    #[arg(value_name = "NAME|ID")]
    pub names: Vec<String>,

    /// How to remove it.
    #[command(flatten)]
    pub removal: Removal,
}
