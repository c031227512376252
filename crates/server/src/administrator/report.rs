//! What rounds tell: it becomes a line of the log, and an event.

/// One thing that happened without being asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// What it is about, such as `aggregate safe`.
    pub(crate) object: String,
    /// Somebody should look at it.
    pub(crate) is_warning: bool,
    /// What happened.
    pub(crate) text: String,
}
