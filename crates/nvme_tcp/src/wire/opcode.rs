//! Opcodes: admin, input and output, fabrics.

/// Opcode of all fabrics commands; their types are in [`fabrics`].
pub const FABRICS: u8 = 0x7f;

/// Admin commands that we carry out.
pub mod admin {
    /// Returns a log page.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Returns a structure that describes something.
    pub const IDENTIFY: u8 = 0x06;
    /// Ends a command.
    pub const ABORT: u8 = 0x08;
    /// Sets a feature.
    pub const SET_FEATURES: u8 = 0x09;
    /// Returns a feature.
    pub const GET_FEATURES: u8 = 0x0a;
    /// Is answered when something happens.
    pub const ASYNC_EVENT: u8 = 0x0c;
    /// Says that the host is there.
    pub const KEEP_ALIVE: u8 = 0x18;
}

/// Commands of the NVM command set.
pub mod io {
    /// Makes completed writes durable.
    pub const FLUSH: u8 = 0x00;
    /// Stores blocks.
    pub const WRITE: u8 = 0x01;
    /// Returns blocks.
    pub const READ: u8 = 0x02;
    /// Compares blocks.
    pub const COMPARE: u8 = 0x05;
    /// Stores zeroes.
    pub const WRITE_ZEROES: u8 = 0x08;
    /// Says how ranges will be used.
    pub const DATASET_MANAGEMENT: u8 = 0x09;
    /// Reads blocks without returning them.
    pub const VERIFY: u8 = 0x0c;
    /// Registers a host for reservations.
    pub const RESERVATION_REGISTER: u8 = 0x0d;
    /// Returns registrations and reservation.
    pub const RESERVATION_REPORT: u8 = 0x0e;
    /// Takes a reservation.
    pub const RESERVATION_ACQUIRE: u8 = 0x11;
    /// Gives a reservation up.
    pub const RESERVATION_RELEASE: u8 = 0x15;
    /// Copies blocks within the namespace.
    pub const COPY: u8 = 0x19;
}

/// Types of fabrics commands.
pub mod fabrics {
    /// Sets a property of the controller.
    pub const PROPERTY_SET: u8 = 0x00;
    /// Joins a connection to a queue.
    pub const CONNECT: u8 = 0x01;
    /// Returns a property of the controller.
    pub const PROPERTY_GET: u8 = 0x04;
    /// Sends a message of the authentication.
    pub const AUTHENTICATION_SEND: u8 = 0x05;
    /// Returns a message of the authentication.
    pub const AUTHENTICATION_RECEIVE: u8 = 0x06;
    /// Ends a queue.
    pub const DISCONNECT: u8 = 0x08;
}
