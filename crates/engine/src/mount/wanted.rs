//! What the devices of an aggregate are asked to become.

use everglade_env::{BLOCK_SIZE, DeviceId, Storage};
use everglade_format::config::Uuid;

use crate::mount::create::has_label;
use crate::mount::grow_error::{GrowError, failed};

/// What an aggregate gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Devices that become members, each with a random UUID. If the aggregate has mirrors or parity
    /// groups, the drives of one group after the other.
    Add(Vec<(DeviceId, Uuid)>),
    /// Drives that become data columns of a parity group, each with a random UUID. What they have
    /// where the group has its stripes is lost.
    Widen {
        /// Number of the group, from 1.
        group: u16,
        /// The drives.
        added: Vec<(DeviceId, Uuid)>,
    },
    /// Drives that get more parity of a parity group, or more copies of a mirror, each with a
    /// random UUID. They are behind, and catch up.
    Strengthen {
        /// Number of the group, from 1.
        group: u16,
        /// The drives.
        added: Vec<(DeviceId, Uuid)>,
    },
    /// Members whose devices have become larger: [`Storage::size_bytes`] says the new size. Of
    /// each mirror or parity group, one drive is enough: the sizes of all of its drives count.
    Extend(Vec<DeviceId>),
    /// A drive gets the seat of another one, which is out or is to be taken out first
    /// (`mount::replacement`).
    Replace {
        /// The seat, as an index into the members of the aggregate.
        member: u32,
        /// The new drive.
        device: DeviceId,
        /// Its random UUID.
        uuid: Uuid,
    },
}

/// The result of a growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowthInfo {
    /// Blocks of the aggregate before.
    pub total_blocks_before: u64,
    /// Blocks of the aggregate afterwards.
    pub total_blocks_after: u64,
    /// Blocks kept back afterwards.
    pub reserve_blocks_after: u64,
    /// Membership epoch afterwards.
    pub epoch_after: u64,
}

/// Returns the size of a device in blocks.
pub(super) fn blocks_of(storage: &dyn Storage, device: DeviceId) -> u64 {
    storage.size_bytes(device) / BLOCK_SIZE as u64
}

/// Refuses a device that cannot be added: it has fewer than `least` blocks, or it is taken, or it
/// has the label of an aggregate.
pub(super) fn check_new(
    storage: &dyn Storage,
    device: DeviceId,
    least: u64,
    is_taken: bool,
) -> Result<(), GrowError> {
    let blocks = blocks_of(storage, device);
    if blocks < least {
        return Err(GrowError::TooSmall {
            device,
            bytes: blocks * BLOCK_SIZE as u64,
            least: least * BLOCK_SIZE as u64,
        });
    }
    let is_labelled = has_label(storage, device).map_err(|error| failed(device, error))?;
    match is_taken || is_labelled {
        true => Err(GrowError::InUse(device)),
        false => Ok(()),
    }
}
