//! Hosts, groups of hosts, and mappings: who may use which LUN.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::required;
use crate::{Code, Fields, LunName, Name, Problem, Session};

/// Longest list of identifiers or hosts in a request.
const LIST_MAX: usize = 1_024;

/// A host: what its connections look like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// What it is known by: IQNs, NQNs, `cert:NAME`, addresses, networks, `local`.
    pub identifiers: Vec<String>,
    /// The groups that it is in.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Number of LUNs that are mapped to the host itself.
    #[serde(default)]
    pub lun_count: u64,
}

/// `GET /v1/hosts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hosts {
    /// Hosts, by name.
    pub hosts: Vec<Host>,
}

/// `POST /v1/hosts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreateHost {
    /// Unique among hosts and groups.
    pub name: Name,
    /// What it is known by: IQNs, NQNs, `cert:NAME`, addresses, networks, `local`. A connection
    /// that has one of them is the host's.
    #[schema(min_items = 1, max_items = 32)]
    pub identifiers: Vec<String>,
}

impl CreateHost {
    /// Reads a body. What an identifier is, is for others to say.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<CreateHost, Problem> {
        let mut fields = Fields::parse(body)?;
        let name = fields.parsed("name")?;
        let identifiers = fields.strings("identifiers", LIST_MAX)?;
        fields.finish()?;
        if identifiers.is_empty() {
            let text = "missing; say what the host is known by, an IQN for example";
            return Err(Problem::of_field(Code::MissingField, "identifiers", text));
        }
        Ok(CreateHost {
            name: required("name", name)?,
            identifiers,
        })
    }
}

/// `POST /v1/hosts/{host}/actions/modify`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ModifyHost {
    /// Identifiers to add.
    #[schema(required = false)]
    pub add: Vec<String>,
    /// Identifiers to remove. Connections that have no other one end within seconds.
    #[schema(required = false)]
    pub remove: Vec<String>,
}

impl ModifyHost {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<ModifyHost, Problem> {
        let mut fields = Fields::parse(body)?;
        let add = fields.strings("add", LIST_MAX)?;
        let remove = fields.strings("remove", LIST_MAX)?;
        fields.finish()?;
        changes_something(add.len() + remove.len())?;
        Ok(ModifyHost { add, remove })
    }
}

/// A group of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostGroup {
    /// Its name.
    pub name: String,
    /// Names of its hosts.
    pub hosts: Vec<String>,
    /// Number of LUNs that are mapped to the group.
    #[serde(default)]
    pub lun_count: u64,
}

/// `GET /v1/host-groups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostGroups {
    /// Groups, by name.
    pub host_groups: Vec<HostGroup>,
}

/// `POST /v1/host-groups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreateHostGroup {
    /// Unique among hosts and groups.
    pub name: Name,
    /// Names of its hosts; none if absent.
    #[schema(required = false)]
    pub hosts: Vec<Name>,
}

impl CreateHostGroup {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<CreateHostGroup, Problem> {
        let mut fields = Fields::parse(body)?;
        let name = fields.parsed("name")?;
        let hosts = names(&mut fields, "hosts")?;
        fields.finish()?;
        Ok(CreateHostGroup {
            name: required("name", name)?,
            hosts,
        })
    }
}

/// `POST /v1/host-groups/{group}/actions/modify`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ModifyHostGroup {
    /// Hosts to add.
    #[schema(required = false)]
    pub add: Vec<Name>,
    /// Hosts to remove. Their connections to LUNs of the group end within seconds.
    #[schema(required = false)]
    pub remove: Vec<Name>,
}

impl ModifyHostGroup {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<ModifyHostGroup, Problem> {
        let mut fields = Fields::parse(body)?;
        let add = names(&mut fields, "add")?;
        let remove = names(&mut fields, "remove")?;
        fields.finish()?;
        changes_something(add.len() + remove.len())?;
        Ok(ModifyHostGroup { add, remove })
    }
}

/// The kind of what a LUN is mapped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MappingKind {
    /// A host.
    Host,
    /// A group of hosts.
    Group,
}

impl fmt::Display for MappingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            MappingKind::Host => "host",
            MappingKind::Group => "group",
        })
    }
}

/// A mapping: these hosts may use this LUN and its images in snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mapping {
    /// `volume/lun`.
    pub lun: String,
    /// Name of the host or group.
    pub to: String,
    /// Which of them it is.
    pub kind: MappingKind,
    /// Names of the hosts.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// `GET /v1/mappings`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mappings {
    /// Mappings, by LUN.
    pub mappings: Vec<Mapping>,
}

/// `POST /v1/mappings`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreateMapping {
    /// `volume/lun`.
    #[schema(value_type = String)]
    pub lun: LunName,
    /// Name of a host or of a group.
    pub to: Name,
}

impl CreateMapping {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<CreateMapping, Problem> {
        let mut fields = Fields::parse(body)?;
        let lun = fields.parsed("lun")?;
        let to = fields.parsed("to")?;
        fields.finish()?;
        Ok(CreateMapping {
            lun: required("lun", lun)?,
            to: required("to", to)?,
        })
    }
}

