//! Renaming aggregates, volumes and LUNs. A rename is executed in the freeze, and is durable at the
//! commit.
//!
//! Files are known by their ids: overlays, the journal, trees, snapshots and clones do not use
//! their names. So a rename changes one entry of a directory, in its slot, or the aggregate's name
//! in the superblock. In memory it changes the maps that look-ups use.
//!
//! 1. Clients that have a LUN open keep it: their handle does not depend on the name. From the
//!    freeze on the old name is not found.
//! 2. If power fails at any write, the directory has either the old name or the new one, and
//!    nothing else differs: the directory block is committed with the superblock.
//! 3. Snapshots of a volume keep the names that its LUNs had; a restore brings these names back,
//!    also for clients that have the LUN open.

use crate::background::lun_clone;
use crate::change::{Context, Error};
use crate::home::aggregate::Home;
use crate::home::find::{check_name, find, find_lun};

pub(crate) fn aggregate(home: &mut Home, to: &str) -> Result<(), Error> {
    check_name(to)?;
    home.aggregate.name.set(to);
    Ok(())
}

pub(crate) fn volume(
    home: &mut Home,
    context: &mut Context<'_>,
    name: &str,
    to: &str,
) -> Result<(), Error> {
    check_name(to)?;
    let volume = find(home, name)?.shared.clone();
    if name == to {
        return Ok(());
    }
    let mut names = context.names.lock();
    if names.contains_key(to) {
        return Err(Error::Exists(format!("volume {to}")));
    }
    names.remove(name);
    names.insert(to.to_owned(), home.aggregate.id);
    drop(names);
    let mut volumes = home.aggregate.volumes.write();
    volumes.remove(name);
    volume.name.set(to);
    let id = volume.id;
    volumes.insert(to.to_owned(), volume);
    drop(volumes);
    home.fs.directory.rename(id, to);
    Ok(())
}

pub(crate) fn lun(home: &mut Home, volume: &str, name: &str, to: &str) -> Result<(), Error> {
    check_name(to)?;
    let (volume, lun) = find_lun(home, volume, name)?;
    if name == to {
        return Ok(());
    }
    lun_clone::check_free(volume, to)?;
    let mut luns = volume.shared.luns.write();
    if luns.contains_key(to) {
        return Err(Error::Exists(format!("LUN {}/{to}", volume.shared.name)));
    }
    luns.remove(name);
    lun.name.set(to);
    luns.insert(to.to_owned(), lun.clone());
    drop(luns);
    volume.fs.directory.rename(lun.file, to);
    Ok(())
}
