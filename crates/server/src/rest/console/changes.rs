//! Forms: what a visitor changes, and the request of the REST interface that it becomes.
//!
//! | form | request |
//! | --- | --- |
//! | `/do/volume-create`, `/do/volume-clone/V/S` | `POST /v1/volumes` |
//! | `/do/volume-modify/V`, `volume-delete` | `PATCH`, `DELETE /v1/volumes/V` |
//! | `/do/volume-limit/V` | `POST /v1/volumes/V/actions/limit` |
//! | `/do/lun-create/V` | `POST /v1/volumes/V/luns` |
//! | `/do/lun-resize/V/L`, `lun-delete` | `PATCH`, `DELETE /v1/volumes/V/luns/L` |
//! | `/do/lun-limit/V/L` | `POST /v1/volumes/V/luns/L/actions/limit` |
//! | `/do/lun-clone/V/L` | `POST /v1/volumes/V/luns/L/actions/clone` |
//! | `/do/snapshot-create/V` | `POST /v1/volumes/V/snapshots` |
//! | `/do/snapshot-restore/V/S` | `POST /v1/volumes/V/snapshots/S/actions/restore` |
//! | `/do/snapshot-delete/V/S` | `DELETE /v1/volumes/V/snapshots/S` |
//! | `/do/undelete/ID`, `purge` | `POST /v1/trash/ID/actions/undelete`, `DELETE /v1/trash/ID` |
//! | `/do/aggregate-scrub/A` | `POST /v1/aggregates/A/actions/scrub` |
//! | `/do/job-cancel/ID` | `POST /v1/jobs/ID/actions/cancel` |
//!
//! 1. A form is sent with an idempotency key, so a button that is pressed twice makes one change.
//! 2. A form about an object carries the object's tag. If the object has changed since the form was
//!    opened, nothing is done.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body as Stream;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use everglade_api::{Code, CompareSnapshot, Name, Problem, RestoreSnapshot, Size, TrashItem};
use everglade_console::duration;
use everglade_console::{Field, Form, form as form_page};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

use super::super::body::Body;
use super::super::desk::Desk;
use super::super::entity::Tag;
use super::super::guard::{Origin, no_such_path};
use super::super::tokens::random;
use super::Console;
use super::answers::{Failed, said};
use super::filled::Filled;
use super::limiting;
use super::visit::{Refused, Visit, check_form, refusal};
use crate::administrator::Administrator;

/// LUNs whose losses are counted before a restore; counting reads metadata of each.
const COMPARED_LUNS: usize = 8;

/// A change that has a form.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    CreateVolume,
    ModifyVolume(String),
    LimitVolume(String),
    DeleteVolume(String),
    CreateLun(String),
    LimitLun(String, String),
    ResizeLun(String, String),
    CloneLun(String, String),
    DeleteLun(String, String),
    CreateSnapshot(String),
    Restore(String, String),
    CloneVolume(String, String),
    DeleteSnapshot(String, String),
    Undelete(String),
    Purge(String),
    Scrub(String),
    CancelJob(u64),
}

/// A request of the REST interface, and the page to go to once it was answered.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    method: Method,
    path: String,
    body: Option<Value>,
    next: String,
}

impl Action {
    /// Returns the change of a path.
    fn of(path: &HashMap<String, String>) -> Option<Action> {
        let part = |name: &str| path.get(name).cloned();
        Some(
            match (path.get("what")?.as_str(), part("first"), part("second")) {
                ("volume-create", None, None) => Action::CreateVolume,
                ("volume-modify", Some(volume), None) => Action::ModifyVolume(volume),
                ("volume-limit", Some(volume), None) => Action::LimitVolume(volume),
                ("volume-delete", Some(volume), None) => Action::DeleteVolume(volume),
                ("lun-create", Some(volume), None) => Action::CreateLun(volume),
                ("lun-resize", Some(volume), Some(lun)) => Action::ResizeLun(volume, lun),
                ("lun-limit", Some(volume), Some(lun)) => Action::LimitLun(volume, lun),
                ("lun-clone", Some(volume), Some(lun)) => Action::CloneLun(volume, lun),
                ("lun-delete", Some(volume), Some(lun)) => Action::DeleteLun(volume, lun),
                ("snapshot-create", Some(volume), None) => Action::CreateSnapshot(volume),
                ("snapshot-restore", Some(volume), Some(name)) => Action::Restore(volume, name),
                ("volume-clone", Some(volume), Some(name)) => Action::CloneVolume(volume, name),
                ("snapshot-delete", Some(volume), Some(name)) => {
                    Action::DeleteSnapshot(volume, name)
                }
                ("undelete", Some(id), None) => Action::Undelete(id),
                ("purge", Some(id), None) => Action::Purge(id),
                ("aggregate-scrub", Some(aggregate), None) => Action::Scrub(aggregate),
                ("job-cancel", Some(id), None) => Action::CancelJob(id.parse().ok()?),
                _ => return None,
            },
        )
    }

