//! Verbs of `qos` and `qos-policy`.

use std::fmt;
use std::str::FromStr;

use clap::{ArgGroup, Args, Subcommand};
use everglade_api::{LunName, Name, SetQosPolicy, Size};

use super::Listing;

/// Verbs of `qos`.
#[derive(Debug, Subcommand)]
pub enum QosVerb {
    /// Set the limit of a LUN or a volume
    Set(QosSet),
    /// Remove the limit of a LUN or a volume
    Clear(QosOf),
    /// Show limits, and what they hold back
    #[command(visible_alias = "list")]
    Show(QosShow),
}

/// At least one of these options is given.
fn one_of(options: &[&'static str]) -> ArgGroup {
    let group = ArgGroup::new("limit").args(options);
    group.required(true).multiple(true)
}

/// What can have a limit.
#[derive(Clone, Debug)]
pub enum QosObject {
    /// A volume: its LUNs share the limit.
    Volume(Name),
    /// A LUN.
    Lun(LunName),
}

impl FromStr for QosObject {
    type Err = String;

    fn from_str(text: &str) -> Result<QosObject, String> {
        match text.contains('/') {
            true => text
                .parse()
                .map(QosObject::Lun)
                .map_err(|it| it.to_string()),
            false => text
                .parse()
                .map(QosObject::Volume)
                .map_err(|it| it.to_string()),
        }
    }
}

impl fmt::Display for QosObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QosObject::Volume(name) => write!(f, "volume {name}"),
            QosObject::Lun(name) => write!(f, "LUN {name}"),
        }
    }
}

/// What a limit says.
#[derive(Debug, Args)]
pub struct QosRates {
    /// Most operations in a second; flushes do not count
    #[arg(long, value_name = "NUMBER")]
    pub iops: Option<u64>,

    /// Most bytes that are read and written in a second
    #[arg(long, value_name = "SIZE")]
    pub bandwidth: Option<Size>,

    /// What may be saved up while idle, as the time that it takes, in milliseconds; usually 50
    #[arg(long, value_name = "MS")]
    pub burst: Option<u32>,

    /// Part of a busy aggregate, beside those of other LUNs, 1 to 10000; a LUN without one has
    /// that of its volume, or 100
    #[arg(long, value_name = "NUMBER")]
    pub weight: Option<u32>,
}

impl QosRates {
    /// As REST takes it.
    #[must_use]
    pub fn request(&self) -> SetQosPolicy {
        SetQosPolicy {
            iops: self.iops,
            bytes_per_second: self.bandwidth.map(|bandwidth| bandwidth.0),
            burst_milliseconds: self.burst,
            weight: self.weight,
        }
    }
}

/// Options of `qos set`.
#[derive(Debug, Args)]
#[command(
    after_help = "All clients share the limit, of whatever protocol, and so do images in \
    snapshots. The LUNs of a volume share its limit; each may have its own besides. This sets the \
    whole limit: what is not given is not limited. Requests beyond the limit wait; none is \
    refused. A weight limits nothing: where operations wait, LUNs get parts as their weights.",
    group = one_of(&["iops", "bandwidth", "weight", "policy"])
)]
pub struct QosSet {
    /// The LUN or volume
    #[arg(value_name = "VOLUME[/LUN]")]
    pub of: QosObject,

    /// What the limit says.
    #[command(flatten)]
    pub rates: QosRates,

    /// Follow this policy instead: when it is changed, the limit changes, too
    #[arg(
        long,
        value_name = "POLICY",
        conflicts_with_all = ["iops", "bandwidth", "burst", "weight"]
    )]
    pub policy: Option<Name>,
}

/// What has a limit.
#[derive(Debug, Args)]
pub struct QosOf {
    /// The LUN or volume
    #[arg(value_name = "VOLUME[/LUN]")]
    pub of: QosObject,
}

/// Options of `qos show`.
#[derive(Debug, Args)]
pub struct QosShow {
    /// How the list is shown.
    #[command(flatten)]
    pub listing: Listing,
}

/// Verbs of `qos-policy`.
#[derive(Debug, Subcommand)]
pub enum QosPolicyVerb {
    /// Make a policy or change it; the limits that follow it change, too
    Set(QosPolicySet),
    /// Show policies
    #[command(visible_alias = "list")]
    Show(QosPolicyShow),
    /// Delete a policy that nothing follows
    Delete(QosPolicyOne),
}

/// Options of `qos-policy set`.
#[derive(Debug, Args)]
#[command(
    after_help = "'qos set VOLUME/LUN --policy POLICY' has a LUN follow it. Each LUN and each \
    volume that follows the policy has a limit of its own like this. This sets the whole policy: \
    what is not given is not limited.",
    group = one_of(&["iops", "bandwidth", "weight"])
)]
pub struct QosPolicySet {
    /// Name of the policy
    #[arg(value_name = "POLICY")]
    pub name: Name,

    /// What the policy says.
    #[command(flatten)]
    pub rates: QosRates,
}

/// Options of `qos-policy show`.
#[derive(Debug, Args)]
pub struct QosPolicyShow {
    /// The policy; all of them if not given
    #[arg(value_name = "POLICY")]
    pub name: Option<Name>,

    /// How the list is shown.
    #[command(flatten)]
    pub listing: Listing,
}

/// A policy.
#[derive(Debug, Args)]
pub struct QosPolicyOne {
    /// Name of the policy
    #[arg(value_name = "POLICY")]
    pub name: Name,
}
