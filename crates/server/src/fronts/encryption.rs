//! TLS between a socket and a session: received bytes are decrypted, sent bytes are encrypted.
//!
//! rustls does no I/O. This module moves its buffers: it reads ciphertext when plaintext is wanted,
//! and sends ciphertext whenever there is some. Two things differ from a bare socket, and the code
//! that waits for the socket must know them:
//!
//! 1. Decrypted bytes may be waiting here while the socket has none, if the last read filled its
//!    memory: [`Encryption::may_hold_more`].
//! 2. Encrypted bytes may be waiting here until the socket can take them:
//!    [`Encryption::wants_write`].

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::{Arc, OnceLock};

use rustls::{ServerConfig, ServerConnection};

use crate::tls;

/// Bytes of plaintext taken before some ciphertext was sent, at most and at least: one record.
const WRITE_BUFFER_BYTES: usize = 256 << 10;
const WRITE_BUFFER_BYTES_MIN: usize = 16 << 10;

/// The TLS state of one connection.
pub(super) struct Encryption {
    tls: ServerConnection,
    may_hold_more: bool,
    /// Bytes of plaintext taken before some ciphertext was sent.
    write_buffer_bytes: usize,
    /// Names in the client's certificate, known after the handshake.
    names: Arc<OnceLock<Vec<String>>>,
}

impl Encryption {
    pub(super) fn new(
        certificates: &Arc<ServerConfig>,
        names: Arc<OnceLock<Vec<String>>>,
    ) -> Result<Encryption, rustls::Error> {
        let mut tls = ServerConnection::new(Arc::clone(certificates))?;
        tls.set_buffer_limit(Some(WRITE_BUFFER_BYTES));
        Ok(Encryption {
            tls,
            may_hold_more: false,
            write_buffer_bytes: WRITE_BUFFER_BYTES,
            names,
        })
    }

    pub(super) fn may_hold_more(&self) -> bool {
        self.may_hold_more
    }

    /// Sets the bytes that may wait here for a socket that accepts none. The limit shrinks with the
    /// number of connections.
    pub(super) fn may_hold(&mut self, bytes: usize) {
        let bytes = bytes.clamp(WRITE_BUFFER_BYTES_MIN, WRITE_BUFFER_BYTES);
        if self.write_buffer_bytes != bytes {
            self.write_buffer_bytes = bytes;
            self.tls.set_buffer_limit(Some(bytes));
        }
    }

    pub(super) fn wants_write(&self) -> bool {
        self.tls.wants_write()
    }

    /// Reads until `bytes` is full or there is nothing more; 0 at the end of the stream.
    pub(super) fn read(
        &mut self,
        bytes: &mut [u8],
        stream: &mut (impl Read + Write),
    ) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(bytes) {
                Ok(count) => {
                    self.may_hold_more = count > 0;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The peer closed without a notice. A session recognises that by the bytes that are
                // missing.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) => return Err(error),
            }
            self.may_hold_more = false;
            if self.tls.read_tls(stream)? == 0 {
                return Ok(0);
            }
            let processed = self.tls.process_new_packets();
            // Answers of the handshake, and alerts when it fails.
            let sent = self.flush(stream);
            if let Err(error) = processed {
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
            // The names are set before the session reads the first decrypted byte.
            if !self.tls.is_handshaking() {
                let shown = self.tls.peer_certificates().unwrap_or_default();
                self.names.get_or_init(|| tls::names_of(shown));
            }
            match sent {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }

    /// Encrypts some of `pieces`, after the bytes encrypted before are sent.
    pub(super) fn write(
        &mut self,
        pieces: &[IoSlice<'_>],
        stream: &mut impl Write,
    ) -> io::Result<usize> {
        self.flush(stream)?;
        let count = self.tls.writer().write_vectored(pieces)?;
        match self.flush(stream) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(count),
        }
    }

    /// Sends the encrypted bytes that wait.
    pub(super) fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(stream)?;
        }
        Ok(())
    }

    /// Sends the closing notice as far as the socket takes it.
    pub(super) fn close(&mut self, stream: &mut impl Write) {
        self.tls.send_close_notify();
        // A peer that no longer reads is not waited for.
        let _ = self.flush(stream);
    }
}
