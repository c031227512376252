//! Simulation tests: a seeded world, a reference model, workloads, and the judge that compares
//! them.
//!
//! seed → [`world`] (virtual time, simulated devices, power cuts, faults) → [`workload`] (requests
//! of clients and administrators) → [`system::System`] (the system under test: the engine, or the
//! toy) → [`model`] (the allowed reads, and the allowed states after a crash)
//!
//! One seed decides everything, so that a failure is a number. The code never reads the wall clock
//! or thread ids, and never iterates over a hash table. [`toy`] is a small correct server with bugs
//! that can be switched on: it proves that the judge acquits the innocent and convicts the guilty.

mod counts;
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
