//! Which device is which member, and whether the members that are there suffice (decision 0041).
//!
//! | member | its device |
//! | --- | --- |
//! | current in the record that counts | has the same record; it is used |
//! | behind in that record | has any record in which it is this member; it is not used |
//!
//! A member that is missing, though the record says that it is current, is *missed*. An aggregate
//! without a group misses nothing. Others are opened if each column has a current drive that is
//! there, and one of these is true:
//!
//! * nothing is missed: whatever is not there is known to be behind;
//! * more than half of the current members are there, so no other part of the pool can be opened by
//!   itself;
//! * the caller knows that the pool was shut down cleanly with this epoch and consistency point, so
//!   no member can have more than the ones that are there;
//! * the caller says so ([`Missing::Allowed`]).
//!
//! A member that was removed is not missing, and a device that was one is left alone.
//!
//! In an aggregate with groups a device that is no member, or is too small, counts as missing. A
//! drive that was replaced is no member any more: its seat names another UUID.
//!
//! A device that went on by itself, after the others had done the same, is refused: both have
//! writes that the other lacks. Its own record says that all of the others are behind, and none of
//! them has caught up since.

use everglade_env::{BLOCK_SIZE, DeviceId, Storage};
use everglade_format::Config;
use everglade_format::config::Member;

use crate::mount::records::{Read, is_same};
use crate::mount::refusal::{RESTORE, Refusal};

/// Whether an aggregate is opened though members are missing that nobody knew to be behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Only if that is safe: see the module's documentation.
    IfSafe,
    /// If each column has a current drive. What the missing ones have beyond that is lost.
    Allowed,
}

/// Finds the device of each member. Returns also the devices of members that were removed.
pub(super) fn find<'a>(
    storage: &dyn Storage,
    read: &'a [Read],
    config: &Config,
) -> Result<(Vec<Option<&'a Read>>, Vec<DeviceId>), Refusal> {
    let mut members: Vec<Option<&Read>> = vec![None; config.members.len()];
    let mut removed = Vec::new();
    for device in read {
        let name = || storage.name(device.records.device);
        if was_removed(device, config) {
            removed.push(device.records.device);
            continue;
        }
        let own = device.record_of(config.epoch, Some(config));
        let member = match own.filter(|own| is_same(own, config)) {
            Some(own) => own.member_index as usize,
            None => match behind(device, config) {
                Some(member) => {
                    refuse_split(&name(), device, config)?;
                    member
                }
                // A change that was cut named this device; there was no other, or others were
                // named.
                None if device.is_joining => continue,
                // The others may suffice without it.
                None if config.has_groups() => continue,
                None => return Err(no_member(&name(), device, config)),
            },
        };
        let size = storage.size_bytes(device.records.device) / BLOCK_SIZE as u64;
        let expected = config.members[member].size_blocks;
        if size < expected && config.has_groups() {
            continue;
        }
        if size < expected {
            return Err(Refusal::new(
                format!("device {} has {size} blocks", name()),
                format!("{expected} blocks, as when it joined"),
                "Restore the device to its full size. Nothing was changed",
            ));
        }
        if members[member].replace(device).is_some() {
            return Err(Refusal::new(
                format!("two devices say that they are member {member}"),
                "each member once",
                "Remove the copy. Nothing was changed",
            ));
        }
    }
    Ok((members, removed))
}

/// True if a device was a member that was removed.
fn was_removed(device: &Read, config: &Config) -> bool {
    let mut records = device.records.records.iter();
    records.any(|record| {
        let own = record.members.get(record.member_index as usize);
        let uuid = own.map(|own| own.uuid);
        let mut members = config.members.iter();
        members.any(|it| it.seat.is_removed() && Some(it.uuid) == uuid)
    })
}

/// Returns the member that a device was when it fell behind.
fn behind(device: &Read, config: &Config) -> Option<usize> {
    let mut members = device.records.records.iter().filter_map(|record| {
        let index = record.member_index as usize;
        let (then, now) = (record.members.get(index)?, config.members.get(index)?);
        (then.uuid == now.uuid && !now.seat.is_current()).then_some(index)
    });
    members.next_back()
}

