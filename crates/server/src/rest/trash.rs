//! `/v1/trash`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{delete, get, post};
use axum::{Extension, Router};
use everglade_api::Undelete;

use super::answer::{Answer, accepted, found};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use super::listing::Listing;
use crate::records::Deed;

/// Returns the routes of the trash.
pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/v1/trash", get(list))
        .route("/v1/trash/{id}", delete(purge))
        .route("/v1/trash/{id}/actions/undelete", post(undelete))
}

async fn list(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    listing.answer("trash", "TrashItem", &desk.administrator().trash().trash)
}

async fn undelete(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Body(body): Body,
) -> Answer {
    let request = Undelete::parse(&body)?;
    let deed = Deed {
        what: "undelete",
        object: desk.administrator().name_in_trash(&id)?,
        detail: match &request.name {
            Some(name) => format!("as {name}"),
            None => String::new(),
        },
    };
    let back = desk.change(caller, deed, move |administrator| {
        administrator.undelete(&id, &request)
    });
    found(back.await?)
}

async fn purge(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer {
    let deed = Deed {
        what: "trash empty",
        object: desk.administrator().name_in_trash(&id)?,
        detail: String::new(),
    };
    let job = desk.delete(caller, deed, move |administrator| administrator.purge(&id));
    accepted(&job.await?)
}
