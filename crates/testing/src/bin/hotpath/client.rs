//! The client's end of a connection: bytes of requests in, bytes of replies out, of which only the
//! number of replies is read while instructions are counted.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};

/// Both directions of a socket. A read returns the client's queued bytes; written bytes are counted
/// and dropped.
#[derive(Default)]
pub(crate) struct Wire {
    to_server: VecDeque<u8>,
    pub(crate) received_bytes: u64,
}

impl Wire {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.to_server.extend(bytes);
    }

    /// The handshake of a client that takes the export by name: fixed newstyle, simple replies.
    pub(crate) fn say_hello(&mut self, export: &str) {
        let length = u32::try_from(export.len()).expect("names are short");
        self.push(&3u32.to_be_bytes());
        self.push(b"IHAVEOPT");
        self.push(&1u32.to_be_bytes());
        self.push(&length.to_be_bytes());
        self.push(export.as_bytes());
    }

    pub(crate) fn ask(&mut self, command: u16, offset: u64, length: u32) {
        let mut header = [0; 28];
        header[..4].copy_from_slice(&0x2560_9513u32.to_be_bytes());
        header[6..8].copy_from_slice(&command.to_be_bytes());
        header[8..16].copy_from_slice(&offset.to_be_bytes());
        header[16..24].copy_from_slice(&offset.to_be_bytes());
        header[24..].copy_from_slice(&length.to_be_bytes());
        self.push(&header);
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.to_server.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut total = 0;
        for piece in pieces {
            // Costs as much as a queue of bytes: one or two copies.
            total += self.to_server.read(piece)?;
        }
        Ok(total)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let total = pieces.iter().map(|piece| piece.len()).sum();
        self.received_bytes += total as u64;
        Ok(total)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
