//! `/v1/jobs`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use everglade_api::Problem;

use super::answer::{Answer, found};
use super::caller::Caller;
use super::desk::Desk;
use super::listing::Listing;
use super::{repairs, splits};
use crate::records::Deed;

pub(super) async fn list(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    let jobs = desk.records().jobs.all(desk.administrator().now());
    listing.answer("jobs", "Job", &jobs)
}

pub(super) async fn show(State(desk): State<Arc<Desk>>, Path(id): Path<String>) -> Answer {
    let now = desk.administrator().now();
    found(desk.records().jobs.one(now, number(&id)?)?)
}

pub(super) async fn cancel(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer {
    let (now, id) = (desk.administrator().now(), number(&id)?);
    if let Some(volume) = desk.records().jobs.split_under_way(id) {
        let volume = desk.administrator().name_of(volume)?;
        splits::stop_by(&desk, caller, volume).await?;
        let job = desk.records().jobs.one(desk.administrator().now(), id);
        return found(job.map_err(Problem::after_change)?);
    }
    if let Some(aggregate) = desk.records().jobs.repair_under_way(id) {
        let aggregate = desk.administrator().name_of_aggregate(aggregate)?;
        repairs::stop_by(&desk, caller, aggregate).await?;
        let job = desk.records().jobs.one(desk.administrator().now(), id);
        return found(job.map_err(Problem::after_change)?);
    }
    let Some((volume, name)) = desk.records().jobs.running_clone(id) else {
        return found(desk.records().jobs.cancel(now, id)?);
    };
    let volume = desk.administrator().name_of(volume)?;
    let deed = Deed {
        what: "lun clone cancel",
        object: format!("{volume}/{name}"),
        detail: format!("job {id}"),
    };
    desk.change(caller, deed, move |administrator| {
        administrator.cancel_lun_clone(&volume, &name)
    })
    .await?;
    desk.note_ended();
    let job = desk.records().jobs.one(now, id);
    found(job.map_err(Problem::after_change)?)
}

fn number(id: &str) -> Result<u64, Problem> {
    id.parse()
        .map_err(|_| Problem::not_found("job", format!("{id:.20}")))
}
