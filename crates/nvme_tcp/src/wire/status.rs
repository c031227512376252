//! Statuses of completions (NVMe base 2.0 "Status Code"; NVM command set; fabrics).

/// A status: its type, its code, and whether the host should not try again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(u16);

const COMMAND: u16 = 1 << 8;
const MEDIA: u16 = 2 << 8;
const PATH: u16 = 3 << 8;
const DO_NOT_RETRY: u16 = 1 << 14;

impl Status {
    /// Done.
    pub const SUCCESS: Status = Status(0);
    /// The opcode is not known.
    pub const INVALID_OPCODE: Status = Status(0x01 | DO_NOT_RETRY);
    /// A field of the command is wrong.
    pub const INVALID_FIELD: Status = Status(0x02 | DO_NOT_RETRY);
    /// The command id is in use.
    pub const COMMAND_ID_CONFLICT: Status = Status(0x03 | DO_NOT_RETRY);
    /// Data could not be transferred.
    pub const DATA_TRANSFER_ERROR: Status = Status(0x04);
    /// An error of ours.
    pub const INTERNAL: Status = Status(0x06);
    /// The host asked for an end of the command.
    pub const ABORT_REQUESTED: Status = Status(0x07);
    /// The other half of a fused operation failed.
    pub const FAILED_FUSED: Status = Status(0x09);
    /// The other half of a fused operation is missing.
    pub const MISSING_FUSED: Status = Status(0x0a | DO_NOT_RETRY);
    /// There is no such namespace.
    pub const INVALID_NAMESPACE: Status = Status(0x0b | DO_NOT_RETRY);
    /// The command came at the wrong time.
    pub const COMMAND_SEQUENCE: Status = Status(0x0c | DO_NOT_RETRY);
    /// The length of the data is wrong.
    pub const SGL_LENGTH_INVALID: Status = Status(0x0f | DO_NOT_RETRY);
    /// The kind of the data's descriptor is not supported.
    pub const SGL_KIND_INVALID: Status = Status(0x11 | DO_NOT_RETRY);
    /// The offset of the data in the message is wrong.
    pub const SGL_OFFSET_INVALID: Status = Status(0x16 | DO_NOT_RETRY);
    /// The identifier of the host is in use with another name.
    pub const HOST_ID_INCONSISTENT: Status = Status(0x18 | DO_NOT_RETRY);
    /// The timer was told to be what it cannot be.
    pub const KEEP_ALIVE_INVALID: Status = Status(0x1a | DO_NOT_RETRY);
    /// The namespace cannot be written to.
    pub const WRITE_PROTECTED: Status = Status(0x20 | DO_NOT_RETRY);
    /// The transport failed in a way that may pass: a wrong data digest.
    pub const TRANSIENT_TRANSPORT: Status = Status(0x22);
    /// The range ends beyond the namespace.
    pub const LBA_OUT_OF_RANGE: Status = Status(0x80 | DO_NOT_RETRY);
    /// There is no more space.
    pub const CAPACITY_EXCEEDED: Status = Status(0x81 | DO_NOT_RETRY);
    /// The namespace cannot be used for now.
    pub const NAMESPACE_NOT_READY: Status = Status(0x82);
    /// Another host has reserved the namespace.
    pub const RESERVATION_CONFLICT: Status = Status(0x83 | DO_NOT_RETRY);

    /// More asynchronous event requests than the controller keeps.
    pub const EVENT_LIMIT: Status = Status(COMMAND | 0x05 | DO_NOT_RETRY);
    /// There is no such log page.
    pub const INVALID_LOG_PAGE: Status = Status(COMMAND | 0x09 | DO_NOT_RETRY);
    /// The feature cannot be saved.
    pub const NOT_SAVEABLE: Status = Status(COMMAND | 0x0d | DO_NOT_RETRY);
    /// The feature cannot be changed.
    pub const NOT_CHANGEABLE: Status = Status(COMMAND | 0x0e | DO_NOT_RETRY);
    /// Connect: the format is not known.
    pub const CONNECT_FORMAT: Status = Status(COMMAND | 0x80 | DO_NOT_RETRY);
    /// Connect: the controller is in use.
    pub const CONNECT_BUSY: Status = Status(COMMAND | 0x81);
    /// Connect: a parameter is wrong. The host may try again, because what it names may come back.
    pub const CONNECT_PARAMETERS: Status = Status(COMMAND | 0x82);
    /// Connect: the host is not allowed.
    pub const CONNECT_HOST: Status = Status(COMMAND | 0x84 | DO_NOT_RETRY);
    /// The attributes of a range contradict each other.
    pub const CONFLICTING_ATTRIBUTES: Status = Status(COMMAND | 0x80 | DO_NOT_RETRY);
    /// A copy has more or longer ranges than it may have.
    pub const SIZE_LIMIT_EXCEEDED: Status = Status(COMMAND | 0x83 | DO_NOT_RETRY);
    /// The connection must be authenticated first.
    pub const AUTHENTICATION_REQUIRED: Status = Status(COMMAND | 0x91 | DO_NOT_RETRY);

    /// Data could not be written.
    pub const WRITE_FAULT: Status = Status(MEDIA | 0x80);
    /// Data could not be read.
    pub const READ_ERROR: Status = Status(MEDIA | 0x81);
    /// The data is not what it was compared with.
    pub const COMPARE_FAILURE: Status = Status(MEDIA | 0x85 | DO_NOT_RETRY);

    /// This path does not reach the namespace any more; another may.
    pub const PATH_GONE: Status = Status(PATH | 0x70);

    /// Returns the status with this number.
    #[must_use]
    pub const fn of_code(code: u16) -> Status {
        Status(code)
    }

    /// Returns the number: the field of a completion without its lowest bit.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Returns the type and the code, without the flags.
    #[must_use]
    pub const fn kind(self) -> u16 {
        self.0 & 0x7ff
    }

    /// Returns whether the command failed.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.kind() != 0
    }
}

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Status({:#x})", self.0)
    }
}
