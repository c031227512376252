//! How an aggregate is opened.

/// What is particular about an opening. By default nothing is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening<'a> {
    /// The aggregate has another name from now on.
    pub name: Option<&'a str>,
    /// Members may be missing that may have newer data, as long as each mirror has a drive. What
    /// only they have is lost.
    pub is_degraded: bool,
    /// Nothing is ever written to the devices: the journal is replayed in memory, the aggregate is
    /// read-only as if it had halted, and a new name is known to this process only.
    pub is_for_reading: bool,
}
