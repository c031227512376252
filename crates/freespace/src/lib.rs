//! Free space in memory: which allocation areas are worth allocating from (D-12, D-13, E-26).
//!
//! The active map on media is the truth; what is here is a cache of scores that is rebuilt from
//! TopAA at start and corrected whenever a block of the map is written.

mod areas;

pub use areas::{Areas, Candidate, Standing};
