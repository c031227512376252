//! The storage server as protocols see it: LUNs as arrays of bytes, with a contract.
//!
//! A protocol crate turns bytes from the wire into [`Op`]s, submits them with a token, and turns
//! [`Completion`]s back into bytes. It never learns about aggregates, volumes or blocks on media.
//!
//! The contract (K-01 … K-03, O-12, docs/design/design.md §5):
//!
//! 1. *Read after write*: once a write completed, every read submitted later, from any session,
//!    sees it or something newer.
//! 2. *One operation is atomic for readers*: a read overlapping a write or discard submitted as one
//!    [`Op`] sees all of it or nothing of it. An operation covers at most [`OP_BYTES_MAX`] for
//!    reads and writes; protocols cut larger requests into slices and execute them as bytes arrive.
//!    This includes [`Op::CompareAndWrite`], which reads and writes in one step.
//! 3. *Flush*: when a [`Op::Flush`] completes, every operation that completed before it was
//!    submitted, on any session, survives a crash. An operation with `durable` survives once it
//!    completes.
//! 4. Ranges are checked by the target: nothing beyond the LUN's size is ever touched.
//! 5. An operation that fails has either happened whole or not at all, except that a failed write
//!    may be visible until the next restart.
//!
//! What every protocol needs around its own state machine (numbering of connections, network
//! memory, time limits, moves between reactors) is in [`sessions`].

pub mod conformance;
pub mod error;
pub mod export;
pub mod extent;
pub mod identity;
pub mod model;
pub mod op;
pub mod reservations;
pub mod sessions;
pub mod span;

pub use error::Error;
pub use export::{Export, Image, Limits};
pub use extent::{Allocation, Extent, Extents};
pub use identity::Identity;
pub use op::{COMPARE_BYTES_MAX, Completion, LunHandle, OP_BYTES_MAX, Op, Reply, Target, Token};
pub use span::{ReadSpan, WriteSpan};
