//! `/v1/spares`.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, Router};
use everglade_api::SpareDrive;

use super::answer::{Answer, found, gone};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use super::listing::Listing;
use crate::records::Deed;

/// Returns the routes of spare drives.
pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/v1/spares", get(list).post(add))
        .route("/v1/spares/actions/remove", post(remove))
}

async fn list(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    let spares = desk.ask(|administrator| Ok(administrator.spares().spares));
    listing.answer("spares", "Spare", &spares.await?)
}

fn deed(what: &'static str, request: &SpareDrive) -> Deed {
    Deed {
        what,
        object: request.device.clone(),
        detail: String::new(),
    }
}

async fn add(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Body(body): Body,
) -> Answer {
    let request = SpareDrive::parse(&body)?;
    let deed = deed("spare add", &request);
    let added = desk.change(caller, deed, move |administrator| {
        administrator.add_spare(&request)
    });
    found(added.await?)
}

async fn remove(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Body(body): Body,
) -> Answer {
    let request = SpareDrive::parse(&body)?;
    let deed = deed("spare remove", &request);
    let removed = desk.change(caller, deed, move |administrator| {
        administrator.remove_spare(&request)
    });
    removed.await?;
    Ok(gone())
}