    /// Path of the form, and of the page that it is opened from.
    fn places(&self) -> (String, String) {
        let of_volume =
            |what, volume: &String| (format!("/do/{what}/{volume}"), format!("/volumes/{volume}"));
        let of_lun = |what, volume: &String, lun: &String| {
            let path = format!("/do/{what}/{volume}/{lun}");
            (path, format!("/volumes/{volume}/luns/{lun}"))
        };
        let of_snapshot = |what, volume: &String, name: &String| {
            let path = format!("/do/{what}/{volume}/{name}");
            (path, format!("/volumes/{volume}"))
        };
        match self {
            Action::CreateVolume => ("/do/volume-create".to_owned(), "/volumes".to_owned()),
            Action::ModifyVolume(volume) => of_volume("volume-modify", volume),
            Action::LimitVolume(volume) => of_volume("volume-limit", volume),
            Action::DeleteVolume(volume) => of_volume("volume-delete", volume),
            Action::CreateLun(volume) => of_volume("lun-create", volume),
            Action::CreateSnapshot(volume) => of_volume("snapshot-create", volume),
            Action::ResizeLun(volume, lun) => of_lun("lun-resize", volume, lun),
            Action::LimitLun(volume, lun) => of_lun("lun-limit", volume, lun),
            Action::CloneLun(volume, lun) => of_lun("lun-clone", volume, lun),
            Action::DeleteLun(volume, lun) => of_lun("lun-delete", volume, lun),
            Action::Restore(volume, name) => of_snapshot("snapshot-restore", volume, name),
            Action::CloneVolume(volume, name) => of_snapshot("volume-clone", volume, name),
            Action::DeleteSnapshot(volume, name) => of_snapshot("snapshot-delete", volume, name),
            Action::Undelete(id) => (format!("/do/undelete/{id}"), "/trash".to_owned()),
            Action::Purge(id) => (format!("/do/purge/{id}"), "/trash".to_owned()),
            Action::Scrub(aggregate) => (
                format!("/do/aggregate-scrub/{aggregate}"),
                format!("/aggregates/{aggregate}"),
            ),
            Action::CancelJob(id) => (format!("/do/job-cancel/{id}"), "/jobs".to_owned()),
        }
    }

    /// Returns the form, with what the visitor has filled in already.
    async fn form(&self, desk: &Arc<Desk>, filled: &Filled) -> Result<Form, Problem> {
        let (path, back) = self.places();
        let mut form = self.described(desk, filled).await?;
        form.hidden.push(("key", filled.text_or("key", &new_key())));
        Ok(Form { path, back, ..form })
    }

