//! `/v1/aggregates`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, header};
use everglade_api::{
    AddDevices, Code, CreateAggregate, ImportAggregate, Outcome, Problem, Rename, ReplaceDrive,
    ResizeAggregate, ScanFolders, Size,
};
use serde::Serialize;

use super::answer::{Answer, created, found, gone, tagged, with_tag};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use super::entity::{Condition, Tag};
use super::flags;
use super::listing::Listing;
use crate::administrator::{Administrator, DISCONNECT, Within};
use crate::records::Deed;

pub(super) async fn list(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    let aggregates = desk.administrator().aggregates().aggregates;
    listing.answer("aggregates", "Aggregate", &aggregates)
}

pub(super) async fn show(
    State(desk): State<Arc<Desk>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let aggregate = desk.administrator().aggregate(&name)?;
    tagged(&headers, &Tag::of_aggregate(&aggregate), &aggregate)
}

pub(super) async fn create(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Body(body): Body,
) -> Answer {
    let request = CreateAggregate::parse(&body)?;
    if request.dry_run {
        let plan = desk
            .ask(move |administrator| administrator.plan_aggregate(&request))
            .await?;
        return found(plan);
    }
    let place = format!("/v1/aggregates/{}", request.name);
    let deed = Deed {
        what: "aggregate create",
        object: request.name.to_string(),
        detail: list_of(&request.devices),
    };
    let aggregate = desk
        .change(caller, deed, move |administrator| {
            administrator.create_aggregate(&request)
        })
        .await?;
    created(&place, &Tag::of_aggregate(&aggregate), &aggregate)
}

/// The devices that a request names, for the history.
fn list_of(devices: &[String]) -> String {
    match devices {
        [] => "one directory in the data directory".to_owned(),
        devices => devices.join(", "),
    }
}

pub(super) async fn rename(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let request = Rename::parse(&body)?;
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let editing = desk.edit(&format!("aggregate {name}"))?;
    let deed = Deed {
        what: "aggregate rename",
        object: name.clone(),
        detail: format!("to {}", request.name),
    };
    let records = desk.records_shared();
    let aggregate = desk
        .change(caller, deed, move |administrator| {
            let _editing = editing;
            condition.allows(&Tag::of_aggregate(&administrator.aggregate(&name)?))?;
            let renamed = administrator.rename_aggregate(&name, &request)?;
            records.jobs.rename(&name, request.name.as_str());
            Ok(renamed)
        })
        .await?;
    with_tag(&Tag::of_aggregate(&aggregate), &aggregate)
}

pub(super) async fn add(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let request = AddDevices::parse(&body)?;
    let deed = Deed {
        what: "aggregate add",
        object: name.clone(),
        detail: list_of(&request.devices),
    };
    let is_plan = request.dry_run;
    let add =
        move |administrator: &Administrator, name: &str| administrator.add_devices(name, &request);
    change_devices(&desk, caller, (name, deed, is_plan), &headers, add).await
}

pub(super) async fn resize(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let request = ResizeAggregate::parse(&body)?;
    let device = request.device.as_deref();
    let deed = Deed {
        what: "aggregate resize",
        object: name.clone(),
        detail: match (device, request.size_bytes.map(Size)) {
            (None, None) => "to what its devices have".to_owned(),
            (None, Some(size)) => format!("its directory to {size}"),
            (Some(device), None) => format!("to what {device} has"),
            (Some(device), Some(size)) => format!("{device} to {size}"),
        },
    };
    let is_plan = request.dry_run;
    let resize = move |administrator: &Administrator, name: &str| {
        administrator.resize_aggregate(name, &request)
    };
    change_devices(&desk, caller, (name, deed, is_plan), &headers, resize).await
}

pub(super) async fn replace(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let request = ReplaceDrive::parse(&body)?;
    let deed = Deed {
        what: "aggregate replace",
        object: name.clone(),
        detail: format!("{} by {}", request.device, request.with),
    };
    let is_plan = request.dry_run;
    let replace = move |administrator: &Administrator, name: &str| {
        administrator.replace_drive(name, &request)
    };
    change_devices(&desk, caller, (name, deed, is_plan), &headers, replace).await
}

