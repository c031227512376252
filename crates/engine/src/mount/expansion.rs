//! Expansion of an aggregate of mirrors or parity groups: it gets another group, the drives of a
//! group became larger (decision 0050), a parity group gets more data drives (decision 0052), or a
//! group gets more parity or copies (decision 0053).
//!
//! ```text
//! empty labels where there were none, flushed ─▶ Change::Grow, in a consistency point
//!   └▶ record of the next epoch on all usable members, old and new ─▶ superblock
//! ```
//!
//! 1. The consistency point writes the record, as it writes those of losses. So drives may be lost
//!    at any time, and the record says so.
//! 2. A group that is added is like the one that was added last: as many drives, and as many of
//!    them with parity.
//! 3. A group becomes larger by what all of its drives have become larger by, or have more than the
//!    drives that they replaced. The new extents begin behind the old copies of labels that move:
//!    they are needed until the change is committed.
//! 4. A drive that becomes a data column of an existing group has zeroes in all stripes of the
//!    group before it joins. So parity is right as it is, with the new column and without it.
//! 5. A drive with more parity, or another copy, is behind in the record that adds it, and catches
//!    up afterwards. Until then the group is as strong as it was.
//! 6. What is written here is outside of all extents of the present layout. A new drive has no
//!    record and no superblock, and its RAID log is zeroes. A drive that became larger gets a label
//!    at its new end with the present record, and without a superblock.

use everglade_env::{BLOCK_SIZE, DeviceId, DiskError, Storage};
use everglade_format::config::{ENTRIES_MAX, EXTENTS_MAX, Uuid};
use everglade_format::label::{
    CONFIG_OFFSETS, LABEL_BLOCKS, config_slot, data_region, grown_region, label_offsets, size_for,
    size_to_grow,
};
use everglade_format::seat::{COPIES_MAX, DATA_MAX, PARITY_MAX};
use everglade_format::{Config, Dbn, Extent, Member, Removal, Role, Seat, SeatState};

use crate::media::layout::expansion::Expansion;
use crate::media::next::{Kind, NextGeometry};
use crate::media::{Layout, Media};
use crate::mount::create::{AREAS_LEAST, zero_region};
use crate::mount::grow_error::{GrowError, failed};
use crate::mount::replacement::{least_bytes, zero_label, zero_labels};
use crate::mount::wanted::{Growth, blocks_of, check_new};

/// Plans an expansion. Writes nothing. Returns it with the layout that it leads to.
pub(crate) fn plan(
    storage: &dyn Storage,
    present: &Layout,
    growth: &Growth,
) -> Result<(Expansion, Layout), GrowError> {
    if present.is_grown() || present.successor().is_some() {
        return Err(GrowError::Busy);
    }
    let config = &present.config;
    let mut expansion = Expansion {
        former_members: config.members.len(),
        former_extents: config.extents.len(),
        added: Vec::new(),
        enlarged: Vec::new(),
        extents: Vec::new(),
    };
    match growth {
        Growth::Add(added) => add(storage, present, added, &mut expansion)?,
        Growth::Widen { group, added } => {
            widen(storage, present, (*group, added), &mut expansion)?;
        }
        Growth::Strengthen { group, added } => {
            strengthen(storage, present, (*group, added), &mut expansion)?;
        }
        Growth::Extend(devices) => extend(storage, present, devices, &mut expansion)?,
        Growth::Replace { .. } => unreachable!("it changes no extent"),
    }
    let extents = config.extents.len() + expansion.extents.len();
    if extents > EXTENTS_MAX || extents + config.members.len() + expansion.added.len() > ENTRIES_MAX
    {
        return Err(GrowError::TooMany("devices and enlargements of devices"));
    }
    let next = present.with_expansion(&expansion);
    let next = next.ok_or(GrowError::TooMany("blocks"))?;
    Ok((expansion, next))
}

