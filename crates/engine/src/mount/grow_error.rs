//! Why the devices of an aggregate cannot be changed.

use everglade_env::{DeviceId, DiskError};

/// The reason why an aggregate cannot grow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrowError {
    /// Another change of its devices is under way.
    #[error("another change of the aggregate's devices is under way; wait until it is done")]
    Busy,
    /// A device is too small to be a member.
    #[error("a device of {bytes} bytes is too small; use one of at least {least}")]
    TooSmall {
        /// The device.
        device: DeviceId,
        /// Its size.
        bytes: u64,
        /// The smallest that will do.
        least: u64,
    },
    /// The devices make no whole groups.
    #[error(
        "the drives of this aggregate are in groups of {together}, so {together} devices are added \
         at a time, or a multiple of that; {devices} would be"
    )]
    Groups {
        /// Number of devices.
        devices: usize,
        /// Drives of each group.
        together: usize,
    },
    /// Only a parity group becomes wider.
    #[error("group {0} is no parity group; only a parity group gets more data drives")]
    NoParityGroup(u16),
    /// A group that is to be stronger is not there.
    #[error("there is no group {0} of drives")]
    NoGroup(u16),
    /// A group has as many copies, or as much parity, as the format knows.
    #[error("group {group} has {drives} drives {what} already, and at most {most} are possible")]
    Strongest {
        /// Number of the group.
        group: u16,
        /// What the drives would have.
        what: &'static str,
        /// Drives that have it.
        drives: usize,
        /// Most drives.
        most: usize,
    },
    /// A parity group has room for no more.
    #[error("a parity group has at most {most} data drives; group {group} would have {drives}")]
    TooWide {
        /// Number of the group.
        group: u16,
        /// Data drives that it would have.
        drives: usize,
        /// Most data drives.
        most: usize,
    },
    /// A device, or its group, is being removed.
    #[error("it is being removed; stop the removal first")]
    Leaving,
    /// A drive is the only one that has all blocks of its mirror, so it cannot be taken out.
    #[error(
        "no other drive of the mirror has everything; wait until one has caught up, or bring one \
         back"
    )]
    LastCopy,
    /// The drive that has the seat is in use, or may come to be.
    #[error("the drive that is to be replaced is in use; take it out first")]
    SeatInUse,
    /// A device has the label of an aggregate, or was named twice.
    #[error("a device has an Everglade label already; destroy that aggregate first")]
    InUse(DeviceId),
    /// A device that should have become larger is no member.
    #[error("a device is no member of the aggregate")]
    NotMember(DeviceId),
    /// A device has the journal and no data, so more space on it is of no use.
    #[error("a device holds nothing but the journal, which does not grow")]
    JournalOnly(DeviceId),
    /// A device is not larger than before by at least one allocation area.
    #[error("a device of {bytes} bytes is not larger than before; make it at least {least}")]
    NotLarger {
        /// The device.
        device: DeviceId,
        /// Its size.
        bytes: u64,
        /// The smallest size that will do.
        least: u64,
    },
    /// The format has a limit.
    #[error("the aggregate would have more {0} than the format has room for")]
    TooMany(&'static str),
    /// The host refused.
    #[error("{error}")]
    Disk {
        /// The device.
        device: DeviceId,
        /// Why.
        error: DiskError,
    },
    /// The aggregate cannot be changed now.
    #[error("{0}")]
    Unavailable(String),
}

pub(crate) fn failed(device: DeviceId, error: DiskError) -> GrowError {
    GrowError::Disk { device, error }
}
