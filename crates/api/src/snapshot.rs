//! Snapshots: images of a volume, kept.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::only;
use crate::{Fields, Name, NotAName, Problem};

/// `volume@snapshot`, a word in JSON.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotName {
    /// Name of the volume.
    pub volume: Name,
    /// Its name there.
    pub snapshot: Name,
}

impl FromStr for SnapshotName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<SnapshotName, NotAName> {
        let Some((volume, snapshot)) = text.split_once('@') else {
            return Err(NotAName::new(text, "a snapshot: write VOLUME@SNAPSHOT"));
        };
        if volume.contains('/') {
            let expected = "a snapshot: a snapshot holds a volume with all its LUNs, so write \
                VOLUME@SNAPSHOT without a LUN";
            return Err(NotAName::new(text, expected));
        }
        Ok(SnapshotName {
            volume: volume.parse()?,
            snapshot: snapshot.parse()?,
        })
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.volume, self.snapshot)
    }
}

impl Serialize for SnapshotName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `POST /v1/volumes/{v}/snapshots`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreateSnapshot {
    /// Unique in its volume.
    pub name: Name,
}

impl CreateSnapshot {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<CreateSnapshot, Problem> {
        Ok(CreateSnapshot {
            name: only(body, "name")?,
        })
    }
}

/// `PATCH /v1/volumes/{v}/snapshots/{s}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RenameSnapshot {
    /// The new name, unique in the volume.
    pub name: Name,
}

impl RenameSnapshot {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<RenameSnapshot, Problem> {
        Ok(RenameSnapshot {
            name: only(body, "name")?,
        })
    }
}

/// `POST /v1/volumes/{v}/snapshots/{s}/actions/hold`, and `…/release`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct HoldSnapshot {
    /// The reason, by the rule for names; unique among the holds of the snapshot.
    pub tag: Name,
}

impl HoldSnapshot {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<HoldSnapshot, Problem> {
        Ok(HoldSnapshot {
            tag: only(body, "tag")?,
        })
    }
}

/// `POST /v1/volumes/{v}/snapshots/{s}/actions/restore`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct RestoreSnapshot {
    /// Name of the snapshot that is taken of the present image; `before-restore-` and the time if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_snapshot: Option<Name>,
    /// Restore only this LUN; the rest of the volume stays. A deleted LUN is created again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lun: Option<Name>,
    /// Then delete all newer snapshots, including the one of the present image. Not for a LUN.
    #[schema(required = false)]
    pub discard_newer: bool,
    /// Only report what would happen.
    #[schema(required = false)]
    pub dry_run: bool,
}

impl RestoreSnapshot {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<RestoreSnapshot, Problem> {
        let mut fields = Fields::parse(body)?;
        let safety_snapshot: Option<Name> = fields.parsed("safety_snapshot")?;
        let lun: Option<Name> = fields.parsed("lun")?;
        let discard_newer = fields.flag("discard_newer")?;
        let dry_run = fields.flag("dry_run")?;
        fields.finish()?;
        if discard_newer && lun.is_some() {
            let text = "newer snapshots have other LUNs too, so restoring one LUN deletes none; \
                leave one out";
            return Err(Problem::invalid("discard_newer", text));
        }
        if discard_newer && safety_snapshot.is_some() {
            let text = "discard_newer deletes that of the present image too, so it needs no name; \
                leave one out";
            return Err(Problem::invalid("safety_snapshot", text));
        }
        Ok(RestoreSnapshot {
            safety_snapshot,
            lun,
            discard_newer,
            dry_run,
        })
    }
}

/// Times of a change that froze an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Taken {
    /// Time of the freeze, RFC 3339 in UTC. The image has no later writes.
    #[schema(format = DateTime)]
    pub taken_at: String,
    /// Time at which the image was on stable storage, when the request was answered.
    #[schema(format = DateTime)]
    pub durable_at: String,
    /// Time from the request to the freeze.
    pub taken_us: u64,
    /// Time from the request to stable storage.
    pub durable_us: u64,
}

