//! The check of a command: it is admitted, with what it needs, or refused with a status.

use everglade_target::sessions::memory::{Class, REQUEST_BYTES, Reservation, page_bytes};
use everglade_target::{COMPARE_BYTES_MAX, Target};

use super::fused::Fused;
use super::plan::{
    COPY_ENTRY_BYTES, COPY_RANGES_MAX, PIECE_BYTES, Plan, RANGE_ENTRY_BYTES, checked_range,
    from_host, has_no_data, piece_charge, structure_from_host, to_host,
};
use super::queue::Queue;
use super::requests::{CopyWork, Payload, Request, Work};
use super::settings::TRANSFER_BYTES_MAX;
use super::{Phase, Session, reservations};
use crate::metrics::Operation;
use crate::wire::identify::BLOCK_SHIFT;
use crate::wire::opcode::{admin, io};
use crate::wire::sqe::Fuse;
use crate::wire::{Command, SglKind, Status};

/// All namespaces.
const EVERY_NAMESPACE: u32 = u32::MAX;

/// A command that was admitted or answered.
pub(super) struct Admitted {
    /// Its row, unless it was refused or is kept.
    row: Option<usize>,
    /// The row for the data that follows in the same message.
    pub(super) takes_data: Option<usize>,
    /// Bytes that the host must be asked for.
    asks_for: Option<u32>,
}

impl Admitted {
    /// Nothing follows.
    fn nothing() -> Admitted {
        Admitted {
            row: None,
            takes_data: None,
            asks_for: None,
        }
    }
}

impl Session {
    /// Checks a command and takes memory for it. `None` if there is not enough; nothing has
    /// happened then.
    pub(super) fn admit(
        &mut self,
        command: &Command,
        data_bytes: u32,
        target: &mut dyn Target,
    ) -> Option<Admitted> {
        if self.is_event_request(command) {
            let kept = match self.is_in_use(command.id) {
                true => Err(Status::COMMAND_ID_CONFLICT),
                false => self.keep_event_request(command.id),
            };
            if let Err(status) = kept {
                return self.refuse(command, status);
            }
            self.note_command();
            self.tell_events();
            return Some(Admitted::nothing());
        }
        if self.is_keep_alive(command, data_bytes) {
            // Uncharged, or a host would lose its controller while others use the memory.
            self.note_command();
            let held = Reservation::none(Class::Small);
            self.respond(command.id, Status::SUCCESS, 0, held);
            return Some(Admitted::nothing());
        }
        let judged = self.judge(command, data_bytes, target);
        let plan = match judged {
            Ok(plan) => plan,
            Err(status) => return self.refuse(command, status),
        };
        let is_in_capsule = plan.from_host > 0 && command.sgl.kind == SglKind::InCapsule;
        let pages = match (is_in_capsule, plan.work.takes_blocks()) {
            (false, _) => 0,
            (true, true) => page_bytes(plan.offset, plan.from_host),
            (true, false) => u64::from(plan.from_host),
        };
        let is_asked = plan.from_host > 0 && !is_in_capsule;
        // What a command needs besides its data is of no use before the data is there.
        let (now, later) = match is_asked {
            true => (0, plan.charge),
            false => (plan.charge, 0),
        };
        let held = Reservation {
            bytes: REQUEST_BYTES + now + pages,
            class: Class::of(plan.bytes_moved()),
        };
        if !self.ledger.take(held.bytes, held.class) {
            return None;
        }
        let from_host = plan.from_host;
        let row = self.insert(command, plan, held, is_asked);
        self.requests.row(row).later = later;
        if is_in_capsule {
            assert!(
                self.open_payload(row, from_host, false),
                "data in a command's message was charged with the command"
            );
        }
        Some(Admitted {
            row: Some(row),
            takes_data: is_in_capsule.then_some(row),
            asks_for: is_asked.then_some(from_host),
        })
    }

