//! The journal against a region in memory: every crash leaves the promised operations, and invalid
//! records are rejected.

mod crashes;
mod damage;
mod region;
mod room;
