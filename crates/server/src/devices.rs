//! Opening the devices that `state.toml` records, for the daemon and for offline tools alike.
//!
//! An opened device is compared with the record: it must have the same kind, and must not have
//! become smaller. Its labels show whether it is the *right* device; they are read elsewhere.
//!
//! A device that cannot be opened is left out here. The engine decides whether the aggregate can do
//! without it: a mirror may miss drives. A device that was being added may be a member or not, and
//! its labels may not even be written.
//!
//! A process that was killed may keep its devices for a moment after it is gone: the kernel
//! closes a file only when the last operation of an io_uring on it has ended. So a device that is
//! in use is tried again for a while. The same is true of a device that this process has just
//! closed.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use everglade_env::{DeviceId, OpenError, World};

use crate::Size;
use crate::datadir::{AggregateState, Device, DeviceKind};

/// How long a device that is in use is tried again.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time from one try to the next.
const PAUSE: Duration = Duration::from_millis(10);

/// The reason why a recorded device cannot be used, in one line: what was found, what was expected,
/// what to do.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The device cannot be opened, or has changed its kind.
    #[error(
        "{source}; expected device {number} of aggregate {aggregate} as recorded in state.toml; \
         attach it again, or correct its path there"
    )]
    Unusable {
        /// Name of the aggregate.
        aggregate: String,
        /// Position in the record.
        number: usize,
        /// The error of the host.
        source: OpenError,
    },
    /// The device has become smaller.
    #[error(
        "device {number} of aggregate {aggregate} has {found}; expected at least {expected}, its \
         recorded size; restore the size of {path}"
    )]
    Shrunk {
        /// Name of the aggregate.
        aggregate: String,
        /// Position in the record.
        number: usize,
        /// Path of the device.
        path: String,
        /// Its size now.
        found: Size,
        /// Its size then.
        expected: Size,
    },
}

/// The opened devices of an aggregate.
#[derive(Debug, Default)]
pub struct OpenDevices {
    /// Members, in the order of the record.
    pub members: Vec<DeviceId>,
    /// Devices that were being added, and may turn out to be no members.
    pub joining: Vec<DeviceId>,
    /// Why other members cannot be opened.
    pub unusable: Vec<DeviceError>,
    /// Why others that were being added cannot be opened.
    pub left_out: Vec<DeviceError>,
}

impl OpenDevices {
    /// Returns all that are open.
    pub fn all(&self) -> impl Iterator<Item = DeviceId> {
        self.members.iter().chain(&self.joining).copied()
    }
}

/// Opens all devices of an aggregate that can be opened.
#[must_use]
pub fn open_all(world: &World, data_dir: &Path, aggregate: &AggregateState) -> OpenDevices {
    let mut opened = OpenDevices::default();
    for (number, device) in aggregate.devices.iter().enumerate() {
        match open(world, data_dir, aggregate, number, device) {
            Ok(id) if device.joining => opened.joining.push(id),
            Ok(id) => opened.members.push(id),
            Err(error) if device.joining => opened.left_out.push(error),
            Err(error) => opened.unusable.push(error),
        }
    }
    opened
}

/// Opens, and opens again while the device is in use, up to [`PATIENCE`].
pub(crate) fn patiently(
    open: impl Fn() -> Result<DeviceId, OpenError>,
) -> Result<DeviceId, OpenError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match open() {
            Err(OpenError::Busy { .. }) if Instant::now() < end => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

/// Opens one device, patiently. A directory must be as large as its record says.
pub(crate) fn open_one(
    world: &World,
    path: &Path,
    device: &Device,
    read_only: bool,
) -> Result<DeviceId, OpenError> {
    patiently(|| match device.kind {
        _ if read_only => world.open_to_read(path),
        DeviceKind::Directory => world.open_directory(path, device.size_bytes, false),
        DeviceKind::File => world.open_file(path),
        DeviceKind::Block => world.open_block(path),
    })
}

fn open(
    world: &World,
    data_dir: &Path,
    aggregate: &AggregateState,
    number: usize,
    device: &Device,
) -> Result<DeviceId, DeviceError> {
    let path = data_dir.join(&device.path);
    let opened = open_one(world, &path, device, aggregate.read_only);
    let aggregate = || aggregate.name.clone();
    let id = opened.map_err(|source| DeviceError::Unusable {
        aggregate: aggregate(),
        number,
        source,
    })?;
    let found = world.info(id).map_or(0, |info| info.size_bytes);
    if found < device.size_bytes {
        world.close(id);
        return Err(DeviceError::Shrunk {
            aggregate: aggregate(),
            number,
            path: path.display().to_string(),
            found: Size(found),
            expected: Size(device.size_bytes),
        });
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{DeviceId, OpenError, patiently};

    #[test]
    fn a_device_that_a_killed_process_still_has_is_tried_again() {
        let path = || "/dev/sdb".into();
        let tries = Cell::new(0);
        let opened = patiently(|| {
            tries.set(tries.get() + 1);
            if tries.get() < 4 {
                return Err(OpenError::Busy { path: path() });
            }
            Ok(DeviceId(7))
        });
        assert_eq!((opened.expect("opened"), tries.get()), (DeviceId(7), 4));
        tries.set(0);
        let missing = patiently(|| {
            tries.set(tries.get() + 1);
            Err(OpenError::Missing { path: path() })
        });
        assert!(matches!(missing, Err(OpenError::Missing { .. })));
        assert_eq!(
            tries.get(),
            1,
            "only a device in use may come free by itself"
        );
    }
}
