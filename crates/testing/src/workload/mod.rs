//! Workloads: what clients and administrators ask, drawn from a seed.
//!
//! A workload is a stream of [`Action`]s over a population of volumes and LUNs that it keeps
//! itself. Its [`Mix`] changes every so often, and each mix leaves some kinds out altogether: runs
//! that never flush, or only discard, find what an average of everything hides. [`small`] lists all
//! short sequences over a few actions instead, to be tried exhaustively.

mod action;
mod mix;
pub mod place;
pub mod small;

use everglade_env::BLOCK_SIZE;

use crate::Rng;
use crate::system::Admin;
pub use action::{Action, contents};
pub use mix::{Mix, Scale};
use place::Places;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// A LUN as the workload knows it.
#[derive(Clone, Debug)]
struct Lun {
    name: String,
    size_bytes: u64,
    places: Places,
}

/// A stream of actions.
#[derive(Clone, Debug)]
pub struct Workload {
    rng: Rng,
    scale: Scale,
    mix: Mix,
    /// Fixed mixes stay.
    changing: bool,
    /// Actions until the mix changes.
    remaining: u64,
    volumes: Vec<String>,
    luns: Vec<Lun>,
    /// Numbers names and contents, so that neither repeats unless it is meant to.
    serial: u64,
}

/// Actions between changes of the mix.
const PHASE: (u64, u64) = (20, 300);

impl Workload {
    /// A workload whose mix changes.
    #[must_use]
    pub fn new(seed: u64, scale: Scale) -> Workload {
        let mut rng = Rng::for_part(seed, "workload");
        let mix = Mix::random(&mut rng);
        let remaining = rng.between(PHASE.0, PHASE.1);
        let (volumes, luns) = (Vec::new(), Vec::new());
        Workload {
            rng,
            scale,
            mix,
            changing: true,
            remaining,
            volumes,
            luns,
            serial: 0,
        }
    }

    /// A workload that stays with one mix.
    #[must_use]
    pub fn of_mix(seed: u64, scale: Scale, mix: Mix) -> Workload {
        Workload {
            mix,
            changing: false,
            ..Workload::new(seed, scale)
        }
    }

    /// Asks by this mix from now on.
    pub fn set_mix(&mut self, mix: Mix) {
        self.mix = mix;
        self.changing = false;
    }

    /// Tells what exists now, after a restart or a failed request. What is known already stays as
    /// it is.
    pub fn set_population(&mut self, volumes: Vec<String>, luns: &[(String, u64)]) {
        self.volumes = volumes;
        let mut old = std::mem::take(&mut self.luns);
        for (name, size_bytes) in luns {
            let (name, size_bytes) = (name.clone(), *size_bytes);
            let known = old
                .iter()
                .position(|lun| lun.name == name)
                .map(|index| old.swap_remove(index));
            let places = known.map_or_else(|| Places::new(&mut self.rng), |lun| lun.places);
            self.luns.push(Lun {
                name,
                size_bytes,
                places,
            });
        }
    }

    /// The next thing to ask.
    pub fn draw(&mut self) -> Action {
        if self.changing {
            if self.remaining == 0 {
                self.mix = Mix::random(&mut self.rng);
                self.remaining = self.rng.between(PHASE.0, PHASE.1);
            }
            self.remaining -= 1;
        }
        if self.volumes.is_empty() {
            return self.create_volume();
        }
        if self.luns.is_empty() {
            return self.create_lun();
        }
        let m = self.mix;
        let kinds = [
            (m.read, Workload::read as fn(&mut Workload) -> Action),
            (m.write, Workload::write),
            (m.discard, Workload::discard),
            (m.zeroes, Workload::zeroes),
            (m.flush, Workload::flush),
            (m.cp, |_| Action::Admin(Admin::ConsistencyPoint)),
            (m.create_lun, Workload::create_lun),
            (m.delete_lun, Workload::delete_lun),
            (m.grow, Workload::grow),
            (m.shrink, Workload::shrink),
            (m.create_volume, Workload::create_volume),
            (m.delete_volume, Workload::delete_volume),
            (m.pause, Workload::pause),
        ];
        let mut ticket = self
            .rng
            .below(kinds.iter().map(|(weight, _)| weight).sum::<u64>().max(1));
        for (weight, kind) in kinds {
            if ticket < weight {
                return kind(self);
            }
            ticket -= weight;
        }
        self.write()
    }

