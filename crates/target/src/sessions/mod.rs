//! Sessions of clients: what every protocol needs around its own state machine, without I/O.
//!
//! A protocol crate implements [`Session`], one connection as a state machine, and [`Metrics`], its
//! counters. [`Sessions`] joins the sessions of one protocol on one reactor to one target; the
//! reactor owns the sockets and decides when.
//!
//! | file | what |
//! | --- | --- |
//! | `session` | what a table asks of a connection |
//! | `table` | the sessions of a table: bytes, completions, memory, time limits, moves to another table |
//! | `seats` | their numbers, which are part of the tokens of their operations |
//! | `staging` | the buffer of a session for bytes that have no place yet |
//! | `streams` | bytes between a session and a non-blocking stream |
//! | `memory`, `ledger` | one budget for what a table holds for its peers, and the account of a session |
//! | `caller` | who is at the other end, and what it may see |
//! | `metrics` | what was counted |
//! | `tally` | what was counted of one session |

pub mod caller;
pub mod ledger;
pub mod memory;
pub mod metrics;
pub mod seats;
pub mod session;
pub mod staging;
pub mod streams;
pub mod table;
pub mod tally;

pub use caller::{AllowList, Allowed, Caller, TlsMode};
pub use ledger::Ledger;
pub use memory::{Memory, MemorySnapshot};
pub use metrics::{Metrics, Snapshot};
pub use seats::{Owner, SessionId};
pub use session::{Common, Session, State};
pub use staging::Staging;
pub use streams::{Received, Sent};
pub use table::{Facts, Interest, Moving, Sessions};
pub use tally::{ByLun, Tally};
