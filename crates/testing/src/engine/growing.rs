//! Growths under way, and what is known of those that were begun.

use everglade_engine::NextGeometry;
use everglade_env::DeviceId;

use crate::system::Geometry;

/// The refusal of a growth because another one is under way.
pub const BUSY: &str = "another growth is under way";

/// A growth that was begun: its labels were written, at least in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrowthRecord {
    /// Writes of the world before its first one.
    pub asked: u64,
    /// Writes of the world at its answer, and whether it was made. None without an answer, also if
    /// the answer is that nobody knows.
    pub answered: Option<(u64, bool)>,
    /// The pool with it.
    pub geometry: Geometry,
    /// Devices that join.
    pub joining: Vec<DeviceId>,
    /// They become columns of a parity group that is there.
    pub is_wider: bool,
}

/// A growth between its labels and its answer.
pub(super) struct Growing {
    pub(super) next: NextGeometry,
    /// Its place among the records.
    pub(super) index: usize,
}
