//! Volumes: what LUNs are in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::required;
use crate::{Fields, Name, Problem, SnapshotName};

/// When writes to a volume count as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// When the client flushes.
    #[default]
    Standard,
    /// Each at once.
    Always,
}

impl FromStr for Sync {
    type Err = String;

    fn from_str(text: &str) -> Result<Sync, String> {
        match text {
            "standard" => Ok(Sync::Standard),
            "always" => Ok(Sync::Always),
            _ => Err(format!("{text:?} is not known; use standard or always")),
        }
    }
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Sync::Standard => "standard",
            Sync::Always => "always",
        })
    }
}

/// `POST /v1/volumes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreateVolume {
    /// Unique in the daemon.
    pub name: Name,
    /// Where; the only aggregate if there is but one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Name>,
    /// When its writes count as done; `standard` if absent, and of a clone as in its parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
    /// Which snapshots it gets by itself: a policy, or `none`. That of the configuration if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_policy: Option<Name>,
    /// Begin as this snapshot, `volume@snapshot`, in the aggregate that has it; an empty volume if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "vol0@monday")]
    pub clone_of: Option<SnapshotName>,
}

impl CreateVolume {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<CreateVolume, Problem> {
        let mut fields = Fields::parse(body)?;
        let name = fields.parsed("name")?;
        let aggregate = fields.parsed("aggregate")?;
        let sync = fields.parsed("sync")?;
        let snapshot_policy = fields.parsed("snapshot_policy")?;
        let clone_of = fields.parsed("clone_of")?;
        fields.finish()?;
        Ok(CreateVolume {
            name: required("name", name)?,
            aggregate,
            sync,
            snapshot_policy,
            clone_of,
        })
    }
}

/// `PUT /v1/volumes/{v}`: makes it unless it exists with the same settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct PutVolume {
    /// Where; the only aggregate if there is but one. What exists may be anywhere if this is
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Name>,
    /// When its writes count as done; `standard` if absent, and of a clone as in its parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
    /// Which snapshots it gets by itself: a policy, or `none`. That of the configuration if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_policy: Option<Name>,
    /// Begin as this snapshot, `volume@snapshot`, in the aggregate that has it; an empty volume if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "vol0@monday")]
    pub clone_of: Option<SnapshotName>,
}

impl PutVolume {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<PutVolume, Problem> {
        let mut fields = Fields::parse(body)?;
        let aggregate = fields.parsed("aggregate")?;
        let sync = fields.parsed("sync")?;
        let snapshot_policy = fields.parsed("snapshot_policy")?;
        let clone_of = fields.parsed("clone_of")?;
        fields.finish()?;
        Ok(PutVolume {
            aggregate,
            sync,
            snapshot_policy,
            clone_of,
        })
    }
}

/// A volume as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub aggregate: String,
    /// When its writes count as done.
    pub sync: Sync,
    /// How many LUNs it has.
    pub lun_count: u64,
    /// Sizes of its LUNs together.
    pub logical_bytes: u64,
    /// Of a clone, the snapshot that it began as: `volume@snapshot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_of: Option<String>,
    /// What its active image holds, metadata included; a clone shares some of it with its parent.
    #[serde(default)]
    pub used_bytes: u64,
    /// What it takes from the aggregate, with its snapshots and all metadata; of a clone, without
    /// what is its parent's.
    #[serde(default)]
    pub allocated_bytes: u64,
    /// What deletions of its LUNs and snapshots have yet to give back.
    #[serde(default)]
    pub pending_free_bytes: u64,
    /// How many snapshots it has.
    #[serde(default)]
    pub snapshot_count: u64,
    /// What deleting each of them alone would free, together: what only snapshots hold is at least
    /// this.
    #[serde(default)]
    pub snapshot_exclusive_bytes: u64,
    /// Which snapshots it gets by itself: a policy, or `none`.
    #[serde(default)]
    pub snapshot_policy: String,
}

/// `GET /v1/volumes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volumes {
    /// By name.
    pub volumes: Vec<Volume>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_the_daemon_reads() {
        let request = CreateVolume {
            name: "v".parse().expect("a name"),
            aggregate: Some("a".parse().expect("a name")),
            sync: Some(Sync::Always),
            snapshot_policy: Some("nightly".parse().expect("a name")),
            clone_of: Some("w@s".parse().expect("a snapshot")),
        };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(CreateVolume::parse(&body), Ok(request));
    }

    #[test]
    fn defaults_are_the_conventions() {
        let request = CreateVolume::parse(b"{\"name\": \"v\"}").expect("enough");
        assert_eq!((request.aggregate, request.sync), (None, None));
        assert_eq!(Sync::default(), Sync::Standard);
        let problem = CreateVolume::parse(b"{\"name\": \"v\", \"sync\": \"never\"}");
        assert_eq!(problem.expect_err("no").field.as_deref(), Some("sync"));
        for bad in ["w", "w@", "@s", "w/l@s", ""] {
            let body = format!("{{\"name\": \"v\", \"clone_of\": \"{bad}\"}}");
            let problem = CreateVolume::parse(body.as_bytes()).expect_err(bad);
            assert_eq!(problem.field.as_deref(), Some("clone_of"), "{bad}");
        }
    }
}