    fn insert(
        &mut self,
        command: &Command,
        plan: Plan,
        held: Reservation,
        is_asked: bool,
    ) -> usize {
        let payload = match is_asked {
            true => Payload::Awaited {
                length: plan.from_host,
            },
            false => Payload::None,
        };
        self.requests.asked += usize::from(is_asked);
        let row = self.requests.insert(Request {
            command_id: command.id,
            operation: plan.operation,
            lun: plan.lun,
            offset: plan.offset,
            length: plan.length,
            durable: plan.durable,
            held,
            later: 0,
            since: self.metrics.now(),
            in_flight: 0,
            status: Status::SUCCESS,
            result: 0,
            payload,
            work: plan.work,
        });
        self.note_command();
        let Phase::Queue(queue) = &mut self.phase else {
            unreachable!("called for a queue")
        };
        queue.command_ids.insert(command.id);
        row
    }

    /// Counts a command of the queue.
    fn note_command(&mut self) {
        if let Phase::Queue(queue) = &mut self.phase {
            queue.count_command();
            queue.controller.hear();
        }
    }

    /// Answers a command that is not carried out. `None` if there is no memory for the answer.
    fn refuse(&mut self, command: &Command, status: Status) -> Option<Admitted> {
        let held = Reservation {
            bytes: REQUEST_BYTES,
            class: Class::Small,
        };
        if !self.ledger.take(held.bytes, held.class) {
            return None;
        }
        self.note_command();
        let Phase::Queue(queue) = &mut self.phase else {
            unreachable!("called for a queue")
        };
        let operation = match queue.is_admin() {
            true => Some(Operation::Admin),
            false => operation_of(command),
        };
        self.metrics.refused(operation);
        let missing = match command.fuse() {
            Fuse::First => {
                let before = std::mem::replace(&mut queue.fused, Fused::FirstFailed);
                before.waiting()
            }
            _ => std::mem::take(&mut queue.fused).waiting(),
        };
        self.respond(command.id, status, 0, held);
        if let Some(first) = missing {
            self.fail_first(first, command.fuse());
        }
        Some(Admitted::nothing())
    }

    /// Carries out a command that needs no data, or asks for the data.
    pub(super) fn begin(&mut self, admitted: &Admitted, target: &mut dyn Target) {
        let Some(row) = admitted.row else {
            return;
        };
        self.note_fused(row);
        match admitted.asks_for {
            Some(length) => self.ask_for_data(row, length),
            None if admitted.takes_data.is_none() => self.run(row, target),
            None => {}
        }
    }

    fn judge(
        &mut self,
        command: &Command,
        data_bytes: u32,
        target: &mut dyn Target,
    ) -> Result<Plan, Status> {
        let Phase::Queue(queue) = &self.phase else {
            unreachable!("called for a queue")
        };
        if self.is_in_use(command.id) {
            return Err(Status::COMMAND_ID_CONFLICT);
        }
        if queue.is_admin() || command.opcode == crate::wire::opcode::FABRICS {
            return self.judge_admin(command, data_bytes);
        }
        judge_io(queue, command, data_bytes, target)
    }
}

impl Session {
    fn is_event_request(&self, command: &Command) -> bool {
        let is_admin = matches!(&self.phase, Phase::Queue(queue) if queue.is_admin());
        is_admin && command.opcode == admin::ASYNC_EVENT
    }

    fn is_keep_alive(&self, command: &Command, data_bytes: u32) -> bool {
        let is_admin = matches!(&self.phase, Phase::Queue(queue) if queue.is_admin());
        let is_plain = data_bytes == 0 && command.fuse() == Fuse::Alone;
        is_admin && is_plain && command.opcode == admin::KEEP_ALIVE && !self.is_in_use(command.id)
    }

    /// Returns whether a command with this id is in progress.
    fn is_in_use(&self, id: u16) -> bool {
        let Phase::Queue(queue) = &self.phase else {
            return false;
        };
        let admin = queue.admin.as_ref();
        queue.command_ids.contains(id) || admin.is_some_and(|it| it.has_event_request(id))
    }
}

