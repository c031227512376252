//! Growth: the labels of an aggregate that gets devices, or whose devices became larger (decision
//! 0040).
//!
//! ```text
//! plan ─▶ empty labels where there were none ─▶ records of the next epoch on all members ─▶ flush
//!                                                     └▶ Change::Grow, in a consistency point
//! ```
//!
//! 1. Nothing is renumbered: a growth appends extents, and no former extent changes.
//! 2. A record of the next epoch goes into the slot that has the epoch *before* the present one, or
//!    nothing. The record of the present epoch stays in its slot of every label that has it.
//! 3. The record of the next epoch is on all members, and flushed, before the change is asked for.
//!    Until the superblock of that change is committed, the records are without effect.
//! 4. A device that became larger gets a label at its new end, with the records of both epochs. The
//!    record of the present epoch says where the old end is. The copy of the label there has the
//!    present superblocks.
//! 5. A label at the end of a device that became larger may have a record that an earlier growth
//!    left when it was cut. Such a *stray* is erased before another growth uses the same epoch.
//! 6. What is written here is outside of all extents of the present layout.
//!
//! An aggregate of mirrors or parity groups is expanded in another way ([`super::expansion`]).

use std::sync::Arc;

use everglade_env::{BLOCK_SIZE, DeviceId, DiskError, Storage};
use everglade_format::config::{
    CONFIG_BYTES, ENTRIES_MAX, EXTENTS_MAX, INCOMPATIBLE_CHANGED, Uuid,
};
use everglade_format::label::{
    CONFIG_OFFSETS, LABEL_BYTES, SUPERBLOCK_OFFSETS, config_slot, data_region, grown_region,
    label_offsets, size_for, size_to_grow,
};
use everglade_format::{Config, Dbn, Extent, Member, Seat};

use crate::media::Layout;
use crate::media::next::{Kind, NextGeometry};
use crate::media::reserve::reserve_for;
use crate::mount::copies::strays;
use crate::mount::create::AREAS_LEAST;
use crate::mount::grow_error::{GrowError, failed};
use crate::mount::wanted::{Growth, GrowthInfo, blocks_of, check_new};
use crate::mount::{expansion, replacement};
use crate::pool::aggregate::{Aggregate, State};

/// Says what a growth would give. Writes nothing.
pub(crate) fn examine(
    storage: &dyn Storage,
    aggregate: &Aggregate,
    growth: &Growth,
) -> Result<GrowthInfo, GrowError> {
    check_state(aggregate)?;
    let present = aggregate.media.layout();
    if let Growth::Replace { member, device, .. } = growth {
        replacement::examine(storage, &present, *member, *device)?;
        return Ok(GrowthInfo {
            total_blocks_before: present.config.staying_blocks(),
            total_blocks_after: present.config.staying_blocks(),
            reserve_blocks_after: present.config.reserve_blocks,
            epoch_after: aggregate.media.next_epoch(),
        });
    }
    if present.config.has_groups() {
        let (_, next) = expansion::plan(storage, &present, growth)?;
        return Ok(GrowthInfo {
            total_blocks_before: present.config.staying_blocks(),
            total_blocks_after: next.config.staying_blocks(),
            reserve_blocks_after: next.config.reserve_blocks,
            epoch_after: aggregate.media.next_epoch(),
        });
    }
    let next = plan(storage, &present, &aggregate.name.to_string(), growth)?;
    Ok(GrowthInfo {
        total_blocks_before: present.config.staying_blocks(),
        total_blocks_after: next.config.staying_blocks(),
        reserve_blocks_after: next.config.reserve_blocks,
        epoch_after: next.config.epoch,
    })
}

/// Writes the records of the next epoch. If that fails, they are erased as far as possible.
pub(crate) fn prepare(
    storage: &dyn Storage,
    aggregate: &Aggregate,
    growth: &Growth,
) -> Result<NextGeometry, GrowError> {
    check_state(aggregate)?;
    if let Growth::Replace {
        member,
        device,
        uuid,
    } = growth
    {
        return replacement::prepare(storage, &aggregate.media, *member, (*device, *uuid));
    }
    if aggregate.media.has_groups() {
        return expansion::prepare(storage, &aggregate.media, growth);
    }
    let turn = aggregate.media.begin_change().ok_or(GrowError::Busy)?;
    let present = aggregate.media.layout();
    let next = plan(storage, &present, &aggregate.name.to_string(), growth)?;
    if let Err(error) = write(storage, &present, &next) {
        erase(storage, &present, &next);
        return Err(error);
    }
    Ok(NextGeometry::new(Kind::Grown(Arc::new(next)), turn))
}

