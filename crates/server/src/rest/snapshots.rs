//! `/v1/volumes/{volume}/snapshots`.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, header};
use axum::routing::{get, post};
use axum::{Extension, Router};
use everglade_api::{
    CompareSnapshot, CreateSnapshot, HoldSnapshot, Problem, RenameSnapshot, RestoreSnapshot,
    Restored, SetScan,
};

use super::answer::{Answer, accepted, created, found, tagged, with_tag};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use super::entity::{Condition, Tag};
use super::flags;
use super::listing::Listing;
use crate::administrator::{Administrator, PURGE};
use crate::records::Deed;

/// Returns the routes of snapshots.
pub(super) fn routes() -> Router<Arc<Desk>> {
    let one = "/v1/volumes/{volume}/snapshots/{snapshot}";
    Router::new()
        .route(
            "/v1/volumes/{volume}/snapshots",
            get(list).post(create_by_name),
        )
        .route("/v1/volumes/{volume}/scan", get(scan).put(set_scan))
        .route(one, get(show).put(put).patch(rename).delete(delete))
        .route(&format!("{one}/changes"), get(compare))
        .route(&format!("{one}/actions/restore"), post(restore))
        .route(&format!("{one}/actions/hold"), post(hold))
        .route(&format!("{one}/actions/release"), post(release))
}

async fn list(
    State(desk): State<Arc<Desk>>,
    Path(volume): Path<String>,
    listing: Listing,
) -> Answer {
    let snapshots = desk.administrator().snapshots(&volume)?.snapshots;
    listing.answer("snapshots", "Snapshot", &snapshots)
}

