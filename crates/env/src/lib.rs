//! The interface of the server to the outside world: memory pages for I/O, devices, clock,
//! randomness, wake-ups.
//!
//! Everything nondeterministic comes in through this crate, shaped as *completions*: an operation
//! is submitted with a token, and its result is found by polling. Two implementations exist: real
//! threads with io_uring (or worker threads where io_uring is forbidden), and the seeded world of
//! `everglade-testing`. Nothing else in the workspace calls the operating system for these things.

mod action;
mod clock;
pub mod device;
pub mod disk;
mod gauge;
mod io_mode;
pub mod lock;
pub mod net;
pub mod outside;
pub mod page;
mod prefetch;
mod random;
pub mod reactor;
mod ring;
mod shared;
mod storage;
mod threads;
mod transfer;
mod waker;
mod workers;
pub mod world;

pub use device::{
    DEVICE_DURATION_BOUNDS, DeviceInfo, DeviceKind, Geometry, OpenError, RUN_BOUNDS, TrafficInfo,
};
pub use disk::{Completion, DeviceId, DiskError, Op};
pub use io_mode::{IoMode, IoReport};
pub use outside::{Nanos, Outside, SegmentFault, Storage};
pub use page::{Page, PageRef, pages_in_use};
pub use prefetch::prefetch;
pub use random::random_number;
pub use reactor::{Interest, Ready, Real};
pub use ring::RingSetup;
pub use world::{DeviceFiles, World, WorldError, WorldOptions};

/// Size of a block, of a page, and of every unit of device I/O, in bytes (B-03).
pub const BLOCK_SIZE: usize = 4096;
