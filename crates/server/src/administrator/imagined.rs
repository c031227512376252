//! Devices as they would be after a growth, so that the engine can say what the growth would give
//! before anything is changed: new devices that do not exist yet, and present ones that are larger.
//!
//! Everything beyond what exists reads as zeroes. Nothing can be written.

use std::collections::BTreeMap;

use everglade_env::{DeviceId, DiskError, Storage, World};

/// See the module's documentation.
pub(super) struct Imagined<'a> {
    world: &'a World,
    sizes: BTreeMap<DeviceId, u64>,
}

impl<'a> Imagined<'a> {
    /// Returns the devices as they are.
    pub(super) fn new(world: &'a World) -> Imagined<'a> {
        Imagined {
            world,
            sizes: BTreeMap::new(),
        }
    }

    /// Imagines one more device, and returns its number.
    pub(super) fn add(&mut self, size_bytes: u64) -> DeviceId {
        let number = u32::try_from(self.sizes.len()).expect("devices are few");
        // The world counts its devices from the other end.
        let id = DeviceId(u32::MAX - number);
        self.sizes.insert(id, size_bytes);
        id
    }

    /// Imagines that a device is larger than it is.
    pub(super) fn resize(&mut self, id: DeviceId, size_bytes: u64) {
        self.sizes.insert(id, size_bytes);
    }
}

impl Storage for Imagined<'_> {
    fn size_bytes(&self, device: DeviceId) -> u64 {
        let imagined = self.sizes.get(&device).copied();
        imagined.unwrap_or_else(|| self.world.size_bytes(device))
    }

    fn read(&self, device: DeviceId, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let present = self.world.size_bytes(device).saturating_sub(offset);
        let present = usize::try_from(present).unwrap_or(usize::MAX);
        let (present, beyond) = buffer.split_at_mut(present.min(buffer.len()));
        beyond.fill(0);
        if present.is_empty() {
            return Ok(());
        }
        self.world.read(device, offset, present)
    }

    fn write(&self, _: DeviceId, _: u64, _: &[u8]) -> Result<(), DiskError> {
        Err(DiskError::Gone)
    }

    fn flush(&self, _: DeviceId) -> Result<(), DiskError> {
        Err(DiskError::Gone)
    }

    fn allocate(&self, _: DeviceId, _: u64, _: u64) -> Result<(), DiskError> {
        Err(DiskError::Gone)
    }
}

#[cfg(test)]
mod tests {
    use everglade_env::{BLOCK_SIZE, IoMode, WorldOptions};

    use super::*;

    #[test]
    fn what_does_not_exist_reads_as_zeroes_and_cannot_be_written() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let file = place.path().join("file");
        std::fs::write(&file, [7; 2 * BLOCK_SIZE]).expect("written");
        let options = WorldOptions {
            io: IoMode::Threads,
            ..WorldOptions::default()
        };
        let world = World::new(&options).expect("a world");
        let id = world.open(&file).expect("a device");
        let block = BLOCK_SIZE as u64;
        let mut imagined = Imagined::new(&world);
        assert_eq!(imagined.size_bytes(id), 2 * block);
        imagined.resize(id, 9 * block);
        let (first, second) = (imagined.add(block), imagined.add(3 * block));
        let sizes = [id, first, second].map(|id| imagined.size_bytes(id));
        assert_eq!(sizes, [9 * block, block, 3 * block]);
        let mut buffer = [1; 2 * BLOCK_SIZE];
        imagined.read(id, block, &mut buffer).expect("read");
        assert_eq!(buffer[..BLOCK_SIZE], [7; BLOCK_SIZE]);
        assert_eq!(buffer[BLOCK_SIZE..], [0; BLOCK_SIZE]);
        for (id, offset) in [(id, 7 * block), (second, 0)] {
            buffer.fill(1);
            imagined.read(id, offset, &mut buffer).expect("read");
            assert_eq!(buffer, [0; 2 * BLOCK_SIZE]);
        }
        assert_eq!(
            imagined.write(id, 0, &[0; BLOCK_SIZE]),
            Err(DiskError::Gone)
        );
        assert_eq!(std::fs::read(&file).expect("read"), [7; 2 * BLOCK_SIZE]);
    }
}