/// A snapshot as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// Its name in the volume.
    pub name: String,
    /// Name of the volume.
    pub volume: String,
    /// Its name in commands and messages: `volume@snapshot`.
    #[serde(default)]
    pub object: String,
    /// Its number in the volume, never reused: it stays when the name changes, and grows with each
    /// snapshot.
    pub id: u64,
    /// The snapshot that its image descends from, if that is still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Time of creation, RFC 3339 in UTC.
    #[schema(format = DateTime)]
    pub created: String,
    /// The consistency point whose image it is.
    pub consistency_point: u64,
    /// Space of its image, including blocks shared with other images.
    pub logical_bytes: u64,
    /// Space that only this snapshot uses: deleting this snapshot alone frees as much.
    pub exclusive_bytes: u64,
    /// Space of LUNs whose deletion was in progress when the snapshot was taken.
    pub pending_delete_bytes: u64,
    /// Reasons that callers gave to keep the snapshot.
    pub holds: Vec<String>,
    /// Whether a client has a LUN of the snapshot open.
    pub is_exported: bool,
    /// Read-only exports of its LUNs for NBD clients: `volume/lun@snapshot`.
    pub nbd_exports: Vec<String>,
    /// Volumes cloned from the snapshot. While they exist, the snapshot cannot be deleted.
    #[serde(default)]
    pub clones: Vec<String>,
    /// Whether its volume, a clone, began as this snapshot. Then it is deleted with the volume
    /// only.
    #[serde(default)]
    pub is_clone_base: bool,
    /// Times of the snapshot; only in the answer to its creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Taken>,
}

impl Snapshot {
    /// What to do so that the snapshot's clones do not need it any more.
    #[must_use]
    pub fn remedy_of_clones(&self) -> &'static str {
        match self
            .clones
            .iter()
            .any(|name| name.ends_with("(in the trash)"))
        {
            true => "split or delete what is cloned first, and 'trash empty' what is in the trash",
            false => "split or delete what is cloned first",
        }
    }
}

/// `GET /v1/volumes/{v}/snapshots`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Snapshots {
    /// Snapshots in order of creation.
    pub snapshots: Vec<Snapshot>,
}

/// The result, or the plan, of a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Restored {
    /// Name of the volume.
    pub volume: String,
    /// Snapshot whose image is the active one now.
    pub snapshot: String,
    /// Name of the LUN, if only a LUN was restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lun: Option<String>,
    /// Whether the request only asked what would happen.
    pub dry_run: bool,
    /// Snapshot of the replaced active image; absent if that image was to be discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_snapshot: Option<String>,
    /// Snapshots that are deleted, because they were newer.
    pub discarded: Vec<Snapshot>,
    /// Times of the restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Taken>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn a_snapshot_has_a_volume() {
        let name: SnapshotName = "vol0@monday".parse().expect("a snapshot");
        assert_eq!(name.to_string(), "vol0@monday");
        let long = format!("v@{}", "s".repeat(1024));
        for bad in [
            "vol0", "vol0@", "@s", "a@b@c", "a/b@c", "a@b/c", "a@é", "a@ ", &long,
        ] {
            assert!(bad.parse::<SnapshotName>().is_err(), "{bad:?}");
        }
        let refusal = "vol0/lun0@s".parse::<SnapshotName>().expect_err("a LUN");
        let text = refusal.to_string();
        assert!(text.contains("a volume with all its LUNs"), "{text}");
    }

    #[test]
    fn what_a_client_writes_the_daemon_reads() {
        let name: Name = "s".parse().expect("a name");
        let request = CreateSnapshot { name: name.clone() };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(CreateSnapshot::parse(&body), Ok(request));
        let request = RestoreSnapshot {
            safety_snapshot: Some(name.clone()),
            lun: Some(name),
            discard_newer: false,
            dry_run: true,
        };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(RestoreSnapshot::parse(&body), Ok(request));
        assert_eq!(
            RestoreSnapshot::parse(b"{}"),
            Ok(RestoreSnapshot::default())
        );
    }

    #[test]
    fn a_name_is_required_and_a_contradiction_refused() {
        for (body, code, field) in [
            ("{}", Code::MissingField, "name"),
            ("{\"name\": \"a@b\"}", Code::InvalidValue, "name"),
            ("{\"name\": \"\"}", Code::InvalidValue, "name"),
            (
                "{\"name\": \"a\", \"tag\": \"b\"}",
                Code::UnknownField,
                "tag",
            ),
        ] {
            let problem = CreateSnapshot::parse(body.as_bytes()).expect_err(body);
            assert_eq!(problem.code, code, "{body}");
            assert_eq!(problem.field.as_deref(), Some(field), "{body}");
        }
        let body = b"{\"discard_newer\": true, \"safety_snapshot\": \"a\"}";
        let problem = RestoreSnapshot::parse(body).expect_err("a contradiction");
        assert_eq!(problem.field.as_deref(), Some("safety_snapshot"));
        let body = b"{\"discard_newer\": true, \"lun\": \"a\"}";
        let problem = RestoreSnapshot::parse(body).expect_err("a contradiction");
        assert_eq!(problem.field.as_deref(), Some("discard_newer"));
    }
}
