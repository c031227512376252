//! A block device as a device: opened exclusively, so that neither a mount nor another server can
//! have it at the same time; discarded with the host's own call.
#![expect(unsafe_code, reason = "two ioctls have no safe wrapper")]

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::ioctl::{self, opcode};

use super::{Access, Device, DeviceKind, OpenError, SIZE_MAX, claim};
use crate::BLOCK_SIZE;
use crate::transfer::Fault;

/// `BLKGETSIZE64`: bytes of the device.
const SIZE: ioctl::Opcode = opcode::read::<usize>(0x12, 114);
/// `BLKDISCARD`: takes {offset, length}.
const DISCARD: ioctl::Opcode = opcode::none(0x12, 119);

/// Opens and claims the device.
pub(crate) fn open(path: &Path, access: Access) -> Result<Device, OpenError> {
    // O_EXCL without O_CREAT claims a block device against mounts and other openers of this kind.
    let (file, direct) = claim::open_direct(path, access, OFlags::EXCL | OFlags::NONBLOCK)?;
    let metadata = file
        .metadata()
        .map_err(|error| OpenError::host("stat", path, error))?;
    if !metadata.file_type().is_block_device() {
        let found = super::directory::describe(metadata.file_type());
        return Err(OpenError::unexpected(path, "a block device", found));
    }
    claim::lock(&file, path, access)?;
    let sector = rustix::fs::ioctl_blksszget(&file)
        .map_err(|errno| OpenError::host("ask the sector size of", path, errno))?;
    if sector as usize > BLOCK_SIZE {
        let found = format!("{sector} bytes");
        return Err(OpenError::unexpected(
            path,
            "sectors of at most 4096 bytes",
            found,
        ));
    }
    let bytes = size(&file).map_err(|errno| OpenError::host("ask the size of", path, errno))?;
    let size_bytes = bytes - bytes % BLOCK_SIZE as u64;
    if size_bytes == 0 || size_bytes > SIZE_MAX {
        let expected = format!("between {BLOCK_SIZE} and {SIZE_MAX} bytes");
        return Err(OpenError::unexpected(
            path,
            expected,
            format!("{bytes} bytes"),
        ));
    }
    Ok(Device::of_one(
        DeviceKind::Block,
        path,
        file,
        size_bytes,
        direct,
    ))
}

/// Returns the present size of the device.
pub(super) fn size(file: &File) -> rustix::io::Result<u64> {
    // SAFETY: BLKGETSIZE64 writes one u64 to its argument and does nothing else.
    unsafe { ioctl::ioctl(file, ioctl::Getter::<SIZE, u64>::new()) }
}

/// Discards the range on the device, which may keep the bytes or zero them.
pub(super) fn discard(file: &File, offset: u64, bytes: u64) -> Result<(), Fault> {
    let mut range = [offset, bytes];
    // SAFETY: BLKDISCARD reads two u64 from its argument; the range lies within the device.
    let result =
        unsafe { ioctl::ioctl(file, ioctl::Updater::<DISCARD, [u64; 2]>::new(&mut range)) };
    result.map_err(Fault::from)
}
