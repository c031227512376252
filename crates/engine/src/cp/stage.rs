//! Stages are emptied: the maps, the containers and the aggregate learn what was let go (D-10).

use everglade_format::FileId;

use crate::home::aggregate::Home;
use crate::read::load::{Gather, LoadCx, Stop};

/// Releases a batch of what cleaning has let go of a volume.
pub(crate) fn release_some(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    volume: FileId,
) -> Result<(), Stop> {
    let run = home.run.as_mut().expect("under way");
    let Some(stage) = run.stages.get_mut(&volume) else {
        return Ok(());
    };
    let batch = stage.batch();
    let mut site = home.site(volume).0;
    let mut gather = Gather::default();
    for vvbn in &batch {
        gather.add(site.prepare_release(cx, *vvbn));
    }
    gather.finish()?;
    for vvbn in &batch {
        site.release(*vvbn);
    }
    site.stage.released(&batch);
    Ok(())
}

/// Releases the next batch of what is left when everything is clean. True when nothing is.
pub(crate) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
    let run = home.run.as_mut().expect("under way");
    run.stages.retain(|_, stage| !stage.is_empty());
    match run.stages.keys().next().copied() {
        Some(volume) => release_some(home, cx, volume).map(|()| false),
        None => Ok(true),
    }
}