    async fn described(&self, desk: &Arc<Desk>, filled: &Filled) -> Result<Form, Problem> {
        let administrator = desk.administrator();
        match self {
            Action::CreateVolume => {
                let aggregates = administrator.aggregates().aggregates;
                let aggregates: Vec<_> = aggregates.into_iter().map(|it| it.name).collect();
                let policies = policies(administrator);
                let usual = |all: &[String]| all.first().cloned().unwrap_or_default();
                Ok(Form {
                    title: "Create a volume".to_owned(),
                    lead: lines([
                        "A volume holds LUNs. Its snapshots hold all of them, at one moment.",
                    ]),
                    fields: vec![
                        name_field(filled, ""),
                        choice(
                            filled,
                            "aggregate",
                            "Aggregate",
                            &usual(&aggregates),
                            aggregates,
                        ),
                        policy_field(filled, &usual(&policies), policies),
                        sync_field(filled, "standard"),
                    ],
                    button: "Create",
                    ..Form::default()
                })
            }
            Action::ModifyVolume(name) => {
                let volume = administrator.volume(name)?;
                let policy = &volume.snapshot_policy;
                let sync = volume.sync.to_string();
                Ok(Form {
                    title: format!("Change volume {name}"),
                    lead: lines(["Clients stay connected."]),
                    fields: vec![
                        policy_field(filled, policy, policies(administrator)),
                        sync_field(filled, &sync),
                        comment_field(filled, &volume.comment),
                    ],
                    hidden: vec![tag(&Tag::of_volume(&volume), filled)],
                    button: "Change",
                    ..Form::default()
                })
            }
            Action::LimitVolume(name) => {
                administrator.volume(name)?;
                limit_form(administrator, filled, ("volume", name))
            }
            Action::LimitLun(volume, lun) => {
                administrator.lun(volume, lun)?;
                limit_form(administrator, filled, ("LUN", &format!("{volume}/{lun}")))
            }
            Action::Scrub(name) => {
                administrator.aggregate(name)?;
                Ok(Form {
                    title: format!("Scrub aggregate {name}"),
                    lead: lines([
                        "A scrub reads every block in use and repairs what can be repaired. It \
                         gives way to clients.",
                    ]),
                    button: "Begin",
                    ..Form::default()
                })
            }
            Action::DeleteVolume(name) => {
                let volume = administrator.volume(name)?;
                Ok(Form {
                    title: format!("Delete volume {name}"),
                    lead: vec![
                        format!(
                            "All its LUNs ({}) and snapshots ({}) are deleted.",
                            volume.lun_count, volume.snapshot_count
                        ),
                        fate(administrator),
                    ],
                    fields: delete_boxes(administrator, filled),
                    hidden: vec![tag(&Tag::of_volume(&volume), filled), keeps(administrator)],
                    button: "Delete",
                    is_destructive: true,
                    ..Form::default()
                })
            }
            Action::CreateLun(volume) => {
                administrator.volume(volume)?;
                Ok(Form {
                    title: format!("Create a LUN in volume {volume}"),
                    lead: lines(["A LUN is a disk for a client. It takes space as it is written."]),
                    fields: vec![name_field(filled, ""), size_field(filled, "16 GiB")],
                    button: "Create",
                    ..Form::default()
                })
            }
            Action::ResizeLun(volume, name) => {
                let lun = administrator.lun(volume, name)?;
                let size = Size(lun.size_bytes).said();
                Ok(Form {
                    title: format!("Resize LUN {volume}/{name}"),
                    lead: vec![format!("It has {size} now.")],
                    fields: vec![
                        size_field(filled, &size),
                        check(
                            filled,
                            "discard_beyond",
                            "If it becomes smaller, discard what lies beyond its new end",
                        ),
                    ],
                    hidden: vec![tag(&Tag::of_lun(&lun), filled)],
                    button: "Resize",
                    ..Form::default()
                })
            }
            Action::CloneLun(volume, name) => {
                administrator.lun(volume, name)?;
                let snapshots = administrator.snapshots(volume)?.snapshots.into_iter();
                let mut moments = vec!["now".to_owned()];
                moments.extend(snapshots.rev().map(|snapshot| snapshot.name));
                Ok(Form {
                    title: format!("Clone LUN {volume}/{name}"),
                    lead: lines([
                        "The clone is a LUN of the same volume. It shares the blocks of this one \
                         until either is overwritten.",
                    ]),
                    fields: vec![
                        name_field(filled, &format!("{name}-clone")),
                        choice(filled, "snapshot", "As it was at", "now", moments),
                    ],
                    button: "Clone",
                    ..Form::default()
                })
            }
            Action::DeleteLun(volume, name) => {
                let lun = administrator.lun(volume, name)?;
                let used = Size(lun.used_bytes);
                Ok(Form {
                    title: format!("Delete LUN {volume}/{name}"),
                    lead: vec![
                        format!("Clients lose its content ({used})."),
                        fate(administrator),
                    ],
                    fields: delete_boxes(administrator, filled),
                    hidden: vec![tag(&Tag::of_lun(&lun), filled), keeps(administrator)],
                    button: "Delete",
                    is_destructive: true,
                    ..Form::default()
                })
            }
            Action::CreateSnapshot(volume) => {
                administrator.volume(volume)?;
                Ok(Form {
                    title: format!("Take a snapshot of volume {volume}"),
                    lead: lines(["It holds all LUNs of the volume, and takes no space now."]),
                    fields: vec![name_field(filled, "")],
                    button: "Take it",
                    ..Form::default()
                })
            }
            Action::Restore(volume, name) => restore_form(desk, volume, name).await,
            Action::CloneVolume(volume, name) => {
                administrator.snapshot(volume, name)?;
                Ok(Form {
                    title: format!("Clone volume {volume} as of snapshot {name}"),
                    lead: lines([
                        "The clone is a new volume that can be written. It shares the blocks of \
                         the snapshot until it overwrites them.",
                    ]),
                    fields: vec![name_field(filled, &format!("{volume}-clone"))],
                    button: "Clone",
                    ..Form::default()
                })
            }
            Action::DeleteSnapshot(volume, name) => {
                let snapshot = administrator.snapshot(volume, name)?;
                let alone = Size(snapshot.exclusive_bytes);
                Ok(Form {
                    title: format!("Delete snapshot {volume}@{name}"),
                    lead: vec![
                        format!(
                            "It holds what the volume was at {}. {alone} are in this snapshot \
                             alone, and become free when it is gone for good.",
                            snapshot.created
                        ),
                        fate(administrator),
                    ],
                    hidden: vec![
                        tag(&Tag::of_snapshot(&snapshot), filled),
                        keeps(administrator),
                    ],
                    fields: purge_box(administrator, filled),
                    button: "Delete",
                    is_destructive: true,
                    ..Form::default()
                })
            }
            Action::Undelete(id) => {
                let item = in_trash(administrator, id)?;
                let name = item.name.rsplit(['/', '@']).next().unwrap_or_default();
                Ok(Form {
                    title: format!("Bring back {} {}", item.kind.noun(), item.name),
                    lead: lines(["It has everything that it had when it was deleted."]),
                    fields: vec![name_field(filled, name)],
                    button: "Bring it back",
                    ..Form::default()
                })
            }
            Action::Purge(id) => {
                let item = in_trash(administrator, id)?;
                Ok(Form {
                    title: format!("Delete {} {} for good", item.kind.noun(), item.name),
                    lead: lines(["This cannot be undone."]),
                    button: "Delete for good",
                    is_destructive: true,
                    ..Form::default()
                })
            }
            Action::CancelJob(id) => {
                let job = desk.records().jobs.one(administrator.now(), *id)?;
                Ok(Form {
                    title: format!("Cancel job {id}"),
                    lead: vec![format!("It is {} of {}.", job.kind, job.object)],
                    button: "Cancel the job",
                    ..Form::default()
                })
            }
        }
    }

