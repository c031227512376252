//! The seat of a member: its group, its column, what the column has, and whether that is current.
//!
//! Eight bytes of a member's entry in the config record, if the record has the incompatible feature
//! [`crate::config::INCOMPATIBLE_SEATS`] or [`crate::config::INCOMPATIBLE_REMOVAL`]; otherwise
//! these bytes mean nothing, and every member has the seat of all zeroes.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 2 | group (0 = no group: a member without redundancy) |
//! | 2 | 1 | column |
//! | 3 | 1 | role: 0 = data, 1 = copy, 2 = parity |
//! | 4 | 1 | state: 0 = current, 1 = behind |
//! | 5 | 1 | removal: 0 = stays, 1 = is being evacuated, 2 = removed |
//! | 6 | 2 | returns: how often the seat's drive caught up, modulo 2^16 |
//!
//! 1. A member of group 0 has column 0, the role *data* and the state *current*.
//! 2. A mirror is a group with one data column, which is column 0, and one or two copies, which are
//!    columns 1 and 2. A block has the same number on each drive of the group.
//! 3. A parity group has one or more data columns and one to three parity columns, which come last:
//!    row parity, diagonal parity, antidiagonal parity. Such members are there only if the record
//!    has the incompatible feature [`crate::config::INCOMPATIBLE_PARITY`]. Block *d* of all drives
//!    of the group is stripe *d*.
//! 4. A mirror has at least one current member. Of a parity group no more members are behind than
//!    it has parity columns.
//! 5. Returns grow by one when a member that is behind becomes current, and never else. So a record
//!    in which a member is behind, and one in which it is current with as many returns, are of two
//!    parts of a pool that went on without each other, or the second one is the older.
//! 6. All members of a group have the same removal. A removed member has no device. It keeps its
//!    place in the record, so that no member is renumbered, and its extents, which have no blocks.
//!    Its state and its returns mean nothing any more.

use std::fmt;

use crate::Damage;
use crate::bytes::{put, u16_at};

/// Bytes of a seat.
pub const SEAT_BYTES: usize = 8;

/// Most drives of a mirror.
pub const COPIES_MAX: usize = 3;

/// Most data columns of a parity group.
pub const DATA_MAX: usize = 28;

/// Most parity columns of a group.
pub const PARITY_MAX: usize = 3;

/// What a column has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// Blocks of extents.
    #[default]
    Data,
    /// The same blocks as column 0 of the group.
    Copy,
    /// Parity of the stripes of the group.
    Parity,
}

/// Whether a member has all that was written to its column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SeatState {
    /// It has.
    #[default]
    Current,
    /// It missed writes, so it is not read.
    Behind,
}

/// Whether a member is to leave the aggregate (decision 0057).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Removal {
    /// It stays.
    #[default]
    None,
    /// Its blocks move to other members, and nothing new is allocated on it.
    Evacuating,
    /// It is no part of the aggregate any more.
    Removed,
}

/// See the module's documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seat {
    /// 0: no group.
    pub group: u16,
    /// Column in the group.
    pub column: u8,
    /// What the column has.
    pub role: Role,
    /// Whether the member has all of it.
    pub state: SeatState,
    /// How often the member caught up, modulo 2^16.
    pub returns: u16,
    /// Whether the member is to leave.
    pub removal: Removal,
}

impl Seat {
    /// The seat of a member without redundancy.
    pub const ALONE: Seat = Seat {
        group: 0,
        column: 0,
        role: Role::Data,
        state: SeatState::Current,
        returns: 0,
        removal: Removal::None,
    };

    /// Returns the current seat of a drive of a mirror; drive 0 is the data column.
    #[must_use]
    pub fn of_mirror(group: u16, drive: u8) -> Seat {
        Seat {
            group,
            column: drive,
            role: if drive == 0 { Role::Data } else { Role::Copy },
            state: SeatState::Current,
            returns: 0,
            removal: Removal::None,
        }
    }

    /// Returns the current seat of a drive of a parity group with so many data columns.
    #[must_use]
    pub fn of_parity_group(group: u16, column: u8, data: u8) -> Seat {
        Seat {
            group,
            column,
            role: match column < data {
                true => Role::Data,
                false => Role::Parity,
            },
            state: SeatState::Current,
            returns: 0,
            removal: Removal::None,
        }
    }

    /// True if the member has all that was written to its column.
    #[must_use]
    pub fn is_current(self) -> bool {
        self.state == SeatState::Current && !self.is_removed()
    }

    /// True if the member is no part of the aggregate any more.
    #[must_use]
    pub fn is_removed(self) -> bool {
        self.removal == Removal::Removed
    }

    /// True if the member's blocks move to other members.
    #[must_use]
    pub fn is_evacuating(self) -> bool {
        self.removal == Removal::Evacuating
    }

    /// Returns the seat with another state.
    #[must_use]
    pub fn with_state(self, state: SeatState) -> Seat {
        if self.is_removed() {
            return self;
        }
        let is_return = !self.is_current() && state == SeatState::Current;
        Seat {
            state,
            returns: self.returns.wrapping_add(u16::from(is_return)),
            ..self
        }
    }

