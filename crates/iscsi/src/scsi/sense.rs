//! Sense data: why a command failed (SPC-4 §4.5).

use everglade_target::Error;

/// Sense keys.
mod keys {
    pub(super) const MEDIUM_ERROR: u8 = 3;
    pub(super) const HARDWARE_ERROR: u8 = 4;
    pub(super) const ILLEGAL_REQUEST: u8 = 5;
    pub(super) const UNIT_ATTENTION: u8 = 6;
    pub(super) const DATA_PROTECT: u8 = 7;
    pub(super) const ABORTED_COMMAND: u8 = 11;
    pub(super) const MISCOMPARE: u8 = 14;
}

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// Sense key.
    pub key: u8,
    /// Additional sense code and its qualifier.
    pub code: (u8, u8),
    /// A number that belongs to the error: the place of a difference.
    pub information: Option<u32>,
    /// The field that is wrong.
    pub field: Option<Field>,
}

/// A field that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// It is in the command, not in the parameters.
    pub is_in_command: bool,
    /// Index of its first byte.
    pub byte: u16,
}

const fn plain(key: u8, code: (u8, u8)) -> Sense {
    Sense {
        key,
        code,
        information: None,
        field: None,
    }
}

impl Sense {
    /// Nothing to say.
    pub const NONE: Sense = plain(0, (0, 0));
    /// The operation code is not known.
    pub const UNKNOWN_COMMAND: Sense = plain(keys::ILLEGAL_REQUEST, (0x20, 0));
    /// A block is beyond the end.
    pub const OUT_OF_RANGE: Sense = plain(keys::ILLEGAL_REQUEST, (0x21, 0));
    /// There is no such logical unit.
    pub const NO_SUCH_UNIT: Sense = plain(keys::ILLEGAL_REQUEST, (0x25, 0));
    /// The list of parameters has the wrong length.
    pub const PARAMETER_LENGTH: Sense = plain(keys::ILLEGAL_REQUEST, (0x1a, 0));
    /// The reservation to be released is another.
    pub const INVALID_RELEASE: Sense = plain(keys::ILLEGAL_REQUEST, (0x26, 4));
    /// There is no room for another registration.
    pub const NO_ROOM_FOR_REGISTRATION: Sense = plain(keys::ILLEGAL_REQUEST, (0x55, 4));
    /// Parameters cannot be saved.
    pub const NOT_SAVED: Sense = plain(keys::ILLEGAL_REQUEST, (0x39, 0));
    /// The logical unit is read-only.
    pub const WRITE_PROTECTED: Sense = plain(keys::DATA_PROTECT, (0x27, 0));
    /// The pool is full.
    pub const NO_SPACE: Sense = plain(keys::DATA_PROTECT, (0x27, 7));
    /// The server cannot do what it can do otherwise.
    pub const INTERNAL_FAILURE: Sense = plain(keys::HARDWARE_ERROR, (0x44, 0));
    /// Data cannot be read.
    pub const READ_ERROR: Sense = plain(keys::MEDIUM_ERROR, (0x11, 0));
    /// Data cannot be written.
    pub const WRITE_ERROR: Sense = plain(keys::MEDIUM_ERROR, (0x0c, 0));
    /// The digest of data was wrong.
    pub const DIGEST_ERROR: Sense = plain(keys::ABORTED_COMMAND, (0x47, 5));
    /// Data came without being asked for, against what was agreed (RFC 7143 §11.4.7.2).
    pub const UNEXPECTED_DATA: Sense = plain(keys::ABORTED_COMMAND, (0x0c, 0x0c));
    /// Data of a write came in the wrong order, or not as it was asked for.
    pub const DATA_PHASE_ERROR: Sense = plain(keys::ABORTED_COMMAND, (0x4b, 0));
    /// Data of a write did not come in time.
    pub const NO_DATA: Sense = plain(keys::ABORTED_COMMAND, (0x4b, 6));
    /// The initiator connected.
    pub const POWER_ON: Sense = plain(keys::UNIT_ATTENTION, (0x29, 0));
    /// The logical unit was reset.
    pub const WAS_RESET: Sense = plain(keys::UNIT_ATTENTION, (0x29, 3));
    /// Another host cleared the tasks.
    pub const TASKS_CLEARED: Sense = plain(keys::UNIT_ATTENTION, (0x2f, 0));
    /// The size changed.
    pub const CAPACITY_CHANGED: Sense = plain(keys::UNIT_ATTENTION, (0x2a, 9));
    /// The reservation was preempted.
    pub const RESERVATION_PREEMPTED: Sense = plain(keys::UNIT_ATTENTION, (0x2a, 3));
    /// The reservation was released.
    pub const RESERVATION_RELEASED: Sense = plain(keys::UNIT_ATTENTION, (0x2a, 4));
    /// The registration was preempted.
    pub const REGISTRATION_PREEMPTED: Sense = plain(keys::UNIT_ATTENTION, (0x2a, 5));
    /// Logical units came or went.
    pub const UNITS_CHANGED: Sense = plain(keys::UNIT_ATTENTION, (0x3f, 0x0e));

