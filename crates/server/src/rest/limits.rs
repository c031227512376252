//! `/v1/limits`, the limits of LUNs and volumes, and `/v1/qos-policies`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Router};
use everglade_api::{Name, NotAName, Problem, SetLimit, SetQosPolicy};

use super::answer::{Answer, found, gone};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use super::listing::Listing;
use crate::administrator::limits::{said, said_rates};
use crate::records::Deed;

/// Returns the routes of limits.
pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/v1/limits", get(list))
        .route("/v1/volumes/{volume}/actions/limit", post(set_of_volume))
        .route("/v1/volumes/{volume}/luns/{lun}/actions/limit", post(set))
        .route("/v1/qos-policies", get(policies))
        .route(
            "/v1/qos-policies/{policy}",
            get(policy).put(set_policy).delete(delete_policy),
        )
}

async fn list(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    let limits = desk.ask(|administrator| Ok(administrator.limits()));
    listing.answer("limits", "Limit", &limits.await?)
}

async fn set(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path((volume, lun)): Path<(String, String)>,
    Body(body): Body,
) -> Answer {
    set_limit(&desk, caller, (volume, Some(lun)), &body).await
}

async fn set_of_volume(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(volume): Path<String>,
    Body(body): Body,
) -> Answer {
    set_limit(&desk, caller, (volume, None), &body).await
}

async fn set_limit(
    desk: &Desk,
    caller: Caller,
    (volume, lun): (String, Option<String>),
    body: &[u8],
) -> Answer {
    let request = SetLimit::parse(body)?;
    let deed = Deed {
        what: "qos set",
        object: match &lun {
            Some(lun) => format!("{volume}/{lun}"),
            None => volume.clone(),
        },
        detail: said(&request),
    };
    let set = desk.change(caller, deed, move |administrator| {
        administrator.set_limit((&volume, lun.as_deref()), &request)
    });
    found(set.await?)
}

async fn policies(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    let policies = desk.administrator().schedule().qos_policies();
    listing.answer("policies", "QosPolicy", &policies)
}

async fn policy(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Answer {
    found(desk.administrator().schedule().qos_policy(&name)?)
}

async fn set_policy(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Body(body): Body,
) -> Answer {
    let name: Name = name
        .parse()
        .map_err(|error: NotAName| Problem::invalid("name", error.to_string()))?;
    let request = SetQosPolicy::parse(&body)?;
    let deed = Deed {
        what: "qos-policy set",
        object: name.to_string(),
        detail: said_rates(request),
    };
    let set = desk.change(caller, deed, move |administrator| {
        administrator.set_qos_policy(name.as_str(), request)
    });
    found(set.await?)
}

async fn delete_policy(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer {
    let deed = Deed {
        what: "qos-policy delete",
        object: name.clone(),
        detail: String::new(),
    };
    desk.change(caller, deed, move |administrator| {
        administrator.schedule().delete_qos_policy(&name)
    })
    .await?;
    Ok(gone())
}
