//! Settings of a journal.

use everglade_format::config::Uuid;

/// Settings of a journal.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Blocks of each half.
    pub half_blocks: u64,
    /// The aggregate.
    pub uuid: Uuid,
    /// Epoch of the newest committed superblock.
    pub epoch: u64,
    /// A random number that names this mount.
    pub life: u64,
}
