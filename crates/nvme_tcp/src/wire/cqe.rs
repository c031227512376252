//! Completions: completion queue entries of 16 bytes, in a response (NVMe base 2.0, "Completion
//! Queue Entry").
//!
//! | place | field |
//! | --- | --- |
//! | 0 | result, 8 bytes, by command |
//! | 8 | head of the submission queue, 2 bytes |
//! | 10 | submission queue, 2 bytes |
//! | 12 | command id, 2 bytes |
//! | 14 | status, 2 bytes, shifted by one bit |

use super::fields::{put, u16_at, u64_at};
use super::status::Status;

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// By command.
    pub result: u64,
    /// Head of the submission queue.
    pub queue_head: u16,
    /// The submission queue.
    pub queue: u16,
    /// The command's.
    pub command_id: u16,
    /// The outcome.
    pub status: Status,
}

impl Completion {
    /// Size on the wire.
    pub const BYTES: usize = 16;

    /// Parses the bytes.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Completion {
        Completion {
            result: u64_at(bytes, 0),
            queue_head: u16_at(bytes, 8),
            queue: u16_at(bytes, 10),
            command_id: u16_at(bytes, 12),
            status: Status::of_code(u16_at(bytes, 14) >> 1),
        }
    }

    /// Encodes the completion.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, &self.result.to_le_bytes());
        put(&mut bytes, 8, &self.queue_head.to_le_bytes());
        put(&mut bytes, 10, &self.queue.to_le_bytes());
        put(&mut bytes, 12, &self.command_id.to_le_bytes());
        put(&mut bytes, 14, &(self.status.code() << 1).to_le_bytes());
        bytes
    }
}
