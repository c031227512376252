//! Reading the labels of a set of devices: which aggregate they belong to, and whether all its
//! members are present (docs/design/design.md §4).
//!
//! Every refusal has three parts: found, expected and remedy. Labels are only read here.

use everglade_env::{BLOCK_SIZE, DeviceId, Storage};
use everglade_format::config::{CONFIG_BYTES, hex};
use everglade_format::damage::Writer;
use everglade_format::label::{CONFIG_OFFSETS, LABEL_BLOCKS, SUPERBLOCK_OFFSETS, label_offsets};
use everglade_format::{Config, Damage, FORMAT_VERSION, Superblock, TagKey};

/// The reasons why an aggregate cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found}; expected {expected}. {remedy}")]
pub struct Refusal {
    /// State found on the devices.
    pub found: String,
    /// State expected.
    pub expected: String,
    /// Remedy for the administrator.
    pub remedy: String,
    /// The consistency point of the devices, if they are refused only because it is older than
    /// [`Expected::cp`].
    pub rolled_back_to: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Refusal {
            found: found.into(),
            expected: expected.into(),
            remedy: remedy.into(),
            rolled_back_to: None,
        }
    }
}

/// A whole set of labels.
pub(crate) struct Labels {
    pub(crate) config: Config,
    /// Device of each member.
    pub(crate) devices: Vec<DeviceId>,
    pub(crate) superblock: Superblock,
}

const RESTORE: &str = "Check that the devices are the right ones and that none was overwritten; \
                       `everglade check` says more. Nothing was changed";

fn read_config(storage: &dyn Storage, device: DeviceId) -> Result<Config, Refusal> {
    let size = storage.size_bytes(device);
    let mut newest: Option<Config> = None;
    let (mut complaint, mut older) = (None, None);
    if size >= 2 * everglade_format::label::LABEL_BYTES {
        for label in label_offsets(size) {
            for slot in CONFIG_OFFSETS {
                let mut bytes = vec![0; CONFIG_BYTES];
                if let Err(error) = storage.read(device, label + slot, &mut bytes) {
                    complaint.get_or_insert(format!("device {}: {error}", storage.name(device)));
                    continue;
                }
                match Config::decode(&bytes) {
                    Ok(Some(config)) if newest.as_ref().is_none_or(|n| n.epoch < config.epoch) => {
                        newest = Some(config);
                    }
                    Ok(_) => {}
                    Err(damage) if damage.writer == Writer::Newer => {
                        return Err(of_another(&storage.name(device), &damage));
                    }
                    Err(damage) if damage.writer == Writer::Older => {
                        older.get_or_insert(of_another(&storage.name(device), &damage));
                    }
                    Err(damage) => {
                        complaint
                            .get_or_insert(format!("device {}: {damage}", storage.name(device)));
                    }
                }
            }
        }
    }
    newest.ok_or_else(|| {
        older.unwrap_or_else(|| {
            let found = complaint.unwrap_or_else(|| {
                format!("device {} has no Everglade label", storage.name(device))
            });
            let expected =
                format!("the label of an Everglade device of format version {FORMAT_VERSION}");
            Refusal::new(found, expected, RESTORE)
        })
    })
}

