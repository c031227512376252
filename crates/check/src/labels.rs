//! Labels: from devices to the newest config record and the newest superblock.
//!
//! The newest valid config record of any member says what the aggregate consists of; the superblock
//! of the highest consistency point on any member is its root. Both have several copies. A power
//! cut may leave an old or torn copy of a superblock, so such a copy is a warning. A config record
//! is written when the aggregate is created, so a missing or damaged copy was lost later. This is a
//! problem, although one copy is enough to open the device and the next start of the daemon writes
//! the lost copy anew. Copies of the same age that differ are problems.

use everglade_env::{DeviceId, DiskError, Storage};
use everglade_format::config::{CONFIG_BYTES, hex};
use everglade_format::damage::Writer;
use everglade_format::label::{
    CONFIG_OFFSETS, LABEL_BLOCKS, LABEL_BYTES, SUPERBLOCK_OFFSETS, config_slot, label_offsets,
    superblock_slot,
};
use everglade_format::{BLOCK_SIZE, Config, Damage, Superblock, TagKey};

use crate::findings::Findings;
use crate::problem::{Kind, Object, ProblemPlace};
use crate::unreadable::Unreadable;

/// The place of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) device: DeviceId,
    /// Byte on the device.
    pub(crate) offset: u64,
    /// 0 or 1 by epoch or consistency point.
    pub(crate) slot: usize,
}

/// The contents of a site.
#[derive(Debug)]
pub(crate) enum Copy<T> {
    Absent,
    Damaged(Damage),
    Failed(DiskError),
    Valid(T),
}

impl<T> Copy<T> {
    fn of(decoded: Result<Option<T>, Damage>) -> Self {
        match decoded {
            Ok(Some(value)) => Copy::Valid(value),
            Ok(None) => Copy::Absent,
            Err(damage) => Copy::Damaged(damage),
        }
    }

