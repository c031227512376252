//! Messages as bytes (RFC 7143 §11): values in, bytes out, and back. Everything is checked, and no
//! state is kept.
//!
//! | file | what |
//! | --- | --- |
//! | [`header`] | what all headers have: opcode, flags, lengths, fields at fixed places |
//! | [`request`] | what initiators send |
//! | [`response`] | what targets send |
//! | [`text`] | keys and values of login and text messages |
//! | [`digest`] | CRC32C of headers and data |

pub mod digest;
pub mod header;
pub mod request;
pub mod response;
pub mod text;

pub use header::{Bhs, Header};
pub use request::Request;
pub use response::{Numbers, Response};