/// Returns the kind under which a command for input and output is counted.
fn operation_of(command: &Command) -> Option<Operation> {
    Some(match command.opcode {
        io::FLUSH => Operation::Flush,
        io::WRITE if command.fuse() == Fuse::Second => Operation::CompareAndWrite,
        io::WRITE => Operation::Write,
        io::READ => Operation::Read,
        io::COMPARE => Operation::Compare,
        io::WRITE_ZEROES => Operation::WriteZeroes,
        io::DATASET_MANAGEMENT => Operation::DatasetManagement,
        io::VERIFY => Operation::Verify,
        io::COPY => Operation::Copy,
        io::RESERVATION_REGISTER
        | io::RESERVATION_REPORT
        | io::RESERVATION_ACQUIRE
        | io::RESERVATION_RELEASE => Operation::Reservation,
        _ => return None,
    })
}

fn judge_io(
    queue: &Queue,
    command: &Command,
    data_bytes: u32,
    target: &mut dyn Target,
) -> Result<Plan, Status> {
    if !queue.controller.is_ready() {
        return Err(Status::COMMAND_SEQUENCE);
    }
    let operation = operation_of(command).ok_or(Status::INVALID_OPCODE)?;
    judge_fuse(queue, command)?;
    let is_for_all = command.opcode == io::FLUSH && command.namespace == EVERY_NAMESPACE;
    let namespace = match is_for_all {
        // A flush covers everything that has completed, whatever the LUN (contract 3).
        true => queue.namespaces().next(),
        false => queue.namespace(command.namespace),
    };
    let namespace = namespace.ok_or(Status::INVALID_NAMESPACE)?;
    let lun = namespace.lun;
    let Some(size_bytes) = target.size_bytes(lun) else {
        // The controller ends with its LUN; see `Session::complete`.
        queue.controller.end();
        return Err(Status::NAMESPACE_NOT_READY);
    };
    let access = reservations::access_of(command.opcode);
    if access.is_some_and(|access| !namespace.may(&queue.host, access)) {
        return Err(Status::RESERVATION_CONFLICT);
    }
    if operation == Operation::Reservation {
        if !namespace.offers_reservations {
            return Err(Status::INVALID_OPCODE);
        }
        return reservations::judge(namespace, command, data_bytes);
    }
    let is_change = matches!(
        command.opcode,
        io::WRITE | io::WRITE_ZEROES | io::DATASET_MANAGEMENT | io::COPY
    );
    if is_change && namespace.export.read_only {
        return Err(Status::WRITE_PROTECTED);
    }
    let control = command.words[2];
    let plan = |offset, length, work| Plan {
        operation,
        lun,
        offset,
        length,
        durable: control & FORCE_UNIT_ACCESS != 0,
        from_host: 0,
        charge: 0,
        work,
    };
    match command.opcode {
        io::FLUSH => {
            has_no_data(data_bytes)?;
            Ok(plan(0, 0, Work::Flush))
        }
        io::READ => {
            has_no_data(data_bytes)?;
            let (offset, length) = transfer(command, size_bytes)?;
            to_host(command, length)?;
            let plan = plan(offset, length, Work::Read);
            let charge = page_bytes(offset, length);
            Ok(Plan { charge, ..plan })
        }
        io::WRITE | io::COMPARE => {
            let (offset, length) = transfer(command, size_bytes)?;
            from_host(command, length, data_bytes)?;
            let is_fused = command.fuse() != Fuse::Alone;
            if is_fused && length > COMPARE_BYTES_MAX {
                return Err(Status::INVALID_FIELD);
            }
            let (work, charge) = match command.opcode {
                io::WRITE if is_fused => {
                    let first = queue.fused.first();
                    (Work::FusedWrite { first, data: None }, 0)
                }
                io::WRITE => (Work::Write, 0),
                _ if is_fused => {
                    let (data, second) = (None, None);
                    (Work::FusedCompare { data, second }, 0)
                }
                _ => {
                    let piece = u64::from(length).min(PIECE_BYTES);
                    (Work::Compare { data: None, at: 0 }, piece_charge(piece))
                }
            };
            let plan = plan(offset, length, work);
            let from_host = length;
            Ok(Plan {
                from_host,
                charge,
                ..plan
            })
        }
        io::WRITE_ZEROES => {
            has_no_data(data_bytes)?;
            let (offset, bytes) = range(command, size_bytes)?;
            let allocate = control & DEALLOCATE == 0;
            Ok(plan(offset, 0, Work::Zeroes { bytes, allocate }))
        }
        io::VERIFY => {
            has_no_data(data_bytes)?;
            let (offset, bytes) = range(command, size_bytes)?;
            let charge = piece_charge(bytes.min(PIECE_BYTES));
            let plan = plan(offset, 0, Work::Verify { bytes, at: 0 });
            Ok(Plan { charge, ..plan })
        }
        io::DATASET_MANAGEMENT => {
            let ranges = usize::from(command.words[0].to_le_bytes()[0]) + 1;
            let bytes = structure_bytes(ranges, RANGE_ENTRY_BYTES);
            let from_host = structure_from_host(command, bytes, data_bytes)?;
            // Without this attribute the ranges are hints that we do not use.
            let count = match command.words[1] & DEALLOCATE_RANGES {
                0 => 0,
                _ => ranges,
            };
            let ranges = Vec::new();
            let plan = plan(0, 0, Work::Discard { count, ranges });
            Ok(Plan { from_host, ..plan })
        }
        _ => {
            let [count, format, ..] = control.to_le_bytes();
            if format & 0xf != 0 {
                return Err(Status::INVALID_FIELD);
            }
            if count >= COPY_RANGES_MAX {
                return Err(Status::SIZE_LIMIT_EXCEEDED);
            }
            let count = usize::from(count) + 1;
            let bytes = structure_bytes(count, COPY_ENTRY_BYTES);
            let from_host = structure_from_host(command, bytes, data_bytes)?;
            let first = command.first_block();
            if first >= size_bytes >> BLOCK_SHIFT {
                return Err(Status::LBA_OUT_OF_RANGE);
            }
            let work = Work::Copy(Box::new(CopyWork {
                ranges: Vec::new(),
                count,
                index: 0,
                at: 0,
                destination: first << BLOCK_SHIFT,
                piece: 0,
            }));
            let plan = plan(0, 0, work);
            Ok(Plan {
                from_host,
                // A piece that was read, and the same to be written.
                charge: 2 * piece_charge(PIECE_BYTES),
                ..plan
            })
        }
    }
}

