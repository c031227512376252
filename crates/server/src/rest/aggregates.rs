//! `/v1/aggregates`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use everglade_api::CreateAggregate;

use super::answer::{Answer, created, found, tagged};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use super::entity::Tag;
use super::listing::Listing;
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
        detail: match request.devices.as_slice() {
            [] => "one directory in the data directory".to_owned(),
            devices => devices.join(", "),
        },
    };
    let aggregate = desk
        .change(caller, deed, move |administrator| {
            administrator.create_aggregate(&request)
        })
        .await?;
    created(&place, &Tag::of_aggregate(&aggregate), &aggregate)
}
