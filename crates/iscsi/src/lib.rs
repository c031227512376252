//! iSCSI without I/O: it takes and returns bytes, and submits operations to a
//! [`everglade_target::Target`].
//!
//! The texts: RFC 7143 for the transport; SPC-4 and SBC-3 for the commands; cited by section.
//!
//! | module | what |
//! | --- | --- |
//! | [`wire`] | messages as bytes, without state |
//! | [`names`] | names of targets, made from names of LUNs |
//! | [`login`] | who connects, to what, on which terms |
//! | [`scsi`] | commands of a disk: what they ask, and the answers that need no storage |
//! | [`node`] | what sessions of all reactors share |
//! | [`session`] | one connection as a state machine |
//!
//! Each LUN is a target of its own, and its logical unit is number 0 (decision 0042).
//!
//! The life of one write: its header lands in the session's staging buffer, is decoded
//! (`scsi::table`), checked and given memory (`session::full::command`); immediate data lands in
//! the pages of a `WriteSpan`; for the rest the session asks the initiator
//! (`session::full::data_out`), and receives it in place. When all of it is there it is one
//! operation of the target (`session::full::work`). The completion comes back by its token, and
//! queues the status (`session::full::running`), which is sent with everything else that is ready.

pub mod login;
pub mod metrics;
pub mod names;
pub mod node;
pub mod scsi;
pub mod session;
pub mod settings;
pub mod wire;

pub use metrics::SessionMetrics;
pub use node::Node;
pub use session::Session;
pub use settings::Settings;

/// The iSCSI sessions of a reactor.
pub type Sessions = everglade_target::sessions::Sessions<Session>;
