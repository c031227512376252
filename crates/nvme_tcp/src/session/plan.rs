//! What a command needs, and the checks of its parts: ranges, and the descriptor of its data.

use everglade_env::BLOCK_SIZE;
use everglade_target::LunHandle;

use super::requests::Work;
use crate::metrics::Operation;
use crate::wire::identify::{BLOCK_BYTES, BLOCK_SHIFT};
use crate::wire::sqe::FLAGS_SGL;
use crate::wire::{Command, SglKind, Status};

/// Ranges of one copy.
pub(super) const COPY_RANGES_MAX: u8 = 128;
/// Blocks of one copy: 32 MiB.
pub(super) const COPY_BLOCKS_MAX: u32 = 1 << 16;
/// Blocks of one range of a copy.
pub(super) const COPY_RANGE_BLOCKS_MAX: u16 = u16::MAX;
/// Bytes of an entry in the data of Copy.
pub(super) const COPY_ENTRY_BYTES: usize = 32;
/// Bytes of an entry in the data of Dataset Management.
pub(super) const RANGE_ENTRY_BYTES: usize = 16;
/// Bytes that commands of several operations move at a time.
pub(super) const PIECE_BYTES: u64 = 128 << 10;

/// What a command needs.
pub(super) struct Plan {
    pub(super) operation: Operation,
    pub(super) lun: LunHandle,
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) durable: bool,
    /// Bytes from the host.
    pub(super) from_host: u32,
    /// Memory besides the data from the host.
    pub(super) charge: u64,
    pub(super) work: Work,
}

impl Plan {
    /// Returns the bytes that the command holds at a time, without the pages at the edges.
    pub(super) fn bytes_moved(&self) -> u64 {
        let edges = piece_charge(0) + piece_charge(0);
        let moved = u64::from(self.from_host.max(self.length));
        moved.max(self.charge.saturating_sub(edges))
    }
}

/// Bytes that a piece of this length takes at most, wherever it is.
pub(super) const fn piece_charge(length: u64) -> u64 {
    let block = BLOCK_SIZE as u64;
    (length.div_ceil(block) + 1) * block
}

/// Returns a range of blocks in bytes: the first, and how many.
pub(super) fn checked_range(first: u64, count: u64, size_bytes: u64) -> Result<(u64, u64), Status> {
    match first.checked_add(count) {
        Some(end) if end <= size_bytes >> BLOCK_SHIFT => {
            Ok((first * BLOCK_BYTES, count * BLOCK_BYTES))
        }
        _ => Err(Status::LBA_OUT_OF_RANGE),
    }
}

/// Checks that no data is in the message of a command that takes none.
pub(super) fn has_no_data(data_bytes: u32) -> Result<(), Status> {
    match data_bytes {
        0 => Ok(()),
        _ => Err(Status::INVALID_FIELD),
    }
}

/// Checks the descriptor of data for the host, of this length.
pub(super) fn to_host(command: &Command, length: u32) -> Result<(), Status> {
    if command.flags & 0xc0 != FLAGS_SGL {
        return Err(Status::INVALID_FIELD);
    }
    match command.sgl.kind {
        SglKind::Transport if command.sgl.length == length => Ok(()),
        SglKind::Transport => Err(Status::SGL_LENGTH_INVALID),
        _ => Err(Status::SGL_KIND_INVALID),
    }
}

/// Checks the descriptor of data for the host, which may have room for more.
pub(super) fn to_host_at_least(command: &Command, bytes: u64) -> Result<(), Status> {
    if command.flags & 0xc0 != FLAGS_SGL {
        return Err(Status::INVALID_FIELD);
    }
    match command.sgl.kind {
        SglKind::Transport if u64::from(command.sgl.length) >= bytes => Ok(()),
        SglKind::Transport => Err(Status::SGL_LENGTH_INVALID),
        _ => Err(Status::SGL_KIND_INVALID),
    }
}

/// Checks the descriptor of data from the host, of this length, of which `data_bytes` follow in the
/// message.
pub(super) fn from_host(command: &Command, length: u32, data_bytes: u32) -> Result<(), Status> {
    if command.flags & 0xc0 != FLAGS_SGL {
        return Err(Status::INVALID_FIELD);
    }
    let sgl = &command.sgl;
    let in_message = match sgl.kind {
        SglKind::InCapsule if sgl.address != 0 => return Err(Status::SGL_OFFSET_INVALID),
        SglKind::InCapsule => length,
        SglKind::Transport => 0,
        SglKind::Other(_) => return Err(Status::SGL_KIND_INVALID),
    };
    match sgl.length == length && data_bytes == in_message {
        true => Ok(()),
        false => Err(Status::SGL_LENGTH_INVALID),
    }
}

/// The longest structure from a host: Linux sends room for 256 ranges, however many there are.
const STRUCTURE_BYTES_MAX: u32 = 8 << 10;

/// Checks the descriptor of a structure from the host, of which the first `needed` bytes are looked
/// at. Returns its length.
pub(super) fn structure_from_host(
    command: &Command,
    needed: u32,
    data_bytes: u32,
) -> Result<u32, Status> {
    let length = command.sgl.length;
    if !(needed..=STRUCTURE_BYTES_MAX).contains(&length) {
        return Err(Status::SGL_LENGTH_INVALID);
    }
    from_host(command, length, data_bytes)?;
    Ok(length)
}