/// Refuses a device that is behind, but went on without any of those that are current.
fn refuse_split(name: &str, device: &Read, config: &Config) -> Result<(), Refusal> {
    let superblocks = device.superblocks.found.iter();
    let Some(newest) = superblocks.max_by_key(|superblock| superblock.cp) else {
        return Ok(());
    };
    let own = device.record_of(newest.epoch, None);
    if own.is_none_or(|own| !went_on_apart(own, config)) {
        return Ok(());
    }
    Err(Refusal::new(
        format!(
            "device {name} was written without the others, up to consistency point {}",
            newest.cp
        ),
        format!(
            "a device that stopped when the others of aggregate {} went on without it",
            config.name
        ),
        "Both have writes that the other lacks: choose which to keep, and take the other devices \
         away. Nothing was changed",
    ))
}

/// True if a member went on by itself: no member is current in both records, and one that is behind
/// in its own record is current now without having caught up since. A drive that got the seat of
/// another one is another member, which has caught up if it is current.
fn went_on_apart(own: &Config, now: &Config) -> bool {
    let both = || own.members.iter().zip(&now.members);
    let mut current = both().filter(|(_, now)| now.seat.is_current());
    let has_returned = |own: &Member, now: &Member| match own.uuid == now.uuid {
        true => own.seat.returns != now.seat.returns,
        false => now.seat.is_later_than(own.seat),
    };
    let is_met = both()
        .any(|(own, now)| own.uuid == now.uuid && own.seat.is_current() && now.seat.is_current());
    !is_met && current.any(|(own, now)| !has_returned(own, now))
}

/// The refusal of a device that is no member in the aggregate's epoch.
fn no_member(name: &str, device: &Read, config: &Config) -> Refusal {
    if device.record_of(config.epoch, None).is_some() {
        return Refusal::new(
            format!("the label of device {name} differs from the others of its epoch"),
            "one description of the aggregate on all its devices",
            RESTORE,
        );
    }
    let epochs = device.records.records.iter().map(|record| record.epoch);
    match epochs.filter(|epoch| *epoch < config.epoch).max() {
        Some(epoch) => Refusal::new(
            format!("device {name} was last a member in epoch {epoch}"),
            format!("epoch {}", config.epoch),
            "This device missed changes; put the current device in its place. Nothing was changed",
        ),
        None => Refusal::new(
            format!("device {name} was about to be added when the change was interrupted"),
            format!("a device of aggregate {}", config.name),
            "Leave the device out, and add it again when the aggregate is online. Nothing was \
             changed",
        ),
    }
}

/// Returns the members that are there and current, with their indices.
pub(super) fn usable<'a>(config: &Config, members: &[Option<&'a Read>]) -> Vec<(usize, &'a Read)> {
    let seats = config.members.iter().zip(members).enumerate();
    let usable = seats.filter_map(|(index, (member, read))| {
        let read = (*read)?;
        member.seat.is_current().then_some((index, read))
    });
    usable.collect()
}

