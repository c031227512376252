//! `everglade lun …`.

use everglade_api::{
    CloneLun, CreateLun, Job, Lun, LunName, Luns, Name, PutLun, Rename, ResizeLun, SCHEMA_VERSION,
    Size, TrashKind, Versioned, Volumes,
};
use serde_json::json;

use crate::failure::{Failure, exit};
use crate::job;
use crate::listing::{self, Cell, Column, if_asked};
use crate::output::Output;
use crate::session::{Answer, Session};
use crate::trash;
use crate::verb::{LunClone, LunCreate, LunDelete, LunResize, LunShow, LunVerb};

const COLUMNS: [Column<Lun>; 8] = [
    Column::text("name", |lun| {
        Cell::text(format!("{}/{}", lun.volume, lun.name))
    }),
    if_asked(Column::text("volume", |lun| Cell::text(&lun.volume))),
    Column::bytes("size", |lun| Cell::Bytes(lun.size_bytes)),
    Column::bytes("used", |lun| Cell::Bytes(lun.used_bytes)),
    Column::text("nbd", |lun| {
        Cell::text(lun.nbd_uri.as_deref().unwrap_or("off"))
    }),
    if_asked(Column::text("uuid", |lun| Cell::text(&lun.uuid))),
    if_asked(Column::text("iscsi", |lun| {
        Cell::text(lun.iscsi_target.as_deref().unwrap_or("off"))
    })),
    if_asked(Column::text("nvme", |lun| {
        Cell::text(lun.nvme_subsystem.as_deref().unwrap_or("off"))
    })),
];

