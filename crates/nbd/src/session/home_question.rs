//! The reactor on which a session's export is to be opened: a question to the session's owner,
//! which clients do not notice.

/// What is known of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HomeQuestion {
    /// The owner wants to be asked when there is something to ask.
    Unasked,
    /// It was asked, for this export, and the session waits.
    Asked(Box<str>),
    /// It has answered, or does not want to be asked.
    Settled,
}
