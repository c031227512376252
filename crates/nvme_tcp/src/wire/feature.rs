//! Features of a controller (base "Feature Identifiers").

/// Identifiers of features that we know.
pub mod id {
    /// Arbitration among queues.
    pub const ARBITRATION: u8 = 0x01;
    /// Power states.
    pub const POWER: u8 = 0x02;
    /// Temperature thresholds.
    pub const TEMPERATURE: u8 = 0x04;
    /// Error recovery.
    pub const ERROR_RECOVERY: u8 = 0x05;
    /// The volatile write cache.
    pub const WRITE_CACHE: u8 = 0x06;
    /// Number of queues for input and output.
    pub const QUEUES: u8 = 0x07;
    /// Atomicity of writes.
    pub const WRITE_ATOMICITY: u8 = 0x0a;
    /// Events that the host wants to hear of.
    pub const EVENTS: u8 = 0x0b;
    /// Keep-alive timer.
    pub const KEEP_ALIVE: u8 = 0x0f;
    /// What the host can do.
    pub const HOST_BEHAVIOUR: u8 = 0x16;
    /// Identifier of the host.
    pub const HOST_ID: u8 = 0x81;
    /// Notices about reservations that the host does not want.
    pub const NOTICE_MASK: u8 = 0x82;
    /// Whether reservations of a namespace outlive the power.
    pub const PERSISTENCE: u8 = 0x83;
}

/// Events in the value of [`id::EVENTS`], and in the controller's structure.
pub mod events {
    /// A namespace changed.
    pub const NAMESPACE: u32 = 1 << 8;
    /// The discovery log page changed.
    pub const DISCOVERY: u32 = 1 << 31;
}

/// Size of the data of [`id::HOST_BEHAVIOUR`].
pub const HOST_BEHAVIOUR_BYTES: u32 = 512;
