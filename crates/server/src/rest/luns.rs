//! `/v1/volumes/{volume}/luns`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, header};
use everglade_api::{CloneLun, Code, CreateLun, Lun, Problem, PutLun, Rename, ResizeLun, Size};

use super::answer::{Answer, accepted, created, tagged, with_tag};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use super::entity::{Condition, Tag};
use super::flags;
use super::listing::Listing;
use crate::administrator::{Administrator, DISCONNECT, PURGE, Within};
use crate::records::Deed;

pub(super) async fn list(
    State(desk): State<Arc<Desk>>,
    Path(volume): Path<String>,
    listing: Listing,
) -> Answer {
    let luns = desk.administrator().luns(&volume)?.luns.into_iter();
    let luns: Vec<_> = luns.map(|lun| desk.reachable(lun)).collect();
    listing.answer("luns", "Lun", &luns)
}

pub(super) async fn show(
    State(desk): State<Arc<Desk>>,
    Path((volume, lun)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let lun = desk.reachable(desk.administrator().lun(&volume, &lun)?);
    tagged(&headers, &Tag::of_lun(&lun), &lun)
}

pub(super) async fn create(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(volume): Path<String>,
    Body(body): Body,
) -> Answer {
    make(&desk, caller, volume, CreateLun::parse(&body)?).await
}

async fn make(desk: &Arc<Desk>, caller: Caller, volume: String, request: CreateLun) -> Answer {
    let place = format!("/v1/volumes/{volume}/luns/{}", request.name);
    let deed = Deed {
        what: "lun create",
        object: format!("{volume}/{}", request.name),
        detail: Size(request.size_bytes).said(),
    };
    let lun = desk
        .change(caller, deed, move |administrator| {
            administrator.create_lun(&volume, &request)
        })
        .await?;
    created(&place, &Tag::of_lun(&lun), &desk.reachable(lun))
}

pub(super) async fn put(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path((volume, name)): Path<(String, String)>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let PutLun { size_bytes } = PutLun::parse(&body)?;
    let name = name
        .parse()
        .map_err(|error| Problem::invalid("lun", error))?;
    let request = CreateLun { name, size_bytes };
    match desk.administrator().lun(&volume, request.name.as_str()) {
        Ok(lun) if lun.size_bytes == size_bytes => {
            tagged(&headers, &Tag::of_lun(&lun), &desk.reachable(lun))
        }
        Ok(lun) => {
            let text = format!(
                "LUN {volume}/{} exists with {}; choose another name or this size, or resize it",
                lun.name,
                Size(lun.size_bytes).said()
            );
            Err(Problem::new(Code::Exists, text).into())
        }
        Err(_) => make(&desk, caller, volume, request).await,
    }
}

pub(super) async fn resize(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<(String, String)>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let request = ResizeLun::parse(&body)?;
    let detail = Size(request.size_bytes).said();
    let change = move |administrator: &Administrator, volume: &str, name: &str| {
        administrator.resize_lun(volume, name, &request)
    };
    edit(
        &desk,
        caller,
        name,
        &headers,
        ("lun resize", detail),
        change,
    )
    .await
}

pub(super) async fn rename(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<(String, String)>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let request = Rename::parse(&body)?;
    let detail = format!("to {}", request.name);
    let change = move |administrator: &Administrator, volume: &str, name: &str| {
        administrator.rename_lun(volume, name, &request)
    };
    edit(
        &desk,
        caller,
        name,
        &headers,
        ("lun rename", detail),
        change,
    )
    .await
}

/// Changes a LUN, if it is still the one that is meant.
async fn edit(
    desk: &Arc<Desk>,
    caller: Caller,
    (volume, name): (String, String),
    headers: &HeaderMap,
    (what, detail): (&'static str, String),
    change: impl FnOnce(&Administrator, &str, &str) -> Result<Lun, Problem> + Send + 'static,
) -> Answer {
    let condition = Condition::read(headers, &header::IF_MATCH)?;
    let object = format!("{volume}/{name}");
    let editing = desk.edit(&format!("LUN {object}"))?;
    let deed = Deed {
        what,
        object,
        detail,
    };
    let lun = desk
        .change(caller, deed, move |administrator| {
            let _editing = editing;
            condition.allows(&Tag::of_lun(&administrator.lun(&volume, &name)?))?;
            change(administrator, &volume, &name)
        })
        .await?;
    with_tag(&Tag::of_lun(&lun), &desk.reachable(lun))
}

pub(super) async fn clone(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path((volume, name)): Path<(String, String)>,
    Body(body): Body,
) -> Answer {
    let request = CloneLun::parse(&body)?;
    let at = request.snapshot.as_ref();
    let at = at.map_or(String::new(), |snapshot| format!("@{snapshot}"));
    let deed = Deed {
        what: "lun clone",
        object: format!("{volume}/{}", request.name),
        detail: format!("of {volume}/{name}{at}"),
    };
    let records = desk.records_shared();
    let job = desk
        .change(caller, deed, move |administrator| {
            let begun = administrator.clone_lun(&volume, &name, &request)?;
            Ok(records.jobs.begin_clone(administrator.now(), &begun))
        })
        .await?;
    accepted(&job)
}

pub(super) async fn delete(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path((volume, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let [disconnect, purge] = flags::read(query.as_deref(), [DISCONNECT, PURGE])?;
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let object = format!("{volume}/{name}");
    let editing = desk.edit(&format!("LUN {object}"))?;
    let deed = Deed {
        what: "lun delete",
        object,
        detail: String::new(),
    };
    let job = desk
        .delete(caller, deed, move |administrator| {
            let _editing = editing;
            condition.allows(&Tag::of_lun(&administrator.lun(&volume, &name)?))?;
            if !disconnect {
                administrator.refuse_connected(&Within::Lun(&volume, &name))?;
            }
            administrator.delete_lun(&volume, &name, purge)
        })
        .await?;
    accepted(&job)
}
