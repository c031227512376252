//! The wire: messages to values and back. Everything is checked; nothing is kept.
//!
//! Texts: NVM Express base specification 2.0 (*base*), NVM command set specification 1.0 and
//! NVMe/TCP transport specification 1.0. All numbers are little-endian.
//!
//! | file | what |
//! | --- | --- |
//! | [`pdu`], [`digest`] | messages of the transport, and their digests |
//! | [`sqe`], [`cqe`], [`status`], [`opcode`] | commands and completions |
//! | [`fabrics`], [`nqn`] | joining a connection to a queue; names |
//! | [`identify`], [`log_page`], [`feature`] | what hosts ask a controller |

pub mod cqe;
pub mod digest;
pub mod fabrics;
pub mod feature;
pub(crate) mod fields;
pub mod identify;
pub mod log_page;
pub mod nqn;
pub mod opcode;
pub mod pdu;
pub mod sqe;
pub mod status;

pub use cqe::Completion;
pub use digest::Digests;
pub use fabrics::{Connect, ConnectData};
pub use pdu::{CommonHeader, DataHeader, Fatal, Initialize, Layout, PduKind};
pub use sqe::{Command, Sgl, SglKind};
pub use status::Status;
