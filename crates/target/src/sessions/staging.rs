//! The buffer of a session for received bytes that do not go to pages directly: messages of the
//! handshake, request headers, and the payloads that arrive together with them.
//!
//! Between two receives it holds less than one message, unless the session is stalled (then nothing
//! is received). So moving the rest to the front is cheap, and there is always room for received
//! bytes.
//!
//! The buffer is allocated when bytes are expected. Its size depends on the number of sessions: the
//! more sessions there are, the smaller is the buffer of each ([`Staging::resize`]). The size
//! changes only while the buffer is empty.

use everglade_env::BLOCK_SIZE;

/// Bytes received and not yet interpreted.
#[derive(Debug, Default)]
pub struct Staging {
    memory: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Staging {
    /// Returns the size of the buffer of a session: `usual` bytes, or `allowed` if these are fewer,
    /// but at least `least`. Only whole pages of `allowed` count, so that the size seldom changes
    /// when sessions come and go.
    #[must_use]
    pub fn size_within(usual: usize, allowed: usize, least: usize) -> usize {
        let allowed = allowed - allowed % BLOCK_SIZE;
        usual.min(allowed).max(least)
    }

    /// Resizes the buffer to this number of bytes, if it is empty.
    pub fn resize(&mut self, bytes: usize) {
        if self.end == 0 && self.memory.len() != bytes {
            // The old memory is free before there is new.
            self.memory = Box::default();
            self.memory = vec![0; bytes].into_boxed_slice();
        }
    }

    /// Puts back bytes that had found a place, which they have no more: less than a block.
    ///
    /// # Panics
    /// If the buffer holds bytes.
    pub fn put_back(&mut self, bytes: &[u8]) {
        assert!(self.end == 0, "nothing was received after them");
        // The buffer may have been released while the session rested.
        if self.memory.len() < 2 * BLOCK_SIZE {
            self.resize(2 * BLOCK_SIZE);
        }
        self.memory[..bytes.len()].copy_from_slice(bytes);
        self.end = bytes.len();
    }

    /// Returns the bytes that were received and not yet consumed.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    /// Removes the first `count` bytes, which have been interpreted.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn consume(&mut self, count: usize) {
        assert!(
            count <= self.end - self.start,
            "consumed more than was received"
        );
        self.start += count;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Consumes up to `count` bytes and returns how many there were.
    pub fn skip(&mut self, count: u32) -> u32 {
        let here = u32::try_from(self.bytes().len())
            .unwrap_or(u32::MAX)
            .min(count);
        self.consume(here as usize);
        here
    }

    /// Returns the free part of the buffer, to receive into.
    ///
    /// # Panics
    /// If the buffer is full.
    pub fn free(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.memory.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        assert!(self.end < self.memory.len(), "a reading session has room");
        &mut self.memory[self.end..]
    }

    /// Counts `count` bytes that were received into [`Self::free`].
    ///
    /// # Panics
    /// If there was less room.
    pub fn filled(&mut self, count: usize) {
        assert!(
            count <= self.memory.len() - self.end,
            "received more than there was room for"
        );
        self.end += count;
    }
}
