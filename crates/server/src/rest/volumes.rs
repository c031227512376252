//! `/v1/volumes`.

use std::sync::Arc;

use axum::extract::{Path, State};
use everglade_api::CreateVolume;

use super::answer::{Answer, created, found, gone};
use super::body::Body;
use super::desk::Desk;

pub(super) async fn list(State(desk): State<Arc<Desk>>) -> Answer {
    found(desk.administrator().volumes())
}

pub(super) async fn show(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Answer {
    found(desk.administrator().volume(&name)?)
}

pub(super) async fn create(State(desk): State<Arc<Desk>>, Body(body): Body) -> Answer {
    let request = CreateVolume::parse(&body)?;
    let place = format!("/v1/volumes/{}", request.name);
    let volume = desk
        .change(move |administrator| administrator.create_volume(&request))
        .await?;
    created(&place, volume)
}

pub(super) async fn delete(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Answer {
    desk.change(move |administrator| administrator.delete_volume(&name))
        .await?;
    gone()
}