    /// True if the seat has seen more returns than it had seen in `other`.
    #[must_use]
    pub fn is_later_than(self, other: Seat) -> bool {
        let more = self.returns.wrapping_sub(other.returns);
        (1..=u16::MAX / 2).contains(&more)
    }

    pub(crate) fn encode(self, out: &mut [u8], at: usize) {
        put(out, at, self.group.to_le_bytes());
        out[at + 2] = self.column;
        out[at + 3] = match self.role {
            Role::Data => 0,
            Role::Copy => 1,
            Role::Parity => 2,
        };
        out[at + 4] = match self.state {
            SeatState::Current => 0,
            SeatState::Behind => 1,
        };
        out[at + 5] = match self.removal {
            Removal::None => 0,
            Removal::Evacuating => 1,
            Removal::Removed => 2,
        };
        put(out, at + 6, self.returns.to_le_bytes());
    }

    /// # Errors
    /// A role, state or removal that this build does not know.
    pub(crate) fn decode(bytes: &[u8], at: usize) -> Result<Seat, Damage> {
        let role = match bytes[at + 3] {
            0 => Role::Data,
            1 => Role::Copy,
            2 => Role::Parity,
            other => return Err(Damage::new("role of a member", "0, 1 or 2", other)),
        };
        let state = match bytes[at + 4] {
            0 => SeatState::Current,
            1 => SeatState::Behind,
            other => return Err(Damage::new("state of a member", "0 or 1", other)),
        };
        let removal = match bytes[at + 5] {
            0 => Removal::None,
            1 => Removal::Evacuating,
            2 => Removal::Removed,
            other => return Err(Damage::new("removal of a member", "0, 1 or 2", other)),
        };
        Ok(Seat {
            group: u16_at(bytes, at),
            column: bytes[at + 2],
            role,
            state,
            returns: u16_at(bytes, at + 6),
            removal,
        })
    }
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seat {
            group,
            column,
            role,
            state,
            returns,
            removal,
        } = self;
        write!(
            f,
            "{role:?} in column {column} of group {group}, {state:?}, returned {returns} times"
        )?;
        match removal {
            Removal::None => Ok(()),
            Removal::Evacuating => f.write_str(", being evacuated"),
            Removal::Removed => f.write_str(", removed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_survives_the_round_trip() {
        for state in [SeatState::Current, SeatState::Behind] {
            for drive in 0..3 {
                let seat = Seat {
                    state,
                    returns: 258,
                    ..Seat::of_mirror(513, drive)
                };
                let mut bytes = [0; 12];
                seat.encode(&mut bytes, 3);
                assert_eq!(Seat::decode(&bytes, 3), Ok(seat));
                assert_eq!((bytes[2], &bytes[8..]), (0, &[0, 2, 1, 0][..]));
            }
        }
    }

    #[test]
    fn a_seat_of_a_parity_group_survives_the_round_trip() {
        for column in 0..6 {
            let seat = Seat::of_parity_group(3, column, 4);
            let mut bytes = [0; SEAT_BYTES];
            seat.encode(&mut bytes, 0);
            assert_eq!(Seat::decode(&bytes, 0), Ok(seat));
            assert_eq!(bytes[3], if column < 4 { 0 } else { 2 });
        }
    }

    #[test]
    fn a_removed_member_is_not_current_and_its_state_stays() {
        for removal in [Removal::None, Removal::Evacuating, Removal::Removed] {
            let seat = Seat {
                removal,
                ..Seat::of_parity_group(2, 1, 2)
            };
            let mut bytes = [0; SEAT_BYTES];
            seat.encode(&mut bytes, 0);
            assert_eq!(Seat::decode(&bytes, 0), Ok(seat));
            assert_eq!(seat.is_current(), removal != Removal::Removed);
            let behind = seat.with_state(SeatState::Behind);
            assert_eq!(behind == seat, removal == Removal::Removed);
        }
    }

    #[test]
    fn a_member_returns_when_it_was_behind_and_becomes_current() {
        let seat = Seat::of_mirror(1, 0);
        let behind = seat.with_state(SeatState::Behind);
        assert_eq!(seat.with_state(SeatState::Current).returns, 0);
        assert_eq!(behind.with_state(SeatState::Behind), behind);
        let back = behind.with_state(SeatState::Current);
        assert_eq!((back.returns, back.is_current()), (1, true));
        assert!(back.is_later_than(seat) && !seat.is_later_than(back));
        let last = Seat {
            returns: u16::MAX,
            ..seat
        };
        assert!(!seat.is_later_than(seat) && seat.is_later_than(last));
    }

    #[test]
    fn unknown_roles_and_states_are_refused() {
        for (at, unknown) in [(3, 3), (4, 2), (5, 3)] {
            let mut bytes = [0; SEAT_BYTES];
            bytes[at] = unknown;
            assert!(Seat::decode(&bytes, 0).is_err());
        }
    }
}
