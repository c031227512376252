//! The same client as a load generator: what durability costs (issue 3, "What it must reach").
//!
//! * [`flush`]: small writes with flushes, this server against `qemu-storage-daemon` on a raw file
//!   of the same disk, by turns.
//! * [`longest`]: the longest single request while consistency points run.
//! * [`recovery`]: the time from SIGKILL with a full half of the journal until clients are served
//!   again.

pub mod flush;
pub mod longest;
mod pattern;
mod peer;
pub mod recovery;
mod summary;

pub use pattern::Pattern;
pub use summary::Summary;
