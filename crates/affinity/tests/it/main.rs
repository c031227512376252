//! Races under shuttle: the crate's own modules, compiled again with shuttle's primitives.
//!
//! Shuttle runs the threads of a small world one at a time and switches between them at the
//! accesses of `sync`. Accesses are sequentially consistent there, and the protocol uses no weaker
//! ones where anything is decided, so what shuttle explores is what hardware can do.

#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used)]

#[path = "../../src/affinities.rs"]
mod affinities;
#[path = "../../src/class.rs"]
mod class;
#[path = "../../src/counters.rs"]
mod counters;
#[path = "../../src/node.rs"]
mod node;
#[path = "../../src/outcome.rs"]
mod outcome;
#[path = "../../src/partitioned.rs"]
mod partitioned;
#[path = "../../src/permit.rs"]
mod permit;
#[path = "../../src/queues.rs"]
mod queues;
#[path = "../../src/reactors.rs"]
mod reactors;
#[path = "../../src/shape.rs"]
mod shape;
#[path = "../../src/word.rs"]
mod word;

/// Replaces `src/sync.rs`.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
    pub(crate) use std::sync::TryLockError;
}

/// Exports of `src/lib.rs` that the modules name.
pub use affinities::{Affinities, Entry};
pub use class::{Class, Range, Stripe};
pub use outcome::{Gone, Granted, Stranded};
pub use permit::Permit;

mod races;