    /// Returns the request that a form becomes.
    ///
    /// # Errors
    /// A field cannot be understood.
    fn asked(&self, filled: &Filled) -> Result<Asked, Problem> {
        let (_, back) = self.places();
        let name = || filled.text("name").trim().to_owned();
        let done = |word: &str| format!("{back}?done={word}");
        let ask = |method, path: String, body, next: String| {
            Ok(Asked {
                method,
                path,
                body,
                next,
            })
        };
        let delete = |path: String| {
            let flags = ["disconnect", "purge"].into_iter();
            let flags: Vec<String> = flags
                .filter(|flag| filled.is_set(flag))
                .map(|flag| format!("{flag}=true"))
                .collect();
            let query = match flags.is_empty() {
                true => String::new(),
                false => format!("?{}", flags.join("&")),
            };
            let next = match filled.text("keeps") == "yes" && !filled.is_set("purge") {
                true => "/trash?done=trashed",
                false => "/jobs?done=deleted",
            };
            ask(
                Method::DELETE,
                format!("{path}{query}"),
                None,
                next.to_owned(),
            )
        };
        match self {
            Action::CreateVolume => {
                let body = json!({
                    "name": name(),
                    "aggregate": filled.text("aggregate"),
                    "snapshot_policy": filled.text("snapshot_policy"),
                    "sync": filled.text("sync"),
                });
                ask(
                    Method::POST,
                    "/v1/volumes".to_owned(),
                    Some(body),
                    done("created"),
                )
            }
            Action::ModifyVolume(volume) => {
                let body = json!({
                    "snapshot_policy": filled.text("snapshot_policy"),
                    "sync": filled.text("sync"),
                    "comment": filled.text("comment"),
                });
                let path = format!("/v1/volumes/{volume}");
                ask(Method::PATCH, path, Some(body), done("modified"))
            }
            Action::LimitVolume(volume) => ask(
                Method::POST,
                format!("/v1/volumes/{volume}/actions/limit"),
                Some(limiting::body(filled)?),
                done("modified"),
            ),
            Action::LimitLun(volume, lun) => ask(
                Method::POST,
                format!("/v1/volumes/{volume}/luns/{lun}/actions/limit"),
                Some(limiting::body(filled)?),
                done("modified"),
            ),
            Action::Scrub(aggregate) => ask(
                Method::POST,
                format!("/v1/aggregates/{aggregate}/actions/scrub"),
                None,
                "/jobs?done=begun".to_owned(),
            ),
            Action::DeleteVolume(volume) => delete(format!("/v1/volumes/{volume}")),
            Action::CreateLun(volume) => {
                let body = json!({"name": name(), "size_bytes": size(filled)?});
                ask(
                    Method::POST,
                    format!("/v1/volumes/{volume}/luns"),
                    Some(body),
                    done("created"),
                )
            }
            Action::ResizeLun(volume, lun) => {
                let body = json!({
                    "size_bytes": size(filled)?,
                    "discard_beyond": filled.is_set("discard_beyond"),
                });
                ask(
                    Method::PATCH,
                    format!("/v1/volumes/{volume}/luns/{lun}"),
                    Some(body),
                    done("resized"),
                )
            }
            Action::CloneLun(volume, lun) => {
                let mut body = json!({"name": name()});
                if filled.text("snapshot") != "now" {
                    body["snapshot"] = json!(filled.text("snapshot"));
                }
                ask(
                    Method::POST,
                    format!("/v1/volumes/{volume}/luns/{lun}/actions/clone"),
                    Some(body),
                    "/jobs?done=begun".to_owned(),
                )
            }
            Action::DeleteLun(volume, lun) => delete(format!("/v1/volumes/{volume}/luns/{lun}")),
            Action::CreateSnapshot(volume) => ask(
                Method::POST,
                format!("/v1/volumes/{volume}/snapshots"),
                Some(json!({"name": name()})),
                done("taken"),
            ),
            Action::Restore(volume, snapshot) => ask(
                Method::POST,
                format!("/v1/volumes/{volume}/snapshots/{snapshot}/actions/restore"),
                Some(json!({})),
                done("restored"),
            ),
            Action::CloneVolume(volume, snapshot) => ask(
                Method::POST,
                "/v1/volumes".to_owned(),
                Some(json!({"name": name(), "clone_of": format!("{volume}@{snapshot}")})),
                format!("/volumes/{}?done=created", name()),
            ),
            Action::DeleteSnapshot(volume, snapshot) => {
                delete(format!("/v1/volumes/{volume}/snapshots/{snapshot}"))
            }
            Action::Undelete(id) => ask(
                Method::POST,
                format!("/v1/trash/{id}/actions/undelete"),
                Some(json!({"name": name()})),
                done("back"),
            ),
            Action::Purge(id) => delete(format!("/v1/trash/{id}")),
            Action::CancelJob(id) => ask(
                Method::POST,
                format!("/v1/jobs/{id}/actions/cancel"),
                None,
                done("cancelled"),
            ),
        }
    }
}

