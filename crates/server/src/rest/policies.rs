//! `/v1/policies`, and the policy of a volume.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::routing::get;
use axum::{Extension, Router};
use everglade_api::{CreatePolicy, ModifyPolicy, Problem, SetPolicy, VolumePolicy};

use super::answer::{Answer, created, found, gone, tagged, with_tag};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use super::entity::{Condition, Tag};
use super::listing::Listing;
use crate::administrator::Administrator;
use crate::records::Deed;

/// Returns the routes of policies.
pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/v1/policies", get(list).post(create))
        .route(
            "/v1/policies/{policy}",
            get(show).patch(modify).delete(delete),
        )
        .route("/v1/volumes/{volume}/policy", get(of_volume).put(set))
}

async fn list(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    let policies = desk.administrator().schedule().policies();
    listing.answer("policies", "Policy", &policies)
}

async fn show(
    State(desk): State<Arc<Desk>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let policy = desk.administrator().schedule().policy(&name)?;
    tagged(&headers, &Tag::of_policy(&policy), &policy)
}

async fn create(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Body(body): Body,
) -> Answer {
    let request = CreatePolicy::parse(&body)?;
    let place = format!("/v1/policies/{}", request.name);
    let deed = Deed {
        what: "policy create",
        object: request.name.to_string(),
        detail: format!(
            "hourly {}, daily {}, weekly {}, at {} {}",
            request.hourly, request.daily, request.weekly, request.at, request.time_zone
        ),
    };
    let policy = desk
        .change(caller, deed, move |administrator| {
            administrator.schedule().create(&request)
        })
        .await?;
    created(&place, &Tag::of_policy(&policy), &policy)
}

async fn modify(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let request = ModifyPolicy::parse(&body)?;
    let editing = desk.edit(&format!("policy {name}"))?;
    let deed = Deed {
        what: "policy modify",
        object: name.clone(),
        detail: changes(&request),
    };
    let policy = desk.change(caller, deed, move |administrator| {
        let _editing = editing;
        let schedule = administrator.schedule();
        condition.allows(&Tag::of_policy(&schedule.policy(&name)?))?;
        schedule.modify(administrator.now(), &name, &request)
    });
    let policy = policy.await?;
    with_tag(&Tag::of_policy(&policy), &policy)
}

/// What changes, for the history.
fn changes(request: &ModifyPolicy) -> String {
    let count = |what: &str, count: Option<u64>| count.map(|count| format!("{what} {count}"));
    let parts = [
        count("hourly", request.hourly),
        count("daily", request.daily),
        count("weekly", request.weekly),
        request.at.map(|at| format!("at {at}")),
        request.weekday.map(|day| day.to_string()),
        request.time_zone.clone(),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

async fn delete(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let deed = Deed {
        what: "policy delete",
        object: name.clone(),
        detail: String::new(),
    };
    desk.change(caller, deed, move |administrator| {
        let schedule = administrator.schedule();
        condition.allows(&Tag::of_policy(&schedule.policy(&name)?))?;
        schedule.delete(&name)
    })
    .await?;
    Ok(gone())
}

async fn of_volume(State(desk): State<Arc<Desk>>, Path(volume): Path<String>) -> Answer {
    found(view(desk.administrator(), &volume)?)
}

async fn set(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(volume): Path<String>,
    Body(body): Body,
) -> Answer {
    let request = SetPolicy::parse(&body)?;
    let editing = desk.edit(&format!("volume {volume}"))?;
    let deed = Deed {
        what: "policy set",
        object: volume.clone(),
        detail: request.policy.to_string(),
    };
    let policy = desk
        .change(caller, deed, move |administrator| {
            let _editing = editing;
            administrator.volume(&volume)?;
            let (now, policy) = (administrator.now(), request.policy.as_str());
            administrator.schedule().assign(now, &volume, policy)?;
            view(administrator, &volume)
        })
        .await?;
    found(policy)
}

fn view(administrator: &Administrator, volume: &str) -> Result<VolumePolicy, Problem> {
    administrator.volume(volume)?;
    // Somebody may delete the volume this moment.
    let present = administrator.seen(volume);
    let schedule = administrator.schedule();
    Ok(schedule.view(administrator.now(), volume, &present))
}
