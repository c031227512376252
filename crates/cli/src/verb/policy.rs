//! Verbs of `policy`.

use clap::{Args, Subcommand};
use everglade_api::{Name, TimeOfDay, Weekday};

use super::Show;

/// Verbs of `policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyVerb {
    /// Make a snapshot policy
    Create(PolicyCreate),
    /// List all snapshot policies, or show one
    #[command(visible_alias = "list")]
    Show(Show),
    /// Delete a snapshot policy that no volume has
    Delete(PolicyOne),
    /// Give a volume a snapshot policy, or none
    Set(PolicySet),
    /// Show what a volume's policy took, what stays, and when it takes the next snapshot
    Status(PolicyStatus),
}

/// Options of `policy create`.
#[derive(Debug, Args)]
#[command(
    after_help = "A policy never changes: make another, and give it to the volumes. Held snapshots, and those that a \
    client has open, are never deleted."
)]
pub struct PolicyCreate {
    /// Name of the new policy
    #[arg(value_name = "POLICY")]
    pub name: Name,

    /// How many of each hour's snapshots to keep
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub hourly: u64,

    /// How many of each day's
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub daily: u64,

    /// How many of each week's
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub weekly: u64,

    /// When the daily and weekly ones are taken; its minutes are also when the hourly ones are
    #[arg(long, value_name = "HH:MM", default_value = "00:00")]
    pub at: TimeOfDay,

    /// On which day the weekly ones are taken [default: sunday]
    #[arg(long, value_name = "DAY")]
    pub weekday: Option<Weekday>,

    /// Whose clock that is, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub time_zone: String,
}

/// Options of `policy delete`.
#[derive(Debug, Args)]
pub struct PolicyOne {
    /// Which
    #[arg(value_name = "POLICY")]
    pub name: Name,
}

/// Options of `policy set`.
#[derive(Debug, Args)]
pub struct PolicySet {
    /// Which volume
    #[arg(value_name = "VOLUME")]
    pub volume: Name,

    /// Which policy, or 'none'
    #[arg(value_name = "POLICY")]
    pub policy: Name,
}

/// Options of `policy status`.
#[derive(Debug, Args)]
pub struct PolicyStatus {
    /// Which volume [default: all]
    #[arg(value_name = "VOLUME")]
    pub volume: Option<Name>,
}
