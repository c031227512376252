//! `/v1/version`, `/v1/status`, `/v1/statistics` and `/v1/openapi.json`.

use std::sync::Arc;

use axum::extract::State;
use everglade_api::openapi;

use super::answer::{Answer, as_it_is, found};
use super::desk::Desk;

pub(super) async fn version(State(desk): State<Arc<Desk>>) -> Answer {
    found(desk.administrator().version())
}

pub(super) async fn status(State(desk): State<Arc<Desk>>) -> Answer {
    found(desk.administrator().status())
}

pub(super) async fn statistics(State(desk): State<Arc<Desk>>) -> Answer {
    found(desk.administrator().statistics())
}

pub(super) async fn description() -> Answer {
    as_it_is(openapi::document())
}