/// Erases the records of a growth that was refused. A layout that has taken effect stays: if its
/// consistency point fails, the next start finds out which layout counts.
pub(crate) fn abandon(storage: &dyn Storage, aggregate: &Aggregate, next: &NextGeometry) {
    let present = aggregate.media.layout();
    match next.kind() {
        Kind::Grown(next) if next.follows(&present) => erase(storage, &present, next),
        // An expansion wrote no record.
        Kind::Grown(_) | Kind::Expanded(_) => {}
        Kind::Replaced(successor, _) => replacement::abandon(storage, &present, successor),
    }
}

fn check_state(aggregate: &Aggregate) -> Result<(), GrowError> {
    let problem = match aggregate.state() {
        State::Online => return Ok(()),
        State::Mounting => "the aggregate is not online yet; wait until it is".to_owned(),
        State::Stopping | State::Stopped => "the aggregate is stopping".to_owned(),
        State::ReadOnly(reason) | State::Failed(reason) => reason,
    };
    Err(GrowError::Unavailable(problem))
}

/// The layout after the growth.
fn plan(
    storage: &dyn Storage,
    present: &Layout,
    name: &str,
    growth: &Growth,
) -> Result<Layout, GrowError> {
    let mut devices: Vec<Option<DeviceId>> = present.seats().map(|seat| seat.1).collect();
    let mut config = Config {
        epoch: present.config.epoch + 1,
        incompatible: present.config.incompatible | INCOMPATIBLE_CHANGED,
        name: name.to_owned(),
        ..present.config.clone()
    };
    match growth {
        Growth::Add(added) => {
            for (device, uuid) in added {
                add(storage, &mut config, &mut devices, *device, *uuid)?;
            }
        }
        Growth::Extend(extended) => {
            for device in extended {
                extend(storage, &mut config, &devices, *device)?;
            }
        }
        Growth::Widen { group, .. } => return Err(GrowError::NoParityGroup(*group)),
        Growth::Strengthen { group, .. } => return Err(GrowError::NoGroup(*group)),
        Growth::Replace { .. } => unreachable!("it changes no extent"),
    }
    if config.extents.len() > EXTENTS_MAX
        || config.extents.len() + config.members.len() > ENTRIES_MAX
    {
        return Err(GrowError::TooMany("devices and enlargements of devices"));
    }
    let blocks = config.staying_areas_blocks();
    config.reserve_blocks = reserve_for(blocks, config.area_blocks);
    Layout::new(config, devices).map_err(|_| GrowError::TooMany("blocks"))
}

/// Gives a region of a member the numbers behind all extents.
fn append(config: &mut Config, member: u32, column: u32, (first_dbn, length): (Dbn, u64)) {
    let last = config.extents.last();
    config.extents.push(Extent {
        base: last.map_or(0, |extent| extent.base + extent.length),
        length,
        group: 0,
        column,
        member,
        first_dbn,
    });
}

fn add(
    storage: &dyn Storage,
    config: &mut Config,
    devices: &mut Vec<Option<DeviceId>>,
    device: DeviceId,
    uuid: Uuid,
) -> Result<(), GrowError> {
    let size_blocks = blocks_of(storage, device);
    let least = size_for(AREAS_LEAST, config.area_blocks, 0);
    check_new(storage, device, least, devices.contains(&Some(device)))?;
    let region = data_region(size_blocks, config.area_blocks, 0).expect("it is large enough");
    let member = u32::try_from(config.members.len()).expect("few devices");
    append(config, member, member, region);
    config.members.push(Member {
        uuid,
        size_blocks,
        data_first: region.0,
        seat: Seat::ALONE,
    });
    devices.push(Some(device));
    Ok(())
}

