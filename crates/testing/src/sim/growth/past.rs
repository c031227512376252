//! What is known of a life of a growing pool: enough to judge what any cut of it leaves.

use std::rc::Rc;

use crate::engine::GrowthRecord;
use crate::model::{Model, OpId};
use crate::system::Geometry;
use crate::world::Images;

/// The pool at the beginning of a life, and the growths in it.
#[derive(Clone, Debug)]
pub(super) struct Geometries {
    pub(super) base: Geometry,
    pub(super) records: Vec<GrowthRecord>,
}

impl Geometries {
    /// What a cut at write `at` may leave: the pool as it was last acknowledged, and after that the
    /// pool with the growth that was under way.
    pub(super) fn possible_at(&self, at: u64) -> Vec<Geometry> {
        let mut possible = vec![self.base];
        for record in self.records.iter().filter(|record| record.asked < at) {
            match record.answered {
                Some((writes, true)) if writes < at => possible = vec![record.geometry],
                Some((writes, false)) if writes < at => {}
                _ => possible.push(record.geometry),
            }
        }
        possible
    }

    /// The growth that a cut at write `at` meets between its first write and its answer.
    pub(super) fn under_way_at(&self, at: u64) -> Option<&GrowthRecord> {
        let mut begun = self.records.iter().rev();
        begun.find(|record| {
            record.asked < at && record.answered.is_none_or(|(writes, _)| at <= writes)
        })
    }
}

/// See the module's documentation.
pub(super) struct Past {
    pub(super) model: Model,
    /// The first operation whose blocks are all looked at; older data is sampled.
    pub(super) since: OpId,
    pub(super) geometries: Geometries,
}

/// Media in which a life begins: those of a cut at write `at` of a past one.
#[derive(Clone)]
pub(super) struct Begun {
    pub(super) images: Images,
    pub(super) at: u64,
    pub(super) past: Rc<Past>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_growth_is_possible_from_its_first_write_and_certain_from_its_answer() {
        let geometry = |epoch| Geometry {
            epoch,
            blocks: epoch * 100,
        };
        let record = |asked, answered, epoch| GrowthRecord {
            asked,
            answered,
            geometry: geometry(epoch),
            joining: Vec::new(),
            is_wider: false,
        };
        let known = Geometries {
            base: geometry(1),
            records: vec![
                record(10, Some((20, true)), 2),
                record(30, Some((40, false)), 3),
                record(50, None, 3),
            ],
        };
        let epochs = |at| {
            let possible = known.possible_at(at).into_iter();
            possible.map(|it| it.epoch).collect::<Vec<_>>()
        };
        assert_eq!((epochs(10), epochs(11)), (vec![1], vec![1, 2]));
        assert_eq!((epochs(20), epochs(21)), (vec![1, 2], vec![2]));
        assert_eq!((epochs(40), epochs(41)), (vec![2, 3], vec![2]));
        assert_eq!(epochs(99), [2, 3]);
        let under_way = |at| known.under_way_at(at).map(|record| record.asked);
        assert_eq!((under_way(10), under_way(20)), (None, Some(10)));
        assert_eq!((under_way(21), under_way(99)), (None, Some(50)));
    }
}