/// Writes empty labels where there were none.
pub(crate) fn prepare(
    storage: &dyn Storage,
    media: &Media,
    growth: &Growth,
) -> Result<NextGeometry, GrowError> {
    let turn = media.begin_seating().ok_or(GrowError::Busy)?;
    let present = media.layout();
    let (expansion, next) = plan(storage, &present, growth)?;
    let first = present.config.members.len();
    for (index, (member, device)) in (first..).zip(&expansion.added) {
        make_ready(storage, &next, index, *device).map_err(|error| failed(*device, error))?;
        if present.has_group(member.seat.group) {
            zero_stripes(storage, &next, index, *device).map_err(|error| failed(*device, error))?;
        }
    }
    for (index, _, blocks) in &expansion.enlarged {
        let device = device_of(&present, *index).expect("it was looked at");
        let [_, end] = label_offsets(blocks * BLOCK_SIZE as u64);
        make_label(storage, &present, *index, (device, end))
            .map_err(|error| failed(device, error))?;
    }
    Ok(NextGeometry::new(Kind::Expanded(expansion), turn))
}

/// Adds groups.
fn add(
    storage: &dyn Storage,
    present: &Layout,
    added: &[(DeviceId, Uuid)],
    expansion: &mut Expansion,
) -> Result<(), GrowError> {
    let config = &present.config;
    let shape = Shape::of(config);
    if added.is_empty() || !added.len().is_multiple_of(shape.drives) {
        return Err(GrowError::Groups {
            devices: added.len(),
            together: shape.drives,
        });
    }
    let least = size_for(AREAS_LEAST, config.area_blocks, shape.raid_log_blocks);
    check_drives(storage, present, added, least)?;
    let groups = config.members.iter().map(|member| member.seat.group);
    let last = groups.max().unwrap_or(0);
    for (group, drives) in (last + 1..).zip(added.chunks(shape.drives)) {
        let sizes = drives.iter().map(|(device, _)| blocks_of(storage, *device));
        let smallest = sizes.min().unwrap_or(0);
        let region = data_region(smallest, config.area_blocks, shape.raid_log_blocks);
        let region = region.expect("all of them are large enough");
        let seats = shape.seats(group);
        for (drive, seat) in drives.iter().zip(seats) {
            if seat.role == Role::Data {
                let index = config.members.len() + expansion.added.len();
                append(config, expansion, (index, seat), region);
            }
            expansion
                .added
                .push(seated(storage, *drive, region.0, seat));
        }
    }
    Ok(())
}

/// Gives a parity group more data columns.
fn widen(
    storage: &dyn Storage,
    present: &Layout,
    (group, added): (u16, &[(DeviceId, Uuid)]),
    expansion: &mut Expansion,
) -> Result<(), GrowError> {
    let config = &present.config;
    let columns = match members_of(config, group).first() {
        Some((index, _)) => config.parity_group_of(*index),
        None => None,
    };
    let columns = columns.ok_or(GrowError::NoParityGroup(group))?;
    if config.is_leaving(columns.data[0]) {
        return Err(GrowError::Leaving);
    }
    let (data, drives) = (columns.data.len(), columns.data.len() + added.len());
    if added.is_empty() || drives > DATA_MAX {
        return Err(GrowError::TooWide {
            group,
            drives,
            most: DATA_MAX,
        });
    }
    let data_first = config.members[columns.data[0] as usize].data_first;
    let like = config.extents.iter();
    let like: Vec<&Extent> = like.filter(|it| it.member == columns.data[0]).collect();
    let ends = like.iter().map(|extent| extent.first_dbn.0 + extent.length);
    let least = ends.max().unwrap_or(0) + LABEL_BLOCKS;
    check_drives(storage, present, added, least)?;
    let small = |number: usize| u8::try_from(number).expect("few drives");
    for (column, drive) in (data..).zip(added) {
        let seat = Seat::of_parity_group(group, small(column), small(drives));
        let index = config.members.len() + expansion.added.len();
        for extent in &like {
            let region = (extent.first_dbn, extent.length);
            append(config, expansion, (index, seat), region);
        }
        expansion
            .added
            .push(seated(storage, *drive, data_first, seat));
    }
    Ok(())
}