pub(crate) fn run(
    verb: &LunVerb,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<u8, Failure> {
    match verb {
        LunVerb::Create(create) => run_create(create, session, output)?,
        LunVerb::Show(show) => run_show(show, session, output)?,
        LunVerb::Resize(resize) => run_resize(resize, session, output, yes)?,
        LunVerb::Rename(rename) => {
            let path = format!("{}/actions/rename", path_of(&rename.name));
            let name = rename.to.clone();
            let told = session.post::<Lun>(&path, &Rename { name })?;
            output.made(&told.raw, || listing::of_one(&told.meant, &COLUMNS))?;
        }
        LunVerb::Clone(clone) => return run_clone(clone, session, output),
        LunVerb::Delete(delete) => {
            return remove(delete, session, output, yes);
        }
        LunVerb::Undelete(back) => {
            let to = back.to.as_ref();
            trash::undelete(session, output, TrashKind::Lun, &back.name, to)?;
        }
    }
    Ok(exit::OK)
}

fn run_create(create: &LunCreate, session: &Session, output: &Output) -> Result<(), Failure> {
    let size_bytes = create.size.bytes();
    let told = if create.if_missing {
        session.put::<Lun>(&path_of(&create.name), &PutLun { size_bytes })?
    } else {
        let request = CreateLun {
            name: create.name.lun.clone(),
            size_bytes,
        };
        session.post::<Lun>(&collection(&create.name.volume), &request)?
    };
    output.made(&told.raw, || listing::of_one(&told.meant, &COLUMNS))
}

fn run_clone(clone: &LunClone, session: &Session, output: &Output) -> Result<u8, Failure> {
    let (name, to) = (&clone.name, &clone.to);
    let elsewhere = |what: &str, volume: &Name| {
        let text = format!(
            "{what} is in volume {volume}, and {name} in {}; a LUN is cloned inside its volume, \
            and 'clone create' clones a volume",
            name.volume
        );
        Err(Failure::new(exit::USAGE, text))
    };
    if to.volume != name.volume {
        return elsewhere(&to.to_string(), &to.volume);
    }
    if let Some(from) = &clone.from
        && from.volume != name.volume
    {
        return elsewhere(&from.to_string(), &from.volume);
    }
    let request = CloneLun {
        name: to.lun.clone(),
        snapshot: clone.from.as_ref().map(|from| from.snapshot.clone()),
    };
    let path = format!("{}/actions/clone", path_of(name));
    let told = session.post::<Job>(&path, &request)?;
    output.done(&format!("cloning LUN {name} as {to}"));
    job::follow_work(session, output, told, clone.wait, "makes the clone")
}

fn run_resize(
    resize: &LunResize,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<(), Failure> {
    let (path, size_bytes) = (path_of(&resize.name), resize.size.bytes());
    if resize.dry_run {
        let lun = session.get::<Lun>(&path)?.meant;
        let lost = lun.size_bytes.saturating_sub(size_bytes);
        let raw = listing::versioned(json!({
            "would": "lun resize", "object": resize.name.to_string(),
            "size_bytes": lun.size_bytes, "new_size_bytes": size_bytes, "lost_bytes": lost,
        }));
        return output.data(&raw, || {
            let (from, to) = (Size(lun.size_bytes), Size(size_bytes));
            match lost {
                0 => format!(
                    "{} would grow from {from} to {to}; nothing is lost\n",
                    resize.name
                ),
                _ => format!(
                    "{} would shrink from {from} to {to}; what lies in its last {} would be lost \
                    for good\n\
                    it needs --yes; shrink the file system or partition in it first\n",
                    resize.name,
                    Size(lost)
                ),
            }
        });
    }
    let request = ResizeLun {
        size_bytes,
        discard_beyond: yes,
    };
    let told = session.patch::<Lun>(&path, &request)?;
    output.made(&told.raw, || listing::of_one(&told.meant, &COLUMNS))
}

fn remove(
    delete: &LunDelete,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<u8, Failure> {
    let LunDelete { name, removal, .. } = delete;
    let path = path_of(name);
    if removal.dry_run || !yes {
        let lun = session.get::<Lun>(&path)?.meant;
        let what = format!("LUN {name} ({})", Size(lun.size_bytes));
        let kept = trash::fate(session, delete.purge)?;
        if !removal.dry_run {
            return Err(Failure::not_confirmed_deletion(what, kept.as_deref(), None));
        }
        let (lost, in_trash) = trash::lost_and_kept(kept.as_deref(), json!({"lun": lun}));
        let raw = listing::versioned(json!({
            "would": "lun delete", "object": name.to_string(), "lost": lost, "trash": in_trash,
        }));
        output.data(&raw, || match &kept {
            None => format!("{what} would be lost for good\n"),
            Some(kept) => format!("{what} would {kept}\n"),
        })?;
        return Ok(exit::OK);
    }
    let (disconnect, purge) = (delete.disconnect, delete.purge);
    let query = format!("disconnect={disconnect}&purge={purge}");
    let job = session.delete(&format!("{path}?{query}"))?;
    let undelete = format!("everglade lun undelete {name}");
    output.done(&trash::told(
        &format!("deleted LUN {name}"),
        &job.meant,
        &undelete,
    ));
    job::follow(session, output, job, removal.wait)
}

fn run_show(show: &LunShow, session: &Session, output: &Output) -> Result<(), Failure> {
    let usage = |error: everglade_api::NotAName| Failure::new(exit::USAGE, error.to_string());
    let told = match show.name.as_deref() {
        Some(name) if name.contains('/') => {
            let name: LunName = name.parse().map_err(usage)?;
            let told = session.get::<Lun>(&path_of(&name))?;
            return listing::print_one(&told, &COLUMNS, &show.listing, output);
        }
        Some(volume) => {
            let volume: Name = volume.parse().map_err(usage)?;
            session.get::<Luns>(&collection(&volume))?
        }
        None => everywhere(session)?,
    };
    let items = ("luns", told.meant.luns.as_slice());
    listing::print(&told, items, &COLUMNS, &show.listing, output)
}

/// The LUNs of all volumes. A volume that goes meanwhile takes its LUNs with it.
fn everywhere(session: &Session) -> Result<Answer<Luns>, Failure> {
    let mut luns = Vec::new();
    for volume in session.get::<Volumes>("/v1/volumes")?.meant.volumes {
        match session.get::<Luns>(&format!("/v1/volumes/{}/luns", volume.name)) {
            Ok(told) => luns.extend(told.meant.luns),
            Err(failure) if failure.code == exit::NOT_FOUND => {}
            Err(failure) => return Err(failure),
        }
    }
    let meant = Luns { luns };
    let raw = json!(Versioned {
        schema_version: SCHEMA_VERSION,
        body: &meant,
    });
    Ok(Answer { raw, meant })
}

fn collection(volume: &Name) -> String {
    format!("/v1/volumes/{volume}/luns")
}

pub(crate) fn path_of(name: &LunName) -> String {
    format!("/v1/volumes/{}/luns/{}", name.volume, name.lun)
}
