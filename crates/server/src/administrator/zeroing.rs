//! Storage that tells the log how much of a new drive is filled with zeroes.
//!
//! Most hosts zero a range at once. A disk that has no command for that is written whole.

use std::time::{Duration, Instant};

use everglade_env::{DeviceId, DiskError, Storage, World};

use crate::Size;

/// Bytes that are asked for at once.
const STEP: u64 = 1 << 30;
/// Time between two lines of the log.
const TOLD: Duration = Duration::from_secs(10);

/// See the module's documentation.
pub(super) struct Zeroing<'a>(pub(super) &'a World);

impl Storage for Zeroing<'_> {
    fn name(&self, device: DeviceId) -> String {
        self.0.name(device)
    }

    fn size_bytes(&self, device: DeviceId) -> u64 {
        self.0.size_bytes(device)
    }

    fn read(&self, device: DeviceId, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.0.read(device, offset, buffer)
    }

    fn write(&self, device: DeviceId, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.0.write(device, offset, bytes)
    }

    fn flush(&self, device: DeviceId) -> Result<(), DiskError> {
        self.0.flush(device)
    }

    fn allocate(&self, device: DeviceId, offset: u64, length: u64) -> Result<(), DiskError> {
        self.0.allocate(device, offset, length)
    }

    fn zero(&self, device: DeviceId, offset: u64, length: u64) -> Result<(), DiskError> {
        let begun = Instant::now();
        let mut told = begun;
        let mut at = 0;
        while at < length {
            let step = STEP.min(length - at);
            self.0.zero(device, offset + at, step)?;
            at += step;
            if told.elapsed() >= TOLD {
                told = Instant::now();
                tracing::info!(
                    "{}",
                    progress(&self.name(device), (at, length), begun.elapsed())
                );
            }
        }
        Ok(())
    }
}

/// Says how much of a device is filled with zeroes, and how long the rest takes at this rate.
fn progress(name: &str, (done, all): (u64, u64), since: Duration) -> String {
    let left = since.mul_f64((all - done) as f64 / done.max(1) as f64);
    format!(
        "{name} is filled with zeroes: {} of {}, about {} s left",
        Size(done),
        Size(all),
        left.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_how_long_the_rest_takes() {
        let said = progress("/dev/sde", (1 << 30, 4 << 30), Duration::from_secs(10));
        let expected = "/dev/sde is filled with zeroes: 1.0 GiB of 4.0 GiB, about 30 s left";
        assert_eq!(said, expected);
    }
}