async fn show(
    State(desk): State<Arc<Desk>>,
    Path((volume, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let snapshot = desk.administrator().snapshot(&volume, &name)?;
    tagged(&headers, &Tag::of_snapshot(&snapshot), &snapshot)
}

async fn compare(
    State(desk): State<Arc<Desk>>,
    Path((volume, name)): Path<(String, String)>,
    listing: Listing,
) -> Answer {
    let question = CompareSnapshot::parse(listing.only(CompareSnapshot::PARAMETERS)?)?;
    let changes = desk
        .ask(move |administrator| administrator.compare_snapshot(&volume, &name, &question))
        .await?;
    found(changes)
}

async fn create_by_name(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(volume): Path<String>,
    Body(body): Body,
) -> Answer {
    create(&desk, caller, volume, CreateSnapshot::parse(&body)?).await
}

async fn create(
    desk: &Arc<Desk>,
    caller: Caller,
    volume: String,
    request: CreateSnapshot,
) -> Answer {
    let place = format!("/v1/volumes/{volume}/snapshots/{}", request.name);
    let deed = Deed {
        what: "snapshot create",
        object: format!("{volume}@{}", request.name),
        detail: String::new(),
    };
    let snapshot = desk
        .change(caller, deed, move |administrator| {
            administrator.create_snapshot(&volume, &request)
        })
        .await?;
    created(&place, &Tag::of_snapshot(&snapshot), &snapshot)
}

async fn put(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path((volume, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let name = name
        .parse()
        .map_err(|error| Problem::invalid("snapshot", error))?;
    let request = CreateSnapshot { name };
    match desk
        .administrator()
        .snapshot(&volume, request.name.as_str())
    {
        Ok(snapshot) => tagged(&headers, &Tag::of_snapshot(&snapshot), &snapshot),
        Err(_) => create(&desk, caller, volume, request).await,
    }
}

async fn rename(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path((volume, name)): Path<(String, String)>,
    headers: HeaderMap,
    Body(body): Body,
) -> Answer {
    let request = RenameSnapshot::parse(&body)?;
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let object = format!("{volume}@{name}");
    let editing = desk.edit(&format!("snapshot {object}"))?;
    let deed = Deed {
        what: "snapshot rename",
        object,
        detail: format!("to {}", request.name),
    };
    let snapshot = desk
        .change(caller, deed, move |administrator| {
            let _editing = editing;
            condition.allows(&Tag::of_snapshot(&administrator.snapshot(&volume, &name)?))?;
            administrator.rename_snapshot(&volume, &name, &request)
        })
        .await?;
    with_tag(&Tag::of_snapshot(&snapshot), &snapshot)
}

async fn delete(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path((volume, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let [purge] = flags::read(query.as_deref(), [PURGE])?;
    let condition = Condition::read(&headers, &header::IF_MATCH)?;
    let object = format!("{volume}@{name}");
    let editing = desk.edit(&format!("snapshot {object}"))?;
    let deed = Deed {
        what: "snapshot delete",
        object,
        detail: String::new(),
    };
    let job = desk
        .delete(caller, deed, move |administrator| {
            let _editing = editing;
            condition.allows(&Tag::of_snapshot(&administrator.snapshot(&volume, &name)?))?;
            administrator.delete_snapshot(&volume, &name, purge)
        })
        .await?;
    accepted(&job)
}

async fn restore(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path((volume, name)): Path<(String, String)>,
    Body(body): Body,
) -> Answer {
    let request = RestoreSnapshot::parse(&body)?;
    if request.dry_run {
        let plan = desk
            .ask(move |administrator| administrator.restore_volume(&volume, &name, &request))
            .await?;
        return found(plan);
    }
    let editing = desk.edit(&format!("volume {volume}"))?;
    let restored = desk
        .change_told(caller, move |administrator| {
            let _editing = editing;
            let restored = administrator.restore_volume(&volume, &name, &request)?;
            let deed = Deed {
                what: "snapshot restore",
                object: format!("{volume}@{name}"),
                detail: outcome(&restored),
            };
            Ok((restored, deed))
        })
        .await?;
    found(restored)
}

/// Returns the text for the history, which names the snapshot of the replaced active image.
fn outcome(restored: &Restored) -> String {
    if let (Some(lun), Some(safety)) = (&restored.lun, &restored.safety_snapshot) {
        return format!("LUN {lun}; what was active is {}@{safety}", restored.volume);
    }
    match &restored.safety_snapshot {
        Some(safety) => format!("what was active is {}@{safety}", restored.volume),
        None => {
            let names = restored.discarded.iter();
            let names: Vec<_> = names.map(|snapshot| snapshot.name.as_str()).collect();
            format!("discarded {}", names.join(", "))
        }
    }
}

async fn hold(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path((volume, name)): Path<(String, String)>,
    Body(body): Body,
) -> Answer {
    let change = Administrator::hold_snapshot;
    change_holds(
        &desk,
        caller,
        (volume, name),
        &body,
        ("snapshot hold", change),
    )
    .await
}

async fn release(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path((volume, name)): Path<(String, String)>,
    Body(body): Body,
) -> Answer {
    let change = Administrator::release_snapshot;
    change_holds(
        &desk,
        caller,
        (volume, name),
        &body,
        ("snapshot release", change),
    )
    .await
}

/// A change of the holds of a snapshot.
type ChangeHolds =
    fn(&Administrator, &str, &str, &HoldSnapshot) -> Result<everglade_api::Snapshot, Problem>;

async fn change_holds(
    desk: &Arc<Desk>,
    caller: Caller,
    (volume, name): (String, String),
    body: &[u8],
    (what, change): (&'static str, ChangeHolds),
) -> Answer {
    let request = HoldSnapshot::parse(body)?;
    let object = format!("{volume}@{name}");
    let editing = desk.edit(&format!("snapshot {object}"))?;
    let deed = Deed {
        what,
        object,
        detail: request.tag.to_string(),
    };
    let snapshot = desk
        .change(caller, deed, move |administrator| {
            let _editing = editing;
            change(administrator, &volume, &name, &request)
        })
        .await?;
    with_tag(&Tag::of_snapshot(&snapshot), &snapshot)
}

async fn scan(State(desk): State<Arc<Desk>>, Path(volume): Path<String>) -> Answer {
    found(desk.administrator().scan(&volume)?)
}

async fn set_scan(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    Path(volume): Path<String>,
    Body(body): Body,
) -> Answer {
    let request = SetScan::parse(&body)?;
    let deed = Deed {
        what: "snapshot scan",
        object: volume.clone(),
        detail: format!("pace {} %", request.pace_percent),
    };
    let scan = desk
        .change(caller, deed, move |administrator| {
            administrator.set_scan(&volume, request)
        })
        .await?;
    found(scan)
}