/// Gives a parity group more parity, or a mirror more copies.
fn strengthen(
    storage: &dyn Storage,
    present: &Layout,
    (group, added): (u16, &[(DeviceId, Uuid)]),
    expansion: &mut Expansion,
) -> Result<(), GrowError> {
    let config = &present.config;
    let mates = members_of(config, group);
    let Some((first, like)) = mates.first() else {
        return Err(GrowError::NoGroup(group));
    };
    if config.is_leaving(*first) {
        return Err(GrowError::Leaving);
    }
    let parity = config.parity_group_of(*first).map(|it| it.parity.len());
    let (what, role, drives, most) = match parity {
        Some(parity) => ("with parity", Role::Parity, parity, PARITY_MAX),
        None => ("of a mirror", Role::Copy, mates.len(), COPIES_MAX),
    };
    if added.is_empty() || drives + added.len() > most {
        return Err(GrowError::Strongest {
            group,
            what,
            drives,
            most,
        });
    }
    let least = least_bytes(present, *first) / BLOCK_SIZE as u64;
    check_drives(storage, present, added, least)?;
    for (column, drive) in (mates.len()..).zip(added) {
        let seat = Seat {
            column: u8::try_from(column).expect("few drives"),
            role,
            state: SeatState::Behind,
            returns: 0,
            ..like.seat
        };
        expansion
            .added
            .push(seated(storage, *drive, like.data_first, seat));
    }
    Ok(())
}

/// Returns the members of a group of drives with their indices; none if there is no such group, or
/// it was removed.
fn members_of(config: &Config, group: u16) -> Vec<(u32, &Member)> {
    let members = (0..).zip(&config.members);
    let is_its = |member: &Member| group > 0 && member.seat.group == group;
    let members = members.filter(|(_, member)| is_its(member) && !member.seat.is_removed());
    members.collect()
}

/// Returns a new drive as a member in a seat.
fn seated(
    storage: &dyn Storage,
    (device, uuid): (DeviceId, Uuid),
    data_first: Dbn,
    seat: Seat,
) -> (Member, DeviceId) {
    let member = Member {
        uuid,
        size_blocks: blocks_of(storage, device),
        data_first,
        seat,
    };
    (member, device)
}

/// Checks that drives may join: they have `least` blocks, are not in use, and none is there twice.
fn check_drives(
    storage: &dyn Storage,
    present: &Layout,
    drives: &[(DeviceId, Uuid)],
    least: u64,
) -> Result<(), GrowError> {
    for (device, _) in drives {
        let is_twice = drives.iter().filter(|(other, _)| other == device).count() > 1;
        let is_taken = present.has_device(*device) || is_twice;
        check_new(storage, *device, least, is_taken)?;
    }
    Ok(())
}

/// Gives the groups of some devices what all of their drives have become larger by.
fn extend(
    storage: &dyn Storage,
    present: &Layout,
    devices: &[DeviceId],
    expansion: &mut Expansion,
) -> Result<(), GrowError> {
    let config = &present.config;
    let mut done = Vec::new();
    for device in devices {
        let index = present.seats().position(|(_, own, _)| own == Some(*device));
        let index = index.ok_or(GrowError::NotMember(*device))?;
        let Seat { group, removal, .. } = config.members[index].seat;
        if removal != Removal::None {
            return Err(GrowError::Leaving);
        }
        if done.contains(&group) {
            continue;
        }
        done.push(group);
        extend_group(storage, present, (group, *device), expansion)?;
    }
    Ok(())
}

fn extend_group(
    storage: &dyn Storage,
    present: &Layout,
    (group, named): (u16, DeviceId),
    expansion: &mut Expansion,
) -> Result<(), GrowError> {
    let config = &present.config;
    let members = config.members.iter().enumerate();
    let members = members.filter(|(_, member)| member.seat.group == group);
    let mut drives = Vec::new();
    for (index, member) in members {
        let device = device_of(present, index).filter(|device| present.is_full(*device));
        let device = device.ok_or_else(|| {
            GrowError::Unavailable(
                "a drive of the group is missing, or lacks what was written since; wait until all \
                 drives of the group are online"
                    .to_owned(),
            )
        })?;
        drives.push((index, member, device, blocks_of(storage, device)));
    }
    // Behind all extents, and behind the second labels that move.
    let is_its = |extent: &&Extent| {
        drives
            .iter()
            .any(|(index, ..)| extent.member as usize == *index)
    };
    let extents = config.extents.iter().filter(is_its);
    let ends = extents.map(|extent| extent.first_dbn.0 + extent.length);
    let enlarged = || {
        let drives = drives.iter();
        drives.filter(|(_, member, _, blocks)| *blocks > member.size_blocks)
    };
    let former = ends.chain(enlarged().map(|(_, member, ..)| member.size_blocks));
    let former = former.max().unwrap_or(0);
    let smallest = drives.iter().min_by_key(|(.., blocks)| *blocks);
    let (_, _, device, blocks) = smallest.ok_or(GrowError::NotMember(named))?;
    let Some(region) = grown_region(former, *blocks, config.area_blocks) else {
        return Err(GrowError::NotLarger {
            device: *device,
            bytes: blocks * BLOCK_SIZE as u64,
            least: size_to_grow(former, config.area_blocks) * BLOCK_SIZE as u64,
        });
    };
    let mut has_data = false;
    for (index, member, ..) in &drives {
        let mut extents = config.extents.iter();
        if extents.any(|extent| extent.member as usize == *index) {
            append(config, expansion, (*index, member.seat), region);
            has_data = true;
        }
    }
    let enlarged = enlarged().map(|(index, member, _, blocks)| (*index, member.uuid, *blocks));
    expansion.enlarged.extend(enlarged);
    match has_data {
        true => Ok(()),
        false => Err(GrowError::JournalOnly(named)),
    }
}

