//! `everglade snapshot …`.

use std::fmt::Write as _;

use everglade_api::{
    CreateSnapshot, HoldSnapshot, Name, NotAName, RenameSnapshot, RestoreSnapshot, Restored,
    SCHEMA_VERSION, Size, Snapshot, SnapshotName, Snapshots, TrashKind, Versioned, Volumes,
    counted,
};
use serde_json::json;

use crate::failure::{Failure, exit};
use crate::job;
use crate::listing::{self, Cell, Column, if_asked};
use crate::output::Output;
use crate::policy;
use crate::session::{Answer, Session};
use crate::trash;
use crate::verb::{SnapshotDelete, SnapshotHold, SnapshotRestore, SnapshotShow, SnapshotVerb};

const COLUMNS: [Column<Snapshot>; 13] = [
    Column::text("name", |it| {
        Cell::text(format!("{}@{}", it.volume, it.name))
    }),
    if_asked(Column::text("volume", |it| Cell::text(&it.volume))),
    Column::time("created", |it| Cell::text(&it.created)),
    Column::bytes("logical", |it| Cell::Bytes(it.logical_bytes)),
    Column::bytes("exclusive", |it| Cell::Bytes(it.exclusive_bytes)),
    Column::text("holds", |it| match holds_of(it).as_slice() {
        [] => Cell::None,
        holds => Cell::text(holds.join(",")),
    }),
    Column::flag("exported", |it| Cell::flag(it.is_exported)),
    if_asked(Column::bytes("pending-delete", |it| {
        Cell::Bytes(it.pending_delete_bytes)
    })),
    if_asked(Column::count("id", |it| Cell::Count(it.id))),
    if_asked(Column::text("parent", |it| {
        it.parent.as_ref().map_or(Cell::None, Cell::text)
    })),
    if_asked(Column::count("cp", |it| Cell::Count(it.consistency_point))),
    if_asked(Column::text("clones", |it| match it.clones.as_slice() {
        [] => Cell::None,
        clones => Cell::text(clones.join(",")),
    })),
    if_asked(Column::text("nbd-exports", |it| {
        match it.nbd_exports.as_slice() {
            [] => Cell::None,
            exports => Cell::text(exports.join(",")),
        }
    })),
];

