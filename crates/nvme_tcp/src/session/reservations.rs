//! Reservations: hosts agree on who may use a namespace (base "Reservations").
//!
//! The state is `everglade_target::reservations`, which all protocols and reactors share. A host is
//! known by its identifier of 16 bytes, so all of its controllers are one. Here are the checks of
//! commands, the numbers of the commands, and what hosts are told.
//!
//! A command is checked when it comes, and again when its data has come. Operations that the target
//! has already begun end by themselves and nobody can end them, so *preempt and abort* is refused.

use std::sync::Arc;

use everglade_target::reservations::{
    Access, Existing, Host, Kind, Refusal, Report, Reservations, State,
};

use super::admin::Done;
use super::outgoing::Data;
use super::plan::{Plan, has_no_data, structure_from_host, to_host_at_least};
use super::queue::OpenNamespace;
use super::requests::Work;
use super::settings::TRANSFER_BYTES_MAX;
use super::{Phase, Session};
use crate::metrics::Operation;
use crate::wire::fields::u64_at;
use crate::wire::opcode::io;
use crate::wire::{Command, Status, log_page};

/// Bytes of the data of a command: two keys, or one.
const TWO_KEYS: u32 = 16;
const ONE_KEY: u32 = 8;
/// The current key is not looked at.
const IGNORE_KEY: u32 = 1 << 3;
/// Reservations are to outlive the power, which they do not.
const OUTLIVE_POWER: u32 = 3;
/// The report is to have identifiers of 16 bytes.
const EXTENDED: u32 = 1;

/// Returns what a command does, as far as reservations care; `None` if they do not.
pub(super) fn access_of(opcode: u8) -> Option<Access> {
    match opcode {
        io::READ | io::COMPARE | io::VERIFY => Some(Access::Read),
        io::WRITE | io::WRITE_ZEROES | io::DATASET_MANAGEMENT | io::COPY | io::FLUSH => {
            Some(Access::Write)
        }
        _ => None,
    }
}

/// Checks a reservation command.
pub(super) fn judge(
    namespace: &OpenNamespace,
    command: &Command,
    data_bytes: u32,
) -> Result<Plan, Status> {
    let (needed, charge) = match command.opcode {
        io::RESERVATION_REGISTER | io::RESERVATION_ACQUIRE => (TWO_KEYS, 0),
        io::RESERVATION_RELEASE => (ONE_KEY, 0),
        _ => {
            has_no_data(data_bytes)?;
            let bytes = report_bytes(command);
            if bytes > u64::from(TRANSFER_BYTES_MAX) {
                return Err(Status::INVALID_FIELD);
            }
            to_host_at_least(command, bytes)?;
            (0, bytes)
        }
    };
    let from_host = match needed {
        0 => 0,
        needed => structure_from_host(command, needed, data_bytes)?,
    };
    Ok(Plan {
        operation: Operation::Reservation,
        lun: namespace.lun,
        offset: 0,
        length: 0,
        durable: false,
        from_host,
        charge,
        work: Work::Reservation(Box::new(*command)),
    })
}

/// Returns the length of a report that the host has room for.
fn report_bytes(command: &Command) -> u64 {
    (u64::from(command.words[0]) + 1) * 4
}

impl Session {
    /// Returns whether the host may do what the row does, now that its data is there.
    pub(super) fn may_run(&mut self, row: usize) -> bool {
        let request = self.requests.row(row);
        let access = match request.work {
            Work::Read | Work::Compare { .. } | Work::FusedCompare { .. } => Access::Read,
            Work::Write | Work::FusedWrite { .. } | Work::Discard { .. } | Work::Copy(_) => {
                Access::Write
            }
            // Those without data were checked a moment ago.
            _ => return true,
        };
        let lun = request.lun;
        let Phase::Queue(queue) = &self.phase else {
            return true;
        };
        let mut namespaces = queue.namespaces();
        let namespace = namespaces.find(|namespace| namespace.lun == lun);
        namespace.is_none_or(|it| it.may(&queue.host, access))
    }

    /// Carries out a reservation command whose data is there.
    pub(super) fn run_reservation(&mut self, row: usize) {
        let request = self.requests.row(row);
        let data = request.payload.take_bytes();
        let lun = request.lun;
        let Work::Reservation(command) = &request.work else {
            unreachable!("called for a reservation command")
        };
        let command = **command;
        let Phase::Queue(queue) = &self.phase else {
            unreachable!("commands belong to a queue")
        };
        let namespace = queue.namespaces().find(|namespace| namespace.lun == lun);
        let namespace = namespace.expect("it was judged");
        let reservations = Arc::clone(&namespace.reservations);
        let host = queue.host.clone();
        let done = match command.opcode {
            io::RESERVATION_REGISTER => register(&reservations, &host, &command, &data),
            io::RESERVATION_ACQUIRE => acquire(&reservations, &host, &command, &data),
            io::RESERVATION_RELEASE => release(&reservations, &host, &command, &data),
            _ => report(&reservations, &command),
        };
        let request = self.requests.row(row);
        let data = match done {
            Ok((_, data)) => data.map_or(Data::None, |it| Data::Bytes(it.into_boxed_slice())),
            Err(status) => {
                request.status = status;
                Data::None
            }
        };
        self.finish(row, data);
    }
}