/// Refuses a set of devices that does not suffice. `agrees` says that the caller saw the pool shut
/// down in the state that was found.
pub(super) fn check_missing(
    config: &Config,
    members: &[Option<&Read>],
    missing: Missing,
    agrees: bool,
) -> Result<(), Refusal> {
    let is_removed = |index: usize| config.members[index].seat.is_removed();
    let is_there = |index: usize| members[index].is_some() || is_removed(index);
    let is_current = |index: usize| config.members[index].seat.is_current();
    let count = members.len();
    let absent = (0..count).filter(|index| !is_there(*index)).count();
    let all = (0..count).filter(|index| !is_removed(*index)).count();
    if absent == 0 {
        return Ok(());
    }
    let found = format!(
        "{absent} of {all} devices of aggregate {} are missing",
        config.name
    );
    if !config.has_groups() {
        return Err(Refusal::new(
            found,
            "all of them, since the aggregate has no redundancy",
            "Bring the missing devices back. Nothing was changed",
        ));
    }
    let is_usable = |member: &u32| is_there(*member as usize) && is_current(*member as usize);
    let has_drive = |member: u32| match config.parity_group_of(member) {
        _ if config.is_removed(member) => true,
        None => config.copies_of(member).iter().any(is_usable),
        Some(group) => group.all().filter(is_usable).count() >= group.data.len(),
    };
    if !(0..).take(count).all(has_drive) {
        let expected = match config.has_parity() {
            true => "no more drives of a group missing or behind than it has parity",
            false => "at least one drive of each mirror that has everything",
        };
        return Err(Refusal::new(
            found,
            expected,
            "Bring the missing devices back. Nothing was changed",
        ));
    }
    let current = (0..count).filter(|index| is_current(*index));
    let (there, missed): (Vec<usize>, Vec<usize>) = current.partition(|index| is_there(*index));
    let is_safe = missed.is_empty() || there.len() > missed.len() || agrees;
    if is_safe || missing == Missing::Allowed {
        return Ok(());
    }
    Err(Refusal {
        can_be_degraded: true,
        ..Refusal::new(
            found,
            "more than half of the drives, or those of the last clean shutdown, because the \
             missing ones may have newer data",
            "Bring the missing devices back. Nothing was changed",
        )
    })
}

#[cfg(test)]
mod tests {
    use everglade_format::SeatState;

    use super::*;
    use crate::media::layout::tests::{mirror, two_devices};
    use crate::mount::records::{Records, Superblocks};

    fn read(device: u32, record: Config) -> Read {
        Read {
            records: Records::of(DeviceId(device), vec![record]),
            superblocks: Superblocks {
                found: Vec::new(),
                complaint: None,
            },
            is_joining: false,
        }
    }

    fn check(config: &Config, there: &[bool], missing: Missing, agrees: bool) -> bool {
        let reads: Vec<Read> = (0..2).map(|index| read(index, config.clone())).collect();
        let members = there.iter().zip(&reads);
        let members: Vec<Option<&Read>> =
            members.map(|(there, read)| there.then_some(read)).collect();
        check_missing(config, &members, missing, agrees).is_ok()
    }

    #[test]
    fn a_drive_that_is_missed_is_no_reason_to_refuse_if_nothing_can_be_lost() {
        let config = mirror().config;
        assert!(check(&config, &[true, true], Missing::IfSafe, false));
        assert!(
            !check(&config, &[true, false], Missing::IfSafe, false),
            "a half"
        );
        assert!(check(&config, &[true, false], Missing::IfSafe, true));
        assert!(check(&config, &[true, false], Missing::Allowed, false));
        assert!(!check(&config, &[false, false], Missing::Allowed, true));
        let alone = two_devices().config;
        assert!(!check(&alone, &[true, false], Missing::Allowed, true));
    }

    #[test]
    fn a_refusal_says_whether_the_devices_would_suffice_for_a_mirror_that_is_degraded() {
        let refusal = |config: &Config, there: [bool; 2]| {
            let reads = [read(0, config.clone()), read(1, config.clone())];
            let members = [0, 1].map(|index| there[index].then_some(&reads[index]));
            check_missing(config, &members, Missing::IfSafe, false).expect_err("refused")
        };
        let config = mirror().config;
        assert!(refusal(&config, [true, false]).can_be_degraded);
        assert!(!refusal(&config, [false, false]).can_be_degraded);
        let alone = two_devices().config;
        assert!(!refusal(&alone, [true, false]).can_be_degraded);
    }

    #[test]
    fn what_is_behind_is_not_missed_and_is_not_enough() {
        let mut config = mirror().config;
        config.members[0].seat.state = SeatState::Behind;
        assert!(check(&config, &[false, true], Missing::IfSafe, false));
        assert!(!check(&config, &[true, false], Missing::Allowed, true));
    }

