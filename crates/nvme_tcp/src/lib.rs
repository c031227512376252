//! NVMe over TCP without I/O: it takes and returns bytes, and submits operations to a
//! [`everglade_target::Target`].
//!
//! | room | what |
//! | --- | --- |
//! | [`wire`] | messages to values and back; it checks everything and keeps nothing |
//! | [`metrics`] | counters of one reactor's sessions |
//! | [`controllers`] | what the connections of one host share, on whatever reactors they are |
//! | [`session`] | one connection as a state machine: one queue of a controller |
//!
//! The life of one write: a message with a command lands in the session's staging buffer. The
//! command is judged (`session::judge`) and admitted within the bounds of the queue and the memory
//! of the table. If its data is in the message, the data lands in the pages of a `WriteSpan`.
//! Otherwise the session asks the host for the data at once, and takes memory when the data
//! arrives. A full span is submitted as one operation, so every write is atomic. The completion
//! comes back by its token, and queues the response.

pub mod controllers;
pub mod metrics;
pub mod session;
pub mod wire;

pub use controllers::Registry;
pub use metrics::SessionMetrics;
pub use session::{Session, Settings};

/// The sessions of a reactor.
pub type Sessions = everglade_target::sessions::Sessions<Session>;
