//! PERSISTENT RESERVE IN and OUT: the state machine of [`everglade_target::reservations`] as
//! parameters (SPC-4 §6.15, §6.16).

use everglade_target::reservations::{Existing, Host, Kind, Refusal, Report, Reservations, Ticket};

use super::Sense;
use super::unit::RELATIVE_PORT;

/// Service actions of PERSISTENT RESERVE IN.
mod reads {
    pub(super) const KEYS: u8 = 0;
    pub(super) const RESERVATION: u8 = 1;
    pub(super) const CAPABILITIES: u8 = 2;
    pub(super) const FULL_STATUS: u8 = 3;
}

/// Service actions of PERSISTENT RESERVE OUT.
mod writes {
    pub(super) const REGISTER: u8 = 0;
    pub(super) const RESERVE: u8 = 1;
    pub(super) const RELEASE: u8 = 2;
    pub(super) const CLEAR: u8 = 3;
    pub(super) const PREEMPT: u8 = 4;
    pub(super) const PREEMPT_AND_ABORT: u8 = 5;
    pub(super) const REGISTER_AND_IGNORE: u8 = 6;
}

/// Bytes of the parameters.
const PARAMETER_BYTES: usize = 24;
/// The state is to outlive the power.
const APTPL: u8 = 0x01;
/// What identities of iSCSI hosts begin with, so that they differ from those of other protocols.
const ISCSI: &[u8] = b"iscsi\0";

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Check condition.
    Sense(Sense),
    /// Reservation conflict.
    Conflict,
}

impl From<Sense> for Failure {
    fn from(sense: Sense) -> Failure {
        Failure::Sense(sense)
    }
}

/// Returns the identity of an initiator's port: its name, and its part of the session's identity
/// (SPC-4 §7.6.4.6).
///
/// # Panics
/// If the name is longer than an iSCSI name can be.
#[must_use]
pub fn host(initiator: &str, isid: [u8; 6]) -> Host {
    let isid: String = isid.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("{initiator},i,0x{isid}");
    Host::new(&[ISCSI, name.as_bytes()].concat())
}

/// Answers PERSISTENT RESERVE IN.
///
/// # Errors
/// The service action is not known.
pub fn read(reservations: &Reservations, action: u8) -> Result<Vec<u8>, Sense> {
    let report = reservations.report();
    match action {
        reads::KEYS => {
            let keys = report.registrants.iter().map(|it| it.key.to_be_bytes());
            Ok(with_generation(&report, &keys.collect::<Vec<_>>().concat()))
        }
        reads::RESERVATION => Ok(with_generation(&report, &reservation(&report))),
        // Specific commands are as SPC-4 says; all kinds are there. PTPL_C says whether a loss of
        // power may be survived, and PTPL_A whether it is.
        reads::CAPABILITIES => {
            let can = u8::from(reservations.can_persist());
            let does = u8::from(reservations.persists());
            Ok(vec![0, 8, can, 0x80 | does, 0xea, 0x01, 0, 0])
        }
        reads::FULL_STATUS => {
            let all = report.registrants.iter();
            let all = all.map(|it| full_status(&report, &it.host, it.key, it.holds));
            Ok(with_generation(&report, &all.collect::<Vec<_>>().concat()))
        }
        _ => Err(Sense::in_command(1)),
    }
}

fn with_generation(report: &Report, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("registrants are bounded");
    let mut answer = report.generation.to_be_bytes().to_vec();
    answer.extend(length.to_be_bytes());
    answer.extend(body);
    answer
}

fn reservation(report: &Report) -> Vec<u8> {
    let Some(kind) = report.kind else {
        return Vec::new();
    };
    // A reservation of all registrants has no key (SPC-4 §6.15.3.2).
    let holder = report.registrants.iter().find(|it| it.holds);
    let key = holder.filter(|_| !kind.is_for_all()).map_or(0, |it| it.key);
    let mut body = key.to_be_bytes().to_vec();
    body.extend([0, 0, 0, 0, 0, kind.scsi(), 0, 0]);
    body
}

