//! Messages of the protocol as values: parse and encode, for both ends.
//!
//! All numbers are big-endian (proto "Conventions"). Parsers take exactly the bytes of one message,
//! never panic and never allocate more than the bytes they were given; the values that they return
//! are well formed, but need not be permitted. The server uses one direction of each codec,
//! scripted peers use the other.
//!
//! ```text
//! server                                   client
//! greeting            18 bytes      ->
//!                                   <-     client flags         4 bytes
//!                                   <-     option header 16 bytes + data     (repeated)
//! option replies      20 bytes + data ->
//!    ... until EXPORT_NAME or GO succeeds
//!                                   <-     request 28 bytes (+ payload of a write)
//! simple reply        16 bytes (+ data of a read) ->
//!
//! or, if structured replies or extended headers were negotiated:
//!                                   <-     request 28 or 32 bytes (+ payload)
//! chunks              20 or 32 bytes + data ->         (one or more for a request)
//! ```

pub mod chunk;
pub mod context;
pub mod errno;
mod fields;
pub mod handshake;
pub mod info;
pub mod option;
pub mod request;
pub mod simple_reply;

pub use chunk::Chunk;
pub use context::ContextRequest;
pub use errno::Errno;
pub use handshake::{ClientFlags, Greeting};
pub use info::InfoRequest;
pub use option::{OptionHeader, OptionReply};
pub use request::{Command, Request};
pub use simple_reply::SimpleReply;

/// Longest string either side may send, in bytes (proto "Conventions").
pub const STRING_BYTES_MAX: usize = 4096;
