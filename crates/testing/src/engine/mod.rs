//! The engine as the simulation sees it: how it is put on devices, started, asked, checked.
//!
//! All sizes are small, so that rare events are frequent: areas of 256 blocks instead of 32,768, so
//! that they fill, empty and move between states all the time; a few MiB of memory, so that the
//! dirty limit is reached and every page is evicted some time; consistency points several times a
//! second.

mod cleaning;
mod gardening;
mod growing;
mod growth;
mod leaving;
mod limiting;
mod maker;
mod removing;
mod replacement;
mod replacing;
mod server;

pub use growing::{BUSY, GrowthRecord};
pub use maker::{EngineMaker, Opening};
pub use replacing::{REFUSED, ReplacementRecord};
pub use server::EngineSystem;
