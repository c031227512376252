//! `/v1/sessions`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;

use super::answer::Answer;
use super::desk::Desk;
use super::listing::Listing;

/// Returns the route of sessions.
pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new().route("/v1/sessions", get(list))
}

async fn list(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    let sessions = desk
        .ask(|administrator| Ok(administrator.sessions()))
        .await?;
    listing.answer("sessions", "Session", &sessions)
}
