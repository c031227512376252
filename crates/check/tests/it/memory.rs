//! Devices in memory.

use everglade_env::lock::{Mutex, MutexGuard};
use everglade_env::{DeviceId, DiskError, Storage};

/// Devices whose bytes tests may change; reading a bad range fails.
#[derive(Default)]
pub(crate) struct Memory {
    devices: Mutex<Vec<Vec<u8>>>,
    /// Device and byte that cannot be read.
    pub(crate) bad: Mutex<Option<(u32, u64)>>,
}

impl Memory {
    pub(crate) fn new(sizes: &[u64]) -> Self {
        let device = |size: &u64| vec![0; usize::try_from(*size).unwrap()];
        Memory {
            devices: Mutex::new(sizes.iter().map(device).collect()),
            bad: Mutex::new(None),
        }
    }

    pub(crate) fn ids(&self) -> Vec<DeviceId> {
        (0..).take(self.lock().len()).map(DeviceId).collect()
    }

    /// Adds a device of zeroes.
    pub(crate) fn add(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap();
        self.lock().push(vec![0; bytes]);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.devices.lock()
    }
}

impl Storage for Memory {
    fn size_bytes(&self, device: DeviceId) -> u64 {
        self.lock()[device.0 as usize].len() as u64
    }

    fn read(&self, device: DeviceId, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        if let Some((bad, at)) = *self.bad.lock()
            && bad == device.0
            && (offset..offset + buffer.len() as u64).contains(&at)
        {
            return Err(DiskError::Io(5));
        }
        let at = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.lock()[device.0 as usize][at..at + buffer.len()]);
        Ok(())
    }

    fn write(&self, device: DeviceId, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let at = usize::try_from(offset).unwrap();
        self.lock()[device.0 as usize][at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&self, _: DeviceId) -> Result<(), DiskError> {
        Ok(())
    }

    fn allocate(&self, _: DeviceId, _: u64, _: u64) -> Result<(), DiskError> {
        Ok(())
    }
}
