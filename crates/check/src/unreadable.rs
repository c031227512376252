//! The reasons why the verifier cannot check an aggregate at all.

use everglade_env::{DeviceId, DiskError};

/// The labels do not lead to a superblock.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// No devices were given.
    #[error("no devices were given")]
    NoDevices,
    /// A device is too small to hold labels.
    #[error("device {} has {size_bytes} bytes, too few for two labels", device.0)]
    TooSmall {
        /// Id of the device.
        device: DeviceId,
        /// Its size.
        size_bytes: u64,
    },
    /// A device has no config record.
    #[error("device {} has no label of ours: {found}", device.0)]
    NoLabel {
        /// Id of the device.
        device: DeviceId,
        /// The value that was found.
        found: String,
    },
    /// A device was written by another version, or with features that this program does not know.
    #[error("device {} has {found}, this program reads {expected}", device.0)]
    Version {
        /// Id of the device.
        device: DeviceId,
        /// The version that this program reads.
        expected: String,
        /// The version of the device.
        found: String,
    },
    /// A device belongs to another aggregate.
    #[error("device {} belongs to aggregate {found}, the first one to {expected}", device.0)]
    Foreign {
        /// Id of the device.
        device: DeviceId,
        /// Aggregate of the first device.
        expected: String,
        /// Its aggregate.
        found: String,
    },
    /// A device claims a place in the member table that does not exist or is taken.
    #[error("device {} claims to be member {member} of {members}, which is taken or does not \
        exist", device.0)]
    Member {
        /// Id of the device.
        device: DeviceId,
        /// The place.
        member: u32,
        /// Number of places.
        members: usize,
    },
    /// A device has only config records of older epochs than the newest superblock's.
    #[error("device {} was last a member in epoch {found}, the newest superblock is of epoch \
        {expected}: the device missed a change", device.0)]
    Stale {
        /// Id of the device.
        device: DeviceId,
        /// Epoch of the superblock.
        expected: u64,
        /// Newest epoch of the device.
        found: u64,
    },
    /// A member of the aggregate was not given.
    #[error("member {member} of the aggregate is missing")]
    Missing {
        /// Index of the member.
        member: u32,
    },
    /// A device is smaller than it was.
    #[error("device {} has {found} blocks, it had {expected} when it joined", device.0)]
    Shrunk {
        /// Id of the device.
        device: DeviceId,
        /// Blocks when it joined.
        expected: u64,
        /// Blocks now.
        found: u64,
    },
    /// No superblock decodes.
    #[error("no valid superblock on any member: {found}")]
    NoSuperblock {
        /// The value that was found.
        found: String,
    },
    /// A device failed.
    #[error("device {} failed at byte {offset}: {error}", device.0)]
    Disk {
        /// Id of the device.
        device: DeviceId,
        /// Offset of the failed read, in bytes.
        offset: u64,
        /// Error of the device.
        error: DiskError,
    },
}
