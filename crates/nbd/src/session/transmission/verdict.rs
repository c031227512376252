//! Which requests are carried out, and with which error the others are answered.

use everglade_target::Limits;

use crate::wire::request::command_flags::{FUA, NO_HOLE};
use crate::wire::{Command, Errno, Request};

/// The command to carry out, whose range lies within the export.
pub(super) fn judge(
    request: &Request,
    size_bytes: u64,
    read_only: bool,
    limits: &Limits,
) -> Result<Command, Errno> {
    // Proto "Error values": EINVAL for unknown commands and flags.
    let command = Command::of_code(request.command).ok_or(Errno::Invalid)?;
    if matches!(command, Command::Cache | Command::BlockStatus) {
        return Err(Errno::Invalid);
    }
    if request.flags & !flags_allowed(command) != 0 {
        return Err(Errno::Invalid);
    }
    if command == Command::Flush {
        // Proto "Request types": reserved, and MUST be zero.
        let zero = request.offset == 0 && request.length == 0;
        return if zero {
            Ok(command)
        } else {
            Err(Errno::Invalid)
        };
    }
    // Proto "Error values": EPERM for changes to a read-only export.
    if read_only && command != Command::Read {
        return Err(Errno::Perm);
    }
    if payload_bytes(command, request) > limits.payload_max {
        return Err(Errno::Invalid);
    }
    let block_min = u64::from(limits.block_min.max(1));
    let aligned = request.offset.is_multiple_of(block_min)
        && u64::from(request.length).is_multiple_of(block_min);
    if !aligned {
        return Err(Errno::Invalid);
    }
    let end = request.offset.checked_add(u64::from(request.length));
    match end {
        Some(end) if end <= size_bytes => Ok(command),
        _ => Err(beyond_the_end(command)),
    }
}

/// Bytes that follow the request or its reply.
pub(super) fn payload_bytes(command: Command, request: &Request) -> u32 {
    match command {
        Command::Read | Command::Write => request.length,
        _ => 0,
    }
}

/// Proto "Command flags": FUA must be accepted with every command. `DF`, `REQ_ONE`, `FAST_ZERO` and
/// `PAYLOAD_LEN` belong to features that are not advertised.
fn flags_allowed(command: Command) -> u16 {
    match command {
        Command::WriteZeroes => FUA | NO_HOLE,
        _ => FUA,
    }
}

/// Proto "Error values" and `NBD_CMD_WRITE_ZEROES`.
fn beyond_the_end(command: Command) -> Errno {
    match command {
        Command::Write | Command::WriteZeroes => Errno::NoSpace,
        _ => Errno::Invalid,
    }
}