fn full_status(report: &Report, host: &Host, key: u64, holds: bool) -> Vec<u8> {
    let mut body = key.to_be_bytes().to_vec();
    let kind = report.kind.filter(|_| holds).map_or(0, Kind::scsi);
    body.extend([0, 0, 0, 0, u8::from(holds), kind, 0, 0, 0, 0]);
    body.extend(RELATIVE_PORT.to_be_bytes());
    let transport = transport_id(host);
    let length = u32::try_from(transport.len()).expect("short");
    body.extend(length.to_be_bytes());
    body.extend(transport);
    body
}

/// The identity of a host as SCSI has it. Hosts of other protocols have names that no initiator
/// has.
fn transport_id(host: &Host) -> Vec<u8> {
    let mut name = match host.bytes().strip_prefix(ISCSI) {
        Some(name) => name.to_vec(),
        None => {
            let digits = host.bytes().iter().map(|byte| format!("{byte:02x}"));
            let digits: String = digits.collect();
            format!("other.{digits:.200},i,0x000000000000").into_bytes()
        }
    };
    name.push(0);
    name.resize(name.len().next_multiple_of(4).max(20), 0);
    let length = u16::try_from(name.len()).expect("short");
    let mut transport = vec![0x45, 0];
    transport.extend(length.to_be_bytes());
    transport.extend(name);
    transport
}

/// Carries out PERSISTENT RESERVE OUT. With a ticket it is answered when the ticket is.
///
/// # Errors
/// It is refused; then nothing has changed.
pub fn write(
    reservations: &Reservations,
    host: &Host,
    (action, scope, kind): (u8, u8, u8),
    parameters: &[u8],
) -> Result<Option<Ticket>, Failure> {
    if parameters.len() != PARAMETER_BYTES {
        return Err(Sense::PARAMETER_LENGTH.into());
    }
    let key_at = |at: usize| u64::from_be_bytes(parameters[at..at + 8].try_into().expect("8"));
    let (key, other) = (key_at(0), key_at(8));
    // Other initiators and other ports cannot be registered.
    let persists = is_register(action) && parameters[20] & APTPL != 0;
    let is_promise = persists && !reservations.can_persist();
    if parameters[20] & 0x08 != 0 || is_register(action) && parameters[20] & 0x04 != 0 || is_promise
    {
        return Err(Sense::in_parameters(20).into());
    }
    let needs_kind = !is_register(action) && action != writes::CLEAR;
    let kind = match Kind::of_scsi(kind) {
        _ if needs_kind && scope != 0 => return Err(Sense::in_command(2).into()),
        None if needs_kind => return Err(Sense::in_command(2).into()),
        kind => kind.unwrap_or(Kind::WriteExclusive),
    };
    let outcome = reservations.change_kept(|state| match action {
        writes::REGISTER | writes::REGISTER_AND_IGNORE => {
            let existing = match action {
                writes::REGISTER => Existing::Is(key),
                _ => Existing::Ignored,
            };
            state.register(host, existing, other)?;
            state.set_persists(persists);
            Ok(())
        }
        writes::RESERVE => state.acquire(host, key, kind),
        writes::RELEASE => state.release(host, key, kind),
        writes::CLEAR => state.clear(host, key),
        writes::PREEMPT => state.preempt(host, key, other, kind, false).map(drop),
        writes::PREEMPT_AND_ABORT => state.preempt(host, key, other, kind, true).map(drop),
        // Decoding knows no others.
        _ => Err(Refusal::Conflict),
    });
    outcome
        .map(|(_, ticket)| ticket)
        .map_err(|refusal| match refusal {
            Refusal::Conflict => Failure::Conflict,
            Refusal::WrongKind => Sense::INVALID_RELEASE.into(),
            Refusal::NoKey => Sense::in_parameters(8).into(),
            Refusal::Full => Sense::NO_ROOM_FOR_REGISTRATION.into(),
        })
}

/// Returns whether a service action aborts commands of other hosts.
#[must_use]
pub fn aborts(action: u8) -> bool {
    action == writes::PREEMPT_AND_ABORT
}

