//! The place of an aggregate's blocks: from a block number to a device and an offset.

use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::{Geometry, Pvbn};

use crate::media::share::DeviceShare;

/// The members of an aggregate, and how much of them a consistency point may use.
pub(crate) struct Media {
    pub(crate) geometry: Geometry,
    /// Device of each member.
    pub(crate) devices: Vec<DeviceId>,
    pub(crate) share: DeviceShare,
}

/// The place of a block on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) device: DeviceId,
    /// Offset in bytes from the beginning of the device.
    pub(crate) offset: u64,
    /// Number of blocks from this block to the end of the run, this block included.
    pub(crate) run: u64,
}

impl Media {
    pub(crate) fn new(geometry: Geometry, devices: Vec<DeviceId>) -> Media {
        Media {
            share: DeviceShare::new(devices.len()),
            geometry,
            devices,
        }
    }

    /// Returns the place of a block; `None` if no extent has the block.
    pub(crate) fn locate(&self, pvbn: Pvbn) -> Option<Place> {
        let place = self.geometry.locate(pvbn)?;
        Some(Place {
            device: self.devices[place.member as usize],
            offset: place.dbn.0 * BLOCK_SIZE as u64,
            run: place.run,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use everglade_format::Dbn;
    use everglade_format::config::Extent;

    use super::*;

    /// Two devices: pvbns 0 to 511 on the first, 512 to 1,023 on the second.
    pub(crate) fn two_devices() -> Media {
        let extent = |base, member, first| Extent {
            base,
            length: 512,
            member,
            group: 0,
            column: 0,
            first_dbn: Dbn(first),
        };
        let geometry = Geometry::new(256, vec![extent(0, 0, 300), extent(512, 1, 700)]);
        Media::new(
            geometry.expect("a sound table"),
            vec![DeviceId(4), DeviceId(5)],
        )
    }

    #[test]
    fn a_block_is_where_its_extent_begins_plus_its_distance() {
        let media = two_devices();
        let place = media.locate(Pvbn(10)).expect("in the first extent");
        assert_eq!(place.device, DeviceId(4));
        assert_eq!(place.offset, 310 * BLOCK_SIZE as u64);
        assert_eq!(place.run, 502);
        let place = media.locate(Pvbn(1023)).expect("the last one");
        assert_eq!((place.device, place.run), (DeviceId(5), 1));
        assert_eq!(place.offset, (700 + 511) * BLOCK_SIZE as u64);
        assert_eq!(media.locate(Pvbn(1024)), None);
    }
}
