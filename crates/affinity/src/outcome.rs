//! The outcomes of a message's request to enter an affinity.

use crate::permit::Permit;

/// A message whose turn has come, on its way to its home reactor. It holds the permit already.
#[derive(Debug)]
#[must_use = "a granted message must be posted to its reactor"]
pub struct Granted<M> {
    /// The reactor that asked to enter.
    pub reactor: usize,
    /// The message it asked for.
    pub message: M,
    /// The permit; the reactor that runs the message leaves with it.
    pub permit: Permit,
}

/// A message that waited in an affinity that left the tree. Post it to its reactor, which restarts
/// the message from the top and finds the removed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a stranded message must be posted to its reactor"]
pub struct Stranded<M> {
    /// The reactor that asked to enter.
    pub reactor: usize,
    /// The message it asked for.
    pub message: M,
}

/// The affinity has left the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the affinity was removed")]
pub struct Gone;
