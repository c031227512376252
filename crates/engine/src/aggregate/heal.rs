//! Healing: before anything else is written, every copy of the newest superblock's slot holds it.
//!
//! A cut between the writes of one commit leaves members one consistency point apart. The next commit goes
//! to the other slot; were that cut as well, members could be two apart, and so on, and nobody could tell
//! them from devices that missed consistency points. Only copies that differ are written, so a cut while
//! healing leaves the copies that made it the newest.

use everglade_env::{BLOCK_SIZE, DeviceId, DiskError, Storage};
use everglade_format::label::{SUPERBLOCK_OFFSETS, label_offsets, superblock_slot};
use everglade_format::{Config, Superblock, TagKey};

/// Writes `superblock` where a member does not have it.
///
/// # Errors
/// The device's.
pub(crate) fn heal(
    storage: &dyn Storage,
    config: &Config,
    devices: &[DeviceId],
    superblock: &Superblock,
) -> Result<(), (DeviceId, DiskError)> {
    let expected = superblock.encode(&TagKey::new(&config.secret));
    let slot = SUPERBLOCK_OFFSETS[superblock_slot(superblock.cp)];
    for (member, device) in config.members.iter().zip(devices) {
        for label in label_offsets(member.size_blocks * BLOCK_SIZE as u64) {
            let mut found = [0; BLOCK_SIZE];
            // One that cannot be read may be readable once it is written.
            let read = storage.read(*device, label + slot, &mut found);
            if read.is_ok() && found == expected {
                continue;
            }
            storage
                .write(*device, label + slot, &expected)
                .and_then(|()| storage.flush(*device))
                .map_err(|error| (*device, error))?;
        }
    }
    Ok(())
}
