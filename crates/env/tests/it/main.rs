//! Behaviour of the real world. What concerns device I/O runs over every way of doing it that the
//! host allows.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "small numbers, on 64-bit hosts"
)]

mod conformance;
mod devices;
mod forbidden;
mod growth;
mod lost;
mod net;
mod rig;
mod shortage;
mod waiting;