    fn lun_index(&mut self) -> usize {
        // The first LUN is the busiest.
        if self.rng.one_in(2) {
            0
        } else {
            self.rng.index(self.luns.len())
        }
    }

    /// A range of at most `length_max` bytes somewhere in some LUN.
    fn range(&mut self, length_max: u64) -> (String, u64, u64) {
        let index = self.lun_index();
        let lun = &mut self.luns[index];
        let (offset, length) = lun.places.range(lun.size_bytes, length_max, &mut self.rng);
        (lun.name.clone(), offset, length)
    }

    fn read(&mut self) -> Action {
        let (lun, offset, length) = self.range(self.scale.op_bytes_max);
        Action::Read {
            lun,
            offset,
            length,
        }
    }

    fn write(&mut self) -> Action {
        let (lun, offset, length) = if self.mix.long {
            let (index, most) = (self.lun_index(), self.scale.op_bytes_max);
            let lun = &mut self.luns[index];
            let (offset, length) = lun.places.next_run(lun.size_bytes, most);
            (lun.name.clone(), offset, length)
        } else {
            self.range(self.scale.op_bytes_max)
        };
        self.serial += 1;
        let durable = self.rng.one_in(self.mix.durable);
        Action::Write {
            lun,
            offset,
            length,
            fill: self.serial,
            durable,
        }
    }

    /// Discards and writes of zeroes are sometimes as long as the LUN.
    fn long_range(&mut self) -> (String, u64, u64) {
        match self.rng.below(16) {
            0 => {
                let index = self.lun_index();
                let lun = &self.luns[index];
                (lun.name.clone(), 0, lun.size_bytes)
            }
            1..4 => self.range(u64::MAX),
            _ => self.range(self.scale.op_bytes_max),
        }
    }

    fn discard(&mut self) -> Action {
        let (lun, offset, length) = self.long_range();
        Action::Discard {
            lun,
            offset,
            length,
            durable: self.rng.one_in(self.mix.durable),
        }
    }

    fn zeroes(&mut self) -> Action {
        let (lun, offset, length) = self.long_range();
        // Space for the whole of a thin LUN may be more than there is.
        let allocate = length <= self.scale.op_bytes_max && self.rng.one_in(4);
        let durable = self.rng.one_in(self.mix.durable);
        Action::WriteZeroes {
            lun,
            offset,
            length,
            allocate,
            durable,
        }
    }

    fn flush(&mut self) -> Action {
        let index = self.lun_index();
        Action::Flush {
            lun: self.luns[index].name.clone(),
        }
    }

    fn pause(&mut self) -> Action {
        let longest = [100_000, 10_000_000, 15_000_000_000][self.rng.index(3)];
        Action::Pause(self.rng.between(1, longest))
    }

    fn create_volume(&mut self) -> Action {
        if self.volumes.len() >= self.scale.volumes_max {
            return self.write();
        }
        self.serial += 1;
        let name = format!("v{}", self.serial);
        self.volumes.push(name.clone());
        Action::Admin(Admin::CreateVolume { name })
    }

    fn create_lun(&mut self) -> Action {
        if self.luns.len() >= self.scale.luns_max {
            return self.write();
        }
        self.serial += 1;
        let volume = &self.volumes[self.rng.index(self.volumes.len())];
        let name = format!("{volume}/l{}", self.serial);
        let size_bytes = self.lun_size();
        let places = Places::new(&mut self.rng);
        self.luns.push(Lun {
            name: name.clone(),
            size_bytes,
            places,
        });
        Action::Admin(Admin::CreateLun { name, size_bytes })
    }

