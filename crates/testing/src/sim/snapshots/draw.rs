//! The next request: drawn from a seed, and always an allowed one.

use everglade_engine::admin::Change;

use super::{BLOCK, LUN_BLOCKS_MAX, LUNS_MAX, SNAPSHOTS_MAX, State, Step};
use crate::Rng;
use crate::sim::asker::Lun;
use crate::workload::contents;

/// Returns the LUNs of a snapshot that can be restored under their names: deleted LUNs whose names
/// are free, and existing LUNs of the same name.
pub(in super::super) fn restorable(state: &State, snapshot: &str) -> Vec<String> {
    let is_free = |(name, then): &(&String, &Lun)| {
        let now = state
            .active
            .iter()
            .find(|(_, now)| now.number == then.number);
        match now {
            Some((now, _)) => now == *name,
            None => !state.active.contains_key(*name),
        }
    };
    let luns = state.snapshots[snapshot].iter().filter(is_free);
    luns.map(|(name, _)| name.clone()).collect()
}

/// Draws the next thing to do.
pub(in super::super) fn draw(rng: &mut Rng, state: &State, number: u64, clones: bool) -> Step {
    let volume = state.volume().to_owned();
    let luns: Vec<&String> = state.active.keys().collect();
    let snapshots: Vec<&String> = state.snapshots.keys().collect();
    let held = |name: &String| state.is_held(name);
    if clones
        && rng.one_in(12)
        && let Some(step) = draw_clone(rng, state, number)
    {
        return step;
    }
    let change = match rng.below(100) {
        0..50 if !luns.is_empty() => {
            let lun = luns[rng.index(luns.len())].clone();
            let blocks = state.active[&lun].blocks;
            let first = rng.below(blocks);
            let count = [1, 1, 8, 256][rng.index(4)].min(blocks - first);
            return Step::Write(lun, first, count, rng.draw() >> 8);
        }
        50..56 if !luns.is_empty() => {
            let lun = luns[rng.index(luns.len())].clone();
            let blocks = state.active[&lun].blocks;
            let first = rng.below(blocks);
            return Step::Discard(lun, first, (1 + rng.below(600)).min(blocks - first));
        }
        56..58 if !luns.is_empty() => return Step::Flush(luns[rng.index(luns.len())].clone()),
        58..61 => return Step::ConsistencyPoint,
        61..64 => return Step::Rest(1 + rng.below(400_000_000)),
        64..66 => return Step::Look,
        66..69 if luns.len() < 3 => Change::CreateLun {
            volume,
            name: format!("l{number}"),
            size_bytes: (1 + rng.below(LUN_BLOCKS_MAX)) * BLOCK,
        },
        69..70 if luns.len() > 1 => Change::DeleteLun {
            volume,
            name: luns[rng.index(luns.len())].clone(),
        },
        70..71 if !luns.is_empty() => {
            let name = luns[rng.index(luns.len())].clone();
            let blocks = state.active[&name].blocks;
            if blocks > 1 && rng.one_in(2) {
                let size_bytes = (1 + rng.below(blocks - 1)) * BLOCK;
                Change::ShrinkLun {
                    volume,
                    name,
                    size_bytes,
                }
            } else {
                let size_bytes = (blocks + rng.below(500)) * BLOCK;
                Change::GrowLun {
                    volume,
                    name,
                    size_bytes,
                }
            }
        }
        71..84 if snapshots.len() < SNAPSHOTS_MAX => Change::CreateSnapshot {
            volume,
            name: format!("s{number}"),
        },
        84..93 if !snapshots.is_empty() => {
            let name = snapshots[rng.index(snapshots.len())].clone();
            match held(&name) {
                true => Change::ReleaseSnapshot {
                    tag: state.holds[&name][0].clone(),
                    volume,
                    name,
                },
                false => Change::DeleteSnapshot { volume, name },
            }
        }
        93..97 if !snapshots.is_empty() && snapshots.len() < SNAPSHOTS_MAX => {
            let snapshot = snapshots[rng.index(snapshots.len())].clone();
            let safety = format!("r{number}");
            let luns = restorable(state, &snapshot);
            let discards = state.newer(&snapshot);
            if rng.one_in(4) && !discards.iter().any(held) {
                Change::RollBackVolume {
                    volume,
                    snapshot,
                    discards,
                }
            } else if rng.one_in(2) && !luns.is_empty() {
                Change::RestoreLun {
                    volume,
                    snapshot,
                    lun: luns[rng.index(luns.len())].clone(),
                    safety,
                }
            } else {
                Change::RestoreVolume {
                    volume,
                    snapshot,
                    safety,
                }
            }
        }
        97..98 if !snapshots.is_empty() => Change::RenameSnapshot {
            volume,
            name: snapshots[rng.index(snapshots.len())].clone(),
            to: format!("n{number}"),
        },
        98..99 if !snapshots.is_empty() => Change::HoldSnapshot {
            volume,
            name: snapshots[rng.index(snapshots.len())].clone(),
            tag: format!("h{number}"),
        },
        99..100 if rng.below(2) == 0 => Change::SetScanPace {
            volume,
            percent: [0, 1, 50, 100, 100][rng.index(5)],
        },
        _ => {
            let to = format!("x{number}");
            match rng.below(5) {
                0 if number.is_multiple_of(2) => notes(number),
                0 => return Step::Rest(1_000_000),
                1 => Change::RenameAggregate { to },
                2 => Change::RenameVolume { name: volume, to },
                _ if luns.is_empty() => return Step::Rest(1_000_000),
                _ => Change::RenameLun {
                    volume,
                    name: luns[rng.index(luns.len())].clone(),
                    to,
                },
            }
        }
    };
    Step::Change(change)
}

/// Begins a clone, or does something about the one that is being made.
fn draw_clone(rng: &mut Rng, state: &State, number: u64) -> Option<Step> {
    let volume = state.volume().to_owned();
    if let Some(cloning) = &state.cloning {
        return match rng.below(4) {
            0 => Some(Step::Change(Change::CancelLunClone {
                volume,
                name: cloning.name.clone(),
            })),
            _ => Some(Step::AwaitClone),
        };
    }
    if state.active.len() >= LUNS_MAX {
        return None;
    }
    let snapshots: Vec<&String> = state.snapshots.keys().collect();
    let from = match rng.one_in(2) && !snapshots.is_empty() {
        true => Some(snapshots[rng.index(snapshots.len())].clone()),
        false => None,
    };
    if from.is_none() && snapshots.len() >= SNAPSHOTS_MAX {
        return None;
    }
    let image = from
        .as_ref()
        .map_or(&state.active, |from| &state.snapshots[from]);
    let luns: Vec<&String> = image.keys().collect();
    if luns.is_empty() {
        return None;
    }
    Some(Step::Change(Change::CloneLun {
        volume,
        lun: luns[rng.index(luns.len())].clone(),
        name: format!("c{number}"),
        from,
    }))
}

/// Notes of another length than those before, of several blocks, or none.
pub(in super::super) fn notes(number: u64) -> Change {
    let lengths: [u64; 6] = [0, 1, 4072, 4073, 30_000, 300_000];
    let length = lengths[usize::try_from(number / 2).unwrap_or(0) % lengths.len()];
    Change::SetNotes {
        text: contents(number, length),
    }
}
