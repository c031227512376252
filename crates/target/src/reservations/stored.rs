//! The state of one LUN's reservations as bytes, to be kept across restarts.
//!
//! ```text
//! 0  version, 1             8  number of registrants
//! 4  generation            12  kind in SCSI, 0 for none; index of the holder, ffff for all
//! 16 registrants: key (8), length of the host's identity (2), identity
//! ```
//!
//! Numbers are little-endian. The bytes have no checksum of their own, because whatever keeps them
//! has one; every number is checked nevertheless. Notices are not kept: a host that connects again
//! after a restart asks for the state anyway.

use super::state::{HOST_BYTES_MAX, Host, Key, Kind, REGISTRANTS_MAX, Reservation, State};

const VERSION: u32 = 1;
/// Index of a holder, if all registrants hold.
const ALL: u16 = 0xffff;

/// The bytes are no stored state, or one of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotStored;

pub(super) fn encode(state: &State) -> Vec<u8> {
    let count = u32::try_from(state.registered.len()).expect("bounded");
    let (kind, holder) = match &state.reservation {
        None => (0, ALL),
        Some(Reservation { kind, holder: None }) => (kind.scsi(), ALL),
        Some(Reservation {
            kind,
            holder: Some(holder),
        }) => {
            let mut registered = state.registered.iter();
            let index = registered.position(|(host, _)| host == holder);
            let index = index.expect("a holder is registered");
            (kind.scsi(), u16::try_from(index).expect("bounded"))
        }
    };
    let mut bytes = Vec::new();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(state.generation.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend(u16::from(kind).to_le_bytes());
    bytes.extend(holder.to_le_bytes());
    for (host, key) in &state.registered {
        let length = u16::try_from(host.bytes().len()).expect("bounded");
        bytes.extend(key.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(host.bytes());
    }
    bytes
}

pub(super) fn decode(bytes: &[u8]) -> Result<State, NotStored> {
    let mut rest = bytes;
    let version = u32::from_le_bytes(take(&mut rest)?);
    let generation = u32::from_le_bytes(take(&mut rest)?);
    let count = u32::from_le_bytes(take(&mut rest)?) as usize;
    let kind = u16::from_le_bytes(take(&mut rest)?);
    let holder = u16::from_le_bytes(take(&mut rest)?);
    if version != VERSION || count > REGISTRANTS_MAX {
        return Err(NotStored);
    }
    let mut registered: Vec<(Host, Key)> = Vec::with_capacity(count);
    for _ in 0..count {
        let key = Key::from_le_bytes(take(&mut rest)?);
        let length = usize::from(u16::from_le_bytes(take(&mut rest)?));
        if length > HOST_BYTES_MAX || key == 0 {
            return Err(NotStored);
        }
        let (identity, behind) = rest.split_at_checked(length).ok_or(NotStored)?;
        rest = behind;
        let host = Host::new(identity);
        if registered.iter().any(|(other, _)| *other == host) {
            return Err(NotStored);
        }
        registered.push((host, key));
    }
    let reservation = match kind {
        0 if holder == ALL => None,
        number => {
            let number = u8::try_from(number).map_err(|_| NotStored)?;
            let kind = Kind::of_scsi(number).ok_or(NotStored)?;
            let holder = match (kind.is_for_all(), registered.get(usize::from(holder))) {
                (true, None) if holder == ALL && !registered.is_empty() => None,
                (false, Some((host, _))) => Some(host.clone()),
                _ => return Err(NotStored),
            };
            Some(Reservation { kind, holder })
        }
    };
    if !rest.is_empty() {
        return Err(NotStored);
    }
    Ok(State {
        generation,
        registered,
        reservation,
        // Nothing else is stored.
        persists: true,
        ..State::default()
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], NotStored> {
    let (taken, behind) = rest.split_first_chunk().ok_or(NotStored)?;
    *rest = behind;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reservations::Existing;

    #[test]
    fn what_was_stored_is_what_was_there() {
        let [a, b] = [b"host a", b"host b"].map(|name| Host::new(name));
        for kind in Kind::ALL.into_iter().map(Some).chain([None]) {
            let mut state = State::default();
            for (host, key) in [(&a, 1), (&b, u64::MAX)] {
                state.register(host, Existing::Ignored, key).expect("room");
            }
            if let Some(kind) = kind {
                state.acquire(&b, u64::MAX, kind).expect("free");
            }
            let bytes = encode(&state);
            let again = decode(&bytes).expect("just stored");
            assert_eq!(again.report(), state.report());
            for length in 0..bytes.len() {
                assert!(decode(&bytes[..length]).is_err(), "cut off at {length}");
            }
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    // It must not panic, and what it accepts must be storable.
                    if let Ok(state) = decode(&damaged) {
                        assert_eq!(encode(&state), damaged);
                    }
                }
            }
        }
    }
}
