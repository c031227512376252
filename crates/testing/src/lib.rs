//! How we know: a seeded world, a reference model, workloads, and the judge that compares them.
//!
//! seed → [`world`] (virtual time, simulated devices, power cuts, faults)
//!      → [`workload`] (what clients and administrators ask)
//!      → [`system::System`] (what is being judged: the engine, or the toy)
//!      → [`model`] (what may be read, and what a crash may leave)
//!
//! One seed decides everything, so that a failure is a number. Nothing here looks at the wall
//! clock, at thread ids, or iterates over a hash table. [`toy`] is a small correct server with bugs
//! that can be switched on: it proves that the judge acquits the innocent and convicts the guilty.

pub mod digest;
pub mod engine;
pub mod model;
pub mod rng;
pub mod seed;
pub mod sim;
pub mod system;
pub mod toy;
pub mod workload;
pub mod world;

pub use digest::Digest;
pub use rng::Rng;
pub use seed::Seed;
pub use world::SimWorld;
