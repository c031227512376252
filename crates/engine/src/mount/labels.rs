//! Reading the labels of a set of devices: which aggregate they belong to, and whether all its
//! members are present (docs/design/design.md §4, decision 0040).
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

use everglade_env::{BLOCK_SIZE, DeviceId, Storage};
use everglade_format::config::hex;
use everglade_format::label::LABEL_BLOCKS;
use everglade_format::{Config, Superblock, TagKey};

use crate::mount::records::{Records, Superblocks};
use crate::mount::refusal::{RESTORE, Refusal};

/// A whole set of labels.
pub(crate) struct Labels {
    pub(crate) config: Config,
    /// Device of each member.
    pub(crate) devices: Vec<DeviceId>,
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
) -> Result<Labels, Refusal> {
    let mut found = Vec::new();
    for device in devices {
        let records = Records::read(storage, *device)?;
        found.push((records.whole(storage)?, false));
    }
    let newest = found
        .iter()
        .flat_map(|(device, _)| &device.records)
        .max_by_key(|config| config.epoch)
        .cloned();
    let newest = newest.ok_or_else(|| {
        Refusal::new(
            "no device",
            "the devices of an aggregate",
            "Name at least one device",
        )
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
    if let Some(expected) = expected {
        compare_epoch(expected, &config)?;
    }
    let members = members(storage, &read, &config)?;
    let missing = members.iter().filter(|member| member.is_none()).count();
    if missing > 0 {
        return Err(Refusal::new(
            format!(
                "{missing} of {} devices of aggregate {} are missing",
                members.len(),
                config.name
            ),
            "all of them, since the aggregate has no redundancy",
            "Bring the missing devices back. Nothing was changed",
        ));
    }
    check_extents(&config)?;
    let members: Vec<&Read> = members.into_iter().flatten().collect();
    check_superblock(&config, &superblock)?;
    let former = former_of(&read, &config);
    check_copies(storage, &members, &superblock, former)?;
    if let Some(expected) = expected {
        refuse_rollback(expected, &config, &superblock)?;
    }
    let mut records = members.iter().flat_map(|device| &device.records.records);
    let has_cut_change = records.any(|record| record.epoch > config.epoch);
    Ok(Labels {
        has_cut_change,
        devices: members.iter().map(|read| read.records.device).collect(),
        config,
        superblock,
    })
}

/// What the labels of one device say.
struct Read {
    records: Records,
    superblocks: Superblocks,
    /// It may turn out not to be a member.
    is_joining: bool,
}

impl Read {
    /// The device's record of an epoch. If copies differ, one that equals `reference`.
    fn record_of(&self, epoch: u64, reference: Option<&Config>) -> Option<&Config> {
        let mut records = self.records.records.iter().filter(|it| it.epoch == epoch);
        let first = records.clone().next();
        let matches = |it: &&Config| reference.is_some_and(|reference| is_same(it, reference));
        records.find(matches).or(first)
    }
}

/// True if two records differ at most in the member that holds them.
fn is_same(one: &Config, other: &Config) -> bool {
    *one == Config {
        member_index: one.member_index,
        ..other.clone()
    }
}

/// Returns the newest superblock.
///
/// One that only a joining device has counts if another device has the record that it names: then
/// it was the first of a commit that was cut, and everything that it needs is on the devices.
/// Otherwise the aggregate was opened without the device since, and went another way.
fn newest_superblock(read: &[Read]) -> Result<Superblock, Refusal> {
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

/// Finds the device of each member.
fn members<'a>(
    storage: &dyn Storage,
    read: &'a [Read],
    config: &Config,
) -> Result<Vec<Option<&'a Read>>, Refusal> {
    let mut members: Vec<Option<&Read>> = vec![None; config.members.len()];
    for device in read {
        let name = || storage.name(device.records.device);
        let Some(own) = device.record_of(config.epoch, Some(config)) else {
            if device.is_joining {
                continue;
            }
            return Err(no_member(&name(), device, config));
        };
        if !is_same(own, config) {
            if device.is_joining {
                // A change that was cut named this device; a later change named others.
                continue;
            }
            return Err(Refusal::new(
                format!(
                    "the label of device {} differs from the others of its epoch",
                    name()
                ),
                "one description of the aggregate on all its devices",
                RESTORE,
            ));
        }
        let member = own.member_index as usize;
        let size = storage.size_bytes(device.records.device) / BLOCK_SIZE as u64;
        let expected = config.members[member].size_blocks;
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
    Ok(members)
}

/// The refusal of a device without a record of the aggregate's epoch.
fn no_member(name: &str, device: &Read, config: &Config) -> Refusal {
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
        wanted.push((
            "the journal",
            journal.member,
            journal.first.0,
            journal.blocks,
        ));
    }
    for extent in &config.extents {
        wanted.push((
            "an extent",
            extent.member,
            extent.first_dbn.0,
            extent.length,
        ));
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

/// Each member has the newest superblock or the one before.
///
/// A cut between the writes of one commit leaves members one apart, and healing before the next
/// keeps it at that; more means that a device missed consistency points, and with them data. A
/// member that joined with the newest superblock may have none yet: then no superblock of this
/// epoch is older, and the record of the former epoch does not name the member. The former record
/// proves nothing if it is nowhere, because the next change overwrites it.
fn check_copies(
    storage: &dyn Storage,
    members: &[&Read],
    newest: &Superblock,
    former: Option<&Config>,
) -> Result<(), Refusal> {
    let all = || members.iter().flat_map(|it| &it.superblocks.found);
    let is_first = !all().any(|it| it.epoch == newest.epoch && it.cp < newest.cp);
    for (index, member) in members.iter().enumerate() {
        let cp = member.superblocks.found.iter().map(|own| own.cp.0).max();
        let is_new = former.is_none_or(|former| index >= former.members.len());
        let has_joined = newest.epoch > 1 && is_new;
        if cp.is_none() && is_first && has_joined {
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
