//! Home: the state that one aggregate's consistency points own. Only the aggregate's home reactor
//! uses it.

pub(crate) mod aggregate;
pub(crate) mod bases;
pub(crate) mod candidate;
pub(crate) mod catching_up;
pub(crate) mod find;
pub(crate) mod gardener;
pub(crate) mod leaving;
pub(crate) mod ledger;
pub(crate) mod parity_scrub;
pub(crate) mod publication;
pub(crate) mod rebalance;
pub(crate) mod removing;
pub(crate) mod run;
pub(crate) mod scrubbing;
pub(crate) mod site;
pub(crate) mod space_map;
pub(crate) mod stage;
pub(crate) mod stripes;
pub(crate) mod sweep;
pub(crate) mod volume;
