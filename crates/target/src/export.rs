//! Exports: the LUNs and images that clients can attach to.

/// One export as shown to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// `volume/lun`.
    pub name: String,
    /// Names the LUN, or the image of one, for ever: a renamed LUN keeps it, and no other LUN ever
    /// has it ([`Identity`](crate::Identity)).
    pub uuid: [u8; 16],
    /// The same of the LUN that it is, or is an image of. Who may use it depends on that.
    pub lun_uuid: [u8; 16],
    /// Size in bytes, a multiple of the block size.
    pub size_bytes: u64,
    /// Writes are refused.
    pub read_only: bool,
}

/// An earlier image of an export that [`Op::Changes`](crate::Op::Changes) can compare it with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Image {
    /// Label of the image: the name of a snapshot.
    pub label: String,
    /// The name to open it by.
    pub export: String,
    /// UUID of the LUN that it is an image of.
    pub lun_uuid: [u8; 16],
}

/// Sizes a protocol advertises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Smallest unit accepted, bytes.
    pub block_min: u32,
    /// Unit that costs least, bytes.
    pub block_preferred: u32,
    /// Longest request payload a protocol should accept, bytes.
    pub payload_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            block_min: 1,
            block_preferred: 4096,
            payload_max: 32 << 20,
        }
    }
}
