//! Verbs of `host`, `host-group`, `mapping` and `session`.

use clap::{Args, Subcommand};
use everglade_api::{LunName, Name};

use super::{Listing, Show};

/// Verbs of `host`.
#[derive(Debug, Subcommand)]
pub enum HostVerb {
    /// Create a host
    Create(HostCreate),
    /// List all hosts, or show one
    #[command(visible_alias = "list")]
    Show(Show),
    /// Change what a host is known by; connections that are not the host's any more end
    Modify(HostModify),
    /// Delete a host that is in no group and in no mapping
    Delete(HostOne),
}

/// Options of `host create`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everglade host create db1 iqn.1994-05.com.redhat:db1
  everglade host create web 10.1.2.0/24 nqn.2014-08.org.nvmexpress:uuid:2f0c…

A connection that has one of the identifiers is the host's:
  iqn.… eui.… naa.…   the name of an iSCSI initiator
  nqn.…               the name of an NVMe host
  cert:NAME           a DNS name in the client's certificate (NBD with TLS)
  10.1.2.3 10.1.0.0/16 fd00:1::/64   where it comes from
  local               the Unix socket")]
pub struct HostCreate {
    /// Name of the new host
    #[arg(value_name = "HOST")]
    pub name: Name,

    /// What it is known by
    #[arg(value_name = "IDENTIFIER", required = true)]
    pub identifiers: Vec<String>,
}

/// Options of `host modify`.
#[derive(Debug, Args)]
pub struct HostModify {
    /// The host
    #[arg(value_name = "HOST")]
    pub name: Name,

    /// Add an identifier; may be repeated
    #[arg(long, value_name = "IDENTIFIER")]
    pub add: Vec<String>,

    /// Remove an identifier; may be repeated
    #[arg(long, value_name = "IDENTIFIER")]
    pub remove: Vec<String>,

    /// Show which connections would end; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `host delete`.
#[derive(Debug, Args)]
pub struct HostOne {
    /// The host
    #[arg(value_name = "HOST")]
    pub name: Name,
}

/// Verbs of `host-group`.
#[derive(Debug, Subcommand)]
pub enum HostGroupVerb {
    /// Create a group of hosts
    Create(HostGroupCreate),
    /// List all groups, or show one
    #[command(visible_alias = "list")]
    Show(Show),
    /// Add hosts, and remove others; connections that are not allowed any more end
    Modify(HostGroupModify),
    /// Delete a group that is in no mapping
    Delete(HostGroupOne),
}

/// Options of `host-group create`.
#[derive(Debug, Args)]
pub struct HostGroupCreate {
    /// Name of the new group
    #[arg(value_name = "GROUP")]
    pub name: Name,

    /// Its hosts
    #[arg(value_name = "HOST")]
    pub hosts: Vec<Name>,
}

/// Options of `host-group modify`.
#[derive(Debug, Args)]
pub struct HostGroupModify {
    /// The group
    #[arg(value_name = "GROUP")]
    pub name: Name,

    /// Add a host; may be repeated
    #[arg(long, value_name = "HOST")]
    pub add: Vec<Name>,

    /// Remove a host; may be repeated
    #[arg(long, value_name = "HOST")]
    pub remove: Vec<Name>,

    /// Show which connections would end; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `host-group delete`.
#[derive(Debug, Args)]
pub struct HostGroupOne {
    /// The group
    #[arg(value_name = "GROUP")]
    pub name: Name,
}

/// Verbs of `mapping`.
#[derive(Debug, Subcommand)]
pub enum MappingVerb {
    /// Let a host or a group use a LUN and its snapshots
    Create(MappingCreate),
    /// List all mappings, or those of a LUN
    #[command(visible_alias = "list")]
    Show(MappingShow),
    /// Take a LUN away from a host or a group; connections that are not allowed any more end
    Delete(MappingOf),
}

/// Options of `mapping create`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  everglade host create db1 iqn.1994-05.com.redhat:db1
  everglade mapping create vol0/lun0 db1

A LUN that is mapped does not exist for other hosts, and connections that they have end. A LUN that
is not mapped is for clients of this machine. Lines of [nbd.allow] and so on in the configuration
let more clients in.")]
pub struct MappingCreate {
    /// The LUN
    #[arg(value_name = "VOLUME/LUN")]
    pub lun: LunName,

    /// A host, or a group of hosts
    #[arg(value_name = "HOST")]
    pub to: Name,

    /// Show which connections would end; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `mapping show`.
#[derive(Debug, Args)]
pub struct MappingShow {
    /// A LUN [default: all]
    #[arg(value_name = "VOLUME/LUN")]
    pub lun: Option<LunName>,

    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `mapping delete`.
#[derive(Debug, Args)]
pub struct MappingOf {
    /// The LUN
    #[arg(value_name = "VOLUME/LUN")]
    pub lun: LunName,

    /// The host or the group
    #[arg(value_name = "HOST")]
    pub to: Name,

    /// Show which connections would end; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Verbs of `session`.
#[derive(Debug, Subcommand)]
pub enum SessionVerb {
    /// List the connections that have a LUN or a snapshot of one open
    #[command(visible_alias = "list")]
    Show(SessionShow),
}

/// Options of `session show`.
#[derive(Debug, Args)]
pub struct SessionShow {
    /// A volume, a LUN, or a LUN in a snapshot [default: all]
    #[arg(value_name = "OBJECT")]
    pub object: Option<String>,

    #[command(flatten)]
    pub listing: Listing,
}
