//! `everglade lun …`.

use everglade_api::{
    CreateLun, Lun, LunName, Luns, Name, ResizeLun, SCHEMA_VERSION, Size, Versioned, Volumes,
};
use serde_json::json;

use crate::failure::{Failure, exit};
use crate::output::{Output, size};
use crate::session::{Session, Told};
use crate::table::{Align, Table};
use crate::verb::{LunShow, LunVerb};

pub(crate) fn run(
    verb: &LunVerb,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<u8, Failure> {
    match verb {
        LunVerb::Create(create) => {
            let request = CreateLun {
                name: create.name.lun.clone(),
                size_bytes: create.size.bytes(),
            };
            let told = session.post::<Lun>(&collection(&create.name.volume), &request)?;
            output.made(&told.raw, || table(&[told.meant], false))?;
        }
        LunVerb::Show(show) => run_show(show, session, output)?,
        LunVerb::Resize(resize) => {
            let request = ResizeLun {
                size_bytes: resize.size.bytes(),
            };
            let told = session.patch::<Lun>(&place(&resize.name), &request)?;
            output.made(&told.raw, || table(&[told.meant], false))?;
        }
        LunVerb::Delete(delete) => {
            let path = place(&delete.name);
            if !yes {
                let lun = session.get::<Lun>(&path)?.meant;
                let what = format!("LUN {} ({})", delete.name, Size(lun.size_bytes));
                return Err(Failure::not_confirmed(what));
            }
            session.delete(&path)?;
            output.done(&format!("deleted LUN {}", delete.name));
        }
    }
    Ok(exit::OK)
}

fn run_show(show: &LunShow, session: &Session, output: &Output) -> Result<(), Failure> {
    let usage = |error: everglade_api::NotAName| Failure::new(exit::USAGE, error.to_string());
    let told = match show.name.as_deref() {
        Some(name) if name.contains('/') => {
            let name: LunName = name.parse().map_err(usage)?;
            let told = session.get::<Lun>(&place(&name))?;
            return output.data(&told.raw, || table(&[told.meant], show.exact));
        }
        Some(volume) => {
            let volume: Name = volume.parse().map_err(usage)?;
            session.get::<Luns>(&collection(&volume))?
        }
        None => everywhere(session)?,
    };
    output.data(&told.raw, || table(&told.meant.luns, show.exact))
}

/// The LUNs of all volumes. A volume that goes meanwhile takes its LUNs with it.
fn everywhere(session: &Session) -> Result<Told<Luns>, Failure> {
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
    Ok(Told { raw, meant })
}

fn collection(volume: &Name) -> String {
    format!("/v1/volumes/{volume}/luns")
}

fn place(name: &LunName) -> String {
    format!("/v1/volumes/{}/luns/{}", name.volume, name.lun)
}

fn table(luns: &[Lun], exact: bool) -> String {
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("SIZE", Align::Right),
        ("NBD", Align::Left),
    ]);
    for lun in luns {
        table.row([
            format!("{}/{}", lun.volume, lun.name),
            size(lun.size_bytes, exact),
            lun.nbd_uri.clone().unwrap_or_else(|| "off".to_owned()),
        ]);
    }
    table.text()
}
