//! Labels: from devices to the newest superblock, and to the config record that it goes with.
//!
//! The superblock of the highest consistency point on any device is the aggregate's root. It names
//! an epoch, and the config record of that epoch says what the aggregate consists of. Labels may
//! have whole records of other epochs (decision 0040):
//!
//! | epoch of a record | means |
//! | --- | --- |
//! | one below the superblock's | the composition before the last change |
//! | the superblock's | the composition; each member has it in both copies of its label |
//! | one above | a change that was cut before its superblock was committed; it has no effect |
//! | higher still | a newer superblock existed, and was lost |
//!
//! Records and superblocks have several copies. A power cut may leave an old or torn superblock,
//! and an old or torn record in the slot of the *next* epoch, so these are warnings. The record of
//! the superblock's epoch was durable on all members before the superblock was written. So a
//! missing or damaged copy of it was lost later. This is a problem, although one copy is enough to
//! open the device and the next start of the daemon writes the lost copy anew. Copies of the same
//! age that differ are problems.
//!
//! The copy of a label is at the end that the record names, not at the end of the device. So the
//! verifier looks at both, and at the end that any whole record of the device names
//! ([`copies`]). It compares the copies at the places that the aggregate's record names
//! ([`compare`]). Other places belong to a change before or to one that was cut.
//!
//! A group of drives can spare some of them ([`members`]). What is said above holds for the members
//! that are read. The labels of a member that is behind may be old, or have any contents: it misses
//! the writes to them, too. The verifier uses them to recognise the device, and for nothing else.

mod change;
mod compare;
mod copies;
mod extents;
mod members;

use everglade_env::{DeviceId, Storage};
use everglade_format::config::{Member, hex};
use everglade_format::label::label_offsets;
use everglade_format::{BLOCK_SIZE, Config, Superblock, TagKey};

use self::copies::Records;
pub(crate) use self::copies::{Copy, Site};
use self::members::{Members, Stranger};
pub(crate) use self::members::{Placed, Trouble};
use crate::findings::Findings;
use crate::unreadable::Unreadable;

/// The contents of all labels of an aggregate.
pub(crate) struct Labels {
    /// The record of the superblock's epoch.
    pub(crate) config: Config,
    pub(crate) key: TagKey,
    /// Members in the order of the member table.
    pub(crate) members: Vec<Placed>,
    /// Devices that are no members.
    pub(crate) strangers: Vec<Stranger>,
    /// The newest superblock.
    pub(crate) superblock: Superblock,
    pub(crate) records: Vec<(Site, Copy<Config>)>,
    pub(crate) superblocks: Vec<(Site, Copy<Superblock>)>,
}

/// A member that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drive {
    pub(crate) member: u32,
    pub(crate) device: DeviceId,
}

pub(crate) fn read(
    storage: &dyn Storage,
    devices: &[DeviceId],
    findings: &mut Findings,
) -> Result<Labels, Unreadable> {
    let mut all = Vec::new();
    for device in devices {
        all.push(Records::read(storage, *device)?);
    }
    // All records of an aggregate have the same UUID and secret.
    let any = any_record(&all)?;
    let (key, uuid) = (TagKey::new(&any.secret), any.uuid);
    let mut superblocks = Vec::new();
    for records in &all {
        superblocks.extend(records.superblocks(storage, &key, &uuid));
    }
    let superblock = newest_superblock(&all, &superblocks)?;
    let has_newest = |device: DeviceId| {
        let mut valid = superblocks.iter().filter(|(site, _)| site.device == device);
        valid.any(|(_, copy)| copy.valid() == Some(&superblock))
    };
    let config = config_of(&all, superblock.epoch, &has_newest);
    let config = config.ok_or(Unreadable::NoDevices)?;
    let Members {
        mut placed,
        strangers,
    } = members::place(storage, &config, &all)?;
    // A commit of the same number that was cut: the drive has other blocks.
    let is_astray = |device: DeviceId| {
        let mut valid = superblocks.iter().filter(|(site, _)| site.device == device);
        let has_newest = has_newest(device);
        let is_another = |it: &Superblock| {
            let is_twin = it.cp == superblock.cp && !it.is_same_commit(&superblock);
            it.cp > superblock.cp || !has_newest && is_twin
        };
        valid.any(|(_, copy)| copy.valid().is_some_and(is_another))
    };
    if config.has_groups() {
        for member in &mut placed {
            let is_read = member.trouble.is_none();
            if is_read && member.device.is_some_and(is_astray) {
                member.trouble = Some(Trouble::Behind);
            }
        }
        // Parity may have been written without the drive, in a consistency point that was cut.
        for (member, index) in placed.iter_mut().zip(0..) {
            let is_read = member.trouble.is_none() && config.parity_group_of(index).is_some();
            let device = member.device.filter(|_| is_read);
            if device.is_some_and(|device| is_overruled(device, config.epoch, &all)) {
                member.trouble = Some(Trouble::Behind);
            }
        }
    }
    let labels = Labels {
        config,
        key,
        members: placed,
        strangers,
        superblock,
        records: all.into_iter().flat_map(|it| it.copies).collect(),
        superblocks,
    };
    labels.compare_records(findings);
    labels.compare_superblocks(findings);
    labels.check_members(findings);
    labels.check_change(findings);
    labels.check_extents(findings);
    Ok(labels)
}

