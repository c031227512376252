//! A client's socket, TCP or Unix, plain or encrypted.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};

use rustls::ServerConfig;

use super::encryption::Encryption;

/// Replies the kernel may hold for a local client. With the usual 208 KiB two reads of 128 KiB do
/// not fit, and such a socket counts as writable only when three quarters of it are empty: client
/// and server would take turns instead of working at the same time. (TCP sockets grow by
/// themselves.) The kernel gives at most `net.core.wmem_max`.
const SEND_BUFFER_BYTES: usize = 512 << 10;

/// A connected, non-blocking socket.
pub struct Socket {
    stream: Stream,
    /// Address of the client; `None` for a Unix socket.
    pub(crate) address: Option<IpAddr>,
    encryption: Option<Box<Encryption>>,
    /// Receives the names in the client's certificate.
    pub(crate) names: Arc<OnceLock<Vec<String>>>,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(crate) fn tcp(stream: TcpStream, address: SocketAddr) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        // The session gathers replies itself; the kernel would only delay them.
        stream.set_nodelay(true)?;
        rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
        Ok(Socket {
            stream: Stream::Tcp(stream),
            address: Some(address.ip()),
            encryption: None,
            names: Arc::default(),
        })
    }

    pub(crate) fn unix(stream: UnixStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES)?;
        Ok(Socket {
            stream: Stream::Unix(stream),
            address: None,
            encryption: None,
            names: Arc::default(),
        })
    }

    /// Returns our address that the client connected to; `None` for a Unix socket.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match &self.stream {
            Stream::Tcp(stream) => stream.local_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// Encrypts all that is sent and received from here on.
    pub(crate) fn encrypt(
        &mut self,
        certificates: &Arc<ServerConfig>,
    ) -> Result<(), rustls::Error> {
        assert!(self.encryption.is_none(), "a socket is encrypted once");
        self.encryption = Some(Box::new(Encryption::new(
            certificates,
            Arc::clone(&self.names),
        )?));
        Ok(())
    }

    /// Sets the limit of encrypted bytes that wait to be sent.
    pub(crate) fn may_hold(&mut self, bytes: usize) {
        if let Some(encryption) = &mut self.encryption {
            encryption.may_hold(bytes);
        }
    }

    /// Returns whether decrypted bytes may wait here while the socket has none.
    pub(crate) fn may_hold_more(&self) -> bool {
        let encryption = self.encryption.as_ref();
        encryption.is_some_and(|encryption| encryption.may_hold_more())
    }

    /// Returns whether written bytes wait for the socket.
    pub(crate) fn wants_write(&self) -> bool {
        let encryption = self.encryption.as_ref();
        encryption.is_some_and(|encryption| encryption.wants_write())
    }

    /// Sends the last bytes, if any, before the socket is dropped.
    pub(crate) fn close(&mut self) {
        if let Some(encryption) = &mut self.encryption {
            encryption.close(&mut self.stream);
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.encryption {
            None => self.stream.read(bytes),
            Some(encryption) => encryption.read(bytes, &mut self.stream),
        }
    }

    /// Fills all pieces if there are enough bytes, as a socket does.
    fn read_vectored(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Some(encryption) = &mut self.encryption else {
            return self.stream.read_vectored(pieces);
        };
        let mut total = 0;
        for piece in pieces {
            let mut filled = 0;
            while filled < piece.len() {
                match encryption.read(&mut piece[filled..], &mut self.stream) {
                    Ok(0) => return Ok(total),
                    Ok(count) => {
                        filled += count;
                        total += count;
                    }
                    // An error that stays will be met by the next read.
                    Err(error) if total > 0 && error.kind() != ErrorKind::Interrupted => {
                        return Ok(total);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(total)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.encryption {
            None => self.stream.write_vectored(pieces),
            Some(encryption) => encryption.write(pieces, &mut self.stream),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.encryption {
            None => Ok(()),
            Some(encryption) => encryption.flush(&mut self.stream),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(bytes),
            Stream::Unix(stream) => stream.read(bytes),
        }
    }

    fn read_vectored(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read_vectored(pieces),
            Stream::Unix(stream) => stream.read_vectored(pieces),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write_vectored(pieces),
            Stream::Unix(stream) => stream.write_vectored(pieces),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
