//! `/v1/aggregates/{aggregate}/repair`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Router};
use everglade_api::{Problem, Repair};

use super::answer::{Answer, accepted, found};
use super::caller::Caller;
use super::desk::Desk;
use crate::records::Deed;

/// Returns the routes of repairs.
pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/v1/aggregates/{aggregate}/repair", get(show))
        .route("/v1/aggregates/{aggregate}/actions/repair", post(start))
        .route("/v1/aggregates/{aggregate}/actions/stop-repair", post(stop))
}

async fn show(State(desk): State<Arc<Desk>>, Path(aggregate): Path<String>) -> Answer {
    found(desk.administrator().repair(&aggregate)?)
}

async fn start(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(aggregate): Path<String>,
) -> Answer {
    let records = desk.records_shared();
    let deed = Deed {
        what: "repair",
        object: aggregate.clone(),
        detail: String::new(),
    };
    let job = desk
        .change(caller, deed, move |administrator| {
            let begun = administrator.start_repair(&aggregate)?;
            Ok(records.jobs.begin_repair(administrator.now(), &begun))
        })
        .await?;
    accepted(&job)
}

async fn stop(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(aggregate): Path<String>,
) -> Answer {
    found(stop_by(&desk, caller, aggregate).await?)
}

/// Stops a repair, and its job.
pub(super) async fn stop_by(
    desk: &Arc<Desk>,
    caller: Caller,
    aggregate: String,
) -> Result<Repair, Problem> {
    let deed = Deed {
        what: "repair stop",
        object: aggregate.clone(),
        detail: String::new(),
    };
    let stopped = desk
        .change(caller, deed, move |administrator| {
            administrator.stop_repair(&aggregate)
        })
        .await?;
    desk.note_ended();
    Ok(stopped)
}
