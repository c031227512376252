//! One connection.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown};

use super::Moved;

/// The other end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A client with this address.
    Tcp(SocketAddr),
    /// A client on this host.
    Local,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Peer::Tcp(address) => address.fmt(f),
            Peer::Local => f.write_str("local"),
        }
    }
}

/// A connected, non-blocking socket; closed when dropped.
#[derive(Debug)]
pub struct Stream(OwnedFd);

/// The host takes no more pieces per call.
const PIECES_MAX: usize = 1024;

impl Stream {
    pub(super) fn new(socket: OwnedFd) -> Stream {
        Stream(socket)
    }

    /// Receives into the pieces, in order. They must have room.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn receive(&self, pieces: &mut [IoSliceMut<'_>]) -> std::io::Result<Moved> {
        assert!(
            pieces.iter().any(|piece| !piece.is_empty()),
            "there is room to receive into"
        );
        let count = pieces.len().min(PIECES_MAX);
        loop {
            match rustix::io::readv(&self.0, &mut pieces[..count]) {
                Ok(0) => return Ok(Moved::End),
                Ok(bytes) => return Ok(Moved::Bytes(bytes)),
                Err(Errno::AGAIN) => return Ok(Moved::Later),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sends as much of the pieces as fits, in order. Only the first 1,024 pieces are used, and one
    /// of them must not be empty.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&self, pieces: &[IoSlice<'_>]) -> std::io::Result<Moved> {
        let pieces = &pieces[..pieces.len().min(PIECES_MAX)];
        assert!(
            pieces.iter().any(|piece| !piece.is_empty()),
            "there is something to send"
        );
        let mut nothing = SendAncillaryBuffer::default();
        loop {
            match rustix::net::sendmsg(&self.0, pieces, &mut nothing, SendFlags::NOSIGNAL) {
                Ok(bytes) => return Ok(Moved::Bytes(bytes)),
                Err(Errno::AGAIN) => return Ok(Moved::Later),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Ends sending; bytes that were sent before still arrive.
    pub fn finish_sending(&self) {
        // A connection that is broken already needs no goodbye.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Write);
    }

    /// Ends both directions at once, so that a registered socket becomes ready.
    pub fn shut_down(&self) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
