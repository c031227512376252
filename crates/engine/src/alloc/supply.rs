//! Supply: the block numbers that one cleaner owns (D-01: it gets, uses and puts back).
//!
//! ```text
//! stock ──draw()──▶ supply ──take()──▶ a place ──FileSystem::mark_used()──▶ in use
//!   ◀──put_back()─────┘
//! ```
//!
//! A place is a vvbn with a pvbn. A supply is a value: taking a place from it changes no map and no
//! count. The code that applies the cleaner's result marks the numbers as used.
//!
//! 1. A number is in one stock or in one supply, so only one cleaner can use it.
//! 2. Places leave a supply in the order of the stock, and the unused places return to the front of
//!    the stock. So the numbers of a block do not depend on how many were drawn with it.
//! 3. The numbers of a supply are free in the map. Filling the stock checks only stocks for numbers
//!    in use ([`FileSystem::ensure`]), so a supply is returned before the stock is filled again.

use std::collections::VecDeque;

use everglade_format::{Pointer, Pvbn, Tag, Vvbn};

use crate::alloc::blocks::Purpose;
use crate::alloc::filesystem::FileSystem;

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Supply(VecDeque<(Vvbn, Pvbn)>);

impl Supply {
    /// Takes places out of the stocks of a volume and of its aggregate. Both were ensured.
    pub(crate) fn draw(
        volume: &mut FileSystem,
        aggregate: &mut FileSystem,
        purpose: Purpose,
        count: usize,
    ) -> Supply {
        let vvbns = volume.cursor(purpose).stock.drain(..count).map(Vvbn);
        let pvbns = aggregate.cursor(purpose).stock.drain(..count).map(Pvbn);
        Supply(vvbns.zip(pvbns).collect())
    }

    /// The next place, tag still missing.
    pub(crate) fn take(&mut self) -> Pointer {
        let (vvbn, pvbn) = self.0.pop_front().expect("enough was drawn");
        Pointer {
            vvbn,
            pvbn,
            tag: Tag(0),
        }
    }

    /// Returns the unused places to the stock.
    pub(crate) fn put_back(
        self,
        volume: &mut FileSystem,
        aggregate: &mut FileSystem,
        purpose: Purpose,
    ) {
        let (vvbns, pvbns) = (volume.cursor(purpose), aggregate.cursor(purpose));
        for (vvbn, pvbn) in self.0.into_iter().rev() {
            vvbns.stock.push_front(vvbn.0);
            pvbns.stock.push_front(pvbn.0);
        }
    }
}

#[cfg(test)]
impl Supply {
    /// Places that no stock has.
    pub(crate) fn of(places: impl IntoIterator<Item = (u64, u64)>) -> Supply {
        let places = places.into_iter();
        Supply(
            places
                .map(|(vvbn, pvbn)| (Vvbn(vvbn), Pvbn(pvbn)))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use everglade_format::{CpNumber, Layer};
    use everglade_freespace::Areas;

    use super::*;

    fn with_stock(layer: Layer, stock: impl IntoIterator<Item = u64>) -> FileSystem {
        let areas = vec![Areas::new(1, 32_768, 1)];
        let inode = FileSystem::empty_inode_file(CpNumber(1), 0);
        let mut fs = FileSystem::new(layer, 32_768, vec![0], areas, inode);
        fs.data.stock.extend(stock);
        fs
    }

    fn both() -> (FileSystem, FileSystem) {
        let volume = with_stock(Layer::Volume, [5, 6, 9, 10]);
        (volume, with_stock(Layer::Aggregate, [70, 90, 91]))
    }

    #[test]
    fn places_leave_in_the_order_of_the_stock() {
        let (mut volume, mut aggregate) = both();
        let mut supply = Supply::draw(&mut volume, &mut aggregate, Purpose::Data, 2);
        let places = [supply.take(), supply.take()].map(|it| (it.vvbn.0, it.pvbn.0));
        assert_eq!(places, [(5, 70), (6, 90)]);
        assert_eq!(volume.data.stock, [9, 10]);
        assert_eq!(aggregate.data.stock, [91]);
    }

    #[test]
    fn what_is_left_goes_back_to_the_front_of_the_stock() {
        let (mut volume, mut aggregate) = both();
        let mut supply = Supply::draw(&mut volume, &mut aggregate, Purpose::Data, 3);
        supply.take();
        supply.put_back(&mut volume, &mut aggregate, Purpose::Data);
        assert_eq!(volume.data.stock, [6, 9, 10]);
        assert_eq!(aggregate.data.stock, [90, 91]);
    }

    #[test]
    #[should_panic(expected = "enough was drawn")]
    fn a_supply_gives_no_more_than_was_drawn() {
        let (mut volume, mut aggregate) = both();
        let mut supply = Supply::draw(&mut volume, &mut aggregate, Purpose::Data, 1);
        supply.take();
        supply.take();
    }
}
