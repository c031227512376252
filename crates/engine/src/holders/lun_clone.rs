//! The state of a LUN's clone under way, as the volume's image keeps it.

use everglade_format::Inode;

/// The state of a clone, besides the fields in the superblock.
#[derive(Default)]
pub(crate) struct Job {
    /// The inode of the source.
    pub(crate) source: Option<Inode>,
    /// When it was begun, or the volume opened, seconds since 1970 UTC, and how far it was then.
    pub(crate) since: Option<(u64, u64)>,
    /// The name and the error of the last job that failed.
    pub(crate) failed: Option<(String, String)>,
    /// The last job failed because the pool had no space.
    pub(crate) found_no_space: bool,
}
