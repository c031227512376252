//! What became of growths of pools: proof that a simulation's cuts met each of their states.

use crate::counts::counts;

/// Something that happens to a growth, or to the media after a cut of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// It was made.
    Committed,
    /// It was refused because of another one.
    Busy,
    /// It was made by a pool that had refused clients for lack of space.
    Full,
    /// It was begun after a cut had ended another one.
    Again,
    /// Media with labels of it, and without its superblock.
    CutBefore,
    /// Media with its superblock, and nobody was told.
    CutAfter,
    /// Such media without the devices that were joining: refused, or opened as before.
    WithoutJoining,
    /// A life without the devices that were joining, which come back after it.
    Away,
    /// A member without a superblock was accepted, and has one after the next consistency point.
    Healed,
    /// Records of two epochs were replayed.
    TwoEpochs,
}

impl Growth {
    /// All of them.
    pub const ALL: [Growth; 10] = [
        Growth::Committed,
        Growth::Busy,
        Growth::Full,
        Growth::Again,
        Growth::CutBefore,
        Growth::CutAfter,
        Growth::WithoutJoining,
        Growth::Away,
        Growth::Healed,
        Growth::TwoEpochs,
    ];

    /// Returns the name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Growth::Committed => "committed",
            Growth::Busy => "busy",
            Growth::Full => "full",
            Growth::Again => "again",
            Growth::CutBefore => "cut_before",
            Growth::CutAfter => "cut_after",
            Growth::WithoutJoining => "without_joining",
            Growth::Away => "away",
            Growth::Healed => "healed",
            Growth::TwoEpochs => "two_epochs",
        }
    }
}

counts! {
    /// Number of times that each happened.
    PerGrowth of Growth
}
