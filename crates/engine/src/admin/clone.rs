//! Beginning a clone.

use everglade_format::volume::CLONE_DEPTH_MAX;
use everglade_format::{CpNumber, FileId};

use crate::admin::volume::create_volume;
use crate::change::{Context, Error};
use crate::home::aggregate::Home;
use crate::home::find::{ensure_side_files, find, live};

/// Begins a clone in the freeze; [`crate::snapshot::clone::prepare`] gives it its image.
pub(crate) fn create(
    home: &mut Home,
    context: &mut Context<'_>,
    cp: CpNumber,
    name: &str,
    (parent, snapshot): (&str, &str),
) -> Result<(), Error> {
    let known = find(home, parent)?;
    let (parent_id, sync) = (known.shared.id, known.shared.sync());
    let base = (parent_id, live(known, snapshot)?);
    let above = |id: &FileId| {
        let (parent, _) = home.volumes.get(id)?.fs.snapshots.roots.base?;
        // A parent is older, so this ends.
        (parent < *id).then_some(parent)
    };
    if std::iter::successors(Some(parent_id), above).count() > CLONE_DEPTH_MAX {
        return Err(Error::Limit(format!(
            "{parent}@{snapshot} is the end of a chain of {CLONE_DEPTH_MAX} clones, the most there \
            can be"
        )));
    }
    create_volume(home, context, cp, name, sync)?;
    ensure_side_files(home, cp, context.seconds, name)?;
    let snapshots = &mut find(home, name)?.fs.snapshots;
    snapshots.roots.base = Some(base);
    snapshots.cloning = Some(base);
    snapshots.set_changed();
    Ok(())
}
