//! Reading the labels of a set of devices: which aggregate they belong to, and whether enough of
//! its members are present (docs/design/design.md §4, decisions 0040 and 0041).
//!
//! ```text
//! whole records and superblocks of all devices
//!   └▶ the newest superblock ─names─▶ the epoch ─▶ the record of that epoch ─▶ the members
//! ```
//!
//! 1. A record of a higher epoch belongs to a change that was cut before its superblock was
//!    committed. It is ignored here, erased when the aggregate is online ([`super::copies`]), and
//!    overwritten by the next change.
//! 2. A device that was joining may have the superblock of such a change, and may be absent at a
//!    start. So an aggregate with a record of a higher epoch commits a consistency point before it
//!    admits clients. From then on its own superblock is as new, and it wins among equals.
//! 3. Every refusal has three parts: found, expected and remedy. Labels are only read here.

use everglade_env::{DeviceId, Storage};
use everglade_format::config::hex;
use everglade_format::label::LABEL_BLOCKS;
use everglade_format::{Config, Member, SeatState, Superblock, TagKey};

use crate::mount::members::{self, Missing};
use crate::mount::records::{Read, Records, Superblocks};
use crate::mount::refusal::{RESTORE, Refusal};

/// A whole set of labels.
pub(crate) struct Labels {
    pub(crate) config: Config,
    /// Device of each member that is there.
    pub(crate) devices: Vec<Option<DeviceId>>,
    /// Those of them that have another consistency point of the newest number.
    pub(crate) astray: Vec<DeviceId>,
    pub(crate) superblock: Superblock,
    /// Devices that were members, and were removed since.
    pub(crate) removed: Vec<DeviceId>,
    /// The highest epoch of a record; above that of `config` after a change that was cut.
    pub(crate) highest_epoch: u64,
}

/// The caller's record of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its UUID.
    pub uuid: [u8; 16],
    /// The newest membership epoch seen.
    pub epoch: u64,
    /// The newest consistency point seen; 0 if an older copy of the devices is fine.
    pub cp: u64,
}

fn compare_uuid(expected: &Expected, found: &Config) -> Result<(), Refusal> {
    if found.uuid == expected.uuid {
        return Ok(());
    }
    Err(Refusal::new(
        format!(
            "the devices hold aggregate {} ({})",
            found.name,
            hex(&found.uuid)
        ),
        format!("the aggregate with UUID {}", hex(&expected.uuid)),
        "Put the right devices in place. Nothing was changed",
    ))
}

fn compare_epoch(expected: &Expected, found: &Config) -> Result<(), Refusal> {
    if found.epoch >= expected.epoch {
        return Ok(());
    }
    Err(Refusal::new(
        format!(
            "the devices of aggregate {} are of membership epoch {}",
            found.name, found.epoch
        ),
        format!("epoch {}, which was seen before", expected.epoch),
        "These are old copies; put the current devices in place. Nothing was changed",
    ))
}