/// The form of the limit of a volume or a LUN.
fn limit_form(
    administrator: &Administrator,
    filled: &Filled,
    (noun, name): (&str, &str),
) -> Result<Form, Problem> {
    let limits = administrator.limits();
    let limit = limits.iter().find(|limit| limit.name == name);
    let policies = administrator.schedule().qos_policies().into_iter();
    let policies = policies.map(|policy| policy.name).collect();
    Ok(Form {
        title: format!("Limit {noun} {name}"),
        lead: lines([
            "All its clients share the limit. Requests beyond it wait; none is refused. A form \
             without a rate removes the limit.",
        ]),
        fields: limiting::fields(filled, limit, policies),
        button: "Set",
        ..Form::default()
    })
}

/// An object in the trash.
fn in_trash(administrator: &Administrator, id: &str) -> Result<TrashItem, Problem> {
    let mut known = administrator.trash().trash.into_iter();
    known
        .find(|item| item.id == id)
        .ok_or_else(|| Problem::new(Code::NotFound, "it is not in the trash any more"))
}

/// Says whether what is deleted can come back.
fn fate(administrator: &Administrator) -> String {
    match administrator.trash_keep_seconds() {
        0 => "This cannot be undone.".to_owned(),
        seconds => format!(
            "It goes into the trash, and can be brought back for {}, unless space is short before.",
            duration(seconds)
        ),
    }
}

/// Whether deleted objects go into the trash, for the page to go to.
fn keeps(administrator: &Administrator) -> (&'static str, String) {
    let word = match administrator.trash_keep_seconds() {
        0 => "no",
        _ => "yes",
    };
    ("keeps", word.to_owned())
}

