//! Replacement: another drive gets the seat of a drive of a mirror (decision 0044).
//!
//! ```text
//! new drive made ready ─▶ old drive in use? Change::TakeOut, recorded as a loss
//!   └▶ label of the new drive, flushed ─▶ Change::Grow, in a consistency point
//!        └▶ record that names the new drive on all usable members ─▶ superblock ─▶ it catches up
//! ```
//!
//! 1. The superblock decides, as in every change of the devices (decision 0040). Before it is
//!    committed, the seat is that of the old drive, whatever the labels say.
//! 2. The new drive is made ready first: its labels and its journal are zeroes, flushed and read
//!    back. So a drive that cannot be written is no reason to take the old one out.
//! 3. The old drive is recorded as behind before any record is written to the new one. So a record
//!    that names another drive for a seat proves that the former one had fallen behind.
//! 4. The label of the new drive has the record of the next epoch, and no superblock. It is flushed
//!    before the change is asked for: a drive that a record names and that nobody recognises could
//!    only be replaced again. The drive is behind in this record, so nothing reads it.
//! 5. A change that was cut leaves this label behind. The drive is no member then. The data
//!    directory knows that it was about to join, and clears it.
//! 6. Only the new drive is written here. So losses are recorded meanwhile as always, and this
//!    needs no turn at the labels of the members.

use everglade_env::{BLOCK_SIZE, DeviceId, DiskError, Storage};
use everglade_format::config::{CONFIG_BYTES, Uuid};
use everglade_format::label::{
    CONFIG_OFFSETS, LABEL_BLOCKS, LABEL_BYTES, SUPERBLOCK_OFFSETS, config_slot, label_offsets,
};

use crate::media::layout::Successor;
use crate::media::next::{Kind, NextGeometry};
use crate::media::{Layout, Media};
use crate::mount::create::{has_label, zero_region};
use crate::mount::grow_error::{GrowError, failed};

/// The host's number of an error of input or output.
const EIO: i32 = 5;

/// Says whether a drive can get a seat. Whoever has it may be in use, if it can be taken out.
pub(crate) fn examine(
    storage: &dyn Storage,
    present: &Layout,
    member: u32,
    device: DeviceId,
) -> Result<(), GrowError> {
    let index = member as usize;
    let Some(seat) = present.config.members.get(index).map(|it| it.seat) else {
        return Err(GrowError::NotMember(device));
    };
    if seat.group == 0 {
        return Err(GrowError::Unavailable(
            "a drive of an aggregate without redundancy has the only copy of its blocks; copy the \
             volumes to another aggregate"
                .to_owned(),
        ));
    }
    if present.successor().is_some() {
        return Err(GrowError::Busy);
    }
    let own = present.seats().nth(index).and_then(|(_, own, _)| own);
    let is_last = |own| present.is_full(own) && !present.suffices_without(own, |_| true);
    if own.is_some_and(is_last) {
        return Err(GrowError::LastCopy);
    }
    if present.has_device(device) {
        return Err(GrowError::InUse(device));
    }
    let (bytes, least) = (storage.size_bytes(device), least_bytes(present, member));
    if bytes < least {
        return Err(GrowError::TooSmall {
            device,
            bytes,
            least,
        });
    }
    match has_label(storage, device).map_err(|error| failed(device, error))? {
        true => Err(GrowError::InUse(device)),
        false => Ok(()),
    }
}

/// Returns the size in bytes of the smallest drive that has room for all that is on the drives of a
/// member's group.
pub(super) fn least_bytes(present: &Layout, member: u32) -> u64 {
    let config = &present.config;
    let copies = match config.parity_group_of(member) {
        Some(group) => group.all().collect(),
        None => config.copies_of(member),
    };
    let extents = config.extents.iter();
    let extents = extents.filter(|extent| copies.contains(&extent.member));
    let ends = extents.map(|extent| extent.first_dbn.0 + extent.length);
    let journal = Some(&config.journal).filter(|it| it.blocks > 0 && copies.contains(&it.member));
    let journal = journal.map(|journal| journal.first.0 + journal.blocks);
    let end = ends.chain(journal).max().unwrap_or(0).max(LABEL_BLOCKS);
    (end + LABEL_BLOCKS) * BLOCK_SIZE as u64
}