/// What is left of a change: nothing to return.
const NOTHING: (u64, Option<Vec<u8>>) = (0, None);

fn change(
    reservations: &Reservations,
    change: impl FnOnce(&mut State) -> Result<(), Refusal>,
) -> Done {
    match reservations.change(change) {
        Ok(()) => Ok(NOTHING),
        Err(Refusal::Conflict) => Err(Status::RESERVATION_CONFLICT),
        Err(Refusal::WrongKind | Refusal::NoKey) => Err(Status::INVALID_FIELD),
        Err(Refusal::Full) => Err(Status::INTERNAL),
    }
}

fn register(reservations: &Reservations, host: &Host, command: &Command, data: &[u8]) -> Done {
    const REGISTER: u32 = 0;
    const UNREGISTER: u32 = 1;
    const REPLACE: u32 = 2;
    let word = command.words[0];
    if word >> 30 == OUTLIVE_POWER {
        return Err(Status::INVALID_FIELD);
    }
    let (current, new) = (u64_at(data, 0), u64_at(data, 8));
    let existing = match word & IGNORE_KEY {
        0 => Existing::Is(current),
        _ => Existing::Ignored,
    };
    // All hosts without an identifier would be one.
    if host.bytes().iter().all(|byte| *byte == 0) {
        return Err(Status::HOST_ID_INCONSISTENT);
    }
    let action = word & 7;
    if action > REPLACE || action != UNREGISTER && new == 0 {
        return Err(Status::INVALID_FIELD);
    }
    change(reservations, |state| match (action, state.key(host)) {
        (REGISTER, Some(key)) if key == new => Ok(()),
        (REGISTER, Some(_)) | (UNREGISTER | REPLACE, None) => Err(Refusal::Conflict),
        (REGISTER, None) => state.register(host, Existing::Is(0), new),
        (UNREGISTER, _) => state.register(host, existing, 0),
        _ => state.register(host, existing, new),
    })
}

fn acquire(reservations: &Reservations, host: &Host, command: &Command, data: &[u8]) -> Done {
    const ACQUIRE: u32 = 0;
    const PREEMPT: u32 = 1;
    let word = command.words[0];
    let kind = Kind::of_nvme(word.to_le_bytes()[1]).ok_or(Status::INVALID_FIELD)?;
    if word & IGNORE_KEY != 0 {
        return Err(Status::INVALID_FIELD);
    }
    let (key, victim) = (u64_at(data, 0), u64_at(data, 8));
    match word & 7 {
        ACQUIRE => change(reservations, |state| state.acquire(host, key, kind)),
        PREEMPT => change(reservations, |state| {
            state.preempt(host, key, victim, kind, false).map(drop)
        }),
        _ => Err(Status::INVALID_FIELD),
    }
}

fn release(reservations: &Reservations, host: &Host, command: &Command, data: &[u8]) -> Done {
    const RELEASE: u32 = 0;
    const CLEAR: u32 = 1;
    let word = command.words[0];
    if word & IGNORE_KEY != 0 {
        return Err(Status::INVALID_FIELD);
    }
    let key = u64_at(data, 0);
    match word & 7 {
        RELEASE => {
            let kind = Kind::of_nvme(word.to_le_bytes()[1]).ok_or(Status::INVALID_FIELD)?;
            change(reservations, |state| state.release(host, key, kind))
        }
        CLEAR => change(reservations, |state| state.clear(host, key)),
        _ => Err(Status::INVALID_FIELD),
    }
}

fn report(reservations: &Reservations, command: &Command) -> Done {
    // Hosts of fabrics have identifiers of 16 bytes.
    if command.words[1] & EXTENDED == 0 {
        return Err(Status::HOST_ID_INCONSISTENT);
    }
    let Report {
        generation,
        registrants,
        kind,
    } = reservations.report();
    let hosts = registrants.iter().map(|registrant| log_page::Registrant {
        // A host of another protocol has a longer name, of which this is the beginning.
        host_id: std::array::from_fn(|at| registrant.host.bytes().get(at).copied().unwrap_or(0)),
        key: registrant.key,
        holds: registrant.holds,
    });
    let hosts: Vec<_> = hosts.collect();
    let mut bytes = log_page::reservation_report(generation, kind.map_or(0, Kind::nvme), &hosts);
    let length = usize::try_from(report_bytes(command)).expect("at most a transfer");
    bytes.resize(length, 0);
    Ok((0, Some(bytes)))
}
