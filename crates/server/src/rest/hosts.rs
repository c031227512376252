//! `/v1/hosts`, `/v1/host-groups` and `/v1/mappings`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::routing::{delete, get, post};
use axum::{Extension, Router};
use everglade_api::{
    AccessChange, CreateHost, CreateHostGroup, CreateMapping, ModifyHost, ModifyHostGroup, Name,
};

use super::answer::{Answer, created, found, gone, tagged, with_tag};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use super::entity::{Condition, Tag};
use super::listing::Listing;
use crate::records::Deed;

/// Returns the routes of hosts, groups and mappings.
pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/v1/hosts", get(list).post(create))
        .route("/v1/hosts/{host}", get(show).delete(remove))
        .route("/v1/hosts/{host}/actions/modify", post(modify))
        .route("/v1/host-groups", get(list_groups).post(create_group))
        .route(
            "/v1/host-groups/{group}",
            get(show_group).delete(remove_group),
        )
        .route("/v1/host-groups/{group}/actions/modify", post(modify_group))
        .route("/v1/access/plan", post(plan))
        .route("/v1/mappings", get(list_mappings).post(map))
        .route(
            "/v1/volumes/{volume}/luns/{lun}/mappings/{to}",
            delete(unmap),
        )
}

async fn list(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    let hosts = desk.administrator().schedule().hosts();
    listing.answer("hosts", "Host", &hosts)
}

async fn show(
    State(desk): State<Arc<Desk>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let host = desk.administrator().schedule().host(&name)?;
    tagged(&headers, &Tag::of_host(&host), &host)
}

async fn create(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Body(body): Body,
) -> Answer {
    let request = CreateHost::parse(&body)?;
    let place = format!("/v1/hosts/{}", request.name);
    let deed = Deed {
        what: "host create",
        object: request.name.to_string(),
        detail: request.identifiers.join(", "),
    };
    let made = desk.change(caller, deed, move |administrator| {
        administrator.schedule().create_host(&request)
    });
    let host = made.await?;
    created(&place, &Tag::of_host(&host), &host)
}

async fn modify(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let request = ModifyHost::parse(&body)?;
    let deed = Deed {
        what: "host modify",
        object: name.clone(),
        detail: changes(&request.add, &request.remove),
    };
    let changed = desk.change(caller, deed, move |administrator| {
        let schedule = administrator.schedule();
        condition.allows(&Tag::of_host(&schedule.host(&name)?))?;
        schedule.modify_host(&name, &request)
    });
    let host = changed.await?;
    with_tag(&Tag::of_host(&host), &host)
}

async fn remove(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let deed = Deed {
        what: "host delete",
        object: name.clone(),
        detail: String::new(),
    };
    let removed = desk.change(caller, deed, move |administrator| {
        let schedule = administrator.schedule();
        condition.allows(&Tag::of_host(&schedule.host(&name)?))?;
        schedule.delete_host(&name)
    });
    removed.await?;
    Ok(gone())
}

async fn list_groups(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    let groups = desk.administrator().schedule().host_groups();
    listing.answer("host_groups", "HostGroup", &groups)
}

async fn show_group(
    State(desk): State<Arc<Desk>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let group = desk.administrator().schedule().host_group(&name)?;
    tagged(&headers, &Tag::of_host_group(&group), &group)
}

async fn create_group(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Body(body): Body,
) -> Answer {
    let request = CreateHostGroup::parse(&body)?;
    let place = format!("/v1/host-groups/{}", request.name);
    let deed = Deed {
        what: "host-group create",
        object: request.name.to_string(),
        detail: joined(&request.hosts),
    };
    let made = desk.change(caller, deed, move |administrator| {
        administrator.schedule().create_host_group(&request)
    });
    let group = made.await?;
    created(&place, &Tag::of_host_group(&group), &group)
}

async fn modify_group(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let request = ModifyHostGroup::parse(&body)?;
    let names = |names: &[Name]| names.iter().map(Name::to_string).collect::<Vec<_>>();
    let deed = Deed {
        what: "host-group modify",
        object: name.clone(),
        detail: changes(&names(&request.add), &names(&request.remove)),
    };
    let changed = desk.change(caller, deed, move |administrator| {
        let schedule = administrator.schedule();
        condition.allows(&Tag::of_host_group(&schedule.host_group(&name)?))?;
        schedule.modify_host_group(&name, &request)
    });
    let group = changed.await?;
    with_tag(&Tag::of_host_group(&group), &group)
}

async fn remove_group(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let deed = Deed {
        what: "host-group delete",
        object: name.clone(),
        detail: String::new(),
    };
    let removed = desk.change(caller, deed, move |administrator| {
        let schedule = administrator.schedule();
        condition.allows(&Tag::of_host_group(&schedule.host_group(&name)?))?;
        schedule.delete_host_group(&name)
    });
    removed.await?;
    Ok(gone())
}

async fn plan(State(desk): State<Arc<Desk>>, Body(body): Body) -> Answer {
    let request = AccessChange::parse(&body)?;
    let planned = desk.ask(move |administrator| administrator.plan_access(&request));
    found(planned.await?)
}

async fn list_mappings(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    let mappings = desk.administrator().mappings();
    listing.answer("mappings", "Mapping", &mappings)
}

async fn map(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Body(body): Body,
) -> Answer {
    let request = CreateMapping::parse(&body)?;
    let lun = &request.lun;
    let place = format!(
        "/v1/volumes/{}/luns/{}/mappings/{}",
        lun.volume, lun.lun, request.to
    );
    let deed = Deed {
        what: "mapping create",
        object: lun.to_string(),
        detail: format!("to {}", request.to),
    };
    let made = desk.change(caller, deed, move |administrator| {
        let lun = &request.lun;
        administrator.map(lun.volume.as_str(), lun.lun.as_str(), request.to.as_str())
    });
    let mapping = made.await?;
    created(&place, &Tag::of_mapping(&mapping), &mapping)
}

async fn unmap(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path((volume, lun, to)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Answer {
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let deed = Deed {
        what: "mapping delete",
        object: format!("{volume}/{lun}"),
        detail: format!("to {to}"),
    };
    let removed = desk.change(caller, deed, move |administrator| {
        condition.allows(&Tag::of_mapping(
            &administrator.mapping(&volume, &lun, &to)?,
        ))?;
        administrator.unmap(&volume, &lun, &to)
    });
    removed.await?;
    Ok(gone())
}

fn joined(names: &[Name]) -> String {
    let names: Vec<&str> = names.iter().map(Name::as_str).collect();
    names.join(", ")
}

/// Describes a change of a list.
fn changes(add: &[String], remove: &[String]) -> String {
    let parts = [("with", add), ("without", remove)];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> = parts
        .map(|(word, names)| format!("{word} {}", names.join(", ")))
        .collect();
    parts.join("; ")
}