/// A change of access whose effect is asked for: `POST /v1/access/plan`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AccessChange {
    /// What would be done.
    pub change: AccessChangeKind,
    /// The host or the group, for `modify-host` and `modify-host-group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// What would be added to it.
    #[schema(required = false)]
    pub add: Vec<String>,
    /// What would be removed from it.
    #[schema(required = false)]
    pub remove: Vec<String>,
    /// The LUN, for `create-mapping` and `delete-mapping`.
    #[schema(value_type = Option<String>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lun: Option<LunName>,
    /// The host or the group that it would be mapped to, or not mapped to any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Name>,
}

/// The kind of a change of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AccessChangeKind {
    /// `POST /v1/hosts/{host}/actions/modify`.
    ModifyHost,
    /// `POST /v1/host-groups/{group}/actions/modify`.
    ModifyHostGroup,
    /// `POST /v1/mappings`.
    CreateMapping,
    /// `DELETE /v1/volumes/{volume}/luns/{lun}/mappings/{to}`.
    DeleteMapping,
}

impl std::str::FromStr for AccessChangeKind {
    type Err = String;

    fn from_str(text: &str) -> Result<AccessChangeKind, String> {
        match text {
            "modify-host" => Ok(AccessChangeKind::ModifyHost),
            "modify-host-group" => Ok(AccessChangeKind::ModifyHostGroup),
            "create-mapping" => Ok(AccessChangeKind::CreateMapping),
            "delete-mapping" => Ok(AccessChangeKind::DeleteMapping),
            _ => Err(format!(
                "{text:.40?} is no change of access; use modify-host, modify-host-group, \
                create-mapping or delete-mapping"
            )),
        }
    }
}

impl AccessChange {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<AccessChange, Problem> {
        let mut fields = Fields::parse(body)?;
        let change = fields.parsed("change")?;
        let request = AccessChange {
            change: required("change", change)?,
            name: fields.parsed("name")?,
            add: fields.strings("add", LIST_MAX)?,
            remove: fields.strings("remove", LIST_MAX)?,
            lun: fields.parsed("lun")?,
            to: fields.parsed("to")?,
        };
        fields.finish()?;
        Ok(request)
    }
}

/// What a change of access would do: nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessPlan {
    /// Connections that would end.
    pub ending: Vec<Session>,
    /// Number of connections that would go on.
    pub staying_count: u64,
}

fn names(fields: &mut Fields, field: &'static str) -> Result<Vec<Name>, Problem> {
    let texts = fields.strings(field, LIST_MAX)?;
    let name = |text: &String| {
        let parsed = text.parse::<Name>();
        parsed.map_err(|error| Problem::invalid(field, error.to_string()))
    };
    texts.iter().map(name).collect()
}

fn changes_something(count: usize) -> Result<(), Problem> {
    match count {
        0 => {
            let text = "missing; say what to add or to remove";
            Err(Problem::of_field(Code::MissingField, "add", text))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn body(request: &impl Serialize) -> Vec<u8> {
        serde_json::to_vec(request).expect("JSON")
    }

    #[test]
    fn what_a_client_writes_the_daemon_reads() {
        let host = CreateHost {
            name: name("h"),
            identifiers: vec!["iqn.a:b".to_owned()],
        };
        assert_eq!(CreateHost::parse(&body(&host)), Ok(host));
        let change = ModifyHost {
            add: vec!["local".to_owned()],
            remove: Vec::new(),
        };
        assert_eq!(ModifyHost::parse(&body(&change)), Ok(change));
        let group = CreateHostGroup {
            name: name("g"),
            hosts: vec![name("h")],
        };
        assert_eq!(CreateHostGroup::parse(&body(&group)), Ok(group));
        let change = ModifyHostGroup {
            add: Vec::new(),
            remove: vec![name("h")],
        };
        assert_eq!(ModifyHostGroup::parse(&body(&change)), Ok(change));
        let mapping = CreateMapping {
            lun: "v/l".parse().expect("a LUN"),
            to: name("g"),
        };
        assert_eq!(CreateMapping::parse(&body(&mapping)), Ok(mapping));
        let plan = AccessChange {
            change: AccessChangeKind::DeleteMapping,
            name: None,
            add: Vec::new(),
            remove: Vec::new(),
            lun: Some("v/l".parse().expect("a LUN")),
            to: Some(name("g")),
        };
        assert_eq!(AccessChange::parse(&body(&plan)), Ok(plan));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let host = CreateHost::parse(br#"{"name": "h"}"#).expect_err("no identifiers");
        assert_eq!(host.field.as_deref(), Some("identifiers"));
        let change = ModifyHost::parse(b"{}").expect_err("nothing to do");
        assert_eq!(change.code, Code::MissingField);
        let group = CreateHostGroup::parse(br#"{"name": "g", "hosts": ["a b"]}"#);
        assert_eq!(group.expect_err("no name").field.as_deref(), Some("hosts"));
        let mapping = CreateMapping::parse(br#"{"lun": "v/l@s", "to": "h"}"#);
        assert_eq!(mapping.expect_err("no LUN").field.as_deref(), Some("lun"));
    }
}
