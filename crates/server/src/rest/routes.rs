//! Every path, and what is refused before any handler sees it.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use everglade_api::{Code, Problem};

use super::answer::Refusal;
use super::desk::Desk;
use super::{aggregates, luns, overview, volumes};

/// The table of paths.
pub(super) fn all(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/v1/version", get(overview::version))
        .route("/v1/status", get(overview::status))
        .route(
            "/v1/aggregates",
            get(aggregates::list).post(aggregates::create),
        )
        .route("/v1/aggregates/{aggregate}", get(aggregates::show))
        .route("/v1/volumes", get(volumes::list).post(volumes::create))
        .route(
            "/v1/volumes/{volume}",
            get(volumes::show).delete(volumes::delete),
        )
        .route(
            "/v1/volumes/{volume}/luns",
            get(luns::list).post(luns::create),
        )
        .route(
            "/v1/volumes/{volume}/luns/{lun}",
            get(luns::show).patch(luns::resize).delete(luns::delete),
        )
        .fallback(no_such_path)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn(plain))
        .with_state(desk)
}

async fn no_such_path() -> Refusal {
    let text = "nothing has this path; see docs/reference/rest.md";
    Refusal(Problem::new(Code::NoSuchPath, text))
}

async fn method_not_allowed(request: Request) -> Refusal {
    let text = format!("{:.20} is not possible here", request.method().as_str());
    Refusal(Problem::new(Code::MethodNotAllowed, text))
}

/// Names mean nothing in a URL, so an escaped character in a path names nothing that exists; and no path takes
/// parameters yet, so one that is given would be ignored.
async fn plain(request: Request, next: Next) -> Response {
    if request.uri().path().contains('%') {
        return no_such_path().await.into_response();
    }
    if let Some(query) = request.uri().query() {
        let name = query.split(['=', '&']).next().unwrap_or_default();
        let text = "unknown parameter; this version knows none";
        let name: String = name.chars().take(64).collect();
        let problem = Problem::of_field(Code::UnknownField, &name, text);
        return Refusal(problem).into_response();
    }
    next.run(request).await
}
