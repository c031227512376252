//! The state of gardening beside everything else ([`super::gardening`]).

/// What is under way, and when the next job is due.
#[derive(Debug)]
pub(super) struct Cleaning {
    pub(super) least_free_percent: u8,
    /// Every other cleaning is a rebalance.
    pub(super) rebalances: bool,
    /// A space map is made in the place of some of them.
    pub(super) maps_space: bool,
    /// A LUN that is put in order gets blocks of its own.
    pub(super) moves_unshare: bool,
    pub(super) turns: u32,
    /// Jobs that were asked for.
    pub(super) jobs: usize,
    /// The consistency point at which a job was last seen under way.
    pub(super) seen: u64,
    pub(super) is_asked: bool,
}

impl Cleaning {
    pub(super) fn new(least_free_percent: u8) -> Cleaning {
        Cleaning {
            least_free_percent,
            rebalances: false,
            maps_space: false,
            moves_unshare: false,
            turns: 0,
            jobs: 0,
            seen: 0,
            is_asked: false,
        }
    }
}
