//! The drives that break in a life, and the work meanwhile, drawn from a seed.

use everglade_env::BLOCK_SIZE;
use everglade_format::label::{LABEL_BLOCKS, SUPERBLOCK_OFFSETS};

use super::drives::{Standing, first_data_block};
use super::life::BreakPlan;
use crate::Rng;
use crate::engine::EngineMaker;
use crate::model::Model;
use crate::system::{Admin, Replacement};
use crate::workload::{Action, Mix, Scale, Workload};
use crate::world::{Breakage, Faults};

/// Some LUNs, about as large as the pool.
pub(super) const SCALE: Scale = Scale {
    lun_bytes_max: 16 << 20,
    luns_max: 3,
    volumes_max: 2,
    op_bytes_max: 96 << 10,
};

/// Many flushes, and all that frees space.
pub(super) const MIX: Mix = Mix {
    read: 120,
    write: 400,
    discard: 50,
    zeroes: 20,
    flush: 160,
    cp: 12,
    create_lun: 6,
    delete_lun: 4,
    grow: 4,
    shrink: 4,
    create_volume: 2,
    delete_volume: 1,
    pause: 6,
    durable: 6,
    long: false,
};

/// Blocks of a front label with superblocks, and no config record.
const SUPERBLOCKS: std::ops::Range<u64> = SUPERBLOCK_OFFSETS[0] / BLOCK_SIZE as u64..LABEL_BLOCKS;

/// Draws how a drive breaks. Most of them fail for good, some only in a part, or now and then.
pub(super) fn breakage(rng: &mut Rng, maker: &EngineMaker, drive: usize) -> Breakage {
    let faults = match rng.below(12) {
        0..4 => return Breakage::Vanishes,
        4..6 => Faults::no_writes(),
        6..8 => Faults {
            read_error: 1,
            ..Faults::no_writes()
        },
        8 => Faults {
            read_error: [1, 1, 8][rng.index(3)],
            ..Faults::default()
        },
        9 => Faults {
            write_error: 1 << rng.between(1, 6),
            ..Faults::default()
        },
        10 => Faults {
            blocks: Some(match rng.one_in(2) {
                true => 0..LABEL_BLOCKS,
                false => SUPERBLOCKS,
            }),
            write_error: 1,
            ..Faults::default()
        },
        _ => Faults {
            // The journal, where there is one.
            blocks: Some(LABEL_BLOCKS..first_data_block(maker, drive).max(LABEL_BLOCKS + 1)),
            write_error: 1,
            ..Faults::default()
        },
    };
    Breakage::Fails(faults)
}

/// Draws the drives that break, of those that can be spared: one of a mirror, or two of three, or
/// one of each mirror.
pub(super) fn breaks(rng: &mut Rng, maker: &EngineMaker, standing: &Standing) -> Vec<BreakPlan> {
    let mut all = Vec::new();
    let mut groups = standing.groups();
    rng.shuffle(&mut groups);
    let span = 1 << rng.between(0, 8);
    for group in groups {
        let mut drives = standing.usable_in(group);
        rng.shuffle(&mut drives);
        drives.truncate(drives.len().saturating_sub(standing.needed_in(group)));
        if drives.len() > 1 && rng.one_in(2) {
            drives.pop();
        }
        let mut after = rng.between(1, span);
        for drive in drives {
            all.push(BreakPlan {
                drive,
                after,
                breakage: breakage(rng, maker, drive),
            });
            after += match rng.below(3) {
                0 => 0,
                1 => rng.between(1, 8),
                _ => rng.between(1, 120),
            };
        }
        if !all.is_empty() && !rng.one_in(4) {
            break;
        }
    }
    all
}