/// Reads and compares the labels of the devices given as one aggregate. Those of `joining` may turn
/// out not to be members.
pub(crate) fn read(
    storage: &dyn Storage,
    devices: &[DeviceId],
    joining: &[DeviceId],
    expected: Option<&Expected>,
    missing: Missing,
) -> Result<Labels, Refusal> {
    let mut found = Vec::new();
    let mut unreadable = None;
    for device in devices {
        match Records::read(storage, *device)?.whole(storage) {
            Ok(records) => found.push((records, false)),
            Err(refusal) => _ = unreadable.get_or_insert(refusal),
        }
    }
    let newest = found
        .iter()
        .flat_map(|(device, _)| &device.records)
        .max_by_key(|config| config.epoch)
        .cloned();
    let newest = newest.ok_or_else(|| {
        unreadable.clone().unwrap_or_else(|| {
            Refusal::new(
                "no device",
                "the devices of an aggregate",
                "Name at least one device",
            )
        })
    })?;
    if let Some(expected) = expected {
        compare_uuid(expected, &newest)?;
    }
    for (device, _) in &found {
        if let Some(foreign) = device.records.iter().find(|it| it.uuid != newest.uuid) {
            return Err(foreigner(&storage.name(device.device), foreign, &newest));
        }
    }
    for device in joining {
        let mut records = Records::read(storage, *device)?;
        records.records.retain(|it| it.uuid == newest.uuid);
        found.push((records, true));
    }
    let key = TagKey::new(&newest.secret);
    let mut read = Vec::new();
    for (records, is_joining) in found {
        let superblocks = Superblocks::read(storage, &records, &key, &newest.uuid)?;
        read.push(Read {
            records,
            superblocks,
            is_joining,
        });
    }
    let superblock = newest_superblock(&read)?;
    let config = config_of(&read, &superblock)?;
    let by_hand = missing == Missing::Allowed && config.has_groups();
    if let Some(expected) = expected
        && !by_hand
    {
        compare_epoch(expected, &config)?;
    }
    if let Some(refusal) = unreadable
        && !config.has_groups()
    {
        return Err(refusal);
    }
    let (members, removed) = members::find(storage, &read, &config)?;
    let agrees = expected.is_some_and(|expected| {
        (expected.epoch, expected.cp) == (config.epoch, superblock.cp.0) && superblock.clean
    });
    members::check_missing(&config, &members, missing, agrees)?;
    check_extents(&config)?;
    check_superblock(&config, &superblock)?;
    let former = former_of(&read, &config);
    let usable = members::usable(&config, &members);
    check_copies(storage, &usable, &superblock, former, config.has_groups())?;
    if let Some(expected) = expected {
        refuse_rollback(expected, &config, &superblock)?;
    }
    // Devices that are about to join have records that mean nothing to the others.
    let highest_epoch = match config.has_groups() {
        true => highest_of(read.iter()),
        false => highest_of(usable.iter().map(|(_, device)| *device)),
    };
    let is_split = config.has_groups() && newest_counting(&read).is_none();
    let devices = members
        .iter()
        .map(|read| Some(read.as_ref()?.records.device));
    let is_astray = |(_, device): &&(usize, &Read)| {
        let found = &device.superblocks.found;
        let is_beyond = found.iter().any(|other| other.cp > superblock.cp);
        let mut twins = found.iter().filter(|other| other.cp == superblock.cp);
        let is_another = twins.any(|other| !other.is_same_commit(&superblock));
        let mut same = found.iter().filter(|it| it.is_same_commit(&superblock));
        // Those that overrule each other may have overwritten what the newest one names.
        let is_apart = is_split && same.next().is_none();
        is_beyond || is_apart || !found.contains(&superblock) && is_another
    };
    // Parity may have been written without the drive, in a consistency point that was cut.
    let is_left_out = |(index, device): &&(usize, &Read)| {
        let index = u32::try_from(*index).ok();
        let group = index.and_then(|index| config.parity_group_of(index));
        group.is_some() && is_overruled(&read, device, config.epoch)
    };
    let astray = usable.iter().filter(|it| is_astray(it) || is_left_out(it));
    Ok(Labels {
        astray: astray.map(|(_, device)| device.records.device).collect(),
        highest_epoch: highest_epoch.max(config.epoch),
        devices: devices.collect(),
        removed,
        config,
        superblock,
    })
}

/// Returns the newest superblock.
///
/// One that only a joining device has counts if another device has the record that it names: then
/// it was the first of a commit that was cut, and everything that it needs is on the devices.
/// Otherwise the aggregate was opened without the device since, and went another way.
///
/// With groups, two different superblocks may have the same number: one is of a commit that was
/// cut, and its devices were away when the others committed theirs. The one of the higher epoch
/// counts, then the one that more devices have. Those that are overruled come last: all of them
/// are, if devices were opened by hand without each other.
fn newest_superblock(read: &[Read]) -> Result<Superblock, Refusal> {
    let mut records = read.iter().flat_map(|device| &device.records.records);
    if records.any(Config::has_groups) {
        let all = || read.iter().flat_map(|device| &device.superblocks.found);
        if let Some(newest) = newest_counting(read).or_else(|| newest_of(all)) {
            return Ok(newest.clone());
        }
    }
    let is_known = |epoch| {
        let mut others = read.iter().filter(|device| !device.is_joining);
        others.any(|device| device.record_of(epoch, None).is_some())
    };
    let mut newest: Option<&Superblock> = None;
    // Joining devices come last, so that others win among equals.
    for device in read {
        for superblock in &device.superblocks.found {
            let is_newer = newest.is_none_or(|other| other.cp < superblock.cp);
            if is_newer && (!device.is_joining || is_known(superblock.epoch)) {
                newest = Some(superblock);
            }
        }
    }
    newest.cloned().ok_or_else(|| {
        let complaint = read
            .iter()
            .rev()
            .find_map(|device| device.superblocks.complaint.clone());
        Refusal::new(
            complaint.unwrap_or_else(|| "no superblock was ever written".to_owned()),
            "a valid superblock in one of four places of each device",
            RESTORE,
        )
    })
}

