//! `/v1/tokens`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{delete, get};
use axum::{Extension, Router};
use everglade_api::CreateToken;

use super::answer::{Answer, gone, made};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use super::listing::Listing;
use crate::records::Deed;

/// Returns the routes of tokens.
pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/v1/tokens", get(list).post(create))
        .route("/v1/tokens/{token}", delete(revoke))
}

async fn list(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    listing.answer("tokens", "Token", &desk.tokens().all())
}

async fn create(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Body(body): Body,
) -> Answer {
    let request = CreateToken::parse(&body)?;
    let place = format!("/v1/tokens/{}", request.name);
    let deed = Deed {
        what: "token create",
        object: request.name.to_string(),
        detail: request.role.to_string(),
    };
    let tokens = desk.tokens();
    let token = desk.change(caller, deed, move |administrator| {
        tokens.create(&request, administrator.now())
    });
    made(&place, &token.await?)
}

async fn revoke(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer {
    let deed = Deed {
        what: "token revoke",
        object: name.clone(),
        detail: String::new(),
    };
    let tokens = desk.tokens();
    let revoked = desk.change(caller, deed, move |_| tokens.revoke(&name));
    revoked.await?;
    Ok(gone())
}
