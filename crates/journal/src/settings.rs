//! What a journal is told once.

use everglade_format::config::Uuid;

/// What a journal is told once.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Blocks of each half.
    pub half_blocks: u64,
    /// The aggregate.
    pub uuid: Uuid,
    /// Epoch of membership.
    pub epoch: u64,
    /// A random number that names this mount.
    pub life: u64,
}
