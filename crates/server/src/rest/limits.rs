//! `/v1/limits`, and the limit of a LUN.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Router};
use everglade_api::SetLimit;

use super::answer::{Answer, found};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use super::listing::Listing;
use crate::administrator::limits::said;
use crate::records::Deed;

/// Returns the routes of limits.
pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/v1/limits", get(list))
        .route("/v1/volumes/{volume}/luns/{lun}/actions/limit", post(set))
}

async fn list(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    let limits = desk.ask(|administrator| Ok(administrator.limits()));
    listing.answer("limits", "Limit", &limits.await?)
}

async fn set(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path((volume, lun)): Path<(String, String)>,
    Body(body): Body,
) -> Answer {
    let request = SetLimit::parse(&body)?;
    let deed = Deed {
        what: "qos set",
        object: format!("{volume}/{lun}"),
        detail: said(request),
    };
    let set = desk.change(caller, deed, move |administrator| {
        administrator.set_limit((&volume, &lun), request)
    });
    found(set.await?)
}