fn extend(
    storage: &dyn Storage,
    config: &mut Config,
    devices: &[Option<DeviceId>],
    device: DeviceId,
) -> Result<(), GrowError> {
    let index = devices.iter().position(|known| *known == Some(device));
    let index = index.ok_or(GrowError::NotMember(device))?;
    let member = u32::try_from(index).expect("few devices");
    if config.is_leaving(member) {
        return Err(GrowError::Leaving);
    }
    let mut own = config.extents.iter().filter(|it| it.member == member);
    let column = own.next().map(|extent| extent.column);
    let column = column.ok_or(GrowError::JournalOnly(device))?;
    let (old, new) = (
        config.members[index].size_blocks,
        blocks_of(storage, device),
    );
    let Some(region) = grown_region(old, new, config.area_blocks) else {
        return Err(GrowError::NotLarger {
            device,
            bytes: new * BLOCK_SIZE as u64,
            least: size_to_grow(old, config.area_blocks) * BLOCK_SIZE as u64,
        });
    };
    append(config, member, column, region);
    config.members[index].size_blocks = new;
    Ok(())
}

/// Labels of a member as the next layout has them; true for those that the present one has too.
fn labels_of(present: &Layout, next: &Layout, index: usize) -> [(u64, bool); 2] {
    let bytes = |layout: &Layout| {
        let member = layout.config.members.get(index)?;
        Some(label_offsets(member.size_blocks * BLOCK_SIZE as u64))
    };
    let known = bytes(present);
    let labels = bytes(next).expect("a member of the next layout");
    labels.map(|label| (label, known.is_some_and(|known| known.contains(&label))))
}

fn write(storage: &dyn Storage, present: &Layout, next: &Layout) -> Result<(), GrowError> {
    for stray in strays(storage, present) {
        stray
            .write(storage)
            .map_err(|error| failed(stray.device, error))?;
    }
    for (index, _, device) in next.members() {
        let labels = labels_of(present, next, index);
        let new = labels.into_iter().filter(|(_, is_known)| !is_known);
        for (label, _) in new {
            // Flushed before any record of the next epoch is written: with the records and without
            // the zeroes, a superblock that the device has from an earlier attempt would count.
            make_label(storage, present, index, device, label)
                .and_then(|()| storage.flush(device))
                .map_err(|error| failed(device, error))?;
        }
    }
    let slot = CONFIG_OFFSETS[config_slot(next.config.epoch)];
    for (index, _, device) in next.members() {
        let record = next.record_of(index).encode();
        for (label, _) in labels_of(present, next, index) {
            storage
                .write(device, label + slot, &record)
                .map_err(|error| failed(device, error))?;
        }
    }
    for (_, _, device) in next.members() {
        storage
            .flush(device)
            .map_err(|error| failed(device, error))?;
    }
    Ok(())
}

/// Makes a label where there was none. Former contents of the device must be taken neither for a
/// damaged record nor for a superblock. A member has the record of the present epoch in it.
fn make_label(
    storage: &dyn Storage,
    present: &Layout,
    index: usize,
    device: DeviceId,
    label: u64,
) -> Result<(), DiskError> {
    storage.allocate(device, label, LABEL_BYTES)?;
    for slot in SUPERBLOCK_OFFSETS {
        storage.write(device, label + slot, &[0; BLOCK_SIZE])?;
    }
    let record = match index < present.config.members.len() {
        true => present.record_of(index).encode(),
        false => vec![0; CONFIG_BYTES],
    };
    let slot = CONFIG_OFFSETS[config_slot(present.config.epoch)];
    storage.write(device, label + slot, &record)
}

/// Erases the records of the next epoch, as far as the devices permit. A record that stays is
/// erased after the next start, or overwritten by the next change.
fn erase(storage: &dyn Storage, present: &Layout, next: &Layout) {
    let slot = CONFIG_OFFSETS[config_slot(next.config.epoch)];
    for (index, _, device) in next.members() {
        for (label, _) in labels_of(present, next, index) {
            let _ = storage.write(device, label + slot, &[0; CONFIG_BYTES]);
        }
        let _ = storage.flush(device);
    }
}
