//! The check of a request: it is carried out, or answered with an error.

use everglade_target::sessions::memory::{Class, page_bytes};
use everglade_target::{Limits, OP_BYTES_MAX};

use super::super::terms::{Style, Tells, Terms};
use super::Slices;
use super::fence::Fence;
use crate::wire::request::command_flags::{DF, FAST_ZERO, FUA, NO_HOLE, PAYLOAD_LEN, REQ_ONE};
use crate::wire::{Command, Errno, Request};

/// The facts that a verdict depends on, besides the request.
pub(super) struct Law<'a> {
    pub(super) size_bytes: u64,
    pub(super) read_only: bool,
    pub(super) limits: &'a Limits,
    /// Limit of a request in bytes: twice the advertised maximum, for clients that ignore it.
    pub(super) accepted_bytes_max: u32,
    pub(super) terms: &'a Terms,
    pub(super) fence: &'a Fence,
}

/// The reasons why a request is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) errno: Errno,
    /// Text for people; sent if the reply has room for it.
    pub(super) text: String,
}

impl Refusal {
    pub(super) fn new(errno: Errno, text: impl Into<String>) -> Self {
        let text = text.into();
        Refusal { errno, text }
    }

    fn invalid(text: &str) -> Self {
        Refusal::new(Errno::Invalid, text)
    }
}

impl Law<'_> {
    /// Returns the command to carry out, whose range lies within the export.
    pub(super) fn judge(&self, request: &Request) -> Result<Command, Refusal> {
        // Proto "Error values": EINVAL for unknown commands and flags.
        let command = Command::of_code(request.command)
            .ok_or_else(|| Refusal::invalid("the command is not known"))?;
        self.judge_flags(command, request)?;
        if command == Command::Flush {
            // Proto "Request types": reserved, and MUST be zero.
            let zero = request.offset == 0 && request.length == 0;
            let refusal = || Refusal::invalid("a flush concerns no range");
            return zero.then_some(command).ok_or_else(refusal);
        }
        // Proto "Error values": EPERM for changes to a read-only export.
        if self.read_only && changes(command) {
            let text = "the export is read-only";
            return Err(Refusal::new(Errno::Perm, text));
        }
        self.judge_range(command, request)?;
        // After a range that does not exist: who is kept out may still learn of mistakes.
        match self.fence.admits(command) {
            true => Ok(command),
            false => Err(Refusal::new(Errno::Perm, Fence::TEXT)),
        }
    }

    fn judge_flags(&self, command: Command, request: &Request) -> Result<(), Refusal> {
        if request.flags & !self.flags_allowed(command) != 0 {
            return Err(Refusal::invalid("a flag does not belong to the command"));
        }
        let has_payload = request.payload_bytes(self.terms.style == Style::Extended) > 0;
        if command == Command::Write && !has_payload && request.length > 0 {
            let text = "a write needs the flag PAYLOAD_LEN and its payload";
            return Err(Refusal::invalid(text));
        }
        if command == Command::BlockStatus {
            if self.terms.contexts.is_empty() {
                let text = "no metadata context was chosen for this export";
                return Err(Refusal::invalid(text));
            }
            let mut contexts = self.terms.contexts.iter();
            if contexts.any(|context| context.tells == Tells::Changed { since: None }) {
                let text =
                    "the snapshot to tell changes since was deleted before the export was opened";
                return Err(Refusal::invalid(text));
            }
        }
        // Proto `NBD_CMD_WRITE_ZEROES`: refused unless it is faster than writing. Zeroes that take
        // space are written like other data.
        let fast = FAST_ZERO | NO_HOLE;
        if command == Command::WriteZeroes && request.flags & fast == fast {
            let text = "zeroes that take space are not faster than a write";
            return Err(Refusal::new(Errno::NotSupported, text));
        }
        Ok(())
    }

    fn judge_range(&self, command: Command, request: &Request) -> Result<(), Refusal> {
        let has_data = matches!(command, Command::Read | Command::Write);
        if has_data && request.length > u64::from(self.accepted_bytes_max) {
            let max = self.limits.payload_max;
            let text = format!("a request moves at most {max} bytes");
            return Err(Refusal::new(Errno::Invalid, text));
        }
        let block_min = u64::from(self.limits.block_min.max(1));
        let aligned =
            request.offset.is_multiple_of(block_min) && request.length.is_multiple_of(block_min);
        if !aligned {
            let text = format!("offset and length must be multiples of {block_min}");
            return Err(Refusal::new(Errno::Invalid, text));
        }
        match request.offset.checked_add(request.length) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ => {
                let size = self.size_bytes;
                let text = format!("the range ends beyond the export of {size} bytes");
                Err(Refusal::new(beyond_the_end(command), text))
            }
        }
    }

    /// Returns the flags that a command may have (proto "Command flags"): FUA with every command,
    /// the other flags only with commands that use them, and only if their feature was negotiated.
    fn flags_allowed(&self, command: Command) -> u16 {
        let special = match command {
            Command::Read if self.terms.style.has_chunks() => DF,
            Command::Write if self.terms.style == Style::Extended => PAYLOAD_LEN,
            Command::WriteZeroes => NO_HOLE | FAST_ZERO,
            Command::BlockStatus => REQ_ONE,
            _ => 0,
        };
        FUA | special
    }
}

/// The memory that a request takes.
pub(super) struct Charge {
    /// Bytes charged at once, besides the request itself.
    pub(super) whole: u64,
    /// The memory that is taken slice by slice, if the request is not one operation.
    pub(super) slices: Option<Slices>,
    pub(super) class: Class,
}

/// Returns the memory that the request or its reply will take. `request` was judged to be in order.
pub(super) fn charge(
    command: Command,
    request: &Request,
    limits: &Limits,
    contexts: usize,
) -> Charge {
    let moved = match command {
        Command::Read | Command::Write => request.length,
        Command::Cache => request.length.min(u64::from(limits.payload_max)),
        Command::BlockStatus => {
            let whole = super::EXTENTS_CHARGE * contexts as u64;
            let class = Class::of(whole);
            return Charge {
                whole,
                slices: None,
                class,
            };
        }
        _ => 0,
    };
    let class = Class::of(moved);
    let bytes = u32::try_from(moved).expect("the longest request has 32 bits");
    let slices = (bytes > OP_BYTES_MAX).then(|| Slices::new(request.offset, bytes));
    let whole = match slices {
        Some(_) => 0,
        None => page_bytes(request.offset, bytes),
    };
    Charge {
        whole,
        slices,
        class,
    }
}

fn changes(command: Command) -> bool {
    matches!(
        command,
        Command::Write | Command::Trim | Command::WriteZeroes
    )
}

/// Returns the error for a range beyond the end (proto "Error values" and `NBD_CMD_WRITE_ZEROES`).
fn beyond_the_end(command: Command) -> Errno {
    match command {
        Command::Write | Command::WriteZeroes => Errno::NoSpace,
        _ => Errno::Invalid,
    }
}
