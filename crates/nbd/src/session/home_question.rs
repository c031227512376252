//! The reactor on which a session's export is to be opened: a question to the session's owner,
//! which clients do not notice.

/// State of the search for the session's reactor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HomeQuestion {
    /// The owner wants to be asked when there is something to ask.
    Unasked,
    /// The session has asked the owner about this export, and waits.
    Asked(Box<str>),
    /// The owner has answered, or does not want to be asked.
    Settled,
}