/// Returns the newest superblock that is not overruled, if there is one.
fn newest_counting(read: &[Read]) -> Option<&Superblock> {
    newest_of(|| {
        read.iter().flat_map(|device| {
            let found = device.superblocks.found.iter();
            found.filter(|it| !is_overruled(read, device, it.epoch))
        })
    })
}

fn newest_of<'a, I: Iterator<Item = &'a Superblock>>(
    all: impl Fn() -> I,
) -> Option<&'a Superblock> {
    let holders = |one: &Superblock| all().filter(|other| *other == one).count();
    all().max_by_key(|it| (it.cp, it.epoch, holders(it)))
}

fn highest_of<'a>(devices: impl Iterator<Item = &'a Read>) -> u64 {
    let records = devices.flat_map(|device| &device.records.records);
    records.map(|record| record.epoch).max().unwrap_or(0)
}

/// True if another device has a record of a later epoch in which `device` is behind, or in which
/// another drive has its seat: that was recorded after it had fallen behind. Then its superblocks
/// of this epoch do not count: others have overwritten what they name. The same if that record does
/// not know its seat: the drive was to join in an expansion that was cut. A drive that a later
/// record calls removed is not overruled by that: it had everything.
fn is_overruled(read: &[Read], device: &Read, epoch: u64) -> bool {
    let own = device.records.records.first();
    let Some((index, uuid)) = own.and_then(|own| {
        let index = own.member_index as usize;
        Some((index, own.members.get(index)?.uuid))
    }) else {
        return false;
    };
    let others = read
        .iter()
        .filter(|other| other.records.device != device.records.device);
    let mut later = others.flat_map(|other| &other.records.records);
    later.any(|record| {
        let then = record.members.get(index);
        let is_behind = |it: &Member| it.uuid != uuid || it.seat.state != SeatState::Current;
        record.epoch > epoch && then.is_none_or(is_behind)
    })
}

/// Returns the config record that goes with the newest superblock. A device that has that
/// superblock is asked first: a device that is no member has none.
fn config_of(read: &[Read], superblock: &Superblock) -> Result<Config, Refusal> {
    let epoch = superblock.epoch;
    let has_newest = |device: &&Read| device.superblocks.found.contains(superblock);
    let first = read.iter().filter(has_newest);
    let mut records = first.chain(read).filter_map(|it| it.record_of(epoch, None));
    records.next().cloned().ok_or_else(|| {
        let all = read.iter().flat_map(|device| &device.records.records);
        let newest = all.map(|config| config.epoch).max().unwrap_or(0);
        Refusal::new(
            format!("a superblock of membership epoch {epoch}, and labels up to epoch {newest}"),
            format!("the label of epoch {epoch} on at least one device"),
            RESTORE,
        )
    })
}

/// Returns the record of the epoch before, if any label has it: each label keeps two.
fn former_of<'a>(read: &'a [Read], config: &Config) -> Option<&'a Config> {
    let former = config.epoch.checked_sub(1)?;
    read.iter()
        .find_map(|device| device.record_of(former, None))
}

fn foreigner(device: &str, found: &Config, newest: &Config) -> Refusal {
    Refusal::new(
        format!(
            "device {device} belongs to aggregate {} ({})",
            found.name,
            hex(&found.uuid)
        ),
        format!(
            "a device of aggregate {} ({})",
            newest.name,
            hex(&newest.uuid)
        ),
        "Give each aggregate its own devices. Nothing was changed",
    )
}

/// All devices may have an older copy, which nothing on them reveals.
fn refuse_rollback(
    expected: &Expected,
    config: &Config,
    superblock: &Superblock,
) -> Result<(), Refusal> {
    if superblock.cp.0 >= expected.cp {
        return Ok(());
    }
    let name = superblock.name.as_ref().unwrap_or(&config.name);
    let refusal = Refusal::new(
        format!(
            "the devices of aggregate {name} are at consistency point {}",
            superblock.cp
        ),
        format!("at least {}, which was seen before", expected.cp),
        "They are an older copy, or lost their newest superblock, and lack what was written since; \
         put the current devices in place. Nothing was changed",
    );
    Err(Refusal {
        rolled_back_to: Some(superblock.cp.0),
        ..refusal
    })
}

