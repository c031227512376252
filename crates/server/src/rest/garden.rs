//! `/v1/aggregates/{aggregate}/garden`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Router};
use everglade_api::{Clean, PutInOrder};

use super::answer::{Answer, found};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use crate::administrator::Administrator;
use crate::records::Deed;

/// Returns the routes of the garden.
pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/v1/aggregates/{aggregate}/garden", get(show))
        .route("/v1/aggregates/{aggregate}/space-map", get(show_map))
        .route(
            "/v1/aggregates/{aggregate}/actions/map-space",
            post(map_space),
        )
        .route("/v1/aggregates/{aggregate}/actions/clean", post(start))
        .route(
            "/v1/aggregates/{aggregate}/actions/pause-gardening",
            post(pause),
        )
        .route(
            "/v1/aggregates/{aggregate}/actions/resume-gardening",
            post(resume),
        )
        .route(
            "/v1/aggregates/{aggregate}/actions/rebalance",
            post(rebalance),
        )
        .route(
            "/v1/volumes/{volume}/luns/{lun}/actions/layout",
            post(put_in_order),
        )
        .route(
            "/v1/aggregates/{aggregate}/actions/stop-gardening",
            post(stop),
        )
}

async fn show(State(desk): State<Arc<Desk>>, Path(aggregate): Path<String>) -> Answer {
    found(desk.administrator().garden(&aggregate)?)
}

async fn show_map(State(desk): State<Arc<Desk>>, Path(aggregate): Path<String>) -> Answer {
    found(desk.administrator().space_map(&aggregate)?)
}

async fn map_space(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(aggregate): Path<String>,
) -> Answer {
    let map = Administrator::map_space;
    desk.act(caller, "garden map", aggregate, map).await
}

async fn start(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(aggregate): Path<String>,
    Body(body): Body,
) -> Answer {
    let request = Clean::parse(&body)?;
    let deed = Deed {
        what: "garden clean",
        object: aggregate.clone(),
        detail: format!("areas of which {} % are free", request.percent()),
    };
    let started = desk.change(caller, deed, move |administrator| {
        administrator.clean(&aggregate, request)
    });
    found(started.await?)
}

async fn rebalance(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(aggregate): Path<String>,
) -> Answer {
    let rebalance = Administrator::rebalance;
    desk.act(caller, "aggregate rebalance", aggregate, rebalance)
        .await
}

async fn pause(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(aggregate): Path<String>,
) -> Answer {
    let pause = |administrator: &Administrator, aggregate: &str| {
        administrator.pause_garden(aggregate, true)
    };
    desk.act(caller, "garden pause", aggregate, pause).await
}

async fn resume(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(aggregate): Path<String>,
) -> Answer {
    let resume = |administrator: &Administrator, aggregate: &str| {
        administrator.pause_garden(aggregate, false)
    };
    desk.act(caller, "garden resume", aggregate, resume).await
}

async fn stop(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(aggregate): Path<String>,
) -> Answer {
    let stop = Administrator::stop_gardening;
    desk.act(caller, "garden stop", aggregate, stop).await
}

async fn put_in_order(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path((volume, lun)): Path<(String, String)>,
    Body(body): Body,
) -> Answer {
    let request = PutInOrder::parse(&body)?;
    let deed = Deed {
        what: "garden layout",
        object: format!("{volume}/{lun}"),
        detail: match request.estimate {
            true => "an estimate".to_owned(),
            false => String::new(),
        },
    };
    let started = desk.change(caller, deed, move |administrator| {
        administrator.put_in_order((&volume, &lun), request)
    });
    found(started.await?)
}