/// Fills the labels and the journal of a drive with zeroes, and reads the labels back.
pub(crate) fn make_ready(
    storage: &dyn Storage,
    present: &Layout,
    member: u32,
    device: DeviceId,
) -> Result<(), GrowError> {
    examine(storage, present, member, device)?;
    let zeroed = || {
        zero_labels(storage, device)?;
        let journal = &present.config.journal;
        if present.config.journal_members().contains(&member) {
            zero_region(storage, device, (journal.first, journal.blocks))?;
        }
        if present.rows_of_member(member).is_some() {
            let first = present.config.raid_log_first(member);
            zero_region(storage, device, (first, present.config.raid_log_blocks))?;
        }
        storage.flush(device)
    };
    zeroed().map_err(|error| failed(device, error))?;
    match is_ready(storage, device).map_err(|error| failed(device, error))? {
        true => Ok(()),
        // It took the writes and has something else.
        false => Err(failed(device, DiskError::Io(EIO))),
    }
}

/// Writes the label of the new drive. If that fails, it is erased as far as possible.
pub(crate) fn prepare(
    storage: &dyn Storage,
    media: &Media,
    member: u32,
    (device, uuid): (DeviceId, Uuid),
) -> Result<NextGeometry, GrowError> {
    let turn = media.begin_seating().ok_or(GrowError::Busy)?;
    // A record that is committed in between makes the epoch a wrong one, and the change is refused.
    let epoch = media.next_epoch();
    let present = media.layout();
    examine(storage, &present, member, device)?;
    let successor = Successor {
        member,
        former: present.config.members[member as usize].uuid,
        device,
        uuid,
        size_blocks: storage.size_bytes(device) / BLOCK_SIZE as u64,
    };
    let next = present.with_successor(&successor);
    let next = next.ok_or(GrowError::SeatInUse)?.with_uses_recorded(epoch);
    if let Err(error) = write(storage, &next, &successor) {
        erase(storage, device);
        return Err(failed(device, error));
    }
    Ok(NextGeometry::new(Kind::Replaced(successor, epoch), turn))
}

/// Erases the label of a drive that did not get its seat.
pub(crate) fn abandon(storage: &dyn Storage, present: &Layout, successor: &Successor) {
    let is_pending = present.successor() == Some(successor);
    if !is_pending && !present.has_device(successor.device) {
        erase(storage, successor.device);
    }
}

fn write(storage: &dyn Storage, next: &Layout, successor: &Successor) -> Result<(), DiskError> {
    let (device, index) = (successor.device, successor.member as usize);
    if !is_ready(storage, device)? {
        zero_labels(storage, device)?;
        // Flushed before the record is written: with the record and without the zeroes, a
        // superblock that the device has from an earlier use would count.
        storage.flush(device)?;
    }
    let labels = label_offsets(storage.size_bytes(device));
    let record = next.record_of(index).encode();
    let slot = CONFIG_OFFSETS[config_slot(next.config.epoch)];
    for label in labels {
        storage.write(device, label + slot, &record)?;
    }
    storage.flush(device)
}

pub(super) fn zero_labels(storage: &dyn Storage, device: DeviceId) -> Result<(), DiskError> {
    for label in label_offsets(storage.size_bytes(device)) {
        zero_label(storage, device, label)?;
    }
    Ok(())
}

/// Fills superblocks and config records of a label with zeroes, whatever the host has there.
pub(super) fn zero_label(
    storage: &dyn Storage,
    device: DeviceId,
    label: u64,
) -> Result<(), DiskError> {
    storage.allocate(device, label, LABEL_BYTES)?;
    for slot in SUPERBLOCK_OFFSETS {
        storage.write(device, label + slot, &[0; BLOCK_SIZE])?;
    }
    for slot in CONFIG_OFFSETS {
        storage.write(device, label + slot, &[0; CONFIG_BYTES])?;
    }
    Ok(())
}

/// True if both labels are zeroes.
fn is_ready(storage: &dyn Storage, device: DeviceId) -> Result<bool, DiskError> {
    let superblocks = SUPERBLOCK_OFFSETS.map(|slot| (slot, BLOCK_SIZE));
    let slots = superblocks.into_iter();
    let slots = slots.chain(CONFIG_OFFSETS.map(|slot| (slot, CONFIG_BYTES)));
    for (slot, length) in slots {
        for label in label_offsets(storage.size_bytes(device)) {
            let mut bytes = vec![0; length];
            storage.read(device, label + slot, &mut bytes)?;
            if bytes.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Erases the records of the label, as far as the device permits.
fn erase(storage: &dyn Storage, device: DeviceId) {
    for label in label_offsets(storage.size_bytes(device)) {
        for slot in CONFIG_OFFSETS {
            let _ = storage.write(device, label + slot, &[0; CONFIG_BYTES]);
        }
    }
    let _ = storage.flush(device);
}
