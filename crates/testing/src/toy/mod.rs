//! The smallest server that keeps its promises, with bugs that can be switched on.
//!
//! The toy tests the judges: without a bug every simulation of it must pass, with any of its bugs
//! some simulation must fail, or the harness is blind. The toy is also the shortest example of a
//! `System`.
//!
//! Everything lives in memory; each change appends one record to a log that starts at block 0 of
//! the only device (`record`). A flush waits until all earlier records are written, flushes the
//! device, and answers. Mounting reads records until one does not fit: each carries a check over
//! itself, its payload, and the check of its predecessor, so the records found are a prefix of the
//! operations. A number drawn at each mount is part of it, so that an old record never fits behind
//! a new one that happens to be equal to the old one's predecessor. The log is never cleaned, and
//! can become full.

mod core;
mod record;
mod server;

pub use server::{Toy, ToyMaker};

/// A mistake to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Flushes are answered without flushing the device.
    FlushWithoutFlush,
    /// The device is flushed without waiting for the writes to be flushed.
    FlushTooEarly,
    /// Durable writes are answered like others.
    ForgetsForceUnitAccess,
    /// Records are accepted behind any predecessor.
    NoChain,
    /// The payload of a record is not checked.
    NoPayloadCheck,
    /// Reads sometimes miss the last change.
    StaleRead,
    /// The second half of a write is seen later than the first.
    TornWrite,
    /// A discard takes the edges too.
    DiscardsEdges,
    /// Growth is not logged.
    ForgetsGrowth,
    /// One completion in many is lost.
    LosesCompletion,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Bug; 10] = [
        Bug::FlushWithoutFlush,
        Bug::FlushTooEarly,
        Bug::ForgetsForceUnitAccess,
        Bug::NoChain,
        Bug::NoPayloadCheck,
        Bug::StaleRead,
        Bug::TornWrite,
        Bug::DiscardsEdges,
        Bug::ForgetsGrowth,
        Bug::LosesCompletion,
    ];
}