fn is_register(action: u8) -> bool {
    matches!(action, writes::REGISTER | writes::REGISTER_AND_IGNORE)
}

#[cfg(test)]
mod tests {
    use everglade_target::reservations::Registry;

    use super::*;

    fn parameters(key: u64, other: u64, flags: u8) -> Vec<u8> {
        let mut bytes = [key.to_be_bytes(), other.to_be_bytes(), [0; 8]].concat();
        bytes[20] = flags;
        bytes
    }

    #[test]
    fn what_is_reserved_is_told() {
        let reservations = Reservations::default();
        let me = host("iqn.me", [1, 2, 3, 4, 5, 6]);
        let done = |action, kind, bytes: &[u8]| {
            write(&reservations, &me, (action, 0, kind), bytes).map(|ticket| ticket.is_some())
        };
        assert_eq!(done(0, 0, &parameters(0, 7, 0)), Ok(false));
        assert_eq!(
            read(&reservations, 0),
            Ok([[0, 0, 0, 1], [0, 0, 0, 8], [0; 4], [0, 0, 0, 7]].concat())
        );
        assert_eq!(read(&reservations, 1).expect("an answer").len(), 8);
        assert_eq!(done(1, 5, &parameters(7, 0, 0)), Ok(false));
        let told = read(&reservations, 1).expect("an answer");
        assert_eq!((told[15], told[21], told.len()), (7, 5, 24));
        let full = read(&reservations, 3).expect("an answer");
        assert_eq!((full[20], full[21]), (1, 5));
        assert_eq!(full[32], 0x45);
        assert!(full[36..].starts_with(b"iqn.me,i,0x010203040506\0"));
        assert_eq!(full.len() % 4, 0);
        let wrong = Err(Failure::Sense(Sense::INVALID_RELEASE));
        assert_eq!(done(2, 1, &parameters(7, 0, 0)), wrong);
        assert_eq!(done(2, 5, &parameters(8, 0, 0)), Err(Failure::Conflict));
        assert_eq!(done(2, 5, &parameters(7, 0, 0)), Ok(false));
    }

    #[test]
    fn what_cannot_be_promised_is_refused() {
        let reservations = Reservations::default();
        let me = host("iqn.me", [0; 6]);
        for (action, scope, kind, bytes, sense) in [
            (0, 0, 0, parameters(0, 1, 1), Sense::in_parameters(20)),
            (0, 0, 0, parameters(0, 1, 8), Sense::in_parameters(20)),
            (1, 0, 2, parameters(0, 1, 0), Sense::in_command(2)),
            (1, 1, 1, parameters(0, 1, 0), Sense::in_command(2)),
            (0, 0, 0, vec![0; 23], Sense::PARAMETER_LENGTH),
        ] {
            let refused = write(&reservations, &me, (action, scope, kind), &bytes);
            assert_eq!(refused.map(drop), Err(Failure::Sense(sense)));
        }
        assert_eq!(read(&reservations, 4), Err(Sense::in_command(1)));
    }

    #[test]
    fn with_a_keeper_reservations_are_kept_and_that_is_told() {
        let registry = Registry::with_keeper(|| {});
        let reservations = registry.lun(&[1; 16]);
        let me = host("iqn.me", [0; 6]);
        let told = |byte: usize| read(&reservations, 2).expect("an answer")[byte];
        assert_eq!((told(2), told(3)), (1, 0x80));
        let ticket = write(&reservations, &me, (6, 0, 0), &parameters(0, 7, 1));
        let ticket = ticket.expect("in order").expect("it waits");
        assert_eq!((told(2), told(3)), (1, 0x81));
        registry.to_keep().pop().expect("work").end(Ok(()));
        assert_eq!(ticket.outcome(), Some(Ok(())));
    }

    #[test]
    fn hosts_of_other_protocols_are_told_too() {
        let other = transport_id(&Host::new(&[0xab; 16]));
        assert!(other[4..].starts_with(b"other.abab"));
        assert_eq!(other.len() % 4, 0);
    }
}