/// Extents and the journal lie apart on their members, and clear of both labels.
fn check_extents(config: &Config) -> Result<(), Refusal> {
    let collision =
        |what: String| Refusal::new(what, "extents apart, and clear of the labels", RESTORE);
    let journal = &config.journal;
    let mut wanted: Vec<(&str, u32, u64, u64)> = Vec::new();
    for member in config.journal_members() {
        wanted.push(("the journal", member, journal.first.0, journal.blocks));
    }
    for extent in &config.extents {
        for member in config.copies_of(extent.member) {
            wanted.push(("an extent", member, extent.first_dbn.0, extent.length));
        }
    }
    for member in (0..).take(config.members.len()) {
        let Some(group) = config.parity_group_of(member) else {
            continue;
        };
        let first = config.raid_log_first(member).0;
        wanted.push(("the RAID log", member, first, config.raid_log_blocks));
        // Parity lies where the data columns have their extents.
        if group.parity.contains(&member) {
            let extents = config.extents.iter();
            let first_column = extents.filter(|extent| extent.member == group.data[0]);
            wanted.extend(
                first_column.map(|extent| ("parity", member, extent.first_dbn.0, extent.length)),
            );
        }
    }
    let mut runs: Vec<(u32, u64, u64)> = Vec::new();
    for (what, member, first, length) in wanted {
        let end = first.saturating_add(length);
        let size = config
            .members
            .get(member as usize)
            .map_or(0, |m| m.size_blocks);
        if first < LABEL_BLOCKS || end > size.saturating_sub(LABEL_BLOCKS) {
            return Err(collision(format!(
                "{what} at {first} of member {member} covers a label"
            )));
        }
        runs.push((member, first, end));
    }
    runs.sort_unstable();
    let overlap = runs
        .windows(2)
        .find(|pair| pair[0].0 == pair[1].0 && pair[0].2 > pair[1].1);
    match overlap {
        Some(pair) => Err(collision(format!(
            "two of extents, parity and logs overlap at {} of member {}",
            pair[1].1, pair[1].0
        ))),
        None => Ok(()),
    }
}

/// Each usable member has the newest superblock or the one before.
///
/// A cut between the writes of one commit leaves members one apart, and healing before the next
/// keeps it at that; more means that a device missed consistency points, and with them data. A
/// member that joined with the newest superblock may have none yet, and a member that caught up
/// with it may have an old one. Then no superblock of this epoch is older, and the record of the
/// former epoch does not name the member. The former record proves nothing if it is nowhere,
/// because the next change overwrites it. With groups a member that was behind then, if that is
/// known, may have any superblock: it got the record of this epoch when it had all blocks of the
/// first consistency point of the epoch.
fn check_copies(
    storage: &dyn Storage,
    members: &[(usize, &Read)],
    newest: &Superblock,
    former: Option<&Config>,
    has_groups: bool,
) -> Result<(), Refusal> {
    let all = || members.iter().flat_map(|(_, it)| &it.superblocks.found);
    let is_first = !all().any(|it| it.epoch == newest.epoch && it.cp < newest.cp);
    for (index, member) in members {
        let cp = member.superblocks.found.iter().map(|own| own.cp.0).max();
        let is_new = former.is_none_or(|former| *index >= former.members.len());
        let then = former.and_then(|former| former.members.get(*index));
        let may_return = has_groups && then.is_none_or(|then| !then.seat.is_current());
        let has_joined = newest.epoch > 1 && (may_return || is_new && cp.is_none());
        if is_first && has_joined {
            continue;
        }
        let cp = cp.unwrap_or(0);
        if cp + 1 < newest.cp.0 {
            return Err(Refusal::new(
                format!(
                    "device {} was last written by consistency point {cp}",
                    storage.name(member.records.device)
                ),
                format!("consistency point {}, as on the other devices", newest.cp),
                "This is an old copy; put the current device in its place. Nothing was changed",
            ));
        }
    }
    Ok(())
}

