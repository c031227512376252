//! Freeze: the moment that divides two consistency points (C-04), and the plan made right after it.
//!
//! The freeze runs inside the Aggregate affinity, so no client operation is under way, and only
//! swaps pointers: each dirty stripe's active overlay becomes its frozen one. Administrative
//! requests are executed here as well, so they are atomic with everything else and durable at
//! commit (docs/design/design.md §6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use everglade_affinity::Permit;
use everglade_format::{FileId, SPAN};
use everglade_journal::Position;

use crate::admin::{execute as admin, removal, trash as trashing};
use crate::background::turns;
use crate::change;
use crate::home::aggregate::Home;
use crate::home::ledger::Target;
use crate::home::run::{Job, Run};
use crate::pool::aggregate::State;
use crate::pool::overlay::Overlay;
use crate::pool::trash;
use crate::read::load::Stop;

/// Regions (level-1 blocks) that background passes work through in one consistency point: about a
/// GiB of data. `background::turns` shares them.
pub const RECLAIM_REGIONS: u64 = 1024;

/// Begins a consistency point. Returns what the affinity tree's owner must take out of it.
pub(crate) fn freeze(home: &mut Home, permit: &Permit, context: &mut change::Context<'_>) {
    assert!(home.run.is_none(), "one consistency point at a time");
    let number = home.aggregate.begin_cp();
    let position = match (home.replaying, &home.aggregate.log) {
        (Some(position), _) => position,
        (None, Some(log)) => log.freeze(),
        (None, None) => Position::FIRST,
    };
    let mut frozen = Vec::new();
    for volume in home.aggregate.kept_volumes() {
        let mut dirty = volume.dirty_stripes.load(Ordering::Acquire);
        volume.frozen_stripes.store(dirty, Ordering::Release);
        volume.dirty_stripes.store(0, Ordering::Release);
        while dirty != 0 {
            let index = dirty.trailing_zeros() as usize;
            dirty &= dirty - 1;
            let mut state = volume.stripes[index].get(permit);
            assert!(
                state.frozen.is_none(),
                "the last consistency point was published"
            );
            let overlay = Arc::new(std::mem::take(&mut state.active));
            state.frozen = Some(overlay.clone());
            drop(state);
            frozen.push((volume.clone(), index, overlay));
        }
    }
    removal::finish(home, number);
    let mut frees = trashing::make_room(home, permit, context);
    let mut active = BTreeSet::new();
    let requests = std::mem::take(&mut home.requests);
    let answers = requests
        .into_iter()
        .map(|request| {
            let answer = admin::execute(home, permit, context, number, &request.change);
            frees |= answer.is_ok() && request.change.is_deletion();
            if answer.is_ok() && request.change.shows_more() {
                home.aggregate.set_topology(number);
            }
            (request, answer)
        })
        .collect();
    let space = &home.aggregate.space;
    space.set_trash(trash::count(&home.aggregate));
    if frees {
        space.expect_frees();
    }
    active.extend(
        home.volumes
            .iter()
            .filter(|(_, v)| v.fs.is_changed() || v.is_new)
            .map(|(id, _)| *id),
    );
    home.ledger
        .begin(context.reclaim_regions, context.reclaim_budget);
    home.run = Some(Run {
        frees_log: home.replaying.is_none() && home.aggregate.log.is_some(),
        frozen,
        active,
        luns_together: context.luns_together,
        stage_blocks: context.stage_blocks,
        create_scan: context.create_scan,
        answers,
        last: home.aggregate.state() == State::Stopping,
        turn: home.turn.take(),
        removed: std::mem::take(&mut home.removed),
        ..Run::new(number, position)
    });
}

/// Sorts the changed regions by volume, LUN and place. LUNs deleted meanwhile are left out. Nothing
/// is written before what an interrupted commit left is in order.
pub(crate) fn plan(home: &mut Home) -> Result<(), Stop> {
    let run = home.run.as_mut().expect("under way");
    home.healing.submit(&mut run.writer);
    for (pvbn, page) in home.derived.drain(..) {
        run.writer.put(&home.aggregate.media, pvbn, page);
    }
    run.writer.finish(&home.aggregate.media)?;
    type Regions = Vec<(u64, Arc<Overlay>)>;
    let mut jobs: BTreeMap<(FileId, FileId), Regions> = BTreeMap::new();
    for (volume, _, overlay) in &run.frozen {
        let Some(known) = home.volumes.get(&volume.id) else {
            continue;
        };
        for (file, region) in overlay.regions.keys() {
            let is_hidden = known.fs.hidden.contains(*file);
            let is_there = known.fs.files.get(file).is_some_and(|found| {
                // Blocks beyond the end were cut off in the freeze.
                region * SPAN < found.inode.block_count()
            });
            if is_there && !is_hidden {
                jobs.entry((volume.id, *file))
                    .or_default()
                    .push((*region, overlay.clone()));
            }
        }
    }
    for ((volume, lun), mut regions) in jobs {
        regions.sort_unstable_by_key(|(region, _)| *region);
        run.active.insert(volume);
        run.plan.push_back(Job {
            volume,
            lun,
            regions: regions.into(),
        });
    }
    // Volumes that background passes have work for take part in every consistency point.
    let volumes = home.volumes.keys().copied();
    let due = volumes.filter(|id| turns::has_work_for(home, Target::Volume(*id)));
    let due: Vec<FileId> = due.collect();
    home.run.as_mut().expect("under way").active.extend(due);
    Ok(())
}
