//! Sockets of sessions, in memory.

use std::io::{self, Read};

/// Bytes, then the end or a pause.
pub(super) struct Piece<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) is_last: bool,
}

impl Read for Piece<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() && !self.is_last {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.bytes.read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        if self.bytes.is_empty() && !self.is_last {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.bytes.read_vectored(buffers)
    }
}

/// Takes everything.
pub(super) struct Count(pub(super) usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        self.0 += bytes;
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
