//! NBD, the network block device protocol, without I/O: it takes and returns bytes, and submits
//! operations to a [`everglade_target::Target`].
//!
//! Protocol text: `doc/proto.md` of NetworkBlockDevice/nbd, called *proto* below and cited by
//! section.
//!
//! Three layers, each usable without the one above it:
//!
//! * [`wire`] turns messages into values and back. It checks everything, and keeps no state.
//! * [`session`] is one connection as a state machine. It says where the next bytes should be
//!   received, which bytes should be sent, and which operations the target should run.
//! * [`sessions`] joins the sessions of one reactor to one target, and [`server`] moves bytes
//!   between them and non-blocking streams. The reactor (crate `server`) owns the sockets and
//!   decides when this happens.
//!
//! The life of one write: the reactor finds a socket readable and calls [`Sessions::receive`]; the
//! header lands in the session's staging buffer, is checked (`session::transmission::verdict`) and
//! admitted within the session's bounds and the table's `memory`; the payload lands in the pages of
//! a `WriteSpan`, copied if it came in the same read as its header, otherwise received in place; a
//! full slice is submitted to the target; the completion comes back through [`Sessions::poll`] by
//! its token; the last one queues the reply; [`Sessions::transmit`] sends all queued replies with
//! one gathered write.

mod memory;
pub mod metrics;
pub mod server;
pub mod session;
pub mod sessions;
pub mod wire;

pub use memory::Memory;
pub use metrics::SessionMetrics;
pub use server::Received;
pub use session::{AllowList, Caller, Session, Settings, TlsMode};
pub use sessions::{Interest, Moving, SessionId, Sessions};