/// What a visitor may choose about a deletion.
fn delete_boxes(administrator: &Administrator, filled: &Filled) -> Vec<Field> {
    let mut boxes = vec![disconnect_box(filled)];
    boxes.extend(purge_box(administrator, filled));
    boxes
}

/// The choice to delete for good, if there is another one.
fn purge_box(administrator: &Administrator, filled: &Filled) -> Vec<Field> {
    if administrator.trash_keep_seconds() == 0 {
        return Vec::new();
    }
    let text = "Delete it for good: not into the trash";
    vec![check(filled, "purge", text)]
}

/// The form of a restore says what would be lost: what was written since the snapshot.
async fn restore_form(desk: &Arc<Desk>, volume: &str, name: &str) -> Result<Form, Problem> {
    let snapshot = desk.administrator().snapshot(volume, name)?;
    let (of_volume, of_snapshot) = (volume.to_owned(), name.to_owned());
    let plan = RestoreSnapshot {
        safety_snapshot: None,
        lun: None,
        discard_newer: false,
        dry_run: true,
    };
    let (plan, lost) = desk
        .ask(move |administrator| {
            let plan = administrator.restore_volume(&of_volume, &of_snapshot, &plan)?;
            let luns = administrator.luns(&of_volume)?.luns;
            let mut lost = Vec::new();
            for lun in luns.iter().take(COMPARED_LUNS) {
                let Ok(lun) = lun.name.parse::<Name>() else {
                    continue;
                };
                let question = CompareSnapshot::whole(lun.clone(), None);
                lost.push(
                    match administrator.compare_snapshot(&of_volume, &of_snapshot, &question) {
                        Ok(found) => {
                            let least = found.next_offset.map_or("", |_| "at least ");
                            let changed = Size(found.changed_bytes);
                            format!("LUN {lun}: {least}{changed} were written since.")
                        }
                        Err(problem) if problem.code == Code::NotFound => {
                            format!("LUN {lun} is newer than the snapshot and disappears.")
                        }
                        Err(problem) => format!("LUN {lun}: {problem}"),
                    },
                );
            }
            if luns.len() > COMPARED_LUNS {
                lost.push(format!(
                    "{} more LUNs were not compared.",
                    luns.len() - COMPARED_LUNS
                ));
            }
            Ok((plan, lost))
        })
        .await?;
    let kept = plan.safety_snapshot.map(|safety| {
        format!(
            "What the volume is now is kept as snapshot {volume}@{safety}, so this can be undone. \
             Newer snapshots stay."
        )
    });
    let mut lead = vec![format!(
        "All LUNs of volume {volume} become what they were at {}. Clients should not have them \
         mounted.",
        snapshot.created
    )];
    lead.extend(kept);
    Ok(Form {
        title: format!("Restore snapshot {volume}@{name}"),
        lead,
        warnings: lost,
        button: "Restore",
        is_destructive: true,
        ..Form::default()
    })
}

fn lines<const N: usize>(lines: [&str; N]) -> Vec<String> {
    lines.map(str::to_owned).to_vec()
}

fn name_field(filled: &Filled, usual: &str) -> Field {
    Field::Text {
        name: "name",
        label: "Name",
        hint: "Letters, digits, '.', '_' and '-'; at most 63.".to_owned(),
        value: filled.text_or("name", usual),
        is_required: true,
    }
}

fn size_field(filled: &Filled, usual: &str) -> Field {
    Field::Text {
        name: "size",
        label: "Size",
        hint: "A number with KiB, MiB, GiB or TiB.".to_owned(),
        value: filled.text_or("size", usual),
        is_required: true,
    }
}

fn choice(
    filled: &Filled,
    name: &'static str,
    label: &'static str,
    usual: &str,
    options: Vec<String>,
) -> Field {
    Field::Choice {
        name,
        label,
        options,
        value: filled.text_or(name, usual),
    }
}

/// Snapshot policies that a volume may have.
fn policies(administrator: &Administrator) -> Vec<String> {
    let policies = administrator.schedule().policies().into_iter();
    let none = std::iter::once("none".to_owned());
    policies.map(|policy| policy.name).chain(none).collect()
}

fn policy_field(filled: &Filled, usual: &str, policies: Vec<String>) -> Field {
    choice(
        filled,
        "snapshot_policy",
        "Snapshot policy",
        usual,
        policies,
    )
}

