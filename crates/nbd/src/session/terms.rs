//! The agreements between client and server from before transmission began.

use everglade_target::LunHandle;

/// Style of headers and replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Style {
    /// One simple reply for each request.
    #[default]
    Simple,
    /// Structured chunks.
    Structured,
    /// Extended requests, extended chunks.
    Extended,
}

/// The outcome of option haggling, besides the export.
#[derive(Debug, Default)]
pub(super) struct Terms {
    pub(super) style: Style,
    /// Chosen for the export. Block status requests are answered with a chunk for each.
    pub(super) contexts: Vec<Context>,
}

/// A metadata context that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    /// Its number in chunks.
    pub(super) id: u32,
    pub(super) tells: Tells,
}

/// The kinds of facts about an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tells {
    /// Facts about allocation.
    Allocation,
    /// Differences from an image; `None` if the image no longer existed when the export was opened.
    Changed { since: Option<LunHandle> },
}

impl Terms {
    /// Images that are open as long as the export.
    pub(super) fn images(&self) -> impl Iterator<Item = LunHandle> {
        self.contexts
            .iter()
            .filter_map(|context| match context.tells {
                Tells::Allocation => None,
                Tells::Changed { since } => since,
            })
    }
}

impl Style {
    /// Replies consist of chunks.
    pub(super) fn has_chunks(self) -> bool {
        self != Style::Simple
    }
}
