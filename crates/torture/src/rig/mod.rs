//! Processes: the server under torture, and the device that loses its power.

mod daemon;
mod leftover;
mod power;
pub mod programs;

pub use daemon::{Daemon, Installation, Refusal};
pub use leftover::Loss;
pub use power::Power;
