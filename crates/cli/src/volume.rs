//! `everglade volume …`.

use everglade_api::{
    CreateVolume, Luns, ModifyVolume, PutVolume, Rename, Size, Snapshot, Snapshots, Sync,
    TrashKind, Volume, Volumes,
};
use serde_json::json;

use crate::failure::{Failure, exit};
use crate::job;
use crate::listing::{self, Cell, Column, if_asked};
use crate::output::Output;
use crate::session::Session;
use crate::trash;
use crate::verb::{SyncOption, VolumeDelete, VolumeVerb};

const COLUMNS: [Column<Volume>; 12] = [
    Column::text("name", |volume| Cell::text(&volume.name)),
    Column::text("aggregate", |volume| Cell::text(&volume.aggregate)),
    Column::words("sync", "Sync", |volume| Cell::text(volume.sync)),
    Column::count("luns", |volume| Cell::Count(volume.lun_count)),
    Column::bytes("lun-sizes", |volume| Cell::Bytes(volume.logical_bytes)),
    Column::bytes("used", |volume| Cell::Bytes(volume.used_bytes)),
    Column::count("snapshots", |volume| Cell::Count(volume.snapshot_count)),
    Column::bytes("snap-own", |volume| {
        Cell::Bytes(volume.snapshot_exclusive_bytes)
    }),
    Column::text("clone-of", |volume| {
        volume.clone_of.as_ref().map_or(Cell::None, Cell::text)
    }),
    if_asked(Column::bytes("allocated", |volume| {
        Cell::Bytes(volume.allocated_bytes)
    })),
    if_asked(Column::text("policy", |volume| {
        Cell::text(&volume.snapshot_policy)
    })),
    if_asked(Column::text("comment", |volume| {
        match volume.comment.as_str() {
            "" => Cell::None,
            comment => Cell::text(comment),
        }
    })),
];

