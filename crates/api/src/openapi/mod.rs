//! The description of the REST interface (OpenAPI 3.1), made from the types themselves and a table
//! of paths.
//!
//! Schemas come from the types of this crate, so a field that is added is described. Paths are the
//! table in [`ROUTES`]; the server's tests ask for every row of it and find nothing else. The
//! document is committed as `docs/reference/openapi.json` and `cargo xtask gen --check` fails when
//! that is stale.

mod route;

use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use crate::kind::Kind;

pub use route::{Answers, Parameter, ROUTES, Role, Route};

/// Query parameters of every collection.
pub const LISTING: [(&str, &str); 4] = [
    (
        "fields",
        "names of the fields to show, separated by commas; all if absent",
    ),
    (
        "order_by",
        "the field to sort by; a '-' in front means descending",
    ),
    ("max_records", "at most this many, 1 to 10000"),
    (
        "cursor",
        "start of this page: next_cursor of the previous answer",
    ),
];

#[derive(OpenApi)]
#[openapi(components(schemas(
    crate::AddDevices,
    crate::Aggregate,
    crate::Aggregates,
    crate::CreateAggregate,
    crate::AccessChange,
    crate::AccessPlan,
    crate::CreateHost,
    crate::CreateHostGroup,
    crate::CreateLun,
    crate::CreateMapping,
    crate::CreatePolicy,
    crate::CreateSnapshot,
    crate::CreateVolume,
    crate::CreationPlan,
    crate::Events,
    crate::ExportedAggregate,
    crate::Growth,
    crate::HoldSnapshot,
    crate::Host,
    crate::HostGroup,
    crate::HostGroups,
    crate::Hosts,
    crate::ImportAggregate,
    crate::ImportPlan,
    crate::FoundAggregate,
    crate::FoundAggregates,
    crate::ScanFolders,
    crate::History,
    crate::Job,
    crate::Jobs,
    crate::Lun,
    crate::Luns,
    crate::Mapping,
    crate::Mappings,
    crate::ModifyHost,
    crate::ModifyHostGroup,
    crate::Policies,
    crate::Policy,
    crate::ProblemBody,
    crate::Outcome,
    crate::PutLun,
    crate::PutVolume,
    crate::ModifyVolume,
    crate::ModifyPolicy,
    crate::Remembered,
    crate::Rename,
    crate::RenameSnapshot,
    crate::CloneLun,
    crate::Removal,
    crate::RemovalState,
    crate::RemoveDevice,
    crate::ReplaceDrive,
    crate::Replacement,
    crate::ResizeAggregate,
    crate::ResizeLun,
    crate::RestoreSnapshot,
    crate::Restored,
    crate::Snapshot,
    crate::Scan,
    crate::Session,
    crate::Sessions,
    crate::SetScan,
    crate::SnapshotChanges,
    crate::Repair,
    crate::Scrub,
    crate::Clean,
    crate::Rebalance,
    crate::SpaceMap,
    crate::MappedDevice,
    crate::FreeRuns,
    crate::LayoutPart,
    crate::PutInOrder,
    crate::Garden,
    crate::Limit,
    crate::Limits,
    crate::SetLimit,
    crate::QosPolicies,
    crate::QosPolicy,
    crate::SetQosPolicy,
    crate::Spare,
    crate::SpareDrive,
    crate::Spares,
    crate::Split,
    crate::SetPolicy,
    crate::Snapshots,
    crate::Statistics,
    crate::Status,
    crate::CreateToken,
    crate::MadeToken,
    crate::Token,
    crate::Tokens,
    crate::Trash,
    crate::TrashItem,
    crate::Undelete,
    crate::Undeleted,
    crate::Version,
    crate::Volume,
    crate::VolumePolicy,
    crate::Volumes,
)))]
struct Types;

/// Returns the document.
#[must_use]
pub fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let mut document = Types::openapi()
            .to_json()
            .ok()
            .and_then(|text| serde_json::from_str::<Value>(&text).ok())
            .expect("schemas are JSON");
        document["info"] = json!({
            "title": "Everglade",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Administration of an Everglade daemon: docs/reference/rest.md.",
            "license": {"name": "MIT OR Apache-2.0"},
        });
        document["paths"] = paths();
        document["components"]["securitySchemes"] = json!({
            "token": {"type": "http", "scheme": "bearer",
                      "description": "Over TCP only; the Unix socket asks the kernel who \
                      connects."},
        });
        document["security"] = json!([{}, {"token": []}]);
        versioned(&mut document);
        nullable(&mut document);
        document
    })
}

/// Returns the fields that items of a schema can have, with their kinds, for parameters that name
/// some.
#[must_use]
pub fn kinds_of(schema: &str) -> Vec<(&'static str, Kind)> {
    let properties = &document()["components"]["schemas"][schema]["properties"];
    let object = properties.as_object().into_iter().flatten();
    object
        .map(|(name, property)| (name.as_str(), kind_of(name, property)))
        .collect()
}

