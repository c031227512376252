//! Every path and its handler. The table [`everglade_api::openapi::ROUTES`] lists the same paths,
//! and a test compares the two.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use everglade_api::{Code, Problem};

use super::answer::Refusal;
use super::desk::Desk;
use super::guard::{guard, no_such_path};
use super::once::once;
use super::{
    aggregates, console, garden, happenings, hosts, jobs, limits, luns, overview, policies,
    removal, repairs, scrubs, secrets, sessions, snapshots, spares, splits, trash, volumes,
};

/// Returns the table of paths.
pub(super) fn all(desk: Arc<Desk>) -> Router {
    let api = Router::new()
        .route("/v1/version", get(overview::version))
        .route("/v1/status", get(overview::status))
        .route("/v1/statistics", get(overview::statistics))
        .route("/v1/openapi.json", get(overview::description))
        .route("/v1/history", get(happenings::history))
        .route("/v1/events", get(happenings::events))
        .route("/v1/jobs", get(jobs::list))
        .route("/v1/jobs/{id}", get(jobs::show))
        .route("/v1/jobs/{id}/actions/cancel", post(jobs::cancel))
        .route(
            "/v1/aggregates",
            get(aggregates::list).post(aggregates::create),
        )
        .route("/v1/aggregates/actions/import", post(aggregates::import))
        .route("/v1/aggregates/actions/scan", post(aggregates::scan))
        .route(
            "/v1/aggregates/{aggregate}/actions/export",
            post(aggregates::export),
        )
        .route(
            "/v1/aggregates/{aggregate}",
            get(aggregates::show).delete(aggregates::delete),
        )
        .route(
            "/v1/aggregates/{aggregate}/actions/rename",
            post(aggregates::rename),
        )
        .route(
            "/v1/aggregates/{aggregate}/actions/add",
            post(aggregates::add),
        )
        .route(
            "/v1/aggregates/{aggregate}/actions/resize",
            post(aggregates::resize),
        )
        .route(
            "/v1/aggregates/{aggregate}/actions/replace",
            post(aggregates::replace),
        )
        .route("/v1/volumes", get(volumes::list).post(volumes::create))
        .route(
            "/v1/volumes/{volume}",
            get(volumes::show)
                .put(volumes::put)
                .patch(volumes::modify)
                .delete(volumes::delete),
        )
        .route("/v1/volumes/{volume}/actions/rename", post(volumes::rename))
        .route(
            "/v1/volumes/{volume}/luns/{lun}/actions/rename",
            post(luns::rename),
        )
        .route(
            "/v1/volumes/{volume}/luns/{lun}/actions/clone",
            post(luns::clone),
        )
        .route(
            "/v1/volumes/{volume}/luns",
            get(luns::list).post(luns::create),
        )
        .route(
            "/v1/volumes/{volume}/luns/{lun}",
            get(luns::show)
                .put(luns::put)
                .patch(luns::resize)
                .delete(luns::delete),
        )
        .merge(snapshots::routes())
        .merge(hosts::routes())
        .merge(policies::routes())
        .merge(splits::routes())
        .merge(removal::routes())
        .merge(repairs::routes())
        .merge(scrubs::routes())
        .merge(garden::routes())
        .merge(limits::routes())
        .merge(spares::routes())
        .merge(trash::routes())
        .merge(secrets::routes())
        .merge(sessions::routes())
        .fallback(nowhere)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(&desk), once))
        .layer(from_fn(guard))
        .with_state(Arc::clone(&desk));
    console::all(&desk, api)
}

async fn nowhere() -> Refusal {
    Refusal(no_such_path())
}

async fn method_not_allowed(request: Request) -> Refusal {
    let text = format!("{:.20} is not possible here", request.method().as_str());
    Refusal(Problem::new(Code::MethodNotAllowed, text))
}
