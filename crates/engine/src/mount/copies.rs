//! Copies of the label's config record: each device has two, at its front and at its end, and one
//! is enough to open it. A lost copy is written anew from the record that the aggregate was opened
//! with, so that another loss is survived, too.
//!
//! 1. A copy is lost if it cannot be read, does not decode, is absent, or is of an older epoch. A
//!    whole record of the same epoch with other content is not overwritten: the verifier reports
//!    it, and people decide.
//! 2. The slot for the next epoch is filled with zeros if it has neither a record nor zeros, for
//!    the same reason; and if it has a record of a higher epoch, which a change left that was cut
//!    before its superblock was committed (decision 0040). No change may be under way meanwhile.
//! 3. A good copy is never written. An open device has a good copy, so a power cut during the write
//!    leaves the good copy, and a torn copy that the next start writes again.
//! 4. If a copy cannot be written, the aggregate serves anyway, and `status` reports it.
//!
//! This code runs when the aggregate is online, because nothing may be written to an aggregate that
//! cannot be mounted. It blocks its caller.

use everglade_env::{DeviceId, DiskError, Storage};
use everglade_format::config::CONFIG_BYTES;
use everglade_format::damage::Writer;
use everglade_format::label::{CONFIG_OFFSETS, config_slot, label_offsets};
use everglade_format::{BLOCK_SIZE, Config};

use crate::media::Layout;

/// A copy of a label that was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostCopy {
    /// Name of the device.
    pub device: String,
    /// True for the copy at the front of the device, false for the copy at its end.
    pub is_front: bool,
    /// The contents that were found.
    pub found: String,
    /// The reason why it could not be written anew.
    pub failure: Option<String>,
}

/// Contents that are wrong, and the right ones to write in their place.
pub(crate) struct Rewrite {
    lost: LostCopy,
    pub(crate) device: DeviceId,
    offset: u64,
    wanted: Vec<u8>,
}

impl Rewrite {
    fn new(
        storage: &dyn Storage,
        (device, offset): (DeviceId, u64),
        is_front: bool,
        found: String,
        wanted: Vec<u8>,
    ) -> Rewrite {
        let lost = LostCopy {
            device: storage.name(device),
            is_front,
            found,
            failure: None,
        };
        Rewrite {
            lost,
            device,
            offset,
            wanted,
        }
    }

    /// Writes the right contents.
    pub(crate) fn write(&self, storage: &dyn Storage) -> Result<(), DiskError> {
        storage.write(self.device, self.offset, &self.wanted)?;
        storage.flush(self.device)
    }
}

/// Writes the lost copies anew.
pub(crate) fn mend(storage: &dyn Storage, layout: &Layout) -> Vec<LostCopy> {
    let rewrites = find(storage, layout).into_iter();
    let mend = |rewrite: Rewrite| {
        let failure = rewrite.write(storage).err();
        LostCopy {
            failure: failure.map(|error| error.to_string()),
            ..rewrite.lost
        }
    };
    rewrites.map(mend).collect()
}

fn find(storage: &dyn Storage, layout: &Layout) -> Vec<Rewrite> {
    let epoch = layout.config.epoch;
    let own = config_slot(epoch);
    let mut rewrites = Vec::new();
    for (index, member, device) in layout.members() {
        let record = layout.record_of(index);
        let labels = label_offsets(member.size_blocks * BLOCK_SIZE as u64);
        for (is_front, label) in [true, false].into_iter().zip(labels) {
            for (slot, offset) in CONFIG_OFFSETS.into_iter().enumerate() {
                let offset = label + offset;
                let found = match slot == own {
                    true => missing(storage, device, offset, &record),
                    false => damaged(storage, device, offset, epoch),
                };
                let Some(found) = found else {
                    continue;
                };
                let wanted = match slot == own {
                    true => record.encode(),
                    false => vec![0; CONFIG_BYTES],
                };
                let place = (device, offset);
                rewrites.push(Rewrite::new(storage, place, is_front, found, wanted));
            }
        }
    }
    rewrites.extend(strays(storage, layout));
    rewrites
}

/// Returns the records of higher epochs at the ends of devices that are larger than the layout
/// says. No label should be there: only a growth that was cut wrote one.
pub(crate) fn strays(storage: &dyn Storage, layout: &Layout) -> Vec<Rewrite> {
    let epoch = layout.config.epoch;
    let mut strays = Vec::new();
    for (_, member, device) in layout.members() {
        let [_, end] = label_offsets(storage.size_bytes(device));
        if end < member.size_blocks * BLOCK_SIZE as u64 {
            continue;
        }
        for offset in CONFIG_OFFSETS.map(|slot| end + slot) {
            if let Ok(Ok(Some(found))) = read(storage, device, offset)
                && found.epoch > epoch
            {
                let (place, nothing) = ((device, offset), vec![0; CONFIG_BYTES]);
                strays.push(Rewrite::new(storage, place, false, cut(&found), nothing));
            }
        }
    }
    strays
}

fn read(
    storage: &dyn Storage,
    device: DeviceId,
    offset: u64,
) -> Result<Result<Option<Config>, String>, DiskError> {
    let mut bytes = vec![0; CONFIG_BYTES];
    storage.read(device, offset, &mut bytes)?;
    Ok(match Config::decode(&bytes) {
        Ok(config) => Ok(config),
        Err(damage) if damage.writer == Writer::Same => Err(damage.to_string()),
        // A record of another version is not changed.
        Err(_) => Ok(None),
    })
}

/// The contents in the place of the record, if the record is lost.
fn missing(
    storage: &dyn Storage,
    device: DeviceId,
    offset: u64,
    record: &Config,
) -> Option<String> {
    match read(storage, device, offset) {
        Err(error) => Some(error.to_string()),
        Ok(Err(damage)) => Some(damage),
        Ok(Ok(None)) => Some("nothing".to_owned()),
        Ok(Ok(Some(found))) if found.epoch < record.epoch => {
            Some(format!("a record of epoch {}", found.epoch))
        }
        Ok(Ok(Some(_))) => None,
    }
}

/// The wrong contents of a slot that should have the record of the epoch before, or zeroes.
fn damaged(storage: &dyn Storage, device: DeviceId, offset: u64, epoch: u64) -> Option<String> {
    match read(storage, device, offset) {
        Err(error) => Some(error.to_string()),
        Ok(Err(damage)) => Some(damage),
        Ok(Ok(Some(found))) if found.epoch > epoch => Some(cut(&found)),
        Ok(Ok(_)) => None,
    }
}

fn cut(found: &Config) -> String {
    let epoch = found.epoch;
    format!("a record of epoch {epoch}, of a change that was interrupted")
}