/// Returns the words of a schema that is a set of words.
#[must_use]
pub fn words_of(schema: &str) -> Vec<&'static str> {
    let words = &document()["components"]["schemas"][schema]["enum"];
    let words = words.as_array().into_iter().flatten();
    words.filter_map(Value::as_str).collect()
}

fn kind_of(name: &str, property: &'static Value) -> Kind {
    if let Some(schema) = named_schema(property) {
        return match words_of(schema).is_empty() {
            true => Kind::Text,
            false => Kind::Word(schema),
        };
    }
    let is = |kind: &str| {
        let found = &property["type"];
        let mut all = found.as_array().into_iter().flatten();
        found == kind || all.any(|found| found == kind)
    };
    let ends = |unit: &str| name == unit || name.ends_with(&format!("_{unit}"));
    if is("boolean") {
        Kind::Flag
    } else if is("integer") {
        match name {
            _ if ends("bytes") => Kind::Size,
            _ if ends("percent") => Kind::Percent,
            _ if ends("seconds") => Kind::Duration,
            _ => Kind::Count,
        }
    } else if property["format"] == "date-time" {
        Kind::Time
    } else {
        Kind::Text
    }
}

/// Returns the name of the schema that a property refers to, alone or as an alternative to null.
fn named_schema(property: &'static Value) -> Option<&'static str> {
    let alternatives = property["oneOf"].as_array().into_iter().flatten();
    let mut all = std::iter::once(property).chain(alternatives);
    let reference = all.find_map(|schema| schema["$ref"].as_str())?;
    reference.rsplit('/').next()
}

/// Adds the schema version, which the types lack, to the beginning of every successful answer.
fn versioned(document: &mut Value) {
    let mut names: Vec<&str> = Vec::new();
    for route in ROUTES {
        names.extend(route.answers.schema());
    }
    names.push("Remembered");
    for name in names {
        let schema = &mut document["components"]["schemas"][name];
        schema["properties"]["schema_version"] = json!({"type": "integer", "const": 1,
            "description": "Grows when an old client would misread the answer."});
    }
}

/// Allows null for every optional field of a request; null means absence.
fn nullable(document: &mut Value) {
    let bodies = ROUTES.iter().filter_map(|route| route.body);
    for name in bodies.collect::<std::collections::BTreeSet<_>>() {
        let schema = &mut document["components"]["schemas"][name];
        let required = schema["required"].clone();
        let is_required = |field: &str| {
            let names = required.as_array().into_iter().flatten();
            names.into_iter().any(|name| name == field)
        };
        let Some(properties) = schema["properties"].as_object_mut() else {
            continue;
        };
        for (field, property) in properties {
            let takes_null = property.to_string().contains("\"null\"");
            if !is_required(field) && !takes_null {
                *property = json!({"anyOf": [property.take(), {"type": "null"}]});
            }
        }
    }
}

fn paths() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        methods[route.method.to_ascii_lowercase()] = operation(route);
    }
    Value::Object(paths)
}

fn operation(route: &Route) -> Value {
    let mut operation = json!({
        "operationId": identifier(route),
        "summary": route.summary,
        "description": format!("Needs the role {} where tokens are asked for.", route.role),
        "parameters": parameters(route),
        "responses": responses(route),
    });
    if let Some(schema) = route.body {
        operation["requestBody"] = json!({
            "required": true,
            "content": {"application/json": {"schema": reference(schema)}},
        });
    }
    operation
}

