//! Verbs of `policy`.

use clap::{Args, Subcommand};
use everglade_api::{Name, TimeOfDay, Weekday};

use super::Show;

/// Verbs of `policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyVerb {
    /// Create a snapshot policy
    Create(PolicyCreate),
    /// List all snapshot policies, or show one
    #[command(visible_alias = "list")]
    Show(Show),
    /// Change a snapshot policy, for all volumes that have it
    Modify(PolicyModify),
    /// Delete a snapshot policy that no volume has
    Delete(PolicyOne),
    /// Set or remove the snapshot policy of a volume
    Set(PolicySet),
    /// Show what a volume's policy took and kept, and when it takes the next snapshot
    Status(PolicyStatus),
}

/// Options of `policy create`.
#[derive(Debug, Args)]
#[command(after_help = "Snapshots that are held or that a client has open are never deleted.")]
pub struct PolicyCreate {
    /// Name of the new policy
    #[arg(value_name = "POLICY")]
    pub name: Name,

    /// How many hourly snapshots to keep
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub hourly: u64,

    /// How many daily snapshots to keep
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub daily: u64,

    /// How many weekly snapshots to keep
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub weekly: u64,

    /// When daily and weekly snapshots are taken; its minutes also apply to hourly ones
    #[arg(long, value_name = "HH:MM", default_value = "00:00")]
    pub at: TimeOfDay,

    /// The day of weekly snapshots [default: sunday]
    #[arg(long, value_name = "DAY")]
    pub weekday: Option<Weekday>,

    /// Time zone, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub time_zone: String,
}

/// Options of `policy modify`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("changes").required(true).multiple(true))]
#[command(
    after_help = "What is not given stays as it is. If fewer snapshots are kept, the oldest ones \
    beyond the new number are deleted. If none are taken any more, those that there are stay."
)]
pub struct PolicyModify {
    /// The policy
    #[arg(value_name = "POLICY")]
    pub name: Name,

    /// How many hourly snapshots to keep
    #[arg(long, value_name = "N", group = "changes")]
    pub hourly: Option<u64>,

    /// How many daily snapshots to keep
    #[arg(long, value_name = "N", group = "changes")]
    pub daily: Option<u64>,

    /// How many weekly snapshots to keep
    #[arg(long, value_name = "N", group = "changes")]
    pub weekly: Option<u64>,

    /// When daily and weekly snapshots are taken; its minutes also apply to hourly ones
    #[arg(long, value_name = "HH:MM", group = "changes")]
    pub at: Option<TimeOfDay>,

    /// The day of weekly snapshots
    #[arg(long, value_name = "DAY", group = "changes")]
    pub weekday: Option<Weekday>,

    /// Time zone, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", group = "changes")]
    pub time_zone: Option<String>,
}

/// Options of `policy delete`.
#[derive(Debug, Args)]
pub struct PolicyOne {
    /// The policy
    #[arg(value_name = "POLICY")]
    pub name: Name,
}

/// Options of `policy set`.
#[derive(Debug, Args)]
pub struct PolicySet {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub volume: Name,

    /// The policy, or 'none'
    #[arg(value_name = "POLICY")]
    pub policy: Name,
}

/// Options of `policy status`.
#[derive(Debug, Args)]
pub struct PolicyStatus {
    /// The volume [default: all]
    #[arg(value_name = "VOLUME")]
    pub volume: Option<Name>,
}