/// Gives a region of a member the numbers behind all extents.
fn append(
    config: &Config,
    expansion: &mut Expansion,
    (index, seat): (usize, Seat),
    (first_dbn, length): (Dbn, u64),
) {
    let member = u32::try_from(index).expect("few devices");
    let last = expansion.extents.last().or(config.extents.last());
    let (group, column) = match config.has_parity() {
        true => (u32::from(seat.group), u32::from(seat.column)),
        false => (0, member),
    };
    expansion.extents.push(Extent {
        base: last.map_or(0, |extent| extent.base + extent.length),
        length,
        group,
        column,
        member,
        first_dbn,
    });
}

/// What a new group is like.
struct Shape {
    drives: usize,
    /// Drives with data of a parity group; `None` for a mirror.
    data: Option<usize>,
    raid_log_blocks: u64,
}

impl Shape {
    /// The shape of the group that was added last.
    fn of(config: &Config) -> Shape {
        let members = config.members.iter().zip(0..);
        let last = members.max_by_key(|(member, _)| member.seat.group);
        let last = last.map_or(0, |(_, index)| index);
        let group = config.parity_group_of(last);
        Shape {
            drives: match &group {
                Some(group) => group.all().count(),
                None => config.copies_of(last).len(),
            },
            data: group.map(|group| group.data.len()),
            raid_log_blocks: config.raid_log_blocks,
        }
    }

    fn seats(&self, group: u16) -> Vec<Seat> {
        let small = |number: usize| u8::try_from(number).expect("few drives");
        let seat = |column| match self.data {
            Some(data) => Seat::of_parity_group(group, small(column), small(data)),
            None => Seat::of_mirror(group, small(column)),
        };
        (0..self.drives).map(seat).collect()
    }
}

fn device_of(layout: &Layout, index: usize) -> Option<DeviceId> {
    layout.seats().nth(index)?.1
}

/// Fills the labels, the RAID log and the journal of a new drive with zeroes.
fn make_ready(
    storage: &dyn Storage,
    next: &Layout,
    index: usize,
    device: DeviceId,
) -> Result<(), DiskError> {
    zero_labels(storage, device)?;
    let member = u32::try_from(index).expect("few devices");
    let journal = &next.config.journal;
    if next.config.journal_members().contains(&member) {
        zero_region(storage, device, (journal.first, journal.blocks))?;
    }
    if next.rows_of_member(member).is_some() {
        let log = (
            next.config.raid_log_first(member),
            next.config.raid_log_blocks,
        );
        zero_region(storage, device, log)?;
    }
    storage.flush(device)
}

/// Fills the stripes of a new data column with zeroes. Other columns have no extents.
fn zero_stripes(
    storage: &dyn Storage,
    next: &Layout,
    index: usize,
    device: DeviceId,
) -> Result<(), DiskError> {
    let extents = next.config.extents.iter();
    let own = extents.filter(|extent| extent.member as usize == index);
    let bytes = |blocks: u64| blocks * BLOCK_SIZE as u64;
    for extent in own {
        storage.zero(device, bytes(extent.first_dbn.0), bytes(extent.length))?;
    }
    storage.flush(device)
}

/// Makes a label with the present record at the new end of a drive.
fn make_label(
    storage: &dyn Storage,
    present: &Layout,
    index: usize,
    (device, label): (DeviceId, u64),
) -> Result<(), DiskError> {
    zero_label(storage, device, label)?;
    let slot = CONFIG_OFFSETS[config_slot(present.config.epoch)];
    storage.write(device, label + slot, &present.record_of(index).encode())?;
    storage.flush(device)
}