/// Returns the identifier of an operation: `get_v1_volumes_volume_luns`.
fn identifier(route: &Route) -> String {
    let words = route.path.split(['/', '{', '}', '.']);
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    format!("{}_{}", route.method.to_ascii_lowercase(), words.join("_"))
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut parameters = Vec::new();
    for word in route.path.split('/') {
        let Some(name) = word
            .strip_prefix('{')
            .and_then(|word| word.strip_suffix('}'))
        else {
            continue;
        };
        let schema = match name {
            "id" => json!({"type": "integer", "minimum": 1}),
            _ => reference("Name"),
        };
        parameters.push(json!({"name": name, "in": "path", "required": true, "schema": schema}));
    }
    if let Some(item) = route.item {
        for (name, description) in LISTING {
            let schema = match name {
                "max_records" => json!({"type": "integer", "minimum": 1, "maximum": 10000}),
                _ => json!({"type": "string"}),
            };
            parameters.push(
                json!({"name": name, "in": "query", "description": description,
                                   "schema": schema}),
            );
        }
        parameters.push(json!({
            "name": "filter", "in": "query", "style": "form", "explode": true,
            "description": format!(
                "any field of a {item} and the value it must have; a name that ends in !, <, > or \
                ~ compares otherwise (docs/reference/rest.md#requests)"
            ),
            "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        }));
    }
    for (name, description) in route.flags {
        parameters.push(
            json!({"name": name, "in": "query", "description": description,
                               "schema": {"type": "boolean", "default": false}}),
        );
    }
    for parameter in route.parameters {
        let schema = match parameter.least {
            Some(least) => json!({"type": "integer", "minimum": least}),
            None => reference("Name"),
        };
        parameters.push(
            json!({"name": parameter.name, "in": "query", "description": parameter.summary,
                               "required": parameter.is_required, "schema": schema}),
        );
    }
    if route.is_edit() {
        parameters.push(
            json!({"name": "If-Match", "in": "header", "schema": {"type": "string"},
            "description": "do it only if the object still has this ETag"}),
        );
    }
    if route.is_change() {
        parameters.push(
            json!({"name": "Idempotency-Key", "in": "header", "schema": {"type": "string",
                "pattern": "^[!-~]{1,64}$"},
            "description": "the same key with the same request does it once, however often it is \
            sent"}),
        );
    }
    parameters
}

fn responses(route: &Route) -> Value {
    let mut responses = Map::new();
    for (status, schema) in route.answers.rows() {
        let mut response = json!({"description": description(status)});
        if let Some(schema) = schema.filter(|schema| !schema.is_empty()) {
            let kind = route.kind();
            response["content"] = json!({kind: {"schema": reference(schema)}});
        }
        responses.insert(status.to_string(), response);
    }
    if route.is_change() {
        let remembered = json!({
            "description": description(208),
            "content": {"application/json": {"schema": reference("Remembered")}},
        });
        responses.insert("208".to_owned(), remembered);
    }
    let problem = json!({
        "description": "A problem; its code says which.",
        "content": {"application/problem+json": {"schema": reference("Problem")}},
    });
    let mut statuses: Vec<u16> = vec![400, 401, 403, 404, 405, 408, 413, 422, 503];
    if route.is_change() {
        statuses.extend([409, 412, 500, 504, 507]);
    }
    statuses.sort_unstable();
    for status in statuses {
        responses.insert(status.to_string(), problem.clone());
    }
    Value::Object(responses)
}

fn description(status: u16) -> &'static str {
    match status {
        200 => "The requested object or objects.",
        201 => "Created and durable.",
        202 => "Done and durable; a job frees the space.",
        204 => "Done and durable.",
        208 => "Done before; only with Idempotency-Key. The entry of the history.",
        304 => "The object is still as the request says.",
        _ => "Nothing to say.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let text = document.to_string();
        let mut found = 0;
        for part in text.split("\"#/components/schemas/").skip(1) {
            let name = part.split('"').next().expect("an end");
            assert!(
                document["components"]["schemas"][name].is_object(),
                "{name}"
            );
            found += 1;
        }
        assert!(found > 20, "{found}");
    }

    #[test]
    fn null_is_described_where_it_is_taken_for_absence() {
        let create = &document()["components"]["schemas"]["CreateAggregate"]["properties"];
        for field in ["devices", "size_bytes", "journal_device", "dry_run"] {
            assert!(create[field].to_string().contains("\"null\""), "{field}");
        }
        assert!(!create["name"].to_string().contains("null"));
        let resize = &document()["components"]["schemas"]["ResizeAggregate"]["properties"];
        for field in ["device", "size_bytes", "dry_run"] {
            assert!(resize[field].to_string().contains("\"null\""), "{field}");
        }
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let mut names: Vec<_> = ROUTES.iter().map(identifier).collect();
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn fields_have_the_kinds_of_their_types() {
        for (schema, field, kind) in [
            ("Lun", "size_bytes", Kind::Size),
            ("Lun", "name", Kind::Text),
            ("Job", "state", Kind::Word("JobState")),
            ("Job", "percent", Kind::Percent),
            ("Job", "eta_seconds", Kind::Duration),
            ("Job", "ended", Kind::Time),
            ("Job", "cancellable", Kind::Flag),
            ("Event", "number", Kind::Count),
            ("Event", "time", Kind::Time),
            ("Snapshot", "created", Kind::Time),
            ("Snapshot", "taken", Kind::Text),
            ("Change", "time", Kind::Time),
            ("Volume", "sync", Kind::Word("Sync")),
            ("Aggregate", "host_free_bytes", Kind::Size),
        ] {
            assert!(
                kinds_of(schema).contains(&(field, kind)),
                "{schema}.{field}"
            );
        }
        assert_eq!(words_of("JobState"), ["running", "done", "failed"]);
    }

    #[test]
    fn fields_are_those_of_the_type() {
        for route in ROUTES {
            if let Some(item) = route.item {
                assert!(!kinds_of(item).is_empty(), "{item}");
            }
        }
    }
}
