//! The data directory from outside: what is refused, that a refusal writes nothing, and what a
//! killed daemon leaves behind.

mod fronts;
mod line;
mod listening;
mod locking;
mod opening;
mod refusals;
mod world;
