//! `/v1/jobs`.

use std::sync::Arc;

use axum::extract::{Path, State};
use everglade_api::Problem;

use super::answer::{Answer, found};
use super::desk::Desk;
use super::listing::Listing;

pub(super) async fn list(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    let jobs = desk.records().jobs.all(desk.administrator().now());
    listing.answer("jobs", "Job", &jobs)
}

pub(super) async fn show(State(desk): State<Arc<Desk>>, Path(id): Path<String>) -> Answer {
    let now = desk.administrator().now();
    found(desk.records().jobs.one(now, number(&id)?)?)
}

pub(super) async fn cancel(State(desk): State<Arc<Desk>>, Path(id): Path<String>) -> Answer {
    let now = desk.administrator().now();
    found(desk.records().jobs.cancel(now, number(&id)?)?)
}

fn number(id: &str) -> Result<u64, Problem> {
    id.parse()
        .map_err(|_| Problem::not_found("job", format!("{id:.20}")))
}
