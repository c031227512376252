//! An existing regular file as a device. Its size is the file's, rounded down to whole blocks. The
//! file is never made, lengthened or shortened here; if somebody lengthens it, the device follows
//! when it is asked to (`growth`).

use std::path::Path;

use rustix::fs::OFlags;

use super::{Access, Device, DeviceKind, OpenError, SIZE_MAX, claim};
use crate::BLOCK_SIZE;

/// Opens and locks the file.
pub(crate) fn open(path: &Path, access: Access) -> Result<Device, OpenError> {
    // Opened without blocking, because the path might be a pipe without a writer.
    let (file, direct) = claim::open_direct(path, access, OFlags::NONBLOCK)?;
    let metadata = file
        .metadata()
        .map_err(|error| OpenError::host("stat", path, error))?;
    if !metadata.is_file() {
        let found = super::directory::describe(metadata.file_type());
        return Err(OpenError::unexpected(path, "a regular file", found));
    }
    claim::lock(&file, path, access)?;
    let size_bytes = metadata.len() - metadata.len() % BLOCK_SIZE as u64;
    if size_bytes == 0 || size_bytes > SIZE_MAX {
        let expected = format!("between {BLOCK_SIZE} and {SIZE_MAX} bytes");
        return Err(OpenError::unexpected(
            path,
            expected,
            format!("{} bytes", metadata.len()),
        ));
    }
    Ok(Device::of_one(
        DeviceKind::File,
        path,
        file,
        size_bytes,
        direct,
    ))
}
