//! `everglade volume …`.

use everglade_api::{CreateVolume, Size, Sync, Volume, Volumes};

use crate::failure::{Failure, exit};
use crate::output::{Output, size};
use crate::session::Session;
use crate::table::{Align, Table};
use crate::verb::{SyncOption, VolumeVerb};

pub(crate) fn run(
    verb: &VolumeVerb,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<u8, Failure> {
    match verb {
        VolumeVerb::Create(create) => {
            let request = CreateVolume {
                name: create.name.clone(),
                aggregate: create.aggregate.clone(),
                sync: match create.sync {
                    SyncOption::Standard => Sync::Standard,
                    SyncOption::Always => Sync::Always,
                },
            };
            let told = session.post::<Volume>("/v1/volumes", &request)?;
            output.made(&told.raw, || table(&[told.meant], false))?;
        }
        VolumeVerb::Show(show) => match &show.name {
            Some(name) => {
                let told = session.get::<Volume>(&format!("/v1/volumes/{name}"))?;
                output.data(&told.raw, || table(&[told.meant], show.exact))?;
            }
            None => {
                let told = session.get::<Volumes>("/v1/volumes")?;
                output.data(&told.raw, || table(&told.meant.volumes, show.exact))?;
            }
        },
        VolumeVerb::Delete(delete) => {
            let path = format!("/v1/volumes/{}", delete.name);
            if !yes {
                let volume = session.get::<Volume>(&path)?.meant;
                return Err(Failure::not_confirmed(loss(&volume)));
            }
            session.delete(&path)?;
            output.done(&format!("deleted volume {}", delete.name));
        }
    }
    Ok(exit::OK)
}

/// What goes with a volume.
fn loss(volume: &Volume) -> String {
    let luns = match volume.lun_count {
        0 => return format!("volume {}, which is empty,", volume.name),
        1 => "its LUN".to_owned(),
        count => format!("its {count} LUNs"),
    };
    let bytes = Size(volume.logical_bytes);
    format!("volume {} with {luns} ({bytes} in all)", volume.name)
}

fn table(volumes: &[Volume], exact: bool) -> String {
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("AGGREGATE", Align::Left),
        ("SYNC", Align::Left),
        ("LUNS", Align::Right),
        ("LUN SIZES", Align::Right),
    ]);
    for volume in volumes {
        table.row([
            volume.name.clone(),
            volume.aggregate.clone(),
            volume.sync.to_string(),
            volume.lun_count.to_string(),
            size(volume.logical_bytes, exact),
        ]);
    }
    table.text()
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
        };
        assert_eq!(loss(&volume(0)), "volume v, which is empty,");
        assert_eq!(loss(&volume(1)), "volume v with its LUN (1.0 GiB in all)");
        assert_eq!(
            loss(&volume(2)),
            "volume v with its 2 LUNs (2.0 GiB in all)"
        );
    }
}
