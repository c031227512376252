//! The outside world as the server sees it: memory pages for I/O, devices, clock, randomness, wake-ups.
//!
//! Everything nondeterministic comes in through this crate, shaped as *completions*: an operation is
//! submitted with a token, and its result is found by polling. Two implementations exist: real threads
//! with io_uring (or worker threads where io_uring is forbidden), and the seeded world of
//! `everglade-testing`. Nothing else in the workspace calls the operating system for these things.

pub mod disk;
pub mod outside;
pub mod page;

pub use disk::{Completion, DeviceId, DiskError, Op};
pub use outside::{Nanos, Outside, Storage};
pub use page::{Page, PageRef};

/// Size of a block, of a page, and of every unit of device I/O, in bytes (B-03).
pub const BLOCK_SIZE: usize = 4096;
