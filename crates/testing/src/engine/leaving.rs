//! The state of removals beside everything else ([`super::removing`]).

/// When something was asked for.
#[derive(Debug, Default)]
pub(super) struct Removing {
    pub(super) turns: u32,
    pub(super) is_asked: bool,
}
