//! `/v1/aggregates`.

use std::sync::Arc;

use axum::extract::{Path, State};
use everglade_api::CreateAggregate;

use super::answer::{Answer, created, found};
use super::body::Body;
use super::desk::Desk;

pub(super) async fn list(State(desk): State<Arc<Desk>>) -> Answer {
    found(desk.administrator().aggregates())
}

pub(super) async fn show(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Answer {
    found(desk.administrator().aggregate(&name)?)
}

pub(super) async fn create(State(desk): State<Arc<Desk>>, Body(body): Body) -> Answer {
    let request = CreateAggregate::parse(&body)?;
    let place = format!("/v1/aggregates/{}", request.name);
    let aggregate = desk
        .change(move |administrator| administrator.create_aggregate(&request))
        .await?;
    created(&place, aggregate)
}
