//! Reservations: hosts agree on who may use a namespace (base "Reservations").
//!
//! The state is `everglade_target::reservations`, which all protocols and reactors share. A host is
//! known by its identifier of 16 bytes, so all of its controllers are one. Here are the checks of
//! commands, the numbers of the commands, and what hosts are told.
//!
//! A command is checked when it comes, and again when its data has come. Operations that the target
//! has already begun end by themselves and nobody can end them, so *preempt and abort* is refused.
//!
//! A host may want that reservations outlive a loss of power (*persist through power loss*). Then a
//! change is answered when it is on stable storage (`everglade_target::reservations::keeping`).

use std::sync::Arc;

use everglade_target::reservations::{
    Access, Existing, Host, Kind, Refusal, Report, Reservations, State, Ticket,
};

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
/// Changes of whether reservations outlive the power: none, no, yes.
const POWER_AS_BEFORE: u32 = 0;
const POWER_ENDS: u32 = 2;
const POWER_OUTLIVED: u32 = 3;
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
        if command.opcode == io::RESERVATION_REPORT {
            let report = report(&reservations, &command);
            let request = self.requests.row(row);
            let data = report.unwrap_or_else(|status| {
                request.status = status;
                Data::None
            });
            return self.finish(row, data);
        }
        let done = match command.opcode {
            io::RESERVATION_REGISTER => register(&reservations, &host, &command, &data),
            io::RESERVATION_ACQUIRE => acquire(&reservations, &host, &command, &data),
            _ => release(&reservations, &host, &command, &data),
        };
        self.changed(row, done);
    }

    /// Sets whether reservations of a namespace, or of all of them, outlive the power.
    pub(super) fn set_persistence(&mut self, row: usize, command: &Command) {
        const ALL: u32 = u32::MAX;
        let Phase::Queue(queue) = &self.phase else {
            unreachable!("commands belong to a queue")
        };
        let wanted = |id: u32| command.namespace == id || command.namespace == ALL;
        // A controller has one namespace.
        let found = queue.namespaces().find(|namespace| wanted(namespace.id));
        let persists = command.words[1] & 1 != 0;
        let done = match found {
            Some(namespace) if persists && !namespace.reservations.can_persist() => {
                Err(Status::INVALID_FIELD)
            }
            Some(namespace) => change(&namespace.reservations, |state| {
                state.set_persists(persists);
                Ok(())
            }),
            None => Err(Status::INVALID_NAMESPACE),
        };
        self.changed(row, done);
    }

    /// Answers a command that has changed reservations, now or when that is kept.
    fn changed(&mut self, row: usize, done: Changed) {
        match done {
            Ok(Some(ticket)) => return self.keeping.push((row, ticket)),
            Ok(None) => {}
            Err(status) => self.requests.row(row).status = status,
        }
        self.finish(row, Data::None);
    }

    /// Answers commands whose changes are kept, or cannot be.
    pub(super) fn look_at_keeping(&mut self) {
        if self.keeping.is_empty() {
            return;
        }
        for (row, ticket) in std::mem::take(&mut self.keeping) {
            match ticket.outcome() {
                None => self.keeping.push((row, ticket)),
                Some(outcome) => {
                    if outcome.is_err() {
                        self.requests.row(row).status = Status::INTERNAL;
                    }
                    self.finish(row, Data::None);
                }
            }
        }
    }
}

/// The outcome of a change. With a ticket the command is answered when that is.
type Changed = Result<Option<Ticket>, Status>;

fn change(
    reservations: &Reservations,
    change: impl FnOnce(&mut State) -> Result<(), Refusal>,
) -> Changed {
    match reservations.change_kept(change) {
        Ok(((), ticket)) => Ok(ticket),
        Err(Refusal::Conflict) => Err(Status::RESERVATION_CONFLICT),
        Err(Refusal::WrongKind | Refusal::NoKey) => Err(Status::INVALID_FIELD),
        Err(Refusal::Full) => Err(Status::INTERNAL),
    }
}

fn register(reservations: &Reservations, host: &Host, command: &Command, data: &[u8]) -> Changed {
    const REGISTER: u32 = 0;
    const UNREGISTER: u32 = 1;
    const REPLACE: u32 = 2;
    let word = command.words[0];
    let persists = match word >> 30 {
        POWER_AS_BEFORE => None,
        POWER_ENDS => Some(false),
        POWER_OUTLIVED if reservations.can_persist() => Some(true),
        _ => return Err(Status::INVALID_FIELD),
    };
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
    change(reservations, |state| {
        match (action, state.key(host)) {
            (REGISTER, Some(key)) if key == new => {}
            (REGISTER, Some(_)) | (UNREGISTER | REPLACE, None) => return Err(Refusal::Conflict),
            (REGISTER, None) => state.register(host, Existing::Is(0), new)?,
            (UNREGISTER, _) => state.register(host, existing, 0)?,
            _ => state.register(host, existing, new)?,
        }
        if let Some(persists) = persists {
            state.set_persists(persists);
        }
        Ok(())
    })
}

fn acquire(reservations: &Reservations, host: &Host, command: &Command, data: &[u8]) -> Changed {
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

fn release(reservations: &Reservations, host: &Host, command: &Command, data: &[u8]) -> Changed {
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

fn report(reservations: &Reservations, command: &Command) -> Result<Data, Status> {
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
    let mut bytes = log_page::reservation_report(
        generation,
        kind.map_or(0, Kind::nvme),
        reservations.persists(),
        &hosts,
    );
    let length = usize::try_from(report_bytes(command)).expect("at most a transfer");
    bytes.resize(length, 0);
    Ok(Data::Bytes(bytes.into_boxed_slice()))
}