/// Writes are durable when they complete.
const FORCE_UNIT_ACCESS: u32 = 1 << 30;
/// Zeroes may be deallocated.
const DEALLOCATE: u32 = 1 << 25;
/// The ranges of Dataset Management are to be deallocated.
const DEALLOCATE_RANGES: u32 = 1 << 2;

/// Checks that a command is fused as it may be, at the place where it may be.
fn judge_fuse(queue: &Queue, command: &Command) -> Result<(), Status> {
    match (command.fuse(), command.opcode) {
        (Fuse::Alone, _) | (Fuse::First, io::COMPARE) => Ok(()),
        (Fuse::Second, io::WRITE) => match &queue.fused {
            Fused::None => Err(Status::MISSING_FUSED),
            Fused::FirstFailed => Err(Status::FAILED_FUSED),
            Fused::First { range, .. } if *range != command_range(command) => {
                Err(Status::INVALID_FIELD)
            }
            Fused::First { .. } => Ok(()),
        },
        _ => Err(Status::INVALID_FIELD),
    }
}

/// Returns what both halves of a fused operation must have in common: namespace and blocks.
pub(super) fn command_range(command: &Command) -> (u32, u64, u32) {
    (
        command.namespace,
        command.first_block(),
        command.block_count(),
    )
}

fn structure_bytes(entries: usize, entry_bytes: usize) -> u32 {
    u32::try_from(entries * entry_bytes).expect("at most 256 entries of 32 bytes")
}

/// Returns the range of a command in bytes: the first, and how many.
fn range(command: &Command, size_bytes: u64) -> Result<(u64, u64), Status> {
    let (first, count) = (command.first_block(), u64::from(command.block_count()));
    checked_range(first, count, size_bytes)
}

/// Returns the range of a command that moves its blocks, in bytes.
fn transfer(command: &Command, size_bytes: u64) -> Result<(u64, u32), Status> {
    let bytes = command.block_count() << BLOCK_SHIFT;
    if bytes > TRANSFER_BYTES_MAX {
        return Err(Status::INVALID_FIELD);
    }
    let (offset, _) = range(command, size_bytes)?;
    Ok((offset, bytes))
}
