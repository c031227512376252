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
    /// So many bytes, at least one.
    Bytes(usize),
    /// Nothing: wait until the socket is ready.
    Later,
    /// Nothing, and nothing will come: the peer has finished sending. Only from receiving.
    End,
}