/// Any whole record, when all of them are of one aggregate.
fn any_record(all: &[Records]) -> Result<&Config, Unreadable> {
    let whole = || {
        all.iter()
            .flat_map(|it| it.whole().map(move |(_, config)| (it, config)))
    };
    let Some((_, first)) = whole().next() else {
        let trouble = all.first().map(Records::trouble);
        return Err(trouble.unwrap_or(Unreadable::NoDevices));
    };
    match whole().find(|(_, config)| config.uuid != first.uuid) {
        None => Ok(first),
        Some((records, other)) => Err(Unreadable::Foreign {
            device: records.device,
            expected: hex(&first.uuid),
            found: hex(&other.uuid),
        }),
    }
}

/// The newest superblock that is not left over, or else the newest. One on a device without any
/// whole record is left over, too: that device is being added again.
///
/// Two of the same consistency point differ if a commit was cut when only one drive of a group had
/// the superblock, and the aggregate was opened without that drive. Most devices have the other
/// one.
fn newest_superblock(
    all: &[Records],
    superblocks: &[(Site, Copy<Superblock>)],
) -> Result<Superblock, Unreadable> {
    let has_record = |device: DeviceId| {
        let mut own = all.iter().filter(|records| records.device == device);
        own.any(|records| records.whole().next().is_some())
    };
    let counts = |(device, it): &(DeviceId, &Superblock)| {
        has_record(*device)
            && !is_overruled(*device, it.epoch, all)
            && !is_left_over(it, all, superblocks)
    };
    let valid = || {
        let all = superblocks.iter();
        all.filter_map(|(site, copy)| Some((site.device, copy.valid()?)))
    };
    let copies = |it: &Superblock| valid().filter(|(_, other)| *other == it).count();
    // Of two commits of one number, the one of the later epoch counts: drives of the other were
    // away.
    let mut records = all.iter().flat_map(Records::whole);
    let has_groups = records.any(|(_, record)| record.has_groups());
    let epoch = |it: &Superblock| if has_groups { it.epoch } else { 0 };
    let newest = valid().max_by_key(|one| (counts(one), one.1.cp, epoch(one.1), copies(one.1)));
    newest.map(|(_, it)| it).cloned().ok_or_else(|| {
        let found = superblocks
            .iter()
            .map(|(site, copy)| format!("byte {}: {}", site.offset, copy.trouble()));
        Unreadable::NoSuperblock {
            found: found.take(4).collect::<Vec<_>>().join("; "),
        }
    })
}

/// True if another device has a record of a later epoch in which the device is behind, or another
/// one has its seat: others have overwritten what its superblocks of this epoch name.
fn is_overruled(device: DeviceId, epoch: u64, all: &[Records]) -> bool {
    let own = all.iter().filter(|records| records.device == device);
    let own = own.flat_map(Records::whole).find_map(|(_, own)| {
        let index = own.member_index as usize;
        Some((index, own.members.get(index)?.uuid))
    });
    let Some((index, uuid)) = own else {
        return false;
    };
    let others = all.iter().filter(|records| records.device != device);
    let mut later = others.flat_map(Records::whole);
    later.any(|(_, record)| {
        let then = record.members.get(index);
        let is_out = |it: &Member| it.uuid != uuid || !it.seat.is_current();
        record.epoch > epoch && record.has_groups() && then.is_none_or(is_out)
    })
}

