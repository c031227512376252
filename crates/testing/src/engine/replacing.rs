//! Replacements under way, and what is known of those that were begun.

use everglade_engine::NextGeometry;
use everglade_env::DeviceId;

/// The refusal of a replacement because no other drive has everything, or the new one is broken.
pub const REFUSED: &str = "the drive cannot be replaced now";

/// A replacement that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacementRecord {
    /// Writes of the world before its first one.
    pub asked: u64,
    /// The seat.
    pub seat: usize,
    /// The drive that had it, if it was there.
    pub old: Option<DeviceId>,
    /// The drive that gets it.
    pub new: DeviceId,
    /// True if it was made.
    pub is_made: bool,
}

/// A replacement between its request and its answer.
pub(super) struct Replacing {
    /// Its place among the records.
    pub(super) index: usize,
    /// What was prepared; `None` while the old drive is taken out.
    pub(super) next: Option<NextGeometry>,
}
