//! `/v1/version` and `/v1/status`.

use std::sync::Arc;

use axum::extract::State;

use super::answer::{Answer, found};
use super::desk::Desk;

pub(super) async fn version(State(desk): State<Arc<Desk>>) -> Answer {
    found(desk.administrator().version())
}

pub(super) async fn status(State(desk): State<Arc<Desk>>) -> Answer {
    found(desk.administrator().status())
}
