//! The epochs that all usable drives know, in the course of a life: when a loss was recorded.

use crate::world::CutPoint;

/// An epoch, from the write on at which a cut finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    epoch: u64,
    from: u64,
    /// The last write at which a cut finds the epoch before.
    before: u64,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Epochs(Vec<Step>);

impl Epochs {
    /// Finds the epochs of cuts; `epoch_at` says which epoch a cut leaves for sure. It never falls,
    /// and changes rarely, so only some of the cuts are asked.
    pub(super) fn of(points: &[(u64, CutPoint)], epoch_at: impl Fn(&CutPoint) -> u64) -> Epochs {
        let epoch_of = |index: usize| epoch_at(&points[index].1);
        let mut steps = Vec::new();
        let mut first = 0;
        while first < points.len() {
            let epoch = epoch_of(first);
            steps.push(Step {
                epoch,
                from: points[first].0,
                before: first.checked_sub(1).map_or(0, |index| points[index].0),
            });
            let (mut same, mut end) = (first, points.len());
            while end - same > 1 {
                let middle = same + (end - same) / 2;
                match epoch_of(middle) == epoch {
                    true => same = middle,
                    false => end = middle,
                }
            }
            first = end;
        }
        Epochs(steps)
    }

    /// Returns the epoch that a cut at write `at` leaves for sure.
    pub(super) fn at(&self, at: u64) -> u64 {
        let known = self.0.iter().rev();
        let mut past = known.filter(|step| step.from <= at);
        past.next().or(self.0.first()).map_or(0, |step| step.epoch)
    }

    /// Returns the epoch with which the life began.
    pub(super) fn first(&self) -> u64 {
        self.0.first().map_or(0, |step| step.epoch)
    }

    /// Drives that know nothing newer than `epoch` have everything that was acknowledged by a cut
    /// at this write; `None` if they lacked something already when the life began.
    pub(super) fn complete_until(&self, epoch: u64) -> Option<u64> {
        let later = self.0.iter().position(|step| step.epoch > epoch)?;
        (later > 0).then(|| self.0[later].before)
    }

    /// Returns the write at which the first change after write `at` was known to all drives.
    pub(super) fn next_change(&self, at: u64) -> Option<u64> {
        let mut later = self.0.iter().skip(1).filter(|step| step.from > at);
        later.next().map(|step| step.from)
    }

    /// Returns the write at which the last change was known to all drives, if there was one.
    pub(super) fn last_change(&self) -> Option<u64> {
        let last = self.0.last().filter(|_| self.0.len() > 1);
        last.map(|step| step.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::DeviceSpec;
    use crate::{Seed, SimWorld};

    fn epochs(known: &[u64]) -> Epochs {
        let world = SimWorld::new(Seed(1), 1, &[DeviceSpec::thin(1 << 20)]);
        let point = |index: usize| {
            let mut point = world.cut_point();
            point.writes = 10 + index as u64;
            (point.writes, point)
        };
        let points: Vec<(u64, CutPoint)> = (0..known.len()).map(point).collect();
        Epochs::of(&points, |point| {
            known[usize::try_from(point.writes - 10).expect("few")]
        })
    }

    #[test]
    fn each_change_is_found_with_the_last_cut_before_it() {
        let found = epochs(&[3, 3, 3, 4, 4, 6]);
        assert_eq!(found.first(), 3);
        let at: Vec<u64> = (9..17).map(|at| found.at(at)).collect();
        assert_eq!(at, [3, 3, 3, 3, 4, 4, 6, 6]);
        assert_eq!(found.complete_until(2), None);
        assert_eq!(found.complete_until(3), Some(12));
        assert_eq!(found.complete_until(4), Some(14));
        assert_eq!(found.complete_until(5), Some(14));
        assert_eq!(found.complete_until(6), None, "they lack nothing");
        assert_eq!(found.last_change(), Some(15));
        let next = [12, 13, 15].map(|at| found.next_change(at));
        assert_eq!(next, [Some(13), Some(15), None]);
        assert_eq!(epochs(&[3, 3]).last_change(), None);
    }
}
