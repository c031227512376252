//! The devices as start-up sees them: calls that block, which here means that they act at once.

use everglade_env::{DeviceId, DiskError, Storage};

use super::SimWorld;

/// Blocking access to the devices of a world.
pub struct SimStorage {
    world: SimWorld,
}

impl SimStorage {
    pub(super) fn new(world: SimWorld) -> SimStorage {
        SimStorage { world }
    }
}

impl Storage for SimStorage {
    fn size_bytes(&self, device: DeviceId) -> u64 {
        self.world
            .with_device(device, |device| device.spec.size_bytes)
    }

    fn read(&self, device: DeviceId, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.world.state().read_now(device, offset, buffer)
    }

    fn write(&self, device: DeviceId, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.world.state().write_now(device, offset, bytes)
    }

    fn flush(&self, device: DeviceId) -> Result<(), DiskError> {
        self.world.state().flush_now(device)
    }

    fn allocate(&self, device: DeviceId, offset: u64, length: u64) -> Result<(), DiskError> {
        self.world.state().allocate_now(device, offset, length)
    }
}
