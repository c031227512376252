//! `/v1/volumes/{volume}/luns`.

use std::sync::Arc;

use axum::extract::{Path, State};
use everglade_api::{CreateLun, Luns, ResizeLun};

use super::answer::{Answer, created, found, gone};
use super::body::Body;
use super::desk::Desk;

pub(super) async fn list(State(desk): State<Arc<Desk>>, Path(volume): Path<String>) -> Answer {
    let luns = desk.administrator().luns(&volume)?.luns.into_iter();
    found(Luns {
        luns: luns.map(|lun| desk.reachable(lun)).collect(),
    })
}

pub(super) async fn show(
    State(desk): State<Arc<Desk>>,
    Path((volume, lun)): Path<(String, String)>,
) -> Answer {
    found(desk.reachable(desk.administrator().lun(&volume, &lun)?))
}

pub(super) async fn create(
    State(desk): State<Arc<Desk>>,
    Path(volume): Path<String>,
    Body(body): Body,
) -> Answer {
    let request = CreateLun::parse(&body)?;
    let place = format!("/v1/volumes/{volume}/luns/{}", request.name);
    let lun = desk
        .change(move |administrator| administrator.create_lun(&volume, &request))
        .await?;
    created(&place, desk.reachable(lun))
}

pub(super) async fn resize(
    State(desk): State<Arc<Desk>>,
    Path((volume, lun)): Path<(String, String)>,
    Body(body): Body,
) -> Answer {
    let request = ResizeLun::parse(&body)?;
    let lun = desk
        .change(move |administrator| administrator.resize_lun(&volume, &lun, &request))
        .await?;
    found(desk.reachable(lun))
}

pub(super) async fn delete(
    State(desk): State<Arc<Desk>>,
    Path((volume, lun)): Path<(String, String)>,
) -> Answer {
    desk.change(move |administrator| administrator.delete_lun(&volume, &lun))
        .await?;
    gone()
}
