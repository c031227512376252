//! `/v1/aggregates/{aggregate}/removal`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Router};
use everglade_api::RemoveDevice;

use super::answer::{Answer, found};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use crate::administrator::Administrator;
use crate::records::Deed;

/// Returns the routes of removals.
pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/v1/aggregates/{aggregate}/removal", get(show))
        .route("/v1/aggregates/{aggregate}/actions/remove", post(remove))
        .route(
            "/v1/aggregates/{aggregate}/actions/stop-removal",
            post(stop),
        )
}

async fn show(State(desk): State<Arc<Desk>>, Path(aggregate): Path<String>) -> Answer {
    found(desk.administrator().removal(&aggregate)?)
}

async fn remove(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Body(body): Body,
) -> Answer {
    let request = RemoveDevice::parse(&body)?;
    if request.dry_run {
        let planned = desk.ask(move |administrator| administrator.remove_device(&name, &request));
        return found(planned.await?);
    }
    let deed = Deed {
        what: "aggregate remove",
        object: name.clone(),
        detail: request.device.clone(),
    };
    let editing = desk.edit(&format!("aggregate {name}"))?;
    let begun = desk.change(caller, deed, move |administrator| {
        let _editing = editing;
        administrator.remove_device(&name, &request)
    });
    found(begun.await?)
}

async fn stop(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer {
    let stop = Administrator::stop_removal;
    desk.act(caller, "aggregate remove --stop", name, stop)
        .await
}