    pub(crate) fn valid(&self) -> Option<&T> {
        match self {
            Copy::Valid(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn trouble(&self) -> String {
        match self {
            Copy::Absent => "nothing".into(),
            Copy::Damaged(damage) => damage.to_string(),
            Copy::Failed(error) => error.to_string(),
            Copy::Valid(_) => "a valid copy".into(),
        }
    }
}

/// The contents of all labels of an aggregate.
pub(crate) struct Labels {
    /// The newest record.
    pub(crate) config: Config,
    pub(crate) key: TagKey,
    /// Devices in the order of the member table.
    pub(crate) devices: Vec<DeviceId>,
    /// The newest superblock.
    pub(crate) superblock: Superblock,
    pub(crate) records: Vec<(Site, Copy<Config>)>,
    pub(crate) superblocks: Vec<(Site, Copy<Superblock>)>,
}

pub(crate) fn read(
    storage: &dyn Storage,
    devices: &[DeviceId],
    findings: &mut Findings,
) -> Result<Labels, Unreadable> {
    let mut records = Vec::new();
    for device in devices {
        records.extend(records_of(storage, *device)?);
    }
    let config = newest_config(&records)?;
    let members = seat(storage, &config, devices, &records)?;
    let key = TagKey::new(&config.secret);
    let mut superblocks = Vec::new();
    for device in &members {
        superblocks.extend(superblocks_of(storage, *device, &key, &config));
    }
    let newest = superblocks
        .iter()
        .filter_map(|(_, copy)| copy.valid())
        .max_by_key(|superblock| superblock.cp);
    let Some(superblock) = newest.cloned() else {
        let found = superblocks
            .iter()
            .map(|(site, copy)| format!("byte {}: {}", site.offset, copy.trouble()));
        return Err(Unreadable::NoSuperblock {
            found: found.take(4).collect::<Vec<_>>().join("; "),
        });
    };
    let labels = Labels {
        config,
        key,
        devices: members,
        superblock,
        records,
        superblocks,
    };
    labels.compare_records(findings);
    labels.compare_superblocks(findings);
    labels.check_extents(findings);
    Ok(labels)
}

fn sites(storage: &dyn Storage, device: DeviceId, offsets: [u64; 2]) -> Vec<Site> {
    let labels = label_offsets(storage.size_bytes(device));
    let site = |label: u64, slot: usize| Site {
        device,
        offset: label + offsets[slot],
        slot,
    };
    labels
        .into_iter()
        .flat_map(|label| [site(label, 0), site(label, 1)])
        .collect()
}

fn records_of(
    storage: &dyn Storage,
    device: DeviceId,
) -> Result<Vec<(Site, Copy<Config>)>, Unreadable> {
    let size_bytes = storage.size_bytes(device);
    if size_bytes < 2 * LABEL_BYTES {
        return Err(Unreadable::TooSmall { device, size_bytes });
    }
    let mut bytes = vec![0; CONFIG_BYTES];
    let mut read = |site: Site| match storage.read(device, site.offset, &mut bytes) {
        Ok(()) => (site, Copy::of(Config::decode(&bytes))),
        Err(error) => (site, Copy::Failed(error)),
    };
    let records: Vec<_> = sites(storage, device, CONFIG_OFFSETS)
        .into_iter()
        .map(&mut read)
        .collect();
    // One newer record is enough: the records beside it are older, and an upgrade may have been
    // interrupted. An older record counts only if no other can be read.
    let is_readable = records.iter().any(|(_, copy)| copy.valid().is_some());
    for (_, copy) in &records {
        if let Copy::Damaged(damage) = copy
            && match damage.writer {
                Writer::Newer => true,
                Writer::Older => !is_readable,
                Writer::Same => false,
            }
        {
            return Err(Unreadable::Version {
                device,
                expected: format!("{} {}", damage.what, damage.expected),
                found: format!("{} {}", damage.what, damage.found),
            });
        }
    }
    if is_readable {
        return Ok(records);
    }
    for (site, copy) in &records {
        if let Copy::Failed(error) = copy {
            return Err(Unreadable::Disk {
                device,
                offset: site.offset,
                error: *error,
            });
        }
    }
    let found = records
        .iter()
        .find(|(_, copy)| !matches!(copy, Copy::Absent))
        .map_or_else(|| "nothing".into(), |(_, copy)| copy.trouble());
    Err(Unreadable::NoLabel { device, found })
}

fn newest_config(records: &[(Site, Copy<Config>)]) -> Result<Config, Unreadable> {
    let valid = || {
        records
            .iter()
            .filter_map(|(site, copy)| copy.valid().map(|config| (site.device, config)))
    };
    let Some((_, first)) = valid().next() else {
        return Err(Unreadable::NoDevices);
    };
    if let Some((device, other)) = valid().find(|(_, config)| config.uuid != first.uuid) {
        return Err(Unreadable::Foreign {
            device,
            expected: hex(&first.uuid),
            found: hex(&other.uuid),
        });
    }
    let newest = valid().map(|(_, config)| config).max_by_key(|c| c.epoch);
    Ok(newest.unwrap_or(first).clone())
}

/// Puts each device on its place in the member table.
fn seat(
    storage: &dyn Storage,
    config: &Config,
    devices: &[DeviceId],
    records: &[(Site, Copy<Config>)],
) -> Result<Vec<DeviceId>, Unreadable> {
    let mut seats: Vec<Option<DeviceId>> = vec![None; config.members.len()];
    for device in devices {
        let own = records
            .iter()
            .filter(|(site, _)| site.device == *device)
            .filter_map(|(_, copy)| copy.valid())
            .max_by_key(|record| record.epoch);
        let member = own.map_or(u32::MAX, |record| record.member_index);
        match seats.get_mut(member as usize) {
            Some(seat) if seat.is_none() => *seat = Some(*device),
            _ => {
                return Err(Unreadable::Member {
                    device: *device,
                    member,
                    members: config.members.len(),
                });
            }
        }
        let found = storage.size_bytes(*device) / BLOCK_SIZE as u64;
        let expected = config.members[member as usize].size_blocks;
        if found < expected {
            return Err(Unreadable::Shrunk {
                device: *device,
                expected,
                found,
            });
        }
    }
    let mut members = Vec::new();
    for (member, seat) in (0..).zip(seats) {
        members.push(seat.ok_or(Unreadable::Missing { member })?);
    }
    Ok(members)
}

fn superblocks_of(
    storage: &dyn Storage,
    device: DeviceId,
    key: &TagKey,
    config: &Config,
) -> Vec<(Site, Copy<Superblock>)> {
    let mut block = [0; BLOCK_SIZE];
    let mut read = |site: Site| match storage.read(device, site.offset, &mut block) {
        Ok(()) => (
            site,
            Copy::of(Superblock::decode(&block, key, &config.uuid)),
        ),
        Err(error) => (site, Copy::Failed(error)),
    };
    sites(storage, device, SUPERBLOCK_OFFSETS)
        .into_iter()
        .map(&mut read)
        .collect()
}

impl Labels {
    fn compare_records(&self, findings: &mut Findings) {
        let newest = self.config.epoch;
        for (site, copy) in &self.records {
            let object = Object::Device(site.device);
            let place = ProblemPlace::at_offset(site.offset);
            let in_its_slot = site.slot == config_slot(newest);
            let expected = format_args!("config record of epoch {newest}");
            match copy {
                Copy::Valid(record) if config_slot(record.epoch) != site.slot => {
                    let slot = config_slot(record.epoch);
                    let found = format_args!("slot {}", site.slot);
                    let expected = format_args!("epoch {} in slot {slot}", record.epoch);
                    findings.add(Kind::LabelSlot, &object, place, expected, found);
                }
                Copy::Valid(record) if record.epoch == newest => {
                    let mut same = self.config.clone();
                    same.member_index = self.member_of(site.device);
                    if same != *record {
                        let expected = format_args!("{same:?}");
                        let found = format_args!("{record:?}");
                        findings.add(Kind::LabelCopiesDiffer, &object, place, expected, found);
                    }
                }
                Copy::Valid(record) if in_its_slot => {
                    let found = format_args!("epoch {}", record.epoch);
                    findings.add(Kind::LabelStale, &object, place, expected, found);
                }
                Copy::Valid(_) => {}
                Copy::Absent if !in_its_slot => {}
                Copy::Absent | Copy::Damaged(_) | Copy::Failed(_) => {
                    let expected = format_args!("a config record in slot {}", site.slot);
                    findings.add(Kind::LabelDamaged, &object, place, expected, copy.trouble());
                }
            }
        }
    }

    fn compare_superblocks(&self, findings: &mut Findings) {
        let newest = self.superblock.cp;
        for (site, copy) in &self.superblocks {
            let object = Object::Device(site.device);
            let place = ProblemPlace::at_offset(site.offset);
            let in_its_slot = site.slot == superblock_slot(newest);
            let expected = format_args!("superblock of consistency point {newest}");
            match copy {
                Copy::Valid(it) if superblock_slot(it.cp) != site.slot => {
                    let slot = superblock_slot(it.cp);
                    let found = format_args!("slot {}", site.slot);
                    let expected = format_args!("consistency point {} in slot {slot}", it.cp);
                    findings.add(Kind::SuperblockSlot, &object, place, expected, found);
                }
                Copy::Valid(it) if it.cp == newest => {
                    if *it != self.superblock {
                        let kind = Kind::SuperblockCopiesDiffer;
                        let expected = format_args!("{:?}", self.superblock);
                        findings.add(kind, &object, place, expected, format_args!("{it:?}"));
                    }
                }
                Copy::Valid(it) if in_its_slot => {
                    let found = format_args!("consistency point {}", it.cp);
                    findings.add(Kind::SuperblockStale, &object, place, expected, found);
                }
                Copy::Valid(_) => {}
                Copy::Absent if !in_its_slot => {}
                Copy::Absent => {
                    findings.add(Kind::SuperblockStale, &object, place, expected, "nothing");
                }
                Copy::Damaged(_) | Copy::Failed(_) => {
                    let kind = Kind::SuperblockDamaged;
                    let expected = format_args!("a superblock in slot {}", site.slot);
                    findings.add(kind, &object, place, expected, copy.trouble());
                }
            }
        }
        if self.superblock.epoch > self.config.epoch {
            let expected = format_args!("config epoch of at least {}", self.superblock.epoch);
            let found = self.config.epoch;
            findings.add(
                Kind::EpochAhead,
                &Object::Aggregate,
                ProblemPlace::NONE,
                expected,
                found,
            );
        }
    }

    /// Extents were checked to lie inside their members; here: outside labels, journal and each
    /// other.
    fn check_extents(&self, findings: &mut Findings) {
        let journal = &self.config.journal;
        let mut taken = Vec::new();
        for (member, entry) in (0u32..).zip(&self.config.members) {
            let last = entry.size_blocks.saturating_sub(LABEL_BLOCKS);
            taken.push((member, 0, LABEL_BLOCKS, "label"));
            taken.push((member, last, entry.size_blocks, "label's copy"));
        }
        if journal.blocks > 0 {
            let end = journal.first.0.saturating_add(journal.blocks);
            taken.push((journal.member, journal.first.0, end, "journal"));
        }
        for extent in &self.config.extents {
            let end = extent.first_dbn.0 + extent.length;
            taken.push((extent.member, extent.first_dbn.0, end, "extent"));
        }
        taken.sort_unstable();
        for pair in taken.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            if a.0 == b.0 && a.2 > b.1 {
                let expected = format_args!("{} of member {} from dbn {} on", b.3, b.0, a.2);
                let found = format_args!("from dbn {} on, inside {}", b.1, a.3);
                let object = Object::Aggregate;
                findings.add(
                    Kind::ExtentsCollide,
                    &object,
                    ProblemPlace::NONE,
                    expected,
                    found,
                );
            }
        }
    }

    /// The aggregate's name: the one in the superblock if the name was changed, otherwise the first
    /// name, which the labels keep.
    pub(crate) fn name(&self) -> &str {
        self.superblock.name.as_ref().unwrap_or(&self.config.name)
    }

    fn member_of(&self, device: DeviceId) -> u32 {
        let seat = self.devices.iter().position(|seated| *seated == device);
        seat.and_then(|seat| u32::try_from(seat).ok())
            .unwrap_or(u32::MAX)
    }
}
