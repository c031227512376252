//! What client and server agreed on before transmission began.

/// How headers look.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) style: Style,
    /// The context `base:allocation` was chosen for the export.
    pub(super) allocation: bool,
}

impl Style {
    /// Replies consist of chunks.
    pub(super) fn has_chunks(self) -> bool {
        self != Style::Simple
    }
}