fn comment_field(filled: &Filled, usual: &str) -> Field {
    Field::Text {
        name: "comment",
        label: "Comment",
        hint: "A line for people; empty for none.".to_owned(),
        value: filled.text_or("comment", usual),
        is_required: false,
    }
}

fn sync_field(filled: &Filled, usual: &str) -> Field {
    let options = vec!["standard".to_owned(), "always".to_owned()];
    choice(filled, "sync", "Writes are durable", usual, options)
}

fn check(filled: &Filled, name: &'static str, label: &str) -> Field {
    Field::Check {
        name,
        label: label.to_owned(),
        is_set: filled.is_set(name),
    }
}

fn disconnect_box(filled: &Filled) -> Field {
    check(filled, "disconnect", "Disconnect clients that have it open")
}

/// The tag of the object as the visitor saw it first.
fn tag(tag: &Tag, filled: &Filled) -> (&'static str, String) {
    let now = String::from_utf8_lossy(tag.value().as_bytes()).into_owned();
    ("tag", filled.text_or("tag", &now))
}

fn size(filled: &Filled) -> Result<u64, Problem> {
    let parsed: Result<Size, _> = filled.text("size").trim().parse();
    let size = parsed.map_err(|error| Problem::invalid("size", error))?;
    Ok(size.bytes())
}

/// A new idempotency key.
fn new_key() -> String {
    let bytes = random();
    blake3::Hash::from_bytes(bytes).to_hex()[..32].to_owned()
}

/// `GET /do/…`: the form.
pub(super) async fn form(
    State(console): State<Arc<Console>>,
    visit: Visit,
    Path(path): Path<HashMap<String, String>>,
) -> Response {
    if let Err(refused) = check_role(&visit) {
        return refused.into_response();
    }
    let Some(action) = Action::of(&path) else {
        return Failed(no_such_path()).into_response();
    };
    match action.form(&console.desk, &Filled::empty()).await {
        Ok(form) => Html(form_page::page(&visit.visitor, &form)).into_response(),
        Err(problem) => Failed(problem).into_response(),
    }
}

/// `POST /do/…`: makes the change, and goes on to the page that shows it.
pub(super) async fn make(
    State(console): State<Arc<Console>>,
    visit: Visit,
    Path(path): Path<HashMap<String, String>>,
    request: Request,
) -> Response {
    let filled = match Body::from_request(Request::new(request.into_body()), &()).await {
        Ok(Body(body)) => Filled::parse(&body),
        Err(refused) => return refused.into_response(),
    };
    if let Err(refused) = check_form(&visit.visitor, &filled).and_then(|()| check_role(&visit)) {
        return refused.into_response();
    }
    let Some(action) = Action::of(&path) else {
        return Failed(no_such_path()).into_response();
    };
    let outcome = match action.asked(&filled) {
        Ok(asked) => send(&console, &visit, &filled, &asked)
            .await
            .map(|()| asked.next),
        Err(problem) => Err(problem),
    };
    match outcome {
        Ok(next) => Redirect::to(&next).into_response(),
        Err(problem) => again(&console, &visit, &action, &filled, problem).await,
    }
}

/// The form once more, with the reason why nothing was done.
async fn again(
    console: &Console,
    visit: &Visit,
    action: &Action,
    filled: &Filled,
    problem: Problem,
) -> Response {
    let status = StatusCode::from_u16(problem.http_status()).unwrap_or_default();
    match action.form(&console.desk, filled).await {
        Ok(mut form) => {
            form.problem = Some(said(&problem));
            (status, Html(form_page::page(&visit.visitor, &form))).into_response()
        }
        // The object is gone, which is what the problem says.
        Err(_) => Failed(problem).into_response(),
    }
}

fn check_role(visit: &Visit) -> Result<(), Refused> {
    if visit.visitor.may_change() {
        return Ok(());
    }
    let text = format!(
        "{} has the role {}; changes need operator.",
        visit.visitor.name, visit.visitor.role
    );
    Err(refusal(StatusCode::FORBIDDEN, "Not allowed", text))
}

