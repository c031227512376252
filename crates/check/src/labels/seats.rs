//! Seats: the devices in the order of the member table, and the devices that are no members.
//!
//! A device whose records are all of older epochs missed a change, so its blocks are old: the
//! aggregate cannot be verified with it. A device whose records are all of a higher epoch was to
//! join in a change that was cut, and so was perhaps a device without any record. Such a device is
//! no member, if all members are there without it.

use everglade_env::{DeviceId, Storage};
use everglade_format::{BLOCK_SIZE, Config};

use super::copies::Records;
use crate::unreadable::Unreadable;

/// A device that is no member.
pub(crate) struct Stranger {
    pub(crate) device: DeviceId,
    /// The state of its label.
    pub(crate) found: String,
}

pub(super) struct Seats {
    pub(super) members: Vec<DeviceId>,
    pub(super) strangers: Vec<Stranger>,
}

/// What a device says that it is.
enum Claim {
    Member(u32),
    Stale { epoch: u64 },
    Stranger { found: String },
}

pub(super) fn seat(
    storage: &dyn Storage,
    config: &Config,
    all: &[Records],
) -> Result<Seats, Unreadable> {
    let mut seats: Vec<Option<DeviceId>> = vec![None; config.members.len()];
    let mut strangers = Vec::new();
    for records in all {
        let device = records.device;
        let member = match claim(config, records) {
            Claim::Member(member) => member,
            Claim::Stale { epoch } => {
                return Err(Unreadable::Stale {
                    device,
                    expected: config.epoch,
                    found: epoch,
                });
            }
            Claim::Stranger { found } => {
                strangers.push(Stranger { device, found });
                continue;
            }
        };
        match seats.get_mut(member as usize) {
            Some(seat) if seat.is_none() => *seat = Some(device),
            _ => {
                return Err(Unreadable::Member {
                    device,
                    member,
                    members: config.members.len(),
                });
            }
        }
        let found = storage.size_bytes(device) / BLOCK_SIZE as u64;
        let expected = config.members[member as usize].size_blocks;
        if found < expected {
            return Err(Unreadable::Shrunk {
                device,
                expected,
                found,
            });
        }
    }
    let mut members = Vec::new();
    for (member, seat) in (0..).zip(seats) {
        members.push(seat.ok_or_else(|| missing(member, all))?);
    }
    Ok(Seats { members, strangers })
}

/// The member that is missing may be a device that has lost its label.
fn missing(member: u32, all: &[Records]) -> Unreadable {
    let unlabelled = all.iter().find(|records| records.whole().next().is_none());
    unlabelled.map_or(Unreadable::Missing { member }, Records::trouble)
}

fn claim(config: &Config, records: &Records) -> Claim {
    let is_seat = |record: &Config| {
        let place = record.member_index as usize;
        let uuids = (config.members.get(place), record.members.get(place));
        matches!(uuids, (Some(ours), Some(own)) if ours.uuid == own.uuid)
    };
    // Members keep their places in a change. So a member that lost its record is known by one of a
    // change that was cut.
    let seats = records.whole().map(|(_, record)| record);
    let seats = seats.filter(|record| is_seat(record));
    let own = seats.min_by_key(|record| (record.epoch < config.epoch, record.epoch));
    let Some(own) = own else {
        let epochs = records.whole().map(|(_, record)| record.epoch);
        let found = match epochs.max() {
            None => records.trouble().to_string(),
            Some(epoch) => format!("a config record of epoch {epoch}, of a change that was cut"),
        };
        return Claim::Stranger { found };
    };
    if own.epoch < config.epoch {
        let epochs = records.whole().map(|(_, record)| record.epoch);
        let epoch = epochs.max().unwrap_or(own.epoch);
        return Claim::Stale { epoch };
    }
    Claim::Member(own.member_index)
}
