//! The engine in the seeded world: short versions of what `sim` does for hours, and single cases.

mod catching_up;
mod changes;
mod cleaning;
mod clones;
mod comparing;
mod conformance;
mod cutting;
mod deletion;
mod faults;
mod fixture;
mod golden;
mod growing;
mod grown_pool;
mod labels;
mod layout;
mod lives;
mod lun_clones;
mod lun_restores;
mod mirrors;
mod modifying;
mod notes;
mod parity;
mod rebalance;
mod redirect;
mod removal;
mod renaming;
mod replacing;
mod resizing;
mod rig;
mod rollbacks;
mod several;
mod shares;
mod space;
mod space_map;
mod splits;
mod trash;
mod turns;

/// The number of cuts that a test judges: `most`, spread evenly over all of them. With
/// `EVERGLADE_WHOLE`, as in `cargo xtask sim --whole`, it is all of them.
fn share(most: usize) -> usize {
    match std::env::var_os("EVERGLADE_WHOLE") {
        Some(_) => usize::MAX,
        None => most,
    }
}
