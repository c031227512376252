//! Volumes: containers of LUNs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::required;
use crate::{Code, Comment, Fields, Name, Problem, SnapshotName};

/// The moment at which a write to a volume is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// Writes are durable when the client flushes.
    #[default]
    Standard,
    /// Each write is durable when it is answered.
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
    /// Name of the aggregate; may be absent if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Name>,
    /// Durability of writes; if absent, `standard`, or for a clone that of its parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
    /// Policy of automatic snapshots, or `none`. If absent, the policy of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_policy: Option<Name>,
    /// Snapshot to clone, `volume@snapshot`; the clone is created in its aggregate. If absent, the
    /// volume is empty.
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

/// `PUT /v1/volumes/{v}`: creates the volume unless it exists with the same settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct PutVolume {
    /// Name of the aggregate; may be absent if there is only one, or if the volume exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Name>,
    /// Durability of writes; if absent, `standard`, or for a clone that of its parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
    /// Policy of automatic snapshots, or `none`. If absent, the policy of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_policy: Option<Name>,
    /// Snapshot to clone, `volume@snapshot`; the clone is created in its aggregate. If absent, the
    /// volume is empty.
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

/// `PATCH /v1/volumes/{v}`: changes what is given, and leaves the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ModifyVolume {
    /// When writes count as done from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
    /// The snapshot policy from now on; `none` for no policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_policy: Option<Name>,
    /// What people note about it; an empty one removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<Comment>,
}

impl ModifyVolume {
    /// Reads a body.
    ///
    /// # Errors
    /// The field to blame; a body that changes nothing is missing one.
    pub fn parse(body: &[u8]) -> Result<ModifyVolume, Problem> {
        let mut fields = Fields::parse(body)?;
        let sync = fields.parsed("sync")?;
        let snapshot_policy = fields.parsed("snapshot_policy")?;
        let comment = fields.parsed("comment")?;
        fields.finish()?;
        let request = ModifyVolume {
            sync,
            snapshot_policy,
            comment,
        };
        if request == ModifyVolume::default() {
            let text = "nothing is to be changed; give sync, snapshot_policy or comment";
            return Err(Problem::of_field(Code::MissingField, "sync", text));
        }
        Ok(request)
    }
}

/// A volume as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Name of the aggregate.
    pub aggregate: String,
    /// Durability of writes.
    pub sync: Sync,
    /// Number of LUNs in the volume.
    pub lun_count: u64,
    /// Sizes of its LUNs together.
    pub logical_bytes: u64,
    /// Snapshot that the clone began as: `volume@snapshot`; absent if the volume is no clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_of: Option<String>,
    /// Space of its active image, metadata included; a clone shares some of it with its parent.
    #[serde(default)]
    pub used_bytes: u64,
    /// Space that the volume uses in the aggregate, with its snapshots and all metadata; for a
    /// clone, without the blocks of its parent.
    #[serde(default)]
    pub allocated_bytes: u64,
    /// Space that deletions of its LUNs and snapshots have yet to free.
    #[serde(default)]
    pub pending_free_bytes: u64,
    /// Number of its snapshots.
    #[serde(default)]
    pub snapshot_count: u64,
    /// Sum of the space that deleting each snapshot alone would free. Snapshots together use at
    /// least this space.
    #[serde(default)]
    pub snapshot_exclusive_bytes: u64,
    /// Policy of automatic snapshots, or `none`.
    #[serde(default)]
    pub snapshot_policy: String,
    /// What people note about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
}

/// `GET /v1/volumes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volumes {
    /// Volumes, by name.
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