/// Changes the devices of an aggregate, or shows what that would give.
async fn change_devices<T: Serialize + Send + 'static>(
    desk: &Arc<Desk>,
    caller: Caller,
    (name, deed, is_plan): (String, Deed, bool),
    headers: &HeaderMap,
    change: impl FnOnce(&Administrator, &str) -> Result<T, Problem> + Send + 'static,
) -> Answer {
    let condition = Condition::read(headers, &header::IF_MATCH)?;
    if is_plan {
        let planned = desk.ask(move |administrator| {
            condition.allows(&Tag::of_aggregate(&administrator.aggregate(&name)?))?;
            change(administrator, &name)
        });
        return found(planned.await?);
    }
    let editing = desk.edit(&format!("aggregate {name}"))?;
    let changed = desk.change(caller, deed, move |administrator| {
        let _editing = editing;
        condition.allows(&Tag::of_aggregate(&administrator.aggregate(&name)?))?;
        let changed = change(administrator, &name)?;
        let aggregate = administrator
            .aggregate(&name)
            .map_err(Problem::after_change)?;
        Ok((changed, Tag::of_aggregate(&aggregate)))
    });
    let (changed, tag) = changed.await?;
    with_tag(&tag, &changed)
}

pub(super) async fn import(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Body(body): Body,
) -> Answer {
    let request = ImportAggregate::parse(&body)?;
    if request.dry_run {
        let plan = desk
            .ask(move |administrator| administrator.plan_import(&request))
            .await?;
        return found(plan);
    }
    let deed = Deed {
        what: "aggregate import",
        object: match &request.name {
            Some(name) => name.to_string(),
            None => "under its name".to_owned(),
        },
        detail: list_of(&request.devices),
    };
    let aggregate = desk
        .change(caller, deed, move |administrator| {
            administrator.import_aggregate(&request)
        })
        .await?;
    let place = format!("/v1/aggregates/{}", aggregate.name);
    created(&place, &Tag::of_aggregate(&aggregate), &aggregate)
}

pub(super) async fn scan(State(desk): State<Arc<Desk>>, Body(body): Body) -> Answer {
    let request = ScanFolders::parse(&body)?;
    let found_all = desk.ask(move |administrator| administrator.scan_folders(&request));
    found(found_all.await?)
}

pub(super) async fn export(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let editing = desk.edit(&format!("aggregate {name}"))?;
    let deed = Deed {
        what: "aggregate export",
        object: name.clone(),
        detail: "with what it has".to_owned(),
    };
    let aggregate = name.clone();
    let exported = desk
        .change(caller, deed, move |administrator| {
            let _editing = editing;
            condition.allows(&Tag::of_aggregate(&administrator.aggregate(&name)?))?;
            administrator.export_aggregate(&name)
        })
        .await?;
    desk.end_jobs_of(&aggregate);
    found(exported)
}

pub(super) async fn delete(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let names = ["discard_volumes", DISCONNECT];
    let [discard_volumes, disconnect] = flags::read(query.as_deref(), names)?;
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let editing = desk.edit(&format!("aggregate {name}"))?;
    let deed = Deed {
        what: "aggregate delete",
        object: name.clone(),
        detail: match discard_volumes {
            true => "with what it had".to_owned(),
            false => "it was empty".to_owned(),
        },
    };
    let aggregate = name.clone();
    let cleared = desk
        .change(caller, deed, move |administrator| {
            let _editing = editing;
            condition.allows(&Tag::of_aggregate(&administrator.aggregate(&name)?))?;
            if !disconnect {
                administrator.refuse_connected(&Within::Aggregate(&name))?;
            }
            administrator.delete_aggregate(&name, discard_volumes)
        })
        .await?;
    desk.end_jobs_of(&aggregate);
    match cleared.leftover {
        None => Ok(gone()),
        Some(problem) => {
            let text = format!(
                "aggregate {aggregate} is deleted, but not all its devices are cleared: \
                {problem}; the next start of the daemon tries again"
            );
            Err(Problem {
                outcome: Some(Outcome::Done),
                ..Problem::new(Code::Host, text)
            }
            .into())
        }
    }
}