pub(crate) fn run(
    verb: &SnapshotVerb,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<u8, Failure> {
    match verb {
        SnapshotVerb::Create(create) => {
            let told = if create.if_missing {
                session.put_nothing::<Snapshot>(&path_of(&create.name))?
            } else {
                let name = create.name.snapshot.clone();
                let request = CreateSnapshot { name };
                session.post::<Snapshot>(&collection(&create.name.volume), &request)?
            };
            made(&told, output)?;
        }
        SnapshotVerb::Show(show) => run_show(show, session, output)?,
        SnapshotVerb::Rename(rename) => {
            let name = rename.to.clone();
            let request = RenameSnapshot { name };
            made(
                &session.patch::<Snapshot>(&path_of(&rename.name), &request)?,
                output,
            )?;
        }
        SnapshotVerb::Delete(delete) => {
            return remove(delete, session, output, yes);
        }
        SnapshotVerb::Undelete(back) => {
            let to = back.to.as_ref();
            trash::undelete(session, output, TrashKind::Snapshot, &back.name, to)?;
        }
        SnapshotVerb::Scan(scan) => crate::scan::run(scan, session, output)?,
        SnapshotVerb::Diff(diff) => crate::diff::run(diff, session, output)?,
        SnapshotVerb::Restore(restore) => run_restore(restore, session, output, yes)?,
        SnapshotVerb::Hold(hold) => act("hold", hold, session, output)?,
        SnapshotVerb::Release(hold) => act("release", hold, session, output)?,
        SnapshotVerb::Policy { verb } => return policy::run(verb, session, output),
    }
    Ok(exit::OK)
}

/// Returns the reasons why a snapshot stays: the holds of people, and clones. No hold of people has
/// a colon.
fn holds_of(snapshot: &Snapshot) -> Vec<String> {
    let clones = snapshot.clones.iter();
    let clones = clones.map(|clone| format!("clone:{clone}"));
    let base = snapshot.is_clone_base.then(|| "clone:base".to_owned());
    snapshot
        .holds
        .iter()
        .cloned()
        .chain(clones)
        .chain(base)
        .collect()
}

fn made(told: &Answer<Snapshot>, output: &Output) -> Result<(), Failure> {
    output.made(&told.raw, || listing::of_one(&told.meant, &COLUMNS))
}

fn act(
    action: &str,
    hold: &SnapshotHold,
    session: &Session,
    output: &Output,
) -> Result<(), Failure> {
    let request = HoldSnapshot {
        tag: hold.tag.clone(),
    };
    let path = format!("{}/actions/{action}", path_of(&hold.name));
    made(&session.post::<Snapshot>(&path, &request)?, output)
}

fn run_show(show: &SnapshotShow, session: &Session, output: &Output) -> Result<(), Failure> {
    let usage = |error: NotAName| Failure::new(exit::USAGE, error.to_string());
    let told = match show.name.as_deref() {
        Some(name) if name.contains('@') => {
            let name: SnapshotName = name.parse().map_err(usage)?;
            let told = session.get::<Snapshot>(&path_of(&name))?;
            return listing::print_one(&told, &COLUMNS, &show.listing, output);
        }
        Some(volume) => {
            let volume: Name = volume.parse().map_err(usage)?;
            session.get::<Snapshots>(&collection(&volume))?
        }
        None => everywhere(session)?,
    };
    let items = ("snapshots", told.meant.snapshots.as_slice());
    listing::print(&told, items, &COLUMNS, &show.listing, output)
}

/// The snapshots of all volumes. A volume that goes meanwhile takes its snapshots with it.
fn everywhere(session: &Session) -> Result<Answer<Snapshots>, Failure> {
    let mut snapshots = Vec::new();
    for volume in session.get::<Volumes>("/v1/volumes")?.meant.volumes {
        match session.get::<Snapshots>(&format!("/v1/volumes/{}/snapshots", volume.name)) {
            Ok(told) => snapshots.extend(told.meant.snapshots),
            Err(failure) if failure.code == exit::NOT_FOUND => {}
            Err(failure) => return Err(failure),
        }
    }
    let meant = Snapshots { snapshots };
    let raw = json!(Versioned {
        schema_version: SCHEMA_VERSION,
        body: &meant,
    });
    Ok(Answer { raw, meant })
}

fn remove(
    delete: &SnapshotDelete,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<u8, Failure> {
    let SnapshotDelete { name, removal, .. } = delete;
    let path = path_of(name);
    if removal.dry_run || !yes {
        let snapshot = session.get::<Snapshot>(&path)?.meant;
        let what = loss(&snapshot);
        let obstacle = obstacle(&snapshot);
        let kept = trash::fate(session, delete.purge)?;
        if !removal.dry_run {
            let (kept, obstacle) = (kept.as_deref(), obstacle.as_deref());
            return Err(Failure::not_confirmed_deletion(what, kept, obstacle));
        }
        let frees = match kept {
            None => snapshot.exclusive_bytes,
            Some(_) => 0,
        };
        let object = json!({"snapshot": snapshot});
        let (lost, in_trash) = trash::lost_and_kept(kept.as_deref(), object);
        let raw = listing::versioned(json!({
            "would": "snapshot delete", "object": name.to_string(),
            "frees_bytes": frees, "obstacle": obstacle, "lost": lost, "trash": in_trash,
        }));
        output.data(&raw, || {
            let fate = kept.as_deref().unwrap_or("be lost for good");
            let mut text = format!("{what} would {fate}\n");
            if let Some(obstacle) = &obstacle {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "  not now: {obstacle}");
            }
            text
        })?;
        return Ok(exit::OK);
    }
    let job = session.delete(&format!("{path}?purge={}", delete.purge))?;
    let undelete = format!("everglade snapshot undelete {name}");
    output.done(&trash::told(
        &format!("deleted snapshot {name}"),
        &job.meant,
        &undelete,
    ));
    job::follow(session, output, job, removal.wait)
}

/// Describes the data lost with a snapshot.
fn loss(snapshot: &Snapshot) -> String {
    format!(
        "snapshot {}@{} of {} ({} that nothing else holds)",
        snapshot.volume,
        snapshot.name,
        snapshot.created,
        Size(snapshot.exclusive_bytes)
    )
}

/// Returns the reason why the snapshot cannot be deleted now.
fn obstacle(snapshot: &Snapshot) -> Option<String> {
    match snapshot.holds.as_slice() {
        [] if snapshot.is_exported => {
            Some("it is exported to a client, disconnect the client first".to_owned())
        }
        [] if snapshot.is_clone_base => {
            Some("the volume is a clone of it: split the volume first, or delete it".to_owned())
        }
        [] if !snapshot.clones.is_empty() => {
            let clones = snapshot.clones.join(", ");
            let remedy = snapshot.remedy_of_clones();
            Some(format!("it is the base of {clones}, {remedy}"))
        }
        [] => None,
        holds => Some(format!(
            "it is held by {}, release the holds first",
            holds.join(", ")
        )),
    }
}

fn run_restore(
    restore: &SnapshotRestore,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<(), Failure> {
    let path = format!("{}/actions/restore", path_of(&restore.name));
    let request = |dry_run| RestoreSnapshot {
        safety_snapshot: restore.safety_snapshot.clone(),
        lun: restore.lun.clone(),
        discard_newer: restore.discard_newer,
        dry_run,
    };
    if restore.dry_run || (restore.discard_newer && !yes) {
        let told = session.post::<Restored>(&path, &request(true))?;
        if restore.dry_run {
            return output.data(&told.raw, || describe(&told.meant));
        }
        let newer = match told.meant.discarded.len() as u64 {
            0 => String::new(),
            count => format!(" and {}", counted(count, "newer snapshot")),
        };
        return Err(Failure::not_confirmed(format!(
            "the active image of volume {}{newer}",
            told.meant.volume
        )));
    }
    let told = session.post::<Restored>(&path, &request(false))?;
    output.made(&told.raw, || describe(&told.meant))
}

/// Describes the result, or the plan, of a restore.
fn describe(restored: &Restored) -> String {
    let (volume, snapshot) = (&restored.volume, &restored.snapshot);
    let what = match &restored.lun {
        None => format!("volume {volume}"),
        Some(lun) => format!("LUN {volume}/{lun}"),
    };
    let mut text = if restored.dry_run {
        format!("{what} would become what it was at {volume}@{snapshot}\n")
    } else {
        format!("{what} is what it was at {volume}@{snapshot}\n")
    };
    // Writing to a String cannot fail.
    let _ = match (&restored.safety_snapshot, restored.dry_run) {
        (Some(safety), true) => writeln!(
            text,
            "  what is active now would stay as {volume}@{safety}; nothing would be lost"
        ),
        (Some(safety), false) => {
            writeln!(
                text,
                "  what was active is {volume}@{safety}; nothing is lost"
            )
        }
        (None, true) => writeln!(text, "  what is active now would be lost for good"),
        (None, false) => writeln!(text, "  what was active is lost"),
    };
    for snapshot in &restored.discarded {
        let would = if restored.dry_run {
            "would be lost for good"
        } else {
            "is deleted"
        };
        let _ = writeln!(text, "  {} {would}", loss(snapshot));
    }
    text
}

fn collection(volume: &Name) -> String {
    format!("/v1/volumes/{volume}/snapshots")
}

fn path_of(name: &SnapshotName) -> String {
    format!("/v1/volumes/{}/snapshots/{}", name.volume, name.snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(name: &str) -> Snapshot {
        Snapshot {
            name: name.to_owned(),
            volume: "v".to_owned(),
            object: format!("v@{name}"),
            id: 1,
            parent: None,
            created: "2026-11-22T03:00:00Z".to_owned(),
            consistency_point: 7,
            logical_bytes: 1 << 30,
            exclusive_bytes: 1 << 20,
            pending_delete_bytes: 0,
            holds: Vec::new(),
            is_exported: false,
            nbd_exports: Vec::new(),
            clones: Vec::new(),
            is_clone_base: false,
            taken: None,
        }
    }

    #[test]
    fn a_restore_says_where_what_was_active_is_and_what_is_lost() {
        let mut restored = Restored {
            volume: "v".to_owned(),
            snapshot: "s".to_owned(),
            lun: None,
            dry_run: true,
            safety_snapshot: Some("before".to_owned()),
            discarded: Vec::new(),
            taken: None,
        };
        assert!(describe(&restored).contains("would stay as v@before; nothing would be lost"));
        restored.lun = Some("l".to_owned());
        assert!(describe(&restored).contains("LUN v/l would become what it was at v@s"));
        restored.lun = None;
        restored.safety_snapshot = None;
        restored.discarded.push(snapshot("newer"));
        let text = describe(&restored);
        assert!(text.contains("what is active now would be lost"), "{text}");
        assert!(
            text.contains(
                "snapshot v@newer of 2026-11-22T03:00:00Z (1.0 MiB that nothing else \
                holds) would be lost"
            ),
            "{text}"
        );
        restored.dry_run = false;
        assert!(!describe(&restored).contains("would"));
    }

    #[test]
    fn an_obstacle_is_named() {
        let mut found = snapshot("s");
        assert_eq!(obstacle(&found), None);
        found.is_exported = true;
        assert!(obstacle(&found).expect("one").contains("exported"));
        found.holds.push("backup".to_owned());
        assert!(obstacle(&found).expect("one").contains("held by backup"));
        let mut base = snapshot("s");
        base.clones.push("c".to_owned());
        assert!(obstacle(&base).expect("one").contains("base of c"));
        assert_eq!(holds_of(&base), ["clone:c"]);
        base.holds.push("backup".to_owned());
        base.is_clone_base = true;
        assert_eq!(holds_of(&base), ["backup", "clone:c", "clone:base"]);
    }
}
