//! `/v1/aggregates/{aggregate}/scrub`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Router};

use super::answer::{Answer, found};
use super::caller::Caller;
use super::desk::Desk;
use crate::records::Deed;

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

fn deed(what: &'static str, aggregate: &str) -> Deed {
    Deed {
        what,
        object: aggregate.to_owned(),
        detail: String::new(),
    }
}

async fn start(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(aggregate): Path<String>,
) -> Answer {
    let deed = deed("scrub start", &aggregate);
    let started = desk.change(caller, deed, move |administrator| {
        administrator.start_scrub(&aggregate)
    });
    found(started.await?)
}

async fn pause(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(aggregate): Path<String>,
) -> Answer {
    let deed = deed("scrub pause", &aggregate);
    let paused = desk.change(caller, deed, move |administrator| {
        administrator.pause_scrub(&aggregate)
    });
    found(paused.await?)
}
