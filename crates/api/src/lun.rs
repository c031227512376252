//! LUNs: disks for clients.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::required;
use crate::{Fields, Name, Problem};

/// `POST /v1/volumes/{v}/luns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreateLun {
    /// Unique in its volume.
    pub name: Name,
    /// A multiple of 4,096.
    #[schema(minimum = 4096, multiple_of = 4096)]
    pub size_bytes: u64,
}

impl CreateLun {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<CreateLun, Problem> {
        let mut fields = Fields::parse(body)?;
        let name = fields.parsed("name")?;
        let size_bytes = fields.integer("size_bytes")?;
        fields.finish()?;
        Ok(CreateLun {
            name: required("name", name)?,
            size_bytes: required("size_bytes", size_bytes)?,
        })
    }
}

/// `PUT /v1/volumes/{v}/luns/{l}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PutLun {
    /// A multiple of 4,096.
    #[schema(minimum = 4096, multiple_of = 4096)]
    pub size_bytes: u64,
}

impl PutLun {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<PutLun, Problem> {
        let mut fields = Fields::parse(body)?;
        let size_bytes = fields.integer("size_bytes")?;
        fields.finish()?;
        let size_bytes = required("size_bytes", size_bytes)?;
        Ok(PutLun { size_bytes })
    }
}

/// `PATCH /v1/volumes/{v}/luns/{l}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ResizeLun {
    /// A multiple of 4,096.
    #[schema(minimum = 4096, multiple_of = 4096)]
    pub size_bytes: u64,
    /// Whether the LUN may shrink, which destroys the data beyond the new end.
    #[schema(required = false)]
    pub discard_beyond: bool,
}

impl ResizeLun {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<ResizeLun, Problem> {
        let mut fields = Fields::parse(body)?;
        let size_bytes = fields.integer("size_bytes")?;
        let discard_beyond = fields.flag("discard_beyond")?;
        fields.finish()?;
        Ok(ResizeLun {
            size_bytes: required("size_bytes", size_bytes)?,
            discard_beyond,
        })
    }
}

/// `POST /v1/volumes/{v}/luns/{l}/actions/clone`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CloneLun {
    /// Name of the clone, unique in the volume.
    pub name: Name,
    /// The snapshot of the volume in which the LUN is taken as it was; as it is if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Name>,
}

impl CloneLun {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<CloneLun, Problem> {
        let mut fields = Fields::parse(body)?;
        let name = fields.parsed("name")?;
        let snapshot = fields.parsed("snapshot")?;
        fields.finish()?;
        Ok(CloneLun {
            name: required("name", name)?,
            snapshot,
        })
    }
}

/// A LUN as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lun {
    /// Its name in the volume.
    pub name: String,
    /// Name of the volume.
    pub volume: String,
    /// Its name in commands and messages: `volume/lun`.
    #[serde(default)]
    pub object: String,
    /// Size that clients see.
    pub size_bytes: u64,
    /// Space used in the aggregate at the last consistency point, metadata included.
    #[serde(default)]
    pub used_bytes: u64,
    /// Its UUID, which it keeps under every name. NAA, EUI-64, NGUID and serial number, which hosts
    /// see, follow from it.
    #[serde(default)]
    pub uuid: String,
    /// The name of its NBD export.
    pub nbd_export: String,
    /// URI of the LUN for NBD clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbd_uri: Option<String>,
    /// Its target, if the daemon speaks iSCSI and the name is not too long for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iscsi_target: Option<String>,
    /// Its subsystem, if the daemon speaks NVMe/TCP and the name is not too long for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme_subsystem: Option<String>,
}

/// `GET /v1/volumes/{v}/luns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Luns {
    /// LUNs, by name.
    pub luns: Vec<Lun>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn what_a_client_writes_the_daemon_reads() {
        let request = CreateLun {
            name: "l".parse().expect("a name"),
            size_bytes: 16 << 30,
        };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(CreateLun::parse(&body), Ok(request));
        let request = PutLun { size_bytes: 4096 };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(PutLun::parse(&body), Ok(request));
        let request = ResizeLun {
            size_bytes: 4096,
            discard_beyond: true,
        };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(ResizeLun::parse(&body), Ok(request));
    }

    #[test]
    fn a_size_is_required() {
        let problem = CreateLun::parse(b"{\"name\": \"l\"}").expect_err("no size");
        assert_eq!(problem.code, Code::MissingField);
        assert_eq!(problem.field.as_deref(), Some("size_bytes"));
        // The message names the mistyped field rather than the missing one.
        let problem = CreateLun::parse(b"{\"name\": \"l\", \"size\": 4096}");
        assert_eq!(problem.expect_err("unknown").field.as_deref(), Some("size"));
        let problem = ResizeLun::parse(b"{\"size_bytes\": 1, \"name\": \"l\"}");
        assert_eq!(problem.expect_err("unknown").code, Code::UnknownField);
    }
}