    fn lun_size(&mut self) -> u64 {
        let blocks_max = self.scale.lun_bytes_max / BLOCK;
        let blocks = match self.rng.below(4) {
            0 => self.rng.between(1, 16),
            1 => self.rng.between(place::SPAN - 2, place::SPAN + 2),
            _ => self.rng.between(1, blocks_max),
        };
        blocks.min(blocks_max) * BLOCK
    }

    fn delete_lun(&mut self) -> Action {
        let name = self.luns.remove(self.rng.index(self.luns.len())).name;
        Action::Admin(Admin::DeleteLun { name })
    }

    fn grow(&mut self) -> Action {
        let index = self.lun_index();
        let room = self
            .scale
            .lun_bytes_max
            .saturating_sub(self.luns[index].size_bytes)
            / BLOCK;
        if room == 0 {
            return self.read();
        }
        let lun = &mut self.luns[index];
        lun.size_bytes += self.rng.between(1, room) * BLOCK;
        Action::Admin(Admin::GrowLun {
            name: lun.name.clone(),
            size_bytes: lun.size_bytes,
        })
    }

    fn shrink(&mut self) -> Action {
        let index = self.lun_index();
        let lun = &mut self.luns[index];
        let blocks = lun.size_bytes / BLOCK;
        if blocks < 2 {
            return self.read();
        }
        // Often a little, because the end of a span is where mistakes are made.
        let kept = match self.rng.below(3) {
            0 => blocks - self.rng.between(1, 3.min(blocks - 1)),
            1 => (blocks / place::SPAN * place::SPAN).clamp(1, blocks - 1),
            _ => self.rng.between(1, blocks - 1),
        };
        lun.size_bytes = kept * BLOCK;
        Action::Admin(Admin::ShrinkLun {
            name: lun.name.clone(),
            size_bytes: lun.size_bytes,
        })
    }

    fn delete_volume(&mut self) -> Action {
        let name = self.volumes.remove(self.rng.index(self.volumes.len()));
        let inside = format!("{name}/");
        self.luns.retain(|lun| !lun.name.starts_with(&inside));
        Action::Admin(Admin::DeleteVolume { name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_asks_the_same() {
        let (mut a, mut b) = (
            Workload::new(1, Scale::LARGE),
            Workload::new(1, Scale::LARGE),
        );
        assert!((0..2000).all(|_| a.draw() == b.draw()));
    }

    #[test]
    fn everything_asked_lies_inside_its_lun_and_every_kind_comes() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..40 {
            let mut workload = Workload::new(seed, Scale::LARGE);
            for _ in 0..1000 {
                let action = workload.draw();
                let text = format!("{action:?}");
                kinds.insert(
                    text.split(['{', '('])
                        .take(2)
                        .collect::<String>()
                        .trim()
                        .to_owned(),
                );
                let (lun, offset, length, most) = match &action {
                    Action::Read {
                        lun,
                        offset,
                        length,
                    } => (lun, offset, length, 1 << 20),
                    Action::Write {
                        lun,
                        offset,
                        length,
                        ..
                    } => (lun, offset, length, 1 << 20),
                    Action::Discard {
                        lun,
                        offset,
                        length,
                        ..
                    }
                    | Action::WriteZeroes {
                        lun,
                        offset,
                        length,
                        ..
                    } => (lun, offset, length, u64::MAX),
                    _ => continue,
                };
                let known = workload
                    .luns
                    .iter()
                    .find(|known| known.name == *lun)
                    .expect("it exists");
                assert!((1..=most).contains(length), "{action:?}");
                assert!(
                    offset + length <= known.size_bytes,
                    "{action:?} in {}",
                    known.size_bytes
                );
            }
        }
        assert!(kinds.len() >= 12, "only {kinds:?}");
    }
}