    /// A field of the command is wrong.
    #[must_use]
    pub const fn in_command(byte: u16) -> Sense {
        Sense {
            field: Some(Field {
                is_in_command: true,
                byte,
            }),
            ..plain(keys::ILLEGAL_REQUEST, (0x24, 0))
        }
    }

    /// A field of the parameters is wrong.
    #[must_use]
    pub const fn in_parameters(byte: u16) -> Sense {
        Sense {
            field: Some(Field {
                is_in_command: false,
                byte,
            }),
            ..plain(keys::ILLEGAL_REQUEST, (0x26, 0))
        }
    }

    /// Data differs from what is stored, first at this byte.
    #[must_use]
    pub const fn miscompare(offset: u32) -> Sense {
        Sense {
            information: Some(offset),
            ..plain(keys::MISCOMPARE, (0x1d, 0))
        }
    }

    /// Returns what an error of the target means. `writes` says whether the command writes.
    #[must_use]
    pub fn of_error(error: &Error, writes: bool) -> Sense {
        match error {
            // Ranges were checked before; the LUN has shrunk since.
            Error::Invalid(_) => Sense::OUT_OF_RANGE,
            Error::ReadOnly => Sense::WRITE_PROTECTED,
            Error::NoSpace => Sense::NO_SPACE,
            Error::Io(_) if writes => Sense::WRITE_ERROR,
            Error::Io(_) => Sense::READ_ERROR,
            Error::Miscompare { offset } => Sense::miscompare(*offset),
            Error::Gone | Error::NotFound(_) => Sense::NO_SUCH_UNIT,
        }
    }

    /// Returns the sense data in the fixed format.
    #[must_use]
    pub fn fixed(&self) -> [u8; 18] {
        let mut bytes = [0; 18];
        bytes[0] = 0x70;
        bytes[2] = self.key;
        if let Some(information) = self.information {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        bytes[7] = 10;
        (bytes[12], bytes[13]) = self.code;
        if let Some(field) = self.field {
            bytes[15..18].copy_from_slice(&field.specific());
        }
        bytes
    }

    /// Returns the sense data in the format with descriptors.
    #[must_use]
    pub fn descriptors(&self) -> Vec<u8> {
        let mut bytes = vec![0x72, self.key, self.code.0, self.code.1, 0, 0, 0, 0];
        if let Some(information) = self.information {
            bytes.extend([0x00, 0x0a, 0x80, 0]);
            bytes.extend(u64::from(information).to_be_bytes());
        }
        if let Some(field) = self.field {
            bytes.extend([0x02, 0x06, 0, 0]);
            bytes.extend(field.specific());
            bytes.push(0);
        }
        bytes[7] = u8::try_from(bytes.len() - 8).expect("two descriptors");
        bytes
    }
}

impl Field {
    /// The field as sense key specific data.
    fn specific(self) -> [u8; 3] {
        let [high, low] = self.byte.to_be_bytes();
        let bit = if self.is_in_command { 0x40 } else { 0 };
        [0x80 | bit, high, low]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_say_the_same() {
        let sense = Sense::miscompare(0x1_0203);
        let fixed = sense.fixed();
        assert_eq!(fixed[..8], [0xf0, 0, 14, 0, 1, 2, 3, 10]);
        assert_eq!(fixed[12..14], [0x1d, 0]);
        let expected = [
            0x72, 14, 0x1d, 0, 0, 0, 0, 12, 0, 10, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3,
        ];
        assert_eq!(sense.descriptors(), expected);
        let sense = Sense::in_command(0x102);
        assert_eq!(sense.fixed()[15..], [0xc0, 1, 2]);
        assert_eq!(sense.descriptors()[8..], [2, 6, 0, 0, 0xc0, 1, 2, 0]);
        assert_eq!(Sense::in_parameters(5).fixed()[15..], [0x80, 0, 5]);
        assert_eq!(Sense::POWER_ON.fixed().len(), 18);
    }
}