/// Returns the refusal for labels of a format version that this build does not support. One newer
/// record is enough: the records beside it are older, and an upgrade may have been interrupted. An
/// older record counts only if this build understands no other.
fn of_another(device: &str, damage: &Damage) -> Refusal {
    let remedy = match damage.writer {
        Writer::Older => {
            "It is from before the format was frozen: copy the data out with the everglade that \
            wrote it, and create the aggregate anew. Nothing was changed"
        }
        Writer::Newer | Writer::Same => {
            "Run the newer everglade that wrote it. Nothing was changed"
        }
    };
    Refusal::new(
        format!("device {device} has {} {}", damage.what, damage.found),
        format!("{} {}", damage.what, damage.expected),
        remedy,
    )
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

fn compare(expected: &Expected, found: &Config) -> Result<(), Refusal> {
    if found.uuid != expected.uuid {
        return Err(Refusal::new(
            format!(
                "the devices hold aggregate {} ({})",
                found.name,
                hex(&found.uuid)
            ),
            format!("the aggregate with UUID {}", hex(&expected.uuid)),
            "Put the right devices in place. Nothing was changed",
        ));
    }
    if found.epoch < expected.epoch {
        return Err(Refusal::new(
            format!(
                "the devices of aggregate {} are of membership epoch {}",
                found.name, found.epoch
            ),
            format!("epoch {}, which was seen before", expected.epoch),
            "These are old copies; put the current devices in place. Nothing was changed",
        ));
    }
    Ok(())
}

/// Reads and compares the labels of the devices given as one aggregate.
pub(crate) fn read(
    storage: &dyn Storage,
    devices: &[DeviceId],
    expected: Option<&Expected>,
) -> Result<Labels, Refusal> {
    let mut configs = Vec::new();
    for device in devices {
        configs.push((read_config(storage, *device)?, *device));
    }
    let Some(newest) = configs
        .iter()
        .map(|(config, _)| config)
        .max_by_key(|config| config.epoch)
        .cloned()
    else {
        return Err(Refusal::new(
            "no device",
            "the devices of an aggregate",
            "Name at least one device",
        ));
    };
    if let Some(expected) = expected {
        compare(expected, &newest)?;
    }
    let mut members: Vec<Option<DeviceId>> = vec![None; newest.members.len()];
    for (config, device) in &configs {
        if config.uuid != newest.uuid {
            return Err(Refusal::new(
                format!(
                    "device {} belongs to aggregate {} ({})",
                    storage.name(*device),
                    config.name,
                    hex(&config.uuid)
                ),
                format!(
                    "a device of aggregate {} ({})",
                    newest.name,
                    hex(&newest.uuid)
                ),
                "Give each aggregate its own devices. Nothing was changed",
            ));
        }
        if config.epoch != newest.epoch {
            return Err(Refusal::new(
                format!(
                    "device {} was last a member in epoch {}",
                    storage.name(*device),
                    config.epoch
                ),
                format!("epoch {}", newest.epoch),
                "This device missed changes; put the current device in its place. Nothing was \
                changed",
            ));
        }
        let own = config.member_index;
        let is_same = *config
            == Config {
                member_index: own,
                ..newest.clone()
            };
        if !is_same {
            return Err(Refusal::new(
                format!(
                    "the label of device {} differs from the others of its epoch",
                    storage.name(*device)
                ),
                "one description of the aggregate on all its devices",
                RESTORE,
            ));
        }
        let member = config.member_index as usize;
        let size = storage.size_bytes(*device) / BLOCK_SIZE as u64;
        if size < newest.members[member].size_blocks {
            return Err(Refusal::new(
                format!("device {} has {size} blocks", storage.name(*device)),
                format!(
                    "{} blocks, as when it joined",
                    newest.members[member].size_blocks
                ),
                "Restore the device to its full size. Nothing was changed",
            ));
        }
        if members[member].replace(*device).is_some() {
            return Err(Refusal::new(
                format!("two devices say that they are member {member}"),
                "each member once",
                "Remove the copy. Nothing was changed",
            ));
        }
    }
    let missing = members.iter().filter(|member| member.is_none()).count();
    if missing > 0 {
        return Err(Refusal::new(
            format!(
                "{missing} of {} devices of aggregate {} are missing",
                members.len(),
                newest.name
            ),
            "all of them, since the aggregate has no redundancy",
            "Bring the missing devices back. Nothing was changed",
        ));
    }
    check_extents(&newest)?;
    let devices: Vec<DeviceId> = members.into_iter().flatten().collect();
    let superblock = read_superblock(storage, &newest, &devices)?;
    if let Some(expected) = expected {
        refuse_rollback(expected, &newest, &superblock)?;
    }
    Ok(Labels {
        config: newest,
        devices,
        superblock,
    })
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

fn read_superblock(
    storage: &dyn Storage,
    config: &Config,
    devices: &[DeviceId],
) -> Result<Superblock, Refusal> {
    let key = TagKey::new(&config.secret);
    let mut complaint = String::from("no superblock was ever written");
    // The newest of each member.
    let mut found: Vec<Option<Superblock>> = Vec::new();
    for (member, device) in config.members.iter().zip(devices) {
        let mut newest: Option<Superblock> = None;
        for label in label_offsets(member.size_blocks * BLOCK_SIZE as u64) {
            for slot in SUPERBLOCK_OFFSETS {
                let mut block = [0; BLOCK_SIZE];
                let read = storage.read(*device, label + slot, &mut block);
                if let Err(error) = read {
                    complaint = format!("device {}: {error}", storage.name(*device));
                    continue;
                }
                match Superblock::decode(&block, &key, &config.uuid) {
                    Ok(Some(other)) if newest.as_ref().is_none_or(|n| n.cp < other.cp) => {
                        newest = Some(other);
                    }
                    Ok(_) => {}
                    Err(damage) if damage.is_of_another() => {
                        return Err(of_another(&storage.name(*device), &damage));
                    }
                    Err(damage) => {
                        complaint = format!("device {}: {damage}", storage.name(*device))
                    }
                }
            }
        }
        found.push(newest);
    }
    let newest = found
        .iter()
        .flatten()
        .max_by_key(|superblock| superblock.cp)
        .cloned();
    let newest = newest.ok_or_else(|| {
        Refusal::new(
            complaint,
            "a valid superblock in one of four places of each device",
            RESTORE,
        )
    })?;
    // A cut between the writes of one commit leaves members one apart, and healing before the next
    // keeps it at that; more means that a device missed consistency points, and with them data.
    for (own, device) in found.iter().zip(devices) {
        let cp = own.as_ref().map_or(0, |superblock| superblock.cp.0);
        if cp + 1 < newest.cp.0 {
            return Err(Refusal::new(
                format!(
                    "device {} was last written by consistency point {cp}",
                    storage.name(*device)
                ),
                format!("consistency point {}, as on the other devices", newest.cp),
                "This is an old copy; put the current device in its place. Nothing was changed",
            ));
        }
    }
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
    Ok(newest)
}
