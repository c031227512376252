//! Where an aggregate's blocks are: from a block number to a device and an offset.

use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::{Geometry, Pvbn};

use crate::media::share::DeviceShare;

/// The members of an aggregate, and how much of them a consistency point may use.
pub(crate) struct Media {
    pub(crate) geometry: Geometry,
    /// One for each member.
    pub(crate) devices: Vec<DeviceId>,
    pub(crate) share: DeviceShare,
}

/// The place of a block on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) device: DeviceId,
    /// In bytes from the beginning of the device.
    pub(crate) offset: u64,
    /// How many blocks follow there, this one included.
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

    /// The place of a block; nothing if no extent has it.
    pub(crate) fn locate(&self, pvbn: Pvbn) -> Option<Place> {
        let place = self.geometry.locate(pvbn)?;
        Some(Place {
            device: self.devices[place.member as usize],
            offset: place.dbn.0 * BLOCK_SIZE as u64,
            run: place.run,
        })
    }
}