/// Draws how one drive more of a group breaks than it can spare, one after the other.
pub(super) fn too_many(rng: &mut Rng, standing: &Standing) -> Vec<BreakPlan> {
    let groups = standing.groups();
    let group = groups[rng.index(groups.len())];
    let mut drives = standing.usable_in(group);
    rng.shuffle(&mut drives);
    drives.truncate(drives.len() + 1 - standing.needed_in(group));
    let span = 1 << rng.between(0, 7);
    let mut after = rng.between(1, span);
    let mut all = Vec::new();
    for drive in drives {
        let breakage = match rng.below(3) {
            0 => Breakage::Vanishes,
            1 => Breakage::Fails(Faults::no_writes()),
            _ => Breakage::Fails(Faults {
                read_error: 1,
                ..Faults::no_writes()
            }),
        };
        all.push(BreakPlan {
            drive,
            after,
            breakage,
        });
        after += [0, 1, 40][rng.index(3)];
    }
    all
}

/// Draws replacements of drives, each with the number of actions that are left when it is asked
/// for. As many drives of each group are spared as it needs, of those that do not break. A drive
/// may be replaced twice, and a new drive may break.
pub(super) fn replacements(
    rng: &mut Rng,
    standing: &Standing,
    breaks: &[BreakPlan],
    actions: u64,
) -> Vec<(u64, Replacement)> {
    let mut all = Vec::new();
    for _ in 0..[0, 0, 1, 1, 2][rng.index(5)] {
        let groups = standing.groups();
        let group = groups[rng.index(groups.len())];
        let is_good = |drive: &usize| breaks.iter().all(|it| it.drive != *drive);
        let usable = standing.usable_in(group).into_iter().filter(is_good);
        let spared: Vec<usize> = usable.take(standing.needed_in(group)).collect();
        let mut seats = standing.seats_of(group);
        seats.retain(|seat| {
            let drive = standing.drive_of(*seat);
            drive.is_none_or(|drive| !spared.contains(&drive))
        });
        if seats.is_empty() {
            continue;
        }
        let breaks = rng.one_in(5).then(|| {
            let breakage = match rng.one_in(2) {
                true => Breakage::Vanishes,
                false => Breakage::Fails(Faults::no_writes()),
            };
            (1 << rng.between(0, 7), breakage)
        });
        let replacement = Replacement {
            seat: seats[rng.index(seats.len())],
            more_bytes: [0, 0, 4096, 1 << 20][rng.index(4)],
            breaks,
        };
        all.push((rng.below(actions), replacement));
    }
    all
}

/// Work of a life: so many actions.
pub(super) struct Drawn<'a> {
    workload: &'a mut Workload,
    left: u64,
    is_told: bool,
    replacements: Vec<(u64, Replacement)>,
    /// Actions that are left when a scrub begins.
    scrub: Option<u64>,
}

impl<'a> Drawn<'a> {
    pub(super) fn new(workload: &'a mut Workload, actions: u64) -> Drawn<'a> {
        workload.set_mix(MIX);
        Drawn {
            workload,
            left: actions,
            is_told: false,
            replacements: Vec::new(),
            scrub: None,
        }
    }

    /// The same with a scrub, which begins when so many actions are left.
    pub(super) fn scrubbing(self, scrub: Option<u64>) -> Drawn<'a> {
        Drawn { scrub, ..self }
    }

    /// The same with drives that are replaced.
    pub(super) fn replacing(self, replacements: Vec<(u64, Replacement)>) -> Drawn<'a> {
        Drawn {
            replacements,
            ..self
        }
    }

    pub(super) fn next(&mut self, model: &Model) -> Option<Action> {
        if !self.is_told {
            self.is_told = true;
            let luns = model.luns_now();
            self.workload.set_population(model.volumes_now(), &luns);
        }
        let left = self.left;
        if self.scrub.take_if(|at| *at >= left).is_some() {
            return Some(Action::Admin(Admin::StartScrub));
        }
        let is_due = |(at, _): &(u64, Replacement)| *at >= left;
        if let Some(due) = self.replacements.iter().position(is_due) {
            let (_, replacement) = self.replacements.swap_remove(due);
            return Some(Action::Admin(Admin::ReplaceDrive(replacement)));
        }
        self.left = left.checked_sub(1)?;
        Some(self.workload.draw())
    }
}
