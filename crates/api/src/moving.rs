//! Aggregates that move from one daemon to another: exported here, imported there.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::aggregate::DEVICES_MAX;
use crate::{Code, Fields, Name, Problem};

/// `POST /v1/aggregates/actions/import`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ImportAggregate {
    /// Absolute paths of all devices of the aggregate, in any order: directories, regular files,
    /// block devices.
    #[schema(max_items = 64)]
    pub devices: Vec<String>,
    /// Name of the aggregate from now on. None: the name that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// Also import devices that are all older than what this daemon has seen of the aggregate.
    #[schema(required = false)]
    pub accept_rollback: bool,
    /// Only show which aggregate the devices have.
    #[schema(required = false)]
    pub dry_run: bool,
}

impl ImportAggregate {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<ImportAggregate, Problem> {
        let mut fields = Fields::parse(body)?;
        let request = ImportAggregate {
            devices: fields.strings("devices", DEVICES_MAX)?,
            name: fields.parsed("name")?,
            accept_rollback: fields.flag("accept_rollback")?,
            dry_run: fields.flag("dry_run")?,
        };
        fields.finish()?;
        if request.devices.is_empty() {
            let text = "missing; name all devices of the aggregate";
            return Err(Problem::of_field(Code::MissingField, "devices", text));
        }
        Ok(request)
    }
}

/// An aggregate as the labels of its devices describe it, before it is imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportPlan {
    /// Name that it has.
    pub former_name: String,
    /// Name that it would have.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// The consistency point that it would be opened with.
    pub committed_cp: u64,
    /// Paths of the devices that were named.
    pub devices: Vec<String>,
    /// Devices of the aggregate.
    pub device_count: u64,
    /// Devices of it that were not named, or cannot be used.
    pub missing_count: u64,
}

/// An aggregate that was exported: this daemon has forgotten it, and its devices are closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportedAggregate {
    /// Name that it has.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Absolute paths of its devices, which an import needs.
    pub devices: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_the_daemon_reads() {
        let import = ImportAggregate {
            devices: vec!["/dev/sdb".to_owned()],
            name: Some("old".parse().expect("a name")),
            accept_rollback: true,
            dry_run: true,
        };
        let body = serde_json::to_vec(&import).expect("JSON");
        assert_eq!(ImportAggregate::parse(&body), Ok(import));
    }

    #[test]
    fn an_import_names_devices() {
        for body in ["{}", r#"{"devices": []}"#] {
            let problem = ImportAggregate::parse(body.as_bytes()).expect_err("no devices");
            assert_eq!(problem.field.as_deref(), Some("devices"), "{body}");
        }
    }
}
