//! `/v1/aggregates/{aggregate}/scrub`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Router};

use super::answer::{Answer, found};
use super::caller::Caller;
use super::desk::Desk;
use crate::administrator::Administrator;

/// Returns the routes of scrubs.
pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/v1/aggregates/{aggregate}/scrub", get(show))
        .route("/v1/aggregates/{aggregate}/actions/scrub", post(start))
        .route(
            "/v1/aggregates/{aggregate}/actions/pause-scrub",
            post(pause),
        )
}

async fn show(State(desk): State<Arc<Desk>>, Path(aggregate): Path<String>) -> Answer {
    found(desk.administrator().scrub(&aggregate)?)
}

async fn start(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(aggregate): Path<String>,
) -> Answer {
    let start = Administrator::start_scrub;
    desk.act(caller, "scrub start", aggregate, start).await
}

async fn pause(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(aggregate): Path<String>,
) -> Answer {
    let pause = Administrator::pause_scrub;
    desk.act(caller, "scrub pause", aggregate, pause).await
}
