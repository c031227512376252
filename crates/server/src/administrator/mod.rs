//! Requests of administrators: the inventory, changes and problems.
//!
//! [`Administrator`] has a method for each request of the REST interface. A file holds the methods
//! about one kind of object or of work. They ask the reactors by messages (`plane::control`) and
//! read what the engine publishes; a method that changes something returns when that is durable.
//! What a start needs besides (opening what is recorded, the first start) is here as well, because
//! it takes the same steps as an administrator's request.

#[expect(
    clippy::module_inception,
    reason = "the room is named after its central object"
)]
mod administrator;
mod allow;
mod candidates;
mod comparison;
pub(crate) mod copies;
pub(crate) mod creation;
mod deletion;
mod drives;
mod epochs;
pub(crate) mod first_start;
mod garden;
mod growing;
mod imagined;
pub(crate) mod incidents;
mod inventory;
pub(crate) mod joining;
mod kinds;
pub(crate) mod limits;
mod lun_clones;
mod mapping;
mod modifying;
mod moving;
pub(crate) mod opening;
mod patterns;
mod pauses;
pub(crate) mod points;
pub(crate) mod pools;
mod removing;
pub(crate) mod renaming;
mod repairs;
mod replacing;
mod report;
mod reservations;
mod room;
mod scan;
mod scanning;
mod scheduled;
mod scrub_rounds;
mod scrubs;
pub(crate) mod segments;
mod sessions;
mod snapshots;
mod space_map;
mod spares;
mod splits;
mod statistics;
mod trash;
mod unavailable;
mod units;
mod zeroing;

pub use administrator::{Administrator, Deleted};
pub use copies::LostCopy;
pub use deletion::Cleared;
pub(crate) use everglade_engine::PHASE_BOUNDS;
pub use first_start::refuse_full_host;
pub use inventory::EngineCounts;
#[cfg(test)]
pub(crate) use inventory::example;
pub use opening::{Accepted, Degraded};
pub(crate) use report::Notice;
pub(crate) use scrub_rounds::ScrubRounds;
pub(crate) use sessions::{DISCONNECT, Within};
pub(crate) use spares::SpareRounds;
pub(crate) use trash::{PURGE, TrashRounds};
