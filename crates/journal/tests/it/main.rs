//! The journal against a region in memory: every crash leaves what was promised, and nothing else
//! passes.

mod crashes;
mod damage;
mod region;
mod room;
