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
    /// Open the aggregate for reading: nothing is written to the devices.
    #[schema(required = false)]
    pub read_only: bool,
    /// Only show which aggregate the devices have.
    #[schema(required = false)]
    pub dry_run: bool,
}

/// Folders of one request.
const FOLDERS_MAX: usize = 16;

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
            read_only: fields.flag("read_only")?,
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

/// `POST /v1/aggregates/actions/scan`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ScanFolders {
    /// Absolute paths of the folders in which devices are looked for, with the folders in them.
    #[schema(max_items = 16)]
    pub folders: Vec<String>,
}

impl ScanFolders {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<ScanFolders, Problem> {
        let mut fields = Fields::parse(body)?;
        let folders = fields.strings("folders", FOLDERS_MAX)?;
        fields.finish()?;
        if folders.is_empty() {
            let text = "missing; name the folders to look in, such as /dev";
            return Err(Problem::of_field(Code::MissingField, "folders", text));
        }
        Ok(ScanFolders { folders })
    }
}

/// An aggregate that was found by its devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundAggregate {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Paths of the devices that were found.
    pub devices: Vec<String>,
    /// Devices that it has; 0 if they do not tell.
    pub device_count: u64,
    /// Devices of it that were not found, or cannot be used.
    pub missing_count: u64,
    /// The reason why it cannot be imported; absent if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The answer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundAggregates {
    /// Aggregates that are not open here, by name.
    pub aggregates: Vec<FoundAggregate>,
    /// Files, folders and block devices that were looked at.
    pub looked_at_count: u64,
    /// Those of them that somebody else uses, or that cannot be read.
    pub unreadable_count: u64,
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
            read_only: true,
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
