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
use everglade_format::{Config, Superblock, TagKey};

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
    /// A label has a record of a higher epoch.
    pub(crate) has_cut_change: bool,
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
    let members = members::find(storage, &read, &config)?;
    let agrees = expected.is_some_and(|expected| {
        (expected.epoch, expected.cp) == (config.epoch, superblock.cp.0) && superblock.clean
    });
    members::check_missing(&config, &members, missing, agrees)?;
    check_extents(&config)?;
    check_superblock(&config, &superblock)?;
    let former = former_of(&read, &config);
    let usable = members::usable(&config, &members);
    check_copies(storage, &usable, &superblock, former)?;
    if let Some(expected) = expected {
        refuse_rollback(expected, &config, &superblock)?;
    }
    let mut records = usable
        .iter()
        .flat_map(|(_, device)| &device.records.records);
    let has_cut_change = records.any(|record| record.epoch > config.epoch);
    let devices = members
        .iter()
        .map(|read| Some(read.as_ref()?.records.device));
    let is_astray = |(_, device): &&(usize, &Read)| {
        let found = &device.superblocks.found;
        let is_beyond = found.iter().any(|other| other.cp > superblock.cp);
        let mut twins = found.iter().filter(|other| other.cp == superblock.cp);
        let is_another = twins.any(|other| !other.is_same_commit(&superblock));
        is_beyond || !found.contains(&superblock) && is_another
    };
    let astray = usable.iter().filter(is_astray);
    Ok(Labels {
        astray: astray.map(|(_, device)| device.records.device).collect(),
        has_cut_change,
        devices: devices.collect(),
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
/// counts, then the one that more devices have.
fn newest_superblock(read: &[Read]) -> Result<Superblock, Refusal> {
    let mut records = read.iter().flat_map(|device| &device.records.records);
    if records.any(Config::has_groups) {
        let counts = |(device, it): &(&Read, &Superblock)| !is_overruled(read, device, it.epoch);
        let each = |device| move |it| (device, it);
        let found = read.iter().flat_map(|device| {
            let found = device.superblocks.found.iter();
            found.map(each(device))
        });
        let all = || found.clone().filter(counts).map(|(_, it)| it);
        let holders = |one: &Superblock| all().filter(|other| *other == one).count();
        let newest = all().max_by_key(|it| (it.cp, it.epoch, holders(it)));
        if let Some(newest) = newest {
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

/// True if another device has a record of a later epoch in which `device` is behind. Then its
/// superblocks of this epoch do not count: others have overwritten what they name.
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
        record.epoch > epoch && then.is_some_and(|it| it.uuid == uuid && !it.seat.is_current())
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
    if journal.blocks > 0 {
        for member in config.copies_of(journal.member) {
            wanted.push(("the journal", member, journal.first.0, journal.blocks));
        }
    }
    for extent in &config.extents {
        for member in config.copies_of(extent.member) {
            wanted.push(("an extent", member, extent.first_dbn.0, extent.length));
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
            "two extents, or one and the journal, at {} of member {}",
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
/// former epoch does not name the member, or says that it is behind. The former record proves
/// nothing if it is nowhere, because the next change overwrites it.
fn check_copies(
    storage: &dyn Storage,
    members: &[(usize, &Read)],
    newest: &Superblock,
    former: Option<&Config>,
) -> Result<(), Refusal> {
    let all = || members.iter().flat_map(|(_, it)| &it.superblocks.found);
    let is_first = !all().any(|it| it.epoch == newest.epoch && it.cp < newest.cp);
    for (index, member) in members {
        let cp = member.superblocks.found.iter().map(|own| own.cp.0).max();
        let is_new = former.is_none_or(|former| *index >= former.members.len());
        let then = former.and_then(|former| former.members.get(*index));
        let was_behind = then.is_some_and(|then| !then.seat.is_current());
        let has_joined = newest.epoch > 1 && (was_behind || is_new && cp.is_none());
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