/// Hands a change to the REST interface, as the visitor.
async fn send(
    console: &Console,
    visit: &Visit,
    filled: &Filled,
    asked: &Asked,
) -> Result<(), Problem> {
    let body = asked.body.as_ref().map(|it| it.to_string().into_bytes());
    let mut request = Request::new(Stream::from(body.unwrap_or_default()));
    *request.method_mut() = asked.method.clone();
    // The interface refuses names that are not valid. Some of them cannot even be sent to it.
    *request.uri_mut() = asked.path.parse().map_err(|_| no_such_path())?;
    let headers = request.headers_mut();
    let mut add = |name, text: &str| {
        if let (false, Ok(value)) = (text.is_empty(), HeaderValue::from_str(text)) {
            headers.insert(name, value);
        }
    };
    add(super::super::once::KEY, filled.text("key"));
    add(header::IF_MATCH, filled.text("tag"));
    request
        .extensions_mut()
        .insert(Origin::Local(visit.caller.clone()));
    let api = TowerToHyperService::new(console.api.clone());
    let response = match api.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    match response.extensions().get::<Problem>() {
        Some(problem) => Err(problem.clone()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::answers::done_said;
    use super::*;

    fn path(parts: &[(&str, &str)]) -> HashMap<String, String> {
        let owned = |(name, part): &(&str, &str)| ((*name).to_owned(), (*part).to_owned());
        parts.iter().map(owned).collect()
    }

    #[test]
    fn a_path_means_one_change_or_none() {
        let of = |parts: &[(&str, &str)]| Action::of(&path(parts));
        assert_eq!(of(&[("what", "volume-create")]), Some(Action::CreateVolume));
        let lun = [("what", "lun-delete"), ("first", "v"), ("second", "l")];
        let delete = Action::DeleteLun("v".to_owned(), "l".to_owned());
        assert_eq!(of(&lun), Some(delete));
        for bad in [
            &[("what", "volume-create"), ("first", "v")][..],
            &[("what", "lun-delete"), ("first", "v")],
            &[("what", "job-cancel"), ("first", "x")],
            &[("what", "format-disk"), ("first", "v")],
        ] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn forms_become_requests() {
        let filled = Filled::parse(b"name=+l+&size=1.5GiB&disconnect=true&snapshot=now");
        let (volume, lun) = ("v".to_owned(), "l".to_owned());
        let asked = |action: Action| action.asked(&filled).expect("good");
        let create = asked(Action::CreateLun(volume.clone()));
        let body = json!({"name": "l", "size_bytes": 1_610_612_736_u64});
        assert_eq!((create.method, create.body), (Method::POST, Some(body)));
        let delete = asked(Action::DeleteLun(volume.clone(), lun.clone()));
        assert_eq!(delete.path, "/v1/volumes/v/luns/l?disconnect=true");
        assert_eq!(delete.next, "/jobs?done=deleted");
        let kept = Filled::parse(b"keeps=yes");
        let kept = Action::DeleteLun(volume.clone(), lun.clone()).asked(&kept);
        assert_eq!(kept.expect("good").next, "/trash?done=trashed");
        let purged = Filled::parse(b"keeps=yes&purge=true");
        let purged = Action::DeleteVolume(volume.clone()).asked(&purged);
        let purged = purged.expect("good");
        assert_eq!(purged.path, "/v1/volumes/v?purge=true");
        assert_eq!(purged.next, "/jobs?done=deleted");
        let clone = asked(Action::CloneLun(volume.clone(), lun));
        assert_eq!(clone.body, Some(json!({"name": "l"})));
        let bad = Action::CreateLun(volume).asked(&Filled::parse(b"name=l&size=big"));
        assert_eq!(bad.expect_err("no size").field.as_deref(), Some("size"));
    }

    #[test]
    fn every_change_has_words_for_its_end() {
        let filled = Filled::parse(b"name=n&size=1GiB");
        let two = || ("v".to_owned(), "n".to_owned());
        let of_two = [
            Action::ResizeLun,
            Action::LimitLun,
            Action::CloneLun,
            Action::DeleteLun,
            Action::Restore,
            Action::CloneVolume,
            Action::DeleteSnapshot,
        ];
        let of_one = [
            Action::ModifyVolume,
            Action::LimitVolume,
            Action::DeleteVolume,
            Action::CreateLun,
            Action::CreateSnapshot,
            Action::Undelete,
            Action::Purge,
            Action::Scrub,
        ];
        let mut all = vec![Action::CreateVolume, Action::CancelJob(1)];
        all.extend(of_two.map(|of: fn(String, String) -> Action| of(two().0, two().1)));
        all.extend(of_one.map(|of: fn(String) -> Action| of(two().0)));
        for action in all {
            let asked = action.asked(&filled).expect("good");
            let (_, word) = asked.next.split_once("?done=").expect("a word");
            assert!(done_said(word).is_some(), "{action:?}: {word}");
        }
    }
}