/// True if all devices with a record of the superblock's epoch joined in that epoch.
///
/// The commit of a change may be cut when only devices that join have its superblock. If the
/// aggregate is opened without them, it remains what it was, and goes another way. Then their
/// superblock does not count any more. A device that was a member before is member 0, or has an
/// older record or an older superblock.
fn is_left_over(
    superblock: &Superblock,
    all: &[Records],
    superblocks: &[(Site, Copy<Superblock>)],
) -> bool {
    let has_older = |device: DeviceId| {
        let mut own = superblocks.iter().filter(|(site, _)| site.device == device);
        own.any(|(_, copy)| copy.valid().is_some_and(|it| it.cp < superblock.cp))
    };
    let has_joined = |records: &Records| {
        let mut whole = records.whole().map(|(_, record)| record);
        let was_member = |it: &Config| it.member_index == 0 || it.epoch < superblock.epoch;
        !whole.any(was_member) && !has_older(records.device)
    };
    let knows = |records: &&Records| {
        let mut whole = records.whole();
        whole.any(|(_, record)| record.epoch == superblock.epoch)
    };
    let mut knowing = all.iter().filter(knows).peekable();
    knowing.peek().is_some() && knowing.all(has_joined)
}

/// The record of `epoch`. If there is none, which is a problem, the one before it or else the one
/// after it.
///
/// A change that was cut may have left another record of the same epoch: on a device that is no
/// member, which never has a superblock, or at the end of a member that the device had then.
fn config_of(all: &[Records], epoch: u64, has_newest: &dyn Fn(DeviceId) -> bool) -> Option<Config> {
    let rank = |site: &Site, config: &Config| {
        let nearness = match config.epoch <= epoch {
            true => (true, config.epoch),
            false => (false, u64::MAX - config.epoch),
        };
        (nearness, has_newest(site.device), site.label == 0)
    };
    let whole = all.iter().flat_map(Records::whole);
    let nearest = whole.max_by_key(|(site, config)| rank(site, config));
    nearest.map(|(_, config)| config.clone())
}

impl Labels {
    /// The aggregate's name: the one in the superblock if the name was changed, otherwise the name
    /// in the config record.
    pub(crate) fn name(&self) -> &str {
        self.superblock.name.as_ref().unwrap_or(&self.config.name)
    }

    /// The member that is read from this device.
    fn member_of(&self, device: DeviceId) -> Option<u32> {
        let mut read = (0..).zip(&self.members);
        let read = read.find(|(_, it)| it.trouble.is_none() && it.device == Some(device));
        read.map(|(member, _)| member)
    }

    /// The drives that have the blocks of `member` and may be read, in the order of their columns:
    /// at least one, if the member exists and is in no parity group.
    pub(crate) fn drives_of(&self, member: u32) -> Vec<Drive> {
        let copies = self.config.copies_of(member).into_iter();
        copies.filter_map(|copy| self.drive_of(copy)).collect()
    }

    /// The drives that have the journal and may be read.
    pub(crate) fn journal_drives(&self) -> Vec<Drive> {
        let members = self.config.journal_members().into_iter();
        members.filter_map(|it| self.drive_of(it)).collect()
    }

    /// The drive of a member, if it may be read.
    pub(crate) fn drive_of(&self, member: u32) -> Option<Drive> {
        let placed: &Placed = self.members.get(member as usize)?;
        let device = placed.device.filter(|_| placed.trouble.is_none())?;
        Some(Drive { member, device })
    }

    /// True if the copy is in a label that the config record gives to a member that is read.
    fn is_in_place(&self, site: &Site) -> bool {
        let member = self.member_of(site.device);
        let entry = member.and_then(|member| self.config.members.get(member as usize));
        entry.is_some_and(|entry| {
            label_offsets(entry.size_blocks * BLOCK_SIZE as u64).contains(&site.label)
        })
    }
}
