//! Affinities: who may touch which part of the file system now. Implements A-04, A-07, and
//! the part of A-02 and A-03 that says a handler is inside one affinity from start to end. Range
//! affinities have nodes and routing (A-09), but no message enters them yet (decision 0003).
//!
//! File-system state is divided into a tree of partitions. A message inside a node excludes all
//! ancestors and descendants of the node; all other nodes may run. Partitioned state therefore
//! needs no locks: it lives in [`Partitioned`], which checks that its visitor is inside.
//!
//! ```text
//! let volume = VolumeAffinities::add(&affinities, &aggregate, STRIPES, RANGES)?;
//! match affinities.enter(reactor, volume.stripe(file, index), message) {
//!     Entry::Entered(permit) => {
//!         run(message, &permit);
//!         affinities.leave(permit, &mut granted);    // then post each of `granted` to its reactor
//!     }
//!     Entry::Queued => {}                            // comes back as `Granted`, permit included
//!     Entry::Gone => restart(message),               // the volume was removed meanwhile
//! }
//! ```
//!
//! Start reading at `affinities.rs`: the algorithm and why it is right. `queues.rs` has the policy.
//! Deliberately absent: threads, mailboxes, handlers and their suspension, which belong to the
//! engine.

mod affinities;
mod class;
mod counters;
mod node;
mod outcome;
mod partitioned;
mod permit;
mod queues;
mod reactors;
mod shape;
mod sync;
#[cfg(test)]
mod tests;
mod word;

pub use crate::affinities::{Affinities, Entry};
pub use crate::class::{
    Aggregate, AggregateVbn, Class, Contains, Kind, ParentOf, Range, Serial, Stripe, Volume,
    VolumeLogical, VolumeVbn,
};
pub use crate::counters::{Count, Counts};
pub use crate::node::{Affinity, Node};
pub use crate::outcome::{Gone, Granted, Stranded};
pub use crate::partitioned::Partitioned;
pub use crate::permit::{Covers, Lent, Permit};
pub use crate::shape::{AggregateAffinities, RANGES, STRIPES, STRIPES_ABLATION, VolumeAffinities};
