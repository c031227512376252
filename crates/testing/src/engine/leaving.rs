//! What [`super::removing`] remembers between its turns.

/// Turns so far, and whether a request is under way.
#[derive(Debug, Default)]
pub(super) struct Removing {
    pub(super) turns: u32,
    pub(super) is_asked: bool,
}