    /// Drive 0 has the superblock of epoch 2, in which drive 1 is behind. In epoch `epoch` drive 0
    /// is behind, and drive 1 has returned `returns` times.
    fn is_split(epoch: u64, returns: u16) -> bool {
        let with = |epoch: u64, behind: usize, returns: u16| {
            let mut config = mirror().config;
            config.epoch = epoch;
            config.members[behind].seat.state = SeatState::Behind;
            config.members[1].seat.returns = returns;
            config
        };
        let mut device = read(0, with(2, 1, 0));
        let superblock = crate::mount::labels::tests::superblock(7, 2);
        device.superblocks.found.push(superblock);
        refuse_split("a", &device, &with(epoch, 0, returns)).is_err()
    }

    #[test]
    fn parts_that_went_on_without_each_other_are_told_from_drives_that_took_turns() {
        assert!(is_split(2, 0) && is_split(3, 0));
        assert!(!is_split(4, 1), "drive 1 caught up with drive 0");
    }

    #[test]
    fn a_part_that_got_a_third_drive_is_still_another_part() {
        let record = |states: [(bool, u16); 3]| {
            let mut config = mirror().config;
            let third = config.members[1].clone();
            config.members.push(third);
            for (member, (is_current, returns)) in config.members.iter_mut().zip(states) {
                member.seat.state = match is_current {
                    true => SeatState::Current,
                    false => SeatState::Behind,
                };
                member.seat.returns = returns;
            }
            config
        };
        let alone = record([(true, 0), (false, 0), (false, 0)]);
        let is_apart = |now| went_on_apart(&alone, &record(now));
        assert!(is_apart([(false, 0), (true, 0), (true, 0)]));
        assert!(
            is_apart([(false, 0), (true, 0), (true, 1)]),
            "1 never returned"
        );
        assert!(!is_apart([(false, 0), (true, 1), (false, 0)]));
        assert!(!is_apart([(false, 0), (true, 1), (true, 1)]));
        let two = record([(true, 0), (false, 0), (true, 0)]);
        let now = record([(false, 0), (true, 0), (true, 0)]);
        assert!(!went_on_apart(&two, &now), "drive 2 knows both");
    }

    /// Drive 1 has had its seat replaced by another one. Drive 0 was away.
    #[test]
    fn a_drive_that_got_a_seat_is_not_the_one_that_had_it() {
        let record = |states: [(bool, u16, u8); 2]| {
            let mut config = mirror().config;
            for (member, (is_current, returns, uuid)) in config.members.iter_mut().zip(states) {
                let state = match is_current {
                    true => SeatState::Current,
                    false => SeatState::Behind,
                };
                (member.seat.state, member.seat.returns) = (state, returns);
                member.uuid = [uuid; 16];
            }
            config
        };
        // Drive 0 went on alone, then 6 came for 5 and caught up from it.
        let alone = record([(true, 0, 4), (false, 0, 5)]);
        let later = record([(false, 0, 4), (true, 1, 6)]);
        assert!(!went_on_apart(&alone, &later));
        assert_eq!(behind(&read(0, alone.clone()), &later), Some(0));
        let replaced = Config {
            member_index: 1,
            ..alone.clone()
        };
        assert_eq!(behind(&read(1, replaced), &later), None, "it is no member");
        // 5 was started alone by hand, without 0 and 6, which are the other part.
        let other = record([(true, 0, 4), (true, 1, 6)]);
        let now = record([(false, 0, 4), (true, 0, 5)]);
        assert!(went_on_apart(&other, &now), "5 never was with 6");
        // Drives 4 and 5 are one part; 6 has caught up with the other.
        let both = record([(true, 0, 4), (true, 0, 5)]);
        assert!(
            !went_on_apart(&both, &later),
            "5 fell behind, and was replaced"
        );
    }

    #[test]
    fn a_device_that_is_behind_is_known_by_an_older_record() {
        let old = mirror().config;
        let mut now = old.clone();
        now.epoch = 2;
        now.members[0].seat.state = SeatState::Behind;
        assert_eq!(behind(&read(0, old.clone()), &now), Some(0));
        let second = Config {
            member_index: 1,
            ..old
        };
        assert_eq!(behind(&read(1, second), &now), None, "it is current");
    }
}
