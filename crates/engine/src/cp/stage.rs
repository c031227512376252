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
    let mut site = home.site(volume).0;
    let batch = site.stage.batch();
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
///
/// A step works on the first stage only, because loads of this step follow the trees of its volume
/// ([`Run::volume`](crate::home::run::Run::volume)).
pub(crate) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
    let run = home.run.as_mut().expect("under way");
    let Some(first) = run.stages.first_entry() else {
        return Ok(true);
    };
    if first.get().is_empty() {
        first.remove();
        return Ok(false);
    }
    let volume = *first.key();
    release_some(home, cx, volume).map(|()| false)
}

#[cfg(test)]
mod tests {
    use everglade_env::PageRef;

    use super::*;
    use crate::alloc::blocks::Purpose;
    use crate::cp::fixture::Scene;
    use crate::home::run::Phase;
    use crate::home::stage::Stage;

    /// The stage of the volume before it was empty, and loads followed the trees of that volume
    /// while blocks of the next one were released.
    #[test]
    fn blocks_are_released_only_while_the_trees_of_their_volume_are_followed() {
        let mut scene = Scene::new();
        let (home, volume) = (&mut scene.home, scene.volume);
        let mut site = home.site(volume).0;
        let ensured = scene.shelf.load(|cx| site.ensure(cx, Purpose::Data, 1)).0;
        ensured.expect("there is space");
        let block = site.take(Purpose::Data);
        site.enter(block, PageRef::zero());
        site.stage.let_go(block.vvbn);
        let run = home.under_way();
        run.phase = Phase::Stage;
        run.stages.insert(FileId(volume.0 - 1), Stage::default());
        let mut released_for = Vec::new();
        loop {
            let followed = home.under_way().volume();
            let used = home.volumes[&volume].fs.used;
            let is_done = scene.shelf.load(|cx| step(home, cx)).0;
            if home.volumes[&volume].fs.used < used {
                released_for.push(followed);
            }
            if is_done.expect("all is in memory") {
                break;
            }
        }
        assert_eq!(released_for, [Some(volume)]);
    }
}
