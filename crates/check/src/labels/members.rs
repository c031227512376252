//! Members: the devices in the order of the member table, and the devices that are no members.
//!
//! A device is known by the UUID that a config record of it names for its own place. Its records
//! say what it is:
//!
//! | device | its records | means |
//! | --- | --- | --- |
//! | current member | one is of the superblock's epoch, or of a change that was cut | it is read |
//! | current member | all are of older epochs | it missed a change, so its blocks are old |
//! | member that is behind | any | it is not read, and its labels may be as old as they like |
//! | no member | all are of a higher epoch, or there are none | a change was cut |
//! | no member | they are of earlier epochs, and name a seat that another drive has | it was replaced |
//!
//! A current member may be absent or unfit if another current member of its group has the same
//! blocks; otherwise the aggregate cannot be verified. A device that is no member is no trouble if
//! the aggregate can do without it.

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

/// A member, and its device.
pub(crate) struct Placed {
    pub(crate) device: Option<DeviceId>,
    /// Why the member is not read; `None` if it is read.
    pub(crate) trouble: Option<Trouble>,
}

/// Why a member is not read.
pub(crate) enum Trouble {
    /// The config record says that it missed writes.
    Behind,
    /// No device was given for it.
    Absent,
    /// Its device, or the only device that may be it, cannot be used.
    Unfit(Unreadable),
}

pub(super) struct Members {
    pub(super) placed: Vec<Placed>,
    pub(super) strangers: Vec<Stranger>,
}

/// What a device says that it is.
enum Claim {
    /// `old` is the newest epoch of a device that knows only older ones than the aggregate's.
    Member {
        member: u32,
        old: Option<u64>,
    },
    Stranger {
        found: String,
    },
}

/// The device of a member; `old` as in [`Claim`].
#[derive(Clone, Copy)]
struct Found {
    device: DeviceId,
    old: Option<u64>,
}

/// Finds the device of each member.
///
/// # Errors
/// Two devices are the same member, or a current member cannot be read and no other has its blocks.
pub(super) fn place(
    storage: &dyn Storage,
    config: &Config,
    all: &[Records],
) -> Result<Members, Unreadable> {
    let mut devices: Vec<Option<Found>> = vec![None; config.members.len()];
    let mut strangers = Vec::new();
    for records in all {
        let device = records.device;
        match claim(config, records) {
            Claim::Stranger { found } => strangers.push(Stranger { device, found }),
            Claim::Member { member, old } => match devices.get_mut(member as usize) {
                Some(place) if place.is_none() => *place = Some(Found { device, old }),
                _ => {
                    let members = config.members.len();
                    return Err(Unreadable::Member {
                        device,
                        member,
                        members,
                    });
                }
            },
        }
    }
    let placed = (0..).zip(devices).map(|(member, found)| Placed {
        device: found.map(|it| it.device),
        trouble: trouble(storage, config, all, member, found),
    });
    let mut placed: Vec<Placed> = placed.collect();
    if let Some(lost) = lost(config, &placed) {
        return Err(match placed.swap_remove(lost as usize).trouble {
            Some(Trouble::Unfit(trouble)) => trouble,
            _ => Unreadable::Missing { member: lost },
        });
    }
    Ok(Members { placed, strangers })
}

fn trouble(
    storage: &dyn Storage,
    config: &Config,
    all: &[Records],
    member: u32,
    found: Option<Found>,
) -> Option<Trouble> {
    let entry = &config.members[member as usize];
    if !entry.seat.is_current() {
        return Some(Trouble::Behind);
    }
    let Some(Found { device, old }) = found else {
        // The device may be there, and have lost its label.
        let unlabelled = all.iter().find(|records| records.whole().next().is_none());
        let unfit = unlabelled.map(|records| Trouble::Unfit(records.trouble()));
        return Some(unfit.unwrap_or(Trouble::Absent));
    };
    let unfit = |trouble| Some(Trouble::Unfit(trouble));
    if let Some(found) = old {
        let expected = config.epoch;
        return unfit(Unreadable::Stale {
            device,
            expected,
            found,
        });
    }
    let expected = entry.size_blocks;
    let found = storage.size_bytes(device) / BLOCK_SIZE as u64;
    if found < expected {
        return unfit(Unreadable::Shrunk {
            device,
            expected,
            found,
        });
    }
    None
}

/// A current member that cannot be read, and whose group cannot spare it; rather one that is there
/// than one that is not.
fn lost(config: &Config, placed: &[Placed]) -> Option<u32> {
    let is_read = |member: &u32| placed[*member as usize].trouble.is_none();
    let is_lost = |(member, entry): &(u32, &Placed)| {
        let seat = config.members[*member as usize].seat;
        let is_spared = match config.parity_group_of(*member) {
            None => config.copies_of(*member).iter().any(is_read),
            Some(group) => group.all().filter(is_read).count() >= group.data.len(),
        };
        seat.is_current() && entry.trouble.is_some() && !is_spared
    };
    let lost = (0..).zip(placed).filter(is_lost);
    let first = lost.min_by_key(|(_, entry)| entry.device.is_none());
    first.map(|(member, _)| member)
}

/// True if a record of an earlier epoch says that the device is a member whose seat another drive
/// has now.
fn was_replaced(config: &Config, records: &Records) -> bool {
    let mut earlier = records.whole().map(|(_, record)| record);
    config.has_groups() && earlier.any(|record| record.epoch < config.epoch)
}

fn claim(config: &Config, records: &Records) -> Claim {
    let is_own = |record: &Config| {
        let place = record.member_index as usize;
        let uuids = (config.members.get(place), record.members.get(place));
        matches!(uuids, (Some(ours), Some(own)) if ours.uuid == own.uuid)
    };
    // Members keep their places in a change. So a member that lost its record is known by one of a
    // change that was cut.
    let own = records.whole().map(|(_, record)| record);
    let own = own.filter(|record| is_own(record));
    let own = own.min_by_key(|record| (record.epoch < config.epoch, record.epoch));
    let newest = records.whole().map(|(_, record)| record.epoch).max();
    match (own, newest) {
        (Some(own), newest) => Claim::Member {
            member: own.member_index,
            old: newest.filter(|_| own.epoch < config.epoch),
        },
        (None, Some(epoch)) => Claim::Stranger {
            found: match was_replaced(config, records) {
                true => {
                    format!("a config record of epoch {epoch}, and another drive has its seat")
                }
                false => format!("a config record of epoch {epoch}, of a change that was cut"),
            },
        },
        (None, None) => Claim::Stranger {
            found: records.trouble().to_string(),
        },
    }
}