pub(crate) fn run(
    verb: &VolumeVerb,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<u8, Failure> {
    match verb {
        VolumeVerb::Create(create) => {
            let sync = sync_of(create.sync);
            let told = if create.if_missing {
                let request = PutVolume {
                    aggregate: create.aggregate.clone(),
                    sync: Some(sync),
                    snapshot_policy: create.snapshot_policy.clone(),
                    clone_of: None,
                };
                session.put::<Volume>(&format!("/v1/volumes/{}", create.name), &request)?
            } else {
                let request = CreateVolume {
                    name: create.name.clone(),
                    aggregate: create.aggregate.clone(),
                    sync: Some(sync),
                    snapshot_policy: create.snapshot_policy.clone(),
                    clone_of: None,
                };
                session.post::<Volume>("/v1/volumes", &request)?
            };
            output.made(&told.raw, || listing::of_one(&told.meant, &COLUMNS))?;
        }
        VolumeVerb::Show(show) => match &show.name {
            Some(name) => {
                let told = session.get::<Volume>(&format!("/v1/volumes/{name}"))?;
                listing::print_one(&told, &COLUMNS, &show.listing, output)?;
            }
            None => {
                let told = session.get::<Volumes>("/v1/volumes")?;
                let items = ("volumes", told.meant.volumes.as_slice());
                listing::print(&told, items, &COLUMNS, &show.listing, output)?;
            }
        },
        VolumeVerb::Modify(modify) => {
            let request = ModifyVolume {
                sync: modify.sync.map(sync_of),
                snapshot_policy: modify.snapshot_policy.clone(),
                comment: modify.comment.clone(),
            };
            let told =
                session.patch::<Volume>(&format!("/v1/volumes/{}", modify.name), &request)?;
            output.made(&told.raw, || listing::of_one(&told.meant, &COLUMNS))?;
        }
        VolumeVerb::Rename(rename) => {
            let path = format!("/v1/volumes/{}/actions/rename", rename.name);
            let name = rename.to.clone();
            let told = session.post::<Volume>(&path, &Rename { name })?;
            output.made(&told.raw, || listing::of_one(&told.meant, &COLUMNS))?;
        }
        VolumeVerb::Delete(delete) => {
            return remove(delete, session, output, yes);
        }
        VolumeVerb::Undelete(back) => {
            let to = back.to.as_ref();
            trash::undelete(session, output, TrashKind::Volume, &back.name, to)?;
        }
    }
    Ok(exit::OK)
}

fn sync_of(option: SyncOption) -> Sync {
    match option {
        SyncOption::Standard => Sync::Standard,
        SyncOption::Always => Sync::Always,
    }
}

fn remove(
    delete: &VolumeDelete,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<u8, Failure> {
    let VolumeDelete { name, removal, .. } = delete;
    let path = format!("/v1/volumes/{name}");
    if removal.dry_run || !yes {
        let volume = session.get::<Volume>(&path)?.meant;
        let snapshots = session.get::<Snapshots>(&format!("{path}/snapshots"))?;
        let obstacle = obstacle(&snapshots.meant.snapshots);
        let kept = trash::fate(session, delete.purge)?;
        if !removal.dry_run {
            let (what, obstacle) = (loss(&volume), obstacle.as_deref());
            let kept = kept.as_deref();
            return Err(Failure::not_confirmed_deletion(what, kept, obstacle));
        }
        let luns = session.get::<Luns>(&format!("{path}/luns"))?.meant.luns;
        let objects = json!({"volume": volume, "luns": luns});
        let (lost, in_trash) = trash::lost_and_kept(kept.as_deref(), objects);
        let raw = listing::versioned(json!({
            "would": "volume delete", "object": name.as_str(), "obstacle": obstacle,
            "lost": lost, "trash": in_trash,
        }));
        output.data(&raw, || {
            let fate = kept.as_deref().unwrap_or("be lost for good");
            let mut text = format!("{} would {fate}\n", loss(&volume));
            for lun in &luns {
                text.push_str(&format!(
                    "  LUN {}/{} ({})\n",
                    lun.volume,
                    lun.name,
                    Size(lun.size_bytes)
                ));
            }
            if let Some(obstacle) = &obstacle {
                text.push_str(&format!("  not now: {obstacle}\n"));
            }
            text
        })?;
        return Ok(exit::OK);
    }
    let (disconnect, purge) = (delete.disconnect, delete.purge);
    let query = format!("disconnect={disconnect}&purge={purge}");
    let job = session.delete(&format!("{path}?{query}"))?;
    let undelete = format!("everglade volume undelete {name}");
    output.done(&trash::told(
        &format!("deleted volume {name}"),
        &job.meant,
        &undelete,
    ));
    job::follow(session, output, job, removal.wait)
}

/// Returns the reason why the volume cannot be deleted now.
fn obstacle(snapshots: &[Snapshot]) -> Option<String> {
    let clones = snapshots.iter().flat_map(|it| {
        let of = it.clones.iter();
        of.map(move |clone| {
            format!(
                "{clone} is a clone of {}@{}, split or delete it first",
                it.volume, it.name
            )
        })
    });
    let held = snapshots.iter().filter(|it| !it.holds.is_empty());
    let held = held.map(|it| {
        format!(
            "{}@{} is held by {}, release the holds first",
            it.volume,
            it.name,
            it.holds.join(", ")
        )
    });
    let all: Vec<String> = clones.chain(held).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Describes the data lost with a volume.
fn loss(volume: &Volume) -> String {
    let luns = match volume.lun_count {
        0 if volume.snapshot_count == 0 => {
            return format!("volume {}, which is empty,", volume.name);
        }
        0 => "no LUNs".to_owned(),
        1 => "its LUN".to_owned(),
        count => format!("its {count} LUNs"),
    };
    let luns = match volume.snapshot_count {
        0 => luns,
        1 => format!("{luns} and its snapshot"),
        count => format!("{luns} and its {count} snapshots"),
    };
    let bytes = Size(volume.logical_bytes);
    format!("volume {} with {luns} ({bytes} in all)", volume.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_lost_is_said() {
        let volume = |lun_count| Volume {
            name: "v".to_owned(),
            aggregate: "a".to_owned(),
            sync: Sync::Standard,
            lun_count,
            logical_bytes: lun_count << 30,
            clone_of: None,
            used_bytes: 0,
            allocated_bytes: 0,
            pending_free_bytes: 0,
            snapshot_count: 0,
            snapshot_exclusive_bytes: 0,
            snapshot_policy: String::new(),
            comment: String::new(),
        };
        assert_eq!(loss(&volume(0)), "volume v, which is empty,");
        assert_eq!(loss(&volume(1)), "volume v with its LUN (1.0 GiB in all)");
        assert_eq!(
            loss(&volume(2)),
            "volume v with its 2 LUNs (2.0 GiB in all)"
        );
        let kept = Volume {
            snapshot_count: 3,
            ..volume(1)
        };
        assert_eq!(
            loss(&kept),
            "volume v with its LUN and its 3 snapshots (1.0 GiB in all)"
        );
    }
}
