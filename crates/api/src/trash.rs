//! The trash: LUNs, snapshots and volumes that were deleted and can come back.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Fields, Name, Problem};

/// What an object in the trash is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrashKind {
    /// A volume with all that it has.
    Volume,
    /// A LUN.
    Lun,
    /// A snapshot.
    Snapshot,
}

impl TrashKind {
    /// The word that people say.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            TrashKind::Volume => "volume",
            TrashKind::Lun => "LUN",
            TrashKind::Snapshot => "snapshot",
        }
    }
}

impl fmt::Display for TrashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TrashKind::Volume => "volume",
            TrashKind::Lun => "lun",
            TrashKind::Snapshot => "snapshot",
        })
    }
}

/// An object in the trash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrashItem {
    /// Identity of the object: two in the trash may have one name.
    pub id: String,
    /// What it is.
    pub kind: TrashKind,
    /// `volume`, `volume/lun` or `volume@snapshot`: its name when it was deleted, in the volume as
    /// it is called now.
    pub name: String,
    /// The aggregate that has its blocks.
    pub aggregate: String,
    /// Size of the LUN, or of all LUNs of the volume or snapshot together.
    pub size_bytes: u64,
    /// Space that it takes. What snapshots and clones share with a LUN stays when it goes. Of a
    /// snapshot, what nothing else holds.
    pub used_bytes: u64,
    /// When it was deleted, RFC 3339 in UTC.
    #[schema(format = DateTime)]
    pub deleted: String,
    /// When it leaves the trash, unless space is short before, RFC 3339 in UTC.
    #[schema(format = DateTime)]
    pub until: String,
}

/// `GET /v1/trash`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trash {
    /// Objects in the trash, the one that was deleted first at first.
    pub trash: Vec<TrashItem>,
}

/// `POST /v1/trash/{id}/actions/undelete`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Undelete {
    /// Name that the object gets, of a LUN or a snapshot without its volume; the one that it had if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub name: Option<Name>,
}

impl Undelete {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<Undelete, Problem> {
        let mut fields = Fields::parse(body)?;
        let name = fields.parsed("name")?;
        fields.finish()?;
        Ok(Undelete { name })
    }
}

/// The answer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Undeleted {
    /// What came back.
    pub kind: TrashKind,
    /// `volume`, `volume/lun` or `volume@snapshot`: its name now.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_the_daemon_reads() {
        let name = Some("lun1".parse().expect("a name"));
        for request in [Undelete::default(), Undelete { name }] {
            let body = serde_json::to_vec(&request).expect("JSON");
            assert_eq!(Undelete::parse(&body), Ok(request));
        }
        let wrong = Undelete::parse(b"{\"name\": \"a/b\"}").expect_err("no name");
        assert_eq!(wrong.field.as_deref(), Some("name"));
    }
}
