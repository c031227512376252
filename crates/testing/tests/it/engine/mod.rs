//! The engine in the seeded world: short versions of what `sim` does for hours, and single cases.

mod catching_up;
mod changes;
mod clones;
mod conformance;
mod cutting;
mod deletion;
mod faults;
mod fixture;
mod golden;
mod growing;
mod grown_pool;
mod labels;
mod lives;
mod lun_clones;
mod lun_restores;
mod mirrors;
mod notes;
mod redirect;
mod renaming;
mod resizing;
mod rig;
mod rollbacks;
mod several;
mod space;
mod splits;
mod turns;
