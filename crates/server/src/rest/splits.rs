//! `/v1/volumes/{volume}/split`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Router};
use everglade_api::{Problem, Split};

use super::answer::{Answer, accepted, found};
use super::caller::Caller;
use super::desk::Desk;
use crate::records::Deed;

/// Returns the routes of splits.
pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/v1/volumes/{volume}/split", get(show))
        .route("/v1/volumes/{volume}/actions/split", post(start))
        .route("/v1/volumes/{volume}/actions/stop-split", post(stop))
}

async fn show(State(desk): State<Arc<Desk>>, Path(volume): Path<String>) -> Answer {
    found(desk.administrator().split(&volume)?)
}

async fn start(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(volume): Path<String>,
) -> Answer {
    let records = desk.records_shared();
    let deed = Deed {
        what: "clone split start",
        object: volume.clone(),
        detail: String::new(),
    };
    let job = desk
        .change(caller, deed, move |administrator| {
            let begun = administrator.start_split(&volume)?;
            Ok(records.jobs.begin_split(administrator.now(), &begun))
        })
        .await?;
    accepted(&job)
}

async fn stop(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(volume): Path<String>,
) -> Answer {
    found(stop_by(&desk, caller, volume).await?)
}

/// Stops a split, and its job.
pub(super) async fn stop_by(
    desk: &Arc<Desk>,
    caller: Caller,
    volume: String,
) -> Result<Split, Problem> {
    let deed = Deed {
        what: "clone split stop",
        object: volume.clone(),
        detail: String::new(),
    };
    let stopped = desk
        .change(caller, deed, move |administrator| {
            administrator.stop_split(&volume)
        })
        .await?;
    desk.note_ended();
    Ok(stopped)
}
