//! What the devices of an aggregate are asked to become.

use everglade_env::{BLOCK_SIZE, DeviceId, Storage};
use everglade_format::config::Uuid;

/// What an aggregate gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Devices that become members, each with a random UUID. If the aggregate has mirrors or parity
    /// groups, the drives of one group after the other.
    Add(Vec<(DeviceId, Uuid)>),
    /// Members whose devices have become larger: [`Storage::size_bytes`] says the new size. Of
    /// mirrors and parity groups, any drive of each group stands for all.
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