/// The superblock's numbers fit the config record.
fn check_superblock(config: &Config, newest: &Superblock) -> Result<(), Refusal> {
    if newest.frontiers.len() != config.extents.len() {
        return Err(Refusal::new(
            format!("a superblock for {} extents", newest.frontiers.len()),
            format!("{} extents, as in the label", config.extents.len()),
            RESTORE,
        ));
    }
    let blocks: u64 = config.extents.iter().map(|extent| extent.length).sum();
    let areas = blocks / config.area_blocks;
    if newest.blocks_used > blocks || newest.areas_used > areas {
        return Err(Refusal::new(
            format!(
                "{} blocks in {} areas in use",
                newest.blocks_used, newest.areas_used
            ),
            format!("at most {blocks} blocks in {areas} areas"),
            RESTORE,
        ));
    }
    for (frontier, extent) in newest.frontiers.iter().zip(&config.extents) {
        if u64::from(*frontier) > extent.length / config.area_blocks {
            return Err(Refusal::new(
                format!("frontier {frontier}"),
                "one inside its extent",
                RESTORE,
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use everglade_format::{CpNumber, FileId};

    use super::*;
    use crate::alloc::filesystem::FileSystem;
    use crate::media::layout::tests::mirror;

    /// A superblock of consistency point `cp` and an epoch.
    pub(in crate::mount) fn superblock(cp: u64, epoch: u64) -> Superblock {
        Superblock {
            cp: CpNumber(cp),
            uuid: [1; 16],
            epoch,
            written_seconds: 0,
            clean: false,
            name: None,
            blocks_used: 0,
            areas_used: 0,
            frontiers: vec![0],
            next_file: FileId(100),
            inode_file: FileSystem::empty_inode_file(CpNumber(cp), 0),
            journal_generation: 1,
            journal_sequence: 1,
        }
    }

    /// A drive of a mirror of two, with the record of epoch 1, the superblocks, and the record of
    /// another epoch in which a drive is behind.
    fn drive(number: u32, superblocks: &[(u64, u64)], behind: Option<(u64, usize)>) -> Read {
        let own = Config {
            member_index: number,
            ..mirror().config
        };
        let mut records = vec![own.clone()];
        if let Some((epoch, drive)) = behind {
            let mut record = own;
            record.epoch = epoch;
            record.members[drive].seat.state = SeatState::Behind;
            records.push(record);
        }
        let found = superblocks
            .iter()
            .map(|(cp, epoch)| superblock(*cp, *epoch));
        Read {
            records: Records::of(DeviceId(number), records),
            superblocks: Superblocks {
                found: found.collect(),
                complaint: None,
            },
            is_joining: false,
        }
    }

    fn newest(read: [Read; 2]) -> (u64, u64) {
        let newest = newest_superblock(&read).expect("there is one");
        (newest.cp.0, newest.epoch)
    }

    #[test]
    fn a_superblock_does_not_count_beside_a_later_record_in_which_its_drive_is_behind() {
        let ahead = || drive(0, &[(6, 1), (7, 1)], None);
        assert_eq!(newest([ahead(), drive(1, &[(6, 1)], None)]), (7, 1));
        let other = |behind| drive(1, &[(6, 1)], Some(behind));
        assert_eq!(newest([ahead(), other((2, 0))]), (6, 1));
        assert_eq!(newest([ahead(), other((2, 1))]), (7, 1), "itself");
        let later = || drive(0, &[(7, 2)], None);
        assert_eq!(newest([later(), other((2, 0))]), (7, 2), "the same epoch");
        assert_eq!(newest([later(), other((4, 0))]), (6, 1));
    }

    #[test]
    fn a_superblock_does_not_count_beside_a_later_record_in_which_another_drive_has_the_seat() {
        let replaced = |epoch: u64| {
            let mut other = drive(1, &[(6, 1)], Some((epoch, 0)));
            let later = other.records.records.last_mut().expect("two records");
            later.members[0].uuid = [9; 16];
            other
        };
        let old = || drive(0, &[(9, 2)], None);
        assert_eq!(newest([old(), replaced(3)]), (6, 1));
        assert_eq!(newest([old(), replaced(2)]), (9, 2), "the same epoch");
    }

    #[test]
    fn the_newest_superblock_counts_if_drives_overrule_each_other() {
        let one = || drive(0, &[(7, 1)], Some((4, 1)));
        assert_eq!(newest([one(), drive(1, &[(6, 1)], Some((2, 0)))]), (7, 1));
        assert_eq!(newest([one(), drive(1, &[(7, 3)], Some((2, 0)))]), (7, 3));
    }
}
