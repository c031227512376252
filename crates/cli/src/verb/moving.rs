//! Verbs of `aggregate` that move one between daemons.

use std::path::PathBuf;

use clap::Args;
use everglade_api::Name;

/// Options of `aggregate export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Clients of its LUNs are disconnected. Everything is written to the devices, which keep all data,
snapshots and policies. The daemon closes the devices and forgets them; 'aggregate import' takes the
aggregate up again, in this daemon or in another one.")]
pub struct AggregateExport {
    /// The aggregate
    #[arg(value_name = "AGGREGATE")]
    pub name: Name,
}

/// Options of `aggregate import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everglade aggregate import /dev/sdb /dev/sdc
  everglade aggregate import /mnt/old/everglade/aggregates/aggr0/dev0 --as old
  everglade aggregate import /dev/sdb --dry-run
  everglade aggregate import /mnt/copy/disk.img --read-only --as copy
  everglade aggregate import --scan /dev --scan /mnt

No other program may use the devices. Do not import a copy of a device, or a device that another
machine uses. If the devices of an aggregate are at other paths now, import it again from there.")]
pub struct AggregateImport {
    /// All devices of the aggregate, in any order
    #[arg(value_name = "PATH", required_unless_present = "scan")]
    pub devices: Vec<PathBuf>,

    /// Look for aggregates in this folder and those in it; import nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["devices", "name"])]
    pub scan: Vec<PathBuf>,

    /// Name of the aggregate from now on [default: the name that it has]
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<Name>,

    /// Also import devices that are all older than what this daemon has seen of the aggregate; what
    /// was written since is lost
    #[arg(long)]
    pub accept_rollback: bool,

    /// Only read: nothing is written to the devices, which may be copies, or be write-protected
    #[arg(long)]
    pub read_only: bool,

    /// Show which aggregate the devices have; change nothing
    #[arg(long)]
    pub dry_run: bool,
}
