//! Sockets: listening, accepting, and non-blocking transfers of several pieces at once.
//!
//! The owner of a socket registers it with its reactor (`Real::register`). When the socket is
//! ready, the owner reads everything that has arrived, and answers with one gathered send. Nothing
//! here waits, and nothing raises SIGPIPE.

mod listener;
mod stream;

pub use listener::{ListenError, Listener};
pub use stream::{Peer, Stream};

/// The result of a non-blocking call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Bytes moved, at least one.
    Bytes(usize),
    /// No bytes were moved: wait until the socket is ready.
    Later,
    /// The peer has finished sending. Only returned from receiving.
    End,
}
