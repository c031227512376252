//! NBD, the network block device protocol, without I/O: it takes and returns bytes, and submits
//! operations to a [`everglade_target::Target`].
//!
//! Protocol text: `doc/proto.md` of NetworkBlockDevice/nbd, called *proto* below and cited by
//! section.
//!
//! Two layers, the lower usable without the upper:
//!
//! * [`wire`] turns messages into values and back. It checks everything, and keeps no state.
//! * [`session`] is one connection as a state machine. It says where the next bytes should be
//!   received, which bytes should be sent, and which operations the target should run.
//!   `session::options` answers options of the handshake, `session::transmission` requests.
//!
//! What is around the sessions of a reactor is the same for all protocols and is in
//! [`everglade_target::sessions`]: their table, network memory, time limits, and moving bytes
//! between them and non-blocking streams. The reactor (crate `server`) owns the sockets and decides
//! when.
//!
//! The life of one write: the reactor finds a socket readable and calls [`Sessions::receive`]; the
//! header lands in the session's staging buffer, is checked (`session::transmission::verdict`) and
//! admitted within the session's bounds and the table's memory; the payload lands in the pages of a
//! `WriteSpan`, copied if it came in the same read as its header, otherwise received in place; a
//! full slice is submitted to the target; the completion comes back through [`Sessions::complete`]
//! by its token; the last one queues the reply; [`Sessions::transmit`] sends all queued replies
//! with one gathered write.

pub mod metrics;
pub mod session;
pub mod wire;

pub use everglade_target::sessions::{
    AllowList, Caller, Interest, Memory, Received, SessionId, TlsMode,
};
pub use metrics::SessionMetrics;
pub use session::{Notes, Session, Settings};

/// The NBD sessions of a reactor.
pub type Sessions = everglade_target::sessions::Sessions<Session>;
