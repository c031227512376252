//! The load of a database that many users work with: the streams of SPC-1 (N-10).
//!
//! ```text
//! users (BSU, 50 requests/s each) ─▶ 8 streams in 3 stores ─▶ one order of requests by due time
//!    └▶ open loop: each goes out when it is due, whatever the answers take ([`run`])
//!         └▶ latency at several rates ─▶ the knee ([`knee`])
//! ```
//!
//! SPC-1 is a specification of the Storage Performance Council. Its streams are built here from
//! what is known in public about their shares, sizes and addresses: [`stream::STREAMS`]. The result
//! is no SPC-1 result, and must not be called one.
//!
//! Contents cannot be compressed or deduplicated.

pub mod aging;
pub mod generator;
pub mod knee;
pub mod run;
pub mod scatter;
pub mod search;
pub mod stream;
mod walk;
