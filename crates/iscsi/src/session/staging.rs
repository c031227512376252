//! The buffer for received bytes that do not go to pages directly: headers, texts, digests, and
//! data that arrives together with them.
//!
//! Between two receives it holds less than one message, unless the session is stalled (then nothing
//! is received). The buffer is allocated when bytes are expected, and its size changes only while
//! it is empty: the more sessions there are, the smaller is the buffer of each.

/// Bytes received and not yet interpreted.
#[derive(Default)]
pub(super) struct Staging {
    memory: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Staging {
    /// Resizes the buffer to this number of bytes, if it is empty.
    pub(super) fn resize(&mut self, bytes: usize) {
        if self.end == 0 && self.memory.len() != bytes {
            // The old memory is free before there is new.
            self.memory = Box::default();
            self.memory = vec![0; bytes].into_boxed_slice();
        }
    }

    /// Returns the bytes that were received and not yet consumed.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    /// Removes the first `count` bytes, which have been interpreted.
    pub(super) fn consume(&mut self, count: usize) {
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

    /// Returns the free part of the buffer, to receive into.
    pub(super) fn free(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.memory.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        assert!(self.end < self.memory.len(), "a reading session has room");
        &mut self.memory[self.end..]
    }

    /// Counts `count` bytes that were received into [`Self::free`].
    pub(super) fn filled(&mut self, count: usize) {
        assert!(
            count <= self.memory.len() - self.end,
            "received more than there was room for"
        );
        self.end += count;
    }
}
