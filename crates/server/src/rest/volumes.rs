//! `/v1/volumes`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, header};
use everglade_api::{
    Code, CreateVolume, ModifyVolume, Name, Problem, PutVolume, Rename, Sync, Volume,
};

use super::answer::{Answer, accepted, created, tagged, with_tag};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use super::entity::{Condition, Tag};
use super::flags;
use super::listing::Listing;
use crate::administrator::{Administrator, DISCONNECT, PURGE, Within};
use crate::records::Deed;

pub(super) async fn list(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    listing.answer("volumes", "Volume", &desk.administrator().volumes().volumes)
}

pub(super) async fn show(
    State(desk): State<Arc<Desk>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let volume = desk.administrator().volume(&name)?;
    tagged(&headers, &Tag::of_volume(&volume), &volume)
}

pub(super) async fn create(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Body(body): Body,
) -> Answer {
    make(&desk, caller, CreateVolume::parse(&body)?).await
}

async fn make(desk: &Arc<Desk>, caller: Caller, request: CreateVolume) -> Answer {
    let place = format!("/v1/volumes/{}", request.name);
    let deed = Deed {
        what: "volume create",
        object: request.name.to_string(),
        detail: detail(&request),
    };
    let volume = desk
        .change(caller, deed, move |administrator| {
            administrator.create_volume(&request)
        })
        .await?;
    created(&place, &Tag::of_volume(&volume), &volume)
}

/// Returns the requested settings as text for the history.
fn detail(request: &CreateVolume) -> String {
    let mut parts = Vec::new();
    if let Some(base) = &request.clone_of {
        parts.push(format!("clone of {base}"));
    }
    if let Some(aggregate) = &request.aggregate {
        parts.push(format!("aggregate {aggregate}"));
    }
    if request.clone_of.is_none() || request.sync.is_some() {
        parts.push(format!("sync {}", request.sync.unwrap_or_default()));
    }
    parts.join(", ")
}

pub(super) async fn put(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let PutVolume {
        aggregate,
        sync,
        snapshot_policy,
        clone_of,
    } = PutVolume::parse(&body)?;
    let name = name
        .parse()
        .map_err(|error| Problem::invalid("volume", error))?;
    let request = CreateVolume {
        name,
        aggregate,
        sync,
        snapshot_policy,
        clone_of,
    };
    match desk.administrator().volume(request.name.as_str()) {
        Ok(volume) if is_same(&volume, &request) => {
            tagged(&headers, &Tag::of_volume(&volume), &volume)
        }
        Ok(volume) => {
            let clone = volume.clone_of.as_ref();
            let clone = clone.map_or(String::new(), |base| format!(" as a clone of {base}"));
            let text = format!(
                "volume {} exists{clone} in aggregate {} with sync {} and snapshot policy {}; \
                choose another name, or these settings",
                volume.name, volume.aggregate, volume.sync, volume.snapshot_policy
            );
            Err(Problem::new(Code::Exists, text).into())
        }
        Err(_) => make(&desk, caller, request).await,
    }
}

fn is_same(volume: &Volume, request: &CreateVolume) -> bool {
    let is = |wanted: Option<&Name>, found: &str| wanted.is_none_or(|name| name.as_str() == found);
    let base = request.clone_of.as_ref().map(ToString::to_string);
    // A clone has the sync of its parent unless the request sets another.
    let is_synced = match request.sync {
        None => request.clone_of.is_some() || volume.sync == Sync::default(),
        Some(sync) => volume.sync == sync,
    };
    is_synced
        && volume.clone_of == base
        && is(request.aggregate.as_ref(), &volume.aggregate)
        && is(request.snapshot_policy.as_ref(), &volume.snapshot_policy)
}

pub(super) async fn modify(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let request = ModifyVolume::parse(&body)?;
    let sync = request.sync.map(|sync| format!("sync {sync}"));
    let policy = request.snapshot_policy.as_ref();
    let policy = policy.map(|policy| format!("snapshot policy {policy}"));
    let comment = request.comment.as_ref();
    let comment = comment.map(|comment| format!("comment {:?}", comment.as_str()));
    let parts = sync.into_iter().chain(policy).chain(comment);
    let parts: Vec<String> = parts.collect();
    let said = ("volume modify", parts.join(", "));
    let change = move |it: &Administrator, name: &str| it.modify_volume(name, &request);
    edit(&desk, caller, name, &headers, said, change).await
}

pub(super) async fn rename(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let request = Rename::parse(&body)?;
    let said = ("volume rename", format!("to {}", request.name));
    let change = move |it: &Administrator, name: &str| it.rename_volume(name, &request);
    edit(&desk, caller, name, &headers, said, change).await
}

/// Changes a volume, if it is still the one that is meant.
async fn edit(
    desk: &Arc<Desk>,
    caller: Caller,
    name: String,
    headers: &HeaderMap,
    (what, detail): (&'static str, String),
    change: impl FnOnce(&Administrator, &str) -> Result<Volume, Problem> + Send + 'static,
) -> Answer {
    let condition = Condition::read(headers, &header::IF_MATCH)?;
    let editing = desk.edit(&format!("volume {name}"))?;
    let deed = Deed {
        what,
        object: name.clone(),
        detail,
    };
    let volume = desk
        .change(caller, deed, move |administrator| {
            let _editing = editing;
            condition.allows(&Tag::of_volume(&administrator.volume(&name)?))?;
            change(administrator, &name)
        })
        .await?;
    with_tag(&Tag::of_volume(&volume), &volume)
}

pub(super) async fn delete(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let [disconnect, purge] = flags::read(query.as_deref(), [DISCONNECT, PURGE])?;
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let editing = desk.edit(&format!("volume {name}"))?;
    let deed = Deed {
        what: "volume delete",
        object: name.clone(),
        detail: String::new(),
    };
    let job = desk
        .delete(caller, deed, move |administrator| {
            let _editing = editing;
            condition.allows(&Tag::of_volume(&administrator.volume(&name)?))?;
            if !disconnect {
                administrator.refuse_connected(&Within::Volume(&name))?;
            }
            administrator.delete_volume(&name, purge)
        })
        .await?;
    accepted(&job)
}
