//! What became of mirrors whose drives broke: proof that a simulation met each of their states.

use crate::counts::counts;

/// Something that happens to a mirror, or to the media after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mirrored {
    /// A life in which a drive broke, and clients noticed nothing.
    Broken,
    /// A life in which two drives of one mirror broke, and clients noticed nothing.
    BrokenTwice,
    /// A cut after a drive broke, and before it was recorded as behind.
    CutBefore,
    /// A cut after that.
    CutAfter,
    /// A start with a drive that was recorded as behind, which is not used before it has caught up.
    Returned,
    /// A life at whose end a drive that was behind had caught up.
    Regained,
    /// A start without drives, which nobody had to ask for.
    Without,
    /// A start without drives that may have had more, asked for by hand: nothing is lost.
    ByHand,
    /// Drives that missed something were refused, because the others were away.
    StaleRefused,
    /// Such drives were opened by hand: they have what they had when the others went on.
    StaleByHand,
    /// A mirror without any drive that has everything was refused.
    NoneRefused,
    /// A life in which all drives of a mirror broke: clients get errors, and nothing is lost.
    TooMany,
    /// A block was wrong on one drive, and read from another.
    ReadElsewhere,
    /// Such a block was written again.
    Rewritten,
    /// A drive was replaced by a new one.
    Replaced,
    /// That was refused: no other drive had everything, or the new one was broken.
    NotReplaced,
    /// A new drive has caught up in the life in which it came.
    CaughtUp,
    /// A cut in the replacement of a drive, before the new one has the seat.
    CutReplacement,
    /// A start with a drive that was replaced, which is not used.
    OldIsThere,
    /// A block that a scrub found wrong on one drive.
    Scrubbed,
}

impl Mirrored {
    /// All of them.
    pub const ALL: [Mirrored; 20] = [
        Mirrored::Broken,
        Mirrored::BrokenTwice,
        Mirrored::CutBefore,
        Mirrored::CutAfter,
        Mirrored::Returned,
        Mirrored::Regained,
        Mirrored::Without,
        Mirrored::ByHand,
        Mirrored::StaleRefused,
        Mirrored::StaleByHand,
        Mirrored::NoneRefused,
        Mirrored::TooMany,
        Mirrored::ReadElsewhere,
        Mirrored::Rewritten,
        Mirrored::Replaced,
        Mirrored::NotReplaced,
        Mirrored::CaughtUp,
        Mirrored::CutReplacement,
        Mirrored::OldIsThere,
        Mirrored::Scrubbed,
    ];

    /// Returns the name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mirrored::Broken => "broken",
            Mirrored::BrokenTwice => "broken_twice",
            Mirrored::CutBefore => "cut_before",
            Mirrored::CutAfter => "cut_after",
            Mirrored::Returned => "returned",
            Mirrored::Regained => "regained",
            Mirrored::Without => "without",
            Mirrored::ByHand => "by_hand",
            Mirrored::StaleRefused => "stale_refused",
            Mirrored::StaleByHand => "stale_by_hand",
            Mirrored::NoneRefused => "none_refused",
            Mirrored::TooMany => "too_many",
            Mirrored::ReadElsewhere => "read_elsewhere",
            Mirrored::Rewritten => "rewritten",
            Mirrored::Replaced => "replaced",
            Mirrored::NotReplaced => "not_replaced",
            Mirrored::CaughtUp => "caught_up",
            Mirrored::CutReplacement => "cut_replacement",
            Mirrored::OldIsThere => "old_is_there",
            Mirrored::Scrubbed => "scrubbed",
        }
    }
}

counts! {
    /// Number of times that each happened.
    PerMirrored of Mirrored
}
